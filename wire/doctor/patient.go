package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// patient is a conversation that is repaired.
type patient struct {
	c       *wire.Conversation
	n       int
	opts    *Options
	format  string
	x       *toolpairing.Index
	changes []Change
	// misjudged: a message has a usage report that cannot be.
	misjudged bool
	err       error                    // why an entry could not be read
	changed   map[int]*session.Message // by entry
	were      map[int][]int            // the indexes that the parts of changed had
}

func (p *patient) did(kind Kind, entry int, id, format string, args ...any) {
	p.changes = append(p.changes, Change{Kind: kind, Conversation: p.n + 1, Message: entry + 1, CallID: id, Detail: fmt.Sprintf(format, args...)})
}

// locate finds the lines of what was changed, in the file as it was.
func (p *patient) locate(ctx context.Context, src *io.SectionReader) error {
	t, err := newText(ctx, src, p.format)
	if err == nil {
		err = t.index(ctx)
	}
	if err != nil {
		return err
	}
	at := &placer{t: t, c: p.c}
	for k := range p.changes {
		p.changes[k].Line, _ = at.place(p.changes[k].Message - 1)
	}
	return nil
}

// entry reads a message of the conversation, which must not be changed. If it
// cannot be read, err says so in the end.
func (p *patient) entry(i int) *session.Message {
	e, err := p.c.At(i)
	p.err = cmp.Or(p.err, err)
	return &e.Message
}

// role is that of an entry.
func (p *patient) role(i int) session.Role { return p.x.View().Node(i).Role() }

// message returns the message of an entry that can be changed.
func (p *patient) message(i int) *session.Message {
	if m := p.changed[i]; m != nil {
		return m
	}
	m := p.entry(i).Clone()
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
	p.arguments()
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
	watched := &wire.Conversation{Envelope: p.c.Envelope}
	watched.Leave(p.c.Len(), func(i int) (wire.Entry, error) {
		e, err := p.c.At(i)
		p.misjudged = p.misjudged || err == nil && impossible(e.Usage)
		return e, err
	})
	v, done, err := view(ctx, watched)
	if err != nil {
		return nil, err
	}
	defer done()
	return p.surface(v)
}

// surface is the repaired surface of the conversation, of which v is the view.
func (p *patient) surface(v session.View) ([]wire.Item, error) {
	do := p.plan(v)
	var out []wire.Item
	emit := func(i int) {
		if !do.dropped[i] {
			out = append(out, wire.Item{Entry: i, Message: do.changed[i]})
		}
	}
	for i := range p.c.Len() {
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
	if len(out) == 0 && p.c.Len() > 0 { // no surface at all would mean no change
		return []wire.Item{{Entry: -1, Message: note("[A result without a call stood here.]")}}, p.err
	}
	if takesTurns(p.format) {
		out = p.merge(out)
	}
	return out, p.err
}

// merge makes one message of neighbors that hold results, and gives the user the
// first word.
func (p *patient) merge(items []wire.Item) []wire.Item {
	role := func(it wire.Item) session.Role {
		if it.Message != nil {
			return it.Message.Role
		}
		return p.role(it.Entry)
	}
	var out []wire.Item
	if len(items) > 0 && role(items[0]) == session.RoleAssistant {
		p.did(ModelFirst, max(items[0].Entry, 0), "", "a note stands before it now")
		out = append(out, wire.Item{Entry: -1, Message: note("[The beginning of this conversation is not there.]")})
	}
	for _, it := range items {
		n := len(out) - 1
		if n < 0 || role(it) != session.RoleTool || role(out[n]) != session.RoleTool {
			out = append(out, it)
			continue
		}
		m := it.Message
		if m == nil {
			m = p.entry(it.Entry)
		}
		if out[n].Message == nil {
			out[n].Message = p.entry(out[n].Entry).Clone()
		}
		out[n].Message.Parts = append(out[n].Message.Parts, m.Parts...)
		if it.Entry >= 0 && splitResults(p.format, p.x, it.Entry) {
			p.did(SplitResults, it.Entry, "", "the results are in the message before now")
		}
	}
	return out
}

// splitResults reports whether an entry has results that belong into the message
// before it.
func splitResults(format string, x *toolpairing.Index, i int) bool {
	v := x.View()
	if !takesTurns(format) || i == 0 || v.Node(i).Role() != session.RoleTool || v.Node(i-1).Role() != session.RoleTool {
		return false
	}
	for k := range v.Node(i).Results() {
		if _, _, ok := x.CallOf(i, k); ok {
			return true
		}
	}
	return false
}

// ids makes ids that clash or are missing unique, on both sides.
func (p *patient) ids() {
	used := map[string]bool{}
	for i := range p.c.Len() {
		for _, id := range p.x.View().Node(i).Calls() {
			used[id] = true
		}
	}
	before := map[string]bool{}
	for i := range p.c.Len() {
		ids := p.x.View().Node(i).Calls()
		if !p.clashes(ids, before) {
			for _, id := range ids {
				before[id] = true
			}
			continue
		}
		here := map[string]bool{}
		k := -1
		for at, part := range p.entry(i).Parts {
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
			p.did(kind, i, id, "the call %q of %s is now %q", ids[k], c.Name, id)
			if pos, ok := p.x.Answered(i, k); ok {
				p.rename(kind, pos, i, k, id)
			}
		}
	}
}

// clashes reports whether one of the ids of a message may have to change.
func (p *patient) clashes(ids []string, before map[string]bool) bool {
	for k, id := range ids {
		if id == "" || p.opts.UniqueIDs && before[id] || slices.Contains(ids[:k], id) {
			return true
		}
	}
	return false
}

// arguments makes JSON of arguments that are none.
func (p *patient) arguments() {
	if !p.opts.WrapArguments {
		return
	}
	for i := range p.c.Len() {
		if len(p.x.View().Node(i).Calls()) == 0 {
			continue
		}
		for at, part := range p.entry(i).Parts {
			c, ok := part.(session.ToolCall)
			if !ok || !badArguments(c) {
				continue
			}
			m := p.message(i)
			c = m.Parts[at].(session.ToolCall) // it may have a new id
			raw, _ := json.Marshal(map[string]string{"input": c.Arguments})
			c.Arguments, c.Raw = string(raw), nil
			m.Parts[at] = c
			p.did(BadArguments, i, c.ID, "the arguments of %s are the text \"input\" of an object now", c.Name)
		}
	}
}

// rename gives the result that answers a call the call's new id; kind is what was
// wrong with the old one.
func (p *patient) rename(kind Kind, pos, call, index int, id string) {
	n := 0
	for at, part := range p.entry(pos).Parts {
		if _, ok := part.(session.ToolResult); !ok {
			continue
		}
		if q, k, ok := p.x.CallOf(pos, n); ok && q == call && k == index {
			m := p.message(pos)
			r := m.Parts[at].(session.ToolResult)
			r.CallID = id
			m.Parts[at] = r
			if kind == CallWithoutID {
				kind = ResultWithoutID
			}
			p.did(kind, pos, id, "its result has the new id, too")
		}
		n++
	}
}

// roundEnd is the last of the results that stand in a row with the entry: what
// is put behind it separates no call from its result.
func (p *patient) roundEnd(i int) int {
	for i+1 < p.c.Len() && p.role(i+1) == session.RoleTool {
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
		for _, part := range p.entry(o.Position).Parts {
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
		m := p.changed[q.Position]
		if m == nil {
			m = p.entry(q.Position)
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
			if last != i && p.role(last) == session.RoleTool && p.answers(last, i) {
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
