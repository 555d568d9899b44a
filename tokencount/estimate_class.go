package tokencount

// The bits of a byte's class. What is no letter uses some of a letter's bits
// again, so that a class is one byte.
const (
	classLetter = 0
	classUpper  = 1 // of a letter; else the backslash
	classVowel  = 2 // of a letter; else a digit
	classHeavy  = 3 // of a letter: costs more than the others; else a blank
	classLight  = 4 // of a letter: costs less; else a newline
	classE      = 7 // of a letter: e; else the quote
	classHigh   = 6 // outside ASCII
)

// classOf is the class of each byte.
var classOf = func() (t [256]uint8) {
	set := func(bytes string, bits ...int) {
		for i := range len(bytes) {
			for _, bit := range bits {
				t[bytes[i]] |= 1 << bit
			}
		}
	}
	set("abcdefghijklmnopqrstuvwxyz", classLetter)
	set("aeiou", classVowel)
	set("aioujkmw", classHeavy)
	set("cdfnqstvyz", classLight)
	set("e", classE)
	for c := 'a'; c <= 'z'; c++ {
		t[c-'a'+'A'] = t[c] | 1<<classUpper
	}
	set("\\", classUpper)
	set("\"", classE)
	set("0123456789", classVowel)
	set(" \t", classHeavy)
	set("\n\r", classLight)
	for c := 0x80; c < 0x100; c++ {
		t[c] = 1 << classHigh
	}
	return t
}()

// lanes has a one in each byte of a word.
const lanes = 0x0101010101010101

// equalBytes has bit i set where byte i of x and y is the same, both ASCII. For
// other bytes it looks at the lower seven bits only.
func equalBytes(x, y uint64) uint64 {
	differ := (x ^ y) &^ (lanes << 7)
	return (lanes<<7 - differ) >> 7 & lanes * 0x0102040810204080 >> 56
}

// transposeBits makes bit j of byte i bit i of byte j.
func transposeBits(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00aa00aa00aa00aa
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000cccc0000cccc
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000f0f0f0f0
	return x ^ t ^ t<<28
}

// transposeBytes makes byte j of word i byte i of word j.
func transposeBytes(w *[8]uint64) {
	for i := 0; i < 4; i++ {
		w[i], w[i+4] = exchange(w[i], w[i+4], 32, 0x00000000ffffffff)
	}
	for i := 0; i < 8; i += 4 {
		w[i], w[i+2] = exchange(w[i], w[i+2], 16, 0x0000ffff0000ffff)
		w[i+1], w[i+3] = exchange(w[i+1], w[i+3], 16, 0x0000ffff0000ffff)
	}
	for i := 0; i < 8; i += 2 {
		w[i], w[i+1] = exchange(w[i], w[i+1], 8, 0x00ff00ff00ff00ff)
	}
}

// exchange swaps the bits of x that stand n above the mask with the bits of y
// in the mask.
func exchange(x, y uint64, n uint, mask uint64) (uint64, uint64) {
	t := (x>>n ^ y) & mask
	return x ^ t<<n, y ^ t
}
