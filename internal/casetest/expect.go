package casetest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/internal/requesttest"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// checks collects the expectations that do not hold.
type checks struct {
	w *world
	e *Expect

	surface  []entry
	text     string
	chats    []*chatRequest
	last     *chatRequest // the final request
	problems []string
}

func (c *checks) bad(key, format string, args ...any) {
	c.problems = append(c.problems, key+": "+fmt.Sprintf(format, args...))
}

// atMost and atLeast check a bound that may be absent.
func (c *checks) atMost(key string, bound *int, n int, what string) {
	if bound != nil && n > *bound {
		c.bad(key, "at most %d, %s %d", *bound, what, n)
	}
}

func (c *checks) atLeast(key string, bound *int, n int, what string) {
	if bound != nil && n < *bound {
		c.bad(key, "at least %d, %s %d", *bound, what, n)
	}
}

// has checks that all or none of the texts are in s.
func (c *checks) has(key string, list []string, s string, want bool, where string) {
	for _, t := range list {
		if strings.Contains(s, t) != want {
			if want {
				c.bad(key, "%q is not in %s", t, where)
			} else {
				c.bad(key, "%q is in %s", t, where)
			}
		}
	}
}

// expect returns the expectations that do not hold.
func (w *world) expect() []string {
	chats, err := w.srv.chats()
	if err != nil {
		return []string{"a summarizer request cannot be read: " + err.Error()}
	}
	return w.expectOf(&w.c.Expect, chats)
}

// expectOf is expect with other expectations and summarizer requests.
func (w *world) expectOf(e *Expect, chats []*chatRequest) []string {
	c := &checks{w: w, e: e, surface: w.surface(), chats: chats}
	c.text = surfaceText(c.surface)
	for _, r := range w.seen.requests {
		if r.final {
			c.last = r.chatRequest
		}
	}
	if c.last == nil {
		return []string{"no final request was built"}
	}
	if w.c.Given.Summarizer == nil && len(chats) > 0 {
		c.bad("summarizer", "none is configured, and it was asked %d times", len(chats))
	}
	c.outcome()
	c.requests()
	c.onSurface()
	c.sizes()
	c.summaries()
	c.calls()
	c.summarizer()
	c.log()
	c.provider()
	return c.problems
}

func (c *checks) outcome() {
	e, seen := c.e, c.w.seen
	if e.Compacts != nil {
		if n := len(c.w.committed()); (n > 0) != *e.Compacts {
			c.bad("compacts", "want %v, %d compactions were committed%s", *e.Compacts, n, c.why())
		}
	}
	if e.Trigger != nil {
		fired := seen.trigger != nil && *seen.trigger
		if fired != *e.Trigger {
			c.bad("trigger", "want %v, the first check decided %v (estimate %d)", *e.Trigger, fired, seen.firstEstimate)
		}
	}
	var compactions, others []outcome
	for _, o := range seen.outcomes {
		if o.compact {
			compactions = append(compactions, o)
		} else {
			others = append(others, o)
		}
	}
	if len(e.Error) > 0 {
		list := compactions
		if len(list) == 0 {
			list = others
		}
		switch {
		case len(list) == 0:
			c.bad("error", "want %v, no op has an outcome", e.Error)
		case !slices.Contains(e.Error, list[len(list)-1].class):
			o := list[len(list)-1]
			c.bad("error", "want %s, %s ended with %s (%s)", strings.Join(e.Error, " or "), o.op, o.class, clip(o.detail, 300))
		}
	}
	if e.SecondError != "" {
		if len(compactions) < 2 {
			c.bad("second_error", "want %s, there are %d compaction ops", e.SecondError, len(compactions))
		} else if o := compactions[1]; o.class != e.SecondError {
			c.bad("second_error", "want %s, %s ended with %s (%s)", e.SecondError, o.op, o.class, clip(o.detail, 300))
		}
	}
	if e.ReturnsWithinMS != nil {
		for _, o := range compactions {
			if ms := int(o.took.Milliseconds()); ms > *e.ReturnsWithinMS {
				c.bad("returns_within_ms", "at most %d, %s took %d", *e.ReturnsWithinMS, o.op, ms)
			}
		}
	}
}

// why adds the last outcome of a compaction op to a message.
func (c *checks) why() string {
	for i := len(c.w.seen.outcomes) - 1; i >= 0; i-- {
		if o := c.w.seen.outcomes[i]; o.compact {
			return fmt.Sprintf("; %s ended with %s (%s)", o.op, o.class, clip(o.detail, 300))
		}
	}
	return ""
}

func (c *checks) requests() {
	e := c.e
	for _, bad := range requesttest.Problems(c.w.sess.View()) {
		c.bad("valid", "%s", bad)
	}
	var byOp []*chatRequest
	for i, r := range c.w.seen.requests {
		if e.Valid {
			c.valid(i, r)
		}
		if s := breachIDs(r.chatRequest); e.UniqueIDs && s != "" {
			c.bad("unique_ids", "request %d: %s", i, s)
		}
		c.atMost("request_max_tokens", e.RequestMaxTokens, r.tokens(), fmt.Sprintf("request %d has", i))
		c.atMost("request_max_bytes", e.RequestMaxBytes, len(r.body), fmt.Sprintf("request %d has", i))
		if r.byOp {
			byOp = append(byOp, r.chatRequest)
		}
		if e.ContentPresent {
			c.contentPresent(i, r.chatRequest)
		}
	}
	if e.ValidAfterAppend {
		if r := c.w.seen.afterAppend; r == nil {
			c.bad("valid_after_append", "there is no append_result")
		} else if s := breach(r, false); s != "" {
			c.bad("valid_after_append", "%s", s)
		}
	}
	if e.PrefixStable {
		for i := 1; i < len(byOp); i++ {
			if s := prefix(byOp[i-1], byOp[i]); s != "" {
				c.bad("prefix_stable", "request %d: %s", i, s)
			}
		}
	}
	if len(e.LastRole) > 0 {
		if len(byOp) == 0 {
			c.bad("last_role", "there is no request")
		} else if m := byOp[len(byOp)-1].Messages; !slices.Contains(e.LastRole, m[len(m)-1].Role) {
			c.bad("last_role", "want %v, it is %s", e.LastRole, m[len(m)-1].Role)
		}
	}
	for _, list := range e.AllOrNone {
		n := 0
		for _, t := range list {
			if strings.Contains(string(c.last.body), t) {
				n++
			}
		}
		if n != 0 && n != len(list) {
			c.bad("all_or_none", "%d of %q are in the final request", n, list)
		}
	}
	if e.SystemCount != nil {
		n := 0
		for i := range c.last.Messages {
			if isSystem(c.last.Messages[i].Role) {
				n++
			}
		}
		if n != *e.SystemCount {
			c.bad("system_count", "want %d, the final request has %d", *e.SystemCount, n)
		}
	}
}

// valid checks a request by the runner's rules, and that the library's validator
// comes to the same verdict.
func (c *checks) valid(i int, r request) {
	ours := breach(r.chatRequest, r.modelCall)
	if ours != "" {
		c.bad("valid", "request %d: %s", i, ours)
	}
	for _, v := range openaichat.ValidateWith(r.body, openaichat.Checks{ModelCall: r.modelCall}) {
		if strings.HasPrefix(string(v.Rule), "R") && ours == "" {
			c.bad("valid", "request %d: only the library's validator says: %v", i, v)
		}
	}
}

// prefix says where the messages of a are no prefix of those of b.
func prefix(a, b *chatRequest) string {
	if len(a.Messages) > len(b.Messages) {
		return fmt.Sprintf("%d messages, the one before has %d", len(b.Messages), len(a.Messages))
	}
	for i := range a.Messages {
		if string(a.Messages[i].raw) != string(b.Messages[i].raw) {
			return fmt.Sprintf("message %d is %s, was %s", i, clip(string(b.Messages[i].raw), 100), clip(string(a.Messages[i].raw), 100))
		}
	}
	return ""
}

func (c *checks) sizes() {
	e, seen := c.e, c.w.seen
	now := engine.Estimate(c.w.sess.View())
	c.atMost("max_tokens", e.MaxTokens, now, "the estimate is")
	if e.EstimateMin != nil && seen.estimates == 0 {
		c.bad("estimate_min", "there is no check")
	} else {
		c.atLeast("estimate_min", e.EstimateMin, seen.firstEstimate, "the estimate at the first check is")
	}
	last := now
	if seen.estimates > 0 {
		last = seen.lastEstimate
	}
	c.atMost("estimate_max", e.EstimateMax, last, "the estimate is")
	most := math.MinInt
	for _, n := range seen.left {
		most = max(most, n)
	}
	c.atMost("not_committed_if_after_over", e.NotCommittedOver, most, "a compaction left")
	if e.ReportBeforeMin != nil || e.ReportBeforeMax != nil || e.ReportAfterMax != nil {
		var end *compact.EndEvent
		if list := c.w.attempts(); len(list) > 0 {
			end = list[len(list)-1].End
		}
		if end == nil {
			c.bad("report", "no attempt has ended")
			return
		}
		c.atLeast("report_before_min", e.ReportBeforeMin, end.Before, "reported are")
		c.atMost("report_before_max", e.ReportBeforeMax, end.Before, "reported are")
		c.atMost("report_after_max", e.ReportAfterMax, end.After, "reported are")
	}
}

func (c *checks) provider() {
	e, r := c.e, c.w.seen.refusal
	if e.Overflow == nil && !e.Limit.set && !e.Actual.set && e.Class == "" && !e.LearnedWindow.set {
		return
	}
	if r == nil {
		c.bad("overflow", "no error was handed over")
		return
	}
	if e.Overflow != nil && r.result.Overflow != *e.Overflow {
		c.bad("overflow", "want %v, it is %s", *e.Overflow, r.result)
	}
	same := func(key string, want number, got int) {
		if want.set && (want.null && got != 0 || !want.null && got != want.n) {
			c.bad(key, "want %s, read %d", want, got)
		}
	}
	same("limit", e.Limit, r.result.Limit)
	same("actual", e.Actual, r.result.Actual)
	if e.Class != "" && string(r.result.Coarse()) != e.Class {
		c.bad("class", "want %s, it is %s", e.Class, r.result.Coarse())
	}
	if w := e.LearnedWindow; w.set && (w.null && r.learned || !w.null && r.window != w.n) {
		c.bad("learned_window", "want %s, believed are %d", w, r.window)
	}
}
