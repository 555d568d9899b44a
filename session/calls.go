package session

import (
	"fmt"
	"maps"
	"slices"
)

func (st *state) pinned(seq Seq) bool {
	_, ok := slices.BinarySearch(st.pins, seq)
	return ok
}

func (st *state) pin(b *Pin) error {
	for _, s := range b.Nodes {
		if s < 0 || int(s) >= len(st.log) || st.log[s].meta == nil {
			return fmt.Errorf("pin: event %d has no message", s)
		}
	}
	st.setPins(wholeUnits(st, b.Nodes), b.Off)
	if !b.Off {
		st.widenPins()
	}
	return nil
}

func (st *state) setPins(seqs []Seq, off bool) {
	pins := slices.Clone(st.pins)
	for _, s := range seqs {
		i, ok := slices.BinarySearch(pins, s)
		switch {
		case off && ok:
			pins = slices.Delete(pins, i, i+1)
		case !off && !ok:
			pins = slices.Insert(pins, i, s)
		}
	}
	st.pins = pins
}

// widenPins pins the whole units of all pinned messages on the surface, after
// an operation that may have changed what belongs together.
func (st *state) widenPins() {
	for n := -1; n < len(st.pins) && len(st.pins) > 0; {
		n = len(st.pins)
		var visible []Seq
		for _, s := range st.pins {
			if m := st.log[s].meta; st.pos[s] >= 0 && (len(m.calls) > 0 || len(m.results) > 0) {
				visible = append(visible, s)
			}
		}
		st.setPins(wholeUnits(st, visible), false)
	}
}

// wholeUnits widens seqs to all messages of their units that are on the
// surface.
func wholeUnits(st *state, seqs []Seq) []Seq {
	seen := make(map[Seq]bool)
	var out []Seq
	add := func(s Seq) {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	for _, s := range seqs {
		add(s)
		p, err := st.position(s)
		if err != nil {
			continue
		}
		heads := []int{p}
		results := st.nodes.at(p).meta.results
		for i, id := range results {
			// Earlier results of the message use calls up.
			if h, ok := st.callFor(p, id, count(results[:i], id)); ok {
				heads = append(heads, h)
			}
		}
		for _, h := range heads {
			add(st.nodes.at(h).Seq)
			for _, r := range st.answersTo(h) {
				add(st.nodes.at(r).Seq)
			}
		}
	}
	return out
}

func count(ids []string, id string) int {
	n := 0
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}

// callFor returns the position of the call that a result of the id before
// position p answers, when used results of that id already stand there: the
// nearest earlier open call. It looks backwards, where a result uses up the
// nearest call before it.
func (st *state) callFor(p int, id string, used int) (int, bool) {
	for i := p - 1; i >= 0; i-- {
		m := st.nodes.at(i).meta
		if len(m.calls) > 0 {
			n := count(m.calls, id)
			if n > used {
				return i, true
			}
			used -= n
		}
		if len(m.results) > 0 {
			used += count(m.results, id)
		}
	}
	return 0, false
}

// answersTo returns the positions of the results that answer calls of the
// message at position p.
func (st *state) answersTo(p int) []int {
	calls := st.nodes.at(p).meta.calls
	if len(calls) == 0 {
		return nil
	}
	open := make(map[string]int, len(calls)) // calls of the message
	later := make(map[string]int)            // calls of later messages, which come first
	left := len(calls)
	for _, id := range calls {
		open[id]++
	}
	var out []int
	for i := p + 1; i < st.nodes.len() && left > 0; i++ {
		m := st.nodes.at(i).meta
		for _, id := range m.results {
			switch {
			case later[id] > 0:
				later[id]--
			case open[id] > 0:
				open[id]--
				left--
				if len(out) == 0 || out[len(out)-1] != i {
					out = append(out, i)
				}
			}
		}
		for _, id := range m.calls {
			if open[id] > 0 {
				later[id]++
			}
		}
	}
	return out
}

// openCalls returns the ids of the calls at position p that have no result.
func (st *state) openCalls(p int) []string {
	calls := slices.Clone(st.nodes.at(p).meta.calls)
	for _, r := range st.answersTo(p) {
		results := st.nodes.at(r).meta.results
		for k, id := range results {
			if h, ok := st.callFor(r, id, count(results[:k], id)); ok && h == p {
				i := slices.Index(calls, id)
				calls = slices.Delete(calls, i, i+1)
			}
		}
	}
	return calls
}

func (st *state) setCall(b *CallState) error {
	switch b.Phase {
	case CallRunning, CallStarted, CallAbandoned:
	default:
		return fmt.Errorf("call: unknown phase %q", b.Phase)
	}
	if b.Node < 0 || int(b.Node) >= len(st.log) || st.log[b.Node].meta == nil || !slices.Contains(st.log[b.Node].meta.calls, b.CallID) {
		return fmt.Errorf("call: event %d makes no call %q", b.Node, b.CallID)
	}
	if p, err := st.position(b.Node); err == nil && !slices.Contains(st.openCalls(p), b.CallID) {
		return nil // it has a result already
	}
	calls := make(map[callKey]CallPhase, len(st.calls)+1)
	maps.Copy(calls, st.calls)
	calls[callKey{b.Node, b.CallID}] = b.Phase
	st.calls = calls
	return nil
}

// settle does what the results of a new message bring about, which is not on
// the surface yet: what the host said of their calls is forgotten, and a result
// of a pinned call is pinned.
func (st *state) settle(e *Event) {
	for i, id := range e.meta.results {
		p, ok := st.callFor(st.nodes.len(), id, count(e.meta.results[:i], id))
		if !ok {
			continue
		}
		node := st.nodes.at(p).Seq
		if _, said := st.calls[callKey{node, id}]; said {
			calls := maps.Clone(st.calls)
			delete(calls, callKey{node, id})
			st.calls = calls
		}
		if st.pinned(node) && !st.pinned(e.Seq) {
			st.setPins([]Seq{e.Seq}, false)
		}
	}
}
