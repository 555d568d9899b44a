// Package openairesponses reads and writes conversations as items of the OpenAI
// Responses API, builds requests of that shape from a session, and checks
// requests.
//
// # Reading
//
// The codec knows a request body with input (a list or a text), the bare array
// of items, a list of conversation items ("data"), a response ("output"), and
// the run state of the Agents SDK (schema 1.0 to 1.13). Items are siblings: what
// lies between two outputs or user messages is one message of the model, each
// output is a message of a tool. Instructions and leading system and developer
// messages are in the envelope. Calls of hosted tools and items of a type that
// is not known here are opaque parts. A pending approval of a run state repeats
// its call and is no message.
//
// # Writing
//
// Items that stay keep their bytes, as does everything around them. A checkpoint
// is a user message in place of the items that it replaces; the log beside the
// file says that it is one. In a run state what is new becomes part of
// original_input, and generated items that are still the end of the
// conversation stay where they are.
//
// # Lost
//
// Nothing in items that stay. A message that changed loses ids and status of its
// items and annotations of its text. Two messages of the model with nothing
// between them are read as one.
package openairesponses

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format.
const Format = "openai-responses"

// Provider is the provider name of messages that were read from this format.
const Provider = "openai"

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Codec = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

// The containers, as they are named for people.
const (
	requestBody = "request body"
	itemArray   = "array of items"
	itemList    = "list of conversation items"
	response    = "response"
	requestLog  = "request log"
	runState    = "Agents SDK run state"
)

const expected = `Responses items: a request body with "input", a run state, or the array of items`

// layout says where the items are.
type layout struct {
	container string
	body      splice.Span
	input     splice.Span // a list or a text; may be absent
	generated splice.Span // of a run state
}

func layoutOf(b []byte, doc splice.Span) (layout, bool) {
	if doc.Kind(b) == '[' {
		return layout{container: itemArray, input: doc}, true
	}
	top := splice.Top(b, doc)
	isInput := func(v splice.Span) bool { return v.Kind(b) == '[' || v.Kind(b) == '"' }
	switch {
	case top["generated_items"].Kind(b) == '[' && isInput(top["original_input"]):
		return layout{container: runState, input: top["original_input"], generated: top["generated_items"]}, true
	case isInput(top["input"]):
		return layout{container: requestBody, body: doc, input: top["input"]}, true
	case top["output"].Kind(b) == '[' && splice.Text(b, top["object"]) == "response":
		return layout{container: response, input: top["output"]}, true
	case top["data"].Kind(b) == '[' && splice.Text(b, top["object"]) == "list":
		return layout{container: itemList, input: top["data"]}, true
	case top["request"].Kind(b) == '{':
		if in := splice.Get(b, top["request"], "input"); isInput(in) {
			return layout{container: requestLog, body: top["request"], input: in}, true
		}
	}
	return layout{}, false
}

// Detect implements [wire.Codec].
func (Codec) Detect(head []byte, whole bool) wire.Confidence {
	doc := splice.At(head, splice.Begin(head))
	if whole && splice.Space(head, doc.End) < len(head) {
		return wire.No
	}
	l, ok := layoutOf(head, doc)
	if !ok {
		// The head of a run state, whose items come later.
		if top := splice.Top(head, doc); !whole && !top["$schemaVersion"].IsZero() && !top["context"].IsZero() {
			return wire.Maybe
		}
		return wire.No
	}
	if l.container == runState {
		return wire.Certain
	}
	if l.input.Kind(head) == '"' {
		if !splice.Get(head, l.body, "instructions").IsZero() || !splice.Get(head, l.body, "previous_response_id").IsZero() {
			return wire.Likely
		}
		return wire.No
	}
	seen, n, foreign := wire.No, 0, false
	splice.Elements(head, l.input, func(e splice.Span) bool {
		n++
		m := splice.Top(head, e)
		kind, role := splice.Text(head, m["type"]), splice.Text(head, m["role"])
		switch {
		case e.Kind(head) != '{' && e.Whole, !m["parts"].IsZero(), !m["tool_calls"].IsZero(), role == "tool":
			foreign = true
		case isItem(kind):
			seen = wire.Certain
		case kind == responses.TypeMessage && role != "":
			seen = max(seen, wire.Likely)
		case kind == "" && role != "" && l.container != itemArray:
			seen = max(seen, wire.Likely)
		}
		splice.Elements(head, m["content"], func(p splice.Span) bool {
			switch splice.Text(head, splice.Get(head, p, "type")) {
			case "input_text", "output_text", "input_image", "input_file":
				seen = max(seen, wire.Likely)
			case "tool_use", "tool_result", "thinking":
				foreign = true
			}
			return !foreign
		})
		return !foreign && n < 200
	})
	if foreign {
		return wire.No
	}
	return seen
}

// isItem knows the item types that no other format has.
func isItem(kind string) bool {
	switch kind {
	case "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning", "item_reference",
		"local_shell_call", "local_shell_call_output", "web_search_call", "file_search_call", "code_interpreter_call",
		"image_generation_call", "computer_call", "computer_call_output", "mcp_call", "mcp_list_tools", "mcp_approval_request",
		"shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output", "compaction":
		return true
	}
	return false
}

// Read implements [wire.Codec].
func (Codec) Read(ctx context.Context, data []byte) (*wire.File, error) {
	doc, err := splice.Document(Format, data, expected)
	if err != nil {
		return nil, err
	}
	l, ok := layoutOf(data, doc)
	if !ok {
		return nil, &wire.Error{Format: Format, Offset: int64(doc.Start), Detail: "no list of items found; expected " + expected}
	}
	f := &file{data: data, layout: l, conv: &wire.Conversation{}}
	if err := f.read(ctx); err != nil {
		return nil, err
	}
	return &wire.File{Format: Format, Container: l.container, Conversations: []*wire.Conversation{f.conv}, Writer: &writer{f}}, nil
}

// file is a document with its items.
type file struct {
	data   []byte
	layout layout
	conv   *wire.Conversation
	// items are all items in order: those of the input, then those that a run
	// state generated. An approval has an item without parts.
	items  []responses.Item
	inputs int // how many are of the input
	splice *splice.Conversation
	// generated are the elements of a run state, as many as items after inputs.
	generated splice.List
}

func (f *file) read(ctx context.Context) error {
	in := f.layout.input
	f.splice = &splice.Conversation{}
	if in.Kind(f.data) == '"' {
		text := rawjson.Object{}
		text.Set("role", "user")
		text.Set("content", in.Of(f.data))
		it, _ := responses.Decode(text.Bytes())
		f.items = append(f.items, it)
		f.splice.List = splice.List{Start: in.Start, End: in.End, Records: []splice.Span{in}}
	} else {
		f.splice.List = splice.ListOf(f.data, in)
		for i, s := range f.splice.List.Records {
			if i%512 == 0 && ctx.Err() != nil {
				return &wire.Error{Format: Format, Detail: "reading was stopped", Err: context.Cause(ctx)}
			}
			if err := f.add(s, s.Of(f.data), fmt.Sprintf("input[%d]", i)); err != nil {
				return err
			}
		}
	}
	f.inputs = len(f.items)
	if !f.layout.generated.IsZero() {
		f.generated = splice.ListOf(f.data, f.layout.generated)
		for i, s := range f.generated.Records {
			var g struct {
				Type string          `json:"type"`
				Raw  json.RawMessage `json:"raw_item"`
			}
			_ = json.Unmarshal(s.Of(f.data), &g) // what does not fit is no item
			if g.Type == "tool_approval_item" || g.Raw == nil {
				f.items = append(f.items, responses.Item{})
				continue
			}
			if err := f.add(s, g.Raw, fmt.Sprintf("generated_items[%d].raw_item", i)); err != nil {
				return err
			}
		}
	}
	f.envelope()
	f.build()
	if len(f.conv.Entries) == 0 && len(f.conv.Envelope.System) == 0 {
		return &wire.Error{Format: Format, Offset: int64(in.Start), Detail: "the list has no items; expected messages, calls and outputs"}
	}
	return nil
}

func (f *file) add(at splice.Span, raw json.RawMessage, where string) error {
	it, ok := responses.Decode(raw)
	if !ok {
		return &wire.Error{Format: Format, Offset: int64(at.Start),
			Detail: where + ": it is " + splice.TypeName(raw) + " without a type; expected an item"}
	}
	f.items = append(f.items, it)
	return nil
}

// build makes messages of the items.
func (f *file) build() {
	c := f.conv
	lead := 0
	for lead < f.inputs && (f.items[lead].Role == session.RoleSystem || f.items[lead].Role == session.RoleDeveloper) {
		it := f.items[lead]
		c.Envelope.System = append(c.Envelope.System, session.Message{ID: it.ID, Role: it.Role, Parts: it.Parts,
			Source: session.Source{Kind: session.SourceUser}, Origin: &session.Origin{Format: Format, Raw: it.Raw}})
		lead++
	}
	var b responses.Builder
	for n := lead; n < len(f.items); n++ {
		if it := f.items[n]; it.Type != "" {
			b.Add(it, n)
		}
	}
	for _, g := range b.Messages {
		m := g.Message
		if m.Source.Kind == session.SourceModel {
			m.Source.Provider, m.Source.Model = Provider, c.Envelope.Model
		}
		from, to := g.Items[0], g.Items[len(g.Items)-1]+1
		if to-from == 1 {
			m.Origin = &session.Origin{Format: Format, Raw: f.items[from].Raw}
		}
		f.splice.Groups = append(f.splice.Groups, splice.Group{From: from, To: to, Entry: len(c.Entries), Count: 1})
		c.Entries = append(c.Entries, wire.Entry{Message: m})
	}
	f.splice.Entries = c.Entries
	f.splice.Encode = f.encode
}

// encode makes items of messages that are new or changed.
func (f *file) encode(pieces []splice.Piece) ([]json.RawMessage, error) {
	custom := map[string]bool{}
	learn := func(m *session.Message) {
		for _, p := range m.Parts {
			if c, ok := p.(session.ToolCall); ok {
				custom[c.ID] = c.Custom
			}
		}
	}
	for i := range f.conv.Entries {
		learn(&f.conv.Entries[i].Message)
	}
	var out []json.RawMessage
	for _, p := range pieces {
		learn(p.Message)
		list := responses.Encode(p.Message, func(id string) bool { return custom[id] })
		if len(list) == 0 {
			return nil, &wire.Error{Format: Format, Detail: "a message has nothing that the format can hold; drop it or give it a text"}
		}
		for _, raw := range list {
			if p.Message.Origin == nil { // made here; what was read keeps its fields
				raw = accepted(raw)
			}
			out = append(out, raw)
		}
	}
	return out, nil
}

// envelope takes in what stands beside the items.
func (f *file) envelope() {
	e := &f.conv.Envelope
	e.Provider = Provider
	splice.Members(f.data, f.layout.body, func(key string, v splice.Span) bool {
		raw := v.Of(f.data)
		switch key {
		case "input":
		case "model":
			e.Model = splice.Text(f.data, v)
		case "instructions":
			if s := splice.Text(f.data, v); s != "" {
				e.System = append(e.System, session.Message{Role: session.RoleSystem, Parts: []session.Part{session.Text{Text: s}},
					Source: session.Source{Kind: session.SourceUser}, Origin: &session.Origin{Format: Format, Raw: raw}})
			}
		case "tools":
			list, _ := rawjson.Elements(raw)
			for _, t := range list {
				var j struct {
					Name        string          `json:"name"`
					Description string          `json:"description"`
					Parameters  json.RawMessage `json:"parameters"`
				}
				_ = json.Unmarshal(t, &j) // what does not fit stays in Raw
				e.Tools = append(e.Tools, session.Tool{Name: j.Name, Description: j.Description, Schema: j.Parameters, Raw: t})
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

type writer struct{ f *file }

// Write implements [wire.Writer].
func (w *writer) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	f := w.f
	if conversation != 0 {
		return &wire.Error{Format: Format, Detail: fmt.Sprintf("there is no conversation %d; the file has one", conversation)}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	same := items == nil || splice.Unchanged(len(f.conv.Entries), items)
	if f.layout.container != runState && (same || f.layout.input.Kind(f.data) == '[') {
		return (&splice.Writer{Format: Format, Data: f.data, Lists: []*splice.Conversation{f.splice}}).Write(ctx, out, 0, items)
	}
	data := f.data
	if !same {
		// Plan over the items of both lists.
		all := *f.splice
		all.List.Records = make([]splice.Span, len(f.items))
		plan, err := splice.Plan(Format, &all, items)
		if err != nil {
			return err
		}
		data = f.rewrite(plan)
	}
	if _, err := out.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", Format, err)
	}
	return nil
}

// rewrite makes the document of a plan over all items: generated items that are
// still its end stay, everything else is input.
func (f *file) rewrite(plan []splice.Out) []byte {
	from, next := len(plan), len(f.items)
	for from > 0 && plan[from-1].Record == next-1 && next > f.inputs {
		from, next = from-1, next-1
	}
	input := []byte{'['}
	for i, o := range plan[:from] {
		raw := o.Raw
		if o.Record >= 0 {
			raw = f.items[o.Record].Raw
		}
		if raw == nil {
			continue // an approval whose call is input now
		}
		if i > 0 && len(input) > 1 {
			input = append(input, ',')
		}
		input = append(input, raw...)
	}
	input = append(input, ']')
	var b bytes.Buffer
	in, gen := f.layout.input, f.layout.generated
	emit := func(from, to int) { b.Write(f.data[from:to]) }
	writeGenerated := func() {
		b.WriteByte('[')
		for i, r := range f.generated.Records[next-f.inputs:] {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(r.Of(f.data))
		}
		b.WriteByte(']')
	}
	switch {
	case gen.IsZero():
		emit(0, in.Start)
		b.Write(input)
		emit(in.End, len(f.data))
	case in.Start < gen.Start:
		emit(0, in.Start)
		b.Write(input)
		emit(in.End, gen.Start)
		writeGenerated()
		emit(gen.End, len(f.data))
	default:
		emit(0, gen.Start)
		writeGenerated()
		emit(gen.End, in.Start)
		b.Write(input)
		emit(in.End, len(f.data))
	}
	return b.Bytes()
}
