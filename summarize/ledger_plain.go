package summarize

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

const (
	// plainRead is how many of the newest lines without a literal are looked at,
	// plainKept how many of them are kept.
	plainRead = 6000
	plainKept = 160
	plainSize = 240
)

// collectPlain quotes lines that have no literal but say something that is said
// once: statements of the agent, and lines that quote a text. They are used
// where a budget has room for more than literals. Lines that differ in numbers
// only count as one said often.
func collectPlain(items []Item) []Fact {
	type line struct {
		Fact
		item  int
		value int
		kind  int // of its template
	}
	kinds := map[string]int{}
	var count []int // of the lines of a kind
	var lines []line
	var buf []byte
	read := 0
	for i := len(items) - 1; i >= 0 && read < plainRead; i-- {
		it := &items[i]
		if skipped(it) {
			continue
		}
		factTexts(it.Message, func(by uint8, text string) {
			told := it.Message.Role == session.RoleSystem || it.Message.Role == session.RoleDeveloper
			if by != byAssistant && by != byTool && !told || read >= plainRead {
				return
			}
			eachUnescapedLine(text, func(s string) {
				s = strings.TrimSpace(unboxed(s, by))
				if len(s) < 12 || len(s) > plainSize || read >= plainRead {
					return
				}
				if read++; by == byTool && orders.in(s) {
					return
				}
				buf = appendTemplate(buf[:0], s)
				kind, ok := kinds[string(buf)]
				if !ok {
					kind = len(count)
					kinds[string(buf)] = kind
					count = append(count, 0)
				}
				count[kind]++
				v := 0
				switch {
				case told: // the host's words in the middle of the conversation
					v += 6
				case by == byAssistant:
					v += 2
				}
				if quotesText(s) {
					v += 2
				}
				if isRule(s) {
					v++
				}
				if a, _ := nextLiteral(s, 0); a >= 0 {
					v--
				}
				if v > 0 {
					lines = append(lines, line{Fact{Seq: it.Seq, Line: s, By: byName(by)}, i, v, kind})
				}
			})
		})
	}
	lines = slices.DeleteFunc(lines, func(l line) bool { return count[l.kind] > 1 })
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(b.item, a.item))
	})
	var out []Fact
	for _, l := range lines[:min(len(lines), plainKept)] {
		out = append(out, l.Fact)
	}
	return out
}

// eachUnescapedLine is [eachLine] that also ends lines at the line ends written
// into a JSON string: results often are JSON.
func eachUnescapedLine(text string, f func(line string)) {
	eachLine(text, func(line string) {
		for part := range strings.SplitSeq(line, `\n`) {
			f(part)
		}
	})
}

// quotesText reports whether a line has words in quotes.
func quotesText(s string) bool {
	for _, q := range []string{`"`, "`", "“", "「", "«"} {
		i := strings.Index(s, q)
		if i < 0 {
			continue
		}
		end := q
		switch q {
		case "“":
			end = "”"
		case "「":
			end = "」"
		case "«":
			end = "»"
		}
		rest := s[i+len(q):]
		if j := strings.Index(rest, end); j > 4 && strings.IndexByte(rest[:j], ' ') > 0 {
			return true
		}
	}
	return false
}
