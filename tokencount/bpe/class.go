package bpe

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// class is what the split patterns can tell about a rune: one bit, and masks of
// bits for the sets in the patterns.
type class uint8

const (
	classUpper    class = 1 << iota // Lu, Lt
	classLower                      // Ll
	classCaseless                   // Lm, Lo
	classMark                       // M
	classNumber                     // N
	classBlank                      // white space but CR and LF
	classNewline                    // CR, LF
	classOther                      // all else
)

const (
	setLetter  = classUpper | classLower | classCaseless
	setUpper   = classUpper | classCaseless | classMark // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	setLower   = classLower | classCaseless | classMark // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	setSpace   = classBlank | classNewline              // \s
	setPrefix  = classMark | classBlank | classOther    // [^\r\n\p{L}\p{N}]
	setSymbols = classMark | classOther                 // [^\s\p{L}\p{N}]
)

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for i := range t {
		t[i] = classify(rune(i))
	}
	return t
}()

// classPage has the classes of 256 neighboring runes.
type classPage [256]class

// classPages fills as scripts are met: a page is 256 bytes, all of them 1 MB.
var classPages [(unicode.MaxRune + 1) >> 8]atomic.Pointer[classPage]

// classAt returns the class of the rune at s[i] and its length. A byte that is
// not valid UTF-8 is a U+FFFD of length 1.
func classAt(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	page := classPages[r>>8].Load()
	if page == nil {
		page = fillPage(r >> 8)
	}
	return page[r&0xff], n
}

// fillPage makes a page. Two goroutines that both do so make the same.
func fillPage(p rune) *classPage {
	page := new(classPage)
	for i := range page {
		page[i] = classify(p<<8 | rune(i))
	}
	classPages[p].Store(page)
	return page
}

func classify(r rune) class {
	switch {
	case r == '\n' || r == '\r':
		return classNewline
	case unicode.IsSpace(r):
		return classBlank
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return classUpper
	case unicode.Is(unicode.Ll, r):
		return classLower
	case unicode.In(r, unicode.Lm, unicode.Lo):
		return classCaseless
	case unicode.Is(unicode.M, r):
		return classMark
	case unicode.Is(unicode.N, r):
		return classNumber
	}
	return classOther
}
