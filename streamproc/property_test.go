package streamproc

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/internal/pair"
)

// interleaved draws a history with parallel calls whose results come in any
// order, with other messages between, ids used again, orphans and abandoned
// calls.
func interleaved(t *rapid.T) []entry {
	var list []T
	var open []string
	n := rapid.IntRange(0, 60).Draw(t, "n")
	for i := range n {
		switch rapid.SampledFrom([]string{"say", "call", "answer", "answer", "orphan", "user"}).Draw(t, "what") {
		case "say":
			list = append(list, T{Role: "assistant", Text: "hm"})
		case "user":
			list = append(list, T{Role: "user", Text: "go on"})
		case "call":
			k := rapid.IntRange(1, 3).Draw(t, "calls")
			ids := ""
			for j := range k {
				id := fmt.Sprintf("c%d", rapid.IntRange(0, 8).Draw(t, "id"))
				open = append(open, id)
				if j > 0 {
					ids += ","
				}
				ids += id
			}
			list = append(list, T{Role: "assistant", Text: "do", Call: ids})
		case "answer":
			if len(open) > 0 {
				k := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				list = append(list, T{Role: "tool", Answer: open[k], Text: "done"})
				open = append(open[:k], open[k+1:]...)
			}
		case "orphan":
			list = append(list, T{Role: "tool", Answer: fmt.Sprintf("o%d", i), Text: "?"})
		}
	}
	tokens := rapid.SliceOfN(rapid.IntRange(0, 500), len(list), len(list)).Draw(t, "tokens")
	out := make([]entry, len(list))
	for i, it := range list {
		m, err := adapter.message(it)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = entry{msg: &m, tokens: tokens[i]}
	}
	fillIDs(out)
	return out
}

// TestSelectionNeverSplitsAUnit: no call before the split has its result behind
// it, and nothing from the first running call on is replaced.
func TestSelectionNeverSplitsAUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { selection(t) })
}

func FuzzSelection(f *testing.F) { f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { selection(t) })) }

func selection(t *rapid.T) {
	list := interleaved(t)
	tg := rapid.SampledFrom([]targetOf{steps, history, full}).Draw(t, "target")
	o := &Options{Window: rapid.IntRange(0, 6000).Draw(t, "window"), Policy: Policy{TargetPercent: rapid.IntRange(0, 100).Draw(t, "percent"),
		MinTokens: rapid.IntRange(0, 300).Draw(t, "least"), StrictTail: rapid.Bool().Draw(t, "strict")}}
	n, tokens, ok := choose(planItems(list), tg, o)
	if !ok {
		return
	}
	if n < 1 || n > len(list) {
		t.Fatalf("split at %d of %d", n, len(list))
	}
	sum, tail := 0, 0
	for i, e := range list {
		if i < n {
			sum += e.tokens
		} else {
			tail += e.tokens
		}
	}
	if sum != tokens || sum < o.Policy.MinTokens {
		t.Fatalf("%d tokens, said %d", sum, tokens)
	}
	var m pair.Matcher
	for _, e := range list {
		m.Add(e.msg.Calls(), e.msg.Results())
	}
	for i := n; i < len(list); i++ {
		for _, src := range m.Sources(i) {
			if src != pair.None && src.Pos < n {
				t.Fatalf("the result at %d is cut from its call at %d by %d", i, src.Pos, n)
			}
		}
	}
	limit := o.Window * o.Policy.TargetPercent / 100
	if tg != full && o.Policy.StrictTail && tail > limit {
		t.Fatalf("%d tokens stay, %d may", tail, limit)
	}
	if tg != full && n == len(list) && limit > 0 {
		t.Fatal("no tail")
	}
	last := len(list) - 1
	for last >= 0 && list[last].msg.Role == "tool" {
		last--
	}
	if last >= 0 {
		for _, a := range m.Answers(last) {
			if a == pair.None && n > last {
				t.Fatal("a running call was replaced")
			}
		}
	}
}

// TestWithoutIDsTheNeighborhoodDecides: a run of results without ids stays with
// what stands before it.
func TestWithoutIDsTheNeighborhoodDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		roles := rapid.StringOfN(rapid.RuneFrom([]rune("at")), n, n, -1).Draw(t, "roles")
		tokens := rapid.SliceOfN(rapid.IntRange(0, 100), n, n).Draw(t, "tokens")
		list := priced(roles, tokens...)
		if k, _, ok := pick(list, rapid.IntRange(0, 1000).Draw(t, "keep"), 0); ok && k < n && roles[k] == 't' {
			t.Fatalf("%s is cut at %d", roles, k)
		}
	})
}

func TestFitIsWithinTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { fitting(t) })
}

func FuzzFit(f *testing.F) { f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { fitting(t) })) }

func fitting(t *rapid.T) {
	n := rapid.IntRange(0, 50).Draw(t, "n")
	items := make([]FitItem, n)
	human := -1
	for i := range items {
		it := FitItem{Tokens: rapid.IntRange(1, 800).Draw(t, "tokens")}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			it.Human, human = true, i
		case 1:
			it.Result, it.Joined = true, i > 0
		}
		items[i] = it
	}
	history := rapid.IntRange(0, n).Draw(t, "history")
	for history > 0 && history < n && items[history].Joined {
		history--
	}
	budget := rapid.IntRange(0, 12_000).Draw(t, "budget")
	p := Fit(items, history, budget)
	if p.Tokens > budget {
		t.Fatalf("%d tokens, %d may be: %+v", p.Tokens, budget, p)
	}
	sum := 0
	in := make(map[int]bool, len(p.Keep))
	for k, i := range p.Keep {
		if k > 0 && i <= p.Keep[k-1] {
			t.Fatalf("out of order: %v", p.Keep)
		}
		if p.Allowed[k] > items[i].Tokens || p.Allowed[k] < items[i].Tokens && !items[i].Result && p.Rung != Emergency {
			t.Fatalf("item %d may have %d of %d", i, p.Allowed[k], items[i].Tokens)
		}
		sum += p.Allowed[k]
		in[i] = true
	}
	if sum != p.Tokens || len(p.Keep)+p.HistoryOmitted+p.StepsOmitted != n {
		t.Fatalf("the numbers do not add up: %+v", p)
	}
	for i := 1; i < n; i++ {
		if items[i].Joined && in[i] != in[i-1] {
			t.Fatalf("the unit at %d is split: %v", i, p.Keep)
		}
	}
	if budget == 0 || n == 0 {
		return
	}
	if len(p.Keep) == 0 {
		t.Fatal("nothing is left")
	}
	if human >= 0 && !in[human] {
		t.Fatalf("the newest human turn at %d is gone: %+v", human, p)
	}
	if p.Rung == Verbatim != (p.Raw <= budget) {
		t.Fatalf("rung %s for %d in %d", p.Rung, p.Raw, budget)
	}
	if p.Rung == Emergency {
		for k := 1; k < len(p.Keep); k++ {
			if !items[p.Keep[k]].Joined {
				t.Fatal("an emergency of more than one unit")
			}
		}
	}
}

// TestClip: a clipped message is within its tokens, whatever it holds.
func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := T{Role: rapid.SampledFrom([]string{"assistant", "tool", "user"}).Draw(t, "role"), Text: rapid.StringN(0, 400, -1).Draw(t, "text"), Answer: "a"}
		if it.Role == "assistant" && rapid.Bool().Draw(t, "call") {
			it.Call = "a,b"
		}
		m, err := adapter.message(it)
		if err != nil {
			t.Fatal(err)
		}
		budget := rapid.IntRange(1, 200).Draw(t, "budget")
		c := clipMessage(&m, budget, quarter{}.Price)
		if c == nil {
			t.Fatal("no room for anything in a token or more")
		}
		if got := (quarter{}).Price(c); got > budget {
			t.Fatalf("%d tokens of %d", got, budget)
		}
		if (quarter{}).Price(&m) <= budget && c != &m {
			t.Fatal("it was cut without need")
		}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
