package tokencount

import (
	"encoding/binary"
	"math/bits"
)

// blockSize is how many bytes are looked at together: one bit of a machine
// word for each.
const blockSize = 64

// estimation is one pass over one text.
type estimation struct {
	text []byte
	cost int // in 1/weightUnit tokens

	// The same masks of the block before, for what reaches across the edge.
	before masks

	runeEnd    int    // offset behind the last rune outside ASCII
	runeScript script // what it was
}

// masks has a bit for each byte of a block; bit i is byte i.
type masks struct {
	letter, upper, vowel, heavy, light, letterE, digit, blank, newline, escape, quote, punct, high uint64

	lone   uint64 // punctuation that may join the word behind it
	digit2 uint64 // at least the second digit of a number, and so on
	digit3 uint64
	blank2 uint64
	piece2 uint64 // letters of one piece of a camel-case word
	piece3 uint64
	piece5 uint64
	piece9 uint64
	sway2  uint64 // vowel after consonant or consonant after vowel
	dull2  uint64 // consonant after consonant
	solid2 uint64 // letters and digits
	solid4 uint64
	solid8 uint64
	same2  uint64 // equal bytes
	same3  uint64
	same5  uint64
}

// shift moves the bits of m by n bytes towards the end of the text, so that bit
// i says what m says of byte i-n; the first n bits come from the block before.
func shift(m, before uint64, n uint) uint64 {
	return m<<n | before>>(64-n)
}

func ones(m uint64) int { return bits.OnesCount64(m) }

// block prices one block that starts at offset off of the text. Bytes whose bit
// in valid is not set are padding.
func (e *estimation) block(b *[blockSize]byte, valid uint64, off int) {
	// One class byte for each byte, eight of them in a word ...
	var w [8]uint64
	var m masks
	last := uint64(0)
	if off > 0 {
		last = uint64(e.text[off-1])
	}
	for i := range w {
		x := binary.LittleEndian.Uint64(b[8*i:])
		w[i] = transposeBits(uint64(classOf[byte(x)]) |
			uint64(classOf[byte(x>>8)])<<8 |
			uint64(classOf[byte(x>>16)])<<16 |
			uint64(classOf[byte(x>>24)])<<24 |
			uint64(classOf[byte(x>>32)])<<32 |
			uint64(classOf[byte(x>>40)])<<40 |
			uint64(classOf[byte(x>>48)])<<48 |
			uint64(classOf[byte(x>>56)])<<56)
		m.same2 |= equalBytes(x, x<<8|last) << (8 * i)
		last = x >> 56
	}
	// ... become one word for each bit of the class.
	transposeBytes(&w)
	m.letter, m.high = w[classLetter], w[classHigh]
	m.upper, m.escape = w[classUpper]&m.letter, w[classUpper]&^m.letter
	m.vowel, m.digit = w[classVowel]&m.letter, w[classVowel]&^m.letter
	m.heavy, m.blank = w[classHeavy]&m.letter, w[classHeavy]&^m.letter
	m.letterE, m.quote = w[classE]&m.letter, w[classE]&^m.letter
	m.light, m.newline = w[classLight]&m.letter, w[classLight]&^m.letter
	m.punct = valid &^ (m.letter | m.digit | m.blank | m.newline | m.high)
	e.price(&m)
	if m.high != 0 {
		e.runes(m.high, off)
	}
	e.before = m
}

// price adds what the ASCII bytes of a block cost.
func (e *estimation) price(m *masks) {
	p := &e.before
	letter1 := shift(m.letter, p.letter, 1)
	digit1 := shift(m.digit, p.digit, 1)
	blank1 := shift(m.blank, p.blank, 1)
	newline1 := shift(m.newline, p.newline, 1)
	punct1 := shift(m.punct, p.punct, 1)
	high1 := shift(m.high, p.high, 1)

	// Equal neighbors.
	m.same3 = m.same2 & shift(m.same2, p.same2, 1)
	m.same5 = m.same3 & shift(m.same3, p.same3, 2)

	// Words. A camel-case word is several pieces.
	start := m.letter &^ letter1
	camel := m.upper & letter1 &^ shift(m.upper, p.upper, 1)
	m.piece2 = m.letter & letter1 &^ (camel | m.same5)
	m.piece3 = m.piece2 & shift(m.piece2, p.piece2, 1)
	m.piece5 = m.piece3 & shift(m.piece3, p.piece3, 2)
	m.piece9 = m.piece5 & shift(m.piece5, p.piece5, 4)
	m.lone = m.punct &^ (punct1 | blank1 | m.escape)
	escape1 := shift(m.escape, p.escape, 1)
	lone1 := shift(m.lone, p.lone, 1)
	e.cost += wordAfterBlank * ones(start&blank1)
	e.cost += wordAfterLone * ones(start&lone1)
	e.cost += wordAfterBullet * ones(start&lone1&^shift(m.letter|m.digit|m.punct|m.high, p.letter|p.digit|p.punct|p.high, 2))
	e.cost += wordAfterEscape * ones(start&escape1)
	e.cost += wordAfterPunct * ones(start&punct1&^lone1&^escape1)
	e.cost += wordAfterDigit * ones(start&digit1)
	e.cost += wordAfterHigh * ones(start&high1)
	e.cost += wordAfterOther * ones(start&^(blank1|punct1|digit1|high1))
	e.cost += camelPiece * ones(camel)
	e.cost += letter2 * ones(m.piece2)
	e.cost += letter3 * ones(m.piece3)
	e.cost += letter5 * ones(m.piece5)
	e.cost += letter7 * ones(m.piece5&shift(m.piece5, p.piece5, 2))
	e.cost += letter9 * ones(m.piece9)
	e.cost += letter13 * ones(m.piece9&shift(m.piece9, p.piece9, 4))
	e.cost += letterSame5 * ones(m.letter&m.same5)
	e.cost += capital * ones(m.upper&start)
	e.cost += capitalRun * ones(m.upper&m.piece2)

	// Sound. Some letters are rarer in the words of the vocabulary than in
	// others, and so is what has no vowel for long.
	vowel1 := shift(m.vowel, p.vowel, 1)
	m.sway2 = m.piece2 & (m.vowel ^ vowel1)
	m.dull2 = m.piece2 &^ (m.vowel | vowel1)
	e.cost += heavy * ones(m.heavy&^m.same5)
	e.cost += light * ones(m.light&^m.same5)
	e.cost += letterE * ones(m.letterE&^m.same5)
	e.cost += sway2 * ones(m.sway2)
	e.cost += sway3 * ones(m.sway2&shift(m.sway2, p.sway2, 1))
	e.cost += dull2 * ones(m.dull2)
	e.cost += dull3 * ones(m.dull2&shift(m.dull2, p.dull2, 1))

	// Numbers: three digits a token.
	number := m.digit &^ digit1
	m.digit2 = m.digit & digit1
	m.digit3 = m.digit2 & shift(m.digit2, p.digit2, 1)
	e.cost += numberAfterBlank * ones(number&blank1)
	e.cost += numberAfterOther * ones(number&^blank1)
	e.cost += digit4 * ones(m.digit3&shift(m.digit3, p.digit3, 1))

	// Long runs of letters and digits: base64, hex, hashes.
	m.solid2 = (m.letter | m.digit) & shift(m.letter|m.digit, p.letter|p.digit, 1) &^ m.same5
	m.solid4 = m.solid2 & shift(m.solid2, p.solid2, 2)
	m.solid8 = m.solid4 & shift(m.solid4, p.solid4, 4)
	solid16 := m.solid8 & shift(m.solid8, p.solid8, 8)
	e.cost += solidLetter * ones(solid16&m.letter)
	e.cost += solidDigit * ones(solid16&m.digit)
	e.cost += solidTurn * ones(solid16&(camel|start))

	// Punctuation.
	word1 := letter1 | digit1 | high1
	more := m.punct & punct1
	e.cost += punctAfterBlank * ones(m.punct&blank1)
	e.cost += punctAfterWord * ones(m.punct&word1)
	e.cost += punctAfterOther * ones(m.punct&^(blank1|word1|punct1))
	e.cost += punctMore * ones(more&^m.same2)
	e.cost += quoteMore * ones(more&m.quote)
	e.cost += quoteAfterWord * ones(m.quote&word1)
	e.cost += punctSame2 * ones(more&m.same2&^m.same5)
	e.cost += punctSame5 * ones(more&m.same5)

	// White space.
	m.blank2 = m.blank & blank1
	blank3 := m.blank2 & shift(m.blank2, p.blank2, 1)
	e.cost += newlineAfterPunct * ones(m.newline&punct1)
	e.cost += newlineAfterBlank * ones(m.newline&blank1)
	e.cost += newlineAfterOther * ones(m.newline&^(punct1|newline1|blank1))
	e.cost += newlineMore * ones(m.newline&newline1)
	e.cost += blankSecond * ones(m.blank2&^blank3)
	e.cost += blankThird * ones(blank3)
	e.cost += blankMixed * ones(m.blank2&^m.same2)
}
