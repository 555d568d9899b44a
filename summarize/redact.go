package summarize

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// Redactor replaces secrets by placeholders. The same secret always has the
// same placeholder, in every session and process. It is safe for concurrent
// use. A nil Redactor changes nothing.
type Redactor struct {
	rules []rule
}

type rule struct {
	name string
	re   *regexp.Regexp
	keys []string
}

var builtin = []struct{ name, keys, expr string }{
	{"private-key", "PRIVATE KEY", `-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`},
	{"aws-key", "AKIA|ASIA", `\b((?:AKIA|ASIA)[A-Z0-9]{16})\b`},
	{"github-token", "ghp_|gho_|ghu_|ghs_|ghr_|github_pat_", `\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`},
	{"api-key", "sk-", `\b(sk-[A-Za-z0-9_-]{16,})`},
	{"slack-token", "xox", `\b(xox[abeprs]-[A-Za-z0-9-]{10,})`},
	{"google-key", "AIza", `\b(AIza[A-Za-z0-9_-]{30,})`},
	{"jwt", "eyJ", `\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})`},
	{"url-password", "://", `://[^\s/:@"'<>]{0,64}:([^\s/@"'<>]{1,128})@`},
	{"bearer", "earer ", `[Bb]earer ([A-Za-z0-9._~+/=-]{16,})`},
	{"password", "assword", `(?i)password["']?\s*[:=]\s*["']?([^\s"'\\,;]{4,64})`},
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
		r.rules = append(r.rules, rule{name: "pattern", re: re})
	}
	for _, b := range builtin {
		r.rules = append(r.rules, rule{b.name, regexp.MustCompile(b.expr), strings.Split(b.keys, "|")})
	}
	return r, nil
}

var placeholder = regexp.MustCompile(`\[redacted:[a-z-]+:[0-9a-f]{6}\]`)

// Redact returns s with its secrets replaced and how many there were.
// Redacting twice is redacting once.
func (r *Redactor) Redact(s string) (string, int) {
	if r == nil {
		return s, 0
	}
	total := 0
	for range 4 {
		next, n := r.once(s)
		total += n
		if n == 0 {
			break
		}
		s = next
	}
	return s, total
}

func (r *Redactor) once(s string) (string, int) {
	total := 0
	for _, rule := range r.rules {
		if !rule.may(s) {
			continue
		}
		var b strings.Builder
		n := 0
		emit := func(seg string) {
			last := 0
			for _, m := range rule.re.FindAllStringSubmatchIndex(seg, -1) {
				a, z := m[0], m[1]
				if len(m) > 2 && m[2] >= 0 {
					a, z = m[2], m[3]
				}
				if a == z {
					continue
				}
				b.WriteString(seg[last:a])
				sum := sha256.Sum256([]byte("agentcompact\x00" + seg[a:z]))
				b.WriteString("[redacted:" + rule.name + ":" + hex.EncodeToString(sum[:3]) + "]")
				last = z
				n++
			}
			b.WriteString(seg[last:])
		}
		last := 0
		for _, m := range placeholder.FindAllStringIndex(s, -1) {
			emit(s[last:m[0]])
			b.WriteString(s[m[0]:m[1]])
			last = m[1]
		}
		emit(s[last:])
		if n > 0 {
			s = b.String()
			total += n
		}
	}
	return s, total
}

func (r rule) may(s string) bool {
	if len(r.keys) == 0 {
		return true
	}
	for _, k := range r.keys {
		if strings.Contains(s, k) {
			return true
		}
	}
	return false
}

// Message returns m with the secrets of all its texts replaced, and how many
// there were; m itself when there are none. m is not modified.
func (r *Redactor) Message(m *session.Message) (*session.Message, int) {
	if r == nil || m == nil {
		return m, 0
	}
	c := m.Clone()
	n := r.parts(c.Parts)
	if n == 0 {
		return m, 0
	}
	c.Origin = nil
	return c, n
}

func (r *Redactor) parts(parts []session.Part) int {
	total := 0
	for i, p := range parts {
		n := 0
		switch p := p.(type) {
		case session.Text:
			p.Text, n = r.Redact(p.Text)
			parts[i] = p
		case session.ToolCall:
			if p.Arguments, n = r.Redact(p.Arguments); n > 0 {
				p.Raw = nil
			}
			parts[i] = p
		case session.ToolResult:
			n = r.parts(p.Parts)
			parts[i] = p
		case session.Reasoning:
			if p.Text, n = r.Redact(p.Text); n > 0 {
				p.Raw, p.Signature = nil, ""
			}
			parts[i] = p
		}
		total += n
	}
	return total
}
