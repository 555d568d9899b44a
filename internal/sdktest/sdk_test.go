// Package sdktest tests the shapes of requests against the official SDKs, in a
// module of its own so that they are no dependency of ours. Requests that were
// built here are read by the SDK's own types, written by them, and read back.
package sdktest

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
)

// each calls fn for the first conversation of every session that is not too long.
func each(t *testing.T, fn func(t *testing.T, v session.View)) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	n := 0
	for _, s := range sessions {
		if len(s.Files) > 0 || s.Tokens > 60_000 {
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		f, err := formats.Read(t.Context(), data)
		require.NoError(t, err)
		n++
		t.Run(s.Path, func(t *testing.T) { fn(t, view(t, f.Conversations[0])) })
	}
	require.Greater(t, n, 80)
}

func view(t *testing.T, c *wire.Conversation) session.View {
	t.Helper()
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = wire.Import(t.Context(), s, c)
	require.NoError(t, err)
	return s.View()
}

// through reads a body into the SDK's params and writes it again.
func through(t *testing.T, body []byte, params any) []byte {
	t.Helper()
	require.NoError(t, json.Unmarshal(body, params), "%.300s", body)
	out, err := json.Marshal(params)
	require.NoError(t, err)
	return out
}

// surface is what both bodies must say: roles, texts, calls with their
// arguments, results.
func surface(t *testing.T, codec wire.Codec, body []byte, reasoning bool) string {
	t.Helper()
	f, err := codec.Read(t.Context(), body)
	require.NoError(t, err)
	var out []session.Message
	for _, e := range f.Conversations[0].Entries {
		m := e.Message
		n := session.Message{Role: m.Role, Source: session.Source{Kind: session.SourceUser}}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case session.Text:
				n.Parts = append(n.Parts, p)
			case session.ToolCall:
				var args any
				if json.Unmarshal([]byte(p.Arguments), &args) == nil {
					b, err := json.Marshal(args)
					require.NoError(t, err)
					p.Arguments = string(b)
				}
				p.Raw = nil
				n.Parts = append(n.Parts, p)
			case session.ToolResult:
				n.Parts = append(n.Parts, session.ToolResult{CallID: p.CallID, Parts: []session.Part{session.Text{Text: session.TextOf(p.Parts)}}})
			case session.Reasoning:
				if !reasoning {
					continue
				}
				n.Parts = append(n.Parts, session.Reasoning{Text: p.Text, Signature: p.Signature, Encrypted: p.Encrypted})
			}
		}
		out = append(out, n)
	}
	b, err := json.MarshalIndent(out, "", " ")
	require.NoError(t, err)
	return string(b)
}

func TestAnthropic(t *testing.T) {
	each(t, func(t *testing.T, v session.View) {
		r, err := anthropicmessages.BuildRequest(v, &anthropicmessages.RequestOptions{Model: "m", ModelCall: true})
		require.NoError(t, err)
		var p anthropic.MessageNewParams
		out := through(t, r.Body, &p)
		require.Len(t, p.Messages, len(r.Messages))
		require.Empty(t, anthropicmessages.ValidateWith(out, anthropicmessages.Checks{ModelCall: true, Alternation: true}))
		require.Equal(t, surface(t, anthropicmessages.Codec{}, r.Body, true), surface(t, anthropicmessages.Codec{}, out, true))
	})
}

func TestOpenAIChat(t *testing.T) {
	each(t, func(t *testing.T, v session.View) {
		r, err := openaichat.BuildRequest(v, &openaichat.RequestOptions{Model: "m", ModelCall: true})
		require.NoError(t, err)
		var p openai.ChatCompletionNewParams
		out := through(t, r.Body(), &p)
		require.Len(t, p.Messages, len(r.Messages))
		for _, v := range openaichat.ValidateWith(out, openaichat.Checks{ModelCall: true}) {
			// The SDK leaves a content out that is null, which the provider takes.
			require.Equal(t, "the key content is missing", v.Detail, v.Error())
		}
		// Reasoning in a chat is other providers' own, which the SDK does not know.
		require.Equal(t, surface(t, openaichat.Codec{}, r.Body(), false), surface(t, openaichat.Codec{}, out, false))
	})
}

func TestOpenAIResponses(t *testing.T) {
	each(t, func(t *testing.T, v session.View) {
		r, err := openairesponses.BuildRequest(v, &openairesponses.RequestOptions{Model: "m", ModelCall: true})
		require.NoError(t, err)
		var p responses.ResponseNewParams
		out := through(t, r.Body, &p)
		require.Len(t, p.Input.OfInputItemList, len(r.Input))
		require.Empty(t, openairesponses.ValidateWith(out, openairesponses.Checks{ModelCall: true}))
		require.Equal(t, surface(t, openairesponses.Codec{}, r.Body, true), surface(t, openairesponses.Codec{}, out, true))
	})
}

// What an SDK's own types write is read, and a compacted list is read by them.
func TestFromSDK(t *testing.T) {
	body, err := json.Marshal(anthropic.MessageNewParams{Model: "m", MaxTokens: 5, System: []anthropic.TextBlockParam{{Text: "s"}}, Messages: []anthropic.MessageParam{
		anthropic.NewUserMessage(anthropic.NewTextBlock("go")),
		anthropic.NewAssistantMessage(anthropic.NewToolUseBlock("1", map[string]any{"a": 1}, "f")),
		anthropic.NewUserMessage(anthropic.NewToolResultBlock("1", "out", false)),
	}})
	require.NoError(t, err)
	f, err := formats.Read(t.Context(), body)
	require.NoError(t, err)
	require.Equal(t, anthropicmessages.Format, f.Format)
	require.Len(t, f.Conversations[0].Entries, 3)

	body, err = json.Marshal(openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("s"), openai.UserMessage("go"), openai.AssistantMessage("done")}})
	require.NoError(t, err)
	f, err = formats.Read(t.Context(), body)
	require.NoError(t, err)
	require.Equal(t, openaichat.Format, f.Format)
	require.Len(t, f.Conversations[0].Entries, 2)

	output := responses.ResponseInputItemParamOfFunctionCallOutput("out")
	output.OfFunctionCallOutput.CallID = openai.String("1")
	body, err = json.Marshal(responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage("go", responses.EasyInputMessageRoleUser),
		responses.ResponseInputItemParamOfFunctionCall("{}", "1", "f"),
		output,
	}}})
	require.NoError(t, err)
	f, err = formats.Read(t.Context(), body)
	require.NoError(t, err)
	require.Equal(t, openairesponses.Format, f.Format)
	require.Len(t, f.Conversations[0].Entries, 3)
}
