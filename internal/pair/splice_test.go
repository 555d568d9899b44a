package pair

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naive matches by going through everything again.
type naive struct {
	answers, sources [][]Ref
	balanced         []bool
	problems         []Problem
}

func match(items []Item) naive {
	n := naive{answers: make([][]Ref, len(items)), sources: make([][]Ref, len(items)), balanced: make([]bool, len(items)+1)}
	for i := range n.balanced {
		n.balanced[i] = true
	}
	for p, it := range items {
		for range it.Calls {
			n.answers[p] = append(n.answers[p], None)
		}
		for i, id := range it.Results {
			n.sources[p] = append(n.sources[p], None)
			kind := OrphanResult
		search:
			for c := p - 1; c >= 0; c-- {
				for k, call := range items[c].Calls {
					if call == id {
						kind = DuplicateResult
						if n.answers[c][k] == None {
							n.answers[c][k], n.sources[p][i] = Ref{p, i}, Ref{c, k}
							for cut := c + 1; cut <= p; cut++ {
								n.balanced[cut] = false
							}
							break search
						}
					}
				}
			}
			if n.sources[p][i] != None {
				continue
			}
			if kind == OrphanResult {
				for _, later := range items[p:] {
					for _, call := range later.Calls {
						if call == id {
							kind = ResultBeforeCall
						}
					}
				}
			}
			n.problems = append(n.problems, Problem{kind, id, p, i})
		}
	}
	for p, it := range items {
		for k, id := range it.Calls {
			if n.answers[p][k] == None {
				n.problems = append(n.problems, Problem{UnansweredCall, id, p, k})
			}
			for _, before := range it.Calls[:k] {
				if before == id {
					n.problems = append(n.problems, Problem{DuplicateCallID, id, p, k})
					break
				}
			}
		}
	}
	sortProblems(n.problems)
	return n
}

func drawItem(t *rapid.T) Item {
	ids := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 2)
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0, 1:
		return Item{Calls: ids.Draw(t, "calls")}
	case 2, 3:
		return Item{Results: ids.Draw(t, "results")}
	}
	return Item{}
}

func same(t require.TestingT, items []Item, m *Matcher) {
	want := match(items)
	require.Equal(t, len(items), m.Len())
	for p := range items {
		require.Equal(t, want.answers[p], m.Answers(p), "answers at %d", p)
		require.Equal(t, want.sources[p], m.Sources(p), "sources at %d", p)
	}
	before := 0
	for cut, ok := range want.balanced {
		require.Equal(t, ok, m.Balanced(cut), "cut %d", cut)
		if ok {
			before = cut
		}
		require.Equal(t, before, m.Before(cut))
		after := cut
		for !want.balanced[after] {
			after++
		}
		require.Equal(t, after, m.After(cut))
	}
	if len(want.problems) == 0 {
		require.Empty(t, m.Problems())
	} else {
		require.Equal(t, want.problems, m.Problems())
	}
}

func TestMatcherIsNaive(t *testing.T) {
	spliced := 0
	rapid.Check(t, func(t *rapid.T) {
		var items []Item
		m := new(Matcher)
		for range rapid.IntRange(1, 25).Draw(t, "ops") {
			if rapid.IntRange(0, 3).Draw(t, "op") > 0 || len(items) == 0 {
				it := drawItem(t)
				items = append(items, it)
				m.Add(it.Calls, it.Results)
			} else {
				at := rapid.IntRange(0, len(items)).Draw(t, "at")
				removed := rapid.IntRange(0, len(items)-at).Draw(t, "removed")
				var put []Item
				for range rapid.IntRange(0, 4).Draw(t, "added") {
					put = append(put, drawItem(t))
				}
				items = append(append(append([]Item(nil), items[:at]...), put...), items[at+removed:]...)
				if m.Splice(at, removed, put) {
					spliced++
				} else {
					m = new(Matcher)
					for _, it := range items {
						m.Add(it.Calls, it.Results)
					}
				}
			}
			same(t, items, m)
		}
	})
	require.NotZero(t, spliced)
}
