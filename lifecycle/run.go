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

// services returns what a callback of k may use, and what takes it back.
func (r *Run[C, R]) services(k keeper[C, R]) (Services, func()) {
	s := Services{BackgroundAux: r.d.opts.BackgroundAux}
	if r.info.State == nil {
		return s, func() {}
	}
	lent := &lentState{State: r.info.State.Of(k.id)}
	s.State = lent
	return s, lent.revoke
}

// notify calls a callback of each preserver that has it.
func (r *Run[C, R]) notify(ctx context.Context, st Stage, fn func(k keeper[C, R]) func(context.Context, Services) error) {
	if IsAuxiliary(ctx) {
		return
	}
	for _, k := range r.d.keepers {
		if cb := fn(k); cb != nil {
			s, revoke := r.services(k)
			r.d.guard.call(ctx, k.owner, st, func(ctx context.Context) error { return cb(ctx, s) })
			revoke()
		}
	}
}

// change lets each preserver work on a copy of live and takes over what is
// valid. check is asked beside the codec; may be nil.
func change[C, R, T any](ctx context.Context, r *Run[C, R], st Stage, live *T, codec *Codec[T], check func(T) error,
	cb func(k keeper[C, R], ctx context.Context, scratch *T, s Services) error) error {
	if IsAuxiliary(ctx) {
		return nil
	}
	g := r.d.guard
	for _, k := range r.d.keepers {
		began := g.now()
		scratch := new(T)
		*scratch = codec.Clone(*live)
		var next T
		s, revoke := r.services(k)
		c := g.call(ctx, k.owner, st, func(ctx context.Context) error {
			if err := cb(k, ctx, scratch, s); err != nil {
				return err
			}
			next = codec.Clone(*scratch) // whoever kept the pointer has the other one
			return nil
		})
		revoke()
		switch c {
		case ClassVeto:
			return &VetoError{ID: k.id}
		case classOK:
		default:
			continue
		}
		switch {
		case codec.Equal != nil && codec.Equal(*live, next):
			k.recovered()
		case !valid(codec.Validate, check, *live, next):
			g.settle(k.owner, st, ClassInvalid, began)
		default:
			k.recovered()
			*live = next
		}
	}
	return nil
}

// valid judges a value; a check that panics says no.
func valid[T any](validate func(before, after T) error, check func(T) error, before, after T) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if validate != nil && validate(before, after) != nil {
		return false
	}
	return check == nil || check(after) == nil
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
	p := RequestPreview{Evidence: r.info.Meta.Evidence, RuleID: r.info.Meta.RuleID, Kind: PreviewStartCandidate, BoundaryFingerprint: r.info.Boundary}
	return change(ctx, r, StageBeforeRequest, call, &r.d.opts.Call, check,
		func(k keeper[C, R], ctx context.Context, scratch *C, s Services) error {
			return k.BeforeRequest(ctx, scratch, p, r.info.Meta, s)
		})
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
	first := r.first
	r.mu.Unlock()
	r.notify(ctx, StageRequestOpened, func(k keeper[C, R]) func(context.Context, Services) error {
		copied, events := r.d.opts.Call.Clone(call), []Event{first}
		return func(ctx context.Context, s Services) error {
			return k.RequestOpened(ctx, copied, events, r.info.Meta, s)
		}
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
	p := ResponsePreview{Evidence: r.info.Meta.Evidence, RuleID: r.info.Meta.RuleID, Kind: PreviewCompletionCandidate, TransactionID: r.info.Meta.TransactionID}
	return change(ctx, r, StageBeforeRelease, result, &r.d.opts.Result, check,
		func(k keeper[C, R], ctx context.Context, scratch *R, s Services) error {
			return k.BeforeResponseRelease(ctx, scratch, p, r.info.Meta, s)
		})
}

// Committed tells that the result is durable: first the observers, then the
// preservers. It ends the run; ctx may have ended. fill completes the detail,
// and may be nil. A run that was never opened is told as completed only.
func (r *Run[C, R]) Committed(ctx context.Context, result R, fill func(*Detail)) {
	if !r.close() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	r.d.Emit(ctx, Transition{r.event(PhaseCompleted), r.detail(OutcomeCompleted, fill)})
	r.notify(ctx, StageAfterRelease, func(k keeper[C, R]) func(context.Context, Services) error {
		after, ok := k.Preserver.(AfterResponseReleasePreserver[R])
		if !ok {
			return nil
		}
		copied := r.d.opts.Result.Clone(result)
		return func(ctx context.Context, s Services) error {
			return after.AfterResponseRelease(ctx, copied, r.info.Meta, s)
		}
	})
}

// Close ends a run that was not committed, for the reason that code names: as
// aborted when it had been opened, and otherwise by telling the preservers
// that no request was accepted. After Committed it does nothing.
func (r *Run[C, R]) Close(ctx context.Context, code string, fill func(*Detail)) {
	if !r.close() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if !r.opened {
		if r.asked {
			r.notify(ctx, StageRequestOpenFailed, func(k keeper[C, R]) func(context.Context, Services) error {
				failed, ok := k.Preserver.(RequestOpenFailedPreserver)
				if !ok {
					return nil
				}
				return func(ctx context.Context, s Services) error { return failed.RequestOpenFailed(ctx, r.info.Meta, s) }
			})
		}
		return
	}
	d := r.detail(OutcomeAborted, fill)
	d.Code = code
	r.d.Emit(ctx, Transition{r.first, d})
	r.notify(ctx, StageAborted, func(k keeper[C, R]) func(context.Context, Services) error {
		aborted, ok := k.Preserver.(AbortedPreserver)
		if !ok {
			return nil
		}
		return func(ctx context.Context, s Services) error { return aborted.Aborted(ctx, r.info.Meta, code, s) }
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
