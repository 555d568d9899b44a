package pair

import (
	"cmp"
	"slices"
)

// Item is a position with the ids of its calls and results.
type Item struct{ Calls, Results []string }

// Splice puts items in the place of removed positions from at. It costs the
// span, the units at its edges, and one pass of cheap arithmetic. It returns
// false, and changes nothing, when pairs beyond the span would come out
// differently: the caller then builds the matcher anew.
func (m *Matcher) Splice(at, removed int, items []Item) bool {
	if len(m.pos) > 2*len(m.keys)+1<<12 {
		return false // most keys are out of use
	}
	// Widen the span to balanced cuts: no pair crosses its edges then.
	start, end := m.Before(at), m.After(at+removed)
	all := make([]Item, 0, at-start+len(items)+end-at-removed)
	for p := start; p < at; p++ {
		all = append(all, m.item(p))
	}
	all = append(all, items...)
	for p := at + removed; p < end; p++ {
		all = append(all, m.item(p))
	}
	var in Matcher
	for _, it := range all {
		in.Add(it.Calls, it.Results)
	}
	if !m.closed(&in, start, end) {
		return false
	}
	m.takeOut(start, end)
	m.putIn(&in, start, end)
	return true
}

func (m *Matcher) item(pos int) Item {
	if e := m.entry(pos); e != nil {
		return Item{e.calls, e.results}
	}
	return Item{}
}

// closed reports whether what is in has no pair with anything that stays.
func (m *Matcher) closed(in *Matcher, start, end int) bool {
	for _, r := range in.orphans {
		for _, o := range m.open[in.entries[r.key].results[r.index]] {
			if int(m.pos[o.key]) < start {
				return false
			}
		}
	}
	if len(in.open) == 0 {
		return true
	}
	for _, r := range m.orphans {
		if int(m.pos[r.key]) >= end && len(in.open[m.entries[r.key].results[r.index]]) > 0 {
			return false
		}
	}
	return true
}

// takeOut forgets the entries from start up to end.
func (m *Matcher) takeOut(start, end int) {
	inside := func(r ref) bool { p := int(m.pos[r.key]); return p >= start && p < end }
	m.orphans = slices.DeleteFunc(m.orphans, inside)
	m.twice = slices.DeleteFunc(m.twice, inside)
	for p := start; p < end; p++ {
		e := m.entry(p)
		if e == nil {
			continue
		}
		for i, id := range e.calls {
			if m.seen[id]--; m.seen[id] == 0 {
				delete(m.seen, id)
			}
			if e.answers[i] == none {
				m.close(id, ref{m.keys[p], int32(i)})
			}
		}
	}
	for p := start; p < end; p++ {
		k := m.keys[p]
		m.pos[k], m.entries[k] = -1, nil
	}
}

// putIn puts a matched sequence in the place of what was taken out.
func (m *Matcher) putIn(in *Matcher, start, end int) {
	base, delta := int32(len(m.pos)), int32(in.Len()-(end-start))
	shift := func(r ref) ref {
		if r == none {
			return r
		}
		return ref{r.key + base, r.index}
	}
	for _, e := range in.entries {
		if e != nil {
			for i := range e.answers {
				e.answers[i] = shift(e.answers[i])
			}
			for i := range e.sources {
				e.sources[i] = shift(e.sources[i])
			}
		}
	}
	m.entries = append(m.entries, in.entries...)
	keys := make([]int32, in.Len())
	for i := range keys {
		keys[i] = base + int32(i)
		m.pos = append(m.pos, int32(start+i))
	}
	m.keys = slices.Replace(m.keys, start, end, keys...)
	if delta != 0 {
		for p := start + in.Len(); p < len(m.keys); p++ {
			m.pos[m.keys[p]] = int32(p)
		}
	}
	from, _ := slices.BinarySearch(m.blocks, int32(start))
	to, _ := slices.BinarySearch(m.blocks, int32(end))
	for i := range in.blocks {
		in.blocks[i] += int32(start)
	}
	for i := to; i < len(m.blocks); i++ {
		m.blocks[i] += delta
	}
	m.blocks = slices.Replace(m.blocks, from, to, in.blocks...)
	for _, r := range in.orphans {
		m.orphans = append(m.orphans, shift(r))
	}
	for _, r := range in.twice {
		m.twice = append(m.twice, shift(r))
	}
	if len(in.seen) > 0 && m.open == nil {
		m.open, m.seen = make(map[string][]ref), make(map[string]int)
	}
	for id, n := range in.seen {
		m.seen[id] += n
	}
	for id, list := range in.open {
		for _, r := range list {
			m.open[id] = append(m.open[id], shift(r))
		}
		slices.SortStableFunc(m.open[id], func(a, b ref) int { return cmp.Compare(m.pos[a.key], m.pos[b.key]) })
	}
}
