package summarize

import (
	"fmt"
	"strings"
)

// Composition is what a checkpoint is made of.
type Composition struct {
	// Narrative is the accepted summary.
	Narrative string
	// Ledger holds the facts beside it; may be nil.
	Ledger *Ledger
	// Pointer names what the checkpoint shadows; may be empty.
	Pointer string
	// Budget is the most tokens that the whole text may have; 0 for none. A
	// budget too small for the framing is exceeded by the framing alone.
	Budget int
	// Count prices a text; nil means a token for four bytes.
	Count func(string) int
	// Tail is text that stays visible beside the checkpoint: facts that it
	// shows are left out first.
	Tail string
}

// Compose returns the whole text of a checkpoint: framing, narrative, ledger
// and pointer, in this order. Facts are chosen by usefulness until the budget
// is used up. Nothing of the content can close or forge the framing.
func Compose(c Composition) string {
	if c.Count == nil {
		c.Count = func(s string) int { return (len(s) + 3) / 4 }
	}
	narrative := Defuse(strings.TrimSpace(c.Narrative))
	for {
		p := &page{count: c.Count, left: 1 << 60}
		if c.Budget > 0 {
			p.left = c.Budget - c.Count(frame(c.Pointer)) - 8
		}
		n := narrative
		if p.left < c.Count(n) {
			n = fitText(n, p.left/2, c.Count)
		}
		p.add(n)
		p.ledger(c.Ledger, n+"\n"+c.Tail)
		if c.Pointer != "" {
			p.lines = append(p.lines, c.Pointer)
		}
		text := frame(strings.Join(p.lines, "\n"))
		if c.Budget <= 0 || len(p.lines) < 2 || c.Count(text) <= c.Budget {
			return text
		}
		over := c.Count(text) - c.Budget
		c.Budget -= over // seams cost more than the parts: once more with less
	}
}

// fitText cuts a text at a line so that it has at most n tokens.
func fitText(s string, n int, count func(string) int) string {
	for s != "" && count(s) > n {
		i := strings.LastIndexByte(s, '\n')
		if i < 0 {
			return ""
		}
		s = s[:i]
	}
	return s
}

type page struct {
	count func(string) int
	left  int
	lines []string
}

// add appends a line if there is room for it.
func (p *page) add(line string) bool {
	if line == "" {
		return false
	}
	cost := p.count(line) + 1
	if cost > p.left {
		return false
	}
	p.left -= cost
	p.lines = append(p.lines, line)
	return true
}

// quoteLine makes one harmless line of a text.
func quoteLine(s string) string { return Defuse(squash(s)) }

func (p *page) ledger(l *Ledger, shown string) {
	if l.Empty() {
		return
	}
	head := func(h string, lines []string) {
		if len(lines) == 0 {
			return
		}
		at := len(p.lines)
		if !p.add(h) {
			return
		}
		for _, line := range lines {
			p.add(line)
		}
		if len(p.lines) == at+1 {
			p.lines = p.lines[:at]
		}
	}
	var notes, plan, user, files, failures, facts []string
	for _, n := range l.Notes {
		notes = append(notes, "- "+quoteLine(n))
	}
	if l.Plan != nil {
		for _, it := range l.Plan.Items {
			plan = append(plan, "- ["+box(it.State)+"] "+quoteLine(it.Text))
		}
	}
	for _, c := range l.Carried {
		plan = append(plan, "- "+quoteLine(c.Tool)+" "+quoteLine(c.Arguments))
	}
	for _, q := range l.User {
		user = append(user, "> "+strings.ReplaceAll(Defuse(q.Text), "\n", "\n> "))
	}
	for i := len(l.Files) - 1; i >= 0; i-- {
		files = append(files, "- "+l.Files[i].Did+" "+quoteLine(l.Files[i].Path))
	}
	for i := len(l.Failures) - 1; i >= 0; i-- {
		failures = append(failures, fmt.Sprintf("- %s: %s", quoteLine(l.Failures[i].What), quoteLine(l.Failures[i].Error)))
	}
	for _, f := range l.Facts {
		if !strings.Contains(shown, f.Line) {
			facts = append(facts, "- "+quoteLine(f.Line))
		}
	}
	head("User:", user)
	head("Present:", notes)
	head("Todo:", plan)
	head("Failed:", failures)
	head("Files:", files)
	head("Facts:", facts)
}

func box(state string) string {
	switch state {
	case "done":
		return "x"
	case "active":
		return "~"
	case "dropped":
		return "-"
	}
	return " "
}
