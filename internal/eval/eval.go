// Package eval measures, without a model, how much of what an agent needed
// later a compacted context still holds.
//
// A recorded session is cut where compaction would have fired. The literals
// (paths, identifiers, numbers, URLs) that the agent used after the cut although
// it could know them only from before it are the needed ones. A context is
// judged by the share of them that it holds, and by the share that it holds
// together with their neighbors.
//
// All functions are pure. The definitions are those of the project's issue on
// checkpoints; they are not the summarizer's own idea of a literal.
package eval

import (
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// CutShare is the share of a session's tokens at which it is cut: a window of
// half the session at threshold 0.8.
const CutShare = 0.4

// Text returns what a message says, for measuring: its text, the names and
// arguments of its calls and the text of its results, joined by newlines.
// Reasoning is left out.
func Text(m *session.Message) string { return text(m, true) }

// said is what the author of a message chose to say: Text without the names of
// the tools.
func said(m *session.Message) string { return text(m, false) }

func text(m *session.Message, names bool) string {
	var b strings.Builder
	add := func(s string) {
		if s == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Text:
			add(p.Text)
		case session.ToolCall:
			if names {
				add(p.Name + " " + p.Arguments)
			} else {
				add(p.Arguments)
			}
		case session.ToolResult:
			add(session.TextOf(p.Parts))
		}
	}
	return b.String()
}

// Cut returns how many of the messages are before the cut: those up to and with
// the first at which the running total of prices reaches share of all of them,
// and then as many more as are needed for no call to stand before the cut with
// its result after it. It is len(messages) when there is nothing behind it.
func Cut(messages []*session.Message, prices []int, share float64) int {
	total := 0
	for _, p := range prices {
		total += p
	}
	sum, cut := 0, len(messages)
	for i, p := range prices {
		if sum += p; float64(sum) >= share*float64(total) {
			cut = i + 1
			break
		}
	}
	for cut < len(messages) && !balanced(messages, cut) {
		cut++
	}
	return cut
}

// balanced reports whether no call before cut has its result behind it.
func balanced(messages []*session.Message, cut int) bool {
	open := map[string]bool{}
	for _, m := range messages[:cut] {
		for _, id := range m.Calls() {
			open[id] = true
		}
		for _, id := range m.Results() {
			delete(open, id)
		}
	}
	if len(open) == 0 {
		return true
	}
	for _, m := range messages[cut:] {
		for _, id := range m.Calls() {
			delete(open, id) // used again: a result behind it is of the newer call
		}
		for _, id := range m.Results() {
			if open[id] {
				return false
			}
		}
	}
	return true
}

// Need is a literal that the agent used after the cut and could know from
// before it.
type Need struct {
	Literal string
	// Windows are the quotes that show the literal with its neighbors: runs of
	// four tokens of a line before the cut, or the whole line if it is shorter.
	// White space is one blank.
	Windows []string
}

// Needed returns the needed literals of a session that is cut before
// messages[cut], in order of use. Literals of the envelope do not count.
func Needed(envelope string, messages []*session.Message, cut int) []Need {
	known := map[string]bool{}
	for lit := range Literals(envelope) {
		known[lit] = true
	}
	before := map[string]bool{}
	for _, m := range messages[:cut] {
		for lit := range Literals(Text(m)) {
			before[lit] = true
		}
	}
	var needs []Need
	index := map[string]int{}
	seen := map[string]bool{}
	for _, m := range messages[cut:] {
		for lit := range Literals(said(m)) {
			if seen[lit] {
				continue
			}
			seen[lit] = true
			if m.Role == session.RoleAssistant && before[lit] && !known[lit] {
				index[lit] = len(needs)
				needs = append(needs, Need{Literal: lit})
			}
		}
	}
	dup := map[string]bool{}
	for _, m := range messages[:cut] {
		for line := range strings.Lines(Text(m)) {
			tokens := strings.Fields(line)
			for i, token := range tokens {
				for lit := range Literals(token) {
					n, ok := index[lit]
					if !ok {
						continue
					}
					for _, w := range windows(tokens, i) {
						if k := lit + "\x00" + w; !dup[k] {
							dup[k] = true
							needs[n].Windows = append(needs[n].Windows, w)
						}
					}
				}
			}
		}
	}
	return needs
}

// windows returns the runs of four tokens that hold tokens[i].
func windows(tokens []string, i int) []string {
	const width = 4
	if len(tokens) < width {
		return []string{strings.Join(tokens, " ")}
	}
	var out []string
	for a := max(0, i-width+1); a <= i && a+width <= len(tokens); a++ {
		out = append(out, strings.Join(tokens[a:a+width], " "))
	}
	return out
}

// Recall is how much of the needed literals a context holds, as shares from 0
// to 1.
type Recall struct {
	Literal, Quoted float64
}

// Measure returns the recall of a context. Nothing needed is full recall.
func Measure(needs []Need, context string) Recall {
	if len(needs) == 0 {
		return Recall{1, 1}
	}
	normal := strings.Join(strings.Fields(context), " ")
	literal, quoted := 0, 0
	for _, n := range needs {
		if strings.Contains(context, n.Literal) {
			literal++
		}
		for _, w := range n.Windows {
			if strings.Contains(normal, w) {
				quoted++
				break
			}
		}
	}
	return Recall{float64(literal) / float64(len(needs)), float64(quoted) / float64(len(needs))}
}
