package summarize

import (
	"cmp"
	"math"
	"slices"
)

// mergeFacts joins the facts of two ledgers by their keys. A key that both have
// is quoted by the newer line; its counts add up. The most useful come first.
func mergeFacts(old, newer []Fact) []Fact {
	if len(old)+len(newer) == 0 {
		return nil
	}
	var plain []Fact
	lines := map[string]bool{}
	for _, list := range [][]Fact{newer, old} {
		for _, f := range list {
			if len(f.Keys) == 0 && !lines[f.Line] && len(plain) < plainKept {
				lines[f.Line] = true
				plain = append(plain, f)
			}
		}
	}
	type place struct{ fact, key int }
	at := map[string]place{}
	out := make([]Fact, 0, len(old)+len(newer))
	for _, f := range newer {
		if len(f.Keys) == 0 {
			continue
		}
		f.Keys = slices.Clone(f.Keys)
		out = append(out, f)
		for j, k := range f.Keys {
			at[k.Text] = place{len(out) - 1, j}
		}
	}
	for _, f := range old {
		var keep []Key
		for _, k := range f.Keys {
			p, ok := at[k.Text]
			if !ok {
				at[k.Text] = place{len(out), len(keep)}
				keep = append(keep, k)
				continue
			}
			n := &out[p.fact].Keys[p.key]
			if n.Last == k.Last { // the same ledger twice
				n.Count, n.Calls, n.Times = max(n.Count, k.Count), max(n.Calls, k.Calls), max(n.Times, k.Times)
			} else {
				n.Count, n.Calls, n.Times = n.Count+k.Count, n.Calls+k.Calls, n.Times+k.Times
			}
			n.By |= k.By
			n.Last, n.Pos = max(n.Last, k.Last), max(n.Pos, k.Pos)
		}
		if len(keep) > 0 {
			f.Keys = keep
			out = append(out, f)
		}
	}
	newest := newestKey(out)
	value := func(f Fact) float64 {
		best := math.Inf(-1)
		for _, k := range f.Keys {
			best = max(best, k.useful(newest))
		}
		return best
	}
	type ranked struct {
		Fact
		value float64
	}
	list := make([]ranked, len(out))
	for i, f := range out {
		list[i] = ranked{f, value(f)}
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.Line, b.Line))
	})
	for i, r := range list {
		out[i] = r.Fact
	}
	return append(out, plain...)
}

// newestKey is the position of the newest mention of any key.
func newestKey(facts []Fact) (pos int) {
	for _, f := range facts {
		for _, k := range f.Keys {
			pos = max(pos, k.Pos)
		}
	}
	return pos
}

// useful estimates how likely the key is needed again when the conversation has
// come to newest.
func (k Key) useful(newest int) float64 {
	return usefulness(max(k.Count, 1), k.Calls, max(k.Times, k.Count, 1), uint8(k.By), newest-k.Pos, k.Text)
}
