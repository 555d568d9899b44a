// Package langchain reads and writes lists of LangChain messages: the array that
// langchain_core.load.dumpd makes (constructors with kwargs), and the one of
// messages_to_dict (type and data), of langchain-core 0.3 and 1.0. They may
// stand alone or under "messages".
//
// Calls of a message are its tool_calls; the provider's own blocks that repeat
// them are not taken twice. Leading system messages are in the envelope.
//
// A checkpoint is a HumanMessage with lc_source "summarization" in its
// additional_kwargs, as LangChain's own summarization middleware writes it; our
// compaction id and typed sources stand there in a field "agentcompact". Records
// that stay keep their bytes.
//
// Lost: a message that changed loses its response metadata, and the provider's
// own form of its blocks where they said more than parts do.
package langchain

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/anthropic"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format.
const Format = "langchain"

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Codec = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

const expected = `LangChain messages: an array of objects with "lc" and "kwargs", or with "type" and "data"`

// kinds are the roles by class and by short type.
var kinds = map[string]session.Role{
	"HumanMessage": session.RoleUser, "AIMessage": session.RoleAssistant, "ToolMessage": session.RoleTool, "SystemMessage": session.RoleSystem,
	"HumanMessageChunk": session.RoleUser, "AIMessageChunk": session.RoleAssistant, "ToolMessageChunk": session.RoleTool,
	"human": session.RoleUser, "ai": session.RoleAssistant, "tool": session.RoleTool, "system": session.RoleSystem,
}

// record is one message.
type record struct {
	LC     *int            `json:"lc"`
	ID     json.RawMessage `json:"id"`
	Kwargs json.RawMessage `json:"kwargs"`
	Type   string          `json:"type"`
	Data   json.RawMessage `json:"data"`
}

func parse(raw json.RawMessage) (record, session.Role) {
	var r record
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &r)) {
		return r, ""
	}
	if r.LC == nil {
		if rawjson.Kind(r.Data) != '{' {
			return r, ""
		}
		return r, kinds[r.Type]
	}
	var path []string
	if json.Unmarshal(r.ID, &path) != nil || len(path) == 0 || rawjson.Kind(r.Kwargs) != '{' {
		return r, ""
	}
	return r, kinds[path[len(path)-1]]
}

// body is what the record says.
func (r *record) body() json.RawMessage {
	if r.LC == nil {
		return r.Data
	}
	return r.Kwargs
}

func listOf(b []byte, doc splice.Span) splice.Span {
	if doc.Kind(b) == '[' {
		return doc
	}
	return splice.Get(b, doc, "messages")
}

// Detect implements [wire.Codec].
func (Codec) Detect(head []byte, whole bool) wire.Confidence {
	doc := splice.At(head, splice.Begin(head))
	if whole && splice.Space(head, doc.End) < len(head) {
		return wire.No
	}
	seen := wire.No
	splice.Elements(head, listOf(head, doc), func(e splice.Span) bool {
		if _, role := parse(e.Of(head)); role != "" {
			seen = wire.Certain
		} else if top := splice.Top(head, e); !e.Whole && !top["lc"].IsZero() || !top["kwargs"].IsZero() {
			seen = wire.Likely
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
	list := listOf(data, doc)
	if list.Kind(data) != '[' {
		return nil, &wire.Error{Format: Format, Offset: int64(doc.Start), Detail: "no list of messages found; expected " + expected}
	}
	conv := &wire.Conversation{}
	c := &splice.Conversation{List: splice.ListOf(data, list)}
	dict := false
	for i, s := range c.List.Records {
		if i%512 == 0 && ctx.Err() != nil {
			return nil, &wire.Error{Format: Format, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		r, role := parse(s.Of(data))
		if role == "" {
			return nil, &wire.Error{Format: Format, Offset: int64(s.Start), Detail: fmt.Sprintf("messages[%d] is no message; expected %s", i, expected)}
		}
		dict = dict || r.LC == nil
		e, mark := r.entry(role, s.Of(data))
		if len(conv.Entries) == 0 && role == session.RoleSystem {
			conv.Envelope.System = append(conv.Envelope.System, e.Message)
			continue
		}
		if m := e.Message.Source; m.Kind == session.SourceModel && m.Model != "" {
			conv.Envelope.Provider, conv.Envelope.Model = m.Provider, m.Model
		}
		if mark.ID != "" {
			cp := mark.Checkpoint()
			cp.Entry = len(conv.Entries)
			conv.Checkpoints = append(conv.Checkpoints, cp)
		}
		c.Groups = append(c.Groups, splice.Group{From: i, To: i + 1, Entry: len(conv.Entries), Count: 1})
		conv.Entries = append(conv.Entries, e)
	}
	if len(conv.Entries) == 0 && len(conv.Envelope.System) == 0 {
		return nil, &wire.Error{Format: Format, Offset: int64(list.Start), Detail: "the list has no messages; expected " + expected}
	}
	marks.DropUsage(conv)
	c.Entries = conv.Entries
	c.Encode = func(pieces []splice.Piece) ([]json.RawMessage, error) {
		var out []json.RawMessage
		for _, p := range pieces {
			out = append(out, encode(p, dict)...)
		}
		return out, nil
	}
	return &wire.File{Format: Format, Container: "LangChain messages", Conversations: []*wire.Conversation{conv},
		Writer: &splice.Writer{Format: Format, Data: data, Lists: []*splice.Conversation{c}}}, nil
}

type body struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Content json.RawMessage `json:"content"`
	Calls   []struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"tool_calls"`
	Invalid []struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"invalid_tool_calls"`
	CallID string `json:"tool_call_id"`
	Status string `json:"status"`
	Usage  *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		In     struct {
			Read  int `json:"cache_read"`
			Write int `json:"cache_creation"`
		} `json:"input_token_details"`
		Out struct {
			Reasoning int `json:"reasoning"`
		} `json:"output_token_details"`
	} `json:"usage_metadata"`
	Meta struct {
		Model    string `json:"model_name"`
		Provider string `json:"model_provider"`
	} `json:"response_metadata"`
	Extra struct {
		Mark json.RawMessage `json:"agentcompact"`
	} `json:"additional_kwargs"`
}

// entry makes the message of a record.
func (r *record) entry(role session.Role, raw json.RawMessage) (wire.Entry, marks.Mark) {
	var b body
	_ = splice.Lenient(json.Unmarshal(r.body(), &b)) // what does not fit is empty
	mark := marks.Parse(b.Extra.Mark)
	m := session.Message{ID: b.ID, Role: role, Source: session.Source{Kind: session.SourceUser}, Origin: &session.Origin{Format: Format, Raw: raw}}
	e := wire.Entry{}
	switch role {
	case session.RoleAssistant:
		m.Source = session.Source{Kind: session.SourceModel, Provider: b.Meta.Provider, Model: b.Meta.Model}
		calls := map[string]bool{}
		for _, c := range b.Calls {
			calls[c.ID] = true
		}
		for _, c := range b.Invalid {
			calls[c.ID] = true
		}
		m.Parts = content(b.Content, calls)
		for _, c := range b.Calls {
			m.Parts = append(m.Parts, session.ToolCall{ID: c.ID, Name: c.Name, Arguments: string(c.Args)})
		}
		for _, c := range b.Invalid {
			args, ok := rawjson.String(c.Args)
			if !ok {
				args = string(c.Args)
			}
			m.Parts = append(m.Parts, session.ToolCall{ID: c.ID, Name: c.Name, Arguments: args, Raw: json.RawMessage(`{"invalid":true}`)})
		}
		if u := b.Usage; u != nil && (u.Input > 0 || u.Output > 0) {
			e.Usage = &session.Usage{Node: session.NoSeq, Prompt: u.Input, Completion: u.Output, CacheRead: u.In.Read, CacheWrite: u.In.Write,
				Reasoning: u.Out.Reasoning, Provider: b.Meta.Provider, Model: b.Meta.Model}
		}
	case session.RoleTool:
		m.Source = session.Source{Kind: session.SourceTool}
		res := session.ToolResult{CallID: b.CallID, Name: b.Name, IsError: b.Status == "error"}
		res.Parts = content(b.Content, nil)
		for i, p := range res.Parts {
			switch p := p.(type) {
			case session.Text, session.Image, session.File, session.Opaque:
			case session.Reasoning:
				res.Parts[i] = session.Opaque{Kind: "reasoning", Raw: p.Raw}
			default:
				res.Parts[i] = session.Text{}
			}
		}
		m.Parts = []session.Part{res}
	default:
		m.Parts = content(b.Content, nil)
	}
	mark.Apply(&m)
	e.Message = m
	return e, mark
}

// content decodes a string or blocks; blocks that repeat a call are left out,
// and other calls and results are opaque.
func content(raw json.RawMessage, calls map[string]bool) []session.Part {
	if s, ok := rawjson.String(raw); ok {
		if s == "" && calls != nil {
			return nil
		}
		return []session.Part{session.Text{Text: s}}
	}
	list, _ := rawjson.Elements(raw)
	var parts []session.Part
	for _, b := range list {
		if s, ok := rawjson.String(b); ok {
			parts = append(parts, session.Text{Text: s})
			continue
		}
		var head struct {
			Type  string          `json:"type"`
			ID    string          `json:"id"`
			Call  string          `json:"call_id"`
			Image json.RawMessage `json:"image_url"`
		}
		_ = splice.Lenient(json.Unmarshal(b, &head)) // what does not fit is empty
		switch head.Type {
		case "tool_use", "tool_call", "function_call":
			if calls[head.ID] || calls[head.Call] {
				continue
			}
			parts = append(parts, session.Opaque{Kind: head.Type, Raw: b})
			continue
		case "tool_result":
			parts = append(parts, session.Opaque{Kind: head.Type, Raw: b})
			continue
		case "image_url":
			url, ok := rawjson.String(head.Image)
			if !ok {
				var o struct {
					URL string `json:"url"`
				}
				_ = json.Unmarshal(head.Image, &o) // what does not fit is empty
				url = o.URL
			}
			parts = append(parts, session.Image{URL: url, Raw: b})
			continue
		}
		one, _ := anthropic.Parts(append(append(json.RawMessage{'['}, b...), ']'))
		parts = append(parts, one...)
	}
	return parts
}

// encode makes the records of a message that is new or changed: one for each
// result.
func encode(p splice.Piece, dict bool) []json.RawMessage {
	m := p.Message
	derived := session.Source{Kind: session.SourceUser}
	class, short := "HumanMessage", "human"
	switch m.Role {
	case session.RoleAssistant:
		class, short, derived.Kind = "AIMessage", "ai", session.SourceModel
	case session.RoleTool:
		class, short, derived.Kind = "ToolMessage", "tool", session.SourceTool
	case session.RoleSystem, session.RoleDeveloper:
		class, short = "SystemMessage", "system"
	}
	var out []json.RawMessage
	record := func(k rawjson.Object) {
		extra := rawjson.Object{}
		if p.Compaction != nil {
			extra.Set("lc_source", "summarization")
		}
		if own := marks.Of(m, p.Compaction, derived); !own.IsZero() {
			extra.Set(marks.Field, own)
		}
		if len(extra) > 0 {
			k.Set("additional_kwargs", extra)
		}
		if m.ID != "" {
			k.Set("id", m.ID)
		}
		k.Set("type", short)
		o := rawjson.Object{}
		if dict {
			o.Set("type", short)
			o.Set("data", k)
		} else {
			o.Set("lc", 1)
			o.Set("type", "constructor")
			o.Set("id", []string{"langchain", "schema", "messages", class})
			o.Set("kwargs", k)
		}
		out = append(out, o.Bytes())
	}
	if m.Role == session.RoleTool {
		var rest []session.Part
		for _, part := range m.Parts {
			r, ok := part.(session.ToolResult)
			if !ok {
				rest = append(rest, part)
				continue
			}
			k := rawjson.Object{}
			k.Set("content", encodeContent(r.Parts))
			k.Set("tool_call_id", r.CallID)
			if r.Name != "" {
				k.Set("name", r.Name)
			}
			k.Set("status", map[bool]string{false: "success", true: "error"}[r.IsError])
			record(k)
		}
		if rest != nil {
			u := session.Message{Role: session.RoleUser, Parts: rest, Source: m.Source}
			out = append(out, encode(splice.Piece{Entry: -1, Group: -1, Message: &u}, dict)...)
		}
		return out
	}
	k := rawjson.Object{}
	k.Set("content", encodeContent(m.Parts))
	calls, invalid := []json.RawMessage{}, []json.RawMessage{}
	for _, part := range m.Parts {
		c, ok := part.(session.ToolCall)
		if !ok {
			continue
		}
		o := rawjson.Object{}
		o.Set("name", c.Name)
		if c.Custom || !json.Valid([]byte(c.Arguments)) || string(c.Raw) == `{"invalid":true}` {
			o.Set("args", c.Arguments)
			o.Set("id", c.ID)
			o.Set("error", nil)
			o.Set("type", "invalid_tool_call")
			invalid = append(invalid, o.Bytes())
			continue
		}
		o.Set("args", json.RawMessage(c.Arguments))
		o.Set("id", c.ID)
		o.Set("type", "tool_call")
		calls = append(calls, o.Bytes())
	}
	if m.Role == session.RoleAssistant {
		k.Set("tool_calls", calls)
		k.Set("invalid_tool_calls", invalid)
	}
	record(k)
	return out
}

func encodeContent(parts []session.Part) json.RawMessage {
	if len(parts) == 1 {
		if t, ok := parts[0].(session.Text); ok {
			return rawjson.Marshal(t.Text)
		}
	}
	list := []json.RawMessage{}
	for _, p := range parts {
		switch q := p.(type) {
		case session.ToolCall, session.ToolResult:
			continue
		case session.Image:
			if q.Raw != nil {
				list = append(list, q.Raw)
				continue
			}
		}
		if raw := anthropic.Block(p); raw != nil {
			list = append(list, raw)
		}
	}
	return rawjson.Marshal(list)
}
