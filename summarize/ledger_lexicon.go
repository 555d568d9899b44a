package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexicon finds words and phrases of several languages in a text without regard
// to case. It is faster than a regular expression of the same size by far.
type lexicon struct {
	words   map[string]bool
	phrases map[string][]string // by their first word, the rest with one blank
	parts   []string            // of scripts that do not write words apart
	// lengths are those of the words, and of the first words of phrases, that
	// begin with a byte, as bits: most words of a text are not looked up.
	lengths [256]uint64
}

// newLexicon makes a lexicon from words and phrases separated by "|".
func newLexicon(lists ...string) *lexicon {
	l := &lexicon{words: map[string]bool{}, phrases: map[string][]string{}}
	starts := func(w string) { l.lengths[w[0]] |= 1 << min(len(w), 63) }
	for _, w := range strings.Split(strings.Join(lists, "|"), "|") {
		w = strings.ToLower(strings.TrimSpace(w))
		r, _ := utf8.DecodeRuneInString(w)
		switch first, rest, ok := strings.Cut(w, " "); {
		case w == "":
		case r >= 0x2E80 || unicode.In(r, unicode.Thai, unicode.Arabic):
			l.parts = append(l.parts, w)
		case ok:
			l.phrases[first] = append(l.phrases[first], rest)
			starts(first)
		default:
			l.words[w] = true
			starts(w)
		}
	}
	return l
}

// in reports whether a text has one of the words.
func (l *lexicon) in(s string) bool {
	ascii := true
	var buf [64]byte
	for i := 0; i < len(s); {
		c := s[i]
		if !wordByte(c) {
			i++
			continue
		}
		j, n := i, 0
		for j < len(s) && (wordByte(s[j]) || s[j] == '\'' && j+1 < len(s) && wordByte(s[j+1])) {
			if s[j] >= utf8.RuneSelf {
				ascii = false
			}
			if n < len(buf) {
				buf[n] = lowerByte(s[j])
				n++
			}
			j++
		}
		if n < len(buf) {
			w := buf[:n]
			if ascii && l.lengths[w[0]]&(1<<n) == 0 {
				i = j
				continue
			}
			if l.words[string(w)] || !ascii && l.words[strings.ToLower(s[i:j])] {
				return true
			}
			for _, rest := range l.phrases[string(w)] {
				if j < len(s) && s[j] == ' ' && startsFold(s[j+1:], rest) {
					return true
				}
			}
		}
		i = j
	}
	if !ascii {
		for _, p := range l.parts {
			if strings.Contains(s, p) {
				return true
			}
		}
	}
	return false
}

func wordByte(c byte) bool { return isAlnum(c) || c >= utf8.RuneSelf || c == '_' }

// startsFold reports whether s starts with the words of p, and a word ends
// there.
func startsFold(s, p string) bool {
	if len(s) < len(p) || !strings.EqualFold(s[:len(p)], p) {
		return false
	}
	return len(s) == len(p) || !wordByte(s[len(p)])
}
