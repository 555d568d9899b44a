package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// record is one element of a list of messages, or one value of a line.
type record struct {
	jsonl.Ref
	// entry is the index of the entry; -1 for the envelope's and for records
	// that are no messages.
	entry int32
}

// list is one conversation in the file: from start to end stand its records and
// what is between them.
type list struct {
	start, end int64
	lines      bool
	records    []record
	entries    int
	shape      shape
	// body is set for a request body on a line, which has the list.
	body *body
}

type writer struct {
	text  *jsonl.File
	lists []list
}

// Write implements [wire.Writer].
func (w *writer) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if conversation < 0 || conversation >= len(w.lists) {
		return fmt.Errorf("write %s: there is no conversation %d in a file of %d", Format, conversation, len(w.lists))
	}
	var err error
	switch l := &w.lists[conversation]; {
	case items == nil:
		err = w.text.Copy(ctx, out)
	case l.body != nil:
		err = w.writeBody(ctx, out, l.body, items)
	default:
		err = w.splice(ctx, out, l, items)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", Format, err)
	}
	return nil
}

// writeBody writes the file with another request body on its line.
func (w *writer) writeBody(ctx context.Context, out io.Writer, b *body, items []wire.Item) error {
	in, err := b.reread(&reader{})
	if err != nil {
		return err
	}
	var line bytes.Buffer
	in.w.text = in.text
	if err := in.w.splice(ctx, &line, &in.w.lists[0], items); err != nil {
		return err
	}
	if err := w.text.Check(ctx); err != nil {
		return err
	}
	if err := w.text.CopyRange(ctx, out, 0, b.ref.Offset()); err != nil {
		return err
	}
	if _, err := out.Write(line.Bytes()); err != nil {
		return err
	}
	return w.text.CopyRange(ctx, out, b.ref.End(), w.text.Size())
}

// splice writes the file with the surface in the place of the list.
func (w *writer) splice(ctx context.Context, out io.Writer, l *list, items []wire.Item) error {
	place := make([]int, l.entries) // entry to record
	for i, r := range l.records {
		if r.entry >= 0 {
			place[r.entry] = i
		}
	}
	done := make([]bool, l.entries)
	for _, it := range items {
		switch {
		case it.Entry < -1 || it.Entry >= l.entries || it.Entry == -1 && it.Message == nil:
			return fmt.Errorf("item with entry %d in a conversation of %d", it.Entry, l.entries)
		case it.Entry >= 0 && done[it.Entry]:
			return fmt.Errorf("entry %d stands twice in the surface", it.Entry)
		case it.Entry >= 0:
			done[it.Entry] = true
		}
	}
	if err := w.text.Check(ctx); err != nil {
		return err
	}
	p, err := newPrinter(ctx, w.text, l, out)
	if err != nil {
		return err
	}
	p.copy(0, l.start)
	next := 0 // records before it that are no entries are written
	others := func(until int) {
		for ; next < until; next++ {
			if l.records[next].entry < 0 {
				p.record(next)
			}
		}
	}
	// The envelope and what stands with it come first.
	first := len(l.records)
	if l.entries > 0 {
		first = place[0]
	}
	others(first)
	for _, it := range items {
		if it.Entry >= 0 {
			i := place[it.Entry]
			others(i)
			if it.Message == nil {
				p.record(i)
				continue
			}
			p.insert(rawObjects(encode(it.Message, l.shape)))
			continue
		}
		if raw := original(it.Message); raw != nil && json.Valid(raw) {
			p.insert([]json.RawMessage{raw})
			continue
		}
		p.insert(rawObjects(encode(it.Message, l.shape)))
	}
	others(len(l.records))
	p.finish()
	p.copy(l.end, w.text.Size())
	p.flush()
	return p.err
}

// printer writes records with the space that the file has between them.
type printer struct {
	ctx    context.Context
	text   *jsonl.File
	out    io.Writer
	err    error
	from   int64 // what stands from here to until is to be copied
	until  int64
	l      *list
	last   int // the record written last; -1 at the start, -2 after a new one
	sep    []byte
	prefix string // of a new record's lines
	unit   string // one step of indentation; empty when records are on one line
}

func newPrinter(ctx context.Context, text *jsonl.File, l *list, out io.Writer) (*printer, error) {
	p := &printer{ctx: ctx, text: text, out: out, l: l, last: -1, sep: []byte{','}}
	if l.lines {
		p.sep = []byte{'\n'}
		if len(l.records) > 1 {
			between, err := p.read(p.gap(1))
			if err == nil && bytes.Contains(between, []byte("\r\n")) {
				p.sep = []byte("\r\n")
			}
			return p, err
		}
		return p, nil
	}
	if len(l.records) == 0 {
		return p, nil
	}
	var err error
	if len(l.records) > 1 {
		p.sep, err = p.read(p.gap(1))
	} else {
		var lead []byte
		lead, err = p.read(p.gap(0))
		p.sep = append(p.sep, lead...)
	}
	if err != nil {
		return nil, err
	}
	one, err := text.Load(l.records[0].Ref)
	if err != nil {
		return nil, err
	}
	nl := bytes.IndexByte(one, '\n')
	k := bytes.LastIndexByte(p.sep, '\n')
	if nl < 0 || k < 0 {
		return p, nil
	}
	p.prefix = string(p.sep[k+1:])
	inner := string(one[nl+1 : splice.Space(one, nl)])
	if len(inner) > len(p.prefix) {
		p.unit = inner[len(p.prefix):]
	}
	return p, nil
}

// gap returns where what stands before the i-th record stands.
func (p *printer) gap(i int) (from, to int64) {
	from, to = p.l.start, p.l.end
	if i > 0 {
		from = p.l.records[i-1].End()
	}
	if i < len(p.l.records) {
		to = p.l.records[i].Offset()
	}
	return from, to
}

func (p *printer) read(from, to int64) ([]byte, error) {
	var b bytes.Buffer
	err := p.text.CopyRange(p.ctx, &b, from, to)
	return b.Bytes(), err
}

// copy writes what the file has from from to to, neighbors in one go.
func (p *printer) copy(from, to int64) {
	if from != p.until {
		p.flush()
		p.from = from
	}
	p.until = to
}

func (p *printer) flush() {
	if p.err == nil && p.from < p.until {
		p.err = p.text.CopyRange(p.ctx, p.out, p.from, p.until)
	}
	p.from = p.until
}

func (p *printer) write(b []byte) {
	p.flush()
	if p.err == nil {
		_, p.err = p.out.Write(b)
	}
}

func (p *printer) between(i int) {
	switch {
	case p.last == -1:
		p.copy(p.gap(0))
	case i > 0 && p.last == i-1:
		p.copy(p.gap(i))
	default:
		p.write(p.sep)
	}
}

func (p *printer) record(i int) {
	p.between(i)
	p.copy(p.l.records[i].Offset(), p.l.records[i].End())
	p.last = i
}

func (p *printer) insert(list []json.RawMessage) {
	for _, raw := range list {
		p.between(-1)
		if p.unit == "" {
			p.write(appendCompact(nil, raw))
		} else {
			var b bytes.Buffer
			if err := json.Indent(&b, raw, p.prefix, p.unit); err != nil {
				b.WriteString("null")
			}
			p.write(b.Bytes())
		}
		p.last = -2
	}
}

func (p *printer) finish() {
	if p.last == -1 && len(p.l.records) > 0 {
		return
	}
	p.copy(p.gap(len(p.l.records)))
}
