// Package plan holds the arithmetic of compaction as pure functions: which
// span of a conversation to replace, how to cut a span into chunks, and how to
// share a budget. It knows items by their tokens and flags only.
package plan

// Item is one message of a surface, in surface order.
type Item struct {
	// Tokens is what the message costs.
	Tokens int
	// Cut reports that the cut right before the item is balanced. The cuts
	// before the first item and after the last one need no flag.
	Cut bool
	// Keep marks what stays visible whatever is replaced around it.
	Keep bool
	// Fixed marks a running unit: nothing from here on may be replaced.
	Fixed bool
	// Checkpoint marks the summary of an earlier compaction.
	Checkpoint bool
}

// Policy says what [Select] leaves.
type Policy struct {
	// TailTokens is the budget of the recent tail: the tail is the longest run
	// of whole units within it, and always has the newest unit. Negative means
	// that tokens ask for no tail; zero leaves the newest unit alone.
	TailTokens int
	// TailMessages is how many of the newest messages stay at least. Zero means
	// that messages ask for no tail.
	TailMessages int
	// MinSpanTokens is how much new material a span needs: tokens of items that
	// are neither kept nor checkpoints.
	MinSpanTokens int
}

// Select returns the span [0,end) to replace: the oldest run of whole units
// that ends at a balanced cut and leaves the tail that the policy asks for, the
// longer one where it asks twice. A policy that asks for no tail may leave
// none. ok is false when there is no such span or nothing in it is worth
// replacing: only kept items and checkpoints, or less than the least. It costs
// O(n).
func Select(items []Item, p Policy) (start, end int, ok bool) {
	n := len(items)
	limit := n
	for i := range items {
		if items[i].Fixed {
			limit = i
			break
		}
	}
	end = limit
	if p.TailTokens >= 0 {
		end = min(end, tokenCut(items, p.TailTokens))
	}
	if p.TailMessages > 0 {
		end = min(end, max(0, n-p.TailMessages))
	}
	end = before(items, end)
	// Kept items at the end of the span gain nothing.
	for end > 0 && items[end-1].Keep {
		c := before(items, end-1)
		if !allKept(items[c:end]) {
			break
		}
		end = c
	}
	news, found := 0, false
	for _, it := range items[:end] {
		if !it.Keep && !it.Checkpoint {
			news, found = news+it.Tokens, true
		}
	}
	if !found || news < p.MinSpanTokens {
		return 0, 0, false
	}
	return 0, end, true
}

// tokenCut returns the first balanced cut whose tail is within the budget, else
// the one before the newest unit.
func tokenCut(items []Item, budget int) int {
	n := len(items)
	cut, sum := -1, 0
	for i := n - 1; i >= 0; i-- {
		if sum += items[i].Tokens; sum > budget {
			break
		}
		if i == 0 || items[i].Cut {
			cut = i
		}
	}
	if cut < 0 {
		cut = before(items, n-1)
	}
	return cut
}

// before returns the last balanced cut at or before i.
func before(items []Item, i int) int {
	for i > 0 && i < len(items) && !items[i].Cut {
		i--
	}
	return max(i, 0)
}

func allKept(items []Item) bool {
	for i := range items {
		if !items[i].Keep {
			return false
		}
	}
	return true
}

// Chunks cuts items into runs [from,to) of whole units whose tokens are within
// the budget: as few as possible, and of those the ones whose largest is
// smallest. cut reports whether the cut before item i is balanced, for i from 1
// on. A unit above the budget is a run of its own. It costs O(n) and a pass per
// bit of the budget over the units.
func Chunks(tokens []int, cut func(i int) bool, budget int) [][2]int {
	type unit struct{ from, to, tokens int }
	var units []unit
	largest := 0
	for i := 0; i < len(tokens); {
		u := unit{from: i, to: i + 1, tokens: tokens[i]}
		for u.to < len(tokens) && !cut(u.to) {
			u.tokens += tokens[u.to]
			u.to++
		}
		if u.tokens <= budget {
			largest = max(largest, u.tokens)
		}
		units = append(units, u)
		i = u.to
	}
	pack := func(size int, emit func(from, to int)) (runs int) {
		sum, from := 0, -1
		flush := func(to int) {
			if from >= 0 {
				runs++
				if emit != nil {
					emit(from, to)
				}
			}
			sum, from = 0, -1
		}
		for _, u := range units {
			if u.tokens > budget || sum+u.tokens > size {
				flush(u.from)
			}
			if from < 0 {
				from = u.from
			}
			sum += u.tokens
			if u.tokens > budget {
				flush(u.to)
			}
		}
		flush(len(tokens))
		return runs
	}
	fewest := pack(budget, nil)
	lo, hi := largest, max(budget, largest)
	for lo < hi {
		if mid := lo + (hi-lo)/2; pack(mid, nil) == fewest {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	out := make([][2]int, 0, fewest)
	pack(lo, func(from, to int) { out = append(out, [2]int{from, to}) })
	return out
}

// Fit shares a budget among things of the given sizes: it returns what each may
// have, at most its size. The largest give first, all to the same level, and
// none goes below the floor. ok is false when the floors alone are above the
// budget; each then has its floor.
func Fit(sizes []int, budget, floor int) (allowed []int, ok bool) {
	total, high := 0, 0
	for _, s := range sizes {
		total += s
		high = max(high, s)
	}
	allowed = make([]int, len(sizes))
	if total <= budget {
		copy(allowed, sizes)
		return allowed, true
	}
	at := func(level int) (sum int) {
		for _, s := range sizes {
			sum += min(s, level)
		}
		return sum
	}
	floor = max(floor, 0)
	lo, hi := floor, max(high, floor)
	for lo < hi { // the highest level that is within the budget
		if mid := lo + (hi-lo+1)/2; at(mid) <= budget {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	rest := budget - at(lo)
	for i, s := range sizes {
		allowed[i] = min(s, lo)
		if s > lo && rest > 0 {
			allowed[i]++
			rest--
		}
	}
	return allowed, rest >= 0
}
