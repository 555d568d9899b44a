package casetest

import (
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/summarize"
)

func (c *checks) summarizer() {
	e := c.e
	c.atLeast("summarizer_calls_min", e.CallsMin, len(c.chats), "there were")
	c.atMost("summarizer_calls_max", e.CallsMax, len(c.chats), "there were")
	var all []string
	for i, r := range c.chats {
		c.atMost("summarizer_input_max_tokens", e.InputMaxTokens, r.tokens(), "a request has")
		c.atLeast("summarizer_input_min_tokens", e.InputMinTokens, r.tokens(), "a request has")
		c.atMost("summarizer_request_max_bytes", e.SummarizerMaxBytes, len(r.body), "a request has")
		text := r.text()
		all = append(all, text)
		c.has("summarizer_input_not_contains", e.InputNotContains, text, false, "a summarizer request")
		c.has("summarizer_system_not_contains", e.SystemNotContains, r.roleTexts("system", "developer"), false, "its system messages")
		if s := breach(r, true); e.SummarizerValid && s != "" {
			c.bad("summarizer_request_valid", "request %d: %s", i, s)
		}
		if e.SummarizerNoTools && len(r.Tools) == 0 {
			for k := range r.Messages {
				if m := &r.Messages[k]; m.Role == "tool" || len(m.ToolCalls) > 0 {
					c.bad("summarizer_no_tool_roles_without_tools", "message %d of request %d has", k, i)
				}
			}
		}
		if role := r.Messages[len(r.Messages)-1].Role; e.SummarizerLastRole != "" && role != e.SummarizerLastRole {
			c.bad("summarizer_last_role", "want %s, request %d ends with %s", e.SummarizerLastRole, i, role)
		}
		if e.SummarizerMaxOut != nil {
			if n, ok := r.limit(); !ok || n < 1 || n > *e.SummarizerMaxOut {
				c.bad("summarizer_request_max_output", "from 1 to %d, request %d asks for %d", *e.SummarizerMaxOut, i, n)
			}
		}
		if e.LanguageHint && !strings.Contains(strings.ToLower(outside(text)), "language") {
			c.bad("summarizer_language_hint", "the instructions of request %d do not have the word", i)
		}
		if e.FenceClosedOnce {
			c.fence(i, text)
		}
	}
	for _, t := range e.InputContains {
		if !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, t) }) {
			c.bad("summarizer_input_contains", "%q is in none of %d summarizer requests", t, len(all))
		}
	}
	if e.SecondInputMax != nil || e.SecondMaxLarger {
		if len(c.chats) < 2 {
			c.bad("second_request_max_tokens", "there is no second summarizer request")
			return
		}
		c.atMost("second_request_max_tokens", e.SecondInputMax, c.chats[1].tokens(), "it has")
		first, _ := c.chats[0].limit()
		if second, _ := c.chats[1].limit(); e.SecondMaxLarger && second <= first {
			c.bad("second_max_tokens_larger", "the first asks for %d, the second for %d", first, second)
		}
	}
}

// outside is what a summarizer request has outside of the fence.
func outside(text string) string {
	open, end := strings.Index(text, summarize.FenceOpen), strings.LastIndex(text, summarize.FenceClose)
	if open < 0 || end < open {
		return text
	}
	return text[:open] + text[end:]
}

// fence checks that the closing fence stands once, behind everything that the
// conversation says.
func (c *checks) fence(i int, text string) {
	if n := strings.Count(text, summarize.FenceClose); n != 1 {
		c.bad("fence_closed_once", "request %d has it %d times", i, n)
		return
	}
	_, after, _ := strings.Cut(text, summarize.FenceClose)
	for k := range c.w.messages {
		for _, s := range partTexts(c.w.messages[k].Parts) {
			if len(s) > 40 && strings.Contains(after, s) {
				c.bad("fence_closed_once", "message %d stands behind the fence in request %d", k, i)
			}
		}
	}
}

func (c *checks) log() {
	e, seen := c.e, c.w.seen
	if e.ToolsExecuted != nil && *e.ToolsExecuted != 0 {
		c.bad("tools_executed", "want %d, the library runs no tools", *e.ToolsExecuted)
	}
	if e.Events != nil {
		if got := c.events(); !slices.Equal(got, *e.Events) {
			c.bad("events", "want %q, the log has %q", *e.Events, got)
		}
	}
	if e.FoldedCount != nil {
		n := 0
		v := c.w.sess.View()
		if list := c.w.committed(); len(list) > 0 {
			if ev, err := v.Event(list[len(list)-1].Summary); err == nil {
				if p, err := compact.Decode(ev); err == nil {
					n = len(p.(compact.SummaryEvent).Seqs)
				}
			}
		}
		if n != *e.FoldedCount {
			c.bad("folded_count", "want %d, the newest compaction folded %d", *e.FoldedCount, n)
		}
	}
	c.history()
	if e.ReloadEqual {
		if seen.unequal != "" {
			c.bad("reload_equal", "%s", seen.unequal)
		}
		stored, err := c.w.stored()
		if err != nil {
			c.bad("reload_equal", "the stored log cannot be read: %v", err)
		} else if s := differ(c.surface, stored); s != "" {
			c.bad("reload_equal", "at the end: %s", s)
		}
	}
	c.atMost("log_bytes_added_max", e.LogBytesMax, int(seen.sizeAfter-seen.firstSize), "the first compaction op added")
}

// events are the brackets of the attempts, in the order of the log.
func (c *checks) events() []string {
	type at struct {
		seq  int64
		text string
	}
	var list []at
	for _, a := range c.w.attempts() {
		kind := "manual"
		if a.Start.Trigger.Auto() {
			kind = "auto"
		}
		list = append(list, at{int64(a.StartSeq), "started:" + kind})
		if a.End != nil {
			verdict := "ok"
			if a.End.Code != "" {
				verdict = "failed"
			}
			list = append(list, at{int64(a.EndSeq), "finished:" + verdict})
		}
	}
	slices.SortFunc(list, func(a, b at) int { return int(a.seq - b.seq) })
	out := []string{}
	for _, a := range list {
		out = append(out, a.text)
	}
	return out
}

func (c *checks) history() {
	e, list := c.e, c.w.seen.history
	if len(e.HistoryContains) == 0 && !e.HistoryMarked {
		return
	}
	if list == nil {
		c.bad("history_contains", "there is no view_history")
		return
	}
	var all []string
	for _, h := range list {
		all = append(all, h.text)
		for _, s := range c.w.srv.texts {
			if e.HistoryMarked && !h.compaction && strings.Contains(h.text, s) {
				c.bad("history_summary_only_as_compaction", "%q is in an ordinary entry", clip(s, 80))
			}
		}
	}
	c.has("history_contains", e.HistoryContains, strings.Join(all, "\n"), true, "the history")
}
