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
	ctx     context.Context
	cancel  context.CancelCauseFunc
	release func()        // of what watches the caller's context
	done    chan struct{} // closed when the goroutine is over
	a       *attempt
	c       *checkpoint // nil when it failed; read after done
	gaveWay bool        // something that cannot wait takes its place
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
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() { b.abandon(r) })
	r.release = func() { stop(); r.cancel(nil) }
	b.run = r
	b.has.Store(true)
	go func() {
		defer close(r.done)
		c, err := a.write(r.ctx)
		if err == nil {
			err = cancelled(r.ctx)
		}
		if err != nil {
			_ = a.end(r.ctx, err) // the failure is in the log
			a.release()
			r.release()
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
	r.release()
	if r.gaveWay {
		b.stale++
	}
	if r.c == nil {
		return
	}
	_ = r.a.end(context.WithoutCancel(r.ctx), cause)
	r.a.release()
}

// WaitBackground implements [compact.Background]. A summary that is ready is
// not committed by it.
func (e *Engine) WaitBackground(ctx context.Context, agent compact.Agent) error {
	if agent.Session == nil {
		return errors.New("compaction: agent has no session")
	}
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

// ApplyBackground commits a background summary that is ready and starts nothing.
// It returns nil when there is none, when it is still being made, and when its
// span is not there any more; the next check does the same before it decides.
func (e *Engine) ApplyBackground(ctx context.Context, agent compact.Agent) (*compact.Result, error) {
	if agent.Session == nil {
		return nil, errors.New("compaction: agent has no session")
	}
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	r, _, err := e.applyReady(ctx, agent.Session, nil)
	return r, err
}

// StaleBackground returns how many background runs of the session this engine
// discarded: their span had changed, or something that cannot wait took their
// place.
func (e *Engine) StaleBackground(agent compact.Agent) int {
	b := e.behind(agent.Session)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stale
}

// applyReady commits a background summary that is ready. It returns nil when
// there is none, or when it was stale; making is true while one is being made. A
// summary of a span that is in the way is discarded; inTheWay may be nil.
func (e *Engine) applyReady(ctx context.Context, s *session.Session, inTheWay func(span) bool) (r *compact.Result, making bool, err error) {
	b := e.behind(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	run := b.run
	if run == nil {
		return nil, false, nil
	}
	if !run.ready() {
		return nil, true, nil
	}
	if cause := cancelled(run.ctx); cause != nil || run.c == nil {
		b.drop(run, cause)
		return nil, false, nil
	}
	if inTheWay != nil && inTheWay(run.a.span) {
		run.gaveWay = true
		b.drop(run, fail(compact.Changed, "somebody compacts a part of the span"))
		return nil, false, nil
	}
	b.run = nil
	b.has.Store(false)
	defer run.release()
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

// supersede gives up the background run that is under way, if there is one, and
// waits for its end in the log: why says for what, in its words.
func (e *Engine) supersede(ctx context.Context, s *session.Session, why string) error {
	b := e.behind(s)
	b.mu.Lock()
	run := b.run
	if run == nil {
		b.mu.Unlock()
		return nil
	}
	run.gaveWay = true
	b.mu.Unlock()
	run.cancel(errors.New(why))
	select {
	case <-run.done:
	case <-ctx.Done(): // its summarizer does not listen
		return cancelled(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run == run {
		b.drop(run, cancelled(run.ctx))
	}
	return nil
}

// byHand does what somebody asked for, which needs the lease. A background run of
// this engine does not keep it busy: a summary that is ready is committed first,
// or discarded when it is in the way, and one that is being made is given up. do
// checks what was asked for before it asks for the lease, so what is refused
// disturbs nobody.
func (e *Engine) byHand(ctx context.Context, s *session.Session, inTheWay func(span) bool, do func() error) (ready *compact.Result, err error) {
	for {
		err := do()
		if !errors.Is(err, compact.Busy) || !e.behind(s).has.Load() {
			return ready, err
		}
		r, making, err := e.applyReady(ctx, s, inTheWay)
		if err != nil {
			return ready, err
		}
		if r != nil {
			ready = r
		}
		if making {
			if err := e.supersede(ctx, s, "somebody asked for something else"); err != nil {
				return ready, err
			}
		}
	}
}

// attemptByHand makes a compaction that somebody asked for. Without inTheWay, what
// the background made is a part of it, and the result when nothing else is left to
// do.
func (e *Engine) attemptByHand(ctx context.Context, agent compact.Agent, j job, inTheWay func(span) bool) (r *compact.Result, err error) {
	var ready *compact.Result
	if inTheWay == nil {
		if ready, _, err = e.applyReady(ctx, agent.Session, nil); err != nil {
			return nil, err
		}
	}
	late, err := e.byHand(ctx, agent.Session, inTheWay, func() error {
		r, err = e.attempt(ctx, agent, j)
		return err
	})
	if late != nil {
		ready = late
	}
	if ready != nil && inTheWay == nil && errors.Is(err, compact.NothingToCompact) {
		return ready, nil
	}
	return r, err
}

// overlapping says of a span whether it has messages of the one that the job
// would choose now.
func (j job) overlapping(s *session.Session) func(span) bool {
	return func(other span) bool {
		own, err := j.choose(s.View())
		return err == nil && own.overlaps(other)
	}
}
