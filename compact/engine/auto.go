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
	s := agent.Session
	if d.policy.ResultCap > 0 {
		pruned, err := e.prune(ctx, agent, func(v session.View) ([]shortened, error) {
			return e.oversized(s, v, v.Len(), d.policy.ResultCap)
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
	if d.trigger == compact.Pressure && d.tokens < d.threshold {
		return fail(compact.BelowThreshold, "%d tokens are below the threshold of %d", d.tokens, d.threshold)
	}
	if err := e.settled(ctx, s); err != nil {
		return err
	}
	if err := e.free(s); err != nil {
		return err
	}
	if d.trigger == compact.Pressure {
		var why *compact.Error
		if err := e.held(compact.HistoryOf(s), d.view, d.threshold); errors.As(err, &why) {
			// The answer is that of the attempt before, and no failure of this
			// one.
			out.Code, out.Reason = why.Code, why.Detail
			return nil
		}
	}
	if d.trigger == compact.ContextOverflow {
		return e.overflow(ctx, agent, d, out)
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
		pruned, perr := e.shrinkTail(ctx, agent, limit, sp)
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
	newest := x.Before(max(v.Len()-1, 0))
	pins := 0
	for i := range newest {
		if v.Pinned(v.Node(i).Seq) {
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

// shrinkTail shortens the results behind the span, the largest first, until a
// checkpoint has room below the threshold. It commits nothing when that cannot
// be reached.
func (e *Engine) shrinkTail(ctx context.Context, agent compact.Agent, threshold int, sp span) ([]compact.Pruned, error) {
	s := agent.Session
	room := threshold - minimumCheckpoint - max(threshold/20, 1)
	return e.prune(ctx, agent, func(v session.View) ([]shortened, error) {
		list, err := e.results(v, v.Len())
		if err != nil {
			return nil, err
		}
		from := sp.end
		if e.opts.Prune.Off { // then it is for the newest unit alone
			from = max(from, toolpairing.Of(v).Before(max(v.Len()-1, 0)))
		}
		var tailResults []int
		for _, i := range list {
			if i >= from {
				tailResults = append(tailResults, i)
			}
		}
		return e.fitResults(s, v, tailResults, remaining(v, sp)-room)
	})
}

func (e *Engine) overflow(ctx context.Context, agent compact.Agent, d decision, out *compact.Outcome) error {
	s := agent.Session
	// Only the newest unit has to stay; the tail that is counted in messages
	// stays where that leaves something to fold.
	wanted := d.policy.tail(d.base())
	newest := tail{tokens: 0, prompt: wanted.prompt}
	if wanted.tokens < 0 && wanted.messages > 0 {
		if _, err := choose(s, s.View(), wanted, 0, nil); err == nil {
			newest = wanted
		}
	}
	if !e.opts.Prune.Off {
		pruned, err := e.prune(ctx, agent, func(v session.View) ([]shortened, error) {
			return e.oversized(s, v, protectedFrom(v, 0), e.opts.Prune.OversizedTokens)
		})
		if err != nil {
			return err
		}
		out.Pruned = append(out.Pruned, pruned...)
	}
	sp, err := choose(s, s.View(), newest, 0, nil)
	limit := d.overflowLimit()
	if limit > 0 && remaining(s.View(), sp)+minimumCheckpoint >= limit {
		pruned, perr := e.shrinkTail(ctx, agent, limit, sp)
		if perr != nil {
			return perr
		}
		out.Pruned = append(out.Pruned, pruned...)
		if len(pruned) > 0 && total(s.View()) < limit {
			return nil
		}
		sp, err = choose(s, s.View(), newest, 0, nil)
		if remaining(s.View(), sp)+minimumCheckpoint >= limit {
			limit = 0 // it cannot be reached: reduce what can be reduced
		}
	}
	if err != nil {
		// Nothing can be folded: the newest results are what is left.
		pruned, perr := e.prune(ctx, agent, func(v session.View) ([]shortened, error) {
			return e.oversized(s, v, v.Len(), e.opts.Prune.OversizedTokens)
		})
		out.Pruned = append(out.Pruned, pruned...)
		if perr != nil || len(pruned) > 0 {
			return perr
		}
		return err
	}
	out.Result, err = e.attempt(ctx, agent, job{
		trigger: compact.ContextOverflow, limit: limit,
		choose: func(v session.View) (span, error) { return choose(agent.Session, v, newest, 0, nil) },
	})
	return err
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
