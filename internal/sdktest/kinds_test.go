package sdktest

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
)

// TestKinds takes a request with every kind of part that a provider knows through
// its SDK, our session, and its SDK again: the SDK loses nothing of it, and what
// comes back says the same, field by field.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		file, format, list string
		params             func() any
		build              func(session.View) ([]byte, error)
		// lost says that the SDK's own types have no place for a field.
		lost func(body map[string]any)
	}{
		{"anthropic.json", anthropicmessages.Format, "messages", func() any { return new(anthropic.MessageNewParams) }, func(v session.View) ([]byte, error) {
			r, err := anthropicmessages.BuildRequest(v, &anthropicmessages.RequestOptions{ModelCall: true})
			if err != nil {
				return nil, err
			}
			return r.Body, nil
		}, nil},
		{"chat.json", openaichat.Format, "messages", func() any { return new(openai.ChatCompletionNewParams) }, func(v session.View) ([]byte, error) {
			r, err := openaichat.BuildRequest(v, &openaichat.RequestOptions{ModelCall: true})
			if err != nil {
				return nil, err
			}
			return r.Body(), nil
		}, func(body map[string]any) { delete(body["messages"].([]any)[7].(map[string]any), "content") }}, // null is left out
		{"responses.json", openairesponses.Format, "input", func() any { return new(responses.ResponseNewParams) }, func(v session.View) ([]byte, error) {
			r, err := openairesponses.BuildRequest(v, &openairesponses.RequestOptions{ModelCall: true})
			if err != nil {
				return nil, err
			}
			return r.Body, nil
		}, func(body map[string]any) {
			// The SDK takes a message of the model for the easy form, without these.
			for _, it := range body["input"].([]any) {
				if m := it.(map[string]any); m["role"] == "assistant" {
					delete(m, "id")
					delete(m, "status")
				}
			}
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			body, err := os.ReadFile("testdata/" + c.file)
			require.NoError(t, err)
			sdk := through(t, body, c.params())
			var want map[string]any
			require.NoError(t, json.Unmarshal(body, &want))
			if c.lost != nil {
				c.lost(want)
			}
			expected, err := json.Marshal(want)
			require.NoError(t, err)
			require.JSONEq(t, string(expected), string(sdk), "the SDK lost something")

			f, err := formats.Read(t.Context(), sdk)
			require.NoError(t, err)
			require.Equal(t, c.format, f.Format)
			built, err := c.build(view(t, f.Conversations[0]))
			require.NoError(t, err)
			again := through(t, built, c.params())
			var got map[string]any
			require.NoError(t, json.Unmarshal(again, &got))
			require.Len(t, got[c.list], len(want[c.list].([]any)))
			for i, m := range want[c.list].([]any) {
				require.Equal(t, m, got[c.list].([]any)[i], "%s %d", c.list, i)
			}
			require.Equal(t, want, got)
		})
	}
}

// TestGoOpenAI does it with the types of go-openai, which know less: names, custom
// calls, files and refusals in parts are not among them.
func TestGoOpenAI(t *testing.T) {
	body, err := os.ReadFile("testdata/chat.json")
	require.NoError(t, err)
	f, err := formats.Read(t.Context(), body)
	require.NoError(t, err)
	r, err := openaichat.BuildRequest(view(t, f.Conversations[0]), &openaichat.RequestOptions{ModelCall: true})
	require.NoError(t, err)
	var p goopenai.ChatCompletionRequest
	out := through(t, r.Body(), &p)
	require.Len(t, p.Messages, 11)
	require.Len(t, p.Messages[1].MultiContent, 6)
	require.Equal(t, goopenai.ImageURLDetailLow, p.Messages[1].MultiContent[1].ImageURL.Detail)
	require.Equal(t, `{"at": "a", "n": 1.50}`, p.Messages[2].ToolCalls[0].Function.Arguments)
	require.Equal(t, "call_2", p.Messages[4].ToolCallID)
	require.Equal(t, "I cannot", p.Messages[7].Refusal)
	back, err := formats.Read(t.Context(), out)
	require.NoError(t, err)
	require.Equal(t, openaichat.Format, back.Format)
	require.Len(t, back.Conversations[0].Entries, len(f.Conversations[0].Entries))
}
