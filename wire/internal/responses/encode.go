package responses

import (
	"encoding/json"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

// Encode encodes a message as items. A part goes back in its own form where it
// has one that still says the same. custom says of a call id whether it is one
// of a free-text tool, whose output has a type of its own; nil means none is.
// Reasoning of another provider is left out.
func Encode(m *session.Message, custom func(callID string) bool) []json.RawMessage {
	var items []json.RawMessage
	var content []json.RawMessage
	flush := func() {
		if len(content) > 0 {
			o := rawjson.Object{}
			o.Set("type", TypeMessage)
			o.Set("role", m.Role)
			o.Set("content", content)
			items = append(items, o.Bytes())
			content = nil
		}
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Text, session.Image, session.File:
			content = append(content, encodePart(p, m.Role))
		case session.Reasoning:
			if raw := reasoning(p); raw != nil {
				flush()
				items = append(items, raw)
			}
		case session.ToolCall:
			flush()
			items = append(items, encodeCall(p))
		case session.ToolResult:
			flush()
			items = append(items, encodeResult(p, custom))
		case session.Opaque:
			if isItem(p) {
				flush()
				items = append(items, p.Raw)
			} else {
				content = append(content, p.Raw)
			}
		}
	}
	flush()
	return items
}

// isItem tells an opaque item from an opaque part of the content.
func isItem(p session.Opaque) bool {
	it, ok := Decode(p.Raw)
	if !ok || len(it.Parts) != 1 {
		return false
	}
	o, ok := it.Parts[0].(session.Opaque)
	return ok && o.Kind == p.Kind && !isPart(p.Kind)
}

// isPart knows the content parts that have no place in session parts.
func isPart(kind string) bool {
	switch kind {
	case "refusal", "input_audio", "output_audio", "encrypted_content", "encrypted_text":
		return true
	}
	return false
}

func encodePart(p session.Part, role session.Role) json.RawMessage {
	o := rawjson.Object{}
	switch p := p.(type) {
	case session.Text:
		kind := "input_text"
		if role == session.RoleAssistant {
			kind = "output_text"
		}
		o.Set("type", kind)
		o.Set("text", p.Text)
	case session.Image:
		if q, ok := contentPart(p.Raw, false).(session.Image); ok && q.URL == p.URL {
			return p.Raw
		}
		o.Set("type", "input_image")
		o.Set("image_url", p.URL)
		if p.Detail != "" {
			o.Set("detail", p.Detail)
		}
	case session.File:
		if q, ok := contentPart(p.Raw, false).(session.File); ok && q.URL == p.URL {
			return p.Raw
		}
		o.Set("type", "input_file")
		if p.Name != "" {
			o.Set("filename", p.Name)
		}
		if mediaType(p.URL) != "" {
			o.Set("file_data", p.URL)
		} else {
			o.Set("file_url", p.URL)
		}
	}
	return o.Bytes()
}

func reasoning(p session.Reasoning) json.RawMessage {
	if it, ok := Decode(p.Raw); ok && it.Type == TypeReasoning {
		if q := it.Parts[0].(session.Reasoning); q.Text == p.Text && q.Encrypted == p.Encrypted {
			return p.Raw
		}
	}
	if p.Encrypted == "" && p.ID == "" {
		return nil
	}
	o := rawjson.Object{}
	o.Set("type", TypeReasoning)
	if p.ID != "" {
		o.Set("id", p.ID)
	}
	texts := []json.RawMessage{}
	if p.Text != "" {
		texts = append(texts, rawjson.Marshal(map[string]string{"type": "summary_text", "text": p.Text}))
	}
	o.Set("summary", texts)
	if p.Encrypted != "" {
		o.Set("encrypted_content", p.Encrypted)
	}
	return o.Bytes()
}

func encodeCall(p session.ToolCall) json.RawMessage {
	if it, ok := Decode(p.Raw); ok && len(it.Parts) == 1 {
		if q, ok := it.Parts[0].(session.ToolCall); ok && q.ID == p.ID && q.Name == p.Name && q.Arguments == p.Arguments {
			return p.Raw
		}
	}
	o := rawjson.Object{}
	if p.Custom {
		o.Set("type", "custom_tool_call")
		o.Set("call_id", p.ID)
		o.Set("name", p.Name)
		o.Set("input", p.Arguments)
		return o.Bytes()
	}
	o.Set("type", "function_call")
	o.Set("name", p.Name)
	o.Set("arguments", p.Arguments)
	o.Set("call_id", p.ID)
	return o.Bytes()
}

func encodeResult(p session.ToolResult, custom func(string) bool) json.RawMessage {
	o := rawjson.Object{}
	o.Set("type", "function_call_output")
	if custom != nil && custom(p.CallID) {
		o.Set("type", "custom_tool_call_output")
	}
	o.Set("call_id", p.CallID)
	if p.Name != "" {
		o.Set("name", p.Name)
	}
	o.Set("output", resultOutput(p.Parts))
	return o.Bytes()
}

func resultOutput(parts []session.Part) any {
	if len(parts) == 1 {
		if t, ok := parts[0].(session.Text); ok {
			return t.Text
		}
	}
	if len(parts) == 0 {
		return ""
	}
	list := []json.RawMessage{}
	for _, p := range parts {
		if o, ok := p.(session.Opaque); ok {
			list = append(list, o.Raw)
			continue
		}
		list = append(list, encodePart(p, session.RoleUser))
	}
	return list
}
