package lifecycle

import "context"

// Exchange is one request and its response as they pass through somebody who
// does not compact, such as a gateway: preservers see and change them, and what
// a detector finds is told to everybody. A nil Exchange does nothing.
//
// The methods are called in this order: BeforeRequest; then RequestOpened or
// RequestOpenFailed; then BeforeRelease and AfterRelease for each piece that is
// handed to the client.
type Exchange[C, R any] struct{ run *Run[C, R] }

// Exchange returns an exchange, nil for a nil dispatcher. Of info, Meta and
// State count.
func (d *Dispatcher[C, R]) Exchange(info RunInfo) *Exchange[C, R] {
	if d == nil {
		return nil
	}
	return &Exchange[C, R]{&Run[C, R]{d: d, info: info}}
}

// meta is the metadata with what a preview or an event adds.
func meta(m PreservationMeta, rule, transaction string, ev Evidence) PreservationMeta {
	if rule != "" {
		m.RuleID, m.TransactionID, m.Evidence = rule, transaction, ev
	}
	return m
}

// BeforeRequest lets preservers see and change what is about to be sent, with
// what a detector makes of it. check is as in [Run.BeforeRequest]; so is the
// error.
func (x *Exchange[C, R]) BeforeRequest(ctx context.Context, call *C, p RequestPreview, check func(C) error) error {
	if x == nil || len(x.run.d.keepers) == 0 {
		return nil
	}
	m := meta(x.run.info.Meta, p.RuleID, p.TransactionID, p.Evidence)
	return change(ctx, changing[C, R, C]{
		run: x.run, stage: StageBeforeRequest, live: call, codec: &x.run.d.opts.Call, check: check,
		call: func(ctx context.Context, k *keeper[C, R], scratch *C, s Services) error {
			return k.BeforeRequest(ctx, scratch, p, m, s)
		},
	})
}

// RequestOpened tells that the request was accepted, and what that showed:
// first the preservers, then the observers.
func (x *Exchange[C, R]) RequestOpened(ctx context.Context, call C, found []Transition) {
	if x == nil {
		return
	}
	m := x.run.info.Meta
	var events []Event
	for _, t := range found {
		m = meta(m, t.Event.RuleID, t.Event.TransactionID, t.Event.Evidence)
		if t.Detail.Outcome != OutcomeAborted {
			events = append(events, t.Event)
		}
	}
	x.run.d.tell(ctx, &telling[C, R]{
		list: found,
		run:  x.run, stage: StageRequestOpened,
		tell: func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.RequestOpened(ctx, x.run.d.opts.Call.Clone(call), append([]Event(nil), events...), m, s)
		},
	})
}

// RequestOpenFailed tells the preservers that no request was accepted.
func (x *Exchange[C, R]) RequestOpenFailed(ctx context.Context) {
	if x == nil {
		return
	}
	x.run.d.tell(ctx, &telling[C, R]{
		run: x.run, stage: StageRequestOpenFailed, last: true,
		has: func(k *keeper[C, R]) bool { return k.failed != nil },
		tell: func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.failed.RequestOpenFailed(ctx, x.run.info.Meta, s)
		},
	})
}

// BeforeRelease lets preservers see and change what is about to be released,
// with what a detector makes of it. check and error are as in
// [Run.BeforeRelease].
func (x *Exchange[C, R]) BeforeRelease(ctx context.Context, result *R, p ResponsePreview, check func(R) error) error {
	if x == nil || len(x.run.d.keepers) == 0 {
		return nil
	}
	m := meta(x.run.info.Meta, p.RuleID, p.TransactionID, p.Evidence)
	return change(ctx, changing[C, R, R]{
		run: x.run, stage: StageBeforeRelease, live: result, codec: &x.run.d.opts.Result, check: check,
		call: func(ctx context.Context, k *keeper[C, R], scratch *R, s Services) error {
			return k.BeforeResponseRelease(ctx, scratch, p, m, s)
		},
	})
}

// AfterRelease tells what was released, and what that showed: first the
// observers, then the preservers.
func (x *Exchange[C, R]) AfterRelease(ctx context.Context, result R, found []Transition) {
	if x == nil {
		return
	}
	m := x.run.info.Meta
	for _, t := range found {
		m = meta(m, t.Event.RuleID, t.Event.TransactionID, t.Event.Evidence)
	}
	x.run.d.tell(ctx, &telling[C, R]{
		list: found,
		run:  x.run, stage: StageAfterRelease, last: true,
		has: func(k *keeper[C, R]) bool { return k.after != nil },
		tell: func(ctx context.Context, k *keeper[C, R], s Services) error {
			return k.after.AfterResponseRelease(ctx, x.run.d.opts.Result.Clone(result), m, s)
		},
	})
}
