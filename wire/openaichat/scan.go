package openaichat

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// The functions of this file walk over raw JSON by position, so that records
// can be cut out and put back byte for byte. They do not validate: they are for
// data that json.Valid took, and for guesses about data that may end anywhere.
// None of them reads past the end.

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// stringEnd returns the position after the string that begins at i, and false
// when the data ends inside it.
func stringEnd(b []byte, i int) (int, bool) {
	start := i
	i++
	for i < len(b) {
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

// valueEnd returns the position after the value that begins at i, and false
// when the data ends inside it.
func valueEnd(b []byte, i int) (int, bool) {
	if i >= len(b) {
		return len(b), false
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				end, ok := stringEnd(b, i)
				if !ok {
					return end, false
				}
				i = end
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
				if depth == 0 {
					return i + 1, true
				}
			}
			i++
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

// span is a value in the data: b[start:end]. It is whole when it ended before
// the data did.
type span struct {
	start, end int
	whole      bool
}

func (s span) of(b []byte) []byte { return b[s.start:s.end] }

// eachMember walks over the object that begins at i. The key is raw, with its
// quotes. fn returns false to stop. It reports whether the object was closed.
func eachMember(b []byte, i int, fn func(key []byte, v span) bool) bool {
	i = space(b, i+1)
	for i < len(b) {
		switch b[i] {
		case '}':
			return true
		case ',':
			i = space(b, i+1)
			continue
		case '"':
		default:
			return false
		}
		end, ok := stringEnd(b, i)
		if !ok {
			return false
		}
		key := b[i:end]
		i = space(b, end)
		if i >= len(b) || b[i] != ':' {
			return false
		}
		i = space(b, i+1)
		if i >= len(b) {
			return false
		}
		end, ok = valueEnd(b, i)
		if !fn(key, span{i, end, ok}) || !ok {
			return false
		}
		i = space(b, end)
	}
	return false
}

// eachElement walks over the array that begins at i, as [eachMember] does.
func eachElement(b []byte, i int, fn func(v span) bool) bool {
	i = space(b, i+1)
	for i < len(b) {
		switch b[i] {
		case ']':
			return true
		case ',':
			i = space(b, i+1)
			continue
		}
		end, ok := valueEnd(b, i)
		if !fn(span{i, end, ok}) || !ok {
			return false
		}
		i = space(b, end)
	}
	return false
}

// member is one field of an object, its value raw.
type member struct {
	key string
	val json.RawMessage
}

// object is a JSON object whose fields keep their order.
type object []member

// parseObject splits an object; false when b is none.
func parseObject(b []byte) (object, bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return nil, false
	}
	var o object
	eachMember(b, i, func(key []byte, v span) bool {
		o = append(o, member{unquote(key), v.of(b)})
		return true
	})
	return o, true
}

// get returns the value of the last field of that name; nil when there is none.
func (o object) get(key string) json.RawMessage {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].key == key {
			return o[i].val
		}
	}
	return nil
}

func (o object) str(key string) (string, bool) { return asString(o.get(key)) }

// set replaces the field or appends it.
func (o *object) set(key string, val json.RawMessage) {
	for i := len(*o) - 1; i >= 0; i-- {
		if (*o)[i].key == key {
			(*o)[i].val = val
			return
		}
	}
	*o = append(*o, member{key, val})
}

// drop removes all fields of that name.
func (o *object) drop(key string) {
	out := (*o)[:0:0]
	for _, m := range *o {
		if m.key != key {
			out = append(out, m)
		}
	}
	*o = out
}

// json returns the object on one line.
func (o object) json() json.RawMessage {
	dst := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, quote(m.key)...)
		dst = append(dst, ':')
		dst = appendCompact(dst, m.val)
	}
	return append(dst, '}')
}

// appendCompact appends a value without the space between its tokens.
func appendCompact(dst, val []byte) []byte {
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, val); err != nil {
		return append(dst, "null"...)
	}
	return buf.Bytes()
}

// elements returns the values of an array; false when b is none.
func elements(b []byte) ([]json.RawMessage, bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '[' {
		return nil, false
	}
	var out []json.RawMessage
	eachElement(b, i, func(v span) bool {
		out = append(out, v.of(b))
		return true
	})
	return out, true
}

// array is the reverse of elements.
func array(list []json.RawMessage) json.RawMessage {
	dst := []byte{'['}
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendCompact(dst, v)
	}
	return append(dst, ']')
}

// unquote decodes a raw string; what is wrong in it becomes U+FFFD.
func unquote(b []byte) string {
	if len(b) >= 2 && bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
		return string(b[1 : len(b)-1])
	}
	var s string
	_ = json.Unmarshal(b, &s) // an invalid string is an empty one
	return s
}

// quote encodes a string; bytes that are not UTF-8 become U+FFFD.
func quote(s string) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // strings always encode
	return bytes.TrimRight(buf.Bytes(), "\n")
}

func asString(b []byte) (string, bool) {
	if len(b) == 0 || b[0] != '"' {
		return "", false
	}
	return unquote(b), true
}

func isNull(b []byte) bool { return len(b) == 0 || string(b) == "null" }
