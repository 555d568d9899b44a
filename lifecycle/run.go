package lifecycle

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// counts are the transitions that a dispatcher told of.
type counts struct{ started, completed, aborted atomic.Uint64 }

func (c *counts) count(o Outcome) {
	switch o {
	case OutcomeStarted:
		c.started.Add(1)
	case OutcomeCompleted:
		c.completed.Add(1)
	case OutcomeAborted:
		c.aborted.Add(1)
	}
}

// RunInfo says what a run is.
type RunInfo struct {
	// Meta is what events and preservers are told.
	Meta PreservationMeta
	// Boundary identifies what is compacted.
	Boundary string
	// Detail is what is known from the start: trigger, target, route.
	Detail Detail
	// State is the store of the session; nil means none. Preservers see the part
	// that is theirs.
	State StateStore
	// Began is when the run began; zero means now.
	Began time.Time
}

// Run is one compaction as its host performs it. The host calls
// [Run.BeforeRequest], then [Run.RequestOpened] when a request was accepted,
// [Run.BeforeRelease], and in the end [Run.Committed] or [Run.Close]; what was
// started then ends exactly once, whatever the order. A nil Run does nothing.
// Its methods are safe for concurrent use, but not meant to run side by side.
type Run[C, R any] struct {
	d    *Dispatcher[C, R]
	info RunInfo

	mu     sync.Mutex
	asked  bool // preservers saw the request
	opened bool
	closed bool
	first  Event // the event that started it
}

// Begin returns a run, nil for a nil dispatcher.
func (d *Dispatcher[C, R]) Begin(info RunInfo) *Run[C, R] {
	if d == nil {
		return nil
	}
	if info.Began.IsZero() {
		info.Began = d.opts.Now()
	}
	return &Run[C, R]{d: d, info: info}
}

func (r *Run[C, R]) event(p Phase) Event {
	m := &r.info.Meta
	return Event{
		Phase: p, Evidence: m.Evidence, RuleID: m.RuleID, TransactionID: m.TransactionID, TraceID: m.TraceID,
		ALegID: m.ALegID, BLegID: m.BLegID, AttemptSeq: m.AttemptSeq, SessionID: m.SessionID, OccurredAt: r.d.opts.Now(),
	}
}

// BeforeRequest lets the preservers see and change what is about to be sent.
// check judges a changed value beside the codec; it must be pure and may be
// nil. The error is a [*VetoError]: the compaction is called off.
func (r *Run[C, R]) BeforeRequest(ctx context.Context, call *C, check func(C) error) error {
	if r == nil || len(r.d.keepers) == 0 {
		return nil
	}
	r.mu.Lock()
	r.asked = true
	r.mu.Unlock()
	meta := r.meta()
	p := RequestPreview{Evidence: meta.Evidence, RuleID: meta.RuleID, Kind: PreviewStartCandidate, BoundaryFingerprint: r.info.Boundary}
	return change(ctx, changing[C, R, C]{
		run: r, stage: StageBeforeRequest, live: call, codec: &r.d.opts.Call, check: check,
		call: func(ctx context.Context, k *keeper[C, R], scratch *C, s Services) error {
			return k.BeforeRequest(ctx, scratch, p, meta, s)
		},
	})
}

// meta returns a copy of the metadata for callbacks, which may outlive their
// stage.
func (r *Run[C, R]) meta() PreservationMeta {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.info.Meta
}

// RequestOpened tells that a request was accepted: first the preservers, then
// the observers. Only the first call has an effect, and none after the end.
// leg identifies the request; it may be empty. attempt says which of the run's
// requests it is, from 1; 0 leaves what the run began with.
func (r *Run[C, R]) RequestOpened(ctx context.Context, call C, leg string, attempt int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	if r.opened || r.closed {
		r.mu.Unlock()
		return
	}
	if leg != "" {
		r.info.Meta.BLegID = leg
	}
	if attempt > 0 {
		r.info.Meta.AttemptSeq = attempt
	}
	r.opened = true
	r.first = r.event(PhaseStarted)
	r.mu.Unlock() // what callbacks read does not change after this
	t := Transition{r.first, r.info.Detail}
	t.Detail.Outcome = OutcomeStarted
	r.d.tell(ctx, &telling[C, R]{
		list: []Transition{t},
		run:  r, stage: StageRequestOpened,
		tell: func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.RequestOpened(ctx, r.d.opts.Call.Clone(call), []Event{r.first}, r.info.Meta, s)
		},
	})
}

// BeforeRelease lets the preservers see and change what is about to be kept.
// check judges a changed value beside the codec; it must be pure and may be
// nil. The error is a [*VetoError]: the compaction is called off.
func (r *Run[C, R]) BeforeRelease(ctx context.Context, result *R, check func(R) error) error {
	if r == nil || len(r.d.keepers) == 0 {
		return nil
	}
	meta := r.meta()
	p := ResponsePreview{Evidence: meta.Evidence, RuleID: meta.RuleID, Kind: PreviewCompletionCandidate, TransactionID: meta.TransactionID}
	return change(ctx, changing[C, R, R]{
		run: r, stage: StageBeforeRelease, live: result, codec: &r.d.opts.Result, check: check,
		call: func(ctx context.Context, k *keeper[C, R], scratch *R, s Services) error {
			return k.BeforeResponseRelease(ctx, scratch, p, meta, s)
		},
	})
}

// Committed tells that the result is durable: first the observers, then the
// preservers. It ends the run; ctx may have ended. fill completes the detail,
// and may be nil. A run that was never opened is told as completed only.
func (r *Run[C, R]) Committed(ctx context.Context, result R, fill func(*Detail)) {
	if !r.close() {
		return
	}
	r.d.tell(ctx, &telling[C, R]{
		list: []Transition{{r.event(PhaseCompleted), r.detail(OutcomeCompleted, fill)}},
		run:  r, stage: StageAfterRelease, last: true,
		has: func(k *keeper[C, R]) bool { return k.after != nil },
		tell: func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.after.AfterResponseRelease(ctx, r.d.opts.Result.Clone(result), r.info.Meta, s)
		},
	})
}

// Close ends a run that was not committed, for the reason that code names: as
// aborted when it had been opened, and otherwise by telling the preservers
// that no request was accepted. After Committed it does nothing.
func (r *Run[C, R]) Close(ctx context.Context, code string, fill func(*Detail)) {
	if !r.close() {
		return
	}
	if !r.opened {
		if r.asked {
			r.d.tell(ctx, &telling[C, R]{
				run: r, stage: StageRequestOpenFailed, last: true,
				has: func(k *keeper[C, R]) bool { return k.failed != nil },
				tell: func(ctx context.Context, k *keeper[C, R], s Services) error {
					return k.failed.RequestOpenFailed(ctx, r.info.Meta, s)
				},
			})
		}
		return
	}
	d := r.detail(OutcomeAborted, fill)
	d.Code = code
	r.d.tell(ctx, &telling[C, R]{
		list: []Transition{{r.first, d}},
		run:  r, stage: StageAborted, last: true,
		has: func(k *keeper[C, R]) bool { return k.aborted != nil },
		tell: func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.aborted.Aborted(ctx, r.info.Meta, code, s)
		},
	})
}

// close reports whether this call ends the run.
func (r *Run[C, R]) close() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.closed
	r.closed = true
	return !was
}

func (r *Run[C, R]) detail(o Outcome, fill func(*Detail)) Detail {
	d := r.info.Detail
	d.Duration = r.d.opts.Now().Sub(r.info.Began)
	if fill != nil {
		fill(&d)
	}
	d.Outcome = o
	return d
}
