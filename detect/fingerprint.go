package detect

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"

	"github.com/agentcompact/agentcompact/session"
)

// hasher hashes the content of messages: role, texts, files, calls with their
// ids and arguments, results. Reasoning is left out, since clients drop it, and
// so is what a format adds around the parts. The hash is the same in every
// process; it is for telling contents apart, not for keeping them secret.
type hasher struct {
	sum  uint64
	size int
}

func (x *hasher) text(tag byte, s string) {
	x.sum = hashString(x.sum^uint64(tag), s)
	x.size += len(s)
}

const (
	k0 = 0x9e3779b97f4a7c15
	k1 = 0xa0761d6478bd642f
	k2 = 0xe7037ed1a0b428db
	k3 = 0x8ebc6af09c88c6e3
)

// fold multiplies to 128 bits and joins the halves.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// hashString hashes a text and its length on top of h.
func hashString(h uint64, s string) uint64 {
	h ^= uint64(len(s)) * k0
	for len(s) >= 16 {
		h = fold(word(s)^k1, word(s[8:])^h)
		s = s[16:]
	}
	var a, b uint64
	if len(s) >= 8 {
		a, s = word(s), s[8:]
	}
	for i := range len(s) {
		b |= uint64(s[i]) << (8 * i)
	}
	return fold(fold(a^k1, b^h)^k2, k3)
}

func (x *hasher) parts(parts []session.Part) {
	for _, p := range parts {
		switch p := p.(type) {
		case session.Text:
			x.text('t', p.Text)
		case session.Image:
			x.text('i', p.URL)
			if p.URL == "" {
				x.text('i', string(p.Raw))
			}
		case session.File:
			x.text('f', p.Name)
			x.text('f', p.URL)
		case session.ToolCall:
			x.text('c', p.ID)
			x.text('n', p.Name)
			x.text('a', p.Arguments)
		case session.ToolResult:
			x.text('r', p.CallID)
			x.parts(p.Parts)
			x.text('e', "")
		case session.Opaque:
			x.text('k', p.Kind)
			x.text('o', string(p.Raw))
		}
	}
}

// message returns the hash of a message and adds to size what it has of text.
func (x *hasher) message(m *session.Message) uint64 {
	x.sum = 0
	x.text('m', string(m.Role))
	x.size -= len(m.Role)
	x.parts(m.Parts)
	return x.sum
}

// chain joins hashes in order.
func chain(sum, next uint64) uint64 {
	return fold(sum^k1, next^k2)
}

// bytesPerToken is how sizes become tokens: an estimate that compares requests
// with each other.
const bytesPerToken = 4

// print is what is remembered of a request.
type print struct {
	set    bool
	items  int
	tokens int
	// head are the hashes of the first items, tail those of the last.
	head []uint64
	tail []uint64
	// ends are the chained hashes of all items, of all but the last, and of all
	// but the last two: the end of a request may differ from what becomes of it.
	ends [3]uint64
}

// printOf fingerprints messages. all are the hashes of all of them.
func printOf(messages []*session.Message) (p print, all []uint64) {
	var x hasher
	all = make([]uint64, len(messages))
	var sum uint64
	for i, m := range messages {
		all[i] = x.message(m)
		p.ends[2], p.ends[1] = p.ends[1], sum
		sum = chain(sum, all[i])
		p.ends[0] = sum
	}
	p.set, p.items, p.tokens = true, len(all), x.size/bytesPerToken
	p.head = append([]uint64(nil), all[:min(len(all), keptItems)]...)
	p.tail = append([]uint64(nil), all[max(len(all)-tailItems, 0):]...)
	return p, all
}

// keptItems bounds the hashes that are remembered of a request.
const keptItems = 1024

// tailItems are the last items that must survive a rewrite.
const tailItems = 2

// extendedBy reports whether items go on from the print, whose last two items
// may have become something else.
func (p *print) extendedBy(all []uint64) bool {
	var sum uint64
	for i := 0; i <= len(all); i++ {
		for k, end := range p.ends {
			if i == p.items-k && sum == end && (i > 0 || p.items == 0) {
				return true
			}
		}
		if i < len(all) {
			sum = chain(sum, all[i])
		}
	}
	return false
}

// survivor returns where the tail of the print stands among the items, as one
// run, or -1.
func (p *print) survivor(all []uint64) int {
	if len(p.tail) < tailItems {
		return -1
	}
	for i := len(all) - len(p.tail); i >= 0; i-- {
		same := true
		for k, h := range p.tail {
			same = same && all[i+k] == h
		}
		if same {
			return i
		}
	}
	return -1
}

// identity is a stable hash of texts that tells every list from every other.
func identity(size int, parts ...string) string {
	h := sha256.New()
	var b [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(b[:], uint64(len(p)))
		h.Write(b[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:size])
}

// boundary identifies what a compaction is about: branch, rule and content, so
// that it is the same when a client tries again, in this process or another.
func boundary(branch, rule string, all []uint64) string {
	b := make([]byte, 0, 8*len(all))
	for _, h := range all {
		b = binary.BigEndian.AppendUint64(b, h)
	}
	return identity(16, branch, rule, string(b))
}
