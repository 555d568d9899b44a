package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Role says who a message speaks as. Leading system and developer messages
// belong to the [Envelope]; on the surface these two roles occur only as notes
// in mid-conversation.
type Role string

// The roles of messages.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleDeveloper Role = "developer"
	RoleSystem    Role = "system"
)

// SourceKind says who wrote a message.
type SourceKind string

// The kinds of sources.
const (
	SourceUser   SourceKind = "user"
	SourceModel  SourceKind = "model"
	SourceTool   SourceKind = "tool"
	SourcePlugin SourceKind = "plugin"
)

// Source is the typed, mandatory origin of a message. Software recognizes its
// own messages by it, never by their text.
type Source struct {
	Kind SourceKind `json:"kind"`
	// Plugin names the software that wrote the message; plugin kind only.
	Plugin string `json:"plugin,omitempty"`
	// Ref is an identity that the plugin gave, such as a compaction id.
	Ref string `json:"ref,omitempty"`
	// Form says what kind of plugin message it is ("recall", "note"), in the
	// plugin's own words.
	Form string `json:"form,omitempty"`
	// Provider and Model name the routed model; model kind only, and empty
	// where the transcript does not tell.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// Message is one entry of the conversation. A message that is part of a
// session is shared by all its views and must not be modified.
type Message struct {
	// ID is an identity that the provider or the host gave. It may be empty.
	ID string
	// Role says who speaks.
	Role Role
	// Name is the optional participant name of chat formats.
	Name string
	// Parts hold the content in order.
	Parts []Part
	// Source is mandatory.
	Source Source
	// Extra holds provider fields that have no place in Parts, by name.
	Extra map[string]json.RawMessage
	// Origin keeps the record that the message was read from, so that writing
	// it back to the same format gives the same bytes. It may be nil.
	Origin *Origin
}

// Origin is the record of a transcript that a message was read from.
type Origin struct {
	// Format names the wire format of Raw ("openai-chat").
	Format string `json:"format"`
	// Raw is the record, byte for byte.
	Raw json.RawMessage `json:"raw"`
}

// Part is one piece of a message's content: [Text], [Image], [File],
// [Reasoning], [ToolCall], [ToolResult] or [Opaque]. The set is sealed.
type Part interface{ partType() string }

// Text is plain text.
type Text struct {
	Text string `json:"text"`
}

// Image is a picture, by reference or inline.
type Image struct {
	// URL is an http or a data URL, or an identifier of the provider's.
	URL string `json:"url,omitempty"`
	// MediaType such as image/png; may be empty.
	MediaType string `json:"media_type,omitempty"`
	// Detail is the provider's detail level (low, high, auto); may be empty.
	Detail string `json:"detail,omitempty"`
	// Width and Height in pixels; zero when unknown.
	Width  int `json:"width,omitempty"`
	Height int `json:"height,omitempty"`
	// Raw is the provider's own form of the part, when it has one.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// File is an attached document, audio or other file.
type File struct {
	Name      string `json:"name,omitempty"`
	URL       string `json:"url,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	// Bytes is the size of the content; zero when unknown.
	Bytes int `json:"bytes,omitempty"`
	// Raw is the provider's own form of the part, when it has one.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// Reasoning is thinking of the model, with what the provider needs to take it
// back unchanged.
type Reasoning struct {
	ID        string `json:"id,omitempty"`
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
	Encrypted string `json:"encrypted,omitempty"`
	// Raw is the provider's own form of the part, when it has one.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// ToolCall is a request of the model to run a tool. Its ID identifies it
// within its message only.
type ToolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is the text that the model wrote: JSON for function tools
	// (possibly invalid), free text for custom ones.
	Arguments string `json:"arguments,omitempty"`
	// Custom marks a free-text tool.
	Custom bool `json:"custom,omitempty"`
	// Raw is the provider's own form of the call, when it has one.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// ToolResult answers a [ToolCall].
type ToolResult struct {
	CallID  string `json:"call_id"`
	Name    string `json:"name,omitempty"`
	Parts   []Part `json:"-"`
	IsError bool   `json:"is_error,omitempty"`
}

// Opaque carries a provider item that we do not understand and gives it back
// byte for byte.
type Opaque struct {
	// Kind is the provider's type name of the item.
	Kind string          `json:"kind"`
	Raw  json.RawMessage `json:"raw"`
}

func (Text) partType() string       { return "text" }
func (Image) partType() string      { return "image" }
func (File) partType() string       { return "file" }
func (Reasoning) partType() string  { return "reasoning" }
func (ToolCall) partType() string   { return "tool_call" }
func (ToolResult) partType() string { return "tool_result" }
func (Opaque) partType() string     { return "opaque" }

// UserText returns a message that a user typed.
func UserText(text string) Message {
	return Message{Role: RoleUser, Parts: []Part{Text{text}}, Source: Source{Kind: SourceUser}}
}

// AssistantText returns a message of the model with the calls that it makes.
func AssistantText(text string, calls ...ToolCall) Message {
	m := Message{Role: RoleAssistant, Source: Source{Kind: SourceModel}}
	if text != "" {
		m.Parts = append(m.Parts, Text{text})
	}
	for _, c := range calls {
		m.Parts = append(m.Parts, c)
	}
	return m
}

// ToolText returns the result of the call with the given id.
func ToolText(callID, text string) Message {
	return Message{
		Role:   RoleTool,
		Parts:  []Part{ToolResult{CallID: callID, Parts: []Part{Text{text}}}},
		Source: Source{Kind: SourceTool},
	}
}

// Calls returns the ids of the calls that the message makes, in order. It is
// nil when there are none.
func (m *Message) Calls() []string {
	var ids []string
	for _, p := range m.Parts {
		if c, ok := p.(ToolCall); ok {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// Results returns the ids of the calls that the message answers, in order. It
// is nil when there are none.
func (m *Message) Results() []string {
	var ids []string
	for _, p := range m.Parts {
		if r, ok := p.(ToolResult); ok {
			ids = append(ids, r.CallID)
		}
	}
	return ids
}

// Text returns the text of the message for reading: its text parts and the
// text of its tool results, joined by newlines. Reasoning, calls, images and
// opaque parts are left out.
func (m *Message) Text() string { return TextOf(m.Parts) }

// TextOf returns the text of parts, as [Message.Text] does.
func TextOf(parts []Part) string {
	if len(parts) == 1 {
		if t, ok := parts[0].(Text); ok {
			return t.Text
		}
	}
	var b strings.Builder
	add := func(s string) {
		if s == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	for _, p := range parts {
		switch p := p.(type) {
		case Text:
			add(p.Text)
		case ToolResult:
			add(TextOf(p.Parts))
		}
	}
	return b.String()
}

// IsEmpty reports whether the message has nothing that a provider would take:
// no parts, or only empty text and reasoning.
func (m *Message) IsEmpty() bool {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case Text:
			if p.Text != "" {
				return false
			}
		case Reasoning:
		default:
			return false
		}
	}
	return true
}

// ErrInvalidMessage is wrapped by the errors of [Message.Validate].
var ErrInvalidMessage = errors.New("invalid message")

// Validate checks what the session relies on: a known role, a typed source
// that fits it, and parts that the role may carry. It does not judge what a
// provider accepts; packages below wire do.
func (m *Message) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalidMessage, fmt.Sprintf(format, args...))
	}
	switch m.Source.Kind {
	case SourceUser, SourceModel, SourceTool:
	case SourcePlugin:
		if m.Source.Plugin == "" {
			return bad("plugin source without a plugin name")
		}
	case "":
		return bad("source is missing")
	default:
		return bad("unknown source kind %q", m.Source.Kind)
	}
	results := 0
	for i, p := range m.Parts {
		switch p.(type) {
		case nil:
			return bad("part %d is nil", i)
		case Text, Image, File, Opaque, Reasoning:
		case ToolCall:
			if m.Role != RoleAssistant {
				return bad("part %d: a %s message cannot call tools", i, m.Role)
			}
		case ToolResult:
			results++
			if m.Role != RoleTool {
				return bad("part %d: a %s message cannot hold a tool result", i, m.Role)
			}
			for _, q := range p.(ToolResult).Parts {
				switch q.(type) {
				case Text, Image, File, Opaque:
				default:
					return bad("part %d: a tool result cannot hold %T", i, q)
				}
			}
		default:
			return bad("part %d has unknown type %T", i, p)
		}
	}
	switch m.Role {
	case RoleUser, RoleDeveloper, RoleSystem:
	case RoleAssistant:
		if m.Source.Kind != SourceModel && m.Source.Kind != SourcePlugin {
			return bad("assistant message with source kind %q", m.Source.Kind)
		}
	case RoleTool:
		if results == 0 {
			return bad("tool message without a result")
		}
	default:
		return bad("unknown role %q", m.Role)
	}
	return nil
}

// Clone returns a deep copy. Strings are shared.
func (m *Message) Clone() *Message {
	c := new(Message)
	m.cloneTo(c)
	return c
}

func (m *Message) cloneTo(c *Message) {
	*c = *m
	c.Parts = cloneParts(m.Parts)
	if m.Extra != nil {
		c.Extra = make(map[string]json.RawMessage, len(m.Extra))
		for k, v := range m.Extra {
			c.Extra[k] = slices.Clone(v)
		}
	}
	if m.Origin != nil {
		c.Origin = &Origin{Format: m.Origin.Format, Raw: slices.Clone(m.Origin.Raw)}
	}
}

func cloneParts(parts []Part) []Part {
	if parts == nil {
		return nil
	}
	out := make([]Part, len(parts))
	for i, p := range parts {
		switch p := p.(type) {
		case Text:
			out[i] = parts[i] // nobody can change it; p would be boxed once more
		case Image:
			p.Raw = slices.Clone(p.Raw)
			out[i] = p
		case File:
			p.Raw = slices.Clone(p.Raw)
			out[i] = p
		case Reasoning:
			p.Raw = slices.Clone(p.Raw)
			out[i] = p
		case ToolCall:
			p.Raw = slices.Clone(p.Raw)
			out[i] = p
		case ToolResult:
			p.Parts = cloneParts(p.Parts)
			out[i] = p
		case Opaque:
			p.Raw = slices.Clone(p.Raw)
			out[i] = p
		}
	}
	return out
}
