package opencode

import (
	"slices"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

// What a compaction hides is still in the session, so taking one back is taking
// its request and its summary away. The agent itself takes messages away when a
// person reverts.

// restore makes the edit that takes back a compaction, and those after it: the
// surface begins with what the model saw right before. Messages behind the
// compaction stay where they are if the surface has them too. It reports whether
// there is such a compaction.
func (e *editor) restore(items []wire.Item) (bool, error) {
	list := e.f.compactions()
	for n := len(list) - 1; n >= 0; n-- {
		was := &file{id: e.f.id, msgs: e.f.msgs[:list[n].request]}
		was.build()
		size := len(was.chat.from)
		if size == 0 || size > len(items) {
			continue
		}
		ok := true
		for i := 0; ok && i < size; i++ {
			ok = e.is(&was.chat.conv.Entries[i].Message, items[i])
		}
		if !ok {
			continue
		}
		for i := range size {
			if err := e.settle(was.chat.from[i], &was.chat.conv.Entries[i].Message, items[i]); err != nil {
				return true, err
			}
		}
		rest, err := e.keep(list[n:], items[size:])
		if err != nil {
			return true, err
		}
		return true, e.add(rest)
	}
	return false, nil
}

// keep goes through the messages from the first of the compactions on: those that
// the items have, in order, stay, the others are taken away. It returns the items
// that are no such message.
func (e *editor) keep(undone []compaction, items []wire.Item) ([]wire.Item, error) {
	for i := undone[0].request; i < len(e.f.msgs); i++ {
		if slices.ContainsFunc(undone, func(c compaction) bool { return c.request == i || c.summary == i }) {
			e.out.gone[i] = true
			continue
		}
		entries := e.f.split(i)
		same := len(entries) <= len(items)
		for k := 0; same && k < len(entries); k++ {
			same = e.is(&entries[k].entry.Message, items[k])
		}
		if !same {
			e.out.gone[i] = true
			continue
		}
		for k := range entries {
			if err := e.settle(entries[k].from, &entries[k].entry.Message, items[k]); err != nil {
				return nil, err
			}
		}
		items = items[len(entries):]
	}
	return items, nil
}

// is reports whether an item is a message of the file, perhaps with other texts in
// its results.
func (e *editor) is(was *session.Message, it wire.Item) bool {
	m := e.of(it)
	if equal(was, m) {
		return true
	}
	return was.Role == session.RoleTool && m.Role == session.RoleTool && len(was.Parts) == len(m.Parts) &&
		len(was.Results()) == len(was.Parts) && slices.Equal(was.Results(), m.Results())
}

// settle changes a message of the file in its place if the item's is another one.
func (e *editor) settle(at from, was *session.Message, it wire.Item) error {
	if m := e.of(it); !equal(was, m) {
		return e.change(at, was, m)
	}
	return nil
}

// known reports whether the file has the item's checkpoint already.
func (f *file) known(it wire.Item) bool {
	return it.Compaction != nil && slices.ContainsFunc(f.compactions(), func(c compaction) bool { return f.msgs[c.summary].ref() == it.Compaction.ID })
}

// equal reports whether two messages say the same. What they are stored as does
// not count.
func equal(a, b *session.Message) bool {
	return a.Role == b.Role && slices.EqualFunc(a.Parts, b.Parts, equalPart)
}

func equalPart(a, b session.Part) bool {
	switch a := a.(type) {
	case session.Text:
		b, ok := b.(session.Text)
		return ok && a.Text == b.Text
	case session.Reasoning:
		b, ok := b.(session.Reasoning)
		return ok && a.Text == b.Text
	case session.Image:
		b, ok := b.(session.Image)
		return ok && a.URL == b.URL && a.MediaType == b.MediaType
	case session.File:
		b, ok := b.(session.File)
		return ok && a.URL == b.URL && a.MediaType == b.MediaType && a.Name == b.Name
	case session.ToolCall:
		b, ok := b.(session.ToolCall)
		return ok && a.ID == b.ID && a.Name == b.Name && a.Arguments == b.Arguments
	case session.ToolResult:
		b, ok := b.(session.ToolResult)
		return ok && a.CallID == b.CallID && a.IsError == b.IsError && slices.EqualFunc(a.Parts, b.Parts, equalPart)
	}
	return false
}
