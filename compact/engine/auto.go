package engine

import (
	"context"
	"errors"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// consider carries an automatic decision out. Why nothing was committed comes
// back as an error, also where that is no failure.
func (e *Engine) consider(ctx context.Context, agent compact.Agent, d decision, out *compact.Outcome) error {
	if d.trigger == compact.ContextOverflow {
		return e.overflow(ctx, agent, d, out)
	}
	s := agent.Session
	if d.policy.ResultCap > 0 {
		pruned, err := e.prune(ctx, agent, func(v session.View) ([]shortened, error) {
			return e.oversized(s, v, 0, v.Len(), d.policy.ResultCap)
		})
		if err != nil {
			return err
		}
		if len(pruned) > 0 {
			out.Pruned = append(out.Pruned, pruned...)
			d.view = s.View()
			d.tokens = d.reported(total(d.view))
		}
	}
	if d.tokens < d.threshold {
		return fail(compact.BelowThreshold, "%d tokens are below the threshold of %d", d.tokens, d.threshold)
	}
	if err := e.settled(ctx, s); err != nil {
		return err
	}
	if err := e.free(s); err != nil {
		return err
	}
	var why *compact.Error
	if err := e.held(compact.HistoryOf(s), d.view, d.threshold); errors.As(err, &why) {
		// The answer is that of the attempt before, and no failure of this one.
		out.Code, out.Reason = why.Code, why.Detail
		return nil
	}
	return e.pressure(ctx, agent, d, out)
}

// base is what ratios of the tail are a share of.
func (d decision) base() int {
	if d.window > 0 {
		return d.window
	}
	return d.threshold
}

func (e *Engine) pressure(ctx context.Context, agent compact.Agent, d decision, out *compact.Outcome) error {
	s := agent.Session
	wanted := d.policy.tail(d.base())
	limit := d.priced(d.threshold)
	if !e.opts.Prune.Off {
		enough := false
		pruned, err := e.prune(ctx, agent, func(v session.View) ([]shortened, error) {
			protect := e.opts.Prune.ProtectTokens
			if protect == 0 {
				protect = max(wanted.tokens, 0)
			}
			list, ok, err := e.relieve(s, v, protect, total(v), limit*pruneGoal/100)
			enough = ok
			return list, err
		})
		if err != nil {
			return err
		}
		out.Pruned = append(out.Pruned, pruned...)
		if len(pruned) > 0 && enough {
			return nil
		}
	}
	// What would remain must leave room for a checkpoint below the threshold;
	// a tail that is too large by itself has its results shortened.
	sp, err := choose(s, s.View(), wanted, 0, nil)
	if left := remaining(s.View(), sp); left+minimumCheckpoint >= limit {
		pruned, perr := e.prune(ctx, agent, func(v session.View) ([]shortened, error) { return e.inTail(s, v, limit, sp) })
		if perr != nil {
			return perr
		}
		out.Pruned = append(out.Pruned, pruned...)
		if len(pruned) > 0 {
			if total(s.View()) < limit {
				return nil
			}
			sp, err = choose(s, s.View(), wanted, 0, nil)
		}
	}
	if err != nil {
		var none *compact.Error
		v := s.View()
		if errors.As(err, &none) && none.Code == compact.NothingToCompact && wanted.tokens >= 0 {
			// There is pressure, and what counts in tokens is the tail itself.
			return e.floor(v, d, wanted, limit)
		}
		return err
	}
	if left := remaining(s.View(), sp); left+minimumCheckpoint >= limit {
		return e.floor(s.View(), d, wanted, limit)
	}
	out.Result, err = e.attempt(ctx, agent, job{
		trigger: compact.Pressure, limit: limit,
		choose: func(v session.View) (span, error) { return choose(agent.Session, v, wanted, 0, nil) },
	})
	return err
}

// pruneGoal is how far below the threshold, in percent of it, pruning has to
// get to be enough: one that ends right below would be made again at the next
// step, and each one costs the provider's cache.
const pruneGoal = 85

// minimumCheckpoint is the room below which no checkpoint is tried.
const minimumCheckpoint = 16

// remaining is what envelope, kept messages and tail cost when the span is gone.
func remaining(v session.View, sp span) int { return total(v) - sp.tokens }

// floor words why pressure cannot be relieved.
func (e *Engine) floor(v session.View, d decision, wanted tail, limit int) error {
	x := toolpairing.Of(v)
	newest := x.PassesBefore(max(v.Len()-1, 0))
	pins := 0
	for i := range newest {
		if v.Pinned(v.Node(i).Seq) || x.RunningAt(i) {
			pins += int(v.Node(i).Tokens)
		}
	}
	unit := v.Tokens(newest, v.Len())
	if least := v.EnvelopeTokens() + pins + unit; least >= limit {
		return fail(compact.Floor, "envelope (%d tokens), pins (%d) and newest unit (%d) alone are not below the threshold of %d",
			v.EnvelopeTokens(), pins, unit, limit)
	}
	return fail(compact.NoProgress, "with a tail of %s, compacting would not bring the session below the threshold of %d", wanted, d.threshold)
}

// inTail picks results behind the span to shorten, the largest first, until a
// checkpoint has room below the threshold. It picks nothing when that cannot be
// reached.
func (e *Engine) inTail(s *session.Session, v session.View, threshold int, sp span) ([]shortened, error) {
	room := threshold - minimumCheckpoint - max(threshold/20, 1)
	list, err := e.results(v, v.Len())
	if err != nil {
		return nil, err
	}
	from := sp.end
	if e.opts.Prune.Off { // then it is for the newest unit alone
		from = max(from, toolpairing.Of(v).PassesBefore(max(v.Len()-1, 0)))
	}
	var behind []int
	for _, i := range list {
		if i >= from {
			behind = append(behind, i)
		}
	}
	return e.fitResults(s, v, behind, remaining(v, sp)-room)
}

// overflow takes the lease, shortens tool results under it, and folds the rest
// if that was not enough: whoever runs a compaction already is not disturbed.
func (e *Engine) overflow(ctx context.Context, agent compact.Agent, d decision, out *compact.Outcome) error {
	o := flood{e: e, s: agent.Session, limit: d.overflowLimit(), resultCap: d.policy.ResultCap, wanted: d.policy.tail(d.base())}
	a, err := e.begin(ctx, agent, job{trigger: compact.ContextOverflow, choose: func(v session.View) (span, error) {
		sp, err := o.fold(v)
		if err == nil {
			return sp, nil
		}
		list, perr := o.newest(v)
		if perr != nil {
			return span{}, perr
		}
		if len(list) == 0 {
			return span{}, err
		}
		return spanAround(v, list)
	}})
	if err != nil {
		return err
	}
	defer a.release()
	enough, err := o.makeRoom(ctx, a, out)
	if err != nil {
		return a.end(ctx, err)
	}
	if enough {
		return nil // with its end in the log
	}
	out.Result, err = a.finish(ctx)
	return err
}

// flood is what an overflow goes by.
type flood struct {
	e         *Engine
	s         *session.Session
	limit     int // what the session should be below, in our prices; 0 for none
	resultCap int // by the policy; 0 for none
	wanted    tail
}

// fold selects what a summary would replace. Only the newest unit has to stay;
// the tail that is counted in messages stays where that leaves something to fold.
func (o flood) fold(v session.View) (span, error) {
	if o.wanted.tokens < 0 && o.wanted.messages > 0 {
		if sp, err := choose(o.s, v, o.wanted, 0, nil); err == nil {
			return sp, nil
		}
	}
	return choose(o.s, v, tail{tokens: 0, prompt: o.wanted.prompt}, 0, nil)
}

// makeRoom shortens tool results under the lease of the attempt and gives it the
// span and the limit of what is left to do. It reports whether nothing is: then
// the attempt has ended.
func (o flood) makeRoom(ctx context.Context, a *attempt, out *compact.Outcome) (enough bool, err error) {
	shorten := func(pick func(session.View) ([]shortened, bool, error)) (bool, error) {
		list, enough, err := a.prune(ctx, pick)
		out.Pruned = append(out.Pruned, list...)
		return enough, err
	}
	fold := func() (err error) {
		v := o.s.View()
		a.span, err = o.fold(v)
		a.view = v
		return err
	}
	tight := func() bool { return o.limit > 0 && remaining(a.view, a.span)+minimumCheckpoint >= o.limit }

	enough, err = shorten(func(v session.View) ([]shortened, bool, error) {
		if _, err := o.fold(v); err != nil {
			list, err := o.newest(v)
			return list, true, err
		}
		list, err := o.older(v)
		return list, false, err
	})
	if enough || err != nil {
		return enough, err
	}
	if err := fold(); err != nil {
		return false, fail(compact.Changed, "what was to be folded is gone: %v", err)
	}
	if tight() {
		enough, err = shorten(func(v session.View) ([]shortened, bool, error) {
			sp, _ := o.fold(v)
			list, err := o.e.inTail(o.s, v, o.limit, sp)
			return list, total(v)-savings(list) < o.limit, err
		})
		if enough || err != nil {
			return enough, err
		}
		if err := fold(); err != nil {
			return false, fail(compact.Changed, "what was to be folded is gone: %v", err)
		}
	}
	if !tight() { // else it cannot be reached: reduce what can be reduced
		a.limit = o.limit
	}
	return false, nil
}

// older picks what goes first: results above the cap of the policy, and before
// the newest unit those that are oversized.
func (o flood) older(v session.View) ([]shortened, error) {
	e := o.e
	from := protectedFrom(o.s, v, 0)
	if e.opts.Prune.Off {
		from = 0
	}
	list, err := e.oversized(o.s, v, 0, from, e.opts.Prune.limit(o.resultCap))
	if err != nil || o.resultCap == 0 {
		return list, err
	}
	capped, err := e.oversized(o.s, v, from, v.Len(), o.resultCap)
	return append(list, capped...), err
}

// newest picks what is left when nothing can be folded: as much of all results
// as makes the session fit, or all that are oversized where that is unknown or
// out of reach.
func (o flood) newest(v session.View) ([]shortened, error) {
	if o.limit > 0 && total(v)+minimumCheckpoint >= o.limit {
		if list, err := o.e.inTail(o.s, v, o.limit, span{}); err != nil || len(list) > 0 {
			return list, err
		}
	}
	return o.e.oversized(o.s, v, 0, v.Len(), o.e.opts.Prune.limit(o.resultCap))
}

// overflowLimit is what the session should be below after an overflow: the
// threshold of pressure, or the window where there is none, in our prices; 0
// when neither is known.
func (d decision) overflowLimit() int {
	limit := d.policy.threshold(d.window)
	if d.window > 0 && (limit == 0 || d.window < limit) {
		limit = d.window
	}
	return d.priced(limit)
}
