package streamproc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func fitItems(n, tokens int, r FitItem) []FitItem {
	out := make([]FitItem, n)
	for i := range out {
		out[i] = r
		out[i].Tokens = tokens
	}
	return out
}

func within(t testing.TB, p FitPlan, budget int) {
	t.Helper()
	if p.Tokens > budget {
		t.Fatalf("%d tokens are above %d: %+v", p.Tokens, budget, p)
	}
	for i := 1; i < len(p.Keep); i++ {
		if p.Keep[i] <= p.Keep[i-1] {
			t.Fatalf("out of order: %v", p.Keep)
		}
	}
}

func init() {
	row("FIT-1", func(t *testing.T) {
		p := Fit(fitItems(6, 10, FitItem{}), 3, 60)
		require.Equal(t, Verbatim, p.Rung)
		require.Len(t, p.Keep, 6)
		require.Equal(t, 60, p.Tokens)
	})
	row("FIT-2", func(t *testing.T) {
		p := Fit(append(fitItems(20, 25, FitItem{}), FitItem{Tokens: 10}), 20, 200)
		require.Equal(t, HistorySelected, p.Rung)
		require.Equal(t, 20, p.Keep[len(p.Keep)-1])
		require.Equal(t, 13, p.HistoryOmitted)
		require.Zero(t, p.StepsOmitted)
		within(t, p, 200)
	})
	row("FIT-3", func(t *testing.T) {
		p := Fit([]FitItem{{Tokens: 20}, {Tokens: 10_000, Result: true, Joined: true}}, 0, 5000)
		require.Equal(t, ToolTruncated, p.Rung)
		require.Equal(t, 1, p.Clipped)
		require.Equal(t, 5000, p.Tokens)
		within(t, p, 5000)
	})
	row("FIT-4", func(t *testing.T) {
		in := append(fitItems(20, 25, FitItem{}), FitItem{Tokens: 20}, FitItem{Tokens: 10_000, Result: true, Joined: true})
		p := Fit(in, 20, 5000)
		require.Equal(t, ToolTruncated, p.Rung)
		require.Equal(t, 20, p.HistoryOmitted)
		require.Zero(t, p.StepsOmitted)
		require.Equal(t, []int{20, 21}, p.Keep)
		within(t, p, 5000)
	})
	row("FIT-5", func(t *testing.T) {
		p := Fit(fitItems(30, 25, FitItem{}), 0, 200)
		require.Equal(t, StepsSelected, p.Rung)
		require.Equal(t, []int{22, 23, 24, 25, 26, 27, 28, 29}, p.Keep)
		within(t, p, 200)
	})
	row("FIT-6", func(t *testing.T) {
		p := Fit(fitItems(30, 25, FitItem{}), 15, 500)
		require.Equal(t, HistorySelected, p.Rung)
		require.Equal(t, 10, p.Keep[0])
		within(t, p, 500)
	})
	row("FIT-7", func(t *testing.T) {
		p := Fit([]FitItem{{Tokens: 4000}}, 0, 100)
		require.Equal(t, Emergency, p.Rung)
		require.Equal(t, []int{0}, p.Keep)
		require.Equal(t, 100, p.Tokens)
		require.Equal(t, 1, p.Clipped)
	})
	row("FIT-8", func(t *testing.T) {
		p := Fit(fitItems(5, 40, FitItem{}), 2, 1)
		require.Equal(t, Emergency, p.Rung)
		require.Equal(t, []int{4}, p.Keep)
		require.Equal(t, 1, p.Tokens)
		empty := Fit(fitItems(5, 40, FitItem{}), 2, 0)
		require.Equal(t, Emergency, empty.Rung)
		require.Empty(t, empty.Keep)
		require.Equal(t, 2, empty.HistoryOmitted)
		require.Equal(t, 3, empty.StepsOmitted)
	})
	// A clip of what is between half the budget and all of it, which the rows
	// leave open, and by need only.
	row("W14", func(t *testing.T) {
		in := []FitItem{{Tokens: 30, Human: true}, {Tokens: 10}, {Tokens: 60, Result: true, Joined: true}, {Tokens: 10}, {Tokens: 90, Result: true, Joined: true}}
		p := Fit(in, 1, 160)
		require.Equal(t, []int{0, 1, 2, 3, 4}, p.Keep, "the human turn stays although it is history")
		require.Equal(t, ToolTruncated, p.Rung)
		require.Equal(t, []int{30, 10, 55, 10, 55}, p.Allowed)
		in[4] = FitItem{Tokens: 1000}
		p = Fit(in, 1, 100)
		require.Equal(t, Emergency, p.Rung)
		require.Equal(t, []int{0}, p.Keep)
	})
}
