package gemini

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Contents is the codec of contents of the API. The zero value is ready.
type Contents struct{}

var _ wire.Codec = Contents{}

// Name implements [wire.Codec].
func (Contents) Name() string { return Format }

// The containers, as they are named for people.
const (
	requestBody = "request body"
	bareArray   = "contents array"
	evalHistory = "compression evaluation"
	requestLog  = "request log"
)

const expectedContents = `contents with parts: a request body with "contents", an object with "history", or their array`

func layoutOf(b []byte, doc splice.Span) (container string, body, list splice.Span) {
	if doc.Kind(b) == '[' {
		return bareArray, splice.Span{}, doc
	}
	top := splice.Top(b, doc)
	if l := top["contents"]; l.Kind(b) == '[' {
		return requestBody, doc, l
	}
	if l := top["history"]; l.Kind(b) == '[' {
		return evalHistory, splice.Span{}, l
	}
	if req := top["request"]; req.Kind(b) == '{' {
		if l := splice.Get(b, req, "contents"); l.Kind(b) == '[' {
			return requestLog, req, l
		}
	}
	return "", splice.Span{}, splice.Span{}
}

// single reports whether the file holds one value; a head may end in it.
func single(head []byte, doc splice.Span, whole bool) bool {
	return splice.Space(head, doc.End) >= len(head) && (doc.Whole || !whole || doc.End >= len(head))
}

// Detect implements [wire.Codec].
func (Contents) Detect(head []byte, whole bool) wire.Confidence {
	doc := splice.At(head, splice.Begin(head))
	if !single(head, doc, whole) {
		return wire.No
	}
	_, _, list := layoutOf(head, doc)
	seen, n := wire.No, 0
	splice.Elements(head, list, func(e splice.Span) bool {
		n++
		m := splice.Top(head, e)
		role, parts := splice.Text(head, m["role"]), m["parts"]
		switch {
		case e.Kind(head) != '{' && e.Whole, !parts.IsZero() && parts.Kind(head) != '[', role != "" && !known(role), !m["type"].IsZero():
			seen = wire.No
			return false
		case parts.IsZero():
			return seen != wire.No || !e.Whole
		}
		seen = wire.Likely
		splice.Elements(head, parts, func(p splice.Span) bool {
			if p.Kind(head) == '{' {
				seen = wire.Certain
			}
			return false
		})
		return n < 50
	})
	return seen
}

func known(role string) bool {
	switch role {
	case "user", "model", "function", "gemini", "tool":
		return true
	}
	return false
}

// Read implements [wire.Codec].
func (Contents) Read(ctx context.Context, data []byte) (*wire.File, error) {
	doc, err := splice.Document(Format, data, expectedContents)
	if err != nil {
		return nil, err
	}
	container, body, list := layoutOf(data, doc)
	if container == "" {
		return nil, &wire.Error{Format: Format, Offset: int64(doc.Start), Detail: "no list of contents found; expected " + expectedContents}
	}
	conv := &wire.Conversation{}
	c := &splice.Conversation{List: splice.ListOf(data, list)}
	envelope(&conv.Envelope, data, body)
	var list2 []content
	for i, r := range c.List.Records {
		if i%512 == 0 && ctx.Err() != nil {
			return nil, &wire.Error{Format: Format, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		d, detail := decode(r.Of(data))
		if detail != "" {
			return nil, &wire.Error{Format: Format, Offset: int64(r.Start), Detail: fmt.Sprintf("contents[%d]: %s", i, detail)}
		}
		list2 = append(list2, d)
	}
	pair(list2)
	for i, d := range list2 {
		msgs := d.messages(c.List.Records[i].Of(data))
		c.Groups = append(c.Groups, splice.Group{From: i, To: i + 1, Entry: len(conv.Entries), Count: len(msgs)})
		for _, m := range msgs {
			conv.Entries = append(conv.Entries, wire.Entry{Message: m})
		}
	}
	if len(conv.Entries) == 0 {
		return nil, &wire.Error{Format: Format, Offset: int64(list.Start), Detail: "the list has no contents; expected objects with role and parts"}
	}
	c.Entries = conv.Entries
	c.Encode = func(pieces []splice.Piece) ([]json.RawMessage, error) {
		if err := splice.NoNotes(Format, pieces); err != nil {
			return nil, err
		}
		return encodeContents(data, c, pieces), nil
	}
	return &wire.File{Format: Format, Container: container, Conversations: []*wire.Conversation{conv},
		Writer: &splice.Writer{Format: Format, Data: data, Lists: []*splice.Conversation{c}}}, nil
}

// content is a decoded element.
type content struct {
	model bool
	parts []session.Part
}

func decode(raw json.RawMessage) (content, string) {
	var j struct {
		Role  string          `json:"role"`
		Parts json.RawMessage `json:"parts"`
	}
	if rawjson.Kind(raw) != '{' {
		return content{}, "it is " + splice.TypeName(raw) + "; expected an object with role and parts"
	}
	if err := json.Unmarshal(raw, &j); !splice.Lenient(err) {
		return content{}, "it cannot be read: " + err.Error()
	}
	if j.Role != "" && !known(j.Role) {
		return content{}, fmt.Sprintf("unknown role %q; expected user or model", splice.Clip(j.Role, 40))
	}
	c := content{model: j.Role == "model" || j.Role == "gemini"}
	if k := rawjson.Kind(j.Parts); k != 0 && k != 'n' {
		if k != '[' {
			return c, "parts is " + splice.TypeName(j.Parts) + "; expected a list"
		}
		c.parts, _ = gemini.Parts(j.Parts)
		list, _ := rawjson.Elements(j.Parts)
		for i, p := range c.parts {
			_, call := p.(session.ToolCall)
			_, result := p.(session.ToolResult)
			switch { // only the model calls, and never answers itself
			case call && !c.model:
				c.parts[i] = session.Opaque{Kind: "functionCall", Raw: list[i]}
			case result && c.model:
				c.parts[i] = session.Opaque{Kind: "functionResponse", Raw: list[i]}
			}
		}
	}
	return c, ""
}

// pair gives calls and results ids; the results of a content of the model stand
// in the user contents before the next one.
func pair(list []content) {
	var none []session.Part
	from := 0
	model := none
	for i := 0; i <= len(list); i++ {
		if i < len(list) && !list[i].model {
			continue
		}
		var results [][]session.Part
		for _, c := range list[from:i] {
			results = append(results, c.parts)
		}
		gemini.Pair(model, results)
		if i < len(list) {
			model, from = list[i].parts, i+1
		}
	}
}

// messages makes the one or two messages of a content.
func (c content) messages(raw json.RawMessage) []session.Message {
	origin := &session.Origin{Format: Format, Raw: raw}
	if c.model {
		return []session.Message{{Role: session.RoleAssistant, Parts: c.parts, Origin: origin,
			Source: session.Source{Kind: session.SourceModel, Provider: gemini.Provider}}}
	}
	var msgs []session.Message
	results, rest := gemini.Split(c.parts)
	if len(results) > 0 {
		msgs = append(msgs, session.Message{Role: session.RoleTool, Parts: results, Source: session.Source{Kind: session.SourceTool}})
	}
	if len(rest) > 0 || len(results) == 0 {
		msgs = append(msgs, session.Message{Role: session.RoleUser, Parts: rest, Source: session.Source{Kind: session.SourceUser}})
	}
	if len(msgs) == 1 {
		msgs[0].Origin = origin
	}
	return msgs
}

// envelope takes in what stands beside the contents.
func envelope(e *session.Envelope, data []byte, body splice.Span) {
	e.Provider = gemini.Provider
	splice.Members(data, body, func(key string, v splice.Span) bool {
		raw := v.Of(data)
		switch key {
		case "contents":
		case "model":
			e.Model = splice.Text(data, v)
		case "systemInstruction", "system_instruction":
			var j struct {
				Parts json.RawMessage `json:"parts"`
			}
			_ = json.Unmarshal(raw, &j) // what does not fit is empty
			parts, _ := gemini.Parts(j.Parts)
			if s, ok := rawjson.String(raw); ok {
				parts = []session.Part{session.Text{Text: s}}
			}
			list, _ := rawjson.Elements(j.Parts)
			for i, p := range parts {
				switch p.(type) {
				case session.ToolCall, session.ToolResult:
					parts[i] = session.Opaque{Kind: "invalid", Raw: j.Parts}
					if i < len(list) {
						parts[i] = session.Opaque{Kind: "invalid", Raw: list[i]}
					}
				}
			}
			if len(parts) > 0 {
				e.System = []session.Message{{Role: session.RoleSystem, Parts: parts, Source: session.Source{Kind: session.SourceUser},
					Origin: &session.Origin{Format: Format, Raw: raw}}}
			}
		case "tools":
			e.Tools = tools(raw)
			if e.Tools == nil {
				set(e, key, raw)
			}
		default:
			set(e, key, raw)
		}
		return true
	})
}

func set(e *session.Envelope, key string, raw json.RawMessage) {
	if e.Extra == nil {
		e.Extra = map[string]json.RawMessage{}
	}
	e.Extra[key] = raw
}

// tools reads function declarations; other tools, such as search, keep their
// own form and have no name.
func tools(raw json.RawMessage) []session.Tool {
	var out []session.Tool
	list, _ := rawjson.Elements(raw)
	for _, group := range list {
		var g struct {
			Functions []json.RawMessage `json:"functionDeclarations"`
		}
		_ = json.Unmarshal(group, &g) // what does not fit has no functions
		if g.Functions == nil {
			out = append(out, session.Tool{Raw: group})
		}
		for _, fn := range g.Functions {
			var f struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
				Schema      json.RawMessage `json:"parametersJsonSchema"`
			}
			_ = json.Unmarshal(fn, &f) // what does not fit stays in Raw
			if f.Schema == nil {
				f.Schema = f.Parameters
			}
			out = append(out, session.Tool{Name: f.Name, Description: f.Description, Schema: f.Schema, Raw: fn})
		}
	}
	return out
}

// encodeContents makes contents of messages that are new or changed. The parts
// of one record that are still neighbors are one record again.
func encodeContents(data []byte, c *splice.Conversation, pieces []splice.Piece) []json.RawMessage {
	var out []json.RawMessage
	for i := 0; i < len(pieces); i++ {
		p := pieces[i]
		parts := rawParts(data, c, p)
		if i+1 < len(pieces) && p.Group >= 0 && pieces[i+1].Group == p.Group && pieces[i+1].Entry == p.Entry+1 {
			parts = append(parts, rawParts(data, c, pieces[i+1])...)
			i++
		}
		o := rawjson.Object{}
		if p.Group >= 0 && role(c.Entries[p.Entry].Message.Role) == role(p.Message.Role) {
			o, _ = rawjson.Parse(c.List.Records[c.Groups[p.Group].From].Of(data)) // it was read
		} else {
			o.Set("role", role(p.Message.Role))
		}
		o.Set("parts", parts)
		out = append(out, o.Bytes())
	}
	return out
}

func role(r session.Role) string {
	if r == session.RoleAssistant {
		return "model"
	}
	return "user"
}

// rawParts returns the parts of a piece: those of its record when it did not
// change.
func rawParts(data []byte, c *splice.Conversation, p splice.Piece) []json.RawMessage {
	out := []json.RawMessage{}
	if p.Changed || p.Group < 0 {
		for _, part := range p.Message.Parts {
			if raw := gemini.Encode(part); raw != nil {
				out = append(out, raw)
			}
		}
		return out
	}
	o, _ := rawjson.Parse(c.List.Records[c.Groups[p.Group].From].Of(data))
	list, _ := rawjson.Elements(o.Get("parts"))
	for _, raw := range list {
		_, result := gemini.Part(raw).(session.ToolResult)
		if p.Message.Role == session.RoleAssistant || result == (p.Message.Role == session.RoleTool) {
			out = append(out, raw)
		}
	}
	return out
}
