package tokencount

import "unsafe"

// EstimatorID names the weights of this estimator. A price that is stored
// should carry the id of the estimator that made it: prices with different ids
// do not add up.
const EstimatorID = "text/2"

// longestToken is the length in bytes of the longest token, so that no text can
// be fewer tokens than one for each.
const longestToken = 128

// EstimateText returns about how many o200k_base tokens s is. It is
// deterministic, allocates nothing, takes linear time on any input and is safe
// for concurrent use. The empty string is 0 tokens; any other is at least 1.
//
// A byte that is not part of valid UTF-8 is priced as the U+FFFD that a JSON
// encoder would put in its place. An estimate is not additive: the sum over
// the parts of a text differs from the estimate of the whole by up to about one
// token a seam.
//
// How it works: each block of 64 bytes becomes one bit mask per class of byte
// (letters, digits, punctuation ...). Whatever starts or continues a token (a
// word after a space, a capital inside a word, the fourth digit of a number) is
// then a matter of shifting and combining masks, and its price a weight times
// the number of bits set. Bytes outside ASCII are decoded and priced by script.
func EstimateText(s string) int {
	return EstimateBytes(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// EstimateBytes is [EstimateText] for a byte slice. It does not write to b and
// does not keep it.
func EstimateBytes(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	e := estimation{text: b}
	off := 0
	for ; off+blockSize <= len(b); off += blockSize {
		e.block((*[blockSize]byte)(b[off:]), ^uint64(0), off)
	}
	if rest := len(b) - off; rest > 0 {
		var padded [blockSize]byte
		copy(padded[:], b[off:])
		e.block(&padded, 1<<rest-1, off)
	}
	return max(1, len(b)/longestToken, (e.cost+textStart+weightUnit/2)/weightUnit)
}
