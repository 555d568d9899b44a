package streamproc

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
)

// clipMessage returns the message with its texts shortened to at most so many
// tokens in all, and nil when not even their marks have room. Calls lose their
// arguments last, since the names say what was done.
func clipMessage(m *session.Message, tokens int, price func(*session.Message) int) *session.Message {
	if price(m) <= tokens {
		return m
	}
	total := 0
	for _, p := range m.Parts {
		total += partLen(p)
	}
	// The texts share what is left by their lengths; the longest prefix of all
	// that is within the tokens is found by halving.
	try := func(bytes int) *session.Message {
		c := m.Clone()
		c.Origin, c.Extra = nil, nil
		for i, p := range c.Parts {
			if n := partLen(p); n > 0 {
				c.Parts[i] = clipPart(p, int(int64(bytes)*int64(n)/int64(total)))
			} else {
				c.Parts[i] = session.Text{}
			}
		}
		if c.Role == session.RoleTool {
			parts := c.Parts[:0]
			for _, p := range c.Parts {
				if _, ok := p.(session.ToolResult); ok {
					parts = append(parts, p)
				}
			}
			c.Parts = parts
		}
		return c
	}
	lo, hi := -1, total // lo is within, hi is not
	var best *session.Message
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if c := try(mid); price(c) <= tokens {
			lo, best = mid, c
		} else {
			hi = mid
		}
	}
	return best
}

func partLen(p session.Part) int {
	switch p := p.(type) {
	case session.Text:
		return len(p.Text)
	case session.Reasoning:
		return len(p.Text)
	case session.ToolCall:
		return len(p.Arguments) + len(p.Name)
	case session.ToolResult:
		return len(session.TextOf(p.Parts)) + 1
	}
	return 0
}

func clipPart(p session.Part, n int) session.Part {
	switch p := p.(type) {
	case session.Text:
		return session.Text{Text: clipText(p.Text, n)}
	case session.Reasoning:
		return session.Text{Text: clipText(p.Text, n)}
	case session.ToolCall:
		p.Arguments, p.Raw = clipText(p.Arguments, n-len(p.Name)), nil
		return p
	case session.ToolResult:
		p.Parts = []session.Part{session.Text{Text: clipText(session.TextOf(p.Parts), n)}}
		return p
	}
	return p
}

// clipText keeps head and tail of a text in n bytes, at rune boundaries, and
// says between them how much is left out. It is "" where not even that has room.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	mark := func(gone int) string { return fmt.Sprintf("\n[… %d bytes left out …]\n", gone) }
	room := n - len(mark(len(s)))
	if room < 0 {
		return cutHead(s, max(n, 0))
	}
	head := cutHead(s, room*2/3)
	tail := cutTail(s, room-len(head))
	return head + mark(len(s)-len(head)-len(tail)) + tail
}

func cutHead(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func cutTail(s string, n int) string {
	i := len(s) - n
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// quotable returns the message as a ledger should quote it: attachments of the
// user by reference, and each text within so many characters, 0 for any length.
func quotable(m *session.Message, chars int) *session.Message {
	if m.Role != session.RoleUser || m.Source.Kind != session.SourceUser {
		return m
	}
	changed := false
	parts := make([]session.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		switch q := p.(type) {
		case session.Text:
			if t := middleOut(q.Text, chars); t != q.Text {
				p, changed = session.Text{Text: t}, true
			}
		case session.Image, session.File:
			p, changed = session.Text{Text: openaiconv.Describe(p)}, true
		}
		parts = append(parts, p)
	}
	if !changed {
		return m
	}
	c := *m
	c.Parts, c.Origin, c.Extra = parts, nil, nil
	return &c
}

// middleOut cuts the middle of a text above so many characters: half of them
// are its head, the rest its tail.
func middleOut(s string, chars int) string {
	if chars <= 0 || len(s) <= chars || utf8.RuneCountInString(s) <= chars {
		return s
	}
	runes := []rune(s)
	head := chars / 2
	tail := chars - head
	var b strings.Builder
	b.WriteString(string(runes[:head]))
	fmt.Fprintf(&b, "\n[… %d characters left out …]\n", len(runes)-chars)
	b.WriteString(string(runes[len(runes)-tail:]))
	return b.String()
}
