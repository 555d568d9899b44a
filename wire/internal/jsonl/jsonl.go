// Package jsonl reads files of one JSON value per line the way such files
// really are: with blank lines, two values on one line, values that are no
// objects, a last line cut short, a last line without newline, a byte order
// mark.
package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
)

// Value is one JSON value of a file, or what stands where one was expected.
type Value struct {
	// Line is the line from 1, Offset where Raw begins.
	Line   int
	Offset int
	// Raw is the value without surrounding space; it shares the file's bytes.
	// With an error it is the rest of the line.
	Raw []byte
	// Err says why Raw is no JSON value; nil when it is one.
	Err error
	// Last says that nothing but space follows in the file.
	Last bool
}

// IsObject reports whether the value is a JSON object.
func (v *Value) IsObject() bool { return v.Err == nil && v.Raw[0] == '{' }

// Torn reports whether the value looks like a record whose end was not written:
// the last one of the file, cut short.
func (v *Value) Torn() bool { return v.Last && errors.Is(v.Err, io.ErrUnexpectedEOF) }

const space = " \t\r\n"

var bom = []byte("\xef\xbb\xbf")

// Values iterates over the values of a file in memory in order. Blank lines are
// passed over. After a value that is no JSON the next line is tried.
func Values(data []byte) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		end := len(bytes.TrimRight(data, space))
		off := 0
		if bytes.HasPrefix(data, bom) {
			off = len(bom)
		}
		for line := 1; off < end; line++ {
			next := bytes.IndexByte(data[off:end], '\n')
			if next < 0 {
				next = end
			} else {
				next += off
			}
			if !values(data[off:next], off, line, end, yield) {
				return
			}
			off = next + 1
		}
	}
}

// values yields what stands in a line, or the rest of one, that begins at base
// in a file whose last value ends at end.
func values(text []byte, base, line, end int, yield func(Value) bool) bool {
	emit := func(start, stop int, err error) bool {
		return yield(Value{Line: line, Offset: base + start, Raw: text[start:stop:stop], Err: err, Last: base+stop >= end})
	}
	stop := len(bytes.TrimRight(text, space))
	off := stop - len(bytes.TrimLeft(text[:stop], space))
	if off == stop {
		return true
	}
	if json.Valid(text[off:stop]) {
		return emit(off, stop, nil)
	}
	dec := json.NewDecoder(bytes.NewReader(text[off:stop]))
	start := off
	for n := off; ; {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			n = stop - len(bytes.TrimLeft(text[n:stop], space))
			return n == stop || emit(n, stop, err)
		}
		n = start + int(dec.InputOffset())
		if !emit(n-len(raw), n, nil) {
			return false
		}
	}
}

// EndsLine reports whether a record may be appended as it is: the file is
// empty or its last line has a newline.
func EndsLine(data []byte) bool { return len(data) == 0 || data[len(data)-1] == '\n' }
