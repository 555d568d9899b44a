package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

type obj map[string]any

func rec(kind string, payload obj) obj {
	return obj{"timestamp": "2026-01-02T03:04:05.000Z", "type": kind, "payload": payload}
}

func item(payload obj) obj { return rec("response_item", payload) }

func say(role, text string) obj {
	kind := "input_text"
	if role == "assistant" {
		kind = "output_text"
	}
	return obj{"type": "message", "role": role, "content": []obj{{"type": kind, "text": text}}}
}

func call(id string) obj {
	return obj{"type": "function_call", "name": "shell", "arguments": "{}", "call_id": id}
}
func out(id string) obj {
	return obj{"type": "function_call_output", "call_id": id, "output": "out " + id}
}
func think(s string) obj {
	return obj{"type": "reasoning", "summary": []obj{{"type": "summary_text", "text": s}}, "encrypted_content": s}
}
func event(kind string) obj { return rec("event_msg", obj{"type": kind}) }

func tokens(total, input int) obj {
	return rec("event_msg", obj{"type": "token_count", "info": obj{
		"total_token_usage": obj{"input_tokens": total},
		"last_token_usage":  obj{"input_tokens": input, "cached_input_tokens": 7, "output_tokens": 5, "reasoning_output_tokens": 3},
	}})
}

var (
	meta = rec("session_meta", obj{"id": "s", "cli_version": "0.100.0", "base_instructions": obj{"text": "be good"}, "model_provider": "azure"})
	turn = rec("turn_context", obj{"model": "gpt-x"})
	env  = item(say("user", "<environment_context>\n<cwd>/w</cwd>"))
)

func jsonLines(recs ...obj) []byte {
	var b strings.Builder
	for _, r := range recs {
		raw, _ := json.Marshal(r)
		b.Write(raw)
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func show(c *wire.Conversation) string {
	var lines []string
	for _, e := range c.Entries {
		var parts []string
		for _, p := range e.Message.Parts {
			switch p := p.(type) {
			case session.Text:
				parts = append(parts, p.Text)
			case session.ToolCall:
				parts = append(parts, "call "+p.ID)
			case session.ToolResult:
				parts = append(parts, p.CallID+"="+session.TextOf(p.Parts))
			case session.Reasoning:
				parts = append(parts, "thinks "+p.Text)
			case session.Opaque:
				parts = append(parts, "opaque "+p.Kind)
			}
		}
		src := string(e.Message.Source.Kind)
		if e.Message.Source.Kind == session.SourcePlugin {
			src = e.Message.Source.Plugin + " " + e.Message.Source.Form + e.Message.Source.Ref
		}
		lines = append(lines, fmt.Sprintf("%s(%s): %s", e.Message.Role, strings.TrimSpace(src), strings.Join(parts, ", ")))
	}
	return strings.Join(lines, "\n")
}

func TestRules(t *testing.T) {
	big := strings.Repeat("word ", 20_000) // 25,000 of the agent's tokens
	compacted := func(p obj) obj { return rec("compacted", p) }
	for _, c := range []struct {
		name string
		recs []obj
		want string
		side int
	}{
		{"a response is a run of items", []obj{
			meta, env, item(say("user", "go")), turn,
			item(think("hm")), item(say("assistant", "I look")), item(call("1")), item(call("2")),
			item(out("1")), item(out("2")), item(say("assistant", "done")),
		}, `
user(codex context): <environment_context>
<cwd>/w</cwd>
user(user): go
assistant(model): thinks hm, I look, call 1, call 2
tool(tool): 1=out 1
tool(tool): 2=out 2
assistant(model): done`, 0},
		{"developer messages, snapshots and agents", []obj{
			item(say("developer", "leading")), item(say("user", "go")), item(obj{"type": "ghost_snapshot"}),
			item(say("developer", "note")), item(obj{"type": "agent_message", "author": "x", "content": []obj{{"type": "input_text", "text": "from x"}}}),
			item(obj{"type": "web_search_call"}), item(obj{"type": "brand_new"}),
		}, `
user(user): go
developer(codex developer): note
user(codex agent_message): from x
assistant(model): opaque web_search_call, opaque brand_new`, 0},
		{"items after turn_aborted belong to it", []obj{
			item(say("user", "go")), event("turn_aborted"), item(think("hm")), item(call("1")), item(out("1")),
			item(say("user", "again")), item(call("2")), event("turn_aborted"), item(say("user", "third")),
		}, `
user(user): go
assistant(model): thinks hm, call 1
tool(tool): 1=out 1
user(user): again
assistant(model): call 2
user(user): third`, 0},
		{"replacement history", []obj{
			item(say("user", "old")), item(say("assistant", "ok")),
			compacted(obj{"message": "the summary", "replacement_history": []obj{say("user", "old"), say("user", "the summary"), say("assistant", "kept")}}),
			item(say("assistant", "new")), item(call("1")),
		}, `
user(user): old
user(compact codex/3): the summary
assistant(model): kept
assistant(model): new, call 1`, 1},
		{"only the last compaction counts", []obj{
			item(say("user", "old")),
			compacted(obj{"message": "one", "replacement_history": []obj{say("user", "one")}}),
			item(say("user", "more")),
			compacted(obj{"message": "two", "replacement_history": []obj{say("user", "two"), say("user", "more")}, "window_id": "w2"}),
		}, `
user(compact w2): two
user(user): more`, 2},
		{"a compaction that only the server can read", []obj{
			item(say("user", "old")),
			compacted(obj{"message": "", "replacement_history": []obj{say("user", "old"), {"type": "compaction", "encrypted_content": "zz"}}}),
			item(say("user", "new")),
		}, `
user(user): old
user(compact codex/2): opaque compaction
user(user): new`, 0},
		{"no replacement history", []obj{
			env, item(say("user", "first")), item(say("assistant", "ok")), item(call("1")), item(out("1")), item(say("user", "<turn_aborted> x")), item(say("user", "second")),
			compacted(obj{"message": "the summary"}), item(say("user", "third")),
			compacted(obj{"message": "another"}), item(say("assistant", "on")),
		}, `
user(codex context): <environment_context>
<cwd>/w</cwd>
user(user): first
user(user): second
user(user): third
user(compact codex/10): another
assistant(model): on`, 4},
		{"no replacement history, budget", []obj{
			item(say("user", "oldest")), item(say("user", big)), item(say("user", "newest")), compacted(obj{"message": ""}),
		}, "CUT", 2},
		{"rolled back", []obj{
			item(say("user", "one")), item(say("assistant", "ok")), item(say("user", "two")), item(call("1")), item(out("1")),
			item(say("user", "three")), rec("event_msg", obj{"type": "thread_rolled_back", "num_turns": 2}), item(say("user", "four")),
		}, `
user(user): one
assistant(model): ok
user(user): four`, 4},
		{"items of the first versions", []obj{
			{"id": "x", "timestamp": "2025-05-01T00:00:00Z", "instructions": nil},
			{"type": "message", "role": "user", "content": []obj{{"type": "input_text", "text": "go"}}},
			{"record_type": "state"}, call("1"), out("1"),
		}, `
user(user): go
assistant(model): call 1
tool(tool): 1=out 1`, 0},
		{"odd payloads", []obj{
			item(say("user", "go")), item(obj{"no": "type"}), item(obj{"type": "message", "role": 5, "content": 7}),
			rec("event_msg", obj{"type": "token_count", "info": nil}), rec("compacted", obj{"replacement_history": "x"}), rec("unheard_of", obj{}),
		}, "\nuser(user): go\nuser(compact codex/5): (no summary available)", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := read(t, jsonLines(c.recs...))
			got := show(f.Conversations[0])
			if c.want == "CUT" {
				require.Len(t, f.Conversations[0].Entries, 3)
				require.Regexp(t, `^user\(user\): word .*…500\d tokens truncated….*word \nuser\(user\): newest\nuser\(compact codex/4\): \(no summary available\)$`, got)
				require.InDelta(t, userBudget*bytesPerToken, len(got), 200)
			} else {
				require.Equal(t, strings.TrimPrefix(c.want, "\n"), got)
			}
			require.Equal(t, c.side, f.Conversations[0].Side, "messages that are not live")
		})
	}
}

func TestEnvelope(t *testing.T) {
	f := read(t, jsonLines(meta, rec("session_meta", obj{"model_provider": "other"}), turn, item(say("developer", "lead")), item(say("user", "go"))))
	e := f.Conversations[0].Envelope
	require.Equal(t, "azure", e.Provider)
	require.Equal(t, "gpt-x", e.Model)
	require.Len(t, e.System, 2)
	require.Equal(t, "be good", e.System[0].Text())
	require.Equal(t, session.RoleDeveloper, e.System[1].Role)
	require.NoError(t, e.System[0].Validate())

	// What is in the envelope goes back into the history that is written.
	again := read(t, write(t, f, 0, []wire.Item{checkpointItem(0)})).Conversations[0]
	require.Equal(t, e, again.Envelope)
	require.Equal(t, "user(compact c1): so far", show(again))
}

func TestUsage(t *testing.T) {
	prompts := func(recs ...obj) (out []int) {
		for _, e := range read(t, jsonLines(recs...)).Conversations[0].Entries {
			if e.Usage != nil {
				out = append(out, e.Usage.Prompt)
				require.Equal(t, session.RoleAssistant, e.Message.Role)
			} else if e.Message.Role == session.RoleAssistant {
				out = append(out, 0)
			}
		}
		return out
	}
	// Newer files: the count follows the response. It is repeated with the same
	// total when the rate limits change.
	require.Equal(t, []int{100, 200, 300}, prompts(
		item(say("user", "go")), item(call("1")), tokens(100, 100), tokens(100, 100), item(out("1")),
		item(say("assistant", "a")), tokens(300, 200), item(say("assistant", "b")), tokens(600, 300)))
	// Older ones: it stands before.
	require.Equal(t, []int{100, 200, 0}, prompts(
		item(say("user", "go")), tokens(100, 100), item(think("x")), item(call("1")), item(out("1")),
		tokens(300, 200), item(say("assistant", "a")), item(say("user", "x")), item(say("assistant", "b"))))

	require.Equal(t, []int{100, 200}, prompts(
		tokens(100, 100), item(say("assistant", "a")), tokens(300, 200), item(say("assistant", "b"))))

	f := read(t, jsonLines(meta, turn, item(say("assistant", "a")), tokens(1, 50)))
	require.Equal(t, &session.Usage{Node: session.NoSeq, Prompt: 50, Completion: 5, CacheRead: 7, Reasoning: 3, Provider: "azure", Model: "gpt-x"}, f.Conversations[0].Entries[0].Usage)
}

func checkpointItem(hides ...int) wire.Item {
	m := session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: "so far"}}, Source: compact.CheckpointSource("c1")}
	return wire.Item{Entry: -1, Message: &m, Compaction: &wire.Compaction{
		ID: "c1", Auto: true, TokensBefore: 100, TokensAfter: 10, Shadowed: hides, Time: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}}
}

func TestWriteMarksItLikeTheAgent(t *testing.T) {
	recs := []obj{item(say("user", "go")), item(obj{"type": "ghost_snapshot", "commit": "c"}), item(think("hm")), item(call("1")), item(out("1")), tokens(1, 1),
		item(say("assistant", "a")), tokens(2, 2), item(say("assistant", "b"))}
	recs[len(recs)-1]["ordinal"] = 41
	data := bytes.TrimSuffix(jsonLines(recs...), []byte("\n"))
	f := read(t, data)
	require.Len(t, f.Conversations[0].Entries, 5)
	got := write(t, f, 0, []wire.Item{checkpointItem(0), {Entry: 1}, {Entry: 2}, {Entry: 3}, {Entry: 4}})
	require.True(t, bytes.HasPrefix(got, append(data, '\n')))

	var r struct {
		Timestamp, Type string
		Ordinal         int
		Payload         struct {
			Message     string
			Replacement []json.RawMessage `json:"replacement_history"`
		}
	}
	added := bytes.Split(bytes.TrimSpace(got[len(data)+1:]), []byte("\n"))
	require.Len(t, added, 2)
	require.JSONEq(t, `{"timestamp":"2026-05-06T07:08:09.000Z","ordinal":43,"type":"event_msg","payload":{"type":"context_compacted"}}`, string(added[1]))
	require.NoError(t, json.Unmarshal(added[0], &r))
	require.Equal(t, "compacted", r.Type)
	require.Equal(t, 42, r.Ordinal)
	require.Equal(t, "2026-05-06T07:08:09.000Z", r.Timestamp)
	require.Equal(t, "so far", r.Payload.Message)
	var want []string
	for _, o := range []obj{say("user", "so far"), think("hm"), call("1"), out("1"), say("assistant", "a"), say("assistant", "b"), {"type": "ghost_snapshot", "commit": "c"}} {
		raw, _ := json.Marshal(o)
		want = append(want, string(raw))
	}
	require.Len(t, r.Payload.Replacement, len(want))
	for i, raw := range r.Payload.Replacement {
		require.JSONEq(t, want[i], string(raw))
	}

	// The agent goes on by appending.
	got = append(got, jsonLines(item(say("assistant", "c")), item(say("user", "next")))...)
	again := read(t, got).Conversations[0]
	require.Equal(t, `user(compact c1): so far
assistant(model): thinks hm, call 1
tool(tool): 1=out 1
assistant(model): a
assistant(model): b
assistant(model): c
user(user): next`, show(again))
	require.Equal(t, 1, again.Side)

	// Without our field the file still says what the checkpoint is.
	plain := bytes.Replace(got, []byte(`"agentcompact"`), []byte(`"other"`), 1)
	require.Equal(t, 0, read(t, plain).Conversations[0].Checkpoints[0].Entry)
}

func TestErrorsAndNotes(t *testing.T) {
	for _, in := range []string{"", "{}", "x\n", "[1]", `{"type":"user","uuid":"a","parentUuid":null}`, `{"type":"session","id":"a"}`} {
		_, err := Codec{}.Read(t.Context(), []byte(in))
		var we *wire.Error
		require.ErrorAs(t, err, &we, "%q", in)
		require.Positive(t, we.Line)
	}
	good := string(jsonLines(item(say("user", "go"))))
	f := read(t, []byte(good+"\n7\nbad\n"+good[:30]))
	require.Len(t, f.Notes, 3)
	require.Equal(t, "user(user): go", show(f.Conversations[0]))

	dev := session.Message{Role: session.RoleUser}
	for name, items := range map[string][]wire.Item{"no such entry": {{Entry: 1}}, "no message": {{Entry: -1}}, "no source": {{Entry: -1, Message: &dev}}} {
		var b bytes.Buffer
		var we *wire.Error
		require.ErrorAs(t, f.Writer.Write(t.Context(), &b, 0, items), &we, name)
		require.Zero(t, b.Len())
	}
	var we *wire.Error
	require.ErrorAs(t, f.Writer.Write(t.Context(), new(bytes.Buffer), 1, nil), &we)
}

func FuzzRead(f *testing.F) {
	f.Add(jsonLines(meta, turn, env, item(say("user", "go")), item(call("1")), item(out("1")), tokens(1, 1)))
	f.Add(jsonLines(item(say("user", "go")), rec("compacted", obj{"message": "x", "replacement_history": []any{say("user", "x"), 1, nil},
		"agentcompact": obj{"id": "c", "messages": []obj{{"at": -1}, {"at": 9}, {"at": 0, "ref": "c"}, {"at": 0, "source": obj{"kind": "tool"}}}}})))
	f.Add(jsonLines(rec("event_msg", obj{"type": "thread_rolled_back", "num_turns": 1 << 40}), rec("compacted", obj{})))
	f.Fuzz(func(t *testing.T, data []byte) {
		Codec{}.Detect(data, false)
		file, err := Codec{}.Read(t.Context(), data)
		if err != nil {
			return
		}
		c := file.Conversations[0]
		items := []wire.Item{checkpointItem()}
		want := []session.Message{*items[0].Message}
		for i := range c.Entries {
			if err := c.Entries[i].Message.Validate(); err != nil {
				t.Fatalf("entry %d: %v", i, err)
			}
			if i >= len(c.Entries)/2 {
				items = append(items, wire.Item{Entry: i})
				want = append(want, surface(c.Entries[i:i+1])...)
			}
		}
		again, err := Codec{}.Read(t.Context(), write(t, file, 0, items))
		if err != nil {
			t.Fatalf("the output cannot be read: %v", err)
		}
		require.Equal(t, want, surface(again.Conversations[0].Entries))
	})
}
