package bpe

import "unsafe"

const (
	// cacheKey is the longest piece in bytes that is remembered. A piece that
	// is no token has at least two tokens and at most one a byte.
	cacheKey = 30

	// cacheSize is how many pieces a worker remembers, 32 bytes each.
	cacheSize = 1 << 14
)

// cache remembers how many tokens a piece is. It is direct mapped: a piece may
// push out another, and nothing is ever allocated.
type cache [cacheSize]cacheEntry

type cacheEntry struct {
	length uint8
	tokens uint8
	key    [cacheKey]byte
}

// at returns the place of a piece. The low half of the hash finds its slot in
// the vocabulary, so this takes the high half.
func (c *cache) at(hash uint64) *cacheEntry {
	return &c[hash>>32%cacheSize]
}

func (e *cacheEntry) is(p string) bool {
	return int(e.length) == len(p) && string(e.key[:e.length]) == p
}

func (e *cacheEntry) set(p string, tokens int) {
	e.length = uint8(copy(e.key[:], p))
	e.tokens = uint8(tokens)
}

// unsafeString lends b as a string. Nothing may keep it past the next write to b.
func unsafeString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
