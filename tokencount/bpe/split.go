package bpe

// splitter cuts a text into pieces as the regular expression of an encoding
// does, without one. Each alternative is a method that returns the end of its
// match, or -1. However a text is made, a byte is looked at a bounded number of
// times: what an alternative read in vain is always consumed by the next one
// or two pieces.
type splitter struct {
	o200k bool
	work  int // bytes looked at, for the test of the bound
}

// next returns the end of the piece of s that starts at i < len(s).
func (p *splitter) next(s string, i int) int {
	c, n := classAt(s, i)
	if p.o200k {
		if e := p.casedWord(s, i, c, n); e > 0 {
			return e
		}
	} else if e := p.plainWord(s, i, c, n); e > 0 {
		return e
	}
	if c == classNumber {
		return number(s, i+n)
	}
	if e := p.symbols(s, i); e > 0 {
		return e
	}
	return p.space(s, i)
}

// casedWord is o200k's pair of alternatives: an optional prefix, then letters
// in the order upper case, lower case, then a contraction. c and n are the
// class and length of the rune at i.
func (p *splitter) casedWord(s string, i int, c class, n int) int {
	if c&(setPrefix|setLetter) == 0 {
		return -1
	}
	prefix, bare := c&setPrefix != 0, c&(setLetter|classMark) != 0
	e := -1
	if prefix {
		e = p.upperThenLower(s, i+n)
	}
	if e < 0 && bare {
		e = p.upperThenLower(s, i)
	}
	if e < 0 && prefix {
		e = p.upperMaybeLower(s, i+n)
	}
	if e < 0 && bare {
		e = p.upperMaybeLower(s, i)
	}
	if e < 0 {
		return -1
	}
	return e + contraction(s, e)
}

// upperThenLower is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+.
// The two sets share the runes without case, so that the greedy first part may
// have to give some back: up to the last of those in its run.
func (p *splitter) upperThenLower(s string, i int) int {
	shared := -1
	k := i
	for k < len(s) {
		c, n := classAt(s, k)
		if c&setUpper == 0 {
			if c&setLower != 0 {
				p.work += k - i
				return p.run(s, k+n, setLower)
			}
			break
		}
		k += n
		if c&setLower != 0 {
			shared = k
		}
	}
	p.work += k - i
	return shared
}

// upperMaybeLower is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*.
func (p *splitter) upperMaybeLower(s string, i int) int {
	k := p.run(s, i, setUpper)
	if k == i {
		return -1
	}
	return p.run(s, k, setLower)
}

// plainWord is cl100k's: a contraction by itself, or an optional prefix and
// letters.
func (p *splitter) plainWord(s string, i int, c class, n int) int {
	if e := contraction(s, i); e > 0 {
		return i + e
	}
	if c&setLetter != 0 {
		return p.run(s, i+n, setLetter)
	}
	if c&setPrefix != 0 && i+n < len(s) {
		if c, m := classAt(s, i+n); c&setLetter != 0 {
			return p.run(s, i+n+m, setLetter)
		}
	}
	return -1
}

// contraction returns the length of (?i:'s|'t|'re|'ve|'m|'ll|'d) at s[i], or 0.
// Case folding makes the long s, U+017F, an s.
func contraction(s string, i int) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return 0
	}
	third := byte(0)
	if i+2 < len(s) {
		third = s[i+2]
	}
	switch s[i+1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if third|0x20 == 'e' {
			return 3
		}
	case 'l':
		if third|0x20 == 'l' {
			return 3
		}
	}
	if s[i+1] == 0xc5 && third == 0xbf {
		return 3
	}
	return 0
}

// number is the rest of \p{N}{1,3} whose first rune ended at i.
func number(s string, i int) int {
	for k := 1; k < 3 && i < len(s); k++ {
		c, n := classAt(s, i)
		if c != classNumber {
			break
		}
		i += n
	}
	return i
}

// symbols is an optional space and [^\s\p{L}\p{N}]+, with the newlines behind
// it; o200k takes slashes too.
func (p *splitter) symbols(s string, i int) int {
	start := i
	if s[i] == ' ' {
		start++
	}
	e := p.run(s, start, setSymbols)
	if e == start {
		return -1
	}
	for e < len(s) && (s[e] == '\r' || s[e] == '\n' || p.o200k && s[e] == '/') {
		e++
	}
	return e
}

// space is \s*[\r\n]+, else \s+(?!\S), else \s+.
func (p *splitter) space(s string, i int) int {
	afterNewline, last, e := -1, i, i
	for e < len(s) {
		c, n := classAt(s, e)
		if c&setSpace == 0 {
			break
		}
		last = e
		e += n
		if c == classNewline {
			afterNewline = e
		}
	}
	p.work += e - i
	if afterNewline > 0 {
		return afterNewline
	}
	if e < len(s) && last > i {
		return last
	}
	return e
}

// run returns the end of the run of runes in set that starts at i.
func (p *splitter) run(s string, i int, set class) int {
	start := i
	for i < len(s) {
		c, n := classAt(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	p.work += i - start
	return i
}
