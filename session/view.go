package session

import (
	"fmt"
	"iter"
	"sort"
)

// View is an immutable snapshot of a session: its log, its surface and what
// follows from them. Taking one costs O(1); it stays what it is while the
// session goes on. The zero View is empty.
type View struct{ st *state }

var emptyState = newState()

func (v View) state() *state {
	if v.st == nil {
		return emptyState
	}
	return v.st
}

// Len returns the number of messages on the surface.
func (v View) Len() int { return v.state().nodes.len() }

// Node returns the i-th entry of the surface.
func (v View) Node(i int) Node { return *v.state().nodes.at(i) }

// Message returns the i-th message of the surface. It is shared and must not
// be modified. The error says why a payload could not be read from the store.
func (v View) Message(i int) (*Message, error) {
	st := v.state()
	return st.log[st.nodes.at(i).Seq].Message()
}

// Messages returns the messages of the surface in order.
func (v View) Messages() ([]*Message, error) {
	out := make([]*Message, v.Len())
	for i := range out {
		m, err := v.Message(i)
		if err != nil {
			return nil, err
		}
		out[i] = m
	}
	return out, nil
}

// Position returns where the event with the given seq stands on the surface.
// The error wraps [ErrNotOnSurface], as a [*ShadowedError] when a replacement
// hides it.
func (v View) Position(seq Seq) (int, error) { return v.state().position(seq) }

// Generation counts the operations on the surface that were not appends.
func (v View) Generation() uint64 { return v.state().gen }

// LastChange returns what the operation that made this generation did to the
// surface. It is zero in generation 0.
func (v View) LastChange() Change {
	if c := v.state().changes; c != nil {
		return c.Change
	}
	return Change{}
}

// Next returns the seq that the next event will have, which is the length of
// the log.
func (v View) Next() Seq { return Seq(len(v.state().log)) }

// Event returns the event with the given seq.
func (v View) Event(seq Seq) (*Event, error) {
	log := v.state().log
	if seq < 0 || int(seq) >= len(log) {
		return nil, fmt.Errorf("no event %d in a log of %d", seq, len(log))
	}
	return log[seq], nil
}

// Events iterates over the log from seq on.
func (v View) Events(from Seq) iter.Seq[*Event] {
	return func(yield func(*Event) bool) {
		log := v.state().log
		for _, e := range log[min(max(int(from), 0), len(log)):] {
			if !yield(e) {
				return
			}
		}
	}
}

// Backward iterates over the log from its newest event back to its first.
func (v View) Backward() iter.Seq[*Event] {
	return func(yield func(*Event) bool) {
		log := v.state().log
		for i := len(log) - 1; i >= 0; i-- {
			if !yield(log[i]) {
				return
			}
		}
	}
}

// Tokens returns the price of the positions from start up to, not including,
// end. It costs O(1).
func (v View) Tokens(start, end int) int {
	nodes := &v.state().nodes
	if start >= end {
		return 0
	}
	return int(nodes.before(end) - nodes.before(start))
}

// SurfaceTokens returns the price of the whole surface. It costs O(1).
func (v View) SurfaceTokens() int { return int(v.state().total()) }

// Envelope returns the envelope in force and the event that set it; nil and
// [NoSeq] when none was recorded. It is shared and must not be modified.
func (v View) Envelope() (*Envelope, Seq) { return v.state().envelope, v.state().envelopeSeq }

// EnvelopeTokens returns the price of the envelope in force.
func (v View) EnvelopeTokens() int { return v.state().envelopeTokens }

// Pinned reports whether the message of event seq is pinned.
func (v View) Pinned(seq Seq) bool { return v.state().pinned(seq) }

// Pins returns the seqs of all pinned messages, in order. It is shared and must
// not be modified.
func (v View) Pins() []Seq { return v.state().pins }

// OpenTurn returns the number of the open turn, from 1, and the event that
// opened it; 0 and [NoSeq] when none is open.
func (v View) OpenTurn() (int, Seq) {
	st := v.state()
	if st.turnSeq == NoSeq {
		return 0, NoSeq
	}
	return st.turn, st.turnSeq
}

// OpenStep returns the event that opened the open step, [NoSeq] when none is.
func (v View) OpenStep() Seq { return v.state().stepSeq }

// CallPhase returns what the host said of a call without a result: of the call
// id in the assistant message node. A call that was appended in the open step
// is running. It is empty when nothing was said.
func (v View) CallPhase(node Seq, id string) CallPhase {
	st := v.state()
	if p, ok := st.calls[callKey{node, id}]; ok {
		return p
	}
	if st.stepSeq != NoSeq && node > st.stepSeq && int(node) < len(st.log) && st.log[node].Type == TypeMessage {
		return CallRunning
	}
	return ""
}

// CallStates iterates, in no order, over what the host said of calls that have
// no result. Calls of hidden messages are among them.
func (v View) CallStates() iter.Seq[CallState] {
	return func(yield func(CallState) bool) {
		for k, p := range v.state().calls {
			if !yield(CallState{Node: k.node, CallID: k.id, Phase: p}) {
				return
			}
		}
	}
}

// UsageAnchor is the newest usage report that may describe the surface.
type UsageAnchor struct {
	Usage
	// Seq is the usage event.
	Seq Seq
	// Fresh reports whether the surface has only grown since and the envelope
	// is the same. A report that is not fresh says nothing of the surface.
	Fresh bool
	// Since is the price of what was appended after the reply.
	Since int
}

// Usage returns the newest usage report of one request whose reply was on the
// surface. It costs O(1).
func (v View) Usage() (UsageAnchor, bool) {
	st := v.state()
	if st.usage == nil {
		return UsageAnchor{}, false
	}
	u := st.usage
	a := UsageAnchor{Usage: u.Usage, Seq: u.seq, Fresh: u.gen == st.gen && u.envelope == st.envelopeSeq}
	if a.Fresh {
		a.Since = int(st.total() - u.surface)
	}
	return a, true
}

// UsageSample is a usage report of one request with the session's own price of
// the same messages.
type UsageSample struct {
	Provider, Model  string
	Reported, Priced int
}

// UsageSamples returns the newest usage reports that described the surface when
// they came, at most 16, oldest first. It is shared and must not be modified.
func (v View) UsageSamples() []UsageSample { return v.state().samples }

// Replacements returns the seqs of all events that put a message in the place
// of others, oldest first, those included that are hidden or undone.
func (v View) Replacements() []Seq {
	var out []Seq
	st := v.state()
	for _, s := range st.ops {
		if st.log[s].meta != nil {
			out = append(out, s)
		}
	}
	return out
}

// Run returns the seqs that stood where the replacement stands when it was
// made, in surface order, and those of them that it kept. It is an error to
// ask an event that replaced nothing. The slices are shared.
func (v View) Run(seq Seq) (run, kept []Seq, err error) {
	e, err := v.Event(seq)
	if err != nil {
		return nil, nil, err
	}
	if e.meta == nil || e.meta.repl == nil {
		return nil, nil, fmt.Errorf("event %d (%s) replaced nothing", seq, e.Type)
	}
	return e.meta.repl.run, e.meta.repl.keep, nil
}

// ShadowedBy returns the replacement that hides the event, [NoSeq] when none
// does: when it is visible, or was rewound. The replacement may be hidden
// itself. The first question after an operation costs O(n).
func (v View) ShadowedBy(seq Seq) Seq { return v.state().shadowedBy(seq) }

// Fit returns how many positions from the head cost at most so many tokens
// together. It costs O(log n).
func (v View) Fit(tokens int) int {
	nodes := &v.state().nodes
	return sort.Search(nodes.len(), func(i int) bool { return nodes.before(i+1) > int64(tokens) })
}

// SurfaceAt returns the seqs that were on the surface right after event seq;
// none for [NoSeq].
func (v View) SurfaceAt(seq Seq) ([]Seq, error) {
	if seq < NoSeq || seq >= v.Next() {
		return nil, fmt.Errorf("no event %d in a log of %d", seq, v.Next())
	}
	return v.state().surfaceAt(seq)
}
