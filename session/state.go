package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentcompact/agentcompact/internal/pair"
)

// Errors of surface operations. Each is wrapped with the seqs involved.
var (
	// ErrNotOnSurface: a named seq is not on the surface.
	ErrNotOnSurface = errors.New("not on the surface")
	// ErrReversed: the start of a span stands after its end.
	ErrReversed = errors.New("span is reversed")
	// ErrPinned: the operation would hide a pinned message.
	ErrPinned = errors.New("pinned")
	// ErrTurnState: a turn or step marker does not fit the open turn.
	ErrTurnState = errors.New("turn marker out of place")
)

// ShadowedError says that a message is not on the surface because something
// replaced it. It unwraps to [ErrNotOnSurface].
type ShadowedError struct {
	// Node was asked for; By is the replacement that hides it, which may
	// itself be hidden.
	Node, By Seq
}

func (e *ShadowedError) Error() string {
	return fmt.Sprintf("event %d is not on the surface: replaced by event %d", e.Node, e.By)
}

// Unwrap returns [ErrNotOnSurface].
func (e *ShadowedError) Unwrap() error { return ErrNotOnSurface }

// Node is one entry of the surface.
type Node struct {
	Seq    Seq
	Tokens int32
	cum    int64 // tokens up to and with this node
	meta   *meta
}

// Role returns the role of the node's message.
func (n Node) Role() Role { return n.meta.role }

// Source returns the source of the node's message.
func (n Node) Source() Source { return *n.meta.source }

// Calls returns the ids of the calls that the node makes. The slice is shared
// and must not be modified.
func (n Node) Calls() []string { return n.meta.calls }

// Results returns the ids of the calls that the node answers. The slice is
// shared and must not be modified.
func (n Node) Results() []string { return n.meta.results }

// IsReplacement reports whether the node stands in the place of others.
func (n Node) IsReplacement() bool { return n.meta.repl != nil }

type callKey struct {
	node Seq
	id   string
}

// state is one immutable state of a session. A new one is derived from the
// last by apply; slices that only grow share their arrays, and everything else
// is copied on write.
type state struct {
	log   []*Event
	nodes []Node
	pos   []int32 // position on the surface by seq, -1 when not on it
	gen   uint64
	// change tells incremental readers what the last step of gen did.
	change Change

	ops   []Seq // every replace, restore and rewind, in order
	pins  []Seq // sorted
	calls map[callKey]CallPhase

	envelope       *Envelope
	envelopeSeq    Seq
	envelopeTokens int

	usage *usageAnchor

	turn      int // turns started
	turnSeq   Seq // of the open turn's start, NoSeq when none is open
	stepSeq   Seq // of the open step's start, NoSeq when none is open
	turnEnded Seq
}

// Change says what the last operation that was not an append did to the
// surface: Removed nodes from position At gave way to Added ones.
type Change struct{ At, Removed, Added int }

// usageAnchor is a usage report with what the surface was when it came.
type usageAnchor struct {
	Usage
	seq      Seq
	gen      uint64
	envelope Seq
	surface  int64 // tokens of the surface up to and with the reply
}

func newState() *state {
	return &state{envelopeSeq: NoSeq, turnSeq: NoSeq, stepSeq: NoSeq, turnEnded: NoSeq}
}

func (st *state) total() int64 {
	if n := len(st.nodes); n > 0 {
		return st.nodes[n-1].cum
	}
	return 0
}

// position returns where seq stands on the surface.
func (st *state) position(seq Seq) (int, error) {
	if seq >= 0 && int(seq) < len(st.pos) {
		if p := st.pos[seq]; p >= 0 {
			return int(p), nil
		}
		if by := st.shadowedBy(seq); by != NoSeq {
			return 0, &ShadowedError{Node: seq, By: by}
		}
	}
	return 0, fmt.Errorf("event %d is %w", seq, ErrNotOnSurface)
}

// shadowedBy finds the newest replacement whose run held seq and did not keep
// it. It is only called to word an error.
func (st *state) shadowedBy(seq Seq) Seq {
	for i := len(st.ops) - 1; i >= 0; i-- {
		m := st.log[st.ops[i]].meta
		if m != nil && m.repl != nil && slices.Contains(m.repl.run, seq) && !slices.Contains(m.repl.keep, seq) {
			return st.ops[i]
		}
	}
	return NoSeq
}

// apply derives the state after e, which must have the next seq. It validates
// everything that must hold for e to be in a log and leaves st as it is.
// e must not be shared yet: apply fills in what replacements shadow.
func (st *state) apply(e *Event, pricer Pricer) (*state, error) {
	if int(e.Seq) != len(st.log) {
		return nil, fmt.Errorf("event has seq %d, want %d", e.Seq, len(st.log))
	}
	n := new(state)
	*n = *st
	n.log = append(st.log, e)
	n.pos = append(st.pos, -1)
	if e.meta != nil {
		if err := price(e, pricer); err != nil {
			return nil, err
		}
	}
	switch e.Type {
	case TypeMessage:
		n.pos[e.Seq] = int32(len(st.nodes))
		n.nodes = append(st.nodes, Node{Seq: e.Seq, Tokens: e.meta.tokens, cum: st.total() + int64(e.meta.tokens), meta: e.meta})
		n.settleCalls(e.meta.results)
		return n, nil
	case TypeReplace:
		return n, n.replace(e)
	}
	if !knownType(e.Type) {
		return n, nil
	}
	body, err := e.Body()
	if err != nil {
		return nil, err
	}
	switch b := body.(type) {
	case *Restore:
		return n, n.restore(e.Seq, b)
	case *Rewind:
		return n, n.rewind(e.Seq, b)
	case *Pin:
		return n, n.pin(b)
	case *SetEnvelope:
		n.envelope, n.envelopeSeq = &b.Envelope, e.Seq
		n.envelopeTokens = pricer.PriceEnvelope(&b.Envelope)
	case *TurnStart:
		if n.turnSeq != NoSeq {
			return nil, fmt.Errorf("%w: turn/start while turn %d is open", ErrTurnState, n.turn)
		}
		n.turn++
		n.turnSeq = e.Seq
	case *TurnEnd:
		if n.turnSeq == NoSeq {
			return nil, fmt.Errorf("%w: turn/end while no turn is open", ErrTurnState)
		}
		n.turnSeq, n.stepSeq, n.turnEnded = NoSeq, NoSeq, e.Seq
	case *StepStart:
		if n.turnSeq == NoSeq || n.stepSeq != NoSeq {
			return nil, fmt.Errorf("%w: step/start outside a turn or inside a step", ErrTurnState)
		}
		n.stepSeq = e.Seq
	case *StepEnd:
		if n.stepSeq == NoSeq {
			return nil, fmt.Errorf("%w: step/end while no step is open", ErrTurnState)
		}
		n.stepSeq = NoSeq
	case *CallState:
		return n, n.setCall(b)
	case *Usage:
		return n, n.setUsage(e.Seq, b)
	}
	return n, nil
}

func knownType(t Type) bool {
	switch t {
	case TypeMessage, TypeReplace, TypeRestore, TypeRewind, TypePin, TypeEnvelope,
		TypeTurnStart, TypeTurnEnd, TypeStepStart, TypeStepEnd, TypeCall, TypeUsage:
		return true
	}
	return false
}

func price(e *Event, pricer Pricer) error {
	if e.meta.by == pricer.ID() {
		return nil
	}
	m, err := e.Message()
	if err != nil {
		return err
	}
	c := *e.meta
	c.tokens, c.by = int32(pricer.Price(m)), pricer.ID()
	e.meta = &c
	return nil
}

// splice puts nodes in the place of [at, at+removed).
func (st *state) splice(at, removed int, nodes []Node) {
	old := st.nodes
	size := len(old) - removed + len(nodes)
	out := make([]Node, size, size+size/8+16)
	copy(out, old[:at])
	copy(out[at:], nodes)
	copy(out[at+len(nodes):], old[at+removed:])
	pos := make([]int32, len(st.pos), len(st.pos)+len(st.pos)/8+16)
	copy(pos, st.pos)
	for _, n := range old[at : at+removed] {
		pos[n.Seq] = -1
	}
	var cum int64
	if at > 0 {
		cum = out[at-1].cum
	}
	for i := at; i < len(out); i++ {
		cum += int64(out[i].Tokens)
		out[i].cum = cum
		pos[out[i].Seq] = int32(i)
	}
	st.nodes, st.pos = out, pos
	st.gen++
	st.change = Change{At: at, Removed: removed, Added: len(nodes)}
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
	span := st.nodes[start : end+1]
	keep := make(map[Seq]bool, len(m.keep))
	for _, s := range m.keep {
		keep[s] = true
	}
	nodes := []Node{{Seq: e.Seq, Tokens: e.meta.tokens}}
	run := make([]Seq, len(span))
	kept := make([]Seq, 0, len(m.keep))
	for i, n := range span {
		run[i] = n.Seq
		switch {
		case keep[n.Seq]:
			nodes = append(nodes, n)
			kept = append(kept, n.Seq)
		case st.pinned(n.Seq):
			return fmt.Errorf("replace: event %d is %w", n.Seq, ErrPinned)
		}
	}
	if len(kept) != len(keep) {
		return fmt.Errorf("replace: keep names an event that is %w between %d and %d", ErrNotOnSurface, m.start, m.end)
	}
	if len(kept) > 0 {
		var units pair.Matcher
		for _, n := range span {
			units.Add(n.meta.calls, n.meta.results)
		}
		for i, n := range span {
			for _, call := range units.Sources(i) {
				if call != pair.None && keep[n.Seq] != keep[span[call.Pos].Seq] {
					return fmt.Errorf("replace: keep separates event %d from the result in event %d", span[call.Pos].Seq, n.Seq)
				}
			}
		}
	}
	if len(kept) == len(span) {
		return fmt.Errorf("replace: every event from %d to %d is kept", m.start, m.end)
	}
	c := *e.meta
	c.repl = &replacement{start: m.start, end: m.end, keep: kept, run: run}
	e.meta = &c
	nodes[0].meta = &c
	st.splice(start, len(span), nodes)
	st.ops = append(st.ops, e.Seq)
	return nil
}

func (st *state) restore(seq Seq, b *Restore) error {
	at, err := st.position(b.Node)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	m := st.nodes[at].meta.repl
	if m == nil {
		return fmt.Errorf("restore: event %d replaced nothing", b.Node)
	}
	// Kept nodes that still stand right behind the replacement go back to their
	// places; those that moved or were hidden since stay as they are.
	removed := 1
	behind := make(map[Seq]Node)
	for at+removed < len(st.nodes) && slices.Contains(m.keep, st.nodes[at+removed].Seq) {
		n := st.nodes[at+removed]
		behind[n.Seq] = n
		removed++
	}
	var nodes []Node
	for _, s := range m.run {
		if n, ok := behind[s]; ok {
			nodes = append(nodes, n)
			continue
		}
		if slices.Contains(m.keep, s) {
			continue
		}
		sm := st.log[s].meta
		nodes = append(nodes, Node{Seq: s, Tokens: sm.tokens, meta: sm})
	}
	st.splice(at, removed, nodes)
	st.ops = append(st.ops, seq)
	return nil
}

func (st *state) rewind(seq Seq, b *Rewind) error {
	if b.To < NoSeq || b.To >= seq {
		return fmt.Errorf("rewind: event %d is not before event %d", b.To, seq)
	}
	seqs, err := st.surfaceAt(b.To)
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	nodes := make([]Node, len(seqs))
	for i, s := range seqs {
		m := st.log[s].meta
		nodes[i] = Node{Seq: s, Tokens: m.tokens, meta: m}
	}
	// Keep the common head, so that readers see a small change.
	at := 0
	for at < len(nodes) && at < len(st.nodes) && nodes[at].Seq == st.nodes[at].Seq {
		at++
	}
	st.splice(at, len(st.nodes)-at, nodes[at:])
	st.ops = append(st.ops, seq)
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
	for s := from; s <= to; s++ {
		e := st.log[s]
		switch e.Type {
		case TypeMessage:
			seqs = append(seqs, s)
		case TypeReplace:
			m := e.meta.repl
			i := slices.Index(seqs, m.run[0])
			seqs = slices.Replace(seqs, i, i+len(m.run), append([]Seq{s}, m.keep...)...)
		case TypeRestore:
			body, err := e.Body()
			if err != nil {
				return nil, err
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

func (st *state) pinned(seq Seq) bool {
	_, ok := slices.BinarySearch(st.pins, seq)
	return ok
}

func (st *state) pin(b *Pin) error {
	pins := slices.Clone(st.pins)
	for _, s := range b.Nodes {
		if s < 0 || int(s) >= len(st.log) || st.log[s].meta == nil {
			return fmt.Errorf("pin: event %d has no message", s)
		}
		i, ok := slices.BinarySearch(pins, s)
		switch {
		case b.Off && ok:
			pins = slices.Delete(pins, i, i+1)
		case !b.Off && !ok:
			pins = slices.Insert(pins, i, s)
		}
	}
	st.pins = pins
	return nil
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
	calls := make(map[callKey]CallPhase, len(st.calls)+1)
	for k, v := range st.calls {
		calls[k] = v
	}
	calls[callKey{b.Node, b.CallID}] = b.Phase
	st.calls = calls
	return nil
}

// settleCalls forgets what the host said of calls that now have a result.
func (st *state) settleCalls(results []string) {
	if len(st.calls) == 0 || len(results) == 0 {
		return
	}
	var found []callKey
	for _, id := range results {
		best := callKey{NoSeq, id}
		for k := range st.calls {
			if k.id == id && k.node > best.node {
				best = k
			}
		}
		if best.node != NoSeq {
			found = append(found, best)
		}
	}
	if len(found) == 0 {
		return
	}
	calls := make(map[callKey]CallPhase, len(st.calls))
	for k, v := range st.calls {
		if !slices.Contains(found, k) {
			calls[k] = v
		}
	}
	st.calls = calls
}

func (st *state) setUsage(seq Seq, b *Usage) error {
	if b.Node < NoSeq || b.Node >= seq {
		return fmt.Errorf("usage: event %d is not before event %d", b.Node, seq)
	}
	if b.Prompt < 0 || b.Completion < 0 || b.CacheRead < 0 || b.CacheWrite < 0 || b.Reasoning < 0 {
		return errors.New("usage: negative count")
	}
	if b.Aggregate || b.Node == NoSeq || b.Prompt+b.Completion == 0 {
		return nil // for the bill only
	}
	p, err := st.position(b.Node)
	if err != nil {
		return nil // the reply is not visible any more: it describes nothing
	}
	st.usage = &usageAnchor{Usage: *b, seq: seq, gen: st.gen, envelope: st.envelopeSeq, surface: st.nodes[p].cum}
	return nil
}
