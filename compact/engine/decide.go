package engine

import (
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
)

// Estimate returns the tokens of the session's next request on the route of its
// envelope, as [tokencount.Measure] does.
func Estimate(v session.View) int {
	var provider, model string
	if e, _ := v.Envelope(); e != nil {
		provider, model = e.Provider, e.Model
	}
	return tokencount.Measure(v, provider, model).Tokens
}

// decision is what an automatic compaction was decided on.
type decision struct {
	view      session.View
	trigger   compact.Trigger
	policy    Policy
	tokens    int // estimate, in tokens of the provider
	threshold int // in the same; 0 for an overflow
	window    int // in the same; 0 when unknown
	// Selection and limits work in prices. scale is how many tokens of the
	// provider one of them is, offset what the provider counts besides: what a
	// request has that the session does not know.
	scale  float64
	offset int
}

// priced returns tokens of the provider in our prices.
func (d decision) priced(tokens int) int { return int(float64(tokens-d.offset) / d.scale) }

// reported returns our prices in tokens of the provider.
func (d decision) reported(tokens int) int { return int(float64(tokens)*d.scale) + d.offset }

// window returns the window of the agent's route, corrected by what providers
// named in this session, and false when it is unknown.
func (e *Engine) window(agent compact.Agent) (int, bool) {
	provider, model := agent.Route()
	w, ok := e.opts.Windows.Window(provider, model)
	if !ok || w <= 0 {
		w, ok = 0, false
	}
	h := compact.HistoryOf(agent.Session)
	for _, c := range h.Windows {
		if c.Provider == provider && c.Model == model && (!ok || c.Window < w) {
			w, ok = c.Window, true
		}
	}
	return w, ok
}

// decide measures; it writes nothing.
func (e *Engine) decide(agent compact.Agent, trigger compact.Trigger) (decision, error) {
	provider, model := agent.Route()
	d := decision{view: agent.Session.View(), trigger: trigger, policy: e.opts.policy(provider, model)}
	m := tokencount.Measure(d.view, provider, model)
	d.tokens, d.scale = m.Tokens, m.Factor
	if m.Anchored {
		// The report says how far off the total is, and not which part: what is
		// taken for a constant here is never taken for saved.
		d.scale, d.offset = 1, m.Tokens-m.Priced
	}
	window, ok := e.window(agent)
	d.window = window
	if trigger == compact.ContextOverflow {
		return d, nil
	}
	d.threshold = d.policy.threshold(window)
	if m.Anchored && m.Priced > 0 && d.offset >= d.threshold &&
		tokencount.Constant(d.view.UsageSamples(), provider, model) < d.threshold {
		// Taken for a constant, the difference alone would be the pressure, and
		// nothing would be tried. Nobody has seen it stay when the session shrank:
		// until then it is taken for text that is dearer than priced.
		d.scale, d.offset = float64(m.Tokens)/float64(m.Priced), 0
	}
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
	if window > 0 {
		mark = min(mark, window) // one above it would never be reached
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
	if p.TotalRatio > 0 {
		return fmt.Sprintf("total=%g/%t", p.TotalRatio, p.NoTail)
	}
	return fmt.Sprintf("tail=%g/%d/%d/%t/%g", p.RetainRatio, p.RetainTokens, p.RetainMessages, p.NoTail, p.PromptRatio)
}

// trifle is the growth below which an automatic attempt that came to nothing
// is not made again.
const trifle = 0.02

// held says why an automatic attempt may not start now, going by the log: the
// breaker is open, it cools down, or nothing has grown since the last one.
func (e *Engine) held(h compact.History, v session.View, threshold int) error {
	last := lastAutomatic(h)
	if last == nil || last.Committed() {
		return nil
	}
	grown := v.SurfaceTokens() + v.EnvelopeTokens() - last.End.After
	switch last.End.Code {
	case compact.Cancelled, compact.Vetoed, compact.NotSmaller, compact.NoProgress, compact.NothingToCompact:
		if need := int(trifle * float64(max(threshold, last.End.Before/2))); grown < max(need, 1) {
			return fail(last.End.Code, "the last attempt ended with %q and the session has grown by only %d tokens since", string(last.End.Code), max(grown, 0))
		}
	}
	failures := h.Failures()
	if failures == 0 {
		return nil
	}
	open := failures >= e.opts.MaxFailures
	if e.opts.CoolDown < 0 {
		if open {
			return fail(compact.BreakerOpen, "%d automatic attempts failed in a row, the last with %q", failures, string(last.End.Code))
		}
		return nil
	}
	wait := e.opts.CoolDown << min(failures-1, 5)
	since := e.opts.Now().Sub(endTime(v, last))
	if since >= wait || since < -wait {
		// Closed, or half open: one attempt may try. So may it when the failure is
		// far in the future: the clock was set back, and what it says then is no
		// measure of how long to wait.
		return nil
	}
	if open {
		return fail(compact.BreakerOpen, "%d automatic attempts failed in a row, the last with %q; the next try is in %s", failures, string(last.End.Code), (wait - since).Round(time.Second))
	}
	return fail(compact.BreakerOpen, "the last automatic attempt failed with %q; the next try is in %s", string(last.End.Code), (wait - since).Round(time.Second))
}

// lastAutomatic returns the newest attempt that has ended and tells something of
// automatic ones: one of them, or any that was committed. Somebody who tries by
// hand and fails does not set the bounds of automatic attempts back, and neither
// does an attempt for which pruning was enough: it says nothing of the summarizer.
func lastAutomatic(h compact.History) *compact.Attempt {
	for i := len(h.Attempts) - 1; i >= 0; i-- {
		if a := &h.Attempts[i]; a.End != nil && (a.Committed() || a.Start.Trigger.Auto() && !a.PruneOnly()) {
			return a
		}
	}
	return nil
}

func endTime(v session.View, a *compact.Attempt) time.Time {
	if ev, err := v.Event(a.EndSeq); err == nil {
		return ev.Time
	}
	return time.Time{}
}
