package engine

import (
	"context"
	"errors"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
	"github.com/agentcompact/agentcompact/toolpairing"
)

var _ compact.Planner = (*Engine)(nil)

// Plan implements [compact.Planner].
func (e *Engine) Plan(ctx context.Context, agent compact.Agent, opts *compact.NowOptions) (*compact.Plan, error) {
	if agent.Session == nil {
		return nil, errors.New("compaction: agent has no session")
	}
	if opts == nil {
		opts = new(compact.NowOptions)
	}
	j := e.now(agent, *opts)
	v := agent.Session.View()
	sp, err := j.choose(v)
	if err != nil {
		return nil, err
	}
	if err := idle(agent.Session, v, j.policy); err != nil {
		return nil, err
	}
	a := &attempt{e: e, agent: agent, job: j, span: sp, view: v}
	req, _, err := a.request(ctx)
	if err != nil {
		return nil, err
	}
	p := &compact.Plan{
		Shadowed: sp.edges(), Count: len(sp.seqs) - len(sp.keep), Kept: sp.keep, Fingerprint: sp.fingerprint(),
		Before: total(v), Span: sp.tokens, After: total(v) - sp.tokens + a.budget(), Pricer: agent.Session.Pricer().ID(),
		Calls: summarize.PlanCalls(e.summarizer, req, &e.opts.Run), Summarizer: e.summarizer.Name(),
		Instructions: opts.Instructions, Target: label(opts.Target),
	}
	x := toolpairing.Of(v)
	p.Head, p.Tail = edgeAt(x, sp.start, sp.start), edgeAt(x, sp.end-1, sp.end)
	e.costs(p, v, sp, req, opts.Turns)
	return p, nil
}

// Apply implements [compact.Planner].
func (e *Engine) Apply(ctx context.Context, agent compact.Agent, p *compact.Plan) (*compact.Result, error) {
	if agent.Session == nil || p == nil {
		return nil, errors.New("compaction: a session and a plan are required")
	}
	var tgt target.Target
	if p.Target != "" {
		var err error
		if tgt, err = target.Parse(p.Target); err != nil {
			return nil, err
		}
	}
	j := job{
		trigger: compact.Now, target: tgt, instructions: p.Instructions, idleOK: true,
		choose: func(v session.View) (span, error) {
			start, err := v.Position(p.Shadowed.Start)
			if err != nil {
				return span{}, &compact.Error{Code: compact.Changed, Edge: "start", Node: p.Shadowed.Start, Detail: "the span of the plan is gone", Err: err}
			}
			end, err := v.Position(p.Shadowed.End)
			if err != nil || end < start {
				return span{}, &compact.Error{Code: compact.Changed, Edge: "end", Node: p.Shadowed.End, Detail: "the span of the plan is gone", Err: err}
			}
			sp := newSpan(v, toolpairing.Of(v), start, end+1, p.Kept)
			if sp.fingerprint() != p.Fingerprint {
				return span{}, fail(compact.Changed, "the span of the plan is not what it was")
			}
			return sp, nil
		},
	}
	return e.attemptByHand(ctx, agent, j, j.overlapping(agent.Session))
}
