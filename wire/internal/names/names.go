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
	// slots has the IDs, each in the first free slot from the one of its hash on;
	// 0 is free. Its length is a power of two, and a quarter of it is free.
	slots []ID
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
	if len(t.at) >= len(t.slots)/4*3 {
		t.grow()
	}
	slot := t.slot(s)
	if t.slots[slot] == 0 {
		t.slots[slot] = t.put(s)
	}
	return t.slots[slot]
}

// Find returns the ID of s, and false when the table does not have it.
func (t *Table) Find(s string) (ID, bool) {
	if s == "" || t.slots == nil {
		return 0, s == ""
	}
	id := t.slots[t.slot(s)]
	return id, id != 0
}

// Text returns the string of an ID of the table.
func (t *Table) Text(id ID) string {
	if id == 0 {
		return ""
	}
	return string(t.text(id))
}

// slot returns the slot of s, or the free one where it belongs.
func (t *Table) slot(s string) uint64 {
	mask := uint64(len(t.slots) - 1)
	for n := hash(t.seed, s) & mask; ; n = (n + 1) & mask {
		if id := t.slots[n]; id == 0 || string(t.text(id)) == s {
			return n
		}
	}
}

// hash is replaced in tests.
var hash = maphash.String

func (t *Table) grow() {
	if t.slots == nil {
		t.seed = maphash.MakeSeed()
	}
	t.slots = make([]ID, max(2*len(t.slots), 64))
	for i := range t.at {
		id := ID(i + 1)
		t.slots[t.slot(string(t.text(id)))] = id
	}
}

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
