package summarize

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/agentcompact/agentcompact/overflow"
)

// RunOptions configure [Run]. The zero value is a sound default.
type RunOptions struct {
	// Attempts is how many requests are made at most for one piece of text with
	// one model; 0 means 3.
	Attempts int
	// Parallel is how many requests run at once; 0 means 4.
	Parallel int
	// MaxCalls bounds all requests of the run, retries and failover included; 0
	// means 64. A run whose plan is larger fails before its first request.
	MaxCalls int
	// Deadline bounds the whole run: opening, reading, waiting and retries; 0
	// means five minutes, negative none. The fallback is not bound by it.
	Deadline time.Duration
	// Failover are asked in order, each for what the one before could not do.
	Failover []Summarizer
	// Fallback is asked when everything else failed; nil means nothing is. It
	// should be local: see [NewExtractive].
	Fallback Summarizer
	// Guard judges every text; nil is the default guard.
	Guard *GuardOptions
	// ChunkTokens bounds the entries of one request below what its window allows;
	// 0 means that the window decides.
	ChunkTokens int
	// Backoff is the first wait before a retry of a temporary failure; it doubles
	// from there, up to half a minute, and is jittered. 0 means half a second,
	// negative none.
	Backoff time.Duration
	// Opened is told once, when the first request has been accepted: by whom, and
	// which attempt of the run it is, from 1. May be nil.
	Opened func(summarizer string, attempt int)
	// Now, Sleep and Jitter (from 0 up to 1) are for tests; nil means the real
	// ones. Sleep returns the cause of ctx when that ends first.
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error
	Jitter func() float64
}

// Written is an accepted summary.
type Written struct {
	// Summary has the text as the guard accepted it, and all calls of the run.
	Summary
	Verdict Verdict
	// Summarizer is the name of the one that wrote the text.
	Summarizer string
	// Chunks is how many pieces the span was cut into; 1 when it was whole.
	Chunks int
	// Fallback reports that the fallback wrote it.
	Fallback bool
}

// ErrDeadline is wrapped by the failure of a run whose deadline passed.
var ErrDeadline = errors.New("the deadline of the summary passed")

// Run has a summary written and judged. A span that does not fit the window is
// cut at balanced cuts into chunks, which are summarized side by side and then
// reduced; a unit that does not fit alone is cut inside its text, and nothing is
// left out. A window that is unknown or wrong is learned from the refusal, and
// the work is planned anew by computation.
//
// What failed temporarily is asked again after a wait, what a corrected request
// may mend is asked again with the reason, each at most Attempts times; pieces
// that are done are kept. Then the failover models are asked, then the
// fallback.
//
// The error is a [*Failure] with all calls, or, when ctx ended, its cause; w
// then has the calls and no text. A run makes no request after ctx has ended
// and returns when those under way have.
func Run(ctx context.Context, s Summarizer, req *Request, opts *RunOptions) (w *Written, err error) {
	if s == nil || req == nil || req.Count == nil || len(req.Items) == 0 || req.MaxTokens < 0 {
		return nil, &Failure{Class: Invalid, Detail: "a run needs a summarizer, items, a counter and a budget"}
	}
	if err := context.Cause(ctx); err != nil {
		return &Written{}, err
	}
	r := newRun(s, req, opts)
	inner, cancel := context.WithCancel(ctx)
	if r.o.Deadline > 0 {
		inner, cancel = context.WithTimeoutCause(ctx, r.o.Deadline, ErrDeadline)
		r.deadline = r.o.Now().Add(r.o.Deadline)
	}
	defer cancel()
	t, err := r.whole(inner)
	fallback := false
	if err != nil && ctx.Err() == nil && r.o.Fallback != nil {
		t, err = r.fallback(ctx)
		fallback = err == nil
	}
	switch {
	case err == nil:
		return &Written{
			Summary: Summary{
				Text: t.text, Calls: r.calls, Prompt: t.prompt, CacheLost: r.cacheLost, Redacted: r.redacted,
			},
			Verdict: t.verdict, Summarizer: t.by, Chunks: max(1, r.chunks), Fallback: fallback,
		}, nil
	case ctx.Err() != nil:
		return &Written{Summary: Summary{Calls: r.calls}}, context.Cause(ctx)
	}
	f := r.failure(err)
	f.Calls = r.calls
	return nil, f
}

// PlanCalls returns how many requests a run makes if all goes well. It makes
// none.
func PlanCalls(s Summarizer, req *Request, opts *RunOptions) int {
	if s == nil || req == nil || req.Count == nil || len(req.Items) == 0 {
		return 0
	}
	return newRun(s, req, opts).planned()
}

func newRun(s Summarizer, req *Request, opts *RunOptions) *run {
	r := &run{req: sized(req)}
	if opts != nil {
		r.o = *opts
	}
	o := &r.o
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&o.Attempts, 3)
	def(&o.Parallel, 4)
	def(&o.MaxCalls, 64)
	if o.Deadline == 0 {
		o.Deadline = 5 * time.Minute
	}
	if o.Backoff == 0 {
		o.Backoff = 500 * time.Millisecond
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	for _, m := range append([]Summarizer{s}, o.Failover...) {
		r.models = append(r.models, &model{Summarizer: m})
	}
	return r
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failure returns the failure that err is.
func (r *run) failure(err error) *Failure {
	var f *Failure
	switch {
	case errors.As(err, &f):
		c := *f
		return &c
	case errors.Is(err, ErrDeadline):
		return &Failure{Class: Timeout, Detail: "after " + r.o.Deadline.String(), Err: ErrDeadline}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Failure{Class: Timeout, Err: err}
	}
	res := overflow.Classify(err)
	return &Failure{
		Class: classOf(res), Detail: res.Rule, Err: err, RetryAfter: res.RetryAfter, Limit: res.Limit, Actual: res.Actual,
	}
}
