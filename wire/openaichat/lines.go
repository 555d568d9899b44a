package openaichat

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/agentcompact/agentcompact/wire"
)

// linewise reports whether data that is not one JSON document has one value a
// line: its first line is a value by itself, or a torn object followed by one.
func linewise(data []byte) bool {
	var first []byte
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
		case first == nil:
			if values(line) {
				return true
			}
			if !bytes.HasPrefix(line, []byte(`{"`)) {
				return false
			}
			first = line
		default:
			return line[0] == '{' && values(line)
		}
	}
	return false
}

// values reports whether a line begins with a whole value.
func values(line []byte) bool {
	end, _ := valueEnd(line, 0)
	return json.Valid(line[:end])
}

// lines reads one message or one request body a line. What it cannot read stays
// in the file and is noted.
func (r *reader) lines() error {
	c := &wire.Conversation{}
	b := &builder{r: r, c: c, container: lineMessages}
	bodies := 0
	off, n := 0, 0
	for line := range bytes.Lines(r.data) {
		n++
		i, end := space(r.data, off), off+len(line)
		off = end
		for i < end {
			stop, _ := valueEnd(r.data[:end], i)
			v := span{i, stop, true}
			i = space(r.data, stop)
			if !json.Valid(v.of(r.data)) {
				v.end = v.start + len(bytes.TrimRight(r.data[v.start:end], " \r\n\t"))
				i = end
				what := "is not valid JSON"
				if end == len(r.data) && line[len(line)-1] != '\n' {
					what = "is cut short"
				}
				r.skip(b, v, n, what)
				continue
			}
			o, ok := parseObject(v.of(r.data))
			switch {
			case !ok:
				r.skip(b, v, n, "is "+typeName(v.of(r.data))+" and no message")
			case o.get("role") != nil:
				if err := b.add(v, fmt.Sprintf("line %d", n), n); err != nil {
					return err
				}
			case isList(o.get("messages")):
				bodies++
				if err := r.body(v, bodies); err != nil {
					err.Line = n
					return err
				}
			default:
				r.skip(b, v, n, "is no message")
			}
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
	r.finish(b, 0, len(r.data), true)
	return nil
}

func isList(v json.RawMessage) bool { return len(v) > 0 && v[0] == '[' }

func (r *reader) skip(b *builder, v span, line int, what string) {
	b.records = append(b.records, record{span: v, entry: -1})
	switch n := len(r.file.Notes); {
	case n < maxNotes:
		r.file.Notes = append(r.file.Notes, fmt.Sprintf("line %d %s; it was passed over and stays in the file", line, what))
	case n == maxNotes:
		r.file.Notes = append(r.file.Notes, "more lines were passed over and stay in the file")
	}
}

// maxNotes is how many lines are noted one by one.
const maxNotes = 20

// body reads the request body of a line.
func (r *reader) body(v span, n int) *wire.Error {
	l := layout{container: lineBodies}
	var err error
	eachMember(r.data, v.start, func(key []byte, m span) bool {
		if unquote(key) == "messages" {
			err = r.list(listSpan{span: m, doc: v, name: "messages", title: fmt.Sprintf("request %d", n)}, l)
		}
		return err == nil
	})
	e, _ := err.(*wire.Error)
	return e
}
