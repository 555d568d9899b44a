// Package kimi reads and writes the wire log of Kimi Code: JSONL, one record a
// line. It follows protocol 1.4.
//
// # Reading
//
// The conversation is what the records make of the context: messages that were
// appended, steps of the model with their calls and results, less turns that
// were undone and contexts that were cleared. A compaction leaves its summary
// and, in newer files, the user messages that it says it kept, in front of it:
// the newest ones, and the oldest ones it counts as kept at the head; older
// files keep everything behind the messages that it counts. Messages that the
// client injected have source plugin "kimi".
//
// # Writing
//
// The file only grows. A checkpoint at the beginning of the surface is
// full_compaction.begin, context.apply_compaction with the number of messages
// that it replaces, full_compaction.complete; what stays unchanged behind it is
// kept by that number. Any other change is a context.clear followed by the
// messages of the surface. What the format has no field for stands in a field
// "agentcompact" of the record, which the agent passes over.
//
// # Lost
//
// Tools are not in the file. Messages that are written anew lose what the
// interface showed of their calls, and report no usage.
package kimi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format, and the plugin name in the source of
// messages that the client wrote.
const Format = "kimi"

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Codec = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

const (
	typeMessage = "context.append_message"
	typeLoop    = "context.append_loop_event"
	typeApply   = "context.apply_compaction"
	typeClear   = "context.clear"
	typeUndo    = "context.undo"
	typeConfig  = "config.update"
	typeBegin   = "full_compaction.begin"
	typeEnd     = "full_compaction.complete"
)

type record struct {
	Type     string          `json:"type"`
	Protocol string          `json:"protocol_version"`
	Time     int64           `json:"time"`
	Message  *message        `json:"message"`
	Event    json.RawMessage `json:"event"`
	System   *string         `json:"systemPrompt"`
	Model    string          `json:"modelAlias"`
	Summary  json.RawMessage `json:"summary"`
	Context  json.RawMessage `json:"contextSummary"`
	Count    int             `json:"compactedCount"`
	Undo     int             `json:"count"`
	Before   int             `json:"tokensBefore"`
	Kept     *int            `json:"keptUserMessageCount"`
	KeptHead int             `json:"keptHeadUserMessageCount"`
	Source   string          `json:"source"`
	Mark     json.RawMessage `json:"agentcompact"`

	raw  json.RawMessage
	line int
	mark marks.Mark
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Calls   []struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Function  struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"toolCalls"`
	CallID  string `json:"toolCallId"`
	IsError bool   `json:"isError"`
	Origin  struct {
		Kind    string `json:"kind"`
		Variant string `json:"variant"`
	} `json:"origin"`
}

type loopEvent struct {
	Type   string          `json:"type"`
	UUID   string          `json:"uuid"`
	Step   string          `json:"stepUuid"`
	Part   json.RawMessage `json:"part"`
	CallID string          `json:"toolCallId"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Result *struct {
		Output  json.RawMessage `json:"output"`
		IsError bool            `json:"isError"`
	} `json:"result"`
	Usage *struct {
		Other  int `json:"inputOther"`
		Output int `json:"output"`
		Read   int `json:"inputCacheRead"`
		Write  int `json:"inputCacheCreation"`
	} `json:"usage"`
}

// Detect implements [wire.Codec].
func (Codec) Detect(head []byte, _ bool) wire.Confidence {
	seen, n := wire.No, 0
	for v := range jsonl.Values(head) {
		if n++; n > 100 {
			break
		}
		var r record
		if !v.IsObject() || !splice.Lenient(json.Unmarshal(v.Raw, &r)) {
			continue
		}
		switch {
		case r.Type == "metadata" && r.Protocol != "":
			seen = wire.Likely
		case r.Type == typeMessage && r.Message != nil, r.Type == typeLoop && r.Event != nil:
			return wire.Certain
		}
	}
	return seen
}

// node is one message of the agent's context; a step that said nothing is one
// that is not live for us.
type node struct {
	msg   session.Message
	time  time.Time
	usage *session.Usage
	recs  []json.RawMessage
	user  bool // typed by a person
}

// file is a log with the context that it makes.
type file struct {
	data  []byte
	nodes []*node
	steps map[string]*node
	conv  *wire.Conversation
	live  []int // nodes of the entries
	side  int
	refs  []string
	begun string // trigger of a compaction that began

	messages, calls, results int // of the whole file
	last                     int64
}

// Read implements [wire.Codec].
func (Codec) Read(ctx context.Context, data []byte) (*wire.File, error) {
	f := &file{data: data, conv: &wire.Conversation{}, steps: map[string]*node{}}
	f.conv.Envelope.Provider = "moonshot"
	text := jsonl.Bytes(data)
	notes, err := logfile.Scan(ctx, Format, text, `records one a line such as "metadata" and "context.append_message"`, func(v jsonl.Value) bool {
		raw := json.RawMessage(v.Raw)
		r := record{raw: raw, line: v.Line}
		if !splice.Lenient(json.Unmarshal(raw, &r)) {
			return false
		}
		r.mark = marks.Parse(r.Mark)
		return f.record(&r)
	})
	if err != nil {
		return nil, err
	}
	f.build()
	return &wire.File{Format: Format, Container: "Kimi Code wire log", Conversations: []*wire.Conversation{f.conv}, Notes: notes,
		Writer: &logfile.Writer{Format: Format, Text: text, Entries: len(f.conv.Entries), Tail: f.tail}}, nil
}

// record takes in one record and reports whether it is one of the format.
func (f *file) record(r *record) bool {
	f.last = max(f.last, r.Time)
	switch r.Type {
	case "metadata":
		return r.Protocol != ""
	case typeConfig:
		env := &f.conv.Envelope
		if r.System != nil {
			env.System = nil
			if *r.System != "" {
				env.System = []session.Message{{Role: session.RoleSystem, Parts: []session.Part{session.Text{Text: *r.System}},
					Source: session.Source{Kind: session.SourcePlugin, Plugin: Format}}}
			}
		}
		if r.Model != "" {
			env.Model = r.Model
		}
		return false
	case typeMessage:
		if r.Message == nil {
			return false
		}
		f.messages++
		f.append(r)
	case typeLoop:
		var e loopEvent
		if rawjson.Kind(r.Event) != '{' || !splice.Lenient(json.Unmarshal(r.Event, &e)) {
			return false
		}
		f.loop(r, &e)
	case typeBegin:
		f.begun = r.Source
	case typeApply:
		f.apply(r)
	case typeClear:
		f.drop(0)
	case typeUndo:
		f.undo(r.Undo)
	default:
		return false
	}
	return true
}

func (r *record) time() time.Time {
	if r.Time <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.Time).UTC()
}

// append takes in a message that was appended as a whole.
func (f *file) append(r *record) {
	n := &node{time: r.time(), recs: []json.RawMessage{r.raw}}
	m := r.Message
	switch m.Role {
	case "assistant":
		n.msg = session.Message{Role: session.RoleAssistant, Parts: parts(m.Content), Source: session.Source{Kind: session.SourceModel}}
		for _, c := range m.Calls {
			args := c.Arguments
			if c.Name == "" {
				c.Name = c.Function.Name
			}
			if args == nil {
				args = c.Function.Arguments
			}
			text, ok := rawjson.String(args)
			if !ok {
				text = string(args)
			}
			n.msg.Parts = append(n.msg.Parts, session.ToolCall{ID: c.ID, Name: c.Name, Arguments: text})
			f.calls++
		}
	case "tool":
		n.msg = session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool},
			Parts: []session.Part{session.ToolResult{CallID: m.CallID, Parts: inner(m.Content), IsError: m.IsError}}}
		f.results++
	default:
		n.user = m.Origin.Kind == "user" || m.Origin.Kind == ""
		n.msg = session.Message{Role: session.RoleUser, Parts: parts(m.Content), Source: session.Source{Kind: session.SourceUser}}
		if !n.user {
			n.msg.Source = session.Source{Kind: session.SourcePlugin, Plugin: Format, Form: strings.Trim(m.Origin.Kind+"/"+m.Origin.Variant, "/")}
		}
	}
	r.mark.Apply(&n.msg)
	if r.mark.ID != "" {
		f.checkpoint(r.mark.Checkpoint(), r.mark.ID)
	}
	n.user = n.user && n.msg.Source.Kind == session.SourceUser
	f.nodes = append(f.nodes, n)
}

// loop takes in one event of a step.
func (f *file) loop(r *record, e *loopEvent) {
	switch e.Type {
	case "step.begin":
		n := &node{time: r.time(), msg: session.Message{ID: e.UUID, Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel}}}
		f.nodes = append(f.nodes, n)
		f.steps[e.UUID] = n
	case "content.part":
		if n := f.step(e.Step, r); e.Part != nil {
			n.msg.Parts = append(n.msg.Parts, part(e.Part))
			n.recs = append(n.recs, r.raw)
		}
	case "tool.call":
		n := f.step(e.Step, r)
		n.msg.Parts = append(n.msg.Parts, session.ToolCall{ID: e.CallID, Name: e.Name, Arguments: string(e.Args)})
		n.recs = append(n.recs, r.raw)
		f.calls++
	case "tool.result":
		if e.Result == nil {
			return
		}
		res := session.ToolResult{CallID: e.CallID, Parts: inner(e.Result.Output), IsError: e.Result.IsError}
		f.nodes = append(f.nodes, &node{time: r.time(), recs: []json.RawMessage{r.raw},
			msg: session.Message{Role: session.RoleTool, Parts: []session.Part{res}, Source: session.Source{Kind: session.SourceTool}}})
		f.results++
	case "step.end":
		if n, u := f.steps[e.UUID], e.Usage; n != nil && u != nil {
			n.usage = &session.Usage{Node: session.NoSeq, Prompt: u.Other + u.Read + u.Write, Completion: u.Output, CacheRead: u.Read,
				CacheWrite: u.Write, Provider: f.conv.Envelope.Provider, Model: f.conv.Envelope.Model}
		}
	}
}

// step returns the message of a step, and begins one that was not begun.
func (f *file) step(id string, r *record) *node {
	if n := f.steps[id]; n != nil {
		return n
	}
	n := &node{time: r.time(), msg: session.Message{ID: id, Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel}}}
	f.nodes = append(f.nodes, n)
	f.steps[id] = n
	return n
}

// drop takes the nodes from the i-th on off the context.
func (f *file) drop(i int) {
	for _, n := range f.nodes[i:] {
		if len(n.msg.Parts) > 0 {
			f.side++
		}
	}
	f.nodes = f.nodes[:i]
}

// undo takes the last n prompts back, with what follows them.
func (f *file) undo(n int) {
	for i := len(f.nodes) - 1; i >= 0 && n > 0; i-- {
		if f.nodes[i].user {
			if n--; n == 0 {
				f.drop(i)
			}
		}
	}
}

func (f *file) checkpoint(cp wire.Checkpoint, ref string) {
	f.conv.Checkpoints, f.refs = append(f.conv.Checkpoints, cp), append(f.refs, ref)
}

// apply takes in a compaction.
func (f *file) apply(r *record) {
	text := ""
	for _, raw := range []json.RawMessage{r.Context, r.Summary} {
		if s, ok := rawjson.String(raw); ok && s != "" {
			text = s
			break
		}
	}
	ref := r.mark.ID
	cp := r.mark.Checkpoint()
	if ref == "" {
		ref = fmt.Sprintf("%s/%d", Format, r.line)
		cp = wire.Checkpoint{Entry: -1, Trigger: f.begun, TokensBefore: r.Before, Time: r.time()}
	}
	sum := &node{time: r.time(), recs: []json.RawMessage{r.raw}, msg: session.Message{Role: session.RoleUser,
		Parts: []session.Part{session.Text{Text: text}}, Source: compact.CheckpointSource(ref)}}
	before := 0
	for _, n := range f.nodes {
		if len(n.msg.Parts) > 0 {
			before++
		}
	}
	old := f.nodes
	if r.Kept == nil {
		f.nodes = append([]*node{sum}, old[min(max(r.Count, 0), len(old)):]...)
	} else {
		var users []*node
		for _, n := range old {
			if n.user {
				users = append(users, n)
			}
		}
		head := min(max(r.KeptHead, 0), len(users))
		tail := min(max(*r.Kept-head, 0), len(users)-head)
		f.nodes = append(append(append([]*node{}, users[:head]...), users[len(users)-tail:]...), sum)
	}
	after := -1
	for _, n := range f.nodes {
		if len(n.msg.Parts) > 0 {
			after++
		}
	}
	if f.side += before - after; r.mark.ID == "" {
		cp.Hides = before - after
	}
	for _, n := range f.nodes {
		n.usage = nil // of the longer conversation
	}
	f.checkpoint(cp, ref)
	f.begun = ""
}

// build makes the conversation of the context.
func (f *file) build() {
	c := f.conv
	c.Side = f.side
	for i, n := range f.nodes {
		if len(n.msg.Parts) == 0 && n.msg.Role == session.RoleAssistant {
			continue // a step that said nothing
		}
		m := n.msg
		if m.Source.Kind == session.SourceModel && m.Source.Model == "" {
			m.Source.Provider, m.Source.Model = c.Envelope.Provider, c.Envelope.Model
		}
		if len(n.recs) == 1 {
			m.Origin = &session.Origin{Format: Format, Raw: n.recs[0]}
		}
		for k, ref := range f.refs {
			if m.Source == compact.CheckpointSource(ref) {
				c.Checkpoints[k].Entry = len(c.Entries)
			}
		}
		c.Entries = append(c.Entries, wire.Entry{Message: m, Time: n.time, Usage: n.usage})
		f.live = append(f.live, i)
	}
}

// parts decodes content: a string or a list of parts.
func parts(content json.RawMessage) []session.Part {
	if s, ok := rawjson.String(content); ok {
		return []session.Part{session.Text{Text: s}}
	}
	list, _ := rawjson.Elements(content)
	out := make([]session.Part, 0, len(list))
	for _, raw := range list {
		p := part(raw)
		out = append(out, p)
	}
	return out
}

// inner are the parts of a result.
func inner(content json.RawMessage) []session.Part {
	out := parts(content)
	list, _ := rawjson.Elements(content)
	for i, p := range out {
		if _, ok := p.(session.Reasoning); ok {
			out[i] = session.Opaque{Kind: "think", Raw: list[i]}
		}
	}
	return out
}

func part(raw json.RawMessage) session.Part {
	var p struct {
		Type      string  `json:"type"`
		Text      *string `json:"text"`
		Think     *string `json:"think"`
		Encrypted string  `json:"encrypted"`
		Image     *struct {
			URL string `json:"url"`
		} `json:"imageUrl"`
	}
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &p)) {
		return session.Opaque{Kind: "invalid", Raw: raw}
	}
	switch {
	case p.Type == "text" && p.Text != nil:
		return session.Text{Text: *p.Text}
	case p.Type == "think" && p.Think != nil:
		return session.Reasoning{Text: *p.Think, Encrypted: p.Encrypted, Raw: raw}
	case p.Type == "image_url" && p.Image != nil:
		return session.Image{URL: p.Image.URL} // its form looks like that of a chat and is another
	}
	if p.Type == "" {
		p.Type = "invalid"
	}
	return session.Opaque{Kind: p.Type, Raw: raw}
}
