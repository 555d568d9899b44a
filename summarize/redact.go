package summarize

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// Redactor replaces secrets by placeholders. The same secret always has the
// same placeholder, in every session and process, so that a reader can still
// tell that two places hold the same one. It is safe for concurrent use. A nil
// Redactor changes nothing.
//
// It knows keys and tokens of common services by their shape, private keys,
// passwords in URLs and connection strings, authorization headers, and values
// that are assigned to names such as password, secret, token or api_key, also
// where characters that nobody sees stand in them. What the log holds stays as
// it is: redaction is for what leaves the session.
type Redactor struct {
	patterns []*regexp.Regexp
}

// NewRedactor returns a redactor with the built-in rules and patterns added by
// the user, which are regular expressions in Go's syntax. Of a pattern with a
// group the first group is the secret, else the whole match.
func NewRedactor(patterns ...string) (*Redactor, error) {
	r := &Redactor{}
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("redact pattern %q: %w", p, err)
		}
		r.patterns = append(r.patterns, re)
	}
	return r, nil
}

// placeholderOpen starts every placeholder, which ends at the next bracket.
const placeholderOpen = "[redacted:"

var placeholderShape = regexp.MustCompile(`\[redacted:[a-z-]+:[0-9a-f]{6}\]`)

// secretPlaceholder stands for a secret. It is made from few bits of a hash: enough to
// tell secrets apart, too few to find one again.
func secretPlaceholder(rule, secret string) string {
	sum := sha256.Sum256([]byte("agentcompact\x00" + secret))
	return placeholderOpen + rule + ":" + hex.EncodeToString(sum[:3]) + "]"
}

// secretAt is a secret that was found: where it is, and by which rule.
type secretAt struct {
	a, b int
	rule string
}

// Redact returns s with its secrets replaced, and how many places that were; s
// itself when there are none. Redacting twice is redacting once.
func (r *Redactor) Redact(s string) (string, int) {
	if r == nil {
		return s, 0
	}
	total := 0
	for range 8 { // a pattern can match what it left
		found := r.find(s)
		if bare, at := unveil(s); at != nil {
			for _, f := range r.find(bare) {
				found = append(found, secretAt{at[f.a], at[f.b-1] + 1, f.rule})
			}
			found = joinSecrets(found)
		}
		if len(found) == 0 {
			break
		}
		total += len(found)
		var b strings.Builder
		b.Grow(len(s))
		last := 0
		for _, f := range found {
			b.WriteString(s[last:f.a])
			secret, _ := unveil(s[f.a:f.b])
			b.WriteString(secretPlaceholder(f.rule, secret))
			last = f.b
		}
		b.WriteString(s[last:])
		s = b.String()
	}
	return s, total
}

// find returns the secrets of a text, in order and apart from each other.
func (r *Redactor) find(s string) []secretAt {
	found := findSecrets(s)
	if len(r.patterns) > 0 {
		found = r.matchPatterns(s, found)
	}
	return found
}

// matchPatterns adds what the user's patterns match. Placeholders are left
// alone.
func (r *Redactor) matchPatterns(s string, found []secretAt) []secretAt {
	var spared [][]int
	if strings.Contains(s, placeholderOpen) {
		spared = placeholderShape.FindAllStringIndex(s, -1)
	}
	for _, re := range r.patterns {
		for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
			a, b := m[0], m[1]
			if len(m) > 2 && m[2] >= 0 {
				a, b = m[2], m[3]
			}
			for _, p := range outside(a, b, spared) {
				found = append(found, secretAt{p[0], p[1], "pattern"})
			}
		}
	}
	return joinSecrets(found)
}

// outside returns the parts of [a, b) that are in none of the spans.
func outside(a, b int, spans [][]int) (out [][2]int) {
	for _, p := range spans {
		if p[1] <= a {
			continue
		}
		if p[0] >= b {
			break
		}
		if p[0] > a {
			out = append(out, [2]int{a, p[0]})
		}
		a = p[1]
	}
	if a < b {
		out = append(out, [2]int{a, b})
	}
	return out
}

// joinSecrets sorts what was found and joins what overlaps.
func joinSecrets(found []secretAt) []secretAt {
	if len(found) < 2 {
		return found
	}
	slices.SortStableFunc(found, func(x, y secretAt) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(y.b, x.b)) })
	out := found[:1]
	for _, f := range found[1:] {
		if last := &out[len(out)-1]; f.a < last.b {
			last.b = max(last.b, f.b)
			continue
		}
		out = append(out, f)
	}
	return out
}

// Message returns m with the secrets of all its texts replaced, and how many
// there were; m itself when there are none. m is not modified. Forms of the
// provider's that cannot be edited are dropped where they would still hold a
// secret: the record that the message was read from, and the signature of
// reasoning that changed.
func (r *Redactor) Message(m *session.Message) (*session.Message, int) {
	if r == nil || m == nil {
		return m, 0
	}
	parts, n := r.parts(m.Parts)
	extra := m.Extra
	for k, v := range m.Extra {
		if s, hits := r.Redact(string(v)); hits > 0 {
			if n == 0 || len(extra) == len(m.Extra) {
				extra = make(map[string]json.RawMessage, len(m.Extra))
				for k, v := range m.Extra {
					extra[k] = v
				}
			}
			extra[k] = validJSON(s)
			n += hits
		}
	}
	if n == 0 {
		return m, 0
	}
	c := *m
	c.Parts, c.Extra, c.Origin = parts, extra, nil
	return &c, n
}

func validJSON(s string) json.RawMessage {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return json.RawMessage("null")
}

// parts redacts parts; it returns the same slice when nothing was found.
// Envelope counts the secrets in system texts and tool definitions; e may be nil.
func (r *Redactor) Envelope(e *session.Envelope) (hits int) {
	if r == nil || e == nil {
		return 0
	}
	for i := range e.System {
		_, n := r.Message(&e.System[i])
		hits += n
	}
	for _, t := range e.Tools {
		_, n := r.Redact(t.Description + "\n" + string(t.Schema))
		hits += n
	}
	return hits
}

func (r *Redactor) parts(parts []session.Part) ([]session.Part, int) {
	total := 0
	out := parts
	for i, p := range parts {
		n := 0
		switch q := p.(type) {
		case session.Text:
			q.Text, n = r.Redact(q.Text)
			p = q
		case session.ToolCall:
			if q.Arguments, n = r.Redact(q.Arguments); n > 0 {
				q.Raw = nil
			}
			name, m := r.Redact(q.Name)
			q.Name, n = name, n+m
			p = q
		case session.ToolResult:
			q.Parts, n = r.parts(q.Parts)
			p = q
		case session.Reasoning:
			if q.Text, n = r.Redact(q.Text); n > 0 {
				q.Raw, q.Signature = nil, ""
			}
			p = q
		case session.Image:
			if !strings.HasPrefix(q.URL, "data:") {
				if q.URL, n = r.Redact(q.URL); n > 0 {
					q.Raw = nil
				}
				p = q
			}
		case session.File:
			if !strings.HasPrefix(q.URL, "data:") {
				if q.URL, n = r.Redact(q.URL); n > 0 {
					q.Raw = nil
				}
			}
			if name, m := r.Redact(q.Name); m > 0 {
				q.Name, q.Raw, n = name, nil, n+m
			}
			p = q
		case session.Opaque:
			var s string
			if s, n = r.Redact(string(q.Raw)); n > 0 {
				q.Raw = validJSON(s)
				p = q
			}
		}
		if n > 0 {
			if total == 0 {
				out = slices.Clone(parts)
			}
			out[i] = p
			total += n
		}
	}
	return out, total
}

// Ledger returns l with the secrets in everything that it quotes replaced, and
// how many there were; l itself when there are none. l is not modified.
func (r *Redactor) Ledger(l *Ledger) (*Ledger, int) {
	if r == nil || l.Empty() {
		return l, 0
	}
	c, total := *l, 0
	c.User = redactList(c.User, &total, func(q *Quote, do redactField) { do(&q.Text) }, r)
	c.Notes = redactList(c.Notes, &total, func(n *string, do redactField) { do(n) }, r)
	if l.Plan != nil {
		p := *l.Plan
		before := total
		r.field(&total)(&p.Tool)
		p.Items = redactList(p.Items, &total, func(it *PlanItem, do redactField) { do(&it.Text); do(&it.State) }, r)
		if total > before {
			c.Plan = &p
		}
	}
	c.Carried = redactList(c.Carried, &total, func(x *Carried, do redactField) { do(&x.Tool); do(&x.Arguments) }, r)
	c.Files = redactList(c.Files, &total, func(f *File, do redactField) { do(&f.Path); do(&f.Did) }, r)
	c.Failures = redactList(c.Failures, &total, func(f *FailedCall, do redactField) { do(&f.What); do(&f.Error) }, r)
	c.Facts = redactList(c.Facts, &total, func(f *Fact, do redactField) {
		do(&f.Line)
		n := 0
		f.Keys = redactList(f.Keys, &n, func(k *Key, do redactField) { do(&k.Text) }, r)
		total += n
	}, r)
	if total == 0 {
		return l, 0
	}
	return &c, total
}

// redactField redacts a string in place.
type redactField func(*string)

func (r *Redactor) field(hits *int) redactField {
	return func(f *string) {
		if s, n := r.Redact(*f); n > 0 {
			*f, *hits = s, *hits+n
		}
	}
}

// redactList returns a list with the fields of its elements redacted; the same
// one when nothing was found.
func redactList[T any](list []T, hits *int, each func(*T, redactField), r *Redactor) []T {
	out, do := list, r.field(hits)
	var x T
	for i := range list {
		before := *hits
		x = list[i]
		if each(&x, do); *hits == before {
			continue
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		out[i] = x
	}
	return out
}
