package qwen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

// richer is a session with what the recorded one has not: calls, a branch, a
// result with text, usage.
const richer = `{"uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-08-07T18:00:00Z","type":"user","message":{"role":"user","parts":[{"text":"go"}]}}
{"uuid":"a0","parentUuid":"u1","sessionId":"s","type":"assistant","model":"q","message":{"role":"model","parts":[{"text":"left"}]}}
{"uuid":"a1","parentUuid":"u1","sessionId":"s","timestamp":"2026-08-07T18:00:01Z","type":"assistant","model":"q","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2},"message":{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"name":"ls","args":{"a": 1}}},{"functionCall":{"id":"x","name":"cat","args":{}}}]}}
{"uuid":"t1","parentUuid":"a1","sessionId":"s","timestamp":"2026-08-07T18:00:02Z","type":"tool_result","toolCallResult":{"callId":"x"},"message":{"role":"user","parts":[{"functionResponse":{"id":"l","name":"ls","response":{"output":"f"}}},{"functionResponse":{"id":"x","name":"cat","response":{"error":"no"}}},{"text":"and me"}]}}
{"uuid":"a2","parentUuid":"t1","sessionId":"s","type":"assistant","model":"q","message":{"role":"model","parts":[{"text":"done"}]}}
{"uuid":"u2","parentUuid":"a2","sessionId":"s","type":"user","message":{"role":"user","parts":[{"text":"more"}]}}
`

func suite(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(Format, 1)
	require.NoError(t, err)
	own = append(own, wiretest.File{Path: "richer", Data: []byte(richer), Counts: wiretest.Counts{Messages: 6, Calls: 2, Results: 2}})
	return &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, Appends: true, RouteOfMessages: true,
		// The collectors count records; the left branch is one.
		Count: func(f *wire.File) wiretest.Counts {
			c := wiretest.Live(f)
			c.Messages += f.Conversations[0].Side
			c.Messages-- // the summary is no record; one record has results and text
			return c
		}}
}

func TestCodec(t *testing.T) { suite(t).Run(t) }

// TestIDsWithinARound leaves out ids on either side: at every place they are those
// of the other side, also where the contents are read one by one.
func TestIDsWithinARound(t *testing.T) {
	line := func(uuid, parent, role, parts string) string {
		return fmt.Sprintf(`{"uuid":%q,"parentUuid":%q,"type":%q,"message":{"role":%q,"parts":[%s]}}`+"\n",
			uuid, parent, map[string]string{"model": "assistant", "user": "user"}[role], role, parts)
	}
	text := line("u", "", "user", `{"text":"go"}`) +
		line("a", "u", "model", `{"functionCall":{"id":"x","name":"cat","args":{}}},{"functionCall":{"name":"ls","args":{}}}`) +
		line("t", "a", "user", `{"functionResponse":{"name":"cat","response":{"output":"1"}}}`) +
		line("t2", "t", "user", `{"functionResponse":{"id":"l","name":"ls","response":{"output":"2"}}}`) +
		line("b", "t2", "model", `{"functionCall":{"name":"ls","args":{}}}`) +
		line("t3", "b", "user", `{"functionResponse":{"name":"ls","response":{"output":"3"}}}`)
	f, err := Codec{}.Open(t.Context(), strings.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	c := f.Conversations[0]
	require.Equal(t, 6, c.Len())
	for _, i := range []int{5, 1, 2, 4, 3, 5, 0} {
		e, err := c.At(i)
		require.NoError(t, err)
		require.Equal(t, [][]string{nil, {"x", "l"}, {"x"}, {"l"}, {"ls:0"}, {"ls:0"}}[i], append(e.Message.Calls(), e.Message.Results()...), i)
	}
}

func FuzzRead(f *testing.F) {
	suite(f).Fuzz(f, richer,
		`{"uuid":"c","type":"system","subtype":"chat_compression","systemPayload":{"compressedHistory":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},7,{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}]},"agentcompact":{"messages":[{"id":"z"},{"results":{"kind":"user"}}]}}`)
}
