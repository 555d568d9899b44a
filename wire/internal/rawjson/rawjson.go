// Package rawjson changes single fields of JSON objects and keeps everything
// else byte for byte and in order.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Field is one member of an object.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Object is a JSON object with its members in order. The zero Object is empty.
type Object []Field

// Parse reads an object. Values share no memory with data.
func Parse(data []byte) (Object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var o Object
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := Field{Name: t.(string)}
		if err := dec.Decode(&f.Value); err != nil {
			return nil, err
		}
		o = append(o, f)
	}
	_, err = dec.Token()
	return o, err
}

// Get returns the value of a member, nil when there is none. Of members of one
// name, and of names that differ in letter case only, it is the last, which is
// what [json.Unmarshal] takes.
func (o Object) Get(name string) json.RawMessage {
	for i := len(o) - 1; i >= 0; i-- {
		if is(o[i].Name, name) {
			return o[i].Value
		}
	}
	return nil
}

// Set gives a member a value, in place of what [Object.Get] returns or at the
// end. Other members that go by the name are removed. A value is JSON already
// when it is a [json.RawMessage].
func (o *Object) Set(name string, value any) {
	at := len(*o) - 1
	for at >= 0 && !is((*o)[at].Name, name) {
		at--
	}
	if at < 0 {
		*o = append(*o, Field{name, Marshal(value)})
		return
	}
	f := Field{name, Marshal(value)}
	kept := (*o)[:0]
	for i, g := range *o {
		switch {
		case i == at:
			kept = append(kept, f)
		case !is(g.Name, name):
			kept = append(kept, g)
		}
	}
	*o = kept
}

// Delete removes a member, and all that go by its name.
func (o *Object) Delete(name string) {
	kept := (*o)[:0]
	for _, f := range *o {
		if !is(f.Name, name) {
			kept = append(kept, f)
		}
	}
	*o = kept
}

func is(key, name string) bool { return key == name || strings.EqualFold(key, name) }

// Clone returns a copy whose members can be changed.
func (o Object) Clone() Object { return append(Object(nil), o...) }

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) { return o.Bytes(), nil }

// Bytes returns the object as JSON without a newline.
func (o Object) Bytes() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(Marshal(f.Name))
		b.WriteByte(':')
		b.Write(f.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// Marshal returns a value as JSON with <, > and & as they are. The value must
// be one that JSON can hold.
func Marshal(v any) json.RawMessage {
	switch v := v.(type) {
	case json.RawMessage:
		if v == nil {
			return json.RawMessage("null")
		}
		return v
	case Object:
		return v.Bytes()
	case []json.RawMessage: // encoding/json would take their spaces out
		list := make([][]byte, len(v))
		for i, raw := range v {
			list[i] = raw
		}
		return array(list)
	case []Object:
		list := make([][]byte, len(v))
		for i, o := range v {
			list[i] = o.Bytes()
		}
		return array(list)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("rawjson: " + err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func array(list [][]byte) json.RawMessage {
	return append(append([]byte{'['}, bytes.Join(list, []byte{','})...), ']')
}

// Kind returns the first byte of a value that tells its kind ('{', '[', '"',
// 't', 'f', 'n', '0' for a number), 0 for none.
func Kind(raw []byte) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return '0'
}

// String returns the text of a JSON string, and false for anything else.
func String(raw []byte) (string, bool) {
	if Kind(raw) != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// Elements returns the elements of a JSON array, and false for anything else.
func Elements(raw []byte) ([]json.RawMessage, bool) {
	if Kind(raw) != '[' {
		return nil, false
	}
	var list []json.RawMessage
	err := json.Unmarshal(raw, &list)
	return list, err == nil
}
