package summarize

// bestSnippets notes for each chosen literal of a line whether this line shows
// it better than those before: whether the words right around it have more
// useful literals for their length, and of two equal ones the newer. It needs
// found as an empty buffer and gives it back.
func (r *reading) bestSnippets(snips []snippet, found []seen, l *literalLine) ([]snippet, []seen) {
	line, by := l.text, l.by
	for _, p := range l.places {
		var m *mention
		if p.id == noMention {
			m = r.known(line[p.a:p.b])
		} else {
			m = r.at(p.id)
		}
		if m != nil && m.rank > 0 {
			if len(found) == 0 && by == byTool && orders.in(line) {
				return snips, found // quoted only if nothing else shows it: reachable by recall
			}
			found = append(found, seen{int(p.a), int(p.b), m})
		}
	}
	lo, hi, at := 0, -1, 0
	for i, f := range found {
		value := tight(line, found, i)
		if by == byCall || by == byUser {
			value *= 1.1
		}
		if m := f.m; m.fact != 0 && value < m.best {
			continue
		}
		if f.b > hi {
			lo, hi = around(line, f.a, f.b, snippetPad)
			snips = append(snips, snippet{line: line[lo:hi], item: l.item, by: by})
			at = len(snips)
		}
		f.m.fact, f.m.best = int32(at), value
	}
	return snips, found
}

// seen is a place of a literal in a line.
type seen struct {
	a, b int
	m    *mention
}

// tight is what the best quote of a line around found[i] says for its length:
// the useful literals of a few words in a row that have this one.
func tight(line string, found []seen, i int) float64 {
	// the bounds of the words before and behind, this one in the middle
	var starts, ends [quoteWidth]int
	n := 0
	a := found[i].a
	for a > 0 && !space(line[a-1]) && found[i].a-a < tightMost {
		a--
	}
	starts[0] = a
	for n < quoteWidth-1 {
		for a > 0 && space(line[a-1]) {
			a--
		}
		if a == 0 || found[i].a-a > tightMost {
			break
		}
		for a > 0 && !space(line[a-1]) && found[i].a-a < tightMost {
			a--
		}
		n++
		starts[n] = a
	}
	b, k := found[i].b, 0
	for b < len(line) && !space(line[b]) && b-found[i].b < tightMost {
		b++
	}
	ends[0] = b
	for k < quoteWidth-1 {
		for b < len(line) && space(line[b]) {
			b++
		}
		if b == len(line) || b-found[i].b > tightMost {
			break
		}
		for b < len(line) && !space(line[b]) && b-found[i].b < tightMost {
			b++
		}
		k++
		ends[k] = b
	}
	best := 0.0
	for left := 0; left <= n; left++ {
		right := min(quoteWidth-1-left, k)
		if left+right < quoteWidth-1 && left < n {
			continue // the line has words for a wider one
		}
		lo, hi := starts[left], ends[right]
		v := 0.0
		for j := i; j >= 0 && found[j].a >= lo; j-- {
			v += found[j].m.odds
		}
		for j := i + 1; j < len(found) && found[j].b <= hi; j++ {
			v += found[j].m.odds
		}
		own := found[i].m.odds
		v = own + besides*(v-own)
		best = max(best, v/float64(tightOver+hi-lo))
	}
	return best
}

const (
	// tightMost is how far the words of a quote are looked for, tightOver what a
	// quote has besides its words, in bytes.
	tightMost = 300
	tightOver = 12
	// besides is what the other literals of a quote are worth: another quote may
	// show them as well.
	besides = 1.0
	// worthOwn is the part of its best quote that a literal must have in the
	// line of another one to be left there.
	worthOwn = 0.75
)

// around returns the bounds of the part of a line around [a, b): about pad bytes
// on either side, or as much as it takes for three words, between words.
func around(line string, a, b, pad int) (int, int) {
	const words, most = 3, 400
	lo, hi := 0, len(line)
	n := 0
	for i := a; i > 0; i-- {
		if !space(line[i-1]) {
			continue
		}
		if i < a && !space(line[i]) {
			n++
		}
		if a-i >= pad && n >= words || a-i > most && n > 0 {
			lo = i
			break
		}
	}
	if a-lo > most {
		for lo = a - most; lo < a && line[lo]&0xC0 == 0x80; lo++ {
		}
	}
	n = 0
	for i := b; i < len(line); i++ {
		if !space(line[i]) {
			continue
		}
		if i > b && !space(line[i-1]) {
			n++
		}
		if i-b >= pad && n >= words || i-b > most && n > 0 {
			hi = i
			break
		}
	}
	if hi-b > most {
		for hi = b + most; hi > b && line[hi]&0xC0 == 0x80; hi-- {
		}
	}
	for lo < a && space(line[lo]) {
		lo++
	}
	for hi > b && space(line[hi-1]) {
		hi--
	}
	return lo, hi
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
