// Package names keeps many short strings, such as the ids of the records of a
// log, in little memory: without a pointer each, so that a collector has nothing
// to follow.
package names

import (
	"encoding/binary"
	"hash/maphash"
)

// ID stands for a string of a [Table]; 0 is the empty one.
type ID int32

// block is how many bytes of strings are allocated at once.
const block = 64 << 10

// Table gives equal strings the same ID. It is not safe for concurrent use while
// strings are added. The zero Table is ready.
type Table struct {
	seed   maphash.Seed
	blocks [][]byte // strings with their lengths before them
	at     []place  // of ID 1 on
	ids    map[uint64]ID
	// clash has the strings whose hash another string has.
	clash map[string]ID
}

// place is where a string stands.
type place struct{ block, off uint32 }

// Len is how many strings the table has, without the empty one.
func (t *Table) Len() int { return len(t.at) }

// Add returns the ID of s, a new one when the table does not have it. It keeps
// no reference to s.
func (t *Table) Add(s string) ID {
	if s == "" {
		return 0
	}
	if t.ids == nil {
		t.seed, t.ids = maphash.MakeSeed(), make(map[uint64]ID)
	}
	h := t.hash(s)
	have, taken := t.ids[h]
	if taken && string(t.text(have)) == s {
		return have
	}
	if id, ok := t.clash[s]; ok {
		return id
	}
	id := t.put(s)
	if !taken {
		t.ids[h] = id
		return id
	}
	if t.clash == nil {
		t.clash = make(map[string]ID)
	}
	t.clash[string(t.text(id))] = id
	return id
}

// Find returns the ID of s, and false when the table does not have it.
func (t *Table) Find(s string) (ID, bool) {
	if s == "" || t.ids == nil {
		return 0, s == ""
	}
	if id, ok := t.ids[t.hash(s)]; ok && string(t.text(id)) == s {
		return id, true
	}
	id, ok := t.clash[s]
	return id, ok
}

// Text returns the string of an ID of the table.
func (t *Table) Text(id ID) string {
	if id == 0 {
		return ""
	}
	return string(t.text(id))
}

func (t *Table) hash(s string) uint64 { return hash(t.seed, s) }

// hash is replaced in tests.
var hash = maphash.String

func (t *Table) put(s string) ID {
	need := binary.MaxVarintLen64 + len(s)
	n := len(t.blocks)
	if n == 0 || cap(t.blocks[n-1])-len(t.blocks[n-1]) < need {
		t.blocks = append(t.blocks, make([]byte, 0, max(block, need)))
		n++
	}
	b := t.blocks[n-1]
	t.at = append(t.at, place{uint32(n - 1), uint32(len(b))})
	t.blocks[n-1] = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	return ID(len(t.at))
}

func (t *Table) text(id ID) []byte {
	p := t.at[id-1]
	b := t.blocks[p.block][p.off:]
	size, k := binary.Uvarint(b)
	return b[k : k+int(size)]
}
