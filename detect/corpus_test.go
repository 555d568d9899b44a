package detect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/detect"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
)

// compactions are the sessions in which an agent compacted, with the rules
// that must be reported, in order. All others must stay silent.
var compactions = map[string][]string{
	"claude-code/long-3compactions-6interrupts.jsonl": {"claude_code.compaction.v1", "claude_code.compaction.v1", "claude_code.compaction.v1"},
	"claude-code/long-parallel-1compaction.jsonl":     {"claude_code.compaction.v1"},
	"claude-code/microcompact-and-compact.jsonl":      {"claude_code.compaction.v1"},
	"gemini/contents-105-messages.json":               {"gemini_cli.state_snapshot.v1"}, // compacted before it was recorded
	"other/qwen-compression.jsonl":                    {"gemini_cli.state_snapshot.v1"},
	"other/kimi-wire.jsonl":                           {"kimi.compaction.v1"},
	"pi/long-2compactions-images.jsonl":               {"pi.compaction_summary.v1", "pi.compaction_summary.v1"},
	"pi/long-2compactions.jsonl":                      {"pi.compaction_summary.v1", "pi.compaction_summary.v1"},
	"pi/small/compaction-missing.jsonl":               {"pi.compaction_summary.v1"},
	"pi/small/compaction.jsonl":                       {"pi.compaction_summary.v1"},
	"pi/small/real-world.jsonl":                       {"pi.compaction_summary.v1"},
	"pi/small/stage0-small.jsonl":                     {"pi.compaction_summary.v1"}, // the second leaves the history as it was
	"pi/small/v1-legacy.jsonl":                        {"pi.compaction_summary.v1"},
}

// withoutText are fixtures whose compactions have no text that an agent would
// send: placeholders stand for it.
var withoutText = []string{
	"claude-code/small/fixture-compaction.jsonl", "claude-code/small/record-type-zoo.jsonl", "codex/small/record-type-zoo-6compacted.jsonl", "opencode/storage_v2",
}

// TestCorpus replays every recorded session request by request: each prefix of
// the history that the agent had when it got an answer.
func TestCorpus(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	seen, requests := 0, 0
	for _, s := range sessions {
		if len(s.Files) > 0 || slices.Contains(withoutText, s.Path) {
			continue
		}
		t.Run(s.Path, func(t *testing.T) {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			w := newWorld(t, nil)
			r := &replay{w: w, ids: map[string]int{}}
			if filepath.Ext(s.Path) == ".jsonl" {
				for line := range strings.Lines(string(data)) {
					// One recording has two records on a line.
					for dec := json.NewDecoder(strings.NewReader(line)); ; {
						var rec map[string]any
						if dec.Decode(&rec) != nil {
							break
						}
						r.record(rec)
					}
				}
			} else {
				var all any
				require.NoError(t, json.Unmarshal(data, &all))
				for _, m := range messagesIn(all) {
					r.record(map[string]any{"message": m})
				}
			}
			r.send()
			want := compactions[s.Path]
			var got []string
			for _, x := range w.all {
				got = append(got, x.Event.RuleID)
			}
			require.Equal(t, want, got, "%v after %d requests", words(w.all), r.n)
			requests += r.n
			seen += len(got)
			w.end()
		})
	}
	require.Equal(t, 17, seen)
	require.Greater(t, requests, 1500)
	t.Logf("%d requests, %d compactions, all of them expected", requests, seen)
}

// messagesIn finds the longest list of messages in a JSON document.
func messagesIn(v any) []any {
	var best []any
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			n := 0
			for _, e := range v {
				if m, ok := e.(map[string]any); ok && (m["role"] != nil || m["type"] != nil && (m["content"] != nil || m["call_id"] != nil)) {
					n++
				}
				walk(e)
			}
			if n > len(best) {
				best = v
			}
		}
	}
	walk(v)
	return best
}

// replay rebuilds the histories that a recording went through.
type replay struct {
	w       *world
	history []*session.Message
	entries []*session.Message // all messages, as the recording counts them
	ids     map[string]int
	pending bool
	n       int
}

// send is the request that the agent makes with its history.
func (r *replay) send() {
	if r.pending && len(r.history) > 0 {
		r.n++
		r.w.all = append(r.w.all, r.w.d.RequestOpened(ask("branch", "t", r.history...))...)
	}
	r.pending = false
}

func (r *replay) record(rec map[string]any) {
	if b, _ := rec["isSidechain"].(bool); b {
		return
	}
	str := func(k string) string { s, _ := rec[k].(string); return s }
	if id := str("id"); id != "" {
		r.ids[id] = len(r.entries)
	}
	switch {
	case str("subtype") == "compact_boundary":
		r.history, r.pending = nil, true
		return
	case str("subtype") == "chat_compression":
		p, _ := rec["systemPayload"].(map[string]any)
		r.history, r.pending = nil, true
		list, _ := p["compressedHistory"].([]any)
		for _, m := range list {
			r.add(m)
		}
		r.send()
		return
	case str("type") == "compaction":
		kept := len(r.entries)
		if at, ok := r.ids[str("firstKeptEntryId")]; ok {
			kept = at
		} else if f, ok := rec["firstKeptEntryIndex"].(float64); ok {
			kept = min(int(f), len(r.entries))
		}
		sum := user("The conversation history before this point was compacted into the following summary:\n\n<summary>\n" + str("summary") + "\n</summary>")
		r.history = append([]*session.Message{sum}, r.entries[min(kept, len(r.entries)):]...)
		r.pending = true
		r.send()
		return
	case str("type") == "context.apply_compaction":
		r.history, r.pending = []*session.Message{user(str("contextSummary"))}, true
		r.send()
		return
	}
	for _, k := range []string{"message", "payload"} {
		if m, ok := rec[k].(map[string]any); ok {
			r.add(m)
			return
		}
	}
}

// add appends a message of any of the formats.
func (r *replay) add(v any) {
	m, _ := v.(map[string]any)
	role, _ := m["role"].(string)
	kind, _ := m["type"].(string)
	if strings.Contains(kind, "call") && m["role"] == nil {
		role = "assistant"
		if strings.HasSuffix(kind, "output") {
			role = "tool"
		}
	}
	if kind == "HumanMessage" || kind == "human" {
		role = "user"
	}
	text := textIn(m)
	var out *session.Message
	switch role {
	case "user":
		out = user(text)
		if strings.Contains(jsonOf(m), "tool_result") || strings.Contains(jsonOf(m), "functionResponse") {
			out = result("x", text)
		}
	case "assistant", "model":
		r.pending = true
		r.send()
		out = call("x", text)
		out.Parts = append(out.Parts, session.Text{Text: text})
	case "tool", "toolResult":
		out = result("x", text)
	default:
		return
	}
	r.history = append(r.history, out)
	r.entries = append(r.entries, out)
	r.pending = true
}

func jsonOf(v any) string { b, _ := json.Marshal(v); return string(b) }

// textIn is every string of a message, a line each; a part that is only text
// stays one.
func textIn(v any) string {
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v + "\n")
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			keys := make([]string, 0, len(v))
			for k := range v {
				if k != "role" && k != "type" && k != "id" && k != "timestamp" && k != "usage" && k != "model" {
					keys = append(keys, k)
				}
			}
			slices.Sort(keys)
			for _, k := range keys {
				walk(v[k])
			}
		}
	}
	walk(v)
	return b.String()
}

// TestCorpusInstalled takes over a history that was compacted before.
func TestCorpusInstalled(t *testing.T) {
	s, err := testdata.Find("gemini/contents-105-messages.json")
	require.NoError(t, err)
	data, err := os.ReadFile(s.File())
	require.NoError(t, err)
	var all any
	require.NoError(t, json.Unmarshal(data, &all))
	r := &replay{w: newWorld(t, nil), ids: map[string]int{}}
	for _, m := range messagesIn(all) {
		r.add(m)
	}
	f, ok := detect.Installed(r.history, nil)
	require.True(t, ok)
	require.Equal(t, "gemini-cli", f.Signature.Family)
}
