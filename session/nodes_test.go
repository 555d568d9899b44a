package session

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNodeListIsASlice(t *testing.T) {
	SmallChunks(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		var l nodeList
		var want []Node
		next := Seq(0)
		draw := func() Node {
			next++
			return Node{Seq: next, Tokens: int32(rapid.IntRange(0, 9).Draw(t, "tokens"))}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before, old := l, slices.Clone(want)
			if rapid.Bool().Draw(t, "append") {
				for range rapid.IntRange(1, 9).Draw(t, "n") {
					n := draw()
					l.append(n)
					want = append(want, n)
				}
			} else {
				at := rapid.IntRange(0, len(want)).Draw(t, "at")
				removed := rapid.IntRange(0, len(want)-at).Draw(t, "removed")
				var nodes []Node
				for range rapid.IntRange(0, 9).Draw(t, "added") {
					nodes = append(nodes, draw())
				}
				l = l.splice(at, removed, nodes)
				want = slices.Replace(slices.Clone(want), at, at+removed, nodes...)
			}
			sameNodes(t, &before, old)
			sameNodes(t, &l, want)
		}
	})
}

func sameNodes(t *rapid.T, l *nodeList, want []Node) {
	require.Equal(t, len(want), l.len())
	var sum int64
	for i, n := range want {
		require.Equal(t, sum, l.before(i))
		require.Equal(t, n.Seq, l.at(i).Seq)
		sum += int64(n.Tokens)
	}
	require.Equal(t, sum, l.before(len(want)))
	for start := range want {
		for k, n := range l.slice(start, len(want)) {
			require.Equal(t, want[start+k].Seq, n.Seq)
		}
	}
	require.Less(t, len(l.tail), chunkSize)
}
