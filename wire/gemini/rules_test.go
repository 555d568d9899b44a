package gemini

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

func show(c *wire.Conversation) string {
	var out []string
	for i := range c.Entries {
		m := &c.Entries[i].Message
		out = append(out, strings.TrimSpace(string(m.Role)+" "+m.Text()+strings.Join(m.Calls(), ",")+strings.Join(m.Results(), ",")))
	}
	return strings.Join(out, " | ")
}

// Ids are optional: a call takes that of its response, or one of its name.
func TestPairing(t *testing.T) {
	s := contents(t)
	for in, want := range map[string]string{
		`[{"role":"model","parts":[{"functionCall":{"name":"a"}},{"functionCall":{"name":"b"}},{"functionCall":{"name":"a"}}]},
		  {"role":"user","parts":[{"functionResponse":{"name":"b","id":"x"}},{"functionResponse":{"name":"a"}}]},{"role":"user","parts":[{"functionResponse":{"name":"a","id":"y"}}]}]`: "assistant a:0,x,y | tool x,a:0 | tool y",
		`[{"role":"model","parts":[{"functionCall":{"name":"a","id":"1"}}]},{"role":"user","parts":[{"functionResponse":{"name":"a"}},{"text":"t"}]}]`:                           "assistant 1 | tool 1 | user t",
		`[{"role":"model","parts":[{"functionCall":{"name":"a","id":"1"}},{"functionCall":{"name":"a"}}]},{"role":"user","parts":[{"functionResponse":{"name":"a","id":"1"}}]}]`: "assistant 1,a:0 | tool 1",
		`[{"role":"user","parts":[{"functionResponse":{"name":"a"}}]}]`:                                                                                                          "tool a:0",
	} {
		require.Equal(t, want, show(s.Read(t, []byte(in)).Conversations[0]))
	}
}

const log = `{"sessionId":"s","projectHash":"h"}
{"id":"1","timestamp":"2026-01-01T00:00:00Z","type":"user","content":"one"}
{"id":"2","timestamp":"2026-01-01T00:00:01Z","type":"gemini","content":"draft"}
{"id":"2","timestamp":"2026-01-01T00:00:01Z","type":"gemini","content":"two"}
{"id":"3","timestamp":"2026-01-01T00:00:02Z","type":"user","content":"three"}
`

func TestLog(t *testing.T) {
	s := sessions(t)
	read := func(more string) *wire.Conversation { return s.Read(t, []byte(log+more)).Conversations[0] }
	require.Equal(t, "user one | assistant two | user three", show(read("")))
	c := read(`{"$rewindTo":"2"}` + "\n" + `{"id":"4","type":"user","timestamp":"x","content":"four"}`)
	require.Equal(t, "user one | user four", show(c))
	require.Equal(t, 2, c.Side)
	require.Empty(t, read(`{"$rewindTo":"nothing"}`).Entries)
	c = read(`{"$set":{"messages":[{"id":"9","type":"user","content":"all"},{"id":"3","type":"user","content":"three"}]}}` + "\n" + `{"id":"3","type":"user","content":"again"}`)
	require.Equal(t, "user all | user again", show(c))
	require.Equal(t, 2, c.Side)
}

// To a log one record is appended, with the whole list.
func TestLogIsExtended(t *testing.T) {
	s := sessions(t)
	f := s.Read(t, []byte(log))
	out := wiretest.Write(t, f, 0, []wire.Item{wiretest.Checkpoint("c", 0, 1), {Entry: 2}})
	added, ok := strings.CutPrefix(string(out), log)
	require.True(t, ok)
	require.Equal(t, 1, strings.Count(added, "\n"))
	require.True(t, strings.HasPrefix(added, `{"$set":{"messages":[{"id":"`), added)
	require.Contains(t, added, `{"id":"3","timestamp":"2026-01-01T00:00:02Z","type":"user","content":"three"}`)
	require.Contains(t, added, `"lastUpdated":"2026-12-01T10:00:00.000Z"`)
}

// A result that changed is changed in the record of its call.
func TestResultInItsCall(t *testing.T) {
	s := sessions(t)
	in := `{"sessionId":"s","projectHash":"h","messages":[{"id":"1","type":"user","content":"go"},{"id":"2","type":"gemini","content":"","toolCalls":[{"id":"c","name":"n","args":{},"status":"success","result":[{"functionResponse":{"id":"c","name":"n","response":{"output":"long"}}}],"resultDisplay":"long"}]}]}`
	f := s.Read(t, []byte(in))
	m := f.Conversations[0].Entries[2].Message.Clone()
	m.Parts[0] = session.ToolResult{CallID: "c", Name: "n", Parts: []session.Part{session.Text{Text: "short"}}}
	out := string(wiretest.Write(t, f, 0, []wire.Item{{Entry: 0}, {Entry: 1}, {Entry: 2, Message: m}}))
	require.Contains(t, out, `"response":{"output":"short"}`)
	require.NotContains(t, out, "long")
	require.Equal(t, 1, strings.Count(out, `"type":"gemini"`))
}
