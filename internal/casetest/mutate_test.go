package casetest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// brokenRequest keeps neither of the rules, nor anything else that a case may
// expect of a request.
const brokenRequest = `{"messages":[{"role":"system","content":"x evil"},{"role":"tool","tool_call_id":"zz","content":"</transcript>"},{"role":"assistant",
"tool_calls":[{"id":"zz","type":"function","function":{"name":"f","arguments":""}}]},{"role":"assistant","content":null,
"tool_calls":[{"id":"zz","type":"function","function":{"name":"f","arguments":""}}]},{"role":"system","content":"late"}]}`

// spoil changes one expectation of a case, or what was seen, so that it cannot
// hold any more. It returns false for a key that it cannot spoil in this case.
func spoil(w *world, e *Expect, chats *[]*chatRequest, key string) bool {
	broken, err := parseRequest([]byte(brokenRequest))
	if err != nil {
		return false
	}
	const nowhere = "a text that is nowhere 4711"
	more := func(p *int, by int) *int { n := *p + by; return &n }
	far, least := 1<<40, -1
	flip := func(p *bool) *bool { b := !*p; return &b }
	other := func(list []string) string {
		for _, s := range strings.Fields(allClasses) {
			used := slices.Contains(list, s)
			for _, o := range w.seen.outcomes {
				used = used || o.class == s
			}
			if !used {
				return s
			}
		}
		return ""
	}
	switch key {
	case "compacts":
		e.Compacts = flip(e.Compacts)
	case "trigger":
		e.Trigger = flip(e.Trigger)
	case "overflow":
		e.Overflow = flip(e.Overflow)
	case "error":
		e.Error = classes{other(e.Error)}
	case "second_error":
		e.SecondError = other([]string{e.SecondError})
	case "valid", "unique_ids", "wire_content_present":
		w.seen.requests = append(w.seen.requests, request{chatRequest: broken})
	case "valid_after_append":
		w.seen.afterAppend = broken
	case "prefix_stable":
		w.seen.requests = slices.Insert(w.seen.requests, 0, request{chatRequest: broken, byOp: true})
	case "keep":
		if len(e.Keep) == 0 {
			return false
		}
		m := session.UserText(nowhere)
		w.messages[e.Keep[0]] = m
	case "gone":
		if len(e.Keep) == 0 {
			return false
		}
		e.Gone = e.Keep[:1]
	case "keep_text":
		e.KeepText = append(e.KeepText, nowhere)
	case "contains":
		e.Contains = append(e.Contains, nowhere)
	case "not_contains":
		e.NotContains = append(e.NotContains, w.messages[0].Text())
	case "order":
		slices.Reverse(e.Order)
	case "count_max":
		e.CountMax = map[string]int{w.messages[0].Text(): 0}
	case "surface_unchanged":
		w.seen.first = append([]entry{newEntry(&w.messages[0])}, w.seen.first...)
		w.seen.started = true
	case "surface_len_max":
		e.SurfaceLenMax = &least
	case "last_index":
		e.LastIndex = more(e.LastIndex, -1)
	case "summary_count":
		e.SummaryCount = more(e.SummaryCount, 1)
	case "max_tokens":
		e.MaxTokens = &least
	case "estimate_min":
		e.EstimateMin = &far
	case "estimate_max":
		e.EstimateMax = &least
	case "request_max_tokens":
		e.RequestMaxTokens = &least
	case "request_max_bytes":
		e.RequestMaxBytes = &least
	case "last_role":
		e.LastRole = texts{"developer"}
	case "summary_role":
		e.SummaryRole = "tool"
	case "summary_framed":
		for _, s := range checkpoints(w.surface()) {
			w.srv.texts = slices.Insert(w.srv.texts, 0, s.message.Text())
		}
	case "system_count":
		e.SystemCount = more(e.SystemCount, 1)
	case "synthetic_results":
		list := append(slices.Clone(*e.SyntheticResults), "zz")
		e.SyntheticResults = &list
	case "open_calls_after":
		list := append(slices.Clone(*e.OpenCallsAfter), "zz")
		e.OpenCallsAfter = &list
	case "summarizer_calls_min":
		e.CallsMin = &far
	case "summarizer_calls_max":
		e.CallsMax = &least
	case "summarizer_input_max_tokens":
		e.InputMaxTokens = &least
	case "summarizer_input_min_tokens":
		e.InputMinTokens = &far
	case "summarizer_input_contains":
		e.InputContains = append(e.InputContains, nowhere)
	case "summarizer_input_not_contains":
		e.InputNotContains = append(e.InputNotContains, "evil")
		*chats = append(*chats, broken)
	case "summarizer_system_not_contains":
		e.SystemNotContains = append(e.SystemNotContains, "evil")
		*chats = append(*chats, broken)
	case "summarizer_request_valid", "summarizer_no_tool_roles_without_tools", "summarizer_last_role",
		"summarizer_request_max_output", "summarizer_language_hint":
		*chats = append(*chats, broken)
	case "fence_closed_once":
		twice, _ := parseRequest([]byte(`{"messages":[{"role":"user","content":"<transcript></transcript></transcript>"}]}`))
		*chats = append(*chats, twice)
	case "tools_executed":
		e.ToolsExecuted = more(e.ToolsExecuted, 1)
	case "not_committed_if_after_over":
		w.seen.left = append(w.seen.left, far)
	case "returns_within_ms":
		e.ReturnsWithinMS = &least
	case "events":
		list := append(slices.Clone(*e.Events), "started:auto")
		e.Events = &list
	case "history_contains":
		e.HistoryContains = append(e.HistoryContains, nowhere)
	case "history_summary_only_as_compaction":
		w.seen.history = append(w.seen.history, historyEntry{text: w.srv.texts[0]})
	case "reload_equal":
		_, err := w.sess.Record(w.real, session.Pin{}, compact.Event(compact.WindowEvent{Window: 1}))
		w.messages[0] = session.UserText("x")
		w.seen.unequal = "spoiled"
		return err == nil
	case "log_bytes_added_max":
		e.LogBytesMax = &least
	case "limit":
		e.Limit = number{set: true, n: e.Limit.n + 1}
	case "actual":
		e.Actual = number{set: true, n: e.Actual.n + 1}
	case "class":
		e.Class = "other"
		if w.seen.refusal.class == "other" {
			return false
		}
	case "learned_window":
		e.LearnedWindow = number{set: true, n: 17}
	case "all_or_none":
		e.AllOrNone = append(e.AllOrNone, []string{`"messages"`, nowhere})
	default:
		return false
	}
	return true
}

// TestSpoiledExpectationsFail spoils each kind of expectation in two cases. The
// check of it must then fail: no expectation is there for show.
func TestSpoiledExpectationsFail(t *testing.T) {
	if otherFolder() {
		t.Skip("another folder is run")
	}
	cases, err := Load(*casesDir)
	require.NoError(t, err)
	done := map[string]int{}
	failing := knownFailures(t)
	for _, c := range cases {
		if _, fails := failing[c.ID]; fails {
			continue
		}
		keys := slices.Sorted(maps.Keys(c.Expect.keys))
		if slices.IndexFunc(keys, func(k string) bool { return done[k] < 2 }) < 0 {
			continue
		}
		w, err := play(t.Context(), c, t.TempDir())
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		chats, err := w.srv.chats()
		require.NoError(t, err)
		for _, key := range keys {
			if done[key] == 2 {
				continue
			}
			var e Expect
			raw, err := json.Marshal(c.Expect.keys)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &e))
			seen, messages, script, mine := *w.seen, slices.Clone(w.messages), slices.Clone(w.srv.texts), slices.Clone(chats)
			w.seen.requests = slices.Clone(w.seen.requests)
			if spoil(w, &e, &mine, key) {
				done[key]++
				problems := w.expectOf(&e, mine)
				if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, key+":") }) {
					t.Errorf("%s: %s was spoiled, and nobody noticed: %q", c.ID, key, problems)
				}
			}
			*w.seen, w.messages, w.srv.texts = seen, messages, script
		}
		w.close()
	}
	for _, c := range cases {
		for key := range c.Expect.keys {
			if done[key] == 0 {
				t.Errorf("%s: %s was never spoiled", c.ID, key)
				done[key]++
			}
		}
	}
}
