package session

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The JSON form of a message, as it stands in stored logs:
//
//	{"id":"…","role":"assistant","source":{"kind":"model"},
//	 "parts":[{"type":"text","text":"…"},{"type":"tool_call","id":"…",…}],
//	 "extra":{"name":"<json>"},"origin":{"format":"…","raw":"<json>"}}
//
// Raw JSON is stored as a string, so that its bytes survive. A string that is
// not valid UTF-8 is stored as {"b64":"…"}. Part types are append-only: a name
// is never given another meaning.

// exact is a string that keeps its bytes, whatever they are.
type exact string

func (e *exact) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var o struct {
			B64 []byte `json:"b64"`
		}
		if err := json.Unmarshal(b, &o); err != nil {
			return err
		}
		*e = exact(o.B64)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*e = exact(s)
	return nil
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON value: a string, or {"b64":…} when s is not
// valid UTF-8.
func appendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		dst = append(dst, `{"b64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, []byte(s))
		return append(dst, `"}`...)
	}
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		start = i + 1
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// field appends ,"name":value for a non-empty string.
func field(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendString(key(dst, name), s)
}

func key(dst []byte, name string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func rawField(dst []byte, name string, r json.RawMessage) []byte {
	if r == nil {
		return dst
	}
	return appendString(key(dst, name), string(r))
}

func intField(dst []byte, name string, n int) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(key(dst, name), int64(n), 10)
}

func boolField(dst []byte, name string, b bool) []byte {
	if !b {
		return dst
	}
	return append(key(dst, name), "true"...)
}

func appendRawMap(dst []byte, m map[string]json.RawMessage) []byte {
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, strings.ToValidUTF8(k, "\uFFFD"))
		dst = append(dst, ':')
		dst = appendString(dst, string(m[k]))
	}
	return append(dst, '}')
}

func rawMap(m map[string]exact) map[string]json.RawMessage {
	if m == nil {
		return nil
	}
	out := make(map[string]json.RawMessage, len(m))
	for k, v := range m {
		out[k] = json.RawMessage(v)
	}
	return out
}

func appendSource(dst []byte, s Source) []byte {
	dst = append(dst, '{')
	dst = field(dst, "kind", string(s.Kind))
	dst = field(dst, "plugin", s.Plugin)
	dst = field(dst, "ref", s.Ref)
	dst = field(dst, "form", s.Form)
	dst = field(dst, "provider", s.Provider)
	dst = field(dst, "model", s.Model)
	return append(dst, '}')
}

func appendMessage(dst []byte, m *Message) []byte {
	dst = append(dst, '{')
	dst = field(dst, "id", m.ID)
	dst = field(dst, "role", string(m.Role))
	dst = field(dst, "name", m.Name)
	dst = appendSource(key(dst, "source"), m.Source)
	if m.Parts != nil {
		dst = appendParts(key(dst, "parts"), m.Parts)
	}
	if m.Extra != nil {
		dst = appendRawMap(key(dst, "extra"), m.Extra)
	}
	if m.Origin != nil {
		dst = append(key(dst, "origin"), '{')
		dst = field(dst, "format", m.Origin.Format)
		dst = rawField(dst, "raw", m.Origin.Raw)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func appendParts(dst []byte, parts []Part) []byte {
	dst = append(dst, '[')
	for i, p := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = field(dst, "type", p.partType())
		switch p := p.(type) {
		case Text:
			dst = appendString(key(dst, "text"), p.Text)
		case Image:
			dst = field(dst, "url", p.URL)
			dst = field(dst, "media_type", p.MediaType)
			dst = field(dst, "detail", p.Detail)
			dst = intField(dst, "width", p.Width)
			dst = intField(dst, "height", p.Height)
			dst = rawField(dst, "raw", p.Raw)
		case File:
			dst = field(dst, "name", p.Name)
			dst = field(dst, "url", p.URL)
			dst = field(dst, "media_type", p.MediaType)
			dst = intField(dst, "bytes", p.Bytes)
			dst = rawField(dst, "raw", p.Raw)
		case Reasoning:
			dst = field(dst, "id", p.ID)
			dst = field(dst, "text", p.Text)
			dst = field(dst, "signature", p.Signature)
			dst = field(dst, "encrypted", p.Encrypted)
			dst = rawField(dst, "raw", p.Raw)
		case ToolCall:
			dst = field(dst, "id", p.ID)
			dst = field(dst, "name", p.Name)
			dst = field(dst, "arguments", p.Arguments)
			dst = boolField(dst, "custom", p.Custom)
			dst = rawField(dst, "raw", p.Raw)
		case ToolResult:
			dst = field(dst, "call_id", p.CallID)
			dst = field(dst, "name", p.Name)
			dst = boolField(dst, "is_error", p.IsError)
			if p.Parts != nil {
				dst = appendParts(key(dst, "parts"), p.Parts)
			}
		case Opaque:
			dst = field(dst, "kind", p.Kind)
			dst = rawField(dst, "raw", p.Raw)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// MarshalJSON implements [json.Marshaler].
func (m Message) MarshalJSON() ([]byte, error) {
	size := m.Size()
	return appendMessage(make([]byte, 0, size+size/8+256), &m), nil
}

type sourceJSON struct {
	Kind     SourceKind `json:"kind"`
	Plugin   exact      `json:"plugin"`
	Ref      exact      `json:"ref"`
	Form     exact      `json:"form"`
	Provider exact      `json:"provider"`
	Model    exact      `json:"model"`
}

func (j sourceJSON) source() Source {
	return Source{Kind: j.Kind, Plugin: string(j.Plugin), Ref: string(j.Ref), Form: string(j.Form),
		Provider: string(j.Provider), Model: string(j.Model)}
}

type messageJSON struct {
	ID     exact            `json:"id"`
	Role   Role             `json:"role"`
	Name   exact            `json:"name"`
	Source sourceJSON       `json:"source"`
	Parts  partList         `json:"parts"`
	Extra  map[string]exact `json:"extra"`
	Origin *struct {
		Format exact  `json:"format"`
		Raw    *exact `json:"raw"`
	} `json:"origin"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Message) UnmarshalJSON(b []byte) error {
	var j messageJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*m = Message{ID: string(j.ID), Role: j.Role, Name: string(j.Name), Source: j.Source.source(), Parts: j.Parts}
	m.Extra = rawMap(j.Extra)
	if j.Origin != nil {
		m.Origin = &Origin{Format: string(j.Origin.Format), Raw: j.Origin.Raw.raw()}
	}
	return nil
}

type partList []Part

type partJSON struct {
	Type      string   `json:"type"`
	Text      exact    `json:"text"`
	ID        exact    `json:"id"`
	Name      exact    `json:"name"`
	Arguments exact    `json:"arguments"`
	Custom    bool     `json:"custom"`
	CallID    exact    `json:"call_id"`
	Parts     partList `json:"parts"`
	IsError   bool     `json:"is_error"`
	URL       exact    `json:"url"`
	MediaType exact    `json:"media_type"`
	Detail    exact    `json:"detail"`
	Width     int      `json:"width"`
	Height    int      `json:"height"`
	Bytes     int      `json:"bytes"`
	Signature exact    `json:"signature"`
	Encrypted exact    `json:"encrypted"`
	Kind      exact    `json:"kind"`
	Raw       *exact   `json:"raw"`
}

func (e *exact) raw() json.RawMessage {
	if e == nil {
		return nil
	}
	return json.RawMessage(*e)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *partList) UnmarshalJSON(b []byte) error {
	var in []partJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if in == nil {
		*l = nil
		return nil
	}
	out := make(partList, len(in))
	for i, p := range in {
		switch p.Type {
		case "text":
			out[i] = Text{string(p.Text)}
		case "image":
			out[i] = Image{URL: string(p.URL), MediaType: string(p.MediaType), Detail: string(p.Detail),
				Width: p.Width, Height: p.Height, Raw: p.Raw.raw()}
		case "file":
			out[i] = File{Name: string(p.Name), URL: string(p.URL), MediaType: string(p.MediaType), Bytes: p.Bytes, Raw: p.Raw.raw()}
		case "reasoning":
			out[i] = Reasoning{ID: string(p.ID), Text: string(p.Text), Signature: string(p.Signature),
				Encrypted: string(p.Encrypted), Raw: p.Raw.raw()}
		case "tool_call":
			out[i] = ToolCall{ID: string(p.ID), Name: string(p.Name), Arguments: string(p.Arguments), Custom: p.Custom, Raw: p.Raw.raw()}
		case "tool_result":
			out[i] = ToolResult{CallID: string(p.CallID), Name: string(p.Name), IsError: p.IsError, Parts: p.Parts}
		case "opaque":
			out[i] = Opaque{Kind: string(p.Kind), Raw: p.Raw.raw()}
		default:
			return fmt.Errorf("part %d has unknown type %q", i, p.Type)
		}
	}
	*l = out
	return nil
}
