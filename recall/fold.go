package recall

import "strings"

// fold finds an ASCII text without regard to case. It jumps to the rarest of
// its bytes and compares there.
type fold struct {
	text         string // in small letters
	rare         int    // index in text
	lower, upper byte   // the rare byte
}

func newFold(text string) *fold {
	f := &fold{text: strings.ToLower(text)}
	best := len(common) + 1
	for i := range len(f.text) {
		// Bytes that are not in the list are rarer than all that are.
		if r := strings.IndexByte(common, f.text[i]); r < 0 || len(common)-r < best {
			if best = len(common) - r; r < 0 {
				best = 0
			}
			if f.rare = i; best == 0 {
				break
			}
		}
	}
	f.lower = f.text[f.rare]
	f.upper = f.lower
	if 'a' <= f.lower && f.lower <= 'z' {
		f.upper -= 'a' - 'A'
	}
	return f
}

// common are the common bytes of transcripts, the most common first.
const common = " etaoinsrlcdupmfgh/._-:\n\"0,1b(y)w2v=3'k5x4"

// index returns where the text begins in s; -1 when it is not there.
func (f *fold) index(s string) int {
	// next holds the next place of each form of the rare byte.
	next := [2]int{-1, -1}
	forms := [2]byte{f.lower, f.upper}
	find := func(k, from int) int {
		if from > len(s) {
			return len(s)
		}
		if i := strings.IndexByte(s[from:], forms[k]); i >= 0 {
			return from + i
		}
		return len(s)
	}
	next[0] = find(0, 0)
	if next[1] = len(s); f.upper != f.lower {
		next[1] = find(1, 0)
	}
	for {
		k := 0
		if next[1] < next[0] {
			k = 1
		}
		at := next[k]
		if at >= len(s) {
			return -1
		}
		if a := at - f.rare; a >= 0 && a+len(f.text) <= len(s) && equalFold(s[a:a+len(f.text)], f.text) {
			return a
		}
		next[k] = find(k, at+1)
	}
}

// equalFold compares with a text in small letters of the same length.
func equalFold(s, lower string) bool {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
