package splice

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// The functions of this file walk over raw JSON by position. They do not
// validate: they are for data that json.Valid took, and for guesses about data
// that may end anywhere. None of them reads past the end.

// Span is a value in the data: data[Start:End]. It is Whole when it ended before
// the data did. The zero Span is no value.
type Span struct {
	Start, End int
	Whole      bool
}

// Of returns the bytes of the value.
func (s Span) Of(b []byte) json.RawMessage { return b[s.Start:s.End:s.End] }

// IsZero reports whether it is no value.
func (s Span) IsZero() bool { return s == Span{} }

// Kind returns the first byte of the value, 0 for none.
func (s Span) Kind(b []byte) byte {
	if s.Start >= s.End {
		return 0
	}
	return b[s.Start]
}

// Space returns the position of the next byte that is not white space.
func Space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// stringEnd returns the position after the string that begins at i, and false
// when the data ends inside it.
func stringEnd(b []byte, i int) (int, bool) {
	start := i
	for i++; i < len(b); {
		k := bytes.IndexByte(b[i:], '"')
		if k < 0 {
			break
		}
		i += k
		slashes := 0
		for j := i - 1; j > start && b[j] == '\\'; j-- {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i, true
		}
	}
	return len(b), false
}

// ValueEnd returns the position after the value that begins at i, and false
// when the data ends inside it.
func ValueEnd(b []byte, i int) (int, bool) {
	if i >= len(b) {
		return len(b), false
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		for depth := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				end, ok := stringEnd(b, i)
				if !ok {
					return end, false
				}
				i = end - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1, true
				}
			}
		}
		return len(b), false
	}
	start := i
	for i < len(b) && !strings.ContainsRune(" \n\r\t,:]}[{\"", rune(b[i])) {
		i++
	}
	if i == start {
		i++ // never stand still
	}
	return i, i < len(b)
}

// At returns the value that begins at or after i.
func At(b []byte, i int) Span {
	if i = Space(b, i); i >= len(b) {
		return Span{}
	}
	end, ok := ValueEnd(b, i)
	return Span{i, end, ok}
}

// Members walks over the object v. fn returns false to stop.
func Members(b []byte, v Span, fn func(key string, m Span) bool) {
	if v.Kind(b) != '{' {
		return
	}
	b = b[:v.End]
	for i := Space(b, v.Start+1); i < len(b); i = Space(b, i) {
		switch b[i] {
		case ',':
			i++
			continue
		case '"':
		default:
			return
		}
		end, ok := stringEnd(b, i)
		if !ok {
			return
		}
		key := Unquote(b[i:end])
		if i = Space(b, end); i >= len(b) || b[i] != ':' {
			return
		}
		if i = Space(b, i+1); i >= len(b) {
			return
		}
		end, ok = ValueEnd(b, i)
		if !fn(key, Span{i, end, ok || v.Whole}) || !ok {
			return
		}
		i = end
	}
}

// Elements walks over the array v. fn returns false to stop.
func Elements(b []byte, v Span, fn func(e Span) bool) {
	if v.Kind(b) != '[' {
		return
	}
	b = b[:v.End]
	for i := Space(b, v.Start+1); i < len(b); i = Space(b, i) {
		switch b[i] {
		case ']':
			return
		case ',':
			i++
			continue
		}
		end, ok := ValueEnd(b, i)
		if !fn(Span{i, end, ok || v.Whole}) || !ok {
			return
		}
		i = end
	}
}

// Top returns the members of an object by name; of equals the last.
func Top(b []byte, v Span) map[string]Span {
	out := map[string]Span{}
	Members(b, v, func(key string, m Span) bool {
		out[key] = m
		return true
	})
	return out
}

// Get returns a member of an object; the zero Span when there is none.
func Get(b []byte, v Span, name string) Span { return Top(b, v)[name] }

// Text returns the text of a string; empty for anything else.
func Text(b []byte, v Span) string {
	if v.Kind(b) != '"' || !v.Whole && b[v.End-1] != '"' {
		return ""
	}
	return Unquote(b[v.Start:v.End])
}

// Unquote decodes a raw string; what is wrong in it becomes U+FFFD.
func Unquote(b []byte) string {
	if len(b) >= 2 && bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
		return string(b[1 : len(b)-1])
	}
	var s string
	_ = json.Unmarshal(b, &s) // an invalid string is an empty one
	return s
}

var bom = []byte("\xef\xbb\xbf")

// Begin returns the position of the first value of a file, behind a byte order
// mark and white space.
func Begin(b []byte) int {
	i := 0
	if bytes.HasPrefix(b, bom) {
		i = len(bom)
	}
	return Space(b, i)
}
