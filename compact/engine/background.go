package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

var _ compact.Background = (*Engine)(nil)

// behind is what an engine runs in the background for one session.
type behind struct {
	has   atomic.Bool // whether there is a run
	mu    sync.Mutex
	run   *behindRun
	stale int
}

type behindRun struct {
	ctx    context.Context
	cancel func()
	done   chan struct{} // closed when the goroutine is over
	a      *attempt
	c      *checkpoint // nil when it failed; read after done
}

func (r *behindRun) ready() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

type behindKey struct{ e *Engine }

func (e *Engine) behind(s *session.Session) *behind {
	return session.Derived(s, behindKey{e}, func() *behind { return new(behind) })
}

// StartBackground implements [compact.Background]. The goroutine that it starts
// ends with ctx, or when the summary is ready.
func (e *Engine) StartBackground(ctx context.Context, agent compact.Agent) (bool, error) {
	if agent.Session == nil {
		return false, errors.New("compaction: agent has no session")
	}
	if e.opts.AutoOff {
		return false, nil
	}
	d, err := e.decide(agent, compact.Pressure)
	if err != nil {
		return false, err
	}
	if d.tokens < int(e.opts.BackgroundRatio*float64(d.threshold)) {
		return false, nil
	}
	if e.held(compact.HistoryOf(agent.Session), d.view, d.threshold) != nil {
		return false, nil
	}
	b := e.behind(agent.Session)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != nil && (!b.run.ready() || b.run.c != nil) {
		return false, nil
	}
	wanted := d.policy.tail(d.base())
	a, err := e.begin(ctx, agent, job{
		trigger: compact.Behind, limit: d.priced(d.threshold),
		choose: func(v session.View) (span, error) { return choose(agent.Session, v, wanted, 0, nil) },
	})
	if err != nil {
		var own *compact.Error
		if errors.As(err, &own) && (quiet(own.Code) || own.Code == compact.Busy) {
			return false, nil
		}
		return false, err
	}
	r := &behindRun{a: a, done: make(chan struct{})}
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { b.abandon(r) })
	r.ctx, r.cancel = inner, func() { stop(); cancel() }
	b.run = r
	b.has.Store(true)
	go func() {
		defer close(r.done)
		c, err := a.write(r.ctx)
		if err != nil {
			_ = a.end(r.ctx, err) // the failure is in the log
			a.release()
			r.cancel()
			return
		}
		r.c = c
	}()
	return true, nil
}

// abandon ends a run whose context is over, so that a summary that nobody will
// ask for does not hold the lease.
func (b *behind) abandon(r *behindRun) {
	<-r.done
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != r {
		return
	}
	b.drop(r, cancelled(r.ctx))
}

// drop ends the run without a commit. b.mu is held, and the run is over.
func (b *behind) drop(r *behindRun, cause error) {
	b.run = nil
	b.has.Store(false)
	r.cancel()
	if r.c == nil {
		return
	}
	_ = r.a.end(context.WithoutCancel(r.ctx), cause)
	r.a.release()
}

// WaitBackground implements [compact.Background]. A summary that is ready is
// not committed by it.
func (e *Engine) WaitBackground(ctx context.Context, agent compact.Agent) error {
	b := e.behind(agent.Session)
	b.mu.Lock()
	r := b.run
	b.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return cancelled(ctx)
	}
}

// StaleBackground returns how many background summaries of the session this
// engine discarded because their span had changed.
func (e *Engine) StaleBackground(agent compact.Agent) int {
	b := e.behind(agent.Session)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stale
}

// applyBackground commits a background summary that is ready. It returns nil
// when there is none, or when it was stale. busy is true while one is being
// made; interrupt gives that up. A summary of a span that is in the way is
// discarded; inTheWay may be nil.
func (e *Engine) applyBackground(ctx context.Context, agent compact.Agent, interrupt bool, inTheWay func(span) bool) (r *compact.Result, busy bool, err error) {
	b := e.behind(agent.Session)
	b.mu.Lock()
	defer b.mu.Unlock()
	run := b.run
	if run == nil {
		return nil, false, nil
	}
	if !run.ready() {
		if !interrupt {
			return nil, true, nil
		}
		run.cancel()
		<-run.done
	}
	if cause := cancelled(run.ctx); cause != nil || run.c == nil {
		b.drop(run, cause)
		return nil, false, nil
	}
	if inTheWay != nil && inTheWay(run.a.span) {
		b.drop(run, fail(compact.Changed, "somebody compacts a part of the span"))
		b.stale++
		return nil, false, nil
	}
	b.run = nil
	b.has.Store(false)
	defer run.cancel()
	defer run.a.release()
	res, err := run.a.commit(ctx, run.c)
	if err == nil {
		return res, false, nil
	}
	err = run.a.end(ctx, err)
	if errors.Is(err, compact.Changed) {
		b.stale++
		return nil, false, nil
	}
	return nil, false, err
}
