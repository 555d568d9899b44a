package lifecycle

import (
	"context"
	"sync"
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

	mu    sync.Mutex
	over  bool
	inner context.Context
	stop  context.CancelFunc
	lent  lentState
}

func (c *callContext) Deadline() (time.Time, bool) {
	if t, ok := c.Context.Deadline(); ok && t.Before(c.until) {
		return t, true
	}
	return c.until, true
}

func (c *callContext) ask() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.stop = context.WithDeadline(c.Context, c.until)
		if c.over {
			c.stop()
		}
	}
	return c.inner
}

func (c *callContext) Done() <-chan struct{} { return c.ask().Done() }
func (c *callContext) Err() error            { return c.ask().Err() }

// end cancels the context.
func (c *callContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.stop != nil {
		c.stop()
	}
}

// ended reports whether the callback is over or was left alone.
func (c *callContext) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}
