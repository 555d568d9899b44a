package summarize

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// story is what a span tells, turn by turn.
type story struct {
	turns    []*turnTale
	earlier  map[string][]string // lines of earlier narratives, by section
	failures []troubled
	plan     *Plan
	words    *vocabulary
}

// turnTale is a turn: what was asked, what was answered, what was done.
type turnTale struct {
	ask    string
	says   []string // the agent's texts, the last ones
	tools  []string // names in order of first use
	calls  map[string]int
	files  []string
	last   string // the last call
	closed bool   // the agent answered after its last call
}

type troubled struct {
	turn        int
	what, error string
	solved      bool
	after       string // what the agent said next
	waiting     bool
}

// saysKept is how many texts of the agent are kept of a turn.
const saysKept = 12

func readStory(ctx context.Context, items []Item) (*story, error) {
	s := &story{earlier: map[string][]string{}, words: newVocabulary()}
	var cur *turnTale
	calls := map[string]session.ToolCall{}
	open := map[string]int{} // titles to failures
	turn := func() *turnTale {
		if cur == nil {
			cur = &turnTale{calls: map[string]int{}}
			s.turns = append(s.turns, cur)
		}
		return cur
	}
	for i := range items {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		it := &items[i]
		m := it.Message
		switch {
		case it.Recalled || m == nil && !it.Checkpoint:
			continue
		case it.Checkpoint:
			s.readEarlier(it.Narrative)
			cur = nil
			continue
		}
		if m.Role == session.RoleUser && m.Source.Kind == session.SourceUser {
			text := strings.TrimSpace(m.Text())
			if text == "" {
				continue
			}
			if cur == nil || len(cur.says) > 0 || len(cur.calls) > 0 {
				cur = nil
				turn().ask = text
			} else {
				turn().ask = strings.TrimSpace(cur.ask + "\n" + text)
			}
			s.words.learn(text)
			continue
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case session.Text:
				if m.Role != session.RoleAssistant || strings.TrimSpace(p.Text) == "" {
					continue
				}
				t := turn()
				t.says = append(t.says, p.Text)
				if len(t.says) > saysKept {
					t.says = slices.Delete(t.says, 1, 2)
				}
				t.closed = true
				s.words.learn(p.Text)
				s.hear(p.Text)
			case session.ToolCall:
				t := turn()
				if t.calls[p.Name]++; t.calls[p.Name] == 1 {
					t.tools = append(t.tools, p.Name)
				}
				t.closed, t.last = false, callTitle(p.Name, p.Arguments)
				calls[p.ID] = p
				if pl := planOf(p.Arguments); pl != nil && (len(pl.Items) > 0 || strings.Contains(p.Arguments, `"todos"`)) {
					s.plan = pl
				}
				fileCalls(p, false, func(path, did string) {
					if did != "read" && len(t.files) < 8 && !slices.Contains(t.files, path) {
						t.files = append(t.files, path)
					}
				})
			case session.ToolResult:
				c, ok := calls[p.CallID]
				if !ok {
					continue
				}
				delete(calls, p.CallID)
				title := callTitle(c.Name, c.Arguments)
				line, bad := failure(p, title)
				at, known := open[title]
				switch {
				case bad && !known:
					open[title] = len(s.failures)
					s.failures = append(s.failures, troubled{turn: len(s.turns), what: title, error: line, waiting: true})
				case bad:
					s.failures[at].error, s.failures[at].waiting = line, true
				case known:
					s.failures[at].solved = true
					delete(open, title)
				}
			}
		}
	}
	return s, nil
}

// hear gives what the agent says to the failures that wait for it.
func (s *story) hear(text string) {
	for i := len(s.failures) - 1; i >= 0 && i >= len(s.failures)-4; i-- {
		if f := &s.failures[i]; f.waiting {
			f.waiting = false
			if all := sentences(text, 4); len(all) > 0 {
				f.after = all[0]
			}
		}
	}
}

// readEarlier takes the sections of an earlier narrative apart.
func (s *story) readEarlier(text string) {
	name := "Done"
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if h, ok := strings.CutPrefix(line, "## "); ok {
			if name = "Done"; slices.Contains(RequiredSections, h) {
				name = h
			}
			continue
		}
		if line != "" && line != noneText {
			s.earlier[name] = append(s.earlier[name], line)
		}
	}
}

// chosenLine is a line of a section with its place in time.
type chosenLine struct {
	text string
	at   int
}

func inOrder(lines []chosenLine) []string {
	slices.SortStableFunc(lines, func(a, b chosenLine) int { return cmp.Compare(a.at, b.at) })
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.text
	}
	return out
}

// section returns the lines of a section, the most useful first; of long ones
// about as many as have the given bytes.
func (s *story) section(name string, turns, bytes int) []chosenLine {
	var out []chosenLine
	switch name {
	case "Goal":
		for i, line := range s.goal() {
			out = append(out, chosenLine{line, i})
		}
	case "State":
		for i, line := range s.state() {
			out = append(out, chosenLine{line, i})
		}
	case "Next":
		for i, line := range s.next() {
			out = append(out, chosenLine{line, i})
		}
	case "Failures":
		out = s.troubles()
	case "Decisions":
		out = s.decisions()
	case "Done":
		out = s.done(turns, bytes)
	}
	// what an earlier checkpoint says of it comes first in time; the newest of
	// it is worth most
	if name != "State" && name != "Next" {
		old := s.earlier[name]
		for i := len(old) - 1; i >= 0; i-- {
			out = append(out, chosenLine{old[i], -1 - (len(old) - i)})
		}
	} else if len(out) == 0 {
		for i, line := range s.earlier[name] {
			out = append(out, chosenLine{line, i})
		}
	}
	return out
}

// goal is what was asked first and what was asked last.
func (s *story) goal() []string {
	var out []string
	if old := s.earlier["Goal"]; len(old) > 0 {
		out = append(out, old[0])
	}
	first, last := "", ""
	for _, t := range s.turns {
		if t.ask == "" || trivial(t.ask) {
			continue
		}
		if first == "" {
			first = t.ask
		}
		last = t.ask
	}
	add := func(ask string, n int) {
		if text := bullet(leading(ask, n)); text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if len(out) == 0 {
		add(first, 200)
	}
	if last != first || len(out) > 0 {
		add(last, 160)
	}
	return out
}

// stateLines is how many sentences the state has, at most.
const stateLines = 4

// state is what the agent said last, and did after it. Texts that say little have
// those before them beside them.
func (s *story) state() []string {
	var out []string
	last := ""
	for i := len(s.turns) - 1; i >= 0 && len(out) == 0; i-- {
		t := s.turns[i]
		if len(t.says) == 0 && last == "" {
			last = t.last
		}
		for j := len(t.says) - 1; j >= 0 && len(out) < 2; j-- {
			var told []string
			for _, x := range s.words.best(t.says[j], stateLines-len(out)) {
				if tells(x) || j == 0 {
					told = append(told, bullet(x))
				}
			}
			out = append(told, out...)
		}
	}
	if last != "" {
		out = append(out, bullet("`"+strings.ReplaceAll(last, "`", "'")+"`"))
	}
	return out
}

// tells reports whether a sentence says something by itself: "Let me look:" and
// "Perfect!" do not.
func tells(x string) bool {
	if strings.HasSuffix(x, ":") || strings.HasSuffix(x, "：") {
		return false
	}
	a, _ := nextLiteral(x, 0)
	return a >= 0 || weight(x) >= 24
}

// weight is the length of a text in letters of an alphabet.
func weight(s string) (n int) {
	for _, r := range s {
		if n++; r >= 0x2E80 {
			n += 2
		}
	}
	return n
}

// nextLines is how many intentions of the agent are told: the newest.
const nextLines = 3

// next is what is left: open items of the plan, else what the agent said it
// would do, else what was asked and not answered.
func (s *story) next() []string {
	var out []string
	if n := len(s.turns); n > 0 {
		t := s.turns[n-1]
		if !t.closed && t.ask != "" && !trivial(t.ask) && n > 1 {
			out = append(out, bullet(leading(t.ask, 200)))
		}
		if len(t.says) > 0 {
			var plans []string
			for _, x := range sentences(t.says[len(t.says)-1], 60) {
				if intends.in(x) {
					plans = append(plans, x)
				}
			}
			if all := slices.DeleteFunc(slices.Clone(plans), func(x string) bool { return !tells(x) }); len(all) > 0 {
				plans = all
			}
			for _, x := range plans[max(len(plans)-nextLines, 0):] {
				out = append(out, bullet(x))
			}
		}
	}
	if p := openPlan(s.plan); p != nil {
		for _, it := range p.Items {
			if it.State != "done" && it.State != "dropped" {
				out = append(out, bullet(it.Text))
			}
		}
	}
	return out
}

// troubles are the failures, the unsolved and the newest first.
func (s *story) troubles() []chosenLine {
	var out []chosenLine
	for i := len(s.failures) - 1; i >= 0; i-- {
		f := s.failures[i]
		text := "- `" + strings.ReplaceAll(f.what, "`", "'") + "`: " + clipSentence(f.error, 200)
		if f.after != "" {
			text += " → " + clipSentence(f.after, 160)
		}
		if f.solved {
			text += " ✓"
		}
		out = append(out, chosenLine{text, i})
	}
	slices.SortStableFunc(out, func(a, b chosenLine) int {
		x, y := s.failures[a.at], s.failures[b.at]
		if x.solved != y.solved {
			if x.solved {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.at, a.at)
	})
	return out
}

// decided reports whether a sentence chooses something or gives a reason that can
// be used again; what the agent is going to look at is neither.
func decided(x string) bool {
	if !tells(x) {
		return false
	}
	if decides.in(x) {
		return true
	}
	a, _ := nextLiteral(x, 0)
	return explains.in(x) && !intends.in(x) && (a >= 0 || weight(x) >= 60)
}

// decisions are sentences in which something was chosen or ruled out, the newest
// first.
func (s *story) decisions() []chosenLine {
	const most, read = 60, 600
	var out []chosenLine
	seen := map[string]bool{}
	texts := 0
	for i := len(s.turns) - 1; i >= 0 && len(out) < most; i-- {
		t := s.turns[i]
		for j := len(t.says) - 1; j >= 0 && texts < read; j-- {
			texts++
			for _, x := range sentences(t.says[j], 80) {
				if k := template(x); decided(x) && !seen[k] {
					seen[k] = true
					out = append(out, chosenLine{bullet(x), i})
				}
			}
		}
	}
	return out
}

// shortPath is the end of a path: enough beside the list of files in the ledger.
func shortPath(p string) string {
	at := len(p)
	for range 2 {
		i := strings.LastIndexByte(p[:at], '/')
		if i < 0 {
			return p
		}
		at = i
	}
	return p[at+1:]
}

// done tells the turns, the newest first: what was asked, what came of it, which
// files were touched.
func (s *story) done(most, bytes int) []chosenLine {
	var out []chosenLine
	size := 0
	seen := map[string]bool{}
	for i := len(s.turns) - 1; i >= 0; i-- {
		if most > 0 && len(out) >= most || size > bytes {
			break
		}
		t := s.turns[i]
		if t.ask == "" && len(t.says) == 0 && len(t.tools) == 0 {
			continue
		}
		if k := template(leading(t.ask, 120)); t.ask != "" && len(t.tools) == 0 {
			if seen[k] {
				continue
			}
			seen[k] = true
		}
		text := "-"
		if t.ask != "" && !trivial(t.ask) {
			text += " " + leading(t.ask, 110)
		}
		if len(t.says) > 0 {
			if came := s.words.best(t.says[len(t.says)-1], 1); len(came) > 0 && i < len(s.turns)-1 {
				if text != "-" {
					text += " →"
				}
				text += " " + clipSentence(came[0], 170)
			}
		}
		switch {
		case len(t.files) > 0:
			names := make([]string, len(t.files))
			for i, f := range t.files {
				names[i] = shortPath(f)
			}
			text += " (" + strings.Join(names, ", ") + ")"
		case len(t.says) == 0 && t.last != "" && i < len(s.turns)-1:
			text += " → `" + strings.ReplaceAll(clipSentence(t.last, 80), "`", "'") + "`"
		}
		size += len(text)
		if text != "-" {
			out = append(out, chosenLine{text, i * (saysKept + 1)})
		}
		// a long turn is told in more than one line
		if len(t.tools) > 0 {
			for j := len(t.says) - 2; j >= 0; j-- {
				if b := s.words.best(t.says[j], 1); len(b) > 0 && !strings.HasSuffix(b[0], ":") && !strings.HasSuffix(b[0], "：") && !intends.in(b[0]) && len(b[0]) > 30 {
					if k := template(b[0]); !seen[k] {
						seen[k] = true
						out = append(out, chosenLine{"  - " + clipSentence(b[0], 170), i*(saysKept+1) + j + 1})
					}
				}
			}
		}
	}
	return out
}
