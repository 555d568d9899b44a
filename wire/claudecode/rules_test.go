package claudecode

import (
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

// obj is a record under construction.
type obj map[string]any

func (o obj) with(k string, v any) obj { o[k] = v; return o }

func rec(kind, uuid, parent string) obj {
	o := obj{"type": kind, "uuid": uuid, "parentUuid": nil, "sessionId": "s", "cwd": "/w", "version": "2.1.220", "gitBranch": "main", "timestamp": "2026-01-02T03:04:05.000Z"}
	if parent != "" {
		o["parentUuid"] = parent
	}
	return o
}

func user(uuid, parent string, content any) obj {
	return rec("user", uuid, parent).with("message", obj{"role": "user", "content": content})
}

func result(uuid, parent string, ids ...string) obj {
	var list []obj
	for _, id := range ids {
		list = append(list, obj{"type": "tool_result", "tool_use_id": id, "content": "out " + id})
	}
	return user(uuid, parent, list)
}

func reply(uuid, parent, id string, blocks ...obj) obj {
	return rec("assistant", uuid, parent).with("requestId", "r"+id).with("message",
		obj{"role": "assistant", "id": id, "model": "claude-x", "content": blocks, "usage": obj{"input_tokens": 3, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 500, "output_tokens": len(uuid)}})
}

func text(s string) obj { return obj{"type": "text", "text": s} }
func use(id string) obj {
	return obj{"type": "tool_use", "id": id, "name": "Bash", "input": obj{"command": id}}
}

func boundaryRec(uuid string) obj {
	return rec("system", uuid, "").with("subtype", "compact_boundary").with("compactMetadata", obj{"trigger": "auto", "preTokens": 99})
}

func summaryRec(uuid, parent string) obj {
	return user(uuid, parent, "the summary").with("isCompactSummary", true)
}

func jsonLines(recs ...obj) []byte {
	var b strings.Builder
	for _, r := range recs {
		raw, _ := json.Marshal(r)
		b.Write(raw)
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// show puts the live conversation into words.
func show(c *wire.Conversation) string {
	var out []string
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
			default:
				parts = append(parts, strings.TrimPrefix(fmt.Sprintf("%T", p), "session."))
			}
		}
		src := string(e.Message.Source.Kind)
		if e.Message.Source.Kind == session.SourcePlugin {
			src = e.Message.Source.Plugin + " " + e.Message.Source.Form + e.Message.Source.Ref
		}
		out = append(out, fmt.Sprintf("%s(%s): %s", e.Message.Role, strings.TrimSpace(src), strings.Join(parts, ", ")))
	}
	return strings.Join(out, "\n")
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		recs []obj
		want string
		side int
	}{
		{"fragments with results between them", []obj{
			user("u1", "", "go"),
			reply("a1", "u1", "m1", obj{"type": "thinking", "thinking": "hm", "signature": "s"}),
			reply("a2", "a1", "m1", use("t1")),
			result("r1", "a2", "t1"),
			reply("a3", "r1", "m1", use("t2")),
			result("r2", "a3", "t2"),
			reply("a4", "r2", "m2", text("done")),
		}, `
user(user): go
assistant(model): Reasoning, call t1, call t2
tool(tool): t1=out t1
tool(tool): t2=out t2
assistant(model): done`, 0},
		{"fork by parallel calls", []obj{
			user("u1", "", "go"),
			reply("a1", "u1", "m1", use("t1")),
			reply("a2", "a1", "m1", use("t2")),
			reply("a3", "a1", "m1", use("t3")),
			result("r1", "a1", "t1"),
			result("r3", "a3", "t3"),
			result("r2", "a2", "t2"),
			reply("a4", "r2", "m2", text("done")),
		}, `
user(user): go
assistant(model): call t1, call t2, call t3
tool(tool): t1=out t1
tool(tool): t3=out t3
tool(tool): t2=out t2
assistant(model): done`, 0},
		{"rewind drops the abandoned branch", []obj{
			user("u1", "", "go"),
			reply("a1", "u1", "m1", text("which?")),
			user("u2", "a1", "this"),
			reply("a2", "u2", "m2", use("t1")),
			result("r1", "a2", "t1"),
			user("u3", "a1", "no, that"),
			reply("a3", "u3", "m3", text("ok")),
		}, `
user(user): go
assistant(model): which?
user(user): no, that
assistant(model): ok`, 3},
		{"progress, system and attachment records stand in the chain", []obj{
			rec("progress", "p0", ""),
			user("u1", "p0", "go"),
			rec("system", "s1", "u1").with("subtype", "turn_duration"),
			rec("attachment", "at1", "s1").with("attachment", obj{"type": "todo_reminder"}),
			reply("a1", "at1", "m1", text("ok")),
			rec("attachment", "at2", "a1").with("attachment", obj{"type": "queued_command", "prompt": "and this", "commandMode": "prompt"}),
			rec("attachment", "at3", "at2").with("attachment", obj{"type": "hook_additional_context", "rendered": "from a hook"}),
		}, `
user(user): go
assistant(model): ok
user(user): and this
user(claude-code attachment): from a hook`, 0},
		{"parent outside the file and no root", []obj{
			user("u1", "gone", "go"),
			reply("a1", "u1", "m1", text("ok")),
			user("u2", "gone too", "more"),
		}, `
user(user): go
assistant(model): ok
user(user): more`, 0},
		{"a second root is where the agent begins", []obj{
			user("u1", "", "old"),
			reply("a1", "u1", "m1", text("ok")),
			user("u2", "", "new"),
			reply("a2", "u2", "m2", text("yes")),
		}, `
user(user): new
assistant(model): yes`, 2},
		{"no links at all", []obj{
			user("u1", "", "one"),
			reply("a1", "", "m1", text("two")),
			user("u3", "", "three"),
		}, `
user(user): one
assistant(model): two
user(user): three`, 0},
		{"duplicate uuids and a copied record", []obj{
			user("u1", "", "one"),
			reply("a1", "u1", "m1", text("two")),
			reply("a1", "u1", "m1", text("two")),
			user("x", "a1", "three"),
			user("x", "x", "four"),
		}, `
user(user): one
assistant(model): two
user(user): three
user(user): four`, 0},
		{"cycle", []obj{
			user("u1", "u3", "one"),
			user("u2", "u1", "two"),
			user("u3", "u2", "three"),
		}, `
user(user): one
user(user): two
user(user): three`, 0},
		{"own parent", []obj{user("u1", "u1", "one")}, "\nuser(user): one", 0},
		{"injected text is no prompt", []obj{
			user("u1", "", "<local-command-caveat>Caveat"),
			user("u2", "u1", "a skill").with("isMeta", true),
			user("u3", "u2", []obj{text("[Request interrupted by user for tool use]")}),
			user("u4", "u3", "<bash-stdout>x</bash-stdout>"),
			user("u5", "u4", "real").with("isMeta", false),
		}, `
user(claude-code command): <local-command-caveat>Caveat
user(claude-code meta): a skill
user(claude-code interrupt): [Request interrupted by user for tool use]
user(claude-code command): <bash-stdout>x</bash-stdout>
user(user): real`, 0},
		{"a prompt with a result", []obj{
			reply("a1", "", "m1", use("t1")),
			user("u1", "a1", []obj{{"type": "tool_result", "tool_use_id": "t1", "content": "no"}, text("do it so")}),
		}, `
assistant(model): call t1
tool(tool): t1=no
user(user): do it so`, 0},
		{"synthetic messages and errors", []obj{
			user("u1", "", "go"),
			rec("assistant", "e1", "u1").with("isApiErrorMessage", true).with("message", obj{"id": "x", "role": "assistant", "model": "<synthetic>", "content": []obj{text("API Error")}}),
			user("u2", "e1", "again"),
			rec("assistant", "e2", "u2").with("message", obj{"id": "y", "role": "assistant", "model": "<synthetic>", "content": []obj{text("No response requested.")}}),
		}, `
user(user): go
user(user): again
assistant(claude-code synthetic): No response requested.`, 0},
		{"superseded and retracted", []obj{
			user("u1", "", "go"),
			reply("a1", "u1", "m1", text("half")),
			reply("a2", "a1", "m2", text("whole")).with("supersedesUuids", []string{"a1"}),
			reply("a3", "a2", "m3", text("refused")),
			rec("system", "s1", "a3").with("retractedMessageUuids", []string{"a3"}),
			user("u2", "s1", "more"),
		}, `
user(user): go
assistant(model): whole
user(user): more`, 2},
		{"a retracted id that several records have names none of them", []obj{
			user("x", "", "one"),
			user("x", "x", "two"),
			rec("system", "s1", "x").with("retractedMessageUuids", []string{"x"}),
			user("u2", "s1", "more"),
		}, `
user(user): one
user(user): two
user(user): more`, 0},
		{"drifted records", []obj{
			user("u1", "", "go"),
			rec("user", "u2", "u1").with("message", "error"),
			rec("user", "u3", "u2").with("message", obj{"role": "user", "contenst": []obj{}}),
			user("u4", "u3", []any{"stray", 7}),
			rec("user", "u5", "u4").with("message", obj{"role": "user", "content": 5}).with("isMeta", "yes"),
		}, `
user(user): go
user(user): Opaque, Opaque`, 0},
		{"a call of the user is none", []obj{user("u1", "", []obj{use("t1")})}, "\nuser(user): Opaque", 0},
		{"compaction", []obj{
			user("u1", "", "old"),
			reply("a1", "u1", "m1", text("ok")),
			boundaryRec("b1"),
			summaryRec("s1", "b1"),
			user("u2", "s1", "new"),
		}, `
user(compact s1): the summary
user(user): new`, 2},
		{"a compaction without its summary is not in force", []obj{
			user("u1", "", "old"),
			reply("a1", "u1", "m1", text("ok")),
			boundaryRec("b1"),
		}, `
user(user): old
assistant(model): ok`, 0},
		{"preserved messages by name, after the summary", []obj{
			user("u1", "", "old"),
			reply("a1", "u1", "m1", use("t1")),
			result("r1", "a1", "t1"),
			user("u2", "r1", "kept"),
			boundaryRec("b1").with("compactMetadata", obj{"preservedMessages": obj{"anchorUuid": "s1", "uuids": []string{"a1", "r1", "u2"}}}),
			summaryRec("s1", "b1"),
			reply("a3", "u2", "m3", text("on")),
		}, `
user(compact s1): the summary
assistant(model): call t1
tool(tool): t1=out t1
user(user): kept
assistant(model): on`, 1},
		{"preserved segment, before the summary", []obj{
			user("u1", "", "old"),
			user("u2", "u1", "kept 1"),
			rec("progress", "p1", "u2"),
			reply("a1", "p1", "m1", text("kept 2")),
			user("u3", "a1", "gone"),
			boundaryRec("b1").with("compactMetadata", obj{"preservedSegment": obj{"headUuid": "u2", "anchorUuid": "b1", "tailUuid": "a1"}}),
			summaryRec("s1", "b1"),
			user("u4", "s1", "new"),
		}, `
user(user): kept 1
assistant(model): kept 2
user(compact s1): the summary
user(user): new`, 2},
		{"micro-compaction", []obj{
			reply("a1", "", "m1", use("t1"), use("t2")),
			result("r1", "a1", "t1", "t2"),
			rec("system", "mc", "r1").with("subtype", "microcompact_boundary").with("microcompactMetadata", obj{"compactedToolIds": []string{"t1"}}),
			reply("a2", "mc", "m2", use("t1")),
			result("r2", "a2", "t1"),
		}, `
assistant(model): call t1, call t2
tool(claude-code cleared): t1=[Old tool result content cleared], t2=out t2
assistant(model): call t1
tool(tool): t1=out t1`, 0},
		{"side chains are not live", []obj{
			user("u1", "", "go"),
			user("x1", "", "sub task").with("isSidechain", true),
			reply("x2", "x1", "mx", text("sub done")).with("isSidechain", true),
			reply("a1", "u1", "m1", text("ok")),
		}, `
user(user): go
assistant(model): ok`, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := read(t, jsonLines(c.recs...))
			require.Equal(t, strings.TrimPrefix(c.want, "\n"), show(f.Conversations[0]))
			require.Equal(t, c.side, f.Conversations[0].Side, "messages that are not live")
			for i, e := range f.Conversations[0].Entries {
				require.NoError(t, e.Message.Validate(), "entry %d", i)
			}
		})
	}
}

func TestUsageAndTime(t *testing.T) {
	f := read(t, jsonLines(
		user("u1", "", "go"),
		reply("a1", "u1", "m1", text("a")),
		reply("a1-longer", "a1", "m1", use("t1")),
	))
	e := f.Conversations[0].Entries[1]
	require.Equal(t, &session.Usage{Node: session.NoSeq, Prompt: 543, Completion: len("a1-longer"), CacheRead: 40, CacheWrite: 500, Provider: "anthropic", Model: "claude-x"}, e.Usage)
	require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), e.Time)
	require.Equal(t, "claude-x", f.Conversations[0].Envelope.Model)
	require.Nil(t, e.Message.Origin, "merged fragments have no origin")
	require.NotNil(t, f.Conversations[0].Entries[0].Message.Origin)
}

func TestCheckpoints(t *testing.T) {
	f := read(t, jsonLines(
		user("u1", "", "old"), reply("a1", "u1", "m1", text("ok")),
		boundaryRec("b1"), summaryRec("s1", "b1"), user("u2", "s1", "next"),
		boundaryRec("b2").with("compactMetadata", obj{"trigger": "manual", "preTokens": 7, "preservedMessages": obj{"anchorUuid": "s2", "allUuids": []string{"u2"}}}),
		summaryRec("s2", "b2"),
	))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, []wire.Checkpoint{
		{Entry: -1, Trigger: "auto", TokensBefore: 99, Hides: 2, Time: at},
		{Entry: 0, Trigger: "manual", TokensBefore: 7, Hides: 1, Time: at},
	}, f.Conversations[0].Checkpoints)
	require.True(t, compact.IsCheckpointSource(f.Conversations[0].Entries[0].Message.Source))
	require.Equal(t, "user(compact s2): the summary\nuser(user): next", show(f.Conversations[0]))
}

func TestNotesAndErrors(t *testing.T) {
	good := string(jsonLines(user("u1", "", "go")))
	f := read(t, []byte(good+"\n\"text\"\nnot json\n"+good[:40]))
	require.Equal(t, []string{
		"line 5: the last record is cut short and was passed over",
		"1 lines are not JSON and were passed over, the first is line 4",
		"1 values are not objects and were passed over",
	}, f.Notes)

	for _, in := range []string{"", "{}", "{\"a\":1}\nx\n", "\x00\x01", "[1,2]", `{"type":"summary","summary":"x","leafUuid":"y"}`} {
		_, err := Codec{}.Read(t.Context(), []byte(in))
		var we *wire.Error
		require.ErrorAs(t, err, &we, "%q", in)
		require.Positive(t, we.Line)
		require.Contains(t, err.Error(), "parentUuid")
	}
}
