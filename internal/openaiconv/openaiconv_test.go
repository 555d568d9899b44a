package openaiconv

import (
	"encoding/json"
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/session"
)

// TestRoundTrip: what the types can say comes back as it was.
func TestRoundTrip(t *testing.T) {
	word := rapid.StringMatching(`[a-zé]{1,5}`)
	rapid.Check(t, func(t *rapid.T) {
		m := openai.ChatCompletionMessage{Role: rapid.SampledFrom([]string{"user", "assistant", "tool", "system", "developer"}).Draw(t, "role")}
		m.Name = rapid.SampledFrom([]string{"", "ann"}).Draw(t, "name")
		switch m.Role {
		case "tool":
			m.ToolCallID = word.Draw(t, "id")
			m.Content = word.Draw(t, "content")
		case "user":
			if rapid.Bool().Draw(t, "parts") {
				m.MultiContent = []openai.ChatMessagePart{
					{Type: openai.ChatMessagePartTypeText, Text: word.Draw(t, "text")},
					{Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: word.Draw(t, "url"), Detail: openai.ImageURLDetailLow}},
				}
				break
			}
			m.Content = word.Draw(t, "content")
		case "assistant":
			m.ReasoningContent = rapid.SampledFrom([]string{"", "hm"}).Draw(t, "reasoning")
			if rapid.Bool().Draw(t, "calls") {
				m.ToolCalls = []openai.ToolCall{{ID: word.Draw(t, "id"), Type: openai.ToolTypeFunction, Function: openai.FunctionCall{Name: "ls", Arguments: "{}"}}}
			} else {
				m.Content = word.Draw(t, "content")
			}
		default:
			m.Content = word.Draw(t, "content")
		}
		s, err := From(m)
		require.NoError(t, err)
		require.NoError(t, s.Validate())
		back, err := To(&s, Options{Reasoning: true})
		require.NoError(t, err)
		require.Equal(t, []openai.ChatCompletionMessage{m}, back)
	})
}

func TestFromRefuses(t *testing.T) {
	for name, m := range map[string]openai.ChatCompletionMessage{
		"role":          {Role: "function", Content: "x"},
		"function call": {Role: "assistant", FunctionCall: &openai.FunctionCall{Name: "ls"}},
		"part":          {Role: "user", MultiContent: []openai.ChatMessagePart{{Type: "input_audio"}}},
		"custom call":   {Role: "assistant", ToolCalls: []openai.ToolCall{{ID: "a", Type: openai.ToolTypeCustom}}},
	} {
		_, err := From(m)
		require.ErrorIs(t, err, ErrUnsupported, name)
	}
}

func TestRefusalIsKept(t *testing.T) {
	s, err := From(openai.ChatCompletionMessage{Role: "assistant", Refusal: "no \"way\""})
	require.NoError(t, err)
	require.JSONEq(t, `"no \"way\""`, string(s.Extra["refusal"]))
	require.Empty(t, s.Text(), "a refusal is not the text of the message")
}

func TestToRefuses(t *testing.T) {
	picture := session.ToolText("a", "")
	r := picture.Parts[0].(session.ToolResult)
	r.Parts = []session.Part{session.Image{URL: "u"}}
	picture.Parts[0] = r
	file := session.UserText("read")
	file.Parts = append(file.Parts, session.File{Name: "a.pdf"})
	noURL := session.UserText("")
	noURL.Parts = []session.Part{session.Image{Raw: json.RawMessage(`{}`)}}
	opaque := session.AssistantText("x")
	opaque.Parts = append(opaque.Parts, session.Opaque{Kind: "web_search_call"})
	for name, m := range map[string]session.Message{
		"custom call":       session.AssistantText("", session.ToolCall{ID: "a", Custom: true}),
		"picture in result": picture, "file": file, "picture without URL": noURL, "opaque": opaque,
	} {
		_, err := To(&m, Options{})
		require.ErrorIs(t, err, ErrUnsupported, name)
	}
	out, err := To(&picture, Options{Picture: func(p session.Image) string { return Describe(p) }})
	require.NoError(t, err)
	require.Equal(t, "[image u]", out[0].Content)
}

func TestConversation(t *testing.T) {
	call := func(id string) session.ToolCall { return session.ToolCall{ID: id, Name: "ls", Arguments: "{}"} }
	two := session.ToolText("a", "1")
	two.Parts = append(two.Parts, session.ToolText("b", "2").Parts...)
	thought := session.AssistantText("")
	thought.Parts = []session.Part{session.Reasoning{Text: "hm"}}
	roles := func(m []openai.ChatCompletionMessage) (out []string) {
		for _, c := range m {
			out = append(out, c.Role+c.ToolCallID)
		}
		return out
	}
	for _, c := range []struct {
		name string
		in   []session.Message
		want []string
		err  string
	}{
		{"plain", []session.Message{session.UserText("hi"), session.AssistantText("yo")}, []string{"user", "assistant"}, ""},
		{"results in one message", []session.Message{session.UserText("hi"), session.AssistantText("", call("a"), call("b")), two}, []string{"user", "assistant", "toola", "toolb"}, ""},
		{"abandoned in the middle", []session.Message{session.UserText("hi"), session.AssistantText("", call("a"), call("b")), session.ToolText("b", "x"), session.UserText("go on")}, []string{"user", "assistant", "toolb", "toola", "user"}, ""},
		{"abandoned at the end", []session.Message{session.UserText("hi"), session.AssistantText("", call("a"))}, []string{"user", "assistant", "toola"}, ""},
		{"thoughts alone", []session.Message{session.UserText("hi"), thought, session.UserText("so?")}, []string{"user", "user"}, ""},
		{"orphan", []session.Message{session.UserText("hi"), session.ToolText("a", "x")}, nil, "without an open call"},
		{"second result", []session.Message{session.UserText("hi"), session.AssistantText("", call("a")), session.ToolText("a", "x"), session.ToolText("a", "x")}, nil, "without an open call"},
		{"late result", []session.Message{session.UserText("hi"), session.AssistantText("", call("a")), session.UserText("?"), session.ToolText("a", "x")}, nil, "without an open call"},
		{"id again", []session.Message{session.UserText("hi"), session.AssistantText("", call("a")), session.ToolText("a", "x"), session.AssistantText("", call("a"))}, nil, "twice"},
		{"agent first", []session.Message{session.AssistantText("yo")}, nil, "not the user's"},
		{"system in the middle", []session.Message{session.UserText("hi"), {Role: session.RoleSystem, Parts: []session.Part{session.Text{Text: "x"}}}}, nil, "mid-conversation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := make([]*session.Message, len(c.in))
			for i := range c.in {
				in[i] = &c.in[i]
			}
			out, err := Conversation(in, Options{})
			if c.err != "" {
				require.ErrorIs(t, err, ErrUnsupported)
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, roles(out))
		})
	}
}

// TestCallWithoutArguments: go-openai leaves an empty string out, and the key is
// required.
func TestCallWithoutArguments(t *testing.T) {
	ask, call := session.UserText("hi"), session.AssistantText("", session.ToolCall{ID: "a", Name: "ls"})
	out, err := Conversation([]*session.Message{&ask, &call}, Options{})
	require.NoError(t, err)
	require.Equal(t, "{}", out[1].ToolCalls[0].Function.Arguments)
}

func TestTools(t *testing.T) {
	tools, err := Tools([]session.Tool{
		{Name: "ls"},
		{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`), Raw: json.RawMessage(`{"type":"function","function":{"strict":true}}`)},
	})
	require.NoError(t, err)
	raw, err := json.Marshal(tools)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type":"function","function":{"name":"ls","parameters":{"type":"object","properties":{}}}},
		{"type":"function","function":{"name":"read","description":"Reads.","strict":true,"parameters":{"type":"object"}}}]`, string(raw))
	_, err = Tools([]session.Tool{{Name: "s", Raw: json.RawMessage(`{"type":"web_search"}`)}})
	require.ErrorIs(t, err, ErrUnsupported)
}

func TestDescribe(t *testing.T) {
	require.Equal(t, "[image image/png 4x3 inline]", Describe(session.Image{URL: "data:image/png;base64,AAAA", Width: 4, Height: 3}))
	require.Equal(t, "[file a.pdf application/pdf 12 bytes]", Describe(session.File{Name: "a.pdf", MediaType: "application/pdf", Bytes: 12}))
	require.Equal(t, "[image]", Describe(session.Image{}))
	require.Empty(t, Describe(session.Text{Text: "x"}))
}
