package qwen

import (
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

func FuzzRead(f *testing.F) {
	suite(f).Fuzz(f, richer,
		`{"uuid":"c","type":"system","subtype":"chat_compression","systemPayload":{"compressedHistory":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},7,{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}]},"agentcompact":{"messages":[{"id":"z"},{"results":{"kind":"user"}}]}}`)
}
