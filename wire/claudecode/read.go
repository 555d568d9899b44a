package claudecode

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/anthropic"
)

// piece says which part of its records an entry is.
type piece byte

const (
	whole   piece = iota
	results       // the results of a record that holds more
	rest          // what else it holds
)

// entry is where a live message comes from.
type entry struct {
	recs  []int
	piece piece
}

// build makes the conversations.
func (f *file) build(ctx context.Context, out *wire.File) error {
	var mainRecs []*record
	sides := map[int][]*record{}
	sideOf := map[string]int{}
	agentOf := map[string]int{}
	for i := range f.recs {
		r := &f.recs[i]
		if !r.side {
			mainRecs = append(mainRecs, r)
			continue
		}
		n, ok := agentOf[r.agent]
		if r.agent == "" || !ok {
			if n, ok = sideOf[r.parent]; !ok {
				if n, ok = sideOf[r.logical]; !ok {
					n = len(sides)
				}
			}
		}
		if r.agent != "" {
			agentOf[r.agent] = n
		}
		if r.uuid != "" {
			sideOf[r.uuid] = n
		}
		sides[n] = append(sides[n], r)
	}
	if hasMessage(mainRecs) || len(sides) == 0 {
		f.chats = append(f.chats, newChat(mainRecs, false))
	}
	for _, n := range slices.Sorted(maps.Keys(sides)) {
		if hasMessage(sides[n]) || len(f.chats) == 0 {
			f.chats = append(f.chats, newChat(sides[n], true))
		}
	}
	total := 0
	for i, c := range f.chats {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		conv := f.conversation(c)
		n := c.total()
		conv.Side = max(n-len(conv.Entries), 0)
		if total += n; i > 0 {
			out.Conversations[0].Side += n
		}
		out.Conversations = append(out.Conversations, conv)
	}
	return nil
}

func hasMessage(recs []*record) bool {
	return slices.ContainsFunc(recs, func(r *record) bool { return r.isMessage() })
}

// total counts the messages of all records, live or not.
func (c *chat) total() int {
	n := 0
	seen := map[string]bool{}
	for i, r := range c.recs {
		if !r.isMessage() || c.dropped[i] {
			continue
		}
		if k := r.key(); k != "" {
			if seen[k] {
				continue
			}
			seen[k] = true
		}
		n += r.count()
	}
	return n
}

// conversation reads the live messages and the compactions.
func (f *file) conversation(c *chat) *wire.Conversation {
	conv := new(wire.Conversation)
	conv.Envelope.Provider = anthropic.Provider
	checkpoints, refs := f.boundaries(c)
	groups := c.live(c.leaf(len(c.recs)))
	cleared := c.cleared()
	start := c.lastBoundary
	for _, g := range groups {
		first := c.recs[g.recs[0]]
		if first.kind == kindAttachment && cleared[first.uuid] > g.recs[0] {
			continue
		}
		var parts []session.Part
		for _, i := range g.recs {
			p, _ := anthropic.Parts(c.recs[i].content())
			parts = append(parts, p...)
		}
		e := wire.Entry{Time: first.time}
		if first.kind == kindAssistant {
			last := c.recs[g.recs[len(g.recs)-1]]
			e.Message = assistant(first, parts)
			// A figure from before a compaction says nothing of what is left.
			if g.recs[0] >= start {
				e.Usage = last.msg.usage.Session(first.msg.model)
			}
			if e.Message.Source.Kind == session.SourceModel {
				conv.Envelope.Model = first.msg.model
			}
			c.add(conv, e, g.recs, whole, first)
			continue
		}
		res, other := anthropic.Split(parts)
		for i, p := range other {
			if t, ok := p.(session.ToolCall); ok { // only the model calls
				other[i] = session.Opaque{Kind: "tool_use", Raw: t.Raw}
			}
		}
		clearedAny := clearResults(res, cleared, g.recs[0])
		if len(res) > 0 {
			e.Message = session.Message{Role: session.RoleTool, Parts: res, Source: session.Source{Kind: session.SourceTool}}
			if clearedAny {
				e.Message.Source = session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: FormCleared}
			}
			what := whole
			if len(other) > 0 {
				what = results
			}
			c.add(conv, e, g.recs, what, first)
		}
		if len(other) > 0 {
			e.Message = session.Message{Role: session.RoleUser, Parts: other, Source: first.source(other)}
			what := whole
			if len(res) > 0 {
				what = rest
			}
			if first.summary {
				e.Message.Source = compact.CheckpointSource(first.ref())
			}
			c.add(conv, e, g.recs, what, first)
		}
	}
	f.title(c, conv)
	for n, cp := range checkpoints {
		for i := range conv.Entries {
			if refs[n] != "" && conv.Entries[i].Message.Source == compact.CheckpointSource(refs[n]) {
				cp.Entry = i
			}
		}
		conv.Checkpoints = append(conv.Checkpoints, cp)
	}
	return conv
}

// title names a side chain by its first words, and notes what was bridged and
// left out.
func (f *file) title(c *chat, conv *wire.Conversation) {
	if c.bridged > 0 {
		f.note("%d records name a parent that is not in the file; each was taken to continue the record before it", c.bridged)
	}
	left := 0
	for _, r := range c.recs {
		if r.typ == typeAttachment && r.kind == kindNone {
			left++
		}
	}
	if left > 0 {
		f.note("%d attachments do not tell what the model was sent and were left out", left)
	}
	if !c.side {
		return
	}
	conv.Title = "side chain"
	if len(conv.Entries) > 0 {
		words := strings.Fields(conv.Entries[0].Message.Text())
		if len(words) > 0 {
			conv.Title += ": " + strings.Join(words[:min(len(words), 8)], " ")
		}
	}
}

// add appends a live message and where it comes from.
func (c *chat) add(conv *wire.Conversation, e wire.Entry, recs []int, what piece, first *record) {
	m := &e.Message
	if m.ID == "" {
		m.ID = first.uuid
	}
	if len(recs) == 1 && what == whole {
		m.Origin = &session.Origin{Format: Format, Raw: first.raw}
	}
	if first.mark != nil && first.mark.Source != nil && what != results {
		derived := m.Source
		if m.Source = *first.mark.Source; m.Validate() != nil {
			m.Source = derived
		}
	}
	conv.Entries = append(conv.Entries, e)
	c.entries = append(c.entries, entry{recs, what})
	c.msgs = append(c.msgs, *m)
}

func assistant(r *record, parts []session.Part) session.Message {
	m := session.Message{ID: r.msg.id, Role: session.RoleAssistant, Parts: parts}
	m.Source = session.Source{Kind: session.SourceModel, Provider: anthropic.Provider, Model: r.msg.model}
	if r.msg.model == syntheticModel {
		m.Source = session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: FormSynthetic}
	}
	// A result in an answer of the model is none that the session knows.
	for i, p := range parts {
		if t, ok := p.(session.ToolResult); ok {
			parts[i] = session.Opaque{Kind: "tool_result", Raw: anthropic.Block(t)}
		}
	}
	return m
}

// ref is the identity of the compaction whose summary the record is.
func (r *record) ref() string {
	if r.mark != nil && r.mark.ID != "" {
		return r.mark.ID
	}
	return r.uuid
}

// cleared returns, by call id and uuid, where a micro-compaction cleared a
// result or an attachment for the last time.
func (c *chat) cleared() map[string]int {
	out := map[string]int{}
	for i, r := range c.recs {
		if r.micro == nil {
			continue
		}
		for _, list := range [][]string{r.micro.Tools, r.micro.Attachments} {
			for _, id := range list {
				out[id] = i
			}
		}
	}
	return out
}

// clearResults shows results of the record at i as the agent sends them after a
// micro-compaction.
func clearResults(res []session.Part, cleared map[string]int, i int) bool {
	any := false
	for k, p := range res {
		if r := p.(session.ToolResult); cleared[r.CallID] > i {
			r.Parts = []session.Part{session.Text{Text: clearedText}}
			res[k] = r
			any = true
		}
	}
	return any
}

// boundaries reads the compactions in order and takes over what they preserve.
// refs are the identities of their summaries.
func (f *file) boundaries(c *chat) (list []wire.Checkpoint, refs []string) {
	var at []int
	for i, r := range c.recs {
		if r.boundary() {
			at = append(at, i)
		}
	}
	for n, b := range at {
		end := len(c.recs)
		if n+1 < len(at) {
			end = at[n+1]
		}
		if leaf := c.leaf(end); leaf < b {
			f.note("line %d: a compaction was begun here and has no summary; it was passed over", c.recs[b].line)
			continue
		}
		c.lastBoundary = b
		cp := wire.Checkpoint{Entry: -1, Trigger: c.recs[b].compact.Trigger, TokensBefore: c.recs[b].compact.PreTokens, Hides: -1, Time: c.recs[b].time}
		follow := n >= len(at)-maxBoundaries
		var before []group
		if follow {
			before = c.live(c.leaf(b))
			kept, ok := c.preserve(b)
			if !ok {
				f.note("line %d: the messages that this compaction preserved are not in the file", c.recs[b].line)
			}
			cp.Hides = 0
			for _, g := range before {
				if !slices.Contains(kept, g.recs[0]) {
					cp.Hides += c.recs[g.recs[0]].count()
				}
			}
		}
		ref := ""
		if m := c.recs[b].mark; m != nil { // ours
			if m.ID == "" || m.Hides == nil {
				continue
			}
			ref, cp.Hides = m.ID, *m.Hides
		} else if k := slices.IndexFunc(c.recs[b:end], func(r *record) bool { return r.summary }); k >= 0 {
			ref = c.recs[b+k].ref()
		}
		list, refs = append(list, cp), append(refs, ref)
	}
	return list, refs
}
