package plan

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func surface(tokens ...int) []Item {
	items := make([]Item, len(tokens))
	for i, n := range tokens {
		items[i] = Item{Tokens: n, Cut: true}
	}
	return items
}

func TestSelect(t *testing.T) {
	pair := surface(10, 10, 10, 50, 50, 10)
	pair[3].Cut, pair[4].Cut = false, false
	kept := surface(5, 40, 30)
	kept[0].Checkpoint, kept[1].Keep = true, true
	fixed := surface(40, 30, 20, 10)
	fixed[2].Fixed = true
	tailKept := surface(40, 30, 20, 10)
	tailKept[2].Keep, tailKept[1].Keep = true, true
	for _, c := range []struct {
		name  string
		items []Item
		p     Policy
		end   int
		ok    bool
	}{
		{"empty", nil, Policy{}, 0, false},
		{"all within the tail", surface(40, 30), Policy{TailTokens: 70}, 0, false},
		{"tail within budget", surface(40, 30, 20, 10), Policy{TailTokens: 30}, 2, true},
		{"less than the least", surface(40, 30, 20, 10), Policy{TailTokens: 30, MinSpanTokens: 71}, 0, false},
		{"exactly the least", surface(40, 30, 20, 10), Policy{TailTokens: 30, MinSpanTokens: 70}, 2, true},
		{"unit does not fit the tail", pair, Policy{TailTokens: 60}, 5, true},
		{"newest unit above the budget", pair[:5], Policy{TailTokens: 60}, 2, true},
		{"newest item alone", surface(40, 30), Policy{}, 1, true},
		{"one item is the newest unit", surface(40), Policy{}, 0, false},
		{"one unit is the newest unit", pair[2:5], Policy{}, 0, false},
		{"no tail", surface(40, 30), Policy{TailTokens: -1}, 2, true},
		{"messages widen to whole units", pair, Policy{TailTokens: -1, TailMessages: 2}, 2, true},
		{"more messages than there are", pair, Policy{TailTokens: -1, TailMessages: 9}, 0, false},
		{"the longer tail", surface(40, 30, 20, 10), Policy{TailTokens: 30, TailMessages: 3}, 1, true},
		{"nothing from a running unit on", fixed, Policy{TailTokens: -1}, 2, true},
		{"running unit above the tail", fixed, Policy{TailTokens: 5}, 2, true},
		{"running from the start", fixed[2:], Policy{TailTokens: -1}, 0, false},
		{"only checkpoint and pin", kept, Policy{}, 0, false},
		{"checkpoint, pin and news", kept, Policy{TailTokens: -1}, 3, true},
		{"kept at the end of the span", tailKept, Policy{TailTokens: 10}, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			start, end, ok := Select(c.items, c.p)
			require.Equal(t, c.ok, ok)
			require.Equal(t, 0, start)
			require.Equal(t, c.end, end)
		})
	}
}

func drawItems(t *rapid.T) []Item {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
		flag := func(name string, of int) bool { return rapid.IntRange(1, of).Draw(t, name) == 1 }
		return Item{
			Tokens: rapid.IntRange(0, 30).Draw(t, "tokens"), Cut: !flag("inside", 3),
			Keep: flag("keep", 4), Fixed: flag("fixed", 12), Checkpoint: flag("checkpoint", 6),
		}
	}), 0, 14).Draw(t, "items")
}

// naive tries every end, longest span first, and takes the first that is legal.
func naive(items []Item, p Policy) (int, bool) {
	n := len(items)
	balanced := func(c int) bool { return c == 0 || c == n || items[c].Cut }
	sum := func(from, to int) (s int) {
		for _, it := range items[from:to] {
			s += it.Tokens
		}
		return s
	}
	replaceable := func(c int) bool {
		return balanced(c) && !slices.ContainsFunc(items[:c], func(it Item) bool { return it.Fixed })
	}
	tailEnd := -1 // the span's end that the token budget asks for
	if p.TailTokens >= 0 {
		for c := range n {
			if balanced(c) && sum(c, n) <= p.TailTokens {
				tailEnd = c
				break
			}
		}
		if tailEnd < 0 || !replaceable(tailEnd) {
			tailEnd = 0
			for c := range n {
				if replaceable(c) {
					tailEnd = c
				}
			}
		}
	}
	best := 0
	for c := n; c > 0; c-- {
		if replaceable(c) && (p.TailTokens < 0 || c <= tailEnd) && (p.TailMessages == 0 || n-c >= p.TailMessages) {
			best = c
			break
		}
	}
	for best > 0 { // drop whole units that are kept
		c := best - 1
		for !balanced(c) {
			c--
		}
		if slices.ContainsFunc(items[c:best], func(it Item) bool { return !it.Keep }) {
			break
		}
		best = c
	}
	news, found := 0, false
	for _, it := range items[:best] {
		if !it.Keep && !it.Checkpoint {
			news, found = news+it.Tokens, true
		}
	}
	if !found || news < p.MinSpanTokens {
		return 0, false
	}
	return best, true
}

func TestSelectAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t)
		p := Policy{
			TailTokens:    rapid.IntRange(-1, 80).Draw(t, "tail tokens"),
			TailMessages:  rapid.IntRange(0, 6).Draw(t, "tail messages"),
			MinSpanTokens: rapid.IntRange(0, 40).Draw(t, "least"),
		}
		_, end, ok := Select(items, p)
		want, wantOK := naive(items, p)
		require.Equal(t, wantOK, ok)
		require.Equal(t, want, end)
	})
}

func TestChunks(t *testing.T) {
	every := func(int) bool { return true }
	require.Empty(t, Chunks(nil, every, 10))
	require.Equal(t, [][2]int{{0, 3}, {3, 6}}, Chunks([]int{4, 4, 4, 4, 4, 4}, every, 20))
	require.Equal(t, [][2]int{{0, 2}}, Chunks([]int{4, 4}, every, 8))
	require.Equal(t, [][2]int{{0, 1}, {1, 3}, {3, 4}}, Chunks([]int{4, 30, 30, 4}, func(i int) bool { return i != 2 }, 20))
}

func TestChunksAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.IntRange(0, 12), 0, 9).Draw(t, "tokens")
		cuts := rapid.SliceOfN(rapid.Bool(), 10, 10).Draw(t, "cuts")
		budget := rapid.IntRange(0, 30).Draw(t, "budget")
		cut := func(i int) bool { return cuts[i] }
		sum := func(r [2]int) (s int) {
			for _, n := range tokens[r[0]:r[1]] {
				s += n
			}
			return s
		}
		oneUnit := func(r [2]int) bool {
			for i := r[0] + 1; i < r[1]; i++ {
				if cut(i) {
					return false
				}
			}
			return true
		}
		legal := func(r [2]int) bool {
			if sum(r) <= budget {
				return true
			}
			return oneUnit(r)
		}
		got := Chunks(tokens, cut, budget)
		at, most := 0, 0
		for _, r := range got {
			require.Equal(t, at, r[0], "gap")
			require.Greater(t, r[1], r[0])
			require.True(t, r[1] == len(tokens) || cut(r[1]), "cut inside a unit")
			require.True(t, legal(r), "run above the budget")
			if at = r[1]; sum(r) <= budget {
				most = max(most, sum(r))
			}
		}
		require.Equal(t, len(tokens), at)
		// Try every subset of the balanced cuts.
		fewest, smallest := len(tokens)+1, 0
		for mask := range 1 << max(0, len(tokens)-1) {
			var runs [][2]int
			from, ok, top := 0, true, 0
			for i := 1; i <= len(tokens) && ok; i++ {
				if i < len(tokens) && mask&(1<<(i-1)) == 0 {
					continue
				}
				r := [2]int{from, i}
				ok = (i == len(tokens) || cut(i)) && legal(r)
				if s := sum(r); s <= budget {
					top = max(top, s)
				}
				runs, from = append(runs, r), i
			}
			if ok && (len(runs) < fewest || len(runs) == fewest && top < smallest) {
				fewest, smallest = len(runs), top
			}
		}
		require.Len(t, got, fewest)
		if len(tokens) > 0 {
			require.Equal(t, smallest, most, "the largest run could be smaller")
		}
	})
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		sizes         []int
		budget, floor int
		want          []int
		ok            bool
	}{
		{nil, 0, 5, []int{}, true},
		{[]int{10, 20}, 30, 5, []int{10, 20}, true},
		{[]int{10, 100, 60}, 100, 5, []int{10, 45, 45}, true},
		{[]int{10, 100, 60}, 101, 5, []int{10, 46, 45}, true},
		{[]int{10, 100, 60}, 12, 5, []int{5, 5, 5}, false},
		{[]int{3, 100}, 8, 5, []int{3, 5}, true},
	} {
		got, ok := Fit(c.sizes, c.budget, c.floor)
		require.Equal(t, c.want, got)
		require.Equal(t, c.ok, ok)
	}
}

func TestFitIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 8).Draw(t, "sizes")
		budget, floor := rapid.IntRange(0, 300).Draw(t, "budget"), rapid.IntRange(0, 20).Draw(t, "floor")
		got, ok := Fit(sizes, budget, floor)
		total, floors, given := 0, 0, 0
		for i, s := range sizes {
			total, floors, given = total+s, floors+min(s, floor), given+got[i]
			require.LessOrEqual(t, got[i], s)
			require.GreaterOrEqual(t, got[i], min(s, floor))
		}
		require.Equal(t, floors <= budget, ok)
		if ok {
			require.Equal(t, min(total, budget), given, "the whole budget is used")
		}
		for i, a := range got {
			for j, b := range got {
				if a < sizes[i] {
					require.LessOrEqual(t, b, max(a, floor)+1, "%d was clipped while %d has more", i, j)
				}
			}
		}
	})
}

func big(n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{Tokens: 50 + i%97, Cut: i%3 != 2, Keep: i%50 == 0}
	}
	return items
}

func BenchmarkSelect(b *testing.B) {
	items := big(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := Select(items, Policy{TailTokens: 20_000, MinSpanTokens: 100}); !ok {
			b.Fatal("no span")
		}
	}
}

func BenchmarkChunks(b *testing.B) {
	items := big(100_000)
	tokens := make([]int, len(items))
	for i := range items {
		tokens[i] = items[i].Tokens
	}
	b.ReportAllocs()
	for b.Loop() {
		Chunks(tokens, func(i int) bool { return items[i].Cut }, 100_000)
	}
}

func BenchmarkFit(b *testing.B) {
	items := big(100_000)
	sizes := make([]int, len(items))
	for i := range items {
		sizes[i] = items[i].Tokens
	}
	for b.Loop() {
		Fit(sizes, 2_000_000, 10)
	}
}
