// Package anthropicmessages reads and writes conversations in the shape of the
// Anthropic Messages API (version 2023-06-01), builds requests of that shape
// from a session, and checks requests.
//
//	f, err := anthropicmessages.Codec{}.Read(ctx, data)
//	req, err := anthropicmessages.BuildRequest(s.View(), nil)
//	post(req.Body)
//
// # Reading
//
// The codec knows a request body, the bare array of its messages, and a log
// entry with the body under "request". A user message that holds tool results
// and text becomes two: the results, and what a person said with them. System
// text, tools and the other settings of a body are in the envelope. Blocks of
// server tools, their results, and blocks of a type that is not known here are
// opaque parts.
//
// # Writing
//
// Records that stay keep their bytes, as does everything around the messages.
// The API has no mark for a compaction in its input, so a checkpoint is a user
// message in place of what it replaces; the log beside the file says that it is
// one.
//
// # Lost
//
// Nothing in records that stay. A message that changed loses citations and
// cache_control of its text blocks and tool results.
package anthropicmessages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/anthropic"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format.
const Format = "anthropic-messages"

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Codec = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

// The containers, as they are named for people.
const (
	requestBody = "request body"
	bareArray   = "message array"
	requestLog  = "request log"
)

const expected = `messages with content blocks: a request body with "messages", or their array`

// layout says where the messages are.
type layout struct {
	container  string
	body, list splice.Span
}

func layoutOf(b []byte, doc splice.Span) (layout, bool) {
	if doc.Kind(b) == '[' {
		return layout{container: bareArray, list: doc}, true
	}
	top := splice.Top(b, doc)
	if l := top["messages"]; l.Kind(b) == '[' {
		return layout{requestBody, doc, l}, true
	}
	if req := top["request"]; req.Kind(b) == '{' {
		if l := splice.Get(b, req, "messages"); l.Kind(b) == '[' {
			return layout{requestLog, req, l}, true
		}
	}
	return layout{}, false
}

// looked is how many messages Detect looks at.
const looked = 400

// Detect implements [wire.Codec]. Messages of plain text alone could be those
// of a chat as well and are left to it, unless the body says whose they are.
func (Codec) Detect(head []byte, whole bool) wire.Confidence {
	doc := splice.At(head, splice.Begin(head))
	if end := splice.Space(head, doc.End); whole && (!doc.Whole && doc.Kind(head) != 0 && end < len(head) || end < len(head)) {
		return wire.No // more than one value
	}
	l, ok := layoutOf(head, doc)
	if !ok {
		return wire.No
	}
	seen := wire.No
	if !l.body.IsZero() {
		seen = bodyMarks(head, l.body)
	}
	foreign, n, messages := false, 0, 0
	splice.Elements(head, l.list, func(e splice.Span) bool {
		n++
		if e.Kind(head) != '{' {
			foreign = foreign || e.Whole
			return !foreign
		}
		m := splice.Top(head, e)
		role := splice.Text(head, m["role"])
		switch {
		case role == "" && !e.Whole:
			return false
		case role != "user" && role != "assistant",
			!m["tool_calls"].IsZero(), !m["parts"].IsZero(), !m["tool_call_id"].IsZero(), !m["function_call"].IsZero():
			foreign = true
			return false
		}
		if t := splice.Text(head, m["type"]); t != "" && t != "message" {
			foreign = true
			return false
		}
		messages++
		splice.Elements(head, m["content"], func(p splice.Span) bool {
			switch splice.Text(head, splice.Get(head, p, "type")) {
			case "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document":
				seen = wire.Certain
			case "image":
				if !splice.Get(head, p, "source").IsZero() {
					seen = wire.Certain
				}
			case "input_text", "output_text", "input_image", "image_url", "toolCall", "tool-call":
				foreign = true
			}
			return !foreign
		})
		return !foreign && n < looked
	})
	if foreign || messages == 0 {
		return wire.No
	}
	return seen
}

// bodyMarks judges what stands beside the messages.
func bodyMarks(b []byte, body splice.Span) wire.Confidence {
	top := splice.Top(b, body)
	seen := wire.No
	if k := top["system"].Kind(b); k == '"' || k == '[' {
		seen = wire.Likely
	}
	if !top["anthropic_version"].IsZero() {
		seen = wire.Certain
	}
	splice.Elements(b, top["tools"], func(e splice.Span) bool {
		if !splice.Get(b, e, "input_schema").IsZero() {
			seen = wire.Certain
		}
		return false
	})
	return seen
}

// Read implements [wire.Codec].
func (Codec) Read(ctx context.Context, data []byte) (*wire.File, error) {
	doc, err := splice.Document(Format, data, expected)
	if err != nil {
		return nil, err
	}
	l, ok := layoutOf(data, doc)
	if !ok {
		return nil, &wire.Error{Format: Format, Offset: int64(doc.Start), Detail: "no list of messages found; expected " + expected}
	}
	conv := &wire.Conversation{}
	c := &splice.Conversation{List: splice.ListOf(data, l.list)}
	file := &wire.File{Format: Format, Container: l.container, Conversations: []*wire.Conversation{conv}}
	envelope(&conv.Envelope, data, l.body)
	for i, r := range c.List.Records {
		if i%512 == 0 && ctx.Err() != nil {
			return nil, &wire.Error{Format: Format, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		msgs, detail := decode(r.Of(data))
		if detail != "" {
			return nil, &wire.Error{Format: Format, Offset: int64(r.Start), Detail: fmt.Sprintf("messages[%d]: %s", i, detail)}
		}
		c.Groups = append(c.Groups, splice.Group{From: i, To: i + 1, Entry: len(conv.Entries), Count: len(msgs)})
		for k := range msgs {
			if msgs[k].Role == session.RoleAssistant {
				msgs[k].Source.Model = conv.Envelope.Model
			}
			conv.Entries = append(conv.Entries, wire.Entry{Message: msgs[k]})
		}
	}
	if len(conv.Entries) == 0 {
		return nil, &wire.Error{Format: Format, Offset: int64(l.list.Start), Detail: "the list has no messages; expected objects with role and content"}
	}
	c.Entries = conv.Entries
	c.Encode = func(pieces []splice.Piece) ([]json.RawMessage, error) { return encode(data, c, pieces) }
	file.Writer = &splice.Writer{Format: Format, Data: data, Lists: []*splice.Conversation{c}}
	return file, nil
}

// decode makes the one or two messages of a record. The detail says why there
// are none.
func decode(raw json.RawMessage) (msgs []session.Message, detail string) {
	var m struct {
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if rawjson.Kind(raw) != '{' {
		return nil, "it is " + splice.TypeName(raw) + "; expected a message object"
	}
	if err := json.Unmarshal(raw, &m); !splice.Lenient(err) {
		return nil, "it cannot be read: " + err.Error()
	}
	var parts []session.Part
	if k := rawjson.Kind(m.Content); k != 0 && k != 'n' {
		var ok bool
		if parts, ok = anthropic.Parts(m.Content); !ok {
			return nil, "the content is " + splice.TypeName(m.Content) + "; expected a string or a list of blocks"
		}
	}
	origin := &session.Origin{Format: Format, Raw: raw}
	switch m.Role {
	case "assistant":
		src := session.Source{Kind: session.SourceModel, Provider: anthropic.Provider}
		for i, p := range parts {
			if _, ok := p.(session.ToolResult); ok {
				parts[i] = opaque("tool_result", m.Content, i)
			}
		}
		return []session.Message{{ID: m.ID, Role: session.RoleAssistant, Parts: parts, Source: src, Origin: origin}}, ""
	case "user", "system", "developer":
	case "":
		return nil, "it has no role; expected user or assistant"
	default:
		return nil, fmt.Sprintf("unknown role %q; expected user or assistant", splice.Clip(m.Role, 40))
	}
	for i, p := range parts {
		if _, ok := p.(session.ToolCall); ok { // only the model calls
			parts[i] = opaque("tool_use", m.Content, i)
		}
	}
	user := session.Source{Kind: session.SourceUser}
	if m.Role != "user" {
		for i, p := range parts {
			if _, ok := p.(session.ToolResult); ok {
				parts[i] = opaque("tool_result", m.Content, i)
			}
		}
		return []session.Message{{ID: m.ID, Role: session.Role(m.Role), Parts: parts, Source: user, Origin: origin}}, ""
	}
	results, rest := anthropic.Split(parts)
	if len(results) > 0 {
		msgs = append(msgs, session.Message{ID: m.ID, Role: session.RoleTool, Parts: results, Source: session.Source{Kind: session.SourceTool}})
	}
	if len(rest) > 0 || len(results) == 0 {
		msgs = append(msgs, session.Message{ID: m.ID, Role: session.RoleUser, Parts: rest, Source: user})
	}
	if len(msgs) == 1 {
		msgs[0].Origin = origin
	}
	return msgs, ""
}

// opaque is the i-th block of a content as it stands.
func opaque(kind string, content json.RawMessage, i int) session.Part {
	list, _ := rawjson.Elements(content)
	return session.Opaque{Kind: kind, Raw: list[i]}
}

// envelope takes in what stands beside the messages.
func envelope(e *session.Envelope, data []byte, body splice.Span) {
	e.Provider = anthropic.Provider
	splice.Members(data, body, func(key string, v splice.Span) bool {
		raw := v.Of(data)
		switch key {
		case "messages":
		case "model":
			e.Model = splice.Text(data, v)
		case "system":
			if parts, ok := anthropic.Parts(raw); ok && len(parts) > 0 {
				for i, p := range parts {
					switch p.(type) {
					case session.ToolCall, session.ToolResult:
						parts[i] = opaque("invalid", raw, i)
					}
				}
				e.System = []session.Message{{Role: session.RoleSystem, Parts: parts, Source: session.Source{Kind: session.SourceUser},
					Origin: &session.Origin{Format: Format, Raw: raw}}}
			}
		case "tools":
			list, _ := rawjson.Elements(raw)
			e.Tools = nil
			for _, t := range list {
				var j struct {
					Name        string          `json:"name"`
					Description string          `json:"description"`
					Schema      json.RawMessage `json:"input_schema"`
				}
				_ = json.Unmarshal(t, &j) // what does not fit stays in Raw
				e.Tools = append(e.Tools, session.Tool{Name: j.Name, Description: j.Description, Schema: j.Schema, Raw: t})
			}
		default:
			if e.Extra == nil {
				e.Extra = map[string]json.RawMessage{}
			}
			e.Extra[key] = raw
		}
		return true
	})
}

// encode makes records of messages that are new or changed. The parts of one
// record that are still neighbors are one record again.
func encode(data []byte, c *splice.Conversation, pieces []splice.Piece) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for i := 0; i < len(pieces); i++ {
		p := pieces[i]
		blocks := content(data, c, p)
		if i+1 < len(pieces) && p.Group >= 0 && pieces[i+1].Group == p.Group && pieces[i+1].Entry == p.Entry+1 {
			blocks = append(blocks, content(data, c, pieces[i+1])...)
			i++
		}
		o := rawjson.Object{}
		if p.Group >= 0 && sameRole(c, p) {
			o, _ = rawjson.Parse(c.List.Records[c.Groups[p.Group].From].Of(data)) // it was read
		}
		o.Set("role", role(p.Message.Role))
		if t, ok := onlyText(p.Message.Parts); ok && len(blocks) == 1 {
			o.Set("content", t)
		} else {
			o.Set("content", blocks)
		}
		out = append(out, o.Bytes())
	}
	return out, nil
}

func sameRole(c *splice.Conversation, p splice.Piece) bool {
	return role(c.Entries[p.Entry].Message.Role) == role(p.Message.Role)
}

func role(r session.Role) string {
	if r == session.RoleTool {
		return "user"
	}
	return string(r)
}

// content returns the blocks of a piece: those of its record when it did not
// change.
func content(data []byte, c *splice.Conversation, p splice.Piece) []json.RawMessage {
	blocks := []json.RawMessage{}
	if p.Changed || p.Group < 0 {
		for _, part := range p.Message.Parts {
			if raw := anthropic.Block(part); raw != nil {
				blocks = append(blocks, raw)
			}
		}
		return blocks
	}
	o, _ := rawjson.Parse(c.List.Records[c.Groups[p.Group].From].Of(data))
	list, ok := rawjson.Elements(o.Get("content"))
	if !ok {
		return append(blocks, anthropic.Block(session.Text{Text: p.Message.Text()}))
	}
	for _, raw := range list {
		var b struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal(raw, &b)
		if (b.Type == "tool_result" && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))) == (p.Message.Role == session.RoleTool) {
			blocks = append(blocks, raw)
		}
	}
	return blocks
}

func onlyText(parts []session.Part) (string, bool) {
	if len(parts) != 1 {
		return "", false
	}
	t, ok := parts[0].(session.Text)
	return t.Text, ok && t.Text != ""
}
