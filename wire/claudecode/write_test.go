package claudecode

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

var sample = jsonLines(
	user("u1", "", "go"),
	reply("a1", "u1", "m1", use("t1")),
	reply("a2", "a1", "m1", use("t2")),
	result("r1", "a1", "t1"),
	result("r2", "a2", "t2"),
	rec("system", "sys", "r2").with("subtype", "turn_duration"),
	user("u2", "sys", "more"),
	reply("a3", "u2", "m2", text("ok")),
)

func checkpointItem(hides ...int) wire.Item {
	m := session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: "so far"}}, Source: compact.CheckpointSource("c1")}
	return wire.Item{Entry: -1, Message: &m, Compaction: &wire.Compaction{
		ID: "c1", Auto: true, TokensBefore: 100, TokensAfter: 10, Shadowed: hides, Time: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}}
}

// appended returns the records that a write appended.
func appended(t *testing.T, out []byte) []map[string]any {
	t.Helper()
	require.True(t, bytes.HasPrefix(out, sample))
	var recs []map[string]any
	for line := range strings.Lines(string(out[len(sample):])) {
		var r map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		recs = append(recs, r)
	}
	return recs
}

func TestWriteMarksItLikeTheAgent(t *testing.T) {
	f := read(t, sample)
	out := write(t, f, 0, []wire.Item{checkpointItem(0), {Entry: 1}, {Entry: 2}, {Entry: 3}, {Entry: 4}, {Entry: 5}})
	recs := appended(t, out)
	require.Len(t, recs, 2)
	b, s := recs[0], recs[1]
	require.Equal(t, "system", b["type"])
	require.Equal(t, "compact_boundary", b["subtype"])
	require.Nil(t, b["parentUuid"])
	require.Equal(t, "a3", b["logicalParentUuid"])
	require.Equal(t, "2026-05-06T07:08:09.000Z", b["timestamp"])
	require.Equal(t, map[string]any{
		"trigger": "auto", "preTokens": 100.0, "postTokens": 10.0,
		"preservedSegment":  map[string]any{"headUuid": "a1", "anchorUuid": s["uuid"], "tailUuid": "a3"},
		"preservedMessages": map[string]any{"anchorUuid": s["uuid"], "uuids": []any{"a1", "a2", "r1", "r2", "u2", "a3"}, "allUuids": []any{"a1", "a2", "r1", "r2", "sys", "u2", "a3"}},
	}, b["compactMetadata"])
	require.Equal(t, b["uuid"], s["parentUuid"])
	require.Equal(t, true, s["isCompactSummary"])
	require.Equal(t, map[string]any{"role": "user", "content": "so far"}, s["message"])
	for _, r := range recs {
		require.Equal(t, "s", r["sessionId"])
		require.Equal(t, "/w", r["cwd"])
		require.Equal(t, "2.1.220", r["version"])
		require.Equal(t, "main", r["gitBranch"])
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, r["uuid"])
	}

	// The agent goes on from the last preserved message.
	out = append(out, jsonLines(user("u3", "a3", "next"), reply("a4", "u3", "m3", text("yes")))...)
	again := read(t, out).Conversations[0]
	require.Equal(t, `user(compact c1): so far
assistant(model): call t1, call t2
tool(tool): t1=out t1
tool(tool): t2=out t2
user(user): more
assistant(model): ok
user(user): next
assistant(model): yes`, show(again))
	require.Nil(t, again.Entries[5].Usage)
	require.NotNil(t, again.Entries[7].Usage, "usage of the new conversation")
}

// Agents that may not know the names get the end as copies, linked to the summary:
// what the last record reaches through its parents is the whole context.
func TestWriteForOldAgents(t *testing.T) {
	for version, names := range map[string]bool{"1.0.98": false, "2.0.76": false, "2.1.79": false, "2.1.80": true, "2.2.0": true, "3.0.1": true, "dev": true} {
		old := bytes.ReplaceAll(sample, []byte("2.1.220"), []byte(version))
		f := read(t, old)
		items := []wire.Item{checkpointItem(0), {Entry: 1}, {Entry: 2}, {Entry: 3}, {Entry: 4}, {Entry: 5}}
		out := write(t, f, 0, items)
		var recs []map[string]any
		for line := range strings.Lines(string(out[len(old):])) {
			var r map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			recs = append(recs, r)
		}
		meta := recs[0]["compactMetadata"].(map[string]any)
		require.Equal(t, names, meta["preservedSegment"] != nil, version)
		if names {
			require.Len(t, recs, 2)
			continue
		}
		require.Len(t, recs, 7)
		for i := 1; i < len(recs); i++ {
			require.Equal(t, recs[i-1]["uuid"], recs[i]["parentUuid"], "record %d", i)
		}
		require.Equal(t, "user(compact c1): so far\n"+strings.SplitN(show(f.Conversations[0]), "\n", 2)[1], show(read(t, out).Conversations[0]))
		out = write(t, f, 0, append([]wire.Item{{Entry: 0}}, items[1:]...))
		require.Equal(t, string(old), string(out), "unchanged")
	}
}

func TestWriteCopiesWhatMoved(t *testing.T) {
	f := read(t, sample)
	c := f.Conversations[0]
	changed := c.Entries[2].Message.Clone()
	changed.Parts = []session.Part{session.ToolResult{CallID: "t1", Parts: []session.Part{session.Text{Text: "short"}}, IsError: true}}
	changed.Source = session.Source{Kind: session.SourcePlugin, Plugin: compact.Plugin, Form: compact.FormPruned}

	// A checkpoint in the middle, a changed result, an unchanged end.
	out := write(t, f, 0, []wire.Item{{Entry: 0}, checkpointItem(1), {Entry: 1}, {Entry: 2, Message: changed}, {Entry: 3}, {Entry: 4}, {Entry: 5}})
	recs := appended(t, out)
	require.Len(t, recs, 5, "the end is named, not copied")
	call := recs[3]["message"].(map[string]any)
	require.NotEqual(t, "m1", call["id"], "an old fragment would be merged into the copy")
	require.Equal(t, 0.0, call["usage"].(map[string]any)["output_tokens"])
	require.Nil(t, recs[4]["toolUseResult"])
	require.Equal(t, `user(user): go
user(compact c1): so far
assistant(model): call t1, call t2
tool(compact pruned): t1=short
tool(tool): t2=out t2
user(user): more
assistant(model): ok`, show(read(t, out).Conversations[0]))
}

func TestWriteWithoutCompaction(t *testing.T) {
	f := read(t, sample)
	note := session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: "note"}}, Source: session.Source{Kind: session.SourcePlugin, Plugin: "host"}}
	items := []wire.Item{{Entry: 0}, {Entry: 1}, {Entry: 2}, {Entry: 3}, {Entry: 4}, {Entry: 5}, {Entry: -1, Message: &note}}
	out := write(t, f, 0, items)
	recs := appended(t, out)
	require.Len(t, recs, 1, "an addition needs no boundary")
	require.Equal(t, "a3", recs[0]["parentUuid"])
	again := read(t, out).Conversations[0]
	require.Empty(t, again.Checkpoints)
	require.Equal(t, show(f.Conversations[0])+"\nuser(host): note", show(again))

	// What was dropped is no compaction with a checkpoint either.
	again = read(t, write(t, f, 0, items[4:6])).Conversations[0]
	require.Empty(t, again.Checkpoints)
	require.Equal(t, "user(user): more\nassistant(model): ok", show(again))
}

func TestWriteTornFile(t *testing.T) {
	torn := slices.Concat(sample, []byte(`{"type":"user","uuid":"u9","par`))
	f := read(t, torn)
	out := write(t, f, 0, []wire.Item{checkpointItem(0, 1, 2, 3), {Entry: 4}, {Entry: 5}})
	require.True(t, bytes.HasPrefix(out, append(torn, '\n')))
	require.Equal(t, "user(compact c1): so far\nuser(user): more\nassistant(model): ok", show(read(t, out).Conversations[0]))
}

func TestWriteRefuses(t *testing.T) {
	f := read(t, sample)
	dev := session.Message{Role: session.RoleDeveloper, Source: session.Source{Kind: session.SourceUser}}
	for name, items := range map[string][]wire.Item{
		"no such entry": {{Entry: 6}},
		"no message":    {{Entry: -1}},
		"developer":     {{Entry: -1, Message: &dev}},
		"no source":     {{Entry: -1, Message: &session.Message{Role: session.RoleUser}}},
		"empty":         {},
	} {
		var out bytes.Buffer
		var we *wire.Error
		require.ErrorAs(t, f.Writer.Write(t.Context(), &out, 0, items), &we, name)
		require.Zero(t, out.Len(), "%s: half a file was written", name)
	}
	var we *wire.Error
	require.ErrorAs(t, f.Writer.Write(t.Context(), new(bytes.Buffer), 1, nil), &we)
}

func TestSideChains(t *testing.T) {
	data := jsonLines(
		user("u1", "", "go"),
		user("x1", "", "find the bug in the parser and fix it right now please").with("isSidechain", true),
		reply("x2", "x1", "mx", text("found")).with("isSidechain", true),
		user("y1", "", "other").with("isSidechain", true).with("agentId", "ag"),
		reply("y2", "elsewhere", "my", text("done")).with("isSidechain", true).with("agentId", "ag"),
		reply("a1", "u1", "m1", text("ok")),
	)
	f := read(t, data)
	require.Len(t, f.Conversations, 3)
	require.Equal(t, "side chain: find the bug in the parser and fix", f.Conversations[1].Title)
	require.Equal(t, "user(user): other\nassistant(model): done", show(f.Conversations[2]))
	require.Equal(t, 4, f.Conversations[0].Side)

	again := read(t, write(t, f, 2, []wire.Item{checkpointItem(0), {Entry: 1}}))
	require.Equal(t, show(f.Conversations[0]), show(again.Conversations[0]))
	require.Equal(t, show(f.Conversations[1]), show(again.Conversations[1]))
	require.Equal(t, "user(compact c1): so far\nassistant(model): done", show(again.Conversations[2]))

	only := read(t, jsonLines(user("x1", "", "task").with("isSidechain", true).with("agentId", "ag")))
	require.Len(t, only.Conversations, 1, "the file of a subagent")
	require.Equal(t, "user(user): task", show(only.Conversations[0]))
}

func FuzzRead(f *testing.F) {
	f.Add(sample)
	f.Add(jsonLines(boundaryRec("b").with("compactMetadata", obj{"preservedMessages": obj{"anchorUuid": "b", "allUuids": []string{"b", "b", "x"}}}), user("b", "b", "x"), user("x", "b", []any{1, nil, obj{}})))
	f.Add([]byte(`{"type":"user","uuid":"a","parentUuid":"a","message":{"content":[{"type":"tool_result","content":{}},{"type":"tool_use","input":3}]}}` + "\n{\"type\":\"user\"}{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		Codec{}.Detect(data, false)
		file, err := Codec{}.Read(t.Context(), data)
		if err != nil {
			return
		}
		for n, c := range file.Conversations {
			for i, e := range c.Entries {
				if err := e.Message.Validate(); err != nil {
					t.Fatalf("entry %d: %v", i, err)
				}
			}
			var items []wire.Item
			items = append(items, checkpointItem())
			for i := len(c.Entries) / 2; i < len(c.Entries); i++ {
				items = append(items, wire.Item{Entry: i})
			}
			out := write(t, file, n, items)
			if !bytes.HasPrefix(out, data) {
				t.Fatal("the originals changed")
			}
			if _, err := (Codec{}).Read(t.Context(), out); err != nil {
				t.Fatalf("the output cannot be read: %v", err)
			}
		}
	})
}
