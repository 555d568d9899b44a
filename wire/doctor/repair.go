package doctor

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// Plugin is the plugin name in the source of messages that a repair made.
const Plugin = "doctor"

// The forms of such messages, in the source's Form.
const (
	// FormResult: a made-up result.
	FormResult = "result"
	// FormNote: a result without a call, as a note.
	FormNote = "note"
)

const abandonedText = "[No result: this call was interrupted before it finished.]"

// Options decide what [Repair] does not decide by itself. Nil means defaults.
type Options struct {
	// DropOrphans takes results without a call out of the conversation. By
	// default they become quoted notes.
	DropOrphans bool
	// CloseRunning gives calls at the end that may still be running a made-up
	// result, too, and ends a compaction that may still be running.
	CloseRunning bool
	// UniqueIDs gives calls whose id was used before another one, with their
	// results.
	UniqueIDs bool
	// DropBadLines takes lines that are not JSON out of the file, and of a log
	// of our own format what is damaged and all that stands behind it.
	DropBadLines bool
	// PlainCheckpoints makes checkpoints whose span is missing plain messages
	// with the same text.
	PlainCheckpoints bool
}

// Change is one thing that a repair did.
type Change struct {
	Kind Kind `json:"kind"`
	// Conversation and Message count from 1; 0 for the file. Message is that
	// of the file before.
	Conversation int    `json:"conversation,omitempty"`
	Message      int    `json:"message,omitempty"`
	Line         int    `json:"line,omitempty"`
	CallID       string `json:"call_id,omitempty"`
	// Detail says what was done.
	Detail string `json:"detail"`
}

// Repaired is the outcome of a repair.
type Repaired struct {
	// Data is the new file; the bytes of the old one when nothing was done, and
	// nil for a session.
	Data []byte
	// Changes are in the order in which they were made.
	Changes []Change
	// Left are the findings of the new file that are not normal, and those that
	// an option decides.
	Left []Finding
}

// Options that decide a finding, by kind, as the command names them.
var decides = map[Kind]string{RunningCall: "--close-running", CallIDReused: "--unique-ids", BadLine: "--drop-bad-lines",
	OpenAttempt: "--close-running", SpanMissing: "--plain-checkpoints", DamagedLog: "--drop-bad-lines"}

// Decides names the option that decides what to do about a kind of finding;
// empty when none does.
func Decides(k Kind) string { return decides[k] }

// Repair repairs a file of a format by the least change. The error is that of
// the codec: a file that cannot be read cannot be repaired.
func Repair(ctx context.Context, codec wire.Codec, data []byte, opts *Options) (*Repaired, error) {
	if opts == nil {
		opts = &Options{}
	}
	r := &Repaired{Data: data}
	r.bytes(codec.Name(), opts)
	f, err := codec.Read(ctx, r.Data)
	if err != nil {
		return nil, err
	}
	for n := range f.Conversations {
		c := f.Conversations[n]
		p := &patient{c: c, n: n, opts: opts, format: f.Format, place: &placer{data: r.Data, c: c}}
		items, err := p.items(ctx)
		if err != nil {
			return nil, err
		}
		if len(p.changes) == 0 {
			continue
		}
		var out bytes.Buffer
		if err := f.Writer.Write(ctx, &out, n, items); err != nil {
			return nil, fmt.Errorf("repair conversation %d: %w", n+1, err)
		}
		r.Data = out.Bytes()
		r.Changes = append(r.Changes, p.changes...)
		if f, err = codec.Read(ctx, r.Data); err != nil {
			return nil, fmt.Errorf("the repaired file cannot be read: %w", err)
		}
	}
	list, err := Diagnose(ctx, r.Data, f)
	if err != nil {
		return nil, err
	}
	r.left(list)
	return r, nil
}

// left takes those of the findings that were left.
func (r *Repaired) left(list []Finding) {
	for _, n := range list {
		if !n.Normal || decides[n.Kind] != "" {
			r.Left = append(r.Left, n)
		}
	}
}

// bytes repairs the encoding and the records that were cut short.
func (r *Repaired) bytes(format string, opts *Options) {
	for _, f := range scan(r.Data, format) {
		switch f.Kind {
		case InvalidUTF8, HalfSurrogate:
			r.Changes = append(r.Changes, Change{Kind: f.Kind, Line: f.Line, Detail: "replaced by U+FFFD: " + f.Detail})
		}
	}
	if len(r.Changes) > 0 {
		r.Data = turns.Repair(r.Data)
	}
	if !lined(r.Data, format) {
		return
	}
	type cut struct{ from, to int }
	var cuts []cut
	for v := range jsonl.Values(r.Data) {
		kind := Kind("")
		switch {
		case v.Torn():
			kind = TornRecord
		case v.Err != nil && opts.DropBadLines:
			kind = BadLine
		default:
			continue
		}
		end := v.Offset + len(v.Raw)
		if v.Offset == 0 || r.Data[v.Offset-1] == '\n' { // the line goes as a whole
			if k := bytes.IndexByte(r.Data[end:], '\n'); k >= 0 {
				end += k + 1
			}
		}
		cuts = append(cuts, cut{v.Offset, end})
		r.Changes = append(r.Changes, Change{Kind: kind, Line: v.Line, Detail: fmt.Sprintf("taken out: %d bytes that are no record", len(v.Raw))})
	}
	if cuts == nil {
		return
	}
	var out []byte
	at := 0
	for _, c := range cuts {
		out = append(out, r.Data[at:c.from]...)
		at = c.to
	}
	r.Data = append(out, r.Data[at:]...)
}

// patient is a conversation that is repaired.
type patient struct {
	c       *wire.Conversation
	n       int
	opts    *Options
	format  string
	place   *placer
	x       *toolpairing.Index
	changes []Change
	changed map[int]*session.Message // by entry
	were    map[int][]int            // the indexes that the parts of changed had
}

func (p *patient) did(kind Kind, entry int, id, format string, args ...any) {
	line, _ := p.place.place(entry)
	p.changes = append(p.changes, Change{Kind: kind, Conversation: p.n + 1, Message: entry + 1, Line: line, CallID: id, Detail: fmt.Sprintf(format, args...)})
}

// message returns the message of an entry that can be changed.
func (p *patient) message(i int) *session.Message {
	if m := p.changed[i]; m != nil {
		return m
	}
	m := p.c.Entries[i].Message.Clone()
	p.changed[i] = m
	for at := range m.Parts {
		p.were[i] = append(p.were[i], at)
	}
	return m
}

// plan is what is to be done to a conversation. Indexes are those of entries.
type plan struct {
	changed map[int]*session.Message
	// dropped are entries of which nothing is left.
	dropped map[int]bool
	moved   movement
	// results and notes stand behind the entry, in this order.
	results, notes map[int][]*session.Message
}

// plan decides what is to be done; what it decides is listed.
func (p *patient) plan(v session.View) *plan {
	p.x = toolpairing.Of(v)
	p.changed, p.were = map[int]*session.Message{}, map[int][]int{}
	p.ids()
	todo := p.x.Plan()
	out := &plan{changed: p.changed, dropped: map[int]bool{}}
	out.notes = p.orphans(todo.Orphans)
	out.results = p.results()
	out.moved = p.moves(todo.Moves)
	for i, m := range p.changed {
		out.dropped[i] = len(m.Parts) == 0
	}
	return out
}

// items returns the repaired surface.
func (p *patient) items(ctx context.Context) ([]wire.Item, error) {
	v, done, err := view(ctx, p.c)
	if err != nil {
		return nil, err
	}
	defer done()
	return p.surface(v), nil
}

// surface is the repaired surface of the conversation, of which v is the view.
func (p *patient) surface(v session.View) []wire.Item {
	do := p.plan(v)
	var out []wire.Item
	emit := func(i int) {
		if !do.dropped[i] {
			out = append(out, wire.Item{Entry: i, Message: do.changed[i]})
		}
	}
	for i := range p.c.Entries {
		if !do.moved.from[i] {
			emit(i)
		}
		for _, k := range do.moved.behind[i] {
			emit(k)
		}
		for _, m := range slices.Concat(do.moved.split[i], do.results[i], do.notes[i]) {
			out = append(out, wire.Item{Entry: -1, Message: m})
		}
	}
	if len(out) == 0 && len(p.c.Entries) > 0 { // no surface at all would mean no change
		return []wire.Item{{Entry: -1, Message: note("[A result without a call stood here.]")}}
	}
	if takesTurns(p.format) {
		return p.merge(out)
	}
	return out
}

// merge makes one message of neighbors that hold results, and gives the user the
// first word.
func (p *patient) merge(items []wire.Item) []wire.Item {
	message := func(it wire.Item) *session.Message {
		if it.Message != nil {
			return it.Message
		}
		return &p.c.Entries[it.Entry].Message
	}
	var out []wire.Item
	if len(items) > 0 && message(items[0]).Role == session.RoleAssistant {
		p.did(ModelFirst, max(items[0].Entry, 0), "", "a note stands before it now")
		out = append(out, wire.Item{Entry: -1, Message: note("[The beginning of this conversation is not there.]")})
	}
	for _, it := range items {
		m := message(it)
		n := len(out) - 1
		if n < 0 || m.Role != session.RoleTool || message(out[n]).Role != session.RoleTool {
			out = append(out, it)
			continue
		}
		if out[n].Message == nil {
			out[n].Message = message(out[n]).Clone()
		}
		out[n].Message.Parts = append(out[n].Message.Parts, m.Parts...)
		if it.Entry >= 0 && splitResults(p.format, p.c, p.x, it.Entry) {
			p.did(SplitResults, it.Entry, "", "the results are in the message before now")
		}
	}
	return out
}

// splitResults reports whether an entry has results that belong into the message
// before it.
func splitResults(format string, c *wire.Conversation, x *toolpairing.Index, i int) bool {
	if !takesTurns(format) || i == 0 || c.Entries[i].Message.Role != session.RoleTool || c.Entries[i-1].Message.Role != session.RoleTool {
		return false
	}
	for k := range c.Entries[i].Message.Results() {
		if _, _, ok := x.CallOf(i, k); ok {
			return true
		}
	}
	return false
}

// ids makes ids that clash or are missing unique, on both sides.
func (p *patient) ids() {
	used := map[string]bool{}
	for i := range p.c.Entries {
		for _, part := range p.c.Entries[i].Message.Parts {
			if c, ok := part.(session.ToolCall); ok {
				used[c.ID] = true
			}
		}
	}
	before := map[string]bool{}
	for i := range p.c.Entries {
		here := map[string]bool{}
		k := -1
		for at, part := range p.c.Entries[i].Message.Parts {
			c, ok := part.(session.ToolCall)
			if !ok {
				continue
			}
			k++
			kind := Kind("")
			switch {
			case c.ID == "":
				kind = CallWithoutID
			case here[c.ID]:
				kind = DuplicateCallID
			case before[c.ID] && p.opts.UniqueIDs && !madeUp(p.format, c):
				kind = CallIDReused
			}
			id := c.ID
			if here[id] = true; kind == "" {
				before[id] = true
				continue
			}
			base := id
			if base == "" {
				base = "call"
			}
			for n := 2; used[id] || id == ""; n++ {
				id = fmt.Sprintf("%s_%d", base, n)
			}
			used[id], before[id] = true, true
			m := p.message(i)
			c.ID, c.Raw = id, nil
			m.Parts[at] = c
			p.did(kind, i, id, "the call %q of %s is now %q", p.c.Entries[i].Message.Calls()[k], c.Name, id)
			if pos, ok := p.x.Answered(i, k); ok {
				p.rename(pos, i, k, id)
			}
		}
	}
}

// rename gives the result that answers a call the call's new id.
func (p *patient) rename(pos, call, index int, id string) {
	n := 0
	for at, part := range p.c.Entries[pos].Message.Parts {
		if _, ok := part.(session.ToolResult); !ok {
			continue
		}
		if q, k, ok := p.x.CallOf(pos, n); ok && q == call && k == index {
			m := p.message(pos)
			r := m.Parts[at].(session.ToolResult)
			r.CallID = id
			m.Parts[at] = r
			p.did(DuplicateCallID, pos, id, "its result has the new id, too")
		}
		n++
	}
}

// roundEnd is the last of the results that stand in a row with the entry: what
// is put behind it separates no call from its result.
func (p *patient) roundEnd(i int) int {
	for i+1 < len(p.c.Entries) && p.c.Entries[i+1].Message.Role == session.RoleTool {
		i++
	}
	return i
}

// inPlace is the last result of a calling entry that stands right behind it, or
// the entry itself.
func (p *patient) inPlace(call int) int {
	last, end := call, p.roundEnd(call)
	for _, u := range p.x.Unit(call) {
		if u > last && u <= end {
			last = u
		}
	}
	return last
}

// orphans takes results without a call out of their messages and makes notes of
// them, by the entry that they stand behind.
func (p *patient) orphans(list []toolpairing.Orphan) map[int][]*session.Message {
	notes := map[int][]*session.Message{}
	gone := map[int][]int{} // entry to numbers of results
	for _, o := range list {
		gone[o.Position] = append(gone[o.Position], o.Index)
		kind := kindOf[o.Kind]
		n := 0
		for _, part := range p.c.Entries[o.Position].Message.Parts {
			r, ok := part.(session.ToolResult)
			if !ok {
				continue
			}
			if n == o.Index {
				if p.opts.DropOrphans {
					p.did(kind, o.Position, o.CallID, "the result was taken out")
				} else {
					p.did(kind, o.Position, o.CallID, "the result became a quoted note")
					at := p.roundEnd(o.Position)
					notes[at] = append(notes[at], note(turns.Quote(r)))
				}
			}
			n++
		}
	}
	for i, numbers := range gone {
		parts := p.resultParts(i)
		goes := map[int]bool{}
		for _, k := range numbers {
			goes[parts[k]] = true
		}
		p.take(i, goes)
		if m := p.message(i); len(numbers) == len(parts) && len(m.Parts) > 0 { // what else it held speaks for the user
			m.Role = session.RoleUser
			m.Source = session.Source{Kind: session.SourceUser}
		}
	}
	return notes
}

// together knows the formats in which the results of one message of the model
// stand in one message or record.
func together(format string) bool {
	switch format {
	case "anthropic-messages", "gemini-contents", "gemini-session", "claude-code", "qwen", "opencode":
		return true
	}
	return false
}

// results makes results for calls that have none, by the entry that they stand
// behind.
func (p *patient) results() map[int][]*session.Message {
	out := map[int][]*session.Message{}
	missing := map[int][]session.Part{} // by calling entry
	for _, q := range p.x.Diagnose() {
		if q.Kind != toolpairing.UnansweredCall || q.Running && !p.opts.CloseRunning {
			continue
		}
		kind := UnansweredCall
		if q.Running {
			kind = RunningCall
		}
		m := &p.c.Entries[q.Position].Message
		if c := p.changed[q.Position]; c != nil {
			m = c
		}
		call, ok := nthCall(m, q.Index)
		if !ok {
			continue
		}
		missing[q.Position] = append(missing[q.Position], session.ToolResult{CallID: call.ID, Name: call.Name, IsError: true,
			Parts: []session.Part{session.Text{Text: abandonedText}}})
		p.did(kind, q.Position, call.ID, "the call of %s got a made-up result", call.Name)
	}
	for i, parts := range missing {
		unit := p.x.Unit(i)
		last := unit[len(unit)-1]
		if together(p.format) {
			if last != i && p.c.Entries[last].Message.Role == session.RoleTool && p.answers(last, i) {
				m := p.message(last)
				m.Parts = append(m.Parts, parts...)
				continue
			}
			at := p.inPlace(i)
			out[at] = append(out[at], made(parts))
			continue
		}
		last = p.inPlace(i)
		for _, part := range parts {
			out[last] = append(out[last], made([]session.Part{part}))
		}
	}
	return out
}

func made(parts []session.Part) *session.Message {
	return &session.Message{Role: session.RoleTool, Parts: parts, Source: session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: FormResult}}
}

func nthCall(m *session.Message, k int) (session.ToolCall, bool) {
	for _, part := range m.Parts {
		if c, ok := part.(session.ToolCall); ok {
			if k == 0 {
				return c, true
			}
			k--
		}
	}
	return session.ToolCall{}, false
}
