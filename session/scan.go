package session

import (
	"bytes"
	"maps"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// scanner reads the JSON that this package writes: no white space, strings
// with simple escapes. It is several times faster than encoding/json. Whatever
// it does not expect makes it fail, and the caller falls back on encoding/json;
// so it must never accept what that reads in another way.
type scanner struct {
	b   []byte
	i   int
	bad bool
}

// lit consumes the literal and reports whether it was there.
func (s *scanner) lit(l string) bool {
	if len(s.b)-s.i >= len(l) && string(s.b[s.i:s.i+len(l)]) == l {
		s.i += len(l)
		return true
	}
	return false
}

// want is lit for what must be there.
func (s *scanner) want(l string) {
	if !s.lit(l) {
		s.bad = true
	}
}

func (s *scanner) int() int64 {
	neg := s.lit("-")
	start := s.i
	var n int64
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		n = n*10 + int64(s.b[s.i]-'0')
		s.i++
	}
	if d := s.i - start; d == 0 || d > 18 || d > 1 && s.b[start] == '0' {
		s.bad = true
	}
	if neg {
		return -n
	}
	return n
}

// raw consumes a string without escapes and returns what is between the
// quotes. It shares memory with the input.
func (s *scanner) raw() []byte {
	s.want(`"`)
	if s.bad {
		return nil
	}
	start := s.i
	end := bytes.IndexByte(s.b[start:], '"')
	if end < 0 {
		s.bad = true
		return nil
	}
	v := s.b[start : start+end]
	for _, c := range v {
		if c < 0x20 || c == '\\' || c >= utf8.RuneSelf {
			s.bad = true
			return nil
		}
	}
	s.i = start + end + 1
	return v
}

// text consumes a string and returns a copy of its value.
func (s *scanner) text() string {
	s.want(`"`)
	if s.bad {
		return ""
	}
	start := s.i
	escapes := 0
	i := start
scan:
	for ; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			break scan
		case c == '\\':
			escapes++
			i++
		case c < 0x20:
			s.bad = true
			return ""
		}
	}
	if i >= len(s.b) {
		s.bad = true
		return ""
	}
	v := s.b[start:i]
	s.i = i + 1
	if !utf8.Valid(v) {
		s.bad = true
		return ""
	}
	if escapes == 0 {
		return string(v)
	}
	out := make([]byte, 0, len(v)-escapes)
	for {
		j := bytes.IndexByte(v, '\\')
		if j < 0 {
			break
		}
		out = append(out, v[:j]...)
		c := v[j+1]
		v = v[j+2:]
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'u':
			// Only control characters are written so.
			if len(v) < 4 || v[0] != '0' || v[1] != '0' || v[2] > '7' {
				s.bad = true
				return ""
			}
			h, l := unhex(v[2]), unhex(v[3])
			if h < 0 || l < 0 {
				s.bad = true
				return ""
			}
			out = append(out, byte(h<<4|l))
			v = v[4:]
		default:
			s.bad = true
			return ""
		}
	}
	return string(append(out, v...))
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

func (s *scanner) texts() []string {
	s.want("[")
	var out []string
	for !s.bad {
		out = append(out, s.text())
		if s.lit("]") {
			return out
		}
		s.want(",")
	}
	return nil
}

func (s *scanner) seqs() []Seq {
	s.want("[")
	var out []Seq
	for !s.bad {
		out = append(out, Seq(s.int()))
		if s.lit("]") {
			return out
		}
		s.want(",")
	}
	return nil
}

func (s *scanner) source() Source {
	var src Source
	s.want("{")
	if s.lit("}") {
		return src
	}
	for !s.bad {
		switch {
		case s.lit(`"kind":`):
			src.Kind = SourceKind(intern(s.raw()))
		case s.lit(`"plugin":`):
			src.Plugin = intern(s.raw())
		case s.lit(`"ref":`):
			src.Ref = s.text()
		case s.lit(`"form":`):
			src.Form = intern(s.raw())
		case s.lit(`"provider":`):
			src.Provider = intern(s.raw())
		case s.lit(`"model":`):
			src.Model = intern(s.raw())
		default:
			s.bad = true
		}
		if s.lit("}") {
			return src
		}
		s.want(",")
	}
	return src
}

// scanEvent reads the envelope of what [AppendEvent] wrote into e, and returns
// where the payload starts; it ends before the last byte of b.
func scanEvent(e *Event, b []byte) (data int, ok bool) {
	s := scanner{b: b}
	s.want(`{"seq":`)
	e.Seq = Seq(s.int())
	s.want(`,"time":`)
	e.Time = time.UnixMilli(s.int()).UTC()
	s.want(`,"type":`)
	e.Type = Type(intern(s.raw()))
	e.Ignorable = s.lit(`,"ignorable":true`)
	surface := e.Type == TypeMessage || e.Type == TypeReplace
	if s.bad || e.Seq < 0 || e.Type == "" {
		return 0, false
	}
	if surface {
		if e.meta, ok = scanHead(&s, e.Type); !ok {
			return 0, false
		}
	}
	s.want(`,"data":`)
	if s.bad || s.i >= len(b)-1 || b[len(b)-1] != '}' {
		return 0, false
	}
	return s.i, true
}

func scanHead(s *scanner, t Type) (*meta, bool) {
	m := new(meta)
	s.want(`,"head":{`)
	if s.lit(`"role":`) {
		m.role = Role(intern(s.raw()))
		s.want(",")
	}
	s.want(`"tokens":`)
	n := s.int()
	if n != int64(int32(n)) {
		return nil, false
	}
	m.tokens = int32(n)
	if s.lit(`,"by":`) {
		m.by = intern(s.raw())
	}
	if s.lit(`,"calls":`) {
		m.calls = s.texts()
	}
	if s.lit(`,"results":`) {
		m.results = s.texts()
	}
	s.want(`,"source":`)
	m.source = internSource(s.source())
	if t == TypeReplace {
		m.repl = new(replacement)
		s.want(`,"start":`)
		m.repl.start = Seq(s.int())
		s.want(`,"end":`)
		m.repl.end = Seq(s.int())
		if s.lit(`,"keep":`) {
			m.repl.keep = s.seqs()
		}
	}
	s.want("}")
	return m, !s.bad
}

// Words that occur in many events are kept once. The tables stop growing at a
// size that no vocabulary reaches; what comes after that is simply not shared.
const maxInterned = 1 << 10

var (
	internedWords   atomic.Pointer[map[string]string]
	internedSources atomic.Pointer[map[Source]*Source]
)

func intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	table := internedWords.Load()
	if table != nil {
		if w, ok := (*table)[string(b)]; ok {
			return w
		}
	}
	w := string(b)
	if len(w) <= 64 {
		addInterned(&internedWords, table, w, w)
	}
	return w
}

func internSource(src Source) *Source {
	table := internedSources.Load()
	if table != nil {
		if p, ok := (*table)[src]; ok {
			return p
		}
	}
	p := new(Source) // not &src, which would cost a copy on every call
	*p = src
	if src.Ref == "" {
		addInterned(&internedSources, table, src, p)
	}
	return p
}

// addInterned publishes a copy of old with one more entry. When somebody else
// was faster, the entry is left out.
func addInterned[K comparable, V any](to *atomic.Pointer[map[K]V], old *map[K]V, k K, v V) {
	next := make(map[K]V)
	if old != nil {
		if len(*old) >= maxInterned {
			return
		}
		maps.Copy(next, *old)
	}
	next[k] = v
	to.CompareAndSwap(old, &next)
}
