package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// RequestOptions are the optional settings of a request. Nil means defaults.
type RequestOptions struct {
	// Model goes into the request in place of the envelope's.
	Model string
	// ModelCall says that the request is about to be sent: when it would end
	// with an assistant message, a marked user message closes it.
	ModelCall bool
	// StrictAlternation merges neighbors of one role, for targets that want
	// user and assistant in turns.
	StrictAlternation bool
	// MaxBytes bounds the body; 0 is no bound. Inline attachments give way to a
	// marker, oldest first, until the body fits; the newest goes last.
	MaxBytes int
	// MaxNote bounds the bytes quoted of a result that has no call; 0 means
	// 2000. Its middle is left out.
	MaxNote int
}

const defaultNote = 2000

// Request is a request that a provider takes, as [ValidateWith] checks.
type Request struct {
	// Messages are the messages of the body, in order.
	Messages []json.RawMessage
	// Report says where they differ from the surface.
	Report Report
	body   []byte
}

// Body returns the JSON body. It is shared and must not be modified.
func (r *Request) Body() []byte { return r.body }

// Report says what a request has that the surface has not, and the reverse.
// Positions are those on the surface, or of the list that the request was built
// from.
type Report struct {
	// Synthetic are the made-up results, one for each call without one.
	Synthetic []Synthetic
	// Renamed are the calls whose id is another one on the wire, with their
	// results.
	Renamed []Renamed
	// Quoted are results without a call, which became user notes.
	Quoted []Quoted
	// Notes are the system and developer messages in mid-conversation, which
	// became user notes.
	Notes []int
	// Moved are results that stand further forward than on the surface: what
	// stood between them and their calls comes after them.
	Moved []int
	// Dropped are messages without any content, and those of which nothing
	// was left that a chat can hold.
	Dropped []int
	// LeftOut are the attachments that gave way to MaxBytes.
	LeftOut []LeftOut
	// Unsent are parts that a chat request cannot hold: items and reasoning of
	// other providers.
	Unsent []Unsent
	// Opened: a marked user message stands before the first one. Closed: one
	// stands at the end.
	Opened, Closed bool
	// Merged counts the messages that became part of their predecessor.
	Merged int
	// Repaired counts the messages in which bytes that are no UTF-8 were
	// replaced.
	Repaired int
	// Tools are the tools with another name on the wire, in calls of them too,
	// and those that are not offered because another one has their name.
	Tools []string
	// OverBytes is how much the body is above MaxBytes although no attachment
	// is left.
	OverBytes int
}

// Synthetic is a made-up result.
type Synthetic struct {
	Position int
	// CallID is the id on the surface, WireID that in the request.
	CallID, WireID string
	// Running: the host says that the result may still come.
	Running bool
}

// Renamed is a call with another id on the wire.
type Renamed struct {
	Position, Index int
	From, To        string
}

// Quoted is a result that became a note.
type Quoted struct {
	Position int
	CallID   string
	// Kind says what is wrong with it.
	Kind toolpairing.Kind
	// Omitted are the bytes beyond the cap.
	Omitted int
}

// LeftOut is an attachment that is not in the request.
type LeftOut struct {
	Position int
	// Kind is the type of the part ("image_url"), Bytes the size of its JSON.
	Kind  string
	Bytes int
}

// Unsent is a part that is not in the request.
type Unsent struct {
	Position int
	// Kind is "reasoning", the kind of an opaque part, or "tool".
	Kind string
}

// BuildRequest builds the request of the surface: valid whatever the surface
// is, the same bytes for the same view. Messages that were read from this
// format go out as they were, without the fields that only their container
// knows. A longer surface makes the same messages first, unless a later result
// belongs to one of them, the host's word on a running call changes, or
// ModelCall, StrictAlternation or MaxBytes touches them; an id that was given
// on the wire stays. The error
// says which message could not be read from the store.
func BuildRequest(v session.View, opts *RequestOptions) (*Request, error) {
	return build(v, 0, opts)
}

// RequestFrom builds the request of a plain list of messages, as [BuildRequest]
// does of a surface. Leading system and developer messages join those of the
// envelope, which may be nil. The error wraps [session.ErrInvalidMessage].
func RequestFrom(e *session.Envelope, messages []*session.Message, opts *RequestOptions) (*Request, error) {
	ctx := context.Background()
	s, err := session.Open(ctx, session.NewMemoryStore(), nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	env := session.Envelope{}
	if e != nil {
		env = *e
	}
	env.System = slices.Clone(env.System)
	lead := 0
	for lead < len(messages) && leading(messages[lead]) {
		env.System = append(env.System, *messages[lead])
		lead++
	}
	bodies := []session.Body{session.SetEnvelope{Envelope: env}}
	for i, m := range messages[lead:] {
		if err := m.Validate(); err != nil {
			return nil, fmt.Errorf("message %d: %w", lead+i, err)
		}
		bodies = append(bodies, session.Append{Message: *m})
	}
	if _, err := s.Record(ctx, bodies...); err != nil {
		return nil, err
	}
	return build(s.View(), lead, opts)
}

// leading reports whether a message belongs to the system messages when it
// stands first. A checkpoint never does.
func leading(m *session.Message) bool {
	return (m.Role == session.RoleSystem || m.Role == session.RoleDeveloper) && !compact.IsCheckpointSource(m.Source)
}

// build makes the request; base is added to all positions of the report.
func build(v session.View, base int, opts *RequestOptions) (*Request, error) {
	a := &assembler{v: v, base: base, pairs: toolpairing.Of(v), ids: make(map[string]int)}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.MaxNote <= 0 {
		a.opts.MaxNote = defaultNote
	}
	var err error
	if a.messages, err = v.Messages(); err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	env, _ := v.Envelope()
	if env == nil {
		env = new(session.Envelope)
	}
	a.run(env)
	r := &Request{}
	head, tail := a.frame(env)
	r.body = a.render(r, head, tail)
	r.Report = a.report
	return r, nil
}

// frame makes the fields before and after the messages.
func (a *assembler) frame(env *session.Envelope) (head, tail object) {
	model := env.Model
	if a.opts.Model != "" {
		model = a.opts.Model
	}
	if model != "" {
		head = append(head, member{"model", quote(model)})
	}
	var list []json.RawMessage
	used := map[string]bool{}
	for _, t := range env.Tools {
		name := t.Name
		if name != "" {
			if name = toolNames.Name(name); name != t.Name {
				a.report.Tools = append(a.report.Tools, t.Name)
			}
			if !turns.Unique(used, name) {
				a.report.Tools = append(a.report.Tools, t.Name)
				continue
			}
		}
		if raw := a.tool(t, name); raw != nil {
			list = append(list, raw)
		}
	}
	if list != nil {
		tail = append(tail, member{"tools", array(list)})
	}
	for _, k := range slices.Sorted(maps.Keys(env.Extra)) {
		v := env.Extra[k]
		switch k {
		case "model", "messages", "tools", "system", "input", "contents":
			continue
		case "tool_choice", "parallel_tool_calls":
			if list == nil {
				continue
			}
		}
		if json.Valid(v) {
			tail = append(tail, member{k, v})
		}
	}
	return head, tail
}

// tool makes the definition of a tool with its name on the wire.
func (a *assembler) tool(t session.Tool, name string) json.RawMessage {
	if name == t.Name && hasType(t.Raw, "function", "custom") {
		if o, _ := parseObject(t.Raw); o.get("function") != nil || o.get("custom") != nil {
			return t.Raw
		}
	}
	if t.Name == "" {
		a.report.Unsent = append(a.report.Unsent, Unsent{-1, "tool"})
		return nil
	}
	f := object{{"name", quote(name)}}
	if t.Description != "" {
		f = append(f, member{"description", quote(t.Description)})
	}
	if len(t.Schema) > 0 && json.Valid(t.Schema) {
		f = append(f, member{"parameters", t.Schema})
	}
	return object{{"type", quote("function")}, {"function", f.json()}}.json()
}

// render makes the body, within MaxBytes as far as attachments can give way.
func (a *assembler) render(r *Request, head, tail object) []byte {
	const open, end = `"messages":[`, `]`
	before, after := fields(head), fields(tail)
	size := len("{}") + len(open) + len(end)
	for _, f := range slices.Concat(before, after) {
		size += len(f) + len(",")
	}
	for i := range a.items {
		raw, repaired := repair(a.items[i].o.json())
		if repaired {
			a.report.Repaired++
		}
		r.Messages = append(r.Messages, raw)
		size += len(raw) + len(",")
	}
	size -= len(",")
	if a.opts.MaxBytes > 0 && size > a.opts.MaxBytes {
		size = a.shrink(r.Messages, size)
		a.report.OverBytes = max(0, size-a.opts.MaxBytes)
	}
	messages := slices.Concat([]byte(open), bytes.Join(rawBytes(r.Messages), []byte(",")), []byte(end))
	all := slices.Concat(before, [][]byte{messages}, after)
	return slices.Concat([]byte("{"), bytes.Join(all, []byte(",")), []byte("}"))
}

// fields encodes the members of an object one by one.
func fields(o object) [][]byte {
	var out [][]byte
	for _, m := range o {
		f, _ := repair(appendCompact(append(quote(m.key), ':'), m.val))
		out = append(out, f)
	}
	return out
}

func rawBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, raw := range list {
		out[i] = raw
	}
	return out
}
