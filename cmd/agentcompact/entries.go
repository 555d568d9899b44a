package main

import (
	"slices"

	"github.com/agentcompact/agentcompact/session"
)

// entryIndex says which entry of a foreign file an event is. The zero entryIndex
// has none.
type entryIndex struct {
	seqs    []session.Seq // in rising order
	entries []int32       // nil when the n-th event is the n-th entry
}

// entriesInOrder is the index of a session whose events are the entries in
// order. It keeps seqs, which rise.
func entriesInOrder(seqs []session.Seq) entryIndex { return entryIndex{seqs: seqs} }

// entriesAt is the index where seqs[i] is the i-th entry, in any order.
func entriesAt(seqs []session.Seq) entryIndex {
	x := entryIndex{entries: make([]int32, len(seqs))}
	for i := range x.entries {
		x.entries[i] = int32(i)
	}
	slices.SortFunc(x.entries, func(a, b int32) int { return int(seqs[a] - seqs[b]) })
	for _, i := range x.entries {
		x.seqs = append(x.seqs, seqs[i])
	}
	return x
}

// of returns the entry that an event is.
func (x *entryIndex) of(q session.Seq) (int, bool) {
	n, ok := slices.BinarySearch(x.seqs, q)
	if !ok {
		return 0, false
	}
	return x.entry(n), true
}

func (x *entryIndex) entry(n int) int {
	if x.entries == nil {
		return n
	}
	return int(x.entries[n])
}

// seq returns the event that an entry is; session.NoSeq when it is none.
func (x *entryIndex) seq(entry int) session.Seq {
	for n, q := range x.seqs {
		if x.entry(n) == entry {
			return q
		}
	}
	return session.NoSeq
}
