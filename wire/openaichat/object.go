package openaichat

import (
	"bytes"
	"encoding/json"

	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// member is one field of an object, its value raw.
type member struct {
	key string
	val json.RawMessage
}

// object is a JSON object whose fields keep their order.
type object []member

// parseObject splits an object; false when b is none.
func parseObject(b []byte) (object, bool) {
	v := splice.At(b, 0)
	if v.Kind(b) != '{' {
		return nil, false
	}
	var o object
	splice.Members(b, v, func(key string, m splice.Span) bool {
		o = append(o, member{key, m.Of(b)})
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
	v := splice.At(b, 0)
	if v.Kind(b) != '[' {
		return nil, false
	}
	var out []json.RawMessage
	splice.Elements(b, v, func(e splice.Span) bool {
		out = append(out, e.Of(b))
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
	return splice.Unquote(b), true
}

func isNull(b []byte) bool { return len(b) == 0 || string(b) == "null" }
