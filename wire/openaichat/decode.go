package openaichat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// legacyID makes the call id of the old single-call form, which has none.
func legacyID(name string) string { return "function:" + name }

// reasoningFields are the fields in which providers of this shape put
// reasoning, in the order of their use.
var reasoningFields = []string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"}

// conversational reports whether records of that role are messages.
func conversational(role string) bool {
	switch role {
	case "system", "developer", "user", "assistant", "tool", "function":
		return true
	}
	return false
}

// ParseMessage decodes one message. The raw record is kept in its Origin, so
// that writing it back gives the same bytes; it must not be modified. Fields
// that no part has a place for are in Extra.
func ParseMessage(raw json.RawMessage) (session.Message, error) {
	var m session.Message
	if !json.Valid(raw) {
		return m, errors.New("the message is not valid JSON")
	}
	o, ok := parseObject(raw)
	if !ok {
		return m, fmt.Errorf("the message is %s; expected an object", splice.TypeName(raw))
	}
	return decode(o, raw)
}

// decode makes the message of a record that is valid JSON.
func decode(o object, raw json.RawMessage) (session.Message, error) {
	m := session.Message{Origin: &session.Origin{Format: Format, Raw: raw}}
	role, ok := o.str("role")
	switch {
	case !ok && o.get("role") == nil:
		return m, errors.New("the message has no role")
	case !ok:
		return m, fmt.Errorf("the role is %s; expected a string", splice.TypeName(o.get("role")))
	case !conversational(role):
		return m, fmt.Errorf("unknown role %q", role)
	}
	m.Role = session.Role(role)
	content, err := decodeContent(o.get("content"))
	if err != nil {
		return m, err
	}
	done := map[string]bool{"role": true, "content": true}
	if s, ok := o.str("name"); ok {
		m.Name = s
		done["name"] = true
	}
	if s, ok := o.str("id"); ok {
		m.ID = s
		done["id"] = true
	}
	switch role {
	case "assistant":
		m.Source.Kind = session.SourceModel
		m.Parts = decodeAssistant(o, content, done)
	case "tool":
		m.Source.Kind = session.SourceTool
		m.Parts = decodeResults(o, m.Name, content, done)
		m.Name = ""
	case "function":
		m.Role, m.Source.Kind = session.RoleTool, session.SourceTool
		m.Parts = []session.Part{session.ToolResult{CallID: legacyID(m.Name), Name: m.Name, Parts: content}}
		m.Name = ""
	default:
		m.Source.Kind = session.SourceUser
		m.Parts = content
	}
	for _, f := range o {
		if !done[f.key] {
			if m.Extra == nil {
				m.Extra = make(map[string]json.RawMessage)
			}
			m.Extra[f.key] = f.val
		}
	}
	return m, nil
}

// decodeContent returns the parts of a content value. An empty string is an
// empty text, null and a missing value are no part at all.
func decodeContent(v json.RawMessage) ([]session.Part, error) {
	if isNull(v) {
		return nil, nil
	}
	if s, ok := asString(v); ok {
		return []session.Part{session.Text{Text: s}}, nil
	}
	list, ok := elements(v)
	if !ok {
		return nil, fmt.Errorf("the content is %s; expected a string, null or a list of parts", splice.TypeName(v))
	}
	parts := make([]session.Part, 0, len(list))
	for i, e := range list {
		if s, ok := asString(e); ok {
			parts = append(parts, session.Text{Text: s})
			continue
		}
		o, ok := parseObject(e)
		if !ok {
			return nil, fmt.Errorf("content part %d is %s; expected an object", i, splice.TypeName(e))
		}
		parts = append(parts, decodePart(o, e))
	}
	return parts, nil
}

func decodePart(o object, raw json.RawMessage) session.Part {
	kind, _ := o.str("type")
	switch kind {
	case "text":
		if s, ok := o.str("text"); ok {
			return session.Text{Text: s}
		}
	case "image_url":
		if p, ok := decodeImage(o, raw); ok {
			return p
		}
	case "input_audio":
		if a, ok := parseObject(o.get("input_audio")); ok {
			data, _ := a.str("data")
			f := session.File{Bytes: len(data) * 3 / 4, Raw: raw}
			if s, ok := a.str("format"); ok {
				f.MediaType = "audio/" + s
			}
			return f
		}
	case "file":
		if a, ok := parseObject(o.get("file")); ok {
			f := session.File{Raw: raw}
			f.Name, _ = a.str("filename")
			f.URL, _ = a.str("file_id")
			if data, ok := a.str("file_data"); ok {
				f.MediaType = mediaType(data)
				f.Bytes = len(data[strings.IndexByte(data, ',')+1:]) * 3 / 4
			}
			return f
		}
	}
	return session.Opaque{Kind: kind, Raw: raw}
}

func decodeImage(o object, raw json.RawMessage) (session.Part, bool) {
	v := o.get("image_url")
	img := session.Image{}
	var ok bool
	if img.URL, ok = asString(v); ok {
		img.Raw = raw // an old form
	} else {
		a, isObj := parseObject(v)
		if !isObj {
			return nil, false
		}
		if img.URL, ok = a.str("url"); !ok {
			return nil, false
		}
		img.Detail, _ = a.str("detail")
		if len(o) > 2 || len(a) > 1 && img.Detail == "" || len(a) > 2 {
			img.Raw = raw
		}
	}
	img.MediaType = mediaType(img.URL)
	return img, true
}

// mediaType returns the media type of a data URL.
func mediaType(url string) string {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return ""
	}
	head, _, ok := strings.Cut(rest, ",")
	if !ok {
		return ""
	}
	t, _, _ := strings.Cut(head, ";")
	return t
}

func decodeAssistant(o object, content []session.Part, done map[string]bool) []session.Part {
	var parts []session.Part
	for _, k := range reasoningFields {
		if r, ok := decodeReasoning(k, o.get(k)); ok {
			parts = append(parts, r)
			done[k] = true
		}
	}
	parts = append(parts, content...)
	if s, ok := o.str("refusal"); ok {
		parts = append(parts, session.Opaque{Kind: "refusal", Raw: object{{"refusal", quote(s)}}.json()})
		done["refusal"] = true
	}
	if list, ok := elements(o.get("tool_calls")); ok {
		calls := make([]session.Part, 0, len(list))
		for _, raw := range list {
			c, ok := decodeCall(raw)
			if !ok {
				calls = nil
				break
			}
			calls = append(calls, c)
		}
		if len(calls) > 0 {
			parts = append(parts, calls...)
			done["tool_calls"] = true
		}
	}
	if f, ok := parseObject(o.get("function_call")); ok {
		name, _ := f.str("name")
		parts = append(parts, session.ToolCall{ID: legacyID(name), Name: name, Arguments: argumentText(f.get("arguments")),
			Raw: object{{"function_call", o.get("function_call")}}.json()})
		done["function_call"] = true
	}
	return parts
}

func decodeCall(raw json.RawMessage) (session.ToolCall, bool) {
	o, ok := parseObject(raw)
	if !ok {
		return session.ToolCall{}, false
	}
	c := session.ToolCall{Raw: raw}
	c.ID, _ = o.str("id")
	if f, ok := parseObject(o.get("custom")); ok && o.get("function") == nil {
		c.Custom = true
		c.Name, _ = f.str("name")
		c.Arguments = argumentText(f.get("input"))
		return c, true
	}
	f, _ := parseObject(o.get("function"))
	c.Name, _ = f.str("name")
	c.Arguments = argumentText(f.get("arguments"))
	return c, true
}

// argumentText returns the text of arguments, which some agents write as an
// object in place of a string.
func argumentText(v json.RawMessage) string {
	if s, ok := asString(v); ok {
		return s
	}
	if isNull(v) {
		return ""
	}
	return string(appendCompact(nil, v))
}

// decodeReasoning makes one part of a reasoning field. Raw is an object with
// just that field, except for plain reasoning_content, which needs none.
func decodeReasoning(key string, v json.RawMessage) (session.Reasoning, bool) {
	if s, ok := asString(v); ok && (key == "reasoning_content" || key == "reasoning") {
		r := session.Reasoning{Text: s}
		if key != "reasoning_content" {
			r.Raw = object{{key, v}}.json()
		}
		return r, true
	}
	list, ok := elements(v)
	if !ok || key != "reasoning_details" && key != "thinking_blocks" {
		return session.Reasoning{}, false
	}
	r := session.Reasoning{Raw: object{{key, v}}.json()}
	var text []string
	for _, e := range list {
		o, _ := parseObject(e)
		for _, k := range []string{"text", "summary", "thinking"} {
			if s, ok := o.str(k); ok && s != "" {
				text = append(text, s)
			}
		}
		if s, ok := o.str("signature"); ok {
			r.Signature = s
		}
		if s, ok := o.str("data"); ok {
			r.Encrypted += s
		}
	}
	r.Text = strings.Join(text, "\n")
	return r, true
}

// decodeResults makes one result of a tool message, or one for each id when it
// has the list of ids that SWE-agent writes: the first gets the content.
func decodeResults(o object, name string, content []session.Part, done map[string]bool) []session.Part {
	var ids []string
	if s, ok := o.str("tool_call_id"); ok {
		ids = []string{s}
		done["tool_call_id"] = true
	} else if list, ok := elements(o.get("tool_call_ids")); ok {
		for _, e := range list {
			s, ok := asString(e)
			if !ok {
				ids = nil
				break
			}
			ids = append(ids, s)
		}
		done["tool_call_ids"] = len(ids) > 0
	}
	if len(ids) == 0 {
		ids = []string{""}
	}
	parts := make([]session.Part, len(ids))
	for i, id := range ids {
		r := session.ToolResult{CallID: id, Name: name}
		if i == 0 {
			r.Parts = content
		}
		parts[i] = r
	}
	return parts
}
