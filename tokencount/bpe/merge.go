package bpe

// scanLimit is the length in bytes from which on a heap finds the next merge
// faster than looking at all pairs does.
const scanLimit = 40

// merger applies the merges of a vocabulary to one piece at a time and keeps
// its memory between pieces. It is not safe for concurrent use.
type merger struct {
	vocab *vocabulary
	parts []part
	links []link
	heap  []candidate
	work  int // steps taken, for the test of the bound

	// ids collects the tokens if collect is set.
	ids     []int
	collect bool
}

// part is a stretch of a piece, up to where the next part starts. rank is that
// of the token which it and its follower would make.
type part struct{ start, rank uint32 }

// link is a part in a doubly linked list, known by its start. The one behind
// the last stands for the end of the piece.
type link struct {
	rank       uint32
	prev, next int32
}

// candidate is a possible merge: its rank above, the start of its left part
// below, so that order is by rank and then from left to right.
type candidate uint64

// merge returns how many tokens p is. p is not empty.
func (m *merger) merge(p string) int {
	if len(p) < scanLimit {
		return m.mergeByScan(p)
	}
	return m.mergeByHeap(p)
}

func (m *merger) mergeByScan(p string) int {
	parts := m.parts[:0]
	for i := 0; i+1 < len(p); i++ {
		parts = append(parts, part{uint32(i), m.vocab.two[pair(p[i], p[i+1])]})
	}
	parts = append(parts, part{uint32(len(p) - 1), noRank}, part{uint32(len(p)), noRank})
	m.parts = parts
	for {
		best, at := uint32(noRank), -1
		for i := range parts {
			if parts[i].rank < best {
				best, at = parts[i].rank, i
			}
		}
		m.work += len(parts)
		if at < 0 {
			break
		}
		parts[at].rank = noRank
		if at+3 < len(parts) {
			parts[at].rank = m.vocab.rank(p[parts[at].start:parts[at+3].start])
		}
		if at > 0 {
			parts[at-1].rank = m.vocab.rank(p[parts[at-1].start:parts[at+2].start])
		}
		copy(parts[at+1:], parts[at+2:])
		parts = parts[:len(parts)-1]
	}
	if m.collect {
		for i := 0; i+1 < len(parts); i++ {
			m.emit(p[parts[i].start:parts[i+1].start])
		}
	}
	return len(parts) - 1
}

func (m *merger) mergeByHeap(p string) int {
	n := len(p)
	links, heap := m.links[:0], m.heap[:0]
	for i := range n {
		rank := uint32(noRank)
		if i+1 < n {
			rank = m.vocab.two[pair(p[i], p[i+1])]
		}
		if rank != noRank {
			heap = append(heap, candidate(rank)<<32|candidate(i))
		}
		links = append(links, link{rank: rank, prev: int32(i - 1), next: int32(i + 1)})
	}
	links = append(links, link{rank: noRank, prev: int32(n - 1), next: -1})
	for i := len(heap)/2 - 1; i >= 0; i-- {
		m.work += siftDown(heap, i)
	}
	tokens := n
	for len(heap) > 0 {
		top := heap[0]
		heap[0] = heap[len(heap)-1]
		heap = heap[:len(heap)-1]
		m.work += siftDown(heap, 0)
		i, rank := int32(uint32(top)), uint32(top>>32)
		if links[i].rank != rank {
			continue // one of the two parts was merged otherwise meanwhile
		}
		gone := links[i].next
		next := links[gone].next
		links[gone].rank = noRank
		links[i].next = next
		links[next].prev = i
		tokens--
		heap = m.offer(heap, links, p, i)
		if prev := links[i].prev; prev >= 0 {
			heap = m.offer(heap, links, p, prev)
		}
	}
	m.links, m.heap = links, heap
	if m.collect {
		for i := int32(0); int(i) < n; i = links[i].next {
			m.emit(p[i:links[i].next])
		}
	}
	return tokens
}

// offer works out again what the part at i would make with its follower.
func (m *merger) offer(heap []candidate, links []link, p string, i int32) []candidate {
	links[i].rank = noRank
	next := links[i].next
	if int(next) >= len(p) {
		return heap
	}
	rank := m.vocab.rank(p[i:links[next].next])
	if rank == noRank {
		return heap
	}
	links[i].rank = rank
	heap = append(heap, candidate(rank)<<32|candidate(i))
	m.work += siftUp(heap, len(heap)-1)
	return heap
}

func (m *merger) emit(token string) {
	m.ids = append(m.ids, int(m.vocab.rank(token)))
}

// siftDown restores the order below i and returns how many levels it went.
func siftDown(h []candidate, i int) int {
	for levels := 1; ; levels++ {
		child := 2*i + 1
		if child >= len(h) {
			return levels
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[i] <= h[child] {
			return levels
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// siftUp restores the order above i and returns how many levels it went.
func siftUp(h []candidate, i int) int {
	levels := 1
	for ; i > 0; levels++ {
		parent := (i - 1) / 2
		if h[parent] <= h[i] {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
	return levels
}
