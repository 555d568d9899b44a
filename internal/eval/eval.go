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

// Text returns all that a message holds, for measuring: its text, its
// reasoning, the names and arguments of its calls and the text of its results,
// joined by newlines.
func Text(m *session.Message) string { return text(m, true, true) }

// shown is what a message holds for others: Text without reasoning, which no
// checkpoint may quote and no recall reads.
func shown(m *session.Message) string { return text(m, false, true) }

// said is what the author of a message chose to say: Text without reasoning and
// without the names of the tools.
func said(m *session.Message) string { return text(m, false, false) }

func text(m *session.Message, reasoning, names bool) string {
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
		case session.Reasoning:
			if reasoning {
				add(p.Text)
			}
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
// messages[cut], in order of use. Literals of the envelope do not count. A
// literal occurs in a message when it is a part of its text: a path that was
// listed is known, and so are its parts.
func Needed(envelope string, messages []*session.Message, cut int) []Need {
	known := map[string]bool{}
	for lit := range Literals(envelope) {
		known[lit] = true
	}
	texts := make([]string, cut)
	for i, m := range messages[:cut] {
		texts[i] = shown(m)
	}
	before := strings.Join(texts, "\n")
	var needs []Need
	seen := map[string]bool{}
	for _, m := range messages[cut:] {
		role := m.Role
		for lit := range Literals(said(m)) {
			if seen[lit] {
				continue
			}
			seen[lit] = true
			if role == session.RoleAssistant && !known[lit] && strings.Contains(before, lit) {
				needs = append(needs, Need{Literal: lit, Windows: quotes(before, lit)})
			}
		}
	}
	return needs
}

// quotes returns the windows of a text around each token that has the literal.
func quotes(text, lit string) []string {
	var out []string
	dup := map[string]bool{}
	for at := 0; ; {
		i := strings.Index(text[at:], lit)
		if i < 0 {
			return out
		}
		i += at
		start := strings.LastIndexByte(text[:i], '\n') + 1
		end := len(text)
		if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
			end = i + n
		}
		tokens := strings.Fields(text[start:end])
		for k, token := range tokens {
			if !strings.Contains(token, lit) {
				continue
			}
			for _, w := range windows(tokens, k) {
				if !dup[w] {
					dup[w] = true
					out = append(out, w)
				}
			}
		}
		at = end
	}
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
