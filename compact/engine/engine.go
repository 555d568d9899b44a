package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

// Engine is the default service. It is safe for concurrent use and serves any
// number of sessions.
type Engine struct {
	summarizer summarize.Summarizer
	opts       Options

	warned sync.Map // routes without a window that were logged
}

var (
	_ compact.Service    = (*Engine)(nil)
	_ compact.Considerer = (*Engine)(nil)
	_ compact.Manual     = (*Engine)(nil)
)

// New returns an engine that writes its checkpoints with s. The error names the
// option that does not fit.
func New(s summarize.Summarizer, opts *Options) (*Engine, error) {
	if s == nil {
		return nil, errors.New("engine: a summarizer is required")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return &Engine{summarizer: s, opts: o}, nil
}

// CompactIfNeeded implements [compact.Service].
func (e *Engine) CompactIfNeeded(ctx context.Context, agent compact.Agent, trigger compact.Trigger) (*compact.Result, error) {
	if trigger == compact.Pressure && agent.Session != nil && ctx.Err() == nil && e.calm(agent) {
		return nil, nil
	}
	out, err := e.Consider(ctx, agent, trigger)
	if err != nil {
		return nil, err
	}
	return out.Result, nil
}

// calm reports that there is nothing to do below the threshold, without the
// words of an outcome. It costs O(1) and allocates nothing.
func (e *Engine) calm(agent compact.Agent) bool {
	if e.opts.AutoOff {
		return true
	}
	if b := e.behind(agent.Session); b.has.Load() {
		return false
	}
	d, err := e.decide(agent, compact.Pressure)
	return err == nil && d.policy.ResultCap == 0 && d.tokens < d.threshold
}

// Consider implements [compact.Considerer].
func (e *Engine) Consider(ctx context.Context, agent compact.Agent, trigger compact.Trigger) (*compact.Outcome, error) {
	if trigger != compact.Pressure && trigger != compact.ContextOverflow {
		return nil, fmt.Errorf("compaction: trigger %q is not automatic: want %q or %q", trigger, compact.Pressure, compact.ContextOverflow)
	}
	if agent.Session == nil {
		return nil, errors.New("compaction: agent has no session")
	}
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	if e.opts.AutoOff {
		v := agent.Session.View()
		return &compact.Outcome{Code: compact.AutoOff, Reason: "automatic compaction is switched off",
			Tokens: Estimate(v), After: Estimate(v), GenerationBefore: v.Generation(), GenerationAfter: v.Generation()}, nil
	}
	ready, making, err := e.applyReady(ctx, agent.Session, nil)
	if err != nil {
		return nil, err
	}
	if making && trigger == compact.ContextOverflow {
		// The refused request does not wait for a summary that may be long in
		// coming; one that just came is discarded with it.
		if err := e.supersede(ctx, agent.Session, "the provider refused a request as too long"); err != nil {
			return nil, err
		}
		making = false
	}
	if ready != nil {
		d, _ := e.decide(agent, compact.ContextOverflow) // it needs no window
		p := d.policy.threshold(d.window)
		if trigger == compact.ContextOverflow {
			p = 0
		}
		return &compact.Outcome{Result: ready, Tokens: d.reported(ready.Before), After: d.tokens, Threshold: p, Window: d.window,
			RetryUseful: true, GenerationBefore: ready.GenerationBefore, GenerationAfter: d.view.Generation()}, nil
	}
	d, err := e.decide(agent, trigger)
	if err != nil {
		return nil, err
	}
	out := &compact.Outcome{Tokens: d.tokens, Threshold: d.threshold, Window: d.window, After: d.tokens,
		GenerationBefore: d.view.Generation(), GenerationAfter: d.view.Generation()}
	if making {
		out.Code, out.Reason = compact.Busy, "a summary is being made in the background"
		return out, nil
	}
	err = e.consider(ctx, agent, d, out)
	v := agent.Session.View()
	out.GenerationAfter = v.Generation()
	if out.GenerationAfter != out.GenerationBefore {
		out.After = d.reported(total(v))
		out.RetryUseful = total(v) < total(d.view)
	}
	var ce *compact.Error
	if errors.As(err, &ce) {
		ce.Written = ce.Written || len(out.Pruned) > 0
		if quiet(ce.Code) {
			out.Code, out.Reason = ce.Code, ce.Detail
			return out, nil
		}
		if trigger == compact.ContextOverflow && out.RetryUseful && ce.Code != compact.Cancelled {
			// Pruning alone made room: the request is worth another try.
			e.opts.Logger.Warn("compaction failed after pruning", "error", err)
			out.Code, out.Reason = ce.Code, ce.Error()
			return out, nil
		}
	}
	return out, err
}

// quiet reports whether the code is an answer rather than a failure of an
// automatic compaction.
func quiet(c compact.Code) bool {
	switch c {
	case compact.BelowThreshold, compact.NothingToCompact, compact.AutoOff, compact.NoProgress, compact.BreakerOpen, compact.Floor, compact.Vetoed:
		return true
	}
	return false
}

// CompactRegion implements [compact.Service].
func (e *Engine) CompactRegion(ctx context.Context, agent compact.Agent, start, end session.Seq) (*compact.Result, error) {
	if agent.Session == nil {
		return nil, errors.New("compaction: agent has no session")
	}
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	j := job{trigger: compact.Region, choose: func(v session.View) (span, error) {
		return region(agent.Session, v, start, end)
	}}
	return e.attemptByHand(ctx, agent, j, j.overlapping(agent.Session))
}

// CompactNow implements [compact.Manual].
func (e *Engine) CompactNow(ctx context.Context, agent compact.Agent, opts *compact.NowOptions) (*compact.Result, error) {
	if agent.Session == nil {
		return nil, errors.New("compaction: agent has no session")
	}
	if opts == nil {
		opts = new(compact.NowOptions)
	}
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	j := e.now(agent, *opts)
	if opts.Instructions == "" && len(opts.Keep) == 0 && opts.Target == 0 {
		return e.attemptByHand(ctx, agent, j, nil)
	}
	// A summary that was made without these wishes does not fulfill them.
	return e.attemptByHand(ctx, agent, j, j.overlapping(agent.Session))
}

// now is the job of a compaction by hand.
func (e *Engine) now(agent compact.Agent, opts compact.NowOptions) job {
	provider, model := agent.Route()
	p := e.opts.policy(provider, model)
	window, _ := e.window(agent)
	return job{
		trigger: compact.Now, target: opts.Target, instructions: opts.Instructions, policy: p.signature(),
		choose: func(v session.View) (span, error) {
			if p.TotalRatio > 0 {
				return p.chooseTotal(agent.Session, v, opts)
			}
			// By hand, what there is counts when the window is far larger.
			base := total(v)
			if window > 0 {
				base = min(base, window)
			}
			return choose(agent.Session, v, p.tail(base), opts.Target, opts.Keep)
		},
	}
}

// chooseTotal selects a span so that what stays leaves room for a checkpoint
// within the total.
func (p Policy) chooseTotal(s *session.Session, v session.View, opts compact.NowOptions) (span, error) {
	total := p.TotalRatio * float64(v.SurfaceTokens())
	t := tail{tokens: int(totalTail * total), prompt: int(totalUnit * total)}
	most := int(totalUnit * total)
	if p.NoTail {
		t = tail{tokens: -1}
	}
	sp, err := choose(s, v, t, opts.Target, opts.Keep)
	if p.NoTail || err == nil && v.Tokens(sp.end, v.Len()) <= most {
		return sp, err
	}
	all, fail := choose(s, v, tail{tokens: -1, prompt: t.prompt}, opts.Target, opts.Keep)
	if fail != nil {
		return sp, err
	}
	return all, nil
}

func cancelled(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return &compact.Error{Code: compact.Cancelled, Node: session.NoSeq, Err: err}
	}
	return nil
}

func fail(code compact.Code, format string, args ...any) *compact.Error {
	return &compact.Error{Code: code, Node: session.NoSeq, Detail: fmt.Sprintf(format, args...)}
}
