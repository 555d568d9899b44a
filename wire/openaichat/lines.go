package openaichat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// linewise reports whether the beginning of a file has one value a line, and a
// second line: its first line is a value by itself, or a torn object followed by
// one.
func linewise(head []byte) bool {
	head = head[splice.Begin(head):]
	var first []byte
	whole := false
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
		case first == nil:
			v := splice.At(line, 0)
			whole = json.Valid(v.Of(line))
			if whole && splice.Space(line, v.End) < len(line) {
				return true // two on one line
			}
			if !whole && !bytes.HasPrefix(line, []byte(`{"`)) {
				return false
			}
			first = line
		default:
			return whole || line[0] == '{' && json.Valid(splice.At(line, 0).Of(line))
		}
	}
	return false
}

// cutShort reports whether a file in memory is a document without its end, which
// may have a message a line, too.
func cutShort(text *jsonl.File) bool {
	shape, _ := text.Shape() // memory can be read
	return shape == jsonl.Cut
}

// lines reads one message or one request body a line. What it cannot read stays
// in the file and is noted.
func (r *reader) lines() error {
	b := &builder{r: r, c: &wire.Conversation{}, container: lineMessages}
	bodies := 0
	for v, err := range r.text.Values() {
		if err != nil {
			return &wire.Error{Format: Format, Detail: "the file could not be read", Err: err}
		}
		if v.Err != nil {
			what := "is not valid JSON"
			if v.Torn() {
				what = "is cut short"
			}
			r.skip(b, v, what)
			continue
		}
		o, ok := parseObject(v.Raw)
		switch {
		case !ok:
			r.skip(b, v, "is "+splice.TypeName(v.Raw)+" and no message")
		case o.get("role") != nil:
			if err := b.add(r.text.Ref(v), v.Raw, fmt.Sprintf("line %d", v.Line), v.Line); err != nil {
				return err
			}
		case isList(o.get("messages")):
			bodies++
			if err := r.body(v, bodies); err != nil {
				return err
			}
		default:
			r.skip(b, v, "is no message")
		}
	}
	switch {
	case bodies > 0 && b.messages > 0:
		return fault(0, "some lines are messages and others are requests; expected one kind")
	case bodies > 0:
		r.file.Container = lineBodies
		return nil
	case b.messages == 0:
		return fault(0, "no line is a chat message; expected objects with role and content")
	}
	r.file.Container = lineMessages
	r.finish(b, 0, r.text.Size(), true)
	return nil
}

func isList(v json.RawMessage) bool { return len(v) > 0 && v[0] == '[' }

func (r *reader) skip(b *builder, v jsonl.Value, what string) {
	b.records = append(b.records, record{Ref: r.text.Ref(v), entry: -1})
	switch n := len(r.file.Notes); {
	case n < maxNotes:
		r.file.Notes = append(r.file.Notes, fmt.Sprintf("line %d %s; it was passed over and stays in the file", v.Line, what))
	case n == maxNotes:
		r.file.Notes = append(r.file.Notes, "more lines were passed over and stay in the file")
	}
}

// maxNotes is how many lines are noted one by one.
const maxNotes = 20

// body is the request body of a line, which is read again when it is needed.
type body struct {
	text  *jsonl.File
	ref   jsonl.Ref
	title string
	cache *bodyCache
}

// bodyCache holds the body that was asked for last.
type bodyCache struct {
	mu      sync.Mutex
	of      *body
	entries []wire.Entry
}

// body takes in the request body of a line.
func (r *reader) body(v jsonl.Value, n int) error {
	b := &body{text: r.text, ref: r.text.Ref(v), title: fmt.Sprintf("request %d", n), cache: &r.bodies}
	f, err := b.parse(r, v.Raw)
	if err != nil {
		err.Line = v.Line
		err.Offset += int64(v.Offset)
		return err
	}
	c := *f.file.Conversations[0]
	n = len(c.Entries)
	c.Envelope = *c.Envelope.Clone() // the line is not kept
	c.Leave(n, b.entry)
	r.file.Conversations = append(r.file.Conversations, &c)
	r.file.Notes = append(r.file.Notes, f.file.Notes...)
	r.w.lists = append(r.w.lists, list{body: b, entries: n})
	return nil
}

// parse reads the body as a document.
func (b *body) parse(r *reader, raw []byte) (*reader, *wire.Error) {
	in := &reader{ctx: r.ctx, text: jsonl.Bytes(raw), data: raw, file: &wire.File{Format: Format}, w: &writer{}}
	doc := splice.At(raw, 0)
	err := in.list(listSpan{Span: splice.Get(raw, doc, "messages"), doc: doc, name: "messages", title: b.title}, layout{container: lineBodies})
	if err == nil {
		return in, nil
	}
	e, ok := err.(*wire.Error)
	if !ok {
		e = &wire.Error{Format: Format, Detail: "the request could not be read", Err: err}
	}
	return nil, e
}

// reread reads the body from the file.
func (b *body) reread(r *reader) (*reader, error) {
	raw, err := b.text.Load(b.ref)
	if err != nil {
		return nil, &wire.Error{Format: Format, Detail: b.title + " could not be read again", Err: err}
	}
	in, e := b.parse(r, raw)
	if e != nil {
		return nil, e
	}
	return in, nil
}

// entry reads a message of the body.
func (b *body) entry(i int) (wire.Entry, error) {
	b.cache.mu.Lock()
	defer b.cache.mu.Unlock()
	if b.cache.of != b {
		in, err := b.reread(&reader{})
		if err != nil {
			return wire.Entry{}, err
		}
		b.cache.of, b.cache.entries = b, in.file.Conversations[0].Entries
	}
	return b.cache.entries[i], nil
}
