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

// services returns what a callback of k with that context may use.
func (r *Run[C, R]) services(ctx context.Context, k *keeper[C, R]) Services {
	s := Services{BackgroundAux: r.d.opts.BackgroundAux}
	if cc, ok := ctx.(*callContext); ok && r.info.State != nil {
		cc.lent = lentState{store: r.info.State, owner: k.id, cc: cc}
		s.State = &cc.lent
	}
	return s
}

// notify calls a callback of each preserver that has it, as has says.
func (r *Run[C, R]) notify(ctx context.Context, st Stage, has func(k *keeper[C, R]) bool, cb func(ctx context.Context, k *keeper[C, R], s Services) error) {
	if len(r.d.keepers) == 0 || IsAuxiliary(ctx) {
		return
	}
	r.d.guard.run(ctx, steps{
		n: len(r.d.keepers),
		who: func(i int) (*owner, Stage) {
			if k := &r.d.keepers[i]; has(k) {
				return k.owner, st
			}
			return nil, ""
		},
		exec: func(ctx context.Context, i int) error {
			k := &r.d.keepers[i]
			return cb(ctx, k, r.services(ctx, k))
		},
	})
}

// change lets each preserver work on a copy of live and takes over what is
// valid. check is asked beside the codec; may be nil.
func change[C, R, T any](ctx context.Context, r *Run[C, R], st Stage, live *T, codec *Codec[T], check func(T) error,
	cb func(ctx context.Context, k *keeper[C, R], scratch *T, s Services) error) (err error) {
	if IsAuxiliary(ctx) {
		return nil
	}
	n := len(r.d.keepers)
	prior, results := make([]T, n), make([]T, n)
	r.d.guard.run(ctx, steps{
		n:    n,
		who:  func(i int) (*owner, Stage) { return r.d.keepers[i].owner, st },
		prep: func(i int) { prior[i] = *live },
		exec: func(ctx context.Context, i int) error {
			k := &r.d.keepers[i]
			scratch := new(T)
			*scratch = codec.Clone(prior[i])
			if err := cb(ctx, k, scratch, r.services(ctx, k)); err != nil {
				return err
			}
			results[i] = codec.Clone(*scratch) // whoever kept the pointer has the other one
			return nil
		},
		judge: func(i int, c Class, began time.Time) bool {
			k := &r.d.keepers[i]
			switch {
			case c == ClassVeto:
				err = &VetoError{ID: k.id}
				return true
			case c != classOK:
			case !accept(codec, check, live, results[i]):
				r.d.guard.settle(k.owner, st, ClassInvalid, began)
			default:
				k.recovered()
			}
			return false
		},
	})
	return err
}

// accept puts next in the place of live, unless it is invalid. A check that
// panics says so.
func accept[T any](codec *Codec[T], check func(T) error, live *T, next T) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if codec.Equal != nil && codec.Equal(*live, next) {
		return true
	}
	if codec.Validate != nil && codec.Validate(*live, next) != nil || check != nil && check(next) != nil {
		return false
	}
	*live = next
	return true
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
	return change(ctx, r, StageBeforeRequest, call, &r.d.opts.Call, check,
		func(ctx context.Context, k *keeper[C, R], scratch *C, s Services) error {
			return k.BeforeRequest(ctx, scratch, p, meta, s)
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
// leg identifies the request; it may be empty.
func (r *Run[C, R]) RequestOpened(ctx context.Context, call C, leg string) {
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
	r.opened = true
	r.first = r.event(PhaseStarted)
	first, meta := r.first, r.info.Meta
	r.mu.Unlock()
	r.notify(ctx, StageRequestOpened, func(*keeper[C, R]) bool { return true },
		func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.RequestOpened(ctx, r.d.opts.Call.Clone(call), []Event{first}, meta, s)
		})
	d := r.info.Detail
	d.Outcome = OutcomeStarted
	r.d.Emit(context.WithoutCancel(ctx), Transition{first, d})
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
	return change(ctx, r, StageBeforeRelease, result, &r.d.opts.Result, check,
		func(ctx context.Context, k *keeper[C, R], scratch *R, s Services) error {
			return k.BeforeResponseRelease(ctx, scratch, p, meta, s)
		})
}

// Committed tells that the result is durable: first the observers, then the
// preservers. It ends the run; ctx may have ended. fill completes the detail,
// and may be nil. A run that was never opened is told as completed only.
func (r *Run[C, R]) Committed(ctx context.Context, result R, fill func(*Detail)) {
	if !r.close() {
		return
	}
	ctx, meta := context.WithoutCancel(ctx), r.meta()
	r.d.Emit(ctx, Transition{r.event(PhaseCompleted), r.detail(OutcomeCompleted, fill)})
	r.notify(ctx, StageAfterRelease, func(k *keeper[C, R]) bool { return k.after != nil },
		func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.after.AfterResponseRelease(ctx, r.d.opts.Result.Clone(result), meta, s)
		})
}

// Close ends a run that was not committed, for the reason that code names: as
// aborted when it had been opened, and otherwise by telling the preservers
// that no request was accepted. After Committed it does nothing.
func (r *Run[C, R]) Close(ctx context.Context, code string, fill func(*Detail)) {
	if !r.close() {
		return
	}
	ctx, meta := context.WithoutCancel(ctx), r.meta()
	if !r.opened {
		if r.asked {
			r.notify(ctx, StageRequestOpenFailed, func(k *keeper[C, R]) bool { return k.failed != nil },
				func(ctx context.Context, k *keeper[C, R], s Services) error {
					return k.failed.RequestOpenFailed(ctx, meta, s)
				})
		}
		return
	}
	d := r.detail(OutcomeAborted, fill)
	d.Code = code
	r.d.Emit(ctx, Transition{r.first, d})
	r.notify(ctx, StageAborted, func(k *keeper[C, R]) bool { return k.aborted != nil },
		func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.aborted.Aborted(ctx, meta, code, s)
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
