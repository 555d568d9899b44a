package summarize

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// run is one run.
type run struct {
	o        RunOptions
	req      *Request
	models   []*model
	deadline time.Time // zero when there is none
	chunks   int

	mu        sync.Mutex
	first     int // the first model that is not known to be dead
	used      int // calls begun
	calls     []Call
	opened    bool
	attempts  int
	redacted  int
	cacheLost bool
}

// model is a summarizer with what the run learned of it.
type model struct {
	Summarizer

	mu    sync.Mutex
	most  int  // tokens that the entries of a request may have; 0: not learned
	guess bool // most is a guess that no provider stated
}

// piece is something to be written by one request.
type piece struct {
	req     *Request // what is asked
	judge   *Request // what it is judged by
	guard   *GuardOptions
	purpose string
}

// text is an accepted text.
type text struct {
	text, by, prompt string
	verdict          Verdict
}

// errCut says that a piece is too long for the model that it came with.
var errCut = errors.New("the piece has to be cut")

// write has a piece written by the first model that can. The error is errCut
// when the piece has to be cut for the model that is returned with it.
func (r *run) write(ctx context.Context, p piece) (text, *model, error) {
	var last error
	r.mu.Lock()
	i := r.first
	r.mu.Unlock()
	_, entries := sizes(p.req, p.req.Items)
	for ; i < len(r.models); i++ {
		m := r.models[i]
		t, err := r.ask(ctx, m, p)
		if err == nil {
			return t, m, nil
		}
		if ctx.Err() != nil {
			return text{}, m, context.Cause(ctx)
		}
		last = err
		switch f := r.failure(err); f.Class {
		case Budget:
			return text{}, m, err
		case Overflow:
			if r.cut(m, f, p.req, entries) {
				return text{}, m, errCut
			}
		case Auth:
			r.mu.Lock()
			r.first = max(r.first, min(i+1, len(r.models)-1))
			r.mu.Unlock()
		}
	}
	return text{}, nil, last
}

// ask asks one model, again where that may help.
func (r *run) ask(ctx context.Context, m *model, p piece) (text, error) {
	req := *p.req
	m.mu.Lock()
	if req.most = 0; m.most > 0 {
		req.most = m.most + overhead(m, &req)
	}
	m.mu.Unlock()
	var last error
	for attempt := 0; ; attempt++ {
		if !r.take() {
			return text{}, &Failure{Class: Budget, Detail: fmt.Sprintf("more than %d calls are needed", r.o.MaxCalls), Err: last}
		}
		purpose := p.purpose
		if attempt > 0 {
			purpose = "retry"
		}
		t, err := r.once(ctx, m, p, &req, purpose)
		if err == nil {
			return t, nil
		}
		if ctx.Err() != nil {
			return text{}, context.Cause(ctx)
		}
		last = err
		f := r.failure(err)
		if attempt+1 >= r.o.Attempts {
			return text{}, err
		}
		switch {
		case f.Class.Corrective():
			req.Correction, req.Failed = correction(f), f.Class
			if (f.Class == Truncated || f.Class == Inflated) && req.MaxTokens > 0 {
				req.MaxTokens = max(1, req.MaxTokens*2/3)
			}
		case f.Class.Temporary():
			wait := max(r.backoff(attempt), f.RetryAfter)
			if !r.deadline.IsZero() && wait >= r.deadline.Sub(r.o.Now()) {
				return text{}, err // waiting would end in nothing
			}
			if wait > 0 {
				if err := r.o.Sleep(ctx, wait); err != nil {
					return text{}, err
				}
			}
		default:
			return text{}, err
		}
	}
}

func (r *run) backoff(attempt int) time.Duration {
	if r.o.Backoff < 0 {
		return 0
	}
	d := min(r.o.Backoff<<min(attempt, 16), 30*time.Second)
	return d/2 + time.Duration(r.o.Jitter()*float64(d/2))
}

// take counts a call that is about to be made.
func (r *run) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used >= r.o.MaxCalls {
		return false
	}
	r.used++
	return true
}

// once makes one request and judges its text.
func (r *run) once(ctx context.Context, m *model, p piece, req *Request, purpose string) (t text, err error) {
	var calls []Call
	ctx = context.WithValue(ctx, canceledKey{}, &calls)
	defer func() {
		for i := range calls {
			calls[i].Purpose = purpose
		}
		r.mu.Lock()
		r.calls = append(r.calls, calls...)
		if _, ours := m.Summarizer.(*llm); ours && len(calls) == 0 {
			r.used-- // it failed before it was sent
		}
		r.mu.Unlock()
	}()
	failed := func(err error) (text, error) {
		var f *Failure
		if errors.As(err, &f) && err != context.Cause(ctx) {
			calls = append(calls, f.Calls...)
		}
		return text{}, err
	}
	r.mu.Lock()
	r.attempts++
	attempt := r.attempts
	r.mu.Unlock()
	pending, err := ask("Open", func() (Pending, error) { return m.Open(ctx, req) })
	if err == nil && pending == nil {
		err = &Failure{Class: Invalid, Detail: "the summarizer's Open returned neither a summary nor an error"}
	}
	if err != nil {
		return failed(err)
	}
	if ctx.Err() != nil {
		pending.Cancel()
		return text{}, context.Cause(ctx)
	}
	r.open(m.Name(), attempt)
	sum, err := ask("Collect", func() (*Summary, error) { return pending.Collect(ctx) })
	if err == nil && sum == nil {
		err = &Failure{Class: Invalid, Detail: "the summarizer's Collect returned neither a summary nor an error"}
	}
	if err != nil {
		return failed(err)
	}
	calls = append(calls, sum.Calls...)
	guard := p.guard
	if _, embedded := m.Summarizer.(*extractive); embedded {
		// It quotes what there is, and of dull messages that is little.
		g := GuardOptions{}
		if guard != nil {
			g = *guard
		}
		g.NoFloor, g.embedded = true, true
		guard = &g
	}
	clean, v, err := Guard(sum.Text, p.judge, guard)
	if err != nil {
		if len(calls) > 0 {
			calls[len(calls)-1].Outcome = string(r.failure(err).Class)
		}
		return text{}, err
	}
	r.mu.Lock()
	r.redacted += sum.Redacted
	r.cacheLost = r.cacheLost || sum.CacheLost
	r.mu.Unlock()
	return text{text: clean, by: m.Name(), prompt: sum.Prompt, verdict: v}, nil
}

// ask calls a summarizer. Its panic is a failure, since it may come in a goroutine
// where nobody else could recover it; the value may quote the conversation, so only
// that of the runtime is told.
func ask[T any](method string, call func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			f := &Failure{Class: Invalid, Detail: fmt.Sprintf("the summarizer's %s panicked with a %T", method, p)}
			if cause, ok := p.(runtime.Error); ok {
				f.Err = cause
			}
			err = f
		}
	}()
	return call()
}

// open tells once that a request has been accepted.
func (r *run) open(name string, attempt int) {
	r.mu.Lock()
	first := !r.opened
	r.opened = true
	r.mu.Unlock()
	if first && r.o.Opened != nil {
		r.o.Opened(name, attempt)
	}
}

func (r *run) progress(stage string, done, total int) {
	if r.req.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.req.Progress(Progress{Stage: stage, Done: done, Total: total})
}

// fallback has the whole span written by the fallback, in one attempt.
func (r *run) fallback(ctx context.Context) (text, error) {
	req := *r.req
	r.chunks = 1
	return r.once(ctx, &model{Summarizer: r.o.Fallback}, piece{judge: r.req, guard: r.o.Guard}, &req, "fallback")
}
