package engine

import (
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// Estimate returns the tokens of the session's next request: what the provider
// reported for the last one plus the prices of what came after, as long as that
// report still describes the surface, and otherwise the prices of envelope and
// surface. It costs O(1).
func Estimate(v session.View) int {
	if u, ok := v.Usage(); ok && u.Fresh {
		return u.Prompt + u.Completion + u.Since
	}
	return v.EnvelopeTokens() + v.SurfaceTokens()
}

// decision is what an automatic compaction was decided on.
type decision struct {
	view      session.View
	trigger   compact.Trigger
	policy    Policy
	tokens    int // estimate
	threshold int // 0 for an overflow
	window    int // 0 when unknown
}

// window returns the window of the agent's route, corrected by what providers
// named in this session, and false when it is unknown.
func (e *Engine) window(agent compact.Agent) (int, bool) {
	provider, model := agent.Route()
	w, ok := e.opts.Windows.Window(provider, model)
	h := compact.HistoryOf(agent.Session)
	for _, c := range h.Windows {
		if c.Provider == provider && c.Model == model && (!ok || c.Window < w) {
			w, ok = c.Window, true
		}
	}
	return w, ok && w > 0
}

// decide measures; it writes nothing.
func (e *Engine) decide(agent compact.Agent, trigger compact.Trigger) (decision, error) {
	provider, model := agent.Route()
	d := decision{view: agent.Session.View(), trigger: trigger, policy: e.opts.policy(provider, model)}
	d.tokens = Estimate(d.view)
	window, ok := e.window(agent)
	d.window = window
	if trigger == compact.ContextOverflow {
		return d, nil
	}
	d.threshold = d.policy.threshold(window)
	if !ok && d.policy.ThresholdTokens == 0 {
		if _, again := e.warned.LoadOrStore([2]string{provider, model}, true); !again {
			e.opts.Logger.Warn("the context window of the route is unknown: automatic compaction is off for it", "provider", provider, "model", model)
		}
		return d, fail(compact.NoWindow, "no context window is known for provider %q, model %q", provider, model)
	}
	return d, nil
}

// threshold returns the mark in tokens; 0 when it cannot be told.
func (p Policy) threshold(window int) int {
	mark := p.ThresholdTokens
	if mark == 0 {
		mark = int(p.ThresholdRatio * float64(window))
	}
	if window > 0 && p.ReserveOutput > 0 {
		mark = min(mark, window-min(p.ReserveOutput, window/2))
	}
	return mark
}

// tail is how much of the recent surface stays.
type tail struct {
	tokens   int // -1: no limit in tokens
	messages int // 0: no limit in messages
	prompt   int // the running turn's prompt stays, too, if it has at most so many tokens
}

// tail returns the wanted tail; base is what RetainRatio is a share of.
func (p Policy) tail(base int) tail {
	t := tail{tokens: -1, messages: p.RetainMessages, prompt: int(p.PromptRatio * float64(base))}
	switch {
	case p.NoTail:
	case p.RetainTokens > 0:
		t.tokens = p.RetainTokens
	case p.RetainTokens < 0:
		t.tokens = 0
	case p.RetainMessages == 0:
		t.tokens = int(p.RetainRatio * float64(base))
	}
	return t
}

// signature identifies what a compaction by hand keeps.
func (p Policy) signature() string {
	return fmt.Sprintf("tail=%g/%d/%d/%t/%g", p.RetainRatio, p.RetainTokens, p.RetainMessages, p.NoTail, p.PromptRatio)
}

// trifle is the growth below which an automatic attempt that came to nothing
// is not made again.
const trifle = 0.02

// held says why an automatic attempt may not start now, going by the log: the
// breaker is open, it cools down, or nothing has grown since the last one.
func (e *Engine) held(h compact.History, v session.View, threshold int) error {
	last := h.Last()
	if last == nil || !last.Start.Trigger.Auto() || last.Committed() {
		return nil
	}
	grown := v.SurfaceTokens() + v.EnvelopeTokens() - last.End.Before
	switch last.End.Code {
	case compact.Cancelled, compact.Vetoed, compact.NotSmaller, compact.NoProgress, compact.NothingToCompact:
		if need := int(trifle * float64(max(threshold, last.End.Before/2))); grown < max(need, 1) {
			return fail(last.End.Code, "the last attempt ended with %q and the session has grown by only %d tokens since", last.End.Code, max(grown, 0))
		}
	}
	failures := h.Failures()
	if failures == 0 {
		return nil
	}
	open := failures >= e.opts.MaxFailures
	if e.opts.CoolDown < 0 {
		if open {
			return fail(compact.BreakerOpen, "%d automatic attempts failed in a row, the last with %q", failures, last.End.Code)
		}
		return nil
	}
	wait := e.opts.CoolDown << min(failures-1, 5)
	since := e.opts.Now().Sub(endTime(v, last))
	if since >= wait {
		return nil // closed, or half open: one attempt may try
	}
	if open {
		return fail(compact.BreakerOpen, "%d automatic attempts failed in a row, the last with %q; the next try is in %s", failures, last.End.Code, (wait - since).Round(time.Second))
	}
	return fail(compact.BreakerOpen, "the last automatic attempt failed with %q; the next try is in %s", last.End.Code, (wait - since).Round(time.Second))
}

func endTime(v session.View, a *compact.Attempt) time.Time {
	if ev, err := v.Event(a.EndSeq); err == nil {
		return ev.Time
	}
	return time.Time{}
}
