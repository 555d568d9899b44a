package openaichat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/session"
)

// maxID is the longest call id that providers of this shape take.
const maxID = 40

// validID reports whether providers take the call id.
func validID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_-.:|/+=", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// wireID returns the id of the next call on the wire: its own, unless it is in
// use already or no provider takes it. It depends on the calls before it only.
func (a *assembler) wireID(id string) string {
	base := id
	if !validID(id) {
		sum := sha256.Sum256([]byte(id))
		base = "call_" + hex.EncodeToString(sum[:8])
	}
	out := base
	n := max(2, a.ids[base])
	for ; a.ids[out] > 0; n++ {
		suffix := "_" + strconv.Itoa(n)
		out = base[:min(len(base), maxID-len(suffix))] + suffix
	}
	a.ids[base] = n
	a.ids[out] = max(1, a.ids[out])
	return out
}

// wireCall makes the request form of a call.
func wireCall(c session.ToolCall, id string) json.RawMessage {
	kind, arg := "function", "arguments"
	if c.Custom {
		kind, arg = "custom", "input"
	}
	name := c.Name
	if name == "" {
		name = "unknown"
	}
	var o, f object
	if own, ok := ownCall(c.Raw); ok {
		if d, _ := decodeCall(c.Raw); d.Name == c.Name && d.Arguments == c.Arguments && d.Custom == c.Custom {
			o = own
			f, _ = parseObject(own.get(kind))
		}
	}
	if s, ok := f.str("name"); !ok || s != name {
		f.set("name", quote(name))
	}
	if _, ok := f.str(arg); !ok {
		f.set(arg, quote(c.Arguments))
	}
	if s, ok := o.str("id"); !ok || s != id {
		o.set("id", quote(id))
	}
	o.set("type", quote(kind))
	o.set(kind, f.json())
	o.drop("index")
	return o.json()
}

// joinContent puts two content values into one: strings with sep between them,
// lists as lists.
func joinContent(x, y json.RawMessage, sep string) json.RawMessage {
	switch {
	case emptyContent(x):
		return y
	case emptyContent(y):
		return x
	}
	s, ok1 := asString(x)
	t, ok2 := asString(y)
	if ok1 && ok2 {
		return quote(s + sep + t)
	}
	list := func(v json.RawMessage) []json.RawMessage {
		if s, ok := asString(v); ok {
			return []json.RawMessage{textPart(s)}
		}
		l, _ := elements(v)
		return l
	}
	return array(slices.Concat(list(x), list(y)))
}

// merge joins neighbors of one role.
func (a *assembler) merge() {
	out := a.items[:0:0]
	for _, it := range a.items {
		if len(out) == 0 || out[len(out)-1].role() != it.role() || it.role() == "tool" {
			out = append(out, item{slices.Clone(it.o), it.at})
			continue
		}
		last := &out[len(out)-1].o
		a.report.Merged++
		last.set("content", joinContent(last.get("content"), it.o.get("content"), "\n\n"))
		if !bytes.Equal(last.get("name"), it.o.get("name")) {
			last.drop("name")
		}
		for _, m := range it.o {
			switch m.key {
			case "role", "content", "name":
				continue
			}
			before := last.get(m.key)
			s, ok1 := asString(before)
			t, ok2 := asString(m.val)
			x, ok3 := elements(before)
			y, ok4 := elements(m.val)
			switch {
			case m.key != "id" && ok1 && ok2:
				last.set(m.key, quote(s+"\n\n"+t))
			case ok3 && ok4:
				last.set(m.key, array(slices.Concat(x, y)))
			default:
				last.set(m.key, m.val)
			}
		}
	}
	a.items = out
}

// shrink replaces inline attachments by a marker, oldest first, until the body
// fits. It returns the new size.
func (a *assembler) shrink(messages []json.RawMessage, size int) int {
	marker := textPart(leftOutText)
	for i := range a.items {
		if size <= a.opts.MaxBytes {
			break
		}
		list, ok := elements(a.items[i].o.get("content"))
		if !ok {
			continue
		}
		changed, left := false, size
		for k, p := range list {
			kind, inline := attachment(p)
			if !inline || len(p) <= len(marker) || left <= a.opts.MaxBytes {
				continue
			}
			a.report.LeftOut = append(a.report.LeftOut, LeftOut{a.items[i].at, kind, len(p)})
			left -= len(p) - len(marker)
			list[k] = marker
			changed = true
		}
		if changed {
			a.items[i].o.set("content", array(list))
			raw, _ := repair(a.items[i].o.json())
			size += len(raw) - len(messages[i])
			messages[i] = raw
		}
	}
	return size
}

// attachment reports whether a part holds its data inline, and its type.
func attachment(p json.RawMessage) (string, bool) {
	o, ok := parseObject(p)
	if !ok {
		return "", false
	}
	kind, _ := o.str("type")
	switch kind {
	case "image_url", "video_url", "audio_url":
		u := o.get(kind)
		if f, ok := parseObject(u); ok {
			u = f.get("url")
		}
		return kind, bytes.HasPrefix(u, []byte(`"data:`))
	case "input_audio":
		return kind, true
	case "file":
		f, _ := parseObject(o.get("file"))
		return kind, !isNull(f.get("file_data"))
	}
	return kind, false
}

// repair makes valid UTF-8 of a JSON text: stray bytes and halves of surrogate
// pairs become U+FFFD. It reports whether anything was wrong.
func repair(raw []byte) ([]byte, bool) {
	changed := false
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
		changed = true
	}
	var out []byte
	from := 0
	for _, at := range loneSurrogates(raw) {
		out = append(out, raw[from:at]...)
		out = append(out, `\ufffd`...)
		from = at + 6
	}
	if out == nil {
		return raw, changed
	}
	return append(out, raw[from:]...), true
}

// loneSurrogates returns where \u escapes of half a surrogate pair stand.
func loneSurrogates(raw []byte) []int {
	var out []int
	unit := func(i int) (rune, bool) {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(raw); {
		k := bytes.IndexByte(raw[i:], '\\')
		if k < 0 {
			break
		}
		i += k
		r, ok := unit(i)
		switch {
		case !ok:
			i += 2
		case !utf16.IsSurrogate(r):
			i += 6
		default:
			if r2, ok := unit(i + 6); ok && utf16.DecodeRune(r, r2) != utf8.RuneError {
				i += 12
				continue
			}
			out = append(out, i)
			i += 6
		}
	}
	return out
}
