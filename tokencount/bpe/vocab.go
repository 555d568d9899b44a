package bpe

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"

	"github.com/pkoukk/tiktoken-go-loader/assets"
)

// noRank is the rank of bytes that are no token.
const noRank = math.MaxUint32

// vocabulary maps token bytes to their rank, which is also their id. It does not
// change after loading.
type vocabulary struct {
	seed    maphash.Seed
	slots   []slot // open addressing, a power of two
	text    string // all tokens, one after the other
	longest int

	// filter has a bit set for each token's hash: most of what is no token
	// is told from it, and it stays in the processor's cache.
	filter []uint64

	one []uint32 // rank of each byte
	two []uint32 // rank of each pair of bytes
}

// slot is one token of three bytes or more, packed so that the table is small:
// its length, a tag from its hash, its offset and its rank. It is free while 0.
type slot uint64

const (
	rankBits, offsetBits, tagBits, lengthBits = 18, 21, 17, 8

	filterBits = 21
)

func makeSlot(hash uint64, offset, length int, rank uint32) slot {
	return slot(rank) | slot(offset)<<rankBits | slot(tagOf(hash))<<(rankBits+offsetBits) |
		slot(length)<<(rankBits+offsetBits+tagBits)
}

func (s slot) rank() uint32 { return uint32(s & (1<<rankBits - 1)) }
func (s slot) offset() int  { return int(s >> rankBits & (1<<offsetBits - 1)) }

// label is what a slot says of the token without looking at its bytes.
func (s slot) label() uint64 { return uint64(s >> (rankBits + offsetBits)) }

func labelOf(hash uint64, length int) uint64 { return tagOf(hash) | uint64(length)<<tagBits }

// The table takes the low bits of a hash, the tag the highest and the filter
// those between.
func tagOf(hash uint64) uint64 { return hash >> (64 - tagBits) }

func filterBit(hash uint64) (word int, bit uint64) {
	i := hash >> 24 & (1<<filterBits - 1)
	return int(i >> 6), 1 << (i & 63)
}

// loadVocabulary parses an embedded vocabulary: a line for each token, its
// bytes in base64, a space and its rank.
func loadVocabulary(name string) (*vocabulary, error) {
	data, err := assets.Assets.ReadFile(name + ".tiktoken")
	if err != nil {
		return nil, fmt.Errorf("bpe: vocabulary %s: %w", name, err)
	}
	lines := bytes.Count(data, []byte{'\n'}) + 1
	size := 1
	for size < 2*lines {
		size *= 2
	}
	v := &vocabulary{
		seed:   maphash.MakeSeed(),
		slots:  make([]slot, size),
		filter: make([]uint64, 1<<filterBits>>6),
		one:    make([]uint32, 1<<8),
		two:    make([]uint32, 1<<16),
	}
	for i := range v.one {
		v.one[i] = noRank
	}
	for i := range v.two {
		v.two[i] = noRank
	}
	text := make([]byte, 0, len(data))
	for number := 1; len(data) > 0; number++ {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if len(line) == 0 {
			continue
		}
		encoded, digits, _ := bytes.Cut(line, []byte{' '})
		rank, err := strconv.ParseUint(string(digits), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("bpe: vocabulary %s, line %d: %w", name, number, err)
		}
		offset := len(text)
		text, err = base64.StdEncoding.AppendDecode(text, encoded)
		if err != nil {
			return nil, fmt.Errorf("bpe: vocabulary %s, line %d: %w", name, number, err)
		}
		if len(text) >= 1<<offsetBits || rank >= 1<<rankBits || len(text)-offset >= 1<<lengthBits {
			return nil, fmt.Errorf("bpe: vocabulary %s, line %d: larger than was foreseen", name, number)
		}
		v.add(text[offset:], offset, uint32(rank))
	}
	v.text = string(text)
	for b, rank := range v.one {
		if rank == noRank {
			return nil, fmt.Errorf("bpe: vocabulary %s has no token for byte %#x", name, b)
		}
	}
	return v, nil
}

func (v *vocabulary) add(token []byte, offset int, rank uint32) {
	v.longest = max(v.longest, len(token))
	switch len(token) {
	case 1:
		v.one[token[0]] = rank
		return
	case 2:
		v.two[pair(token[0], token[1])] = rank
		return
	}
	hash := maphash.Bytes(v.seed, token)
	word, bit := filterBit(hash)
	v.filter[word] |= bit
	i := int(hash) & (len(v.slots) - 1)
	for v.slots[i] != 0 {
		i = (i + 1) & (len(v.slots) - 1)
	}
	v.slots[i] = makeSlot(hash, offset, len(token), rank)
}

// rank returns the rank of the token that p is, or noRank. p is not empty.
func (v *vocabulary) rank(p string) uint32 {
	switch {
	case len(p) == 1:
		return v.one[p[0]]
	case len(p) == 2:
		return v.two[pair(p[0], p[1])]
	case len(p) > v.longest:
		return noRank
	}
	return v.find(p, maphash.String(v.seed, p))
}

// find is rank for three bytes or more whose hash is known.
func (v *vocabulary) find(p string, hash uint64) uint32 {
	if word, bit := filterBit(hash); v.filter[word]&bit == 0 {
		return noRank
	}
	label := labelOf(hash, len(p))
	for i := int(hash) & (len(v.slots) - 1); ; i = (i + 1) & (len(v.slots) - 1) {
		s := v.slots[i]
		if s == 0 {
			return noRank
		}
		if s.label() == label {
			if at := s.offset(); v.text[at:at+len(p)] == p {
				return s.rank()
			}
		}
	}
}

func pair(a, b byte) int { return int(a)<<8 | int(b) }
