// Package splice writes files with a list of records back with another surface:
// records that stay keep their bytes, as does everything around them.
//
// A reader cuts a list into records ([ListOf]) and says which records make
// which entries ([Group]); [Writer] does the rest with the format's own encoder.
package splice

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

// List is an array of a document. Start and End are inside its brackets.
type List struct {
	Start, End int
	Records    []Span
}

// ListOf cuts the array at v into its elements. The data must be valid.
func ListOf(data []byte, v Span) List {
	l := List{Start: v.Start + 1, End: v.End - 1}
	Elements(data, v, func(e Span) bool {
		l.Records = append(l.Records, e)
		return true
	})
	return l
}

// Group says that the records From to To-1 make the Count entries from Entry on.
// Records that no group names are no messages and stay where they are.
type Group struct {
	From, To     int
	Entry, Count int
}

// Piece is one item that cannot go back as the records that it was.
type Piece struct {
	// Entry is the entry that it is, -1 for a new one; Group the index of its
	// group, -1 for none.
	Entry, Group int
	// Message is what is to be written; Changed that it is not as it was read.
	Message *session.Message
	Changed bool
	// Compaction is set on a checkpoint.
	Compaction *wire.Compaction
}

// Conversation is one list of a file.
type Conversation struct {
	List   List
	Groups []Group
	// Entries are the entries; those of Left when it is set.
	Entries []wire.Entry
	Left    *wire.Conversation
	// Encode makes the records of neighboring pieces.
	Encode func(pieces []Piece) ([]json.RawMessage, error)
}

func (c *Conversation) len() int {
	if c.Left != nil {
		return c.Left.Len()
	}
	return len(c.Entries)
}

// Message returns the message of an entry.
func (c *Conversation) Message(entry int) (*session.Message, error) {
	if c.Left == nil {
		return &c.Entries[entry].Message, nil
	}
	e, err := c.Left.At(entry)
	return &e.Message, err
}

// Writer implements [wire.Writer] over the lists of a document.
type Writer struct {
	Format string
	Data   []byte
	Lists  []*Conversation
}

var _ wire.Writer = (*Writer)(nil)

// Write implements [wire.Writer].
func (w *Writer) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if conversation < 0 || conversation >= len(w.Lists) {
		return &wire.Error{Format: w.Format, Detail: fmt.Sprintf("there is no conversation %d; the file has %d", conversation, len(w.Lists))}
	}
	chunks := [][]byte{w.Data}
	if c := w.Lists[conversation]; items != nil {
		plan, err := Plan(w.Format, c, items)
		if err != nil {
			return err
		}
		chunks = [][]byte{w.Data[:c.List.Start], c.List.Print(w.Data, plan), w.Data[c.List.End:]}
	}
	for _, b := range chunks {
		if _, err := out.Write(b); err != nil {
			return fmt.Errorf("write %s: %w", w.Format, err)
		}
	}
	return nil
}

// Out is a record of the new list: one of the old by number, or a new one.
type Out struct {
	Record int // -1 for a new one
	Raw    json.RawMessage
}

// Check refuses items that name no entry, name one twice, or cannot be a message.
func Check(format string, entries int, items []wire.Item) error {
	seen := make(map[int]bool, len(items))
	for i, it := range items {
		detail := ""
		var cause error
		switch {
		case it.Entry >= entries || it.Entry < -1 || it.Entry == -1 && it.Message == nil:
			detail = fmt.Sprintf("item %d names no entry of the conversation and has no message", i)
		case it.Entry >= 0 && seen[it.Entry]:
			detail = fmt.Sprintf("entry %d stands twice in the surface", it.Entry)
		case it.Message != nil:
			if cause = it.Message.Validate(); cause != nil {
				detail = fmt.Sprintf("item %d cannot be written", i)
			}
		}
		if detail != "" {
			return &wire.Error{Format: format, Detail: detail, Err: cause}
		}
		seen[it.Entry] = true
	}
	return nil
}

// Unchanged reports whether the items are the entries as they were read.
func Unchanged(entries int, items []wire.Item) bool {
	if len(items) != entries {
		return false
	}
	for i, it := range items {
		if it.Entry != i || it.Message != nil {
			return false
		}
	}
	return true
}

// Plan decides which records go back and has the others encoded.
func Plan(format string, c *Conversation, items []wire.Item) ([]Out, error) {
	if err := Check(format, c.len(), items); err != nil {
		return nil, err
	}
	groupOf := make([]int, c.len())
	owned := make([]bool, len(c.List.Records))
	for g, grp := range c.Groups {
		for e := grp.Entry; e < grp.Entry+grp.Count; e++ {
			groupOf[e] = g
		}
		for r := grp.From; r < grp.To; r++ {
			owned[r] = grp.Count > 0
		}
	}
	var plan []Out
	next := 0 // records before it that are no messages are written
	others := func(until int) {
		for ; next < until; next++ {
			if !owned[next] {
				plan = append(plan, Out{Record: next})
			}
		}
	}
	first := len(c.List.Records)
	for _, g := range c.Groups {
		if g.Count > 0 {
			first = min(first, g.From)
		}
	}
	others(first) // what stands before the conversation comes first
	var pieces []Piece
	flush := func() error {
		if len(pieces) == 0 {
			return nil
		}
		list, err := c.Encode(pieces)
		if err != nil {
			return err
		}
		for _, raw := range list {
			plan = append(plan, Out{Record: -1, Raw: raw})
		}
		pieces = nil
		return nil
	}
	for i := 0; i < len(items); {
		it := items[i]
		if it.Entry >= 0 && it.Message == nil {
			if g := c.Groups[groupOf[it.Entry]]; whole(g, items[i:]) {
				if err := flush(); err != nil {
					return nil, err
				}
				others(g.From)
				for r := g.From; r < g.To; r++ {
					plan = append(plan, Out{Record: r})
				}
				next = max(next, g.To)
				i += g.Count
				continue
			}
		}
		p := Piece{Entry: it.Entry, Group: -1, Message: it.Message, Changed: it.Message != nil, Compaction: it.Compaction}
		if it.Entry >= 0 {
			p.Group = groupOf[it.Entry]
			if p.Message == nil {
				m, err := c.Message(it.Entry)
				if err != nil {
					return nil, err
				}
				p.Message = m
			}
			others(c.Groups[p.Group].From)
		}
		pieces = append(pieces, p)
		i++
	}
	if err := flush(); err != nil {
		return nil, err
	}
	others(len(c.List.Records))
	return plan, nil
}

// whole reports whether the items begin with all entries of the group.
func whole(g Group, items []wire.Item) bool {
	if len(items) < g.Count {
		return false
	}
	for k, it := range items[:g.Count] {
		if it.Entry != g.Entry+k || it.Message != nil {
			return false
		}
	}
	return true
}

// Print writes records with the space that the file has between them.
func (l *List) Print(data []byte, plan []Out) []byte {
	p := printer{data: data, l: l, last: -1, sep: []byte{','}}
	if len(l.Records) > 0 {
		if len(l.Records) > 1 {
			p.sep = p.gap(1)
		} else {
			p.sep = append(p.sep, p.gap(0)...)
		}
	}
	for _, o := range plan {
		if o.Record >= 0 {
			p.between(o.Record)
			p.buf.Write(l.Records[o.Record].Of(data))
			p.last = o.Record
			continue
		}
		p.between(-1)
		p.buf.Write(o.Raw) // not indented: what is in it keeps its bytes
		p.last = -2
	}
	if p.last == -1 && len(l.Records) > 0 {
		return nil
	}
	p.buf.Write(p.gap(len(l.Records)))
	return p.buf.Bytes()
}

type printer struct {
	data []byte
	l    *List
	buf  bytes.Buffer
	last int // the record written last; -1 at the start, -2 after a new one
	sep  []byte
}

// gap returns what stands before the i-th record.
func (p *printer) gap(i int) []byte {
	from, to := p.l.Start, p.l.End
	if i > 0 {
		from = p.l.Records[i-1].End
	}
	if i < len(p.l.Records) {
		to = p.l.Records[i].Start
	}
	return p.data[from:to:to]
}

func (p *printer) between(i int) {
	switch {
	case p.last == -1:
		p.buf.Write(p.gap(0))
	case i > 0 && p.last == i-1:
		p.buf.Write(p.gap(i))
	default:
		p.buf.Write(p.sep)
	}
}
