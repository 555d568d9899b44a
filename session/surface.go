package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentcompact/agentcompact/internal/pair"
)

// splice puts nodes in the place of [at, at+removed).
func (st *state) splice(at, removed int, nodes []Node) {
	if !st.own {
		st.pos = append(make([]int32, 0, len(st.pos)+len(st.pos)/8+16), st.pos...)
		st.own = true
	}
	pos := st.pos
	for _, n := range st.nodes.slice(at, at+removed) {
		pos[n.Seq] = -1
	}
	st.nodes = st.nodes.splice(at, removed, nodes)
	end := st.nodes.len()
	if removed == len(nodes) {
		end = at + removed // nothing moves
	}
	for i := at; i < end; {
		part := st.nodes.tail
		if i < st.nodes.base {
			c := st.nodes.find(i)
			part = c.nodes[i-c.base:]
		} else {
			part = part[i-st.nodes.base:]
		}
		for k := range part {
			pos[part[k].Seq] = int32(i + k)
		}
		i += len(part)
	}
	st.gen++
	st.changes = &changes{Change{At: at, Removed: removed, Added: len(nodes)}, st.changes}
	st.hidden = new(hiddenIndex)
}

// operated ends every operation.
func (st *state) operated(seq Seq) {
	st.ops = append(st.ops, seq)
	st.widenPins()
}

// guard refuses to hide the node.
func (st *state) guard(n Node) error {
	if st.pinned(n.Seq) {
		return fmt.Errorf("event %d is %w", n.Seq, ErrPinned)
	}
	if len(st.calls) > 0 {
		for _, id := range n.meta.calls {
			if p := st.calls[callKey{n.Seq, id}]; p == CallRunning || p == CallStarted {
				return fmt.Errorf("call %q of event %d is %w", id, n.Seq, ErrRunning)
			}
		}
	}
	return nil
}

func (st *state) replace(e *Event) error {
	m := e.meta.repl
	start, err := st.position(m.start)
	if err != nil {
		return fmt.Errorf("replace: start: %w", err)
	}
	end, err := st.position(m.end)
	if err != nil {
		return fmt.Errorf("replace: end: %w", err)
	}
	if start > end {
		return fmt.Errorf("replace: %w: event %d stands after event %d", ErrReversed, m.start, m.end)
	}
	span := st.nodes.slice(start, end+1)
	keep := make(map[Seq]bool, len(m.keep))
	for _, s := range m.keep {
		keep[s] = true
	}
	nodes := []Node{{Seq: e.Seq, Tokens: e.meta.tokens}}
	run := make([]Seq, len(span))
	kept := make([]Seq, 0, len(m.keep))
	for i, n := range span {
		run[i] = n.Seq
		if keep[n.Seq] {
			nodes = append(nodes, n)
			kept = append(kept, n.Seq)
		} else if err := st.guard(n); err != nil && !sameCalls(n.meta, e.meta, err) {
			return fmt.Errorf("replace: %w", err)
		}
	}
	if len(kept) != len(keep) {
		return fmt.Errorf("replace: keep names an event that is %w between %d and %d", ErrNotOnSurface, m.start, m.end)
	}
	if err := wholeKept(span, keep); err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	if len(kept) == len(span) {
		return fmt.Errorf("replace: every event from %d to %d is kept", m.start, m.end)
	}
	if len(e.meta.results) > 0 && (len(span) != 1 || !slices.Equal(span[0].meta.results, e.meta.results)) {
		return fmt.Errorf("replace: %w", ErrResultRewrite)
	}
	c := *e.meta
	c.repl = &replacement{start: m.start, end: m.end, keep: kept, run: run}
	e.meta = &c
	nodes[0].meta = &c
	st.splice(start, len(span), nodes)
	st.operated(e.Seq)
	return nil
}

// ErrResultRewrite: a tool result may take the place of one tool result only,
// and must answer the same calls with the same error marks.
var ErrResultRewrite = errors.New("a tool result can only replace one result of the same calls")

// sameCalls reports whether the error is about running calls that the
// replacement goes on making.
func sameCalls(old, repl *meta, err error) bool {
	return errors.Is(err, ErrRunning) && slices.Equal(old.calls, repl.calls)
}

// wholeKept checks that keep parts no call from its result.
func wholeKept(span []Node, keep map[Seq]bool) error {
	if len(keep) == 0 {
		return nil
	}
	var units pair.Matcher
	for _, n := range span {
		units.Add(n.meta.calls, n.meta.results)
	}
	for i, n := range span {
		for _, call := range units.Sources(i) {
			if call != pair.None && keep[n.Seq] != keep[span[call.Pos].Seq] {
				return fmt.Errorf("keep separates event %d from the result in event %d", span[call.Pos].Seq, n.Seq)
			}
		}
	}
	return nil
}

func (st *state) restore(seq Seq, b *Restore) error {
	at, err := st.position(b.Node)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	m := st.nodes.at(at).meta.repl
	if m == nil {
		return fmt.Errorf("restore: event %d replaced nothing", b.Node)
	}
	if err := st.guard(*st.nodes.at(at)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	// Kept nodes that still stand right behind the replacement go back to their
	// places; those that moved or were hidden since stay as they are.
	removed := 1
	behind := make(map[Seq]bool)
	for at+removed < st.nodes.len() && slices.Contains(m.keep, st.nodes.at(at+removed).Seq) {
		behind[st.nodes.at(at+removed).Seq] = true
		removed++
	}
	var nodes []Node
	for _, s := range m.run {
		if behind[s] || !slices.Contains(m.keep, s) {
			nodes = append(nodes, st.nodeOf(s))
		}
	}
	st.splice(at, removed, nodes)
	st.operated(seq)
	return nil
}

// redo is the inverse of restore.
func (st *state) redo(seq Seq, b *Redo) error {
	if b.Node < 0 || b.Node >= seq || st.log[b.Node].meta == nil || st.log[b.Node].meta.repl == nil {
		return fmt.Errorf("redo: event %d replaced nothing", b.Node)
	}
	m := st.log[b.Node].meta.repl
	if _, err := st.position(b.Node); err == nil {
		return fmt.Errorf("redo: event %d is on the surface already", b.Node)
	}
	at, err := st.position(m.run[0])
	if err != nil {
		return fmt.Errorf("redo: %w", err)
	}
	for i, s := range m.run {
		p, err := st.position(s)
		if err == nil && p != at+i {
			err = fmt.Errorf("event %d does not stand behind event %d any more", s, m.run[i-1])
		}
		if err == nil && !slices.Contains(m.keep, s) {
			err = st.guard(*st.nodes.at(p))
		}
		if err != nil {
			return fmt.Errorf("redo: %w", err)
		}
	}
	nodes := []Node{st.nodeOf(b.Node)}
	for _, s := range m.keep {
		nodes = append(nodes, st.nodeOf(s))
	}
	st.splice(at, len(m.run), nodes)
	st.operated(seq)
	return nil
}

func (st *state) nodeOf(s Seq) Node {
	m := st.log[s].meta
	return Node{Seq: s, Tokens: m.tokens, meta: m}
}

func (st *state) rewind(seq Seq, b *Rewind) error {
	if b.To < NoSeq || b.To >= seq {
		return fmt.Errorf("rewind: event %d is not before event %d", b.To, seq)
	}
	seqs, err := st.surfaceAt(b.To)
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	// Keep the common head, so that readers see a small change.
	at := 0
	for at < len(seqs) && at < st.nodes.len() && seqs[at] == st.nodes.at(at).Seq {
		at++
	}
	nodes := make([]Node, 0, len(seqs)-at)
	back := make(map[Seq]bool, len(seqs)-at)
	for _, s := range seqs[at:] {
		nodes = append(nodes, st.nodeOf(s))
		back[s] = true
	}
	for _, n := range st.nodes.slice(at, st.nodes.len()) {
		if back[n.Seq] {
			continue
		}
		if err := st.guard(n); err != nil {
			return fmt.Errorf("rewind: %w", err)
		}
	}
	st.splice(at, st.nodes.len()-at, nodes)
	st.operated(seq)
	return nil
}

// surfaceAt folds the surface as it was right after event to.
func (st *state) surfaceAt(to Seq) ([]Seq, error) {
	// What was before the newest rewind up to there does not matter.
	var seqs []Seq
	from := Seq(0)
	for i := len(st.ops) - 1; i >= 0; i-- {
		if e := st.log[st.ops[i]]; e.Type == TypeRewind && e.Seq <= to {
			body, err := e.Body()
			if err != nil {
				return nil, err
			}
			if seqs, err = st.surfaceAt(body.(*Rewind).To); err != nil {
				return nil, err
			}
			from = e.Seq + 1
			break
		}
	}
	apply := func(node Seq) {
		m := st.log[node].meta.repl
		i := slices.Index(seqs, m.run[0])
		seqs = slices.Replace(seqs, i, i+len(m.run), append([]Seq{node}, m.keep...)...)
	}
	for s := from; s <= to; s++ {
		e := st.log[s]
		switch e.Type {
		case TypeMessage:
			seqs = append(seqs, s)
		case TypeReplace:
			apply(s)
		case TypeRestore, TypeRedo:
			body, err := e.Body()
			if err != nil {
				return nil, err
			}
			if b, ok := body.(*Redo); ok {
				apply(b.Node)
				continue
			}
			node := body.(*Restore).Node
			seqs = restoreSeqs(seqs, node, st.log[node].meta.repl)
		}
	}
	return seqs, nil
}

func restoreSeqs(seqs []Seq, node Seq, m *replacement) []Seq {
	at := slices.Index(seqs, node)
	end := at + 1
	for end < len(seqs) && slices.Contains(m.keep, seqs[end]) {
		end++
	}
	behind := seqs[at+1 : end]
	var back []Seq
	for _, s := range m.run {
		if !slices.Contains(m.keep, s) || slices.Contains(behind, s) {
			back = append(back, s)
		}
	}
	return slices.Replace(seqs, at, end, back...)
}
