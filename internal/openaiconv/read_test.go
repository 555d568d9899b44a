package openaiconv

import (
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

func TestReadTakesWhatFromRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		in      openai.ChatCompletionMessage
		role    session.Role
		calls   []string
		results []string
		text    string
	}{
		{"function call", openai.ChatCompletionMessage{Role: "assistant", Content: "hm", FunctionCall: &openai.FunctionCall{Name: "ls", Arguments: "{}"}}, session.RoleAssistant, []string{""}, nil, "hm"},
		{"its answer", openai.ChatCompletionMessage{Role: "function", Name: "ls", Content: "a.go"}, session.RoleTool, nil, []string{""}, "a.go"},
		{"custom call", openai.ChatCompletionMessage{Role: "assistant", ToolCalls: []openai.ToolCall{{ID: "a", Type: openai.ToolTypeCustom, Function: openai.FunctionCall{Name: "sh"}}}}, session.RoleAssistant, []string{"a"}, nil, ""},
		{"audio", openai.ChatCompletionMessage{Role: "user", MultiContent: []openai.ChatMessagePart{{Type: "input_audio"}, {Type: "text", Text: "hear"}}}, session.RoleUser, nil, nil, "hear"},
		{"a role of its own", openai.ChatCompletionMessage{Role: "critic", Content: "meh"}, session.RoleUser, nil, nil, "meh"},
		{"known", openai.ChatCompletionMessage{Role: "tool", ToolCallID: "a", Content: "x"}, session.RoleTool, nil, []string{"a"}, "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Read(c.in)
			require.NoError(t, m.Validate())
			require.Equal(t, c.role, m.Role)
			require.Equal(t, c.calls, m.Calls())
			require.Equal(t, c.results, m.Results())
			require.Equal(t, c.text, m.Text())
		})
	}
}
