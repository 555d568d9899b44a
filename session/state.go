package session

import (
	"errors"
	"fmt"
	"slices"
)

// Errors of surface operations. Each is wrapped with the seqs involved.
var (
	// ErrNotOnSurface: a named seq is not on the surface.
	ErrNotOnSurface = errors.New("not on the surface")
	// ErrReversed: the start of a span stands after its end.
	ErrReversed = errors.New("span is reversed")
	// ErrPinned: the operation would hide a pinned message.
	ErrPinned = errors.New("pinned")
	// ErrRunning: the operation would hide a call that the host says is running.
	ErrRunning = errors.New("running")
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
	cum    int64 // tokens of its chunk up to and with this node
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
// last by step; slices that only grow share their arrays, and everything else
// is copied on write.
type state struct {
	log   []*Event
	nodes nodeList
	pos   []int32 // position on the surface by seq, -1 when not on it
	gen   uint64
	// own and ownRest say that pos and rest are shared with nobody yet, so that
	// they can be changed in place.
	own, ownRest bool
	*rest
}

// rest is what most messages leave as it is. States share it, so that an append
// copies little; whoever changes it calls thaw first.
type rest struct {
	// changes ends with what the last step of gen did.
	changes *changes
	hidden  *hiddenIndex // who hides what; made when it is asked for

	ops   []Seq // every replace, restore, redo and rewind, in order
	pins  []Seq // sorted
	calls map[callKey]CallPhase

	envelope       *Envelope
	envelopeSeq    Seq
	envelopeTokens int

	usage   *usageAnchor
	samples []UsageSample // the newest, oldest first; copied on write

	turn    int  // turns started
	turnSeq Seq  // of the open turn's start, NoSeq when none is open
	stepSeq Seq  // of the open step's start, NoSeq when none is open
	stepped bool // whether the open turn had a step
}

// stale is the envelope of an anchor that describes an earlier surface.
const stale Seq = -2

// usageAnchor is a usage report with what the surface was when it came.
type usageAnchor struct {
	Usage
	seq      Seq
	gen      uint64
	envelope Seq
	surface  int64 // tokens of the surface up to and with the reply
}

func newState() *state {
	return &state{rest: &rest{envelopeSeq: NoSeq, turnSeq: NoSeq, stepSeq: NoSeq, hidden: new(hiddenIndex)}}
}

func (st *state) total() int64 {
	return st.nodes.before(st.nodes.len())
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

// derive returns a state that step may change.
func (st *state) derive() *state {
	n := new(state)
	*n = *st
	n.own, n.ownRest = false, false
	return n
}

// thaw makes rest the state's own.
func (st *state) thaw() {
	if !st.ownRest {
		c := *st.rest
		st.rest, st.ownRest = &c, true
	}
}

// step makes st the state after e, which must have the next seq. It validates
// everything that must hold for e to be in a log. After an error st is of no
// use any more. e must not be shared yet: step fills in what replacements
// shadow.
func (st *state) step(e *Event, cfg *config) error {
	if int(e.Seq) != len(st.log) {
		return fmt.Errorf("event has seq %d, want %d", e.Seq, len(st.log))
	}
	if !knownType(e.Type) && !e.Ignorable && !cfg.known(e.Type) {
		return ErrUnknownType
	}
	st.log = append(st.log, e)
	st.pos = append(st.pos, -1)
	if e.meta != nil {
		if err := price(e, cfg.pricer); err != nil {
			return err
		}
	}
	switch e.Type {
	case TypeMessage:
		pins := len(st.pins)
		if len(e.meta.results) > 0 && (len(st.calls) > 0 || pins > 0) {
			st.thaw()
			st.settle(e)
		}
		st.pos[e.Seq] = int32(st.nodes.len())
		st.nodes.append(Node{Seq: e.Seq, Tokens: e.meta.tokens, meta: e.meta})
		if len(st.pins) > pins {
			st.widenPins()
		}
		return nil
	case TypeReplace:
		st.thaw()
		return st.replace(e)
	}
	if !knownType(e.Type) {
		return nil
	}
	st.thaw()
	body, err := e.Body()
	if err != nil {
		return err
	}
	switch b := body.(type) {
	case *Restore:
		return st.restore(e.Seq, b)
	case *Redo:
		return st.redo(e.Seq, b)
	case *Rewind:
		return st.rewind(e.Seq, b)
	case *Pin:
		return st.pin(b)
	case *SetEnvelope:
		st.envelope, st.envelopeSeq = &b.Envelope, e.Seq
		st.envelopeTokens = cfg.pricer.PriceEnvelope(&b.Envelope)
	case *TurnStart:
		if st.turnSeq != NoSeq {
			return fmt.Errorf("%w: turn/start while turn %d is open", ErrTurnState, st.turn)
		}
		st.turn++
		st.turnSeq, st.stepped = e.Seq, false
	case *TurnEnd:
		if st.turnSeq == NoSeq {
			return fmt.Errorf("%w: turn/end while no turn is open", ErrTurnState)
		}
		st.turnSeq, st.stepSeq = NoSeq, NoSeq
	case *StepStart:
		if st.turnSeq == NoSeq || st.stepSeq != NoSeq {
			return fmt.Errorf("%w: step/start outside a turn or inside a step", ErrTurnState)
		}
		st.stepSeq, st.stepped = e.Seq, true
	case *StepEnd:
		if st.stepSeq == NoSeq {
			return fmt.Errorf("%w: step/end while no step is open", ErrTurnState)
		}
		st.stepSeq = NoSeq
	case *CallState:
		return st.setCall(b)
	case *Usage:
		return st.setUsage(e.Seq, b)
	}
	return nil
}

func knownType(t Type) bool {
	switch t {
	case TypeMessage, TypeReplace, TypeRestore, TypeRedo, TypeRewind, TypePin, TypeEnvelope,
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

// samplesKept is how many usage reports a session remembers for calibration.
const samplesKept = 16

// sample remembers what was reported beside what it was priced at.
func (st *state) sample(u *usageAnchor) {
	x := UsageSample{Provider: u.Provider, Model: u.Model, Reported: u.Prompt + u.Completion, Priced: st.envelopeTokens + int(u.surface)}
	if st.envelope != nil {
		if x.Provider == "" {
			x.Provider = st.envelope.Provider
		}
		if x.Model == "" {
			x.Model = st.envelope.Model
		}
	}
	from := max(len(st.samples)-samplesKept+1, 0)
	st.samples = append(slices.Clone(st.samples[from:]), x)
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
	u := &usageAnchor{Usage: *b, seq: seq, gen: st.gen, envelope: st.envelopeSeq, surface: st.nodes.before(p + 1)}
	if n := len(st.ops); st.envelopeSeq > b.Node || n > 0 && st.ops[n-1] > b.Node {
		u.envelope = stale // the request was another one
	} else {
		st.sample(u)
	}
	st.usage = u
	return nil
}
