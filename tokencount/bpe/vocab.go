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
	mask    uint32
	text    string // all tokens, one after the other
	longest int

	one []uint32 // rank of each byte
	two []uint32 // rank of each pair of bytes
}

// slot is one token of three bytes or more. It is free while length is 0.
type slot struct {
	hash   uint32
	offset uint32
	rank   uint32
	length uint32
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
		seed:  maphash.MakeSeed(),
		slots: make([]slot, size),
		mask:  uint32(size - 1),
		one:   make([]uint32, 1<<8),
		two:   make([]uint32, 1<<16),
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
		v.add(text[offset:], uint32(offset), uint32(rank))
	}
	v.text = string(text)
	for b, rank := range v.one {
		if rank == noRank {
			return nil, fmt.Errorf("bpe: vocabulary %s has no token for byte %#x", name, b)
		}
	}
	return v, nil
}

func (v *vocabulary) add(token []byte, offset, rank uint32) {
	v.longest = max(v.longest, len(token))
	switch len(token) {
	case 1:
		v.one[token[0]] = rank
		return
	case 2:
		v.two[pair(token[0], token[1])] = rank
		return
	}
	hash := uint32(maphash.Bytes(v.seed, token))
	i := hash & v.mask
	for v.slots[i].length != 0 {
		i = (i + 1) & v.mask
	}
	v.slots[i] = slot{hash: hash, offset: offset, rank: rank, length: uint32(len(token))}
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
	return v.find(p, uint32(maphash.String(v.seed, p)))
}

// find is rank for three bytes or more whose hash is known.
func (v *vocabulary) find(p string, hash uint32) uint32 {
	for i := hash & v.mask; ; i = (i + 1) & v.mask {
		s := &v.slots[i]
		if s.length == 0 {
			return noRank
		}
		if s.hash == hash && int(s.length) == len(p) && v.text[s.offset:s.offset+s.length] == p {
			return s.rank
		}
	}
}

func pair(a, b byte) int { return int(a)<<8 | int(b) }
