package streamproc

import (
	"github.com/agentcompact/agentcompact/internal/plan"
)

// Rung names how far [Fit] had to go.
type Rung string

// The rungs, in order. Each has done what those before it did as far as that
// was needed.
const (
	// Verbatim: everything fits.
	Verbatim Rung = "verbatim"
	// HistorySelected: the oldest history was left out.
	HistorySelected Rung = "history_turn_selected"
	// ToolTruncated: tool results lost their middle, the largest first.
	ToolTruncated Rung = "tool_truncated"
	// StepsSelected: the oldest steps were left out.
	StepsSelected Rung = "step_turns_selected"
	// Emergency: one unit is left, cut to the budget.
	Emergency Rung = "emergency"
)

// FitItem is one message in front of a summarizer.
type FitItem struct {
	Tokens int
	// Joined reports that the item belongs to the unit of the one before it.
	Joined bool
	// Result marks a tool result, which may be shortened.
	Result bool
	// Human marks what a person wrote.
	Human bool
}

// FitPlan says what of the items a summarizer gets to read.
type FitPlan struct {
	Rung Rung
	// Keep are the indices of what stays, in order; Allowed are the tokens that
	// each of them may have.
	Keep, Allowed []int
	// Raw and Tokens are the sums before and after; Tokens is within the budget.
	Raw, Tokens int
	// Clipped counts items that are allowed fewer tokens than they have,
	// HistoryOmitted and StepsOmitted what is left out.
	Clipped, HistoryOmitted, StepsOmitted int
}

// clipFloor is what a shortened result has at least, before its unit is left
// out instead.
const clipFloor = 48

// Fit chooses what of a conversation a summarizer with a limited input reads.
// items are the history, of which there are history items, and then the steps;
// units are never split. The newest turn of a person stays on every rung. The
// plan is within the budget. Its emergency is one unit, that of the newest turn
// of a person if there is one and else the newest, cut to the budget. A budget
// of 0 leaves an empty emergency. It is pure and costs O(n).
//
// What is left out is not lost: the ledger of the checkpoint is made from all
// items.
func Fit(items []FitItem, history, budget int) FitPlan {
	n := len(items)
	history = min(max(history, 0), n)
	p := FitPlan{Rung: Verbatim}
	stepTokens := 0
	human := span{-1, -1}
	for i := range items {
		p.Raw += items[i].Tokens
		if i >= history {
			stepTokens += items[i].Tokens
		}
		switch {
		case items[i].Human && !items[i].Joined:
			human = span{i, i + 1}
		case items[i].Joined && human.end == i:
			human.end++
		}
	}
	if budget <= 0 || n == 0 {
		if n > 0 {
			p.Rung, p.HistoryOmitted, p.StepsOmitted = Emergency, history, n-history
		}
		return p
	}
	if p.Raw <= budget {
		p.keep(items, 0, n, span{})
		return p
	}
	must := func(from int) span { // the human turn, if it stands before from
		if human.start >= 0 && human.start < from {
			return human
		}
		return span{}
	}
	// The newest history beside all steps.
	p.Rung = HistorySelected
	from := history
	if history > 0 {
		from = suffix(items, history, budget-stepTokens, human, tokensOf)
		at := must(from)
		if (from < n || at.end > 0) && sum(items, from, n)+sum(items, at.start, at.end) <= budget {
			p.keep(items, from, n, at)
			return p.omitted(history, n)
		}
	}
	// Tool results, by need. History has given way, unless it is all there is.
	p.Rung = ToolTruncated
	steps := history
	if history == n {
		steps = 0
	}
	from = steps
	if p.clip(items, from, n, must(from), budget) {
		return p.omitted(history, n)
	}
	// The newest steps, with their results as short as need be.
	p.Rung = StepsSelected
	from = max(suffix(items, n, budget, human, floorOf), steps)
	if from < n && p.clip(items, from, n, must(from), budget) {
		return p.omitted(history, n)
	}
	// One unit.
	p.Rung = Emergency
	one := human
	if one.start < 0 {
		one = span{n - 1, n}
		for one.start > 0 && items[one.start].Joined {
			one.start--
		}
	}
	sizes := make([]int, 0, one.end-one.start)
	for i := one.start; i < one.end; i++ {
		sizes = append(sizes, items[i].Tokens)
		p.Keep = append(p.Keep, i)
	}
	p.Allowed, _ = plan.Fit(sizes, budget, 0)
	p.count(items)
	return p.omitted(history, n)
}

// span is a run of indices, end not included.
type span struct{ start, end int }

func tokensOf(it *FitItem) int { return it.Tokens }

func floorOf(it *FitItem) int {
	if it.Result {
		return min(it.Tokens, clipFloor)
	}
	return it.Tokens
}

// suffix returns the start of the longest run of whole units that ends at end
// and is within the budget, the human turn counted wherever it stands.
func suffix(items []FitItem, end, budget int, human span, size func(*FitItem) int) int {
	from, total := end, 0
	for i := human.start; i >= 0 && i < min(human.end, end); i++ {
		total += size(&items[i])
	}
	for i := end - 1; i >= 0; i-- {
		if i < human.start || i >= human.end {
			total += size(&items[i])
		}
		if total > budget {
			break
		}
		if !items[i].Joined {
			from = i
		}
	}
	return from
}

func sum(items []FitItem, from, to int) (n int) {
	for i := from; i < to; i++ {
		n += items[i].Tokens
	}
	return n
}

// keep takes a run as it is, and the run at in front of it.
func (p *FitPlan) keep(items []FitItem, from, to int, at span) {
	size := to - from + at.end - at.start
	p.Keep, p.Allowed = make([]int, 0, size), make([]int, 0, size)
	p.Tokens, p.Clipped = 0, 0
	for _, run := range [2]span{at, {from, to}} {
		for i := run.start; i < run.end; i++ {
			p.Keep = append(p.Keep, i)
			p.Allowed = append(p.Allowed, items[i].Tokens)
			p.Tokens += items[i].Tokens
		}
	}
}

// clip takes a run with its results shortened as far as the budget asks for it,
// and the run at in front of it. It reports whether that is enough, and takes
// nothing when it is not.
func (p *FitPlan) clip(items []FitItem, from, to int, at span, budget int) bool {
	total, least, results := 0, 0, 0
	add := func(run []FitItem) {
		for i := range run {
			it := &run[i]
			total += it.Tokens
			least += floorOf(it)
			if it.Result {
				results++
			}
		}
	}
	add(items[at.start:at.end])
	add(items[from:to])
	if least > budget {
		return false
	}
	p.keep(items, from, to, at)
	if total <= budget {
		return true
	}
	sizes := make([]int, 0, results)
	rest := budget
	for k, i := range p.Keep {
		if items[i].Result {
			sizes = append(sizes, p.Allowed[k])
		} else {
			rest -= p.Allowed[k]
		}
	}
	allowed, _ := plan.Fit(sizes, rest, clipFloor)
	p.Tokens = 0
	next := 0
	for k, i := range p.Keep {
		if items[i].Result {
			if allowed[next] < p.Allowed[k] {
				p.Allowed[k] = allowed[next]
				p.Clipped++
			}
			next++
		}
		p.Tokens += p.Allowed[k]
	}
	return true
}

func (p *FitPlan) count(items []FitItem) {
	p.Tokens, p.Clipped = 0, 0
	for k, i := range p.Keep {
		p.Tokens += p.Allowed[k]
		if p.Allowed[k] < items[i].Tokens {
			p.Clipped++
		}
	}
}

func (p FitPlan) omitted(history, n int) FitPlan {
	kept := 0
	for _, i := range p.Keep {
		if i < history {
			kept++
		}
	}
	p.HistoryOmitted = history - kept
	p.StepsOmitted = n - history - (len(p.Keep) - kept)
	return p
}
