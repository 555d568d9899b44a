package pi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

const v1 = `{"type":"session","id":"s","timestamp":"2026-07-09T10:00:00.000Z","cwd":"/test"}
{"type":"message","timestamp":"2026-07-09T10:00:01.000Z","message":{"role":"user","content":"one"}}
{"type":"message","timestamp":"2026-07-09T10:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"two"}],"provider":"p","model":"m"}}
{"type":"message","timestamp":"2026-07-09T10:00:03.000Z","message":{"role":"user","content":"three"}}
`

func texts(c *wire.Conversation) string {
	var out []string
	for _, e := range c.Entries {
		out = append(out, e.Message.Text())
	}
	return strings.Join(out, " | ")
}

// last is the last line of a file.
func last(t *testing.T, data []byte, n int) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var o map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-n]), &o))
	return o
}

func TestWritesWhatTheAgentWrites(t *testing.T) {
	s := suite(t)
	f := s.Read(t, []byte(v1))

	// The end stays: one entry, its first kept one by number.
	out := wiretest.Write(t, f, 0, []wire.Item{wiretest.Checkpoint("c", 0, 1), {Entry: 2}})
	e := last(t, out, 1)
	require.Equal(t, "compaction", e["type"])
	require.EqualValues(t, 3, e["firstKeptEntryIndex"])
	require.EqualValues(t, 5000, e["tokensBefore"])
	require.Equal(t, "2026-12-01T10:00:00.000Z", e["timestamp"])
	require.Equal(t, wiretest.Checkpoint("c").Message.Text()+" | three", texts(s.Read(t, out).Conversations[0]))

	// Nothing stays as it was: the number of the compaction itself, and copies.
	m := session.UserText("other")
	out = wiretest.Write(t, f, 0, []wire.Item{wiretest.Checkpoint("c", 0, 1), {Entry: 2, Message: &m}})
	require.EqualValues(t, 4, last(t, out, 2)["firstKeptEntryIndex"])
	require.Equal(t, wiretest.Checkpoint("c").Message.Text()+" | other", texts(s.Read(t, out).Conversations[0]))

	// Version 1 cannot say this: the file is upgraded.
	out = wiretest.Write(t, f, 0, []wire.Item{{Entry: 0}, wiretest.Checkpoint("c", 1), {Entry: 2}})
	again := s.Read(t, out)
	require.Equal(t, "pi session, version 3", again.Container)
	require.Equal(t, "one | "+wiretest.Checkpoint("c").Message.Text()+" | three", texts(again.Conversations[0]))
	require.Equal(t, "branch_summary", last(t, out, 2)["type"])

	// And in the tree: by id, and nothing kept is an id that nothing before has.
	out = wiretest.Write(t, again, 0, []wire.Item{wiretest.Checkpoint("d", 0, 1), {Entry: 2}})
	kept := last(t, out, 1)["firstKeptEntryId"]
	require.Contains(t, string(out), `"id":"`+kept.(string)+`"`)
	out = wiretest.Write(t, again, 0, []wire.Item{wiretest.Checkpoint("d", 0, 1, 2)})
	e = last(t, out, 1)
	require.Equal(t, e["id"], e["firstKeptEntryId"])
}

func TestContextIsTheAgents(t *testing.T) {
	s := suite(t)
	for path, want := range map[string]string{
		"pi/small/branching.jsonl":          "common prompt | common answer | right branch prompt | right branch answer",
		"pi/small/compaction.jsonl":         "summarized earlier turns | first answer before compaction | second prompt after compaction | second answer after compaction",
		"pi/small/compaction-missing.jsonl": "summarized earlier turns | prompt after compaction",
		"pi/small/v1-legacy.jsonl":          "legacy compaction summary | legacy prompt | legacy answer | legacy prompt two | legacy answer two",
	} {
		for _, f := range s.Own {
			if f.Path == path {
				require.Equal(t, want, texts(s.Read(t, f.Data).Conversations[0]), path)
			}
		}
	}
}

// Version 1 counts entries, and the agent does not count what is not JSON.
func TestBadLinesAreNotCounted(t *testing.T) {
	s := suite(t)
	head, rest, _ := strings.Cut(v1, "\n")
	sound := v1 + `{"type":"compaction","timestamp":"2026-07-09T10:00:04.000Z","summary":"all","firstKeptEntryIndex":3}` + "\n"
	broken := strings.Replace(sound, rest, "Killed: 9 {\n"+rest, 1)
	require.True(t, strings.HasPrefix(broken, head+"\nKilled"))
	for _, data := range []string{sound, broken} {
		f := s.Read(t, []byte(data))
		require.Equal(t, "all | three", texts(f.Conversations[0]))
		m := session.UserText("other")
		upgraded := s.Read(t, wiretest.Write(t, f, 0, []wire.Item{{Entry: 0}, {Entry: 1, Message: &m}, {Entry: -1, Message: &m}}))
		require.Equal(t, "pi session, version 3", upgraded.Container)
		require.Equal(t, "all | other | other", texts(upgraded.Conversations[0]))
	}
}

func TestShell(t *testing.T) {
	code := 2
	require.Equal(t, "Ran `ls`\n```\nx\n```\n\nCommand exited with code 2", (&message{Command: "ls", Output: "x", ExitCode: &code}).shell())
	require.Equal(t, "Ran `ls`\n(no output)\n\n(command cancelled)", (&message{Command: "ls", Cancelled: true}).shell())
}
