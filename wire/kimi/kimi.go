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
// client injected have source plugin "kimi". Of an opened file ([Codec.Open]) only
// what makes the context is in memory, some 150 bytes a message.
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
	"io"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/internal/names"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format, and the plugin name in the source of
// messages that the client wrote.
const Format = "kimi"

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Opener = Codec{}

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
// that is not live for us. What it says is read again when it is needed.
type node struct {
	first jsonl.Ref   // the first record that says something of it
	more  []jsonl.Ref // and the others
	usage jsonl.Ref   // of the step's end, when that reports usage
	model names.ID    // in force at the step's end
	time  int64       // of its first record, as that says
	kind  kind
	said  bool // it has parts
	user  bool // typed by a person
	// checkpoint is its source when it is a checkpoint; nil for most.
	checkpoint *session.Source
}

// kind says how a node is read.
type kind byte

const (
	kindMessage kind = iota // one record that appended it
	kindStep                // parts and calls of a step of the model
	kindResult
	kindSummary // of a compaction
)

func (n *node) add(ref jsonl.Ref) {
	if n.said {
		n.more = append(n.more, ref)
		return
	}
	n.first, n.said = ref, true
}

// speaks reports whether the node is a message. A message of a person or a tool
// may be empty.
func (n *node) speaks() bool { return n.said || n.kind != kindStep }

// file is a log with the context that it makes.
type file struct {
	text  *jsonl.File
	ids   names.Table
	nodes []*node
	steps map[names.ID]*node
	conv  *wire.Conversation
	live  []int32 // nodes of the entries
	side  int
	refs  []string
	begun string // trigger of a compaction that began

	messages, calls, results int // of the whole file
	last                     int64
}

func newFile(text *jsonl.File) *file {
	f := &file{text: text, conv: &wire.Conversation{}, steps: map[names.ID]*node{}}
	f.conv.Envelope.Provider = "moonshot"
	return f
}

// Read implements [wire.Codec].
func (Codec) Read(ctx context.Context, data []byte) (*wire.File, error) {
	return wire.Hold(open(ctx, jsonl.Bytes(data)))
}

// Open implements [wire.Opener].
func (Codec) Open(ctx context.Context, r io.ReaderAt, size int64) (*wire.File, error) {
	return open(ctx, jsonl.Stored(r, size))
}

func open(ctx context.Context, text *jsonl.File) (*wire.File, error) {
	f := newFile(text)
	notes, err := logfile.Scan(ctx, Format, text, `records one a line such as "metadata" and "context.append_message"`, f.value)
	if err != nil {
		return nil, err
	}
	f.build()
	return &wire.File{Format: Format, Container: "Kimi Code wire log", Conversations: []*wire.Conversation{f.conv}, Notes: notes,
		Writer: &logfile.Writer{Format: Format, Text: text, Entries: len(f.live), Tail: f.tail}}, nil
}

// value takes in one value of the file.
func (f *file) value(v jsonl.Value) bool {
	r, ok := parse(v.Raw)
	r.ref, r.line = f.text.Ref(v), v.Line
	return ok && f.record(&r)
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
		e, ok := r.loop()
		if !ok {
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

// append takes in a message that was appended as a whole.
func (f *file) append(r *record) {
	m, user := r.message()
	n := &node{first: r.ref, time: r.Time, said: len(m.Parts) > 0, user: user}
	f.calls += len(m.Calls())
	if m.Role == session.RoleTool {
		f.results++
	}
	if m.Role == session.RoleAssistant && !n.said {
		n.kind = kindStep // it said nothing
	}
	if compact.IsCheckpointSource(m.Source) {
		n.checkpoint = &m.Source
	}
	if r.mark.ID != "" {
		f.checkpoint(r.mark.Checkpoint(), r.mark.ID)
	}
	f.nodes = append(f.nodes, n)
}

// loop takes in one event of a step.
func (f *file) loop(r *record, e *loopEvent) {
	switch e.Type {
	case "step.begin":
		f.begin(e.UUID, r)
	case "content.part":
		if n := f.step(e.Step, r); e.Part != nil {
			n.add(r.ref)
		}
	case "tool.call":
		f.step(e.Step, r).add(r.ref)
		f.calls++
	case "tool.result":
		if e.Result == nil {
			return
		}
		f.nodes = append(f.nodes, &node{kind: kindResult, first: r.ref, time: r.Time, said: true})
		f.results++
	case "step.end":
		if n := f.steps[f.ids.Add(e.UUID)]; n != nil && e.Usage != nil {
			n.usage, n.model = r.ref, f.ids.Add(f.conv.Envelope.Model)
		}
	}
}

// begin begins a step.
func (f *file) begin(id string, r *record) *node {
	n := &node{kind: kindStep, time: r.Time}
	f.nodes = append(f.nodes, n)
	f.steps[f.ids.Add(id)] = n
	return n
}

// step returns the message of a step, and begins one that was not begun.
func (f *file) step(id string, r *record) *node {
	if n := f.steps[f.ids.Add(id)]; n != nil {
		return n
	}
	return f.begin(id, r)
}

// drop takes the nodes from the i-th on off the context.
func (f *file) drop(i int) {
	for _, n := range f.nodes[i:] {
		if n.said {
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

// said counts the nodes that have parts.
func said(nodes []*node) int {
	k := 0
	for _, n := range nodes {
		if n.said {
			k++
		}
	}
	return k
}

// apply takes in a compaction.
func (f *file) apply(r *record) {
	ref := r.mark.ID
	cp := r.mark.Checkpoint()
	if ref == "" {
		ref = fmt.Sprintf("%s/%d", Format, r.line)
		cp = wire.Checkpoint{Entry: -1, Trigger: f.begun, TokensBefore: r.Before, Time: timeOf(r.Time)}
	}
	src := compact.CheckpointSource(ref)
	sum := &node{kind: kindSummary, first: r.ref, time: r.Time, said: true, checkpoint: &src}
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
	gone := said(old) - (said(f.nodes) - 1)
	if f.side += gone; r.mark.ID == "" {
		cp.Hides = gone
	}
	for _, n := range f.nodes {
		n.usage = jsonl.Ref{} // of the longer conversation
	}
	f.checkpoint(cp, ref)
	f.begun = ""
}

// build makes the conversation of the context.
func (f *file) build() {
	c := f.conv
	c.Side = f.side
	for i, n := range f.nodes {
		if !n.speaks() {
			continue // a step that said nothing
		}
		for k, ref := range f.refs {
			if n.checkpoint != nil && *n.checkpoint == compact.CheckpointSource(ref) {
				c.Checkpoints[k].Entry = len(f.live)
			}
		}
		f.live = append(f.live, int32(i))
	}
	c.Leave(len(f.live), f.entry)
	c.Locate(func(i int) int64 { return f.nodes[f.live[i]].first.Offset() })
}

// load reads a record again.
func (f *file) load(ref jsonl.Ref) (record, error) {
	raw, err := f.text.Load(ref)
	if err != nil {
		return record{}, &wire.Error{Format: Format, Offset: ref.Offset(), Detail: "the record could not be read again", Err: err}
	}
	r, _ := parse(raw) // it was parsed before
	return r, nil
}

// entry reads the i-th live message.
func (f *file) entry(i int) (wire.Entry, error) {
	n := f.nodes[f.live[i]]
	r, err := f.load(n.first)
	if err != nil {
		return wire.Entry{}, err
	}
	var m session.Message
	switch n.kind {
	case kindMessage:
		m, _ = r.message()
	case kindSummary:
		m = session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: r.summary()}}, Source: *n.checkpoint}
	case kindResult:
		e, _ := r.loop()
		res := session.ToolResult{CallID: e.CallID, Parts: inner(e.Result.Output), IsError: e.Result.IsError}
		m = session.Message{Role: session.RoleTool, Parts: []session.Part{res}, Source: session.Source{Kind: session.SourceTool}}
	case kindStep:
		e, _ := r.loop()
		m = session.Message{ID: e.Step, Role: session.RoleAssistant, Parts: []session.Part{e.part()}, Source: session.Source{Kind: session.SourceModel}}
		for _, ref := range n.more {
			next, err := f.load(ref)
			if err != nil {
				return wire.Entry{}, err
			}
			e, _ := next.loop()
			m.Parts = append(m.Parts, e.part())
		}
	}
	env := &f.conv.Envelope
	if m.Source.Kind == session.SourceModel && m.Source.Model == "" {
		m.Source.Provider, m.Source.Model = env.Provider, env.Model
	}
	if len(n.more) == 0 {
		m.Origin = &session.Origin{Format: Format, Raw: r.raw}
	}
	out := wire.Entry{Message: m, Time: timeOf(n.time)}
	if n.usage != (jsonl.Ref{}) {
		end, err := f.load(n.usage)
		if err != nil {
			return wire.Entry{}, err
		}
		e, _ := end.loop()
		u := e.Usage
		out.Usage = &session.Usage{Node: session.NoSeq, Prompt: u.Other + u.Read + u.Write, Completion: u.Output, CacheRead: u.Read,
			CacheWrite: u.Write, Provider: env.Provider, Model: f.ids.Text(n.model)}
	}
	return out, nil
}
