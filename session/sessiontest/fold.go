package sessiontest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentcompact/agentcompact/session"
)

// fold is the naive replay of a log: slow, simple, and sharing no code with the
// session's own.
type fold struct {
	msgs     map[session.Seq]*session.Message
	runs     map[session.Seq][]session.Seq // by replacement
	keeps    map[session.Seq][]session.Seq
	surface  []session.Seq
	pins     map[session.Seq]bool
	phases   map[call]session.CallPhase
	ops      uint64
	turn     session.Seq
	open     session.Seq
	envelope session.Seq
	before   map[session.Seq][]session.Seq // surfaces by event, of those that were asked for
}

type call struct {
	node session.Seq
	id   string
}

func newFold() *fold {
	return &fold{msgs: map[session.Seq]*session.Message{}, runs: map[session.Seq][]session.Seq{}, keeps: map[session.Seq][]session.Seq{},
		pins: map[session.Seq]bool{}, phases: map[call]session.CallPhase{}, turn: session.NoSeq, open: session.NoSeq,
		envelope: session.NoSeq, before: map[session.Seq][]session.Seq{session.NoSeq: nil}}
}

// replay folds the whole log of v. keep says of which events the surface after
// them is kept; those that a rewind goes back to always are.
func replay(v session.View, keep func(session.Seq) bool) (*fold, error) {
	wanted := make(map[session.Seq]bool)
	for e := range v.Events(0) {
		if e.Type == session.TypeRewind {
			b, err := e.Body()
			if err != nil {
				return nil, err
			}
			wanted[b.(*session.Rewind).To] = true
		}
	}
	f := newFold()
	next := session.Seq(0)
	for e := range v.Events(0) {
		if e.Seq != next {
			return nil, fmt.Errorf("event %d stands where event %d belongs", e.Seq, next)
		}
		next++
		if err := f.step(e); err != nil {
			return nil, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
		}
		if wanted[e.Seq] || keep(e.Seq) {
			f.before[e.Seq] = slices.Clone(f.surface)
		}
	}
	return f, nil
}

func (f *fold) step(e *session.Event) error {
	body, err := e.Body()
	if err != nil {
		return err
	}
	old := f.surface
	switch b := body.(type) {
	case *session.Append:
		f.msgs[e.Seq] = &b.Message
		f.surface = append(f.surface, e.Seq)
		f.answered(e.Seq)
		f.widen()
		return nil
	case *session.Replace:
		f.msgs[e.Seq] = &b.Message
		i, j := slices.Index(old, b.Start), slices.Index(old, b.End)
		if i < 0 || j < i {
			return errors.New("its run is not on the surface")
		}
		run := slices.Clone(old[i : j+1])
		var kept []session.Seq
		for _, s := range run {
			if slices.Contains(b.Keep, s) {
				kept = append(kept, s)
			}
		}
		f.runs[e.Seq], f.keeps[e.Seq] = run, kept
		f.surface = slices.Concat(old[:i], []session.Seq{e.Seq}, kept, old[j+1:])
	case *session.Restore:
		i := slices.Index(old, b.Node)
		if i < 0 || f.runs[b.Node] == nil {
			return errors.New("what it restores is not on the surface")
		}
		j := i + 1
		for j < len(old) && slices.Contains(f.keeps[b.Node], old[j]) {
			j++
		}
		var back []session.Seq
		for _, s := range f.runs[b.Node] {
			if !slices.Contains(f.keeps[b.Node], s) || slices.Contains(old[i:j], s) {
				back = append(back, s)
			}
		}
		f.surface = slices.Concat(old[:i], back, old[j:])
	case *session.Redo:
		run := f.runs[b.Node]
		i := -1
		for at := range old {
			if len(run) > 0 && at+len(run) <= len(old) && slices.Equal(old[at:at+len(run)], run) {
				i = at
			}
		}
		if i < 0 {
			return errors.New("what it hides again is not on the surface")
		}
		f.surface = slices.Concat(old[:i], []session.Seq{b.Node}, f.keeps[b.Node], old[i+len(run):])
	case *session.Rewind:
		to, ok := f.before[b.To]
		if !ok {
			return errors.New("it goes back to an event that does not exist")
		}
		f.surface = slices.Clone(to)
	case *session.Pin:
		f.pin(b)
		return nil
	case *session.SetEnvelope:
		f.envelope = e.Seq
		return nil
	case *session.CallState:
		if m := f.match(); !slices.Contains(f.surface, b.Node) || slices.Contains(m.open, call{b.Node, b.CallID}) {
			f.phases[call{b.Node, b.CallID}] = b.Phase
		}
		return nil
	case *session.TurnStart:
		if f.turn != session.NoSeq {
			return errors.New("a turn is open")
		}
		f.turn = e.Seq
		return nil
	case *session.TurnEnd:
		if f.turn == session.NoSeq {
			return errors.New("no turn is open")
		}
		f.turn, f.open = session.NoSeq, session.NoSeq
		return nil
	case *session.StepStart:
		if f.turn == session.NoSeq || f.open != session.NoSeq {
			return errors.New("no turn or a step is open")
		}
		f.open = e.Seq
		return nil
	case *session.StepEnd:
		f.open = session.NoSeq
		return nil
	default:
		return nil
	}
	f.ops++
	m := f.matchOf(old)
	for _, s := range old {
		if slices.Contains(f.surface, s) {
			continue
		}
		if f.pins[s] {
			return fmt.Errorf("it hides event %d, which is pinned", s)
		}
		for _, c := range m.open {
			p := f.phases[c]
			same := e.Type == session.TypeReplace && slices.Equal(f.msgs[s].Calls(), f.msgs[e.Seq].Calls())
			if c.node == s && !same && (p == session.CallRunning || p == session.CallStarted) {
				return fmt.Errorf("it hides call %q of event %d, which is running", c.id, s)
			}
		}
	}
	f.widen()
	return nil
}

// matching is who answers whom on a surface.
type matching struct {
	open  []call
	pairs []pairing
}

type pairing struct {
	call   call
	result session.Seq
	index  int // of the result in its message
}

func (f *fold) match() matching { return f.matchOf(f.surface) }

func (f *fold) matchOf(surface []session.Seq) matching {
	var m matching
	for _, s := range surface {
		for i, id := range f.msgs[s].Results() {
			// The last message with an open call of the id, and its first one.
			node := session.NoSeq
			for _, c := range m.open {
				if c.id == id {
					node = c.node
				}
			}
			if at := slices.Index(m.open, call{node, id}); at >= 0 {
				m.open = slices.Delete(m.open, at, at+1)
				m.pairs = append(m.pairs, pairing{call{node, id}, s, i})
			}
		}
		for _, id := range f.msgs[s].Calls() {
			m.open = append(m.open, call{s, id})
		}
	}
	return m
}

// answered forgets what was said of calls that the newest message answers.
func (f *fold) answered(s session.Seq) {
	if len(f.phases) == 0 || len(f.msgs[s].Results()) == 0 {
		return
	}
	for _, p := range f.match().pairs {
		if p.result == s {
			delete(f.phases, p.call)
		}
	}
}

func (f *fold) pin(b *session.Pin) {
	unit := make(map[session.Seq]bool)
	m := f.match()
	for _, s := range b.Nodes {
		unit[s] = true
		heads := map[session.Seq]bool{s: true}
		for _, p := range m.pairs {
			if p.result == s {
				heads[p.call.node] = true
			}
		}
		for _, p := range m.pairs {
			if heads[p.call.node] {
				unit[p.call.node], unit[p.result] = true, true
			}
		}
	}
	for s := range unit {
		if b.Off {
			delete(f.pins, s)
		} else {
			f.pins[s] = true
		}
	}
	if !b.Off {
		f.widen()
	}
}

// widen pins the whole units of what is pinned.
func (f *fold) widen() {
	if len(f.pins) == 0 {
		return
	}
	m := f.match()
	for grown := true; grown; {
		grown = false
		for _, p := range m.pairs {
			if f.pins[p.call.node] != f.pins[p.result] {
				f.pins[p.call.node], f.pins[p.result] = true, true
				grown = true
			}
		}
	}
}
