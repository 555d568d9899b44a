package anthropic

import (
	"encoding/json"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

// Content encodes parts as a list of blocks. A part goes back in its own form
// where it has one that still says the same. Reasoning without a signature is
// left out, since the provider would refuse it.
func Content(parts []session.Part) json.RawMessage {
	list := []json.RawMessage{}
	for _, p := range parts {
		if raw := encode(p); raw != nil {
			list = append(list, raw)
		}
	}
	return rawjson.Marshal(list)
}

func encode(p session.Part) json.RawMessage {
	switch p := p.(type) {
	case session.Text:
		return typed("text", "text", p.Text)
	case session.Image:
		if own(p.Raw, p) {
			return p.Raw
		}
		return typed("image", "source", sourceOf(p.URL, p.MediaType))
	case session.File:
		if own(p.Raw, p) {
			return p.Raw
		}
		o := rawjson.Object{{Name: "type", Value: rawjson.Marshal("document")}}
		o.Set("source", sourceOf(p.URL, p.MediaType))
		if p.Name != "" {
			o.Set("title", p.Name)
		}
		return o.Bytes()
	case session.Reasoning:
		switch {
		case own(p.Raw, p):
			return p.Raw
		case p.Encrypted != "" && p.Text == "":
			return typed("redacted_thinking", "data", p.Encrypted)
		case p.Signature == "":
			return nil
		}
		return typed("thinking", "thinking", p.Text, "signature", p.Signature)
	case session.ToolCall:
		if own(p.Raw, p) {
			return p.Raw
		}
		return typed("tool_use", "id", p.ID, "name", p.Name, "input", input(p.Arguments))
	case session.ToolResult:
		o := rawjson.Object{{Name: "type", Value: rawjson.Marshal("tool_result")}}
		o.Set("tool_use_id", p.CallID)
		if len(p.Parts) == 1 {
			if t, ok := p.Parts[0].(session.Text); ok {
				o.Set("content", t.Text)
			}
		}
		if len(p.Parts) > 0 && o.Get("content") == nil {
			o.Set("content", Content(p.Parts))
		}
		if p.IsError {
			o.Set("is_error", true)
		}
		return o.Bytes()
	case session.Opaque:
		return p.Raw
	}
	return nil
}

// typed makes a block of a type with the given members.
func typed(kind string, members ...any) json.RawMessage {
	o := rawjson.Object{{Name: "type", Value: rawjson.Marshal(kind)}}
	for i := 0; i < len(members); i += 2 {
		o.Set(members[i].(string), members[i+1])
	}
	return o.Bytes()
}

func sourceOf(url, mediaType string) json.RawMessage {
	if media, data, ok := dataURL(url); ok {
		if media == "" {
			media = mediaType
		}
		return typed("base64", "media_type", media, "data", data)
	}
	return typed("url", "url", url)
}

// input makes the arguments of a call an object, as the provider wants them.
func input(arguments string) json.RawMessage {
	if raw := json.RawMessage(arguments); json.Valid(raw) && rawjson.Kind(raw) == '{' {
		return raw
	}
	if arguments == "" {
		return json.RawMessage("{}")
	}
	return rawjson.Marshal(map[string]string{"input": arguments})
}

// own reports whether raw is a block of this provider's that says what p says.
func own(raw json.RawMessage, p session.Part) bool {
	if raw == nil {
		return false
	}
	switch q := part(raw, false).(type) {
	case session.Image:
		p, ok := p.(session.Image)
		return ok && p.URL == q.URL
	case session.File:
		p, ok := p.(session.File)
		return ok && p.URL == q.URL
	case session.Reasoning:
		p, ok := p.(session.Reasoning)
		return ok && p.Text == q.Text && p.Signature == q.Signature && p.Encrypted == q.Encrypted
	case session.ToolCall:
		p, ok := p.(session.ToolCall)
		return ok && p.ID == q.ID && p.Name == q.Name && p.Arguments == q.Arguments
	}
	return false
}

// Block encodes one part as a block; nil when it cannot be sent.
func Block(p session.Part) json.RawMessage { return encode(p) }
