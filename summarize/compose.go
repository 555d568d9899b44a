package summarize

import (
	"slices"
	"strings"
)

// Composition is what a checkpoint is made of.
type Composition struct {
	// Narrative is the accepted summary.
	Narrative string
	// Ledger holds the facts beside it; may be nil.
	Ledger *Ledger
	// Pointer names what the checkpoint shadows; may be empty. Short says it with
	// less and stands for it where the budget is small; empty means Pointer.
	Pointer, Short string
	// Budget is the most tokens that the whole text may have; 0 for none. A
	// budget that has no room for the framing and the pointer is exceeded by
	// them alone.
	Budget int
	// Room is up to what a narrative without sections may widen Budget: it is the
	// host's own text, and stays whole. 0 means not at all.
	Room int
	// Count prices a text; nil means a token for four bytes.
	Count func(string) int
	// Tail is text that stays visible beside the checkpoint: what it shows is
	// not said again.
	Tail string
	// Said are the user's messages that stay visible as they are: those are not
	// quoted. Words that only occur in other text are.
	Said []string
}

// Below plainBudget the framing says in short what the record is, below
// smallBudget only what it must, and so does the pointer. Below briefBudget the
// narrative is how things stand and what is next, shareBrief of the budget at
// most: the rest of what it could tell is quoted anyway.
const (
	plainBudget = 2500
	smallBudget = 500
	briefBudget = 1000
	shareBrief  = 0.1
)

// Shares of what a budget has left beside framing and narrative, for the parts
// of the ledger; quoted facts get the rest. What a part does not use goes to
// the others.
const (
	shareState = 0.50 // notes, plan and carried calls
	shareUser  = 0.06
	// shareAsked is what the user's words get while that is at most mostAsked
	// tokens, and leastAsked where a third of the budget has room for it: a request
	// of usual length stays whole.
	shareAsked = 0.12
	mostAsked  = 200
	leastAsked = 64
	// sharePending is what the user's words get when nothing came after them: they
	// are what is to be done.
	sharePending  = 0.25
	shareFailures = 0.03
	shareFiles    = 0.02
	// leastUser is what the user's words get of a small budget, and wordsUser what
	// they get before anything else is quoted: a short request stays whole.
	leastUser = 30
	wordsUser = 24
	// shareClip is what of the user's share one text gets that does not fit whole:
	// a pasted document must not crowd out what was said.
	shareClip = 0.4
)

// Compose returns the whole text of a checkpoint: framing, narrative, ledger
// and pointer, in this order. What goes in is chosen by usefulness until the
// budget is used up; the live state, a list of open items and the user's words
// come first. Nothing of the content can close or forge the framing. The same
// composition gives the same text.
func Compose(c Composition) string {
	if c.Count == nil {
		c.Count = func(s string) int { return (len(s) + 3) / 4 }
	}
	whole := c.Count
	c.Count = pieces(whole)
	says := frameSays
	switch {
	case c.Budget <= 0:
	case c.Budget < smallBudget:
		says = frameShort
	case c.Budget < plainBudget:
		says = framePlain
	}
	narrative := dropEmpty(defuseBlock(strings.TrimSpace(c.Narrative)))
	if c.Ledger.Empty() {
		c.Ledger = nil
	}
	if narrative != "" && !hasSections(narrative) && c.Budget > 0 {
		c.Budget = max(c.Budget, min(c.Room, c.Count(frame(c.Pointer, frameSays))+seams+int(float64(c.Count(narrative))/shareOwn)))
	} else if c.Budget > 0 && c.Budget < briefBudget && c.Ledger != nil {
		narrative = brief(narrative, c.Tail, int(shareBrief*float64(c.Budget)), c.Count)
	}
	if says == frameShort && c.Short != "" {
		c.Pointer = c.Short
	}
	bare := frame(c.Pointer, says)
	budget := c.Budget
	body := ""
	texts := newLedgerText(c.Ledger)
	for range 6 {
		left := 1 << 40
		if c.Budget > 0 {
			left = budget - whole(bare) - 1
		}
		body = composeBody(c, texts, narrative, left)
		text := frame(joinLines(body, c.Pointer), says)
		if c.Budget <= 0 {
			return text
		}
		over := whole(text) - c.Budget
		if over <= 0 {
			return text
		}
		budget -= over + 1 // the seams cost more than the parts: once more with less
	}
	for body != "" { // a counter that does not add up: by trial
		i := strings.LastIndexByte(body, '\n')
		body = body[:max(i, 0)]
		if text := frame(joinLines(body, c.Pointer), says); whole(text) <= c.Budget {
			return text
		}
	}
	return bare
}

// pieces returns what counts the parts of a text, going by a counter of whole
// texts: what a text costs beside its words is not paid for each part.
func pieces(count func(string) int) func(string) int {
	base := count("")
	if base == 0 {
		return count
	}
	return func(s string) int { return max(count(s)-base, 0) }
}

func joinLines(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n")
}

// composeBody writes what stands between the framing and the pointer.
func composeBody(c Composition, texts *ledgerText, narrative string, left int) string {
	if left <= 0 {
		return ""
	}
	share := 0.6
	if !hasSections(narrative) {
		share = shareOwn
	}
	if n := c.Count(narrative); n > left || c.Ledger != nil && n > int(share*float64(left)) {
		most := left
		if c.Ledger != nil { // what the user said must have room beside it
			most = left * 2 / 5
		}
		if narrative = fitText(narrative, most, c.Count); onlyHeadings(narrative) {
			narrative = ""
		}
	}
	if c.Ledger == nil {
		return narrative
	}
	l := &layout{ledgerText: texts, count: c.Count, tail: c.Tail, shown: make(map[string]bool, len(c.Said))}
	for _, s := range c.Said {
		l.shown[strings.TrimSpace(s)] = true
	}
	room := func() {
		l.said, l.left = narrative, left
		if narrative != "" {
			l.left -= c.Count(narrative) + 1
		}
		l.all = l.left
	}
	if room(); c.Budget > 0 && c.Budget < plainBudget && hasSections(narrative) {
		narrative = unsaid(narrative, joinLines(l.asked()...))
		room()
	}
	return joinLines(narrative, l.write())
}

// unsaid is a narrative without the lines that another text says, too.
func unsaid(narrative, text string) string {
	var out []string
	for line := range strings.Lines(narrative) {
		line = strings.TrimRight(line, "\n")
		bare := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "- "), "…"))
		if bare == "" || !strings.Contains(text, bare) {
			out = append(out, line)
		}
	}
	return dropEmpty(strings.Join(out, "\n"))
}

// brief is what a narrative says of the present and of what is next, as far as
// the tail does not show it, within n tokens.
func brief(narrative, tail string, n int, count func(string) int) string {
	var out []string
	section := ""
	for line := range strings.Lines(narrative) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
			continue
		}
		bare := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(line, "- "), "…"))
		if section != "State" && section != "Next" || bare == "" || bare == noneText || slices.Contains(out, line) || strings.Contains(tail, bare) {
			continue
		}
		if cost := count(line) + 1; cost <= n {
			n -= cost
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

const (
	// shareOwn is what a narrative without sections may have of the budget.
	shareOwn = 0.8
	// seams is what the parts of a text cost when they stand together.
	seams = 16
)

// hasSections reports whether a narrative is a note of sections.
func hasSections(narrative string) bool {
	return strings.HasPrefix(narrative, "## ") || strings.Contains(narrative, "\n## ")
}

// fitText cuts a text at the end of a line so that it has at most n tokens, and
// at the end of a word where its first line alone has more.
func fitText(s string, n int, count func(string) int) string {
	if n <= 0 {
		return ""
	}
	for s != "" && count(s) > n {
		i := strings.LastIndexByte(strings.TrimRight(s, "\n"), '\n')
		if i < 0 {
			if strings.HasPrefix(s, "## ") {
				return ""
			}
			return clipWords(s, n, count)
		}
		s = s[:i]
	}
	return strings.TrimRight(s, "\n")
}

// dropEmpty takes out sections that say nothing.
func dropEmpty(s string) string {
	lines := strings.Split(s, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "## ") {
			j := i + 1
			for j < len(lines) && !strings.HasPrefix(lines[j], "## ") {
				j++
			}
			if onlyHeadings(strings.Join(lines[i:j], "\n")) {
				i = j - 1
				continue
			}
		}
		out = append(out, lines[i])
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

func onlyHeadings(s string) bool {
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && line != noneText {
			return false
		}
	}
	return true
}

// noneText is what an empty section says.
const noneText = "none"
