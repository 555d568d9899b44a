package session

import "slices"

// nodeList is the surface. It is persistent: append and splice leave the list
// that they were called on as it is, and share with the new one whatever did
// not change. So a replacement costs its span and a pass over the directory.
// Only the newest list may be appended to, since appends share an array.
type nodeList struct {
	chunks []chunk
	guess  []int32 // of each chunkSize positions, the chunk of the first
	tail   []Node  // what stands behind the chunks
	base   int     // the position of tail[0]
	cum    int64   // the tokens before it
}

// chunk is a run of nodes that never changes.
type chunk struct {
	base  int
	cum   int64 // tokens before it
	nodes []Node
}

// chunkSize is a variable for tests only.
var chunkSize = 256

func (l *nodeList) len() int { return l.base + len(l.tail) }

func (l *nodeList) find(i int) *chunk {
	c := int(l.guess[i/chunkSize])
	for c+1 < len(l.chunks) && l.chunks[c+1].base <= i {
		c++
	}
	return &l.chunks[c]
}

func (l *nodeList) at(i int) *Node {
	if i >= l.base {
		return &l.tail[i-l.base]
	}
	c := l.find(i)
	return &c.nodes[i-c.base]
}

// before returns the tokens before position i.
func (l *nodeList) before(i int) int64 {
	switch {
	case i > l.base:
		return l.cum + l.tail[i-l.base-1].cum
	case i == l.base:
		return l.cum
	case i <= 0:
		return 0
	}
	c := l.find(i - 1)
	return c.cum + c.nodes[i-1-c.base].cum
}

func (l *nodeList) append(n Node) {
	n.cum = int64(n.Tokens)
	if k := len(l.tail); k > 0 {
		n.cum += l.tail[k-1].cum
	} else {
		l.tail = make([]Node, 0, chunkSize)
	}
	if l.tail = append(l.tail, n); len(l.tail) >= chunkSize {
		l.seal()
	}
}

// seal makes the tail a chunk.
func (l *nodeList) seal() {
	l.chunks = append(l.chunks, chunk{l.base, l.cum, l.tail})
	l.cum = l.before(l.len())
	l.base += len(l.tail)
	l.tail = nil
	for len(l.guess)*chunkSize < l.base {
		l.guess = append(l.guess, int32(len(l.chunks)-1))
	}
}

// slice returns the nodes from start up to end. They may share memory with the
// list.
func (l *nodeList) slice(start, end int) []Node {
	if start >= l.base {
		return l.tail[start-l.base : end-l.base : end-l.base]
	}
	out := make([]Node, 0, end-start)
	for start < end {
		if start >= l.base {
			return append(out, l.tail[start-l.base:end-l.base]...)
		}
		c := l.find(start)
		part := c.nodes[start-c.base : min(end-c.base, len(c.nodes))]
		out = append(out, part...)
		start += len(part)
	}
	return out
}

// splice puts nodes in the place of removed ones from at.
func (l *nodeList) splice(at, removed int, nodes []Node) nodeList {
	all := append(make([]chunk, 0, len(l.chunks)+2+len(nodes)/chunkSize+2), l.chunks...)
	all = append(all, chunk{l.base, l.cum, l.tail})
	holds := func(i int) int { // the chunk of position i, the tail for the end
		k, ok := slices.BinarySearchFunc(all, i, func(c chunk, i int) int { return c.base - i })
		if !ok {
			k--
		}
		return k
	}
	a, b := holds(at), holds(at+max(removed, 1)-1)
	merged := slices.Concat(all[a].nodes[:at-all[a].base], nodes, all[b].nodes[min(at+removed-all[b].base, len(all[b].nodes)):])
	if len(merged) < chunkSize/4 && a > 0 {
		a--
		merged = slices.Concat(all[a].nodes, merged)
	}
	last := b == len(all)-1
	pieces := cut(merged, last)
	all = slices.Replace(all, a, b+1, pieces...)
	base, cum := 0, int64(0)
	if a > 0 {
		p := &all[a-1]
		base, cum = p.base+len(p.nodes), p.cum+p.nodes[len(p.nodes)-1].cum
	}
	for i := a; i < len(all); i++ {
		c := &all[i]
		c.base, c.cum = base, cum
		if k := len(c.nodes); k > 0 {
			base, cum = base+k, cum+c.nodes[k-1].cum
		}
	}
	tail := all[len(all)-1]
	n := nodeList{chunks: all[:len(all)-1], tail: tail.nodes, base: tail.base, cum: tail.cum}
	n.guess = make([]int32, 0, n.base/chunkSize+2)
	for i, c := range n.chunks {
		for len(n.guess)*chunkSize < c.base+len(c.nodes) {
			n.guess = append(n.guess, int32(i))
		}
	}
	return n
}

// cut makes chunks of nodes, which nobody else may hold. With tail, the last
// one is shorter than a chunk may be, and may be empty.
func cut(nodes []Node, tail bool) []chunk {
	var out []chunk
	for len(nodes) > chunkSize || len(nodes) == chunkSize && tail {
		n := chunkSize
		if rest := len(nodes) - n; rest < chunkSize/4 && !tail {
			n = len(nodes) / 2
		}
		out = append(out, chunk{nodes: nodes[:n:n]})
		nodes = nodes[n:]
	}
	if len(nodes) > 0 || tail {
		out = append(out, chunk{nodes: nodes[:len(nodes):len(nodes)]})
	}
	for _, c := range out {
		var cum int64
		for i := range c.nodes {
			cum += int64(c.nodes[i].Tokens)
			c.nodes[i].cum = cum
		}
	}
	return out
}
