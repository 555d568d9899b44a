package openaichat

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// shape is how the messages of one container differ from plain ones.
type shape struct {
	// lists: content is always a list of parts.
	lists bool
	// sweAgent: messages have agent, message_type, thought and action, and
	// results have tool_call_ids.
	sweAgent bool
	// agent is the value of that field.
	agent json.RawMessage
	// names: results have the name of their tool.
	names bool
}

// EncodeMessage returns the records of a message: its original record when it
// was read from this format, else one made from its parts; a tool message with
// several results makes several. Bytes that are not UTF-8 become U+FFFD.
func EncodeMessage(m *session.Message) []json.RawMessage {
	if raw := original(m); raw != nil {
		return []json.RawMessage{raw}
	}
	return rawObjects(encode(m, shape{}))
}

func rawObjects(list []object) []json.RawMessage {
	out := make([]json.RawMessage, len(list))
	for i, o := range list {
		out[i] = o.json()
	}
	return out
}

// original returns the record that m was read from, if it is one of ours and m
// is still what it says: what a plugin wrote is not.
func original(m *session.Message) json.RawMessage {
	if m.Origin == nil || m.Origin.Format != Format || m.Source.Kind == session.SourcePlugin || !json.Valid(m.Origin.Raw) {
		return nil
	}
	if i := splice.Space(m.Origin.Raw, 0); m.Origin.Raw[i] != '{' {
		return nil
	}
	return m.Origin.Raw
}

// encode makes records of the parts of m.
func encode(m *session.Message, sh shape) []object {
	if m.Role == session.RoleTool {
		return encodeTool(m, sh)
	}
	o := object{{"role", quote(string(m.Role))}}
	if m.ID != "" {
		o = append(o, member{"id", quote(m.ID)})
	}
	if m.Name != "" {
		o = append(o, member{"name", quote(m.Name)})
	}
	var content []session.Part
	var calls []json.RawMessage
	var fields object
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Reasoning:
			addReasoning(&fields, p)
		case session.ToolCall:
			if f, ok := parseObject(p.Raw); ok && f.get("function_call") != nil {
				fields = append(fields, f...)
				continue
			}
			calls = append(calls, encodeCall(p))
		case session.Opaque:
			if f, ok := parseObject(p.Raw); ok && p.Kind == "refusal" && f.get("type") == nil {
				fields = append(fields, f...)
				continue
			}
			content = append(content, p)
		default:
			content = append(content, p)
		}
	}
	empty := "null"
	if m.Role != session.RoleAssistant {
		empty = `""`
	}
	o = append(o, member{"content", encodeContent(content, sh.lists, empty)})
	if calls != nil {
		o = append(o, member{"tool_calls", array(calls)})
	}
	o = append(o, fields...)
	o = addExtra(o, m)
	return []object{dress(o, m, sh)}
}

func addExtra(o object, m *session.Message) object {
	for _, k := range slices.Sorted(maps.Keys(m.Extra)) {
		if o.get(k) == nil && json.Valid(m.Extra[k]) {
			o = append(o, member{k, m.Extra[k]})
		}
	}
	return o
}

// dress adds what the messages of the container have and plain ones have not.
func dress(o object, m *session.Message, sh shape) object {
	if !sh.sweAgent {
		return o
	}
	if o.get("agent") == nil && sh.agent != nil {
		o = append(o, member{"agent", sh.agent})
	}
	kind := "observation"
	switch m.Role {
	case session.RoleAssistant:
		kind = "action"
		if o.get("thought") == nil {
			o = append(o, member{"thought", quote(m.Text())})
		}
		if o.get("action") == nil {
			o = append(o, member{"action", quote("")})
		}
	case session.RoleSystem, session.RoleDeveloper:
		kind = "system_prompt"
	}
	if o.get("message_type") == nil {
		o = append(o, member{"message_type", quote(kind)})
	}
	return o
}

// encodeTool makes one record for each result, and a user message of what else
// the message holds.
func encodeTool(m *session.Message, sh shape) []object {
	var out []object
	var rest []session.Part
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			rest = append(rest, p)
			continue
		}
		content := encodeContent(r.Parts, sh.lists, `""`)
		if r.Name != "" && r.CallID == legacyID(r.Name) {
			out = append(out, object{{"role", quote("function")}, {"name", quote(r.Name)}, {"content", content}})
			continue
		}
		o := object{{"role", quote("tool")}}
		if sh.sweAgent {
			o = append(o, member{"tool_call_ids", array([]json.RawMessage{quote(r.CallID)})})
		} else {
			o = append(o, member{"tool_call_id", quote(r.CallID)})
		}
		if sh.names && r.Name != "" || r.Name != "" && !sh.sweAgent {
			o = append(o, member{"name", quote(r.Name)})
		}
		o = append(o, member{"content", content})
		out = append(out, o)
	}
	if len(out) > 0 {
		out[0] = addExtra(out[0], m)
	}
	for i := range out {
		out[i] = dress(out[i], m, sh)
	}
	if len(rest) > 0 {
		u := session.Message{Role: session.RoleUser, Parts: rest, Source: m.Source}
		out = append(out, encode(&u, sh)...)
	}
	return out
}

// encodeContent makes a content value: a string for one text, a list
// otherwise. empty is the value for no parts.
func encodeContent(parts []session.Part, list bool, empty string) json.RawMessage {
	if len(parts) == 0 {
		if list {
			return json.RawMessage("[]")
		}
		return json.RawMessage(empty)
	}
	if t, ok := parts[0].(session.Text); ok && len(parts) == 1 && !list {
		return quote(t.Text)
	}
	var out []json.RawMessage
	for _, p := range parts {
		out = append(out, encodePart(p))
	}
	return array(out)
}

func textPart(s string) json.RawMessage {
	return object{{"type", quote("text")}, {"text", quote(s)}}.json()
}

// encodePart makes a content part. What a chat cannot hold is named in a text.
func encodePart(p session.Part) json.RawMessage {
	switch p := p.(type) {
	case session.Text:
		return textPart(p.Text)
	case session.Image:
		if hasType(p.Raw, "image_url") {
			return p.Raw
		}
		if p.URL == "" {
			break
		}
		u := object{{"url", quote(p.URL)}}
		if p.Detail != "" {
			u = append(u, member{"detail", quote(p.Detail)})
		}
		return object{{"type", quote("image_url")}, {"image_url", u.json()}}.json()
	case session.File:
		if hasType(p.Raw, "file", "input_audio") {
			return p.Raw
		}
		if mediaType(p.URL) != "" {
			f := object{{"file_data", quote(p.URL)}}
			if p.Name != "" {
				f = append(f, member{"filename", quote(p.Name)})
			}
			return object{{"type", quote("file")}, {"file", f.json()}}.json()
		}
	case session.Opaque:
		if len(p.Raw) > 0 && json.Valid(p.Raw) {
			return p.Raw
		}
	}
	return textPart(placeholder(p))
}

// placeholder names a part that cannot be sent.
func placeholder(p session.Part) string {
	switch p := p.(type) {
	case session.Image:
		return "[A picture stood here that this kind of conversation cannot hold.]"
	case session.File:
		if p.Name != "" {
			return "[The file " + string(quote(splice.Clip(p.Name, 200))) + " stood here; this kind of conversation cannot hold it.]"
		}
		return "[A file stood here that this kind of conversation cannot hold.]"
	}
	return "[Something stood here that this kind of conversation cannot hold.]"
}

// hasType reports whether raw is an object with one of the types.
func hasType(raw json.RawMessage, types ...string) bool {
	if len(raw) == 0 || !json.Valid(raw) {
		return false
	}
	o, _ := parseObject(raw)
	t, ok := o.str("type")
	return ok && slices.Contains(types, t)
}

func encodeCall(c session.ToolCall) json.RawMessage {
	if o, ok := ownCall(c.Raw); ok {
		if d, _ := decodeCall(c.Raw); d.ID == c.ID && d.Name == c.Name && d.Arguments == c.Arguments {
			return o.json()
		}
	}
	if c.Custom {
		return object{{"id", quote(c.ID)}, {"type", quote("custom")},
			{"custom", object{{"name", quote(c.Name)}, {"input", quote(c.Arguments)}}.json()}}.json()
	}
	return object{{"id", quote(c.ID)}, {"type", quote("function")},
		{"function", object{{"name", quote(c.Name)}, {"arguments", quote(c.Arguments)}}.json()}}.json()
}

// ownCall returns the raw form of a call, if it is one of this format.
func ownCall(raw json.RawMessage) (object, bool) {
	if len(raw) == 0 || !json.Valid(raw) {
		return nil, false
	}
	o, _ := parseObject(raw)
	for _, k := range []string{"function", "custom"} {
		if _, ok := parseObject(o.get(k)); ok {
			return o, true
		}
	}
	return nil, false
}

// addReasoning adds the field of a reasoning part that came from this format,
// or was made by the host; what another provider signed is not ours to send.
func addReasoning(fields *object, r session.Reasoning) {
	if len(r.Raw) > 0 {
		if o, ok := parseObject(r.Raw); ok && len(o) == 1 && slices.Contains(reasoningFields, o[0].key) {
			fields.set(o[0].key, o[0].val)
		}
		return
	}
	if r.Signature != "" || r.Encrypted != "" {
		return
	}
	if before, ok := fields.str("reasoning_content"); ok {
		r.Text = before + "\n\n" + r.Text
	}
	fields.set("reasoning_content", quote(r.Text))
}
