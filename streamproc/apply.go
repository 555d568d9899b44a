package streamproc

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

// Result is what a call of an Apply function committed.
type Result struct {
	// Mode is what was asked for.
	Mode Mode
	// Passes are the commits, in order; at least one.
	Passes []Pass
	// Before and After are the tokens of what was replaced and of the
	// checkpoints, Items how many items gave way.
	Before, After, Items int
	// Text is that of the checkpoints, with a blank line between.
	Text string
	// Calls are all requests of the summarizer.
	Calls   []summarize.Call
	Elapsed time.Duration
}

// Pass is one commit.
type Pass struct {
	// ID identifies the compaction, Version is the policy's word.
	ID, Version string
	Target      target.Target
	// Items of View gave way: the first ones.
	Items, View int
	// Before and After are their tokens and those of the checkpoint.
	Before, After int
	// Text is that of the checkpoint, reminder included; Record is what code
	// knows of it.
	Text   string
	Record Record
	// Fit says what the summarizer did not get to read; nil when it read all.
	Fit *FitPlan
	// Verdict is what the guard found, Redacted counts the secrets that were
	// kept back.
	Verdict  summarize.Verdict
	Redacted int
	Elapsed  time.Duration
}

// Apply compacts as the mode of the policy says.
func Apply[T any](ctx context.Context, p Processor[T], a Adapter[T], s summarize.Summarizer, opts *Options) (*Result, error) {
	return apply(ctx, p, a, s, opts, "")
}

// ApplySteps replaces the oldest steps of the running turn by one checkpoint
// and keeps the newest ones. An error leaves the host's state as it was.
func ApplySteps[T any](ctx context.Context, p Processor[T], a Adapter[T], s summarize.Summarizer, opts *Options) (*Result, error) {
	return apply(ctx, p, a, s, opts, StepsOnly)
}

// ApplyHistory replaces the oldest exchanges from before the running turn by
// one checkpoint and keeps the newest ones. An error leaves the host's state as
// it was.
func ApplyHistory[T any](ctx context.Context, p Processor[T], a Adapter[T], s summarize.Summarizer, opts *Options) (*Result, error) {
	return apply(ctx, p, a, s, opts, HistoryOnly)
}

// ApplyFullReplace replaces history and steps by one checkpoint; a unit whose
// calls are still running stays, with what follows it. An error leaves the
// host's state as it was.
func ApplyFullReplace[T any](ctx context.Context, p Processor[T], a Adapter[T], s summarize.Summarizer, opts *Options) (*Result, error) {
	return apply(ctx, p, a, s, opts, FullReplace)
}

// ApplyHistoryThenSteps compacts the history, and then the steps too if they
// still have more tokens than the policy's share of the history's. Nothing to
// compact in one of them is no error.
//
// These are two commits. When the second one fails, the first one stands: the
// result is then not nil beside the error and says what is durable, and the
// [*Error] says it, too, as Durable, with the part that failed as Target.
func ApplyHistoryThenSteps[T any](ctx context.Context, p Processor[T], a Adapter[T], s summarize.Summarizer, opts *Options) (*Result, error) {
	return apply(ctx, p, a, s, opts, HistoryThenSteps)
}

func apply[T any](ctx context.Context, p Processor[T], a Adapter[T], s summarize.Summarizer, opts *Options, mode Mode) (res *Result, err error) {
	var obs *Observer
	now := time.Now
	told := mode
	if opts != nil {
		obs = opts.Observer
		if opts.Now != nil {
			now = opts.Now
		}
		if told == "" {
			told = opts.Policy.Mode
		}
	}
	if told == "" {
		told = FullReplace
	}
	began := now()
	obs.started(told)
	done := false
	defer func() {
		if !done { // the host's code panicked: it goes on, and the pair is whole
			obs.ended(End{Status: Failed, Label: string(ApplyFailed), Result: res, Elapsed: now().Sub(began)})
			return
		}
		obs.ended(ending(res, err, now().Sub(began)))
	}()
	res, err = run(ctx, p, a, s, opts, mode)
	if res != nil {
		res.Elapsed = now().Sub(began)
	}
	done = true
	return res, err
}

func ending(res *Result, err error, elapsed time.Duration) End {
	e := End{Status: Succeeded, Label: Label(err), Result: res, Err: err, Elapsed: elapsed}
	var own *Error
	if errors.As(err, &own) {
		e.Target = own.Target
	}
	switch {
	case err == nil:
	case errors.Is(err, NothingToCompact):
		e.Status = Skipped
	case errors.Is(err, Cancelled):
		e.Status = Stopped
	default:
		e.Status = Failed
	}
	return e
}

func run[T any](ctx context.Context, p Processor[T], a Adapter[T], s summarize.Summarizer, opts *Options, mode Mode) (*Result, error) {
	o, err := opts.prepare(mode)
	if err != nil {
		return nil, err
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	if p == nil || s == nil {
		return nil, fail(InvalidOptions, 0, "a processor and a summarizer are required")
	}
	w := &work[T]{p: p, a: a, s: s, o: o}
	res := &Result{Mode: o.Policy.Mode}
	add := func(pass *Pass) {
		res.Passes = append(res.Passes, *pass)
		res.Before, res.After, res.Items = res.Before+pass.Before, res.After+pass.After, res.Items+pass.Items
		res.Calls = append(res.Calls, pass.Record.Calls...)
		res.Text = strings.TrimPrefix(res.Text+"\n\n"+pass.Text, "\n\n")
		o.Observer.committed(pass)
	}
	switch o.Policy.Mode {
	case StepsOnly, HistoryOnly, FullReplace:
		t := map[Mode]target.Target{StepsOnly: target.Steps, HistoryOnly: target.History, FullReplace: target.FullReplace}[o.Policy.Mode]
		pass, err := w.pass(ctx, t)
		if err != nil {
			return nil, err
		}
		add(pass)
		return res, nil
	}
	pass, first := w.pass(ctx, target.History)
	switch {
	case first == nil:
		add(pass)
	case !errors.Is(first, NothingToCompact):
		return nil, first
	}
	pass, err = w.stepsIfLarge(ctx)
	switch {
	case err == nil && pass != nil:
		add(pass)
	case err == nil, errors.Is(err, NothingToCompact):
		if len(res.Passes) == 0 {
			return nil, first
		}
	case len(res.Passes) == 0:
		return nil, err
	default:
		var own *Error
		if errors.As(err, &own) {
			own.Durable = res
		}
		return res, err
	}
	return res, nil
}

// stepsIfLarge compacts the steps if they have enough tokens beside what the
// history has now; nil without an error means that they have not.
func (w *work[T]) stepsIfLarge(ctx context.Context) (*Pass, error) {
	snap, err := w.both(ctx)
	if err != nil {
		return nil, err
	}
	var tokens [2]int
	for i, items := range [][]T{snap.History, snap.Steps} {
		list, err := w.entries(items, 0)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			tokens[i] += e.tokens
		}
	}
	if gate := math.Ceil(float64(tokens[0]) * w.o.Policy.StepsTriggerRatio); float64(tokens[1]) <= gate {
		return nil, nil
	}
	return w.pass(ctx, target.Steps)
}

// both reads history and steps apart.
func (w *work[T]) both(ctx context.Context) (Snapshot[T], error) {
	if _, ok := w.p.(Snapshotter[T]); ok {
		return w.read(ctx, target.Steps)
	}
	snap, err := w.read(ctx, target.History)
	if err != nil {
		return snap, err
	}
	steps, err := w.read(ctx, target.Steps)
	snap.Steps = steps.Steps
	return snap, err
}
