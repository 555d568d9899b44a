package claudecode

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/anthropic"
	"github.com/agentcompact/agentcompact/wire/internal/names"
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
	first, n int32 // in order
	piece    piece
}

// at returns the records of an entry.
func (c *chat) at(e entry) []int32 { return c.order[e.first : e.first+e.n] }

// build makes the conversations.
func (f *file) build(ctx context.Context, out *wire.File) error {
	var mainRecs []*record
	sides := map[int][]*record{}
	sideOf := map[names.ID]int{}
	agentOf := map[names.ID]int{}
	for i := range f.recs {
		r := &f.recs[i]
		if !r.side {
			mainRecs = append(mainRecs, r)
			continue
		}
		n, ok := agentOf[r.agent]
		if r.agent == 0 || !ok {
			if n, ok = sideOf[r.parent]; !ok {
				if n, ok = sideOf[r.logical]; !ok {
					n = len(sides)
				}
			}
		}
		if r.agent != 0 {
			agentOf[r.agent] = n
		}
		if r.uuid != 0 {
			sideOf[r.uuid] = n
		}
		sides[n] = append(sides[n], r)
	}
	if hasMessage(mainRecs) || len(sides) == 0 {
		if err := f.chat(mainRecs, false); err != nil {
			return err
		}
	}
	for _, n := range slices.Sorted(maps.Keys(sides)) {
		if hasMessage(sides[n]) || len(f.chats) == 0 {
			if err := f.chat(sides[n], true); err != nil {
				return err
			}
		}
	}
	total := 0
	for i, c := range f.chats {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		conv, err := f.conversation(c)
		if err != nil {
			return err
		}
		n := c.total()
		conv.Side = max(n-conv.Len(), 0)
		if total += n; i > 0 {
			out.Conversations[0].Side += n
		}
		out.Conversations = append(out.Conversations, conv)
	}
	return nil
}

func (f *file) chat(recs []*record, side bool) error {
	c, err := newChat(f, recs, side)
	if err == nil {
		f.chats = append(f.chats, c)
	}
	return err
}

func hasMessage(recs []*record) bool {
	return slices.ContainsFunc(recs, func(r *record) bool { return r.isMessage() })
}

// total counts the messages of all records, live or not.
func (c *chat) total() int {
	n := 0
	seen := map[int32]bool{}
	for i, r := range c.recs {
		if !r.isMessage() || c.dropped[i] {
			continue
		}
		if k := r.response; k != 0 {
			if seen[k] {
				continue
			}
			seen[k] = true
		}
		n += r.count()
	}
	return n
}

// conversation finds the live messages and the compactions.
func (f *file) conversation(c *chat) (*wire.Conversation, error) {
	conv := new(wire.Conversation)
	conv.Envelope.Provider = anthropic.Provider
	checkpoints, refs := f.boundaries(c)
	groups := c.live(c.leaf(len(c.recs)))
	c.clearedAt()
	var model, synthetic names.ID
	synthetic = c.id(syntheticModel)
	for _, g := range groups {
		first := c.recs[g.recs[0]]
		e := entry{first: int32(len(c.order)), n: int32(len(g.recs)), piece: whole}
		switch {
		case first.kind == kindAttachment && len(c.cleared) > 0 && c.cleared[f.ids.Text(first.uuid)] > g.recs[0]:
			continue
		case first.kind == kindAssistant:
			if first.model != synthetic || synthetic == 0 {
				model = first.model
			}
		case first.split():
			e.piece = results
			c.entries = append(c.entries, e)
			e.piece = rest
		}
		c.entries = append(c.entries, e)
		for _, i := range g.recs {
			c.order = append(c.order, int32(i))
		}
	}
	conv.Envelope.Model = f.ids.Text(model)
	conv.Leave(len(c.entries), c.entry)
	conv.Locate(func(i int) int64 { return c.recs[c.order[c.entries[i].first]].ref.Offset() })
	if err := f.title(c, conv); err != nil {
		return nil, err
	}
	// Few records can be checkpoints.
	at := map[session.Source]int{}
	for i, e := range c.entries {
		if r := c.recs[c.at(e)[0]]; r.summary || r.mark() != nil {
			m, err := c.entry(i)
			if err != nil {
				return nil, err
			}
			at[m.Message.Source] = i
		}
	}
	for n, cp := range checkpoints {
		if i, ok := at[compact.CheckpointSource(refs[n])]; ok && refs[n] != "" {
			cp.Entry = i
		}
		conv.Checkpoints = append(conv.Checkpoints, cp)
	}
	return conv, nil
}

// title names a side chain by its first words, and notes what was bridged and
// left out.
func (f *file) title(c *chat, conv *wire.Conversation) error {
	if c.bridged > 0 {
		f.note("%d records name a parent that is not in the file; each was taken to continue the record before it", c.bridged)
	}
	left := 0
	for _, r := range c.recs {
		if r.left {
			left++
		}
	}
	if left > 0 {
		f.note("%d attachments do not tell what the model was sent and were left out", left)
	}
	if !c.side {
		return nil
	}
	conv.Title = "side chain"
	if conv.Len() > 0 {
		e, err := c.entry(0)
		if err != nil {
			return err
		}
		words := strings.Fields(e.Message.Text())
		if len(words) > 0 {
			conv.Title += ": " + strings.Join(words[:min(len(words), 8)], " ")
		}
	}
	return nil
}

// entry reads the i-th live message.
func (c *chat) entry(i int) (wire.Entry, error) {
	en := c.entries[i]
	recs := c.at(en)
	first := c.recs[recs[0]]
	var head, last line
	var raw json.RawMessage
	var parts []session.Part
	for k, n := range recs {
		r := c.recs[n]
		l, b, err := c.file.load(r)
		if err != nil {
			return wire.Entry{}, err
		}
		p, _ := anthropic.Parts(l.content(r.kind))
		parts = append(parts, p...)
		if last = l; k == 0 {
			head, raw = l, b
		}
	}
	var e wire.Entry
	e.Time, _ = time.Parse(time.RFC3339, head.Time)
	res, other := anthropic.Split(parts)
	switch {
	case first.kind == kindAssistant:
		e.Message = assistant(&head, parts)
		// A figure from before a compaction says nothing of what is left.
		if int(recs[0]) >= c.lastBoundary {
			e.Usage = last.Message.Usage.Session(head.Message.Model)
		}
	case en.piece == results || en.piece == whole && len(res) > 0:
		e.Message = session.Message{Role: session.RoleTool, Parts: res, Source: session.Source{Kind: session.SourceTool}}
		if c.clear(res, int(recs[0])) {
			e.Message.Source = session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: FormCleared}
		}
	default:
		for i, p := range other {
			if t, ok := p.(session.ToolCall); ok { // only the model calls
				other[i] = session.Opaque{Kind: "tool_use", Raw: t.Raw}
			}
		}
		e.Message = session.Message{Role: session.RoleUser, Parts: other, Source: head.source(first.kind, other)}
		if first.summary {
			e.Message.Source = compact.CheckpointSource(c.file.identity(first))
		}
	}
	m := &e.Message
	if m.ID == "" {
		m.ID = head.UUID
	}
	if len(recs) == 1 && en.piece == whole {
		m.Origin = &session.Origin{Format: Format, Raw: raw}
	}
	if k := first.mark(); k != nil && k.Source != nil && en.piece != results {
		derived := m.Source
		if m.Source = *k.Source; m.Validate() != nil {
			m.Source = derived
		}
	}
	return e, nil
}

func assistant(l *line, parts []session.Part) session.Message {
	m := session.Message{ID: l.Message.ID, Role: session.RoleAssistant, Parts: parts}
	m.Source = session.Source{Kind: session.SourceModel, Provider: anthropic.Provider, Model: l.Message.Model}
	if l.Message.Model == syntheticModel {
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

// identity is that of the compaction whose summary the record is.
func (f *file) identity(r *record) string {
	if m := r.mark(); m != nil && m.ID != "" {
		return m.ID
	}
	return f.ids.Text(r.uuid)
}

// clearedAt finds, by call id and uuid, where a micro-compaction cleared a
// result or an attachment for the last time.
func (c *chat) clearedAt() {
	c.cleared = map[string]int{}
	for i, r := range c.recs {
		if r.rare == nil || r.rare.micro == nil {
			continue
		}
		for _, list := range [][]string{r.rare.micro.Tools, r.rare.micro.Attachments} {
			for _, id := range list {
				c.cleared[id] = i
			}
		}
	}
}

// clear shows results of the record at i as the agent sends them after a
// micro-compaction.
func (c *chat) clear(res []session.Part, i int) bool {
	any := false
	for k, p := range res {
		if r := p.(session.ToolResult); c.cleared[r.CallID] > i {
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
		m := c.recs[b].rare.compact
		cp := wire.Checkpoint{Entry: -1, Trigger: m.Trigger, TokensBefore: m.PreTokens, Hides: -1, Time: c.recs[b].rare.time}
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
		if m := c.recs[b].mark(); m != nil { // ours
			if m.ID == "" || m.Hides == nil {
				continue
			}
			ref, cp.Hides = m.ID, *m.Hides
		} else if k := slices.IndexFunc(c.recs[b:end], func(r *record) bool { return r.summary }); k >= 0 {
			ref = f.identity(c.recs[b+k])
		}
		list, refs = append(list, cp), append(refs, ref)
	}
	return list, refs
}
