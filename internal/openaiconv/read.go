package openaiconv

import (
	"encoding/json"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/session"
)

// Read returns the message that a chat message means, whatever it holds: where
// [From] refuses, a function call is read as a tool call without an id and its
// answer as a result without one, content of unknown type is opaque, and a role
// that is none of ours speaks as the plugin "host". The result is for reading:
// it does not always lead back to the chat message.
func Read(m openai.ChatCompletionMessage) session.Message {
	if out, err := From(m); err == nil {
		return out
	}
	out := session.Message{Role: session.Role(m.Role), Name: m.Name}
	switch m.Role {
	case openai.ChatMessageRoleUser:
		out.Source.Kind = session.SourceUser
	case openai.ChatMessageRoleAssistant:
		out.Source.Kind = session.SourceModel
	case openai.ChatMessageRoleTool, openai.ChatMessageRoleFunction:
		out.Role = session.RoleTool
		out.Source.Kind = session.SourceTool
	case openai.ChatMessageRoleSystem, openai.ChatMessageRoleDeveloper:
		out.Source = session.Source{Kind: session.SourcePlugin, Plugin: "host"}
	default:
		out.Role = session.RoleUser
		out.Source = session.Source{Kind: session.SourcePlugin, Plugin: "host", Form: m.Role}
	}
	var content []session.Part
	if m.Content != "" {
		content = append(content, session.Text{Text: m.Content})
	}
	for _, p := range m.MultiContent {
		switch {
		case p.Type == openai.ChatMessagePartTypeText:
			content = append(content, session.Text{Text: p.Text})
		case p.ImageURL != nil:
			content = append(content, session.Image{URL: p.ImageURL.URL, Detail: string(p.ImageURL.Detail)})
		default:
			raw, err := json.Marshal(p)
			if err != nil {
				raw = json.RawMessage("null")
			}
			content = append(content, session.Opaque{Kind: string(p.Type), Raw: raw})
		}
	}
	if out.Role == session.RoleTool {
		out.Parts = []session.Part{session.ToolResult{CallID: m.ToolCallID, Name: m.Name, Parts: content}}
		return out
	}
	if out.Role != session.RoleAssistant {
		out.Parts = content
		return out
	}
	if m.ReasoningContent != "" {
		out.Parts = append(out.Parts, session.Reasoning{Text: m.ReasoningContent})
	}
	out.Parts = append(out.Parts, content...)
	if f := m.FunctionCall; f != nil {
		out.Parts = append(out.Parts, session.ToolCall{Name: f.Name, Arguments: f.Arguments})
	}
	for _, c := range m.ToolCalls {
		out.Parts = append(out.Parts, session.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments,
			Custom: c.Type != openai.ToolTypeFunction && c.Type != ""})
	}
	return out
}
