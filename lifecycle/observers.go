package lifecycle

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Slog is an observer that logs: a start at debug level, a completion at info,
// an abort at warning. It is safe for concurrent use.
type Slog struct{ log *slog.Logger }

// NewSlog returns an observer that logs to l.
func NewSlog(l *slog.Logger) *Slog { return &Slog{l} }

// OnCompaction implements [Observer]; the line is written by
// OnCompactionDetail.
func (s *Slog) OnCompaction(context.Context, Event) error { return nil }

// OnCompactionDetail implements [DetailObserver].
func (s *Slog) OnCompactionDetail(ctx context.Context, e Event, d Detail) error {
	level := slog.LevelInfo
	switch d.Outcome {
	case OutcomeStarted:
		level = slog.LevelDebug
	case OutcomeAborted:
		level = slog.LevelWarn
	}
	if !s.log.Enabled(ctx, level) {
		return nil
	}
	attrs := make([]slog.Attr, 0, 20)
	text := func(key, v string) {
		if v != "" {
			attrs = append(attrs, slog.String(key, v))
		}
	}
	number := func(key string, v int) {
		if v != 0 {
			attrs = append(attrs, slog.Int(key, v))
		}
	}
	text("transaction", e.TransactionID)
	text("rule", e.RuleID)
	text("evidence", string(e.Evidence))
	text("session", e.SessionID)
	text("branch", e.ALegID)
	text("trace", e.TraceID)
	text("trigger", d.Trigger)
	text("target", d.Target)
	text("code", d.Code)
	text("model", d.Model)
	text("summarizer", d.Summarizer)
	number("messages", d.Messages)
	number("tokens_before", d.TokensBefore)
	number("tokens_after", d.TokensAfter)
	number("calls", d.Calls)
	number("prompt_tokens", d.PromptTokens)
	number("completion_tokens", d.CompletionTokens)
	if d.Duration > 0 {
		attrs = append(attrs, slog.Duration("duration", d.Duration))
	}
	s.log.LogAttrs(ctx, level, "compaction "+string(d.Outcome), attrs...)
	return nil
}

// Channel is an observer that hands transitions to a channel. It never waits:
// what the channel has no room for is dropped and counted.
type Channel struct {
	mu      sync.RWMutex
	ch      chan Transition
	closed  bool
	dropped atomic.Uint64
}

// NewChannel returns an observer whose channel holds so many transitions, at
// least one.
func NewChannel(size int) *Channel { return &Channel{ch: make(chan Transition, max(size, 1))} }

// C returns the channel. It is closed by Close.
func (c *Channel) C() <-chan Transition { return c.ch }

// Dropped counts what was dropped, and what came after Close.
func (c *Channel) Dropped() uint64 { return c.dropped.Load() }

// Close closes the channel. A second Close does nothing.
func (c *Channel) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.ch)
	}
}

// OnCompaction implements [Observer]; the transition is handed over by
// OnCompactionDetail.
func (c *Channel) OnCompaction(context.Context, Event) error { return nil }

// OnCompactionDetail implements [DetailObserver].
func (c *Channel) OnCompactionDetail(_ context.Context, e Event, d Detail) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		c.dropped.Add(1)
		return nil
	}
	select {
	case c.ch <- Transition{e, d}:
	default:
		c.dropped.Add(1)
	}
	return nil
}
