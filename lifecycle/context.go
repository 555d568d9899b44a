package lifecycle

import (
	"context"
	"sync/atomic"
	"time"
)

// Correlation says what a compaction belongs to, in the host's own identities.
type Correlation struct {
	SessionID string
	// Branch tells forks of one session apart; empty means the session itself.
	Branch string
	// TraceID is the host's trace; empty means the compaction's own id.
	TraceID string
}

type correlationKey struct{}

// WithCorrelation returns a context whose compactions carry c in their events.
func WithCorrelation(ctx context.Context, c Correlation) context.Context {
	return context.WithValue(ctx, correlationKey{}, c)
}

// CorrelationOf returns what [WithCorrelation] put in, or the zero value.
func CorrelationOf(ctx context.Context) Correlation {
	c, _ := ctx.Value(correlationKey{}).(Correlation)
	return c
}

type auxiliaryKey struct{}

// WithAuxiliary returns a context for work that a preserver started itself:
// no preserver is called in it.
func WithAuxiliary(ctx context.Context) context.Context {
	return context.WithValue(ctx, auxiliaryKey{}, true)
}

// IsAuxiliary reports whether ctx comes from [WithAuxiliary].
func IsAuxiliary(ctx context.Context) bool {
	on, _ := ctx.Value(auxiliaryKey{}).(bool)
	return on
}

// callContext is the context of one callback: that of the compaction with a
// deadline. It costs a timer only if somebody asks for Done.
type callContext struct {
	context.Context
	until time.Time

	over  atomic.Bool
	asked atomic.Pointer[timed] // nil until somebody asks
	lent  lentState
}

// timed is the context with a timer.
type timed struct {
	context.Context
	stop context.CancelFunc
}

func (c *callContext) Deadline() (time.Time, bool) {
	if t, ok := c.Context.Deadline(); ok && t.Before(c.until) {
		return t, true
	}
	return c.until, true
}

func (c *callContext) ask() context.Context {
	if t := c.asked.Load(); t != nil {
		return t
	}
	t := new(timed)
	t.Context, t.stop = context.WithDeadline(c.Context, c.until)
	if !c.asked.CompareAndSwap(nil, t) {
		t.stop()
		return c.asked.Load()
	}
	if c.over.Load() { // either this or end sees what the other one did
		t.stop()
	}
	return t
}

func (c *callContext) Done() <-chan struct{} { return c.ask().Done() }
func (c *callContext) Err() error            { return c.ask().Err() }

// end cancels the context.
func (c *callContext) end() {
	c.over.Store(true)
	if t := c.asked.Load(); t != nil {
		t.stop()
	}
}

// ended reports whether the callback is over or was left alone.
func (c *callContext) ended() bool { return c.over.Load() }
