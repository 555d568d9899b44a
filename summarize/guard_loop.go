package summarize

import (
	"strings"
	"unicode"
)

const (
	// loopGram is how many bytes a place has to share with an earlier one to be
	// looked at.
	loopGram = 24
	// loopTimes is how often a phrase follows itself in a loop, and loopBytes how
	// long that is at least: a rule or a row of equal cells is shorter.
	loopTimes = 4
	loopBytes = 96
	// loopShare is the part of a text that has to be repetition for it to be
	// degenerate: one in so many.
	loopShare = 3

	// lineTimes is how often a line stands in a text, or in one of the conversation,
	// that repeats it; lineBytes how long it is at least; leastLines how many such
	// lines a text has of which more than half may be too many.
	lineTimes  = 3
	lineBytes  = 12
	leastLines = 8
)

// sameLines reports whether more than half of a text is lines that stand in it
// twice before, wherever they stand: [looped] sees those that follow each other.
// White space, case and the number before a line make no difference, and lines that a text of the
// conversation repeats are quotations.
func sameLines(text string, eachSource func(func(string))) bool {
	seen := make(map[string]int)
	lines := 0
	for line := range strings.Lines(text) {
		if line = unnumbered(folded(line)); len(line) >= lineBytes {
			seen[line]++
			lines++
		}
	}
	over := func() bool {
		again := 0
		for _, n := range seen {
			again += max(0, n-lineTimes+1)
		}
		return lines >= leastLines && again*2 > lines
	}
	if !over() {
		return false
	}
	eachSource(func(src string) {
		if len(src) < lineTimes*lineBytes {
			return
		}
		src = folded(src)
		for line := range seen {
			if seen[line] >= lineTimes && strings.Count(src, line) >= lineTimes {
				delete(seen, line)
			}
		}
	})
	return over()
}

// unnumbered is a line without the number that a list gives it.
func unnumbered(line string) string {
	rest := strings.TrimLeft(line, "0123456789")
	if rest == line || rest == "" || strings.IndexByte(".):", rest[0]) < 0 {
		return line
	}
	return strings.TrimSpace(rest[1:])
}

// looped reports whether a third or more of a text is phrases that follow
// themselves again and again, in a line or across lines, in any script; white
// space and case make no difference. Only what is repeated exactly counts: the
// entries of a list and the rows of a table differ in what they are about. What
// the conversation itself repeats is a quotation, and none of the loops.
// eachSource calls its argument for every text that is quoted from.
func looped(text string, eachSource func(func(string))) bool {
	s := folded(text)
	runs := repeats(s)
	over := func() bool {
		n := 0
		for _, r := range runs {
			n += r.end - r.start - r.period // the first time is none too many
		}
		return n > 0 && n*loopShare >= len(s)
	}
	if !over() {
		return false
	}
	eachSource(func(src string) {
		if len(runs) == 0 || len(src) < loopBytes/2 {
			return
		}
		src = folded(src)
		kept := runs[:0]
		for _, r := range runs {
			// Three in a row, wherever in the phrase they begin.
			if !strings.Contains(src, s[r.start:r.start+max(3*r.period, loopBytes/2)]) {
				kept = append(kept, r)
			}
		}
		runs = kept
	})
	return over()
}

// repeated is a part of a text, of which each byte is the one a period before.
type repeated struct{ start, end, period int }

// repeats returns the parts of a text that are a phrase again and again, in
// order and apart from each other.
func repeats(s string) (out []repeated) {
	last := make(map[string]int, len(s))
	failed := 0 // the period that was no loop at the place before
	for i := 0; i+loopGram <= len(s); {
		gram := s[i : i+loopGram]
		j, seen := last[gram]
		last[gram] = i
		p := i - j
		if !seen || p == failed {
			if !seen {
				failed = 0
			}
			i++
			continue
		}
		more := max((loopTimes-1)*p, loopBytes-p)
		if i+more > len(s) || s[i:i+more] != s[j:j+more] {
			failed = p // a loop of this period would have begun here
			i++
			continue
		}
		failed = 0
		e := i + more
		for e < len(s) && s[e] == s[e-p] {
			e++
		}
		out = append(out, repeated{j, e, p})
		i = e
	}
	return out
}

// folded is a text in small letters, with single blanks between its words.
func folded(s string) string {
	return squash(strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s))
}
