package tokencount

import (
	"math/bits"
	"unicode/utf8"
)

// script is a group of runes that cost alike.
type script uint8

const (
	scriptOther script = iota
	scriptInvalid
	scriptLatin // letters with marks
	scriptGreek
	scriptCyrillic
	scriptHebrew
	scriptArabic
	scriptDevanagari
	scriptIndic // the other scripts of India
	scriptThai
	scriptAlphabet // Armenian, Georgian, Ethiopic and whatever else is spelled
	scriptHangul
	scriptKana
	scriptHan
	scriptHanRare
	scriptWide // CJK punctuation and full-width forms
	scriptSign // typographic punctuation, Latin-1 signs
	scriptBox  // box drawing and blocks
	scriptSymbol
	scriptEmoji
	scriptJoiner // variation selectors, joiners, skin tones
	scripts
)

// scriptOf groups a rune outside ASCII.
func scriptOf(r rune) script {
	switch {
	case r < 0xc0:
		return scriptSign
	case r < 0x300:
		return scriptLatin
	case r < 0x370:
		return scriptOther // combining marks
	case r < 0x400:
		return scriptGreek
	case r < 0x530:
		return scriptCyrillic
	case r < 0x590:
		return scriptAlphabet
	case r < 0x600:
		return scriptHebrew
	case r < 0x780:
		return scriptArabic
	case r < 0x900:
		return scriptOther
	case r < 0x980:
		return scriptDevanagari
	case r < 0xe00:
		return scriptIndic
	case r < 0xe80:
		return scriptThai
	case r < 0x1100:
		return scriptAlphabet
	case r < 0x1200:
		return scriptOther
	case r < 0x1e00:
		return scriptAlphabet
	case r < 0x1f00:
		return scriptLatin
	case r < 0x2000:
		return scriptGreek
	case r == 0x200d:
		return scriptJoiner
	case r < 0x2070:
		return scriptSign
	case r < 0x2500:
		return scriptSymbol
	case r < 0x25a0:
		return scriptBox
	case r < 0x2e80:
		return scriptSymbol
	case r < 0x3000:
		return scriptHanRare
	case r < 0x3040:
		return scriptWide
	case r < 0x3100:
		return scriptKana
	case r < 0x3400:
		return scriptSymbol
	case r < 0x4e00:
		return scriptHanRare
	case r < 0xa000:
		return scriptHan
	case r < 0xac00:
		return scriptOther
	case r < 0xd7a4:
		return scriptHangul
	case r < 0xf900:
		return scriptOther
	case r < 0xfb00:
		return scriptHanRare
	case r < 0xfb50:
		return scriptOther
	case r < 0xfe00:
		return scriptArabic // presentation forms
	case r < 0xfe10:
		return scriptJoiner
	case r < 0xff00:
		return scriptOther
	case r < 0xfff0:
		return scriptWide
	case r < 0x10000:
		return scriptInvalid
	case r >= 0x1f3fb && r <= 0x1f3ff:
		return scriptJoiner
	case r >= 0x1f000 && r < 0x20000:
		return scriptEmoji
	case r >= 0x20000 && r < 0x40000:
		return scriptHanRare
	}
	return scriptOther
}

// runes adds what the runes outside ASCII cost that start in a block. high
// marks their bytes.
func (e *estimation) runes(high uint64, off int) {
	for high != 0 {
		i := bits.TrailingZeros64(high)
		at := off + i
		if at < e.runeEnd { // the rest of a rune that started a block earlier
			high &= high - 1
			continue
		}
		r, n := utf8.DecodeRune(e.text[at:])
		s := scriptInvalid
		if n > 1 {
			s = scriptOf(r)
		}
		if s == e.runeScript && at == e.runeEnd {
			e.cost += runeInRun[s]
		} else {
			e.cost += runeFirst[s]
		}
		e.runeEnd, e.runeScript = at+n, s
		high &= ^uint64(0) << (i + n)
	}
}
