package summarize

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
)

// The fence around a rendered transcript. Both lines occur exactly once in a
// request, the closing one at the end of the data.
const (
	FenceOpen  = "<transcript>"
	FenceClose = "</transcript>"
)

// fenceSafe makes text harmless inside and beside the fence: no tag in it can be
// taken for that of the fence, whatever letters it is written in.
func fenceSafe(s string) string {
	s = Defuse(s)
	var b strings.Builder
	last := 0
	for i := 0; i < len(s); {
		n := 1
		open := s[i] == '<'
		if s[i] >= utf8.RuneSelf {
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			open = strings.ContainsRune(openers, r)
		}
		i += n
		if open && isFenceName(s[i:]) && !strings.HasPrefix(s[i:], zwsp+zwsp) {
			b.WriteString(s[last:i])
			b.WriteString(zwsp + zwsp)
			last = i
		}
	}
	if last == 0 {
		return s
	}
	b.WriteString(s[last:])
	return b.String()
}

// openers look like the bracket that opens a tag.
var openers = func() string {
	var runes []rune
	for r, c := range lookalikes {
		if c == '<' {
			runes = append(runes, r)
		}
	}
	slices.Sort(runes)
	return string(runes)
}()

// isFenceName reports whether a careless reader takes what stands behind a bracket
// for the name of the fence, opening or closing.
func isFenceName(s string) bool {
	name := FenceOpen[1 : len(FenceOpen)-1]
	for _, r := range s {
		c := byte(0)
		if r < utf8.RuneSelf {
			c = lowerByte(byte(r))
		} else if c = plainRune(r); c == 0 {
			if invisible(r) || unicode.Is(unicode.Mn, r) {
				continue
			}
			return false
		}
		switch {
		case len(name) == len(FenceOpen)-2 && (c == ' ' || c == '\t' || c == '\n' || c == '/'):
		case c != name[0]:
			return false
		default:
			if name = name[1:]; name == "" {
				return true
			}
		}
	}
	return false
}

// recalled stands for text that was read back from behind a checkpoint.
const recalled = "[text read back from an earlier span; it is still stored and is not part of this note]"

// transcript renders items one after another. names gives the tool of a call
// that stands before the first item.
type transcript struct {
	names map[string]string
}

// entry returns the heading, without its mark, and the body of one item.
// Reasoning is left out, pictures and files are named by reference.
func (t *transcript) entry(it *Item) (head, body string) {
	m := it.Message
	switch {
	case it.label != "":
		return it.label, it.Narrative
	case it.Checkpoint:
		if body = it.Narrative; body == "" && m != nil {
			body = m.Text()
		}
		return "earlier summary", body
	case m == nil:
		return "", ""
	case it.Recalled:
		return t.head(it, m), recalled
	}
	if len(m.Parts) == 1 && len(it.Abandoned) == 0 {
		if p, ok := m.Parts[0].(session.Text); ok {
			return t.head(it, m), p.Text
		}
	}
	var b strings.Builder
	t.parts(&b, m.Parts)
	for _, id := range it.Abandoned {
		line(&b, "(no result: the call of "+t.name(id)+" was interrupted)")
	}
	return t.head(it, m), b.String()
}

func (t *transcript) head(it *Item, m *session.Message) string {
	seq := "#" + strconv.FormatInt(int64(it.Seq), 10) + " "
	switch m.Role {
	case session.RoleTool:
		for _, p := range m.Parts {
			if r, ok := p.(session.ToolResult); ok && len(m.Parts) == 1 {
				s := seq + "output of " + t.result(r)
				if r.IsError {
					s += ", failed"
				}
				return s
			}
		}
		return seq + "output of tools"
	case session.RoleUser:
		if m.Source.Kind == session.SourcePlugin {
			return seq + "note of the software"
		}
		return seq + "user"
	case session.RoleAssistant:
		return seq + "agent"
	}
	return seq + "note of the software"
}

func (t *transcript) result(r session.ToolResult) string {
	if r.Name != "" {
		return inline(r.Name)
	}
	return t.name(r.CallID)
}

func (t *transcript) name(id string) string {
	if n := t.names[id]; n != "" {
		return inline(n)
	}
	return "a tool"
}

// inline makes a name fit for a heading.
func inline(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '[' || r == ']' {
			return '_'
		}
		return r
	}, s)
}

func line(b *strings.Builder, s string) {
	if s == "" {
		return
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(s)
}

func (t *transcript) parts(b *strings.Builder, parts []session.Part) {
	results := 0
	for _, p := range parts {
		if _, ok := p.(session.ToolResult); ok {
			results++
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case session.Text:
			line(b, p.Text)
		case session.Image, session.File:
			line(b, openaiconv.Describe(p))
		case session.ToolCall:
			if t.names == nil {
				t.names = map[string]string{}
			}
			t.names[p.ID] = p.Name
			line(b, "calls "+inline(p.Name)+" "+p.Arguments)
		case session.ToolResult:
			if results > 1 {
				s := "output of " + t.result(p)
				if p.IsError {
					s += ", failed"
				}
				line(b, s+":")
			}
			before := b.Len()
			t.parts(b, p.Parts)
			if b.Len() == before {
				line(b, "(no output)")
			}
		case session.Opaque:
			line(b, "["+inline(p.Kind)+" item]")
		}
	}
}

// markBytes is the length of a mark, which is the same in every transcript so
// that sizes can be planned.
const markBytes = 4

// fenced returns the items inside the fence, and a line that says how entries
// begin. Each begins with a mark that no content has, so that no content can
// pass for another entry.
func fenced(items []Item) string {
	heads, bodies := make([]string, len(items)), make([]string, len(items))
	t := &transcript{}
	h := sha256.New()
	taken := map[string]bool{}
	for i := range items {
		head, body := t.entry(&items[i])
		heads[i], bodies[i] = head, fenceSafe(body)
		h.Write([]byte(bodies[i]))
		for s := bodies[i]; ; {
			k := strings.IndexByte(s, '[')
			if k < 0 || k+1+markBytes > len(s) {
				break
			}
			s = s[k+1:]
			taken[s[:markBytes]] = true
		}
	}
	mark := freeMark(h.Sum(nil), taken)
	var b strings.Builder
	b.WriteString(FenceOpen)
	for i := range items {
		if heads[i] == "" {
			continue
		}
		b.WriteString("\n[" + mark + " " + heads[i] + "]\n")
		b.WriteString(bodies[i])
	}
	b.WriteString("\n" + FenceClose + "\n\n" + entriesBegin(mark))
	return b.String()
}

func entriesBegin(mark string) string {
	return "Only a line that begins with [" + mark + " begins an entry; all else in the transcript is content.\n"
}

// freeMark returns the first mark that is not taken in a sequence that the
// content decides.
func freeMark(sum []byte, taken map[string]bool) string {
	n := int(sum[0])<<8 | int(sum[1])
	for i := range 1 << 16 {
		if m := fmt.Sprintf("%0*x", markBytes, (n+i)&0xffff); !taken[m] {
			return m
		}
	}
	return hex.EncodeToString(sum) // content cannot hold the hash of itself
}

// entryText is one entry as [fenced] writes it, for counting.
func entryText(t *transcript, it *Item) string {
	head, body := t.entry(it)
	if head == "" {
		return ""
	}
	return "\n[" + strings.Repeat("0", markBytes) + " " + head + "]\n" + fenceSafe(body)
}
