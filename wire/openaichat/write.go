package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentcompact/agentcompact/wire"
)

// record is one element of a list of messages, or one value of a line.
type record struct {
	span
	// entry is the index of the entry; -1 for the envelope's and for records
	// that are no messages.
	entry int
}

// list is one conversation in the file: data[start:end] holds its records and
// what stands between them.
type list struct {
	start, end int
	lines      bool
	records    []record
	entries    int
	shape      shape
}

type writer struct {
	bom   []byte // stands before data
	data  []byte
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
	if items == nil {
		if len(w.bom) > 0 {
			if _, err := out.Write(w.bom); err != nil {
				return err
			}
		}
		_, err := out.Write(w.data)
		return err
	}
	l := &w.lists[conversation]
	body, err := w.splice(l, items)
	if err != nil {
		return fmt.Errorf("write %s: %w", Format, err)
	}
	for _, b := range [][]byte{w.bom, w.data[:l.start], body, w.data[l.end:]} {
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// splice returns what stands between the brackets of the list.
func (w *writer) splice(l *list, items []wire.Item) ([]byte, error) {
	place := make([]int, l.entries) // entry to record
	for i, r := range l.records {
		if r.entry >= 0 {
			place[r.entry] = i
		}
	}
	p := newPrinter(w.data, l)
	done := make([]bool, len(l.records))
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
		if it.Entry < -1 || it.Entry >= l.entries || it.Entry == -1 && it.Message == nil {
			return nil, fmt.Errorf("item with entry %d in a conversation of %d", it.Entry, l.entries)
		}
		if it.Entry >= 0 {
			i := place[it.Entry]
			if done[i] {
				return nil, fmt.Errorf("entry %d stands twice in the surface", it.Entry)
			}
			done[i] = true
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
	return p.finish(), nil
}

// printer writes records with the space that the file has between them.
type printer struct {
	data   []byte
	l      *list
	buf    bytes.Buffer
	last   int // the record written last; -1 at the start, -2 after a new one
	sep    []byte
	prefix string // of a new record's lines
	unit   string // one step of indentation; empty when records are on one line
}

func newPrinter(data []byte, l *list) *printer {
	p := &printer{data: data, l: l, last: -1}
	p.sep = []byte{','}
	if l.lines {
		p.sep = []byte{'\n'}
		if bytes.Contains(data, []byte("\r\n")) {
			p.sep = []byte("\r\n")
		}
		return p
	}
	if len(l.records) == 0 {
		return p
	}
	if len(l.records) > 1 {
		p.sep = p.gap(1)
	} else {
		p.sep = append(p.sep, p.gap(0)...)
	}
	one := l.records[0].of(data)
	nl := bytes.IndexByte(one, '\n')
	k := bytes.LastIndexByte(p.sep, '\n')
	if nl < 0 || k < 0 {
		return p
	}
	p.prefix = string(p.sep[k+1:])
	inner := string(one[nl+1 : space(one, nl)])
	if len(inner) > len(p.prefix) {
		p.unit = inner[len(p.prefix):]
	}
	return p
}

// gap returns what stands before the i-th record.
func (p *printer) gap(i int) []byte {
	from := p.l.start
	if i > 0 {
		from = p.l.records[i-1].end
	}
	to := p.l.end
	if i < len(p.l.records) {
		to = p.l.records[i].start
	}
	return p.data[from:to]
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

func (p *printer) record(i int) {
	p.between(i)
	p.buf.Write(p.l.records[i].of(p.data))
	p.last = i
}

func (p *printer) insert(list []json.RawMessage) {
	for _, raw := range list {
		p.between(-1)
		if p.unit == "" {
			raw = appendCompact(nil, raw)
			p.buf.Write(raw)
		} else if err := json.Indent(&p.buf, raw, p.prefix, p.unit); err != nil {
			p.buf.WriteString("null")
		}
		p.last = -2
	}
}

func (p *printer) finish() []byte {
	if p.last == -1 && len(p.l.records) > 0 {
		return nil
	}
	p.buf.Write(p.gap(len(p.l.records)))
	return p.buf.Bytes()
}
