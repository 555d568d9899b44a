package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// large is the length of logs of which only a part of the surfaces is rebuilt.
const large = 400

// Check replays the log of v naively and compares: the surface, the prices that
// p gives, generation, pins, markers, the surface after every event, what
// hides what, and the answers to pairing questions. It returns the first
// difference.
func Check(v session.View, p session.Pricer) error {
	n := int(v.Next())
	sampled := func(s session.Seq) bool { return n <= large || int(s)%(n/100) == 0 }
	f, err := replay(v, sampled)
	if err != nil {
		return err
	}
	return errors.Join(f.checkSurface(v, p), f.checkMarkers(v), f.checkPast(v, p, sampled), f.checkHidden(v), f.checkPairs(v, toolpairing.Of(v)))
}

func (f *fold) checkSurface(v session.View, p session.Pricer) error {
	if v.Generation() != f.ops {
		return fmt.Errorf("generation is %d after %d operations", v.Generation(), f.ops)
	}
	if got := seqs(v); !slices.Equal(got, f.surface) {
		return fmt.Errorf("surface is %v, want %v", got, f.surface)
	}
	total := 0
	for i := range v.Len() {
		n := v.Node(i)
		m, err := v.Message(i)
		if err != nil {
			return err
		}
		want := f.msgs[n.Seq]
		if string(encode(m)) != string(encode(want)) {
			return fmt.Errorf("event %d is another message than was appended", n.Seq)
		}
		if int(n.Tokens) != p.Price(want) {
			return fmt.Errorf("event %d costs %d, want %d", n.Seq, n.Tokens, p.Price(want))
		}
		total += int(n.Tokens)
		if v.Tokens(0, i+1) != total {
			return fmt.Errorf("the head up to position %d costs %d, want %d", i, v.Tokens(0, i+1), total)
		}
		if n.Role() != want.Role || n.Source() != want.Source || !slices.Equal(n.Calls(), want.Calls()) || !slices.Equal(n.Results(), want.Results()) {
			return fmt.Errorf("the node of event %d does not describe its message", n.Seq)
		}
		if at, err := v.Position(n.Seq); err != nil || at != i {
			return fmt.Errorf("event %d is said to stand at %d (%v), want %d", n.Seq, at, err, i)
		}
		if (f.runs[n.Seq] != nil) != n.IsReplacement() {
			return fmt.Errorf("event %d is wrong about being a replacement", n.Seq)
		}
	}
	if v.SurfaceTokens() != total {
		return fmt.Errorf("the surface costs %d, want %d", v.SurfaceTokens(), total)
	}
	return nil
}

func encode(m *session.Message) []byte {
	b, _ := m.MarshalJSON()
	return b
}

func seqs(v session.View) []session.Seq {
	out := make([]session.Seq, v.Len())
	for i := range out {
		out[i] = v.Node(i).Seq
	}
	return out
}

func (f *fold) checkMarkers(v session.View) error {
	for s := range f.pins {
		if !v.Pinned(s) {
			return fmt.Errorf("event %d is not pinned", s)
		}
	}
	if len(v.Pins()) != len(f.pins) {
		return fmt.Errorf("pins are %v, want %v", v.Pins(), f.pins)
	}
	if _, s := v.OpenTurn(); s != f.turn {
		return fmt.Errorf("the open turn is that of event %d, want %d", s, f.turn)
	}
	if s := v.OpenStep(); s != f.open {
		return fmt.Errorf("the open step is that of event %d, want %d", s, f.open)
	}
	if _, s := v.Envelope(); s != f.envelope {
		return fmt.Errorf("the envelope is that of event %d, want %d", s, f.envelope)
	}
	said := 0
	for c := range v.CallStates() {
		said++
		if f.phases[call{c.Node, c.CallID}] != c.Phase {
			return fmt.Errorf("call %q of event %d is %s, want %q", c.CallID, c.Node, c.Phase, f.phases[call{c.Node, c.CallID}])
		}
	}
	if said != len(f.phases) {
		return fmt.Errorf("the phases of %d calls are known, want %d", said, len(f.phases))
	}
	return nil
}

// checkPast rebuilds past surfaces, from the whole log and from prefixes.
func (f *fold) checkPast(v session.View, p session.Pricer, sampled func(session.Seq) bool) error {
	ctx := context.Background()
	store := session.NewMemoryStore()
	s, err := session.Open(ctx, store, &session.Options{Pricer: p, Known: anyType})
	if err != nil {
		return err
	}
	for e := range v.Events(0) {
		if err := store.Append(ctx, e.Seq, []*session.Event{e}); err != nil {
			return err
		}
		if !sampled(e.Seq) {
			continue
		}
		got, err := v.SurfaceAt(e.Seq)
		if err != nil {
			return err
		}
		if !slices.Equal(got, f.before[e.Seq]) {
			return fmt.Errorf("the surface at event %d is said to have been %v, want %v", e.Seq, got, f.before[e.Seq])
		}
		if err := s.Refresh(ctx); err != nil {
			return fmt.Errorf("rebuild the surface at event %d: %w", e.Seq, err)
		}
		if got := seqs(s.View()); !slices.Equal(got, f.before[e.Seq]) {
			return fmt.Errorf("the log up to event %d gives the surface %v, want %v", e.Seq, got, f.before[e.Seq])
		}
	}
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	if !slices.Equal(seqs(s.View()), f.surface) || s.View().Generation() != v.Generation() {
		return errors.New("another session from the same log has another surface")
	}
	return nil
}

func anyType(session.Type) bool { return true }

func (f *fold) checkHidden(v session.View) error {
	for r, run := range f.runs {
		got, kept, err := v.Run(r)
		if err != nil || !slices.Equal(got, run) || !slices.Equal(kept, f.keeps[r]) {
			return fmt.Errorf("event %d is said to have replaced %v and kept %v, want %v and %v (%v)", r, got, kept, run, f.keeps[r], err)
		}
	}
	// What a visible replacement leads to is hidden by somebody, the rest by
	// nobody.
	reachable := make(map[session.Seq]bool)
	open := slices.Clone(f.surface)
	for len(open) > 0 {
		r := open[0]
		open = open[1:]
		for _, s := range f.runs[r] {
			if !reachable[s] && !slices.Contains(f.surface, s) {
				reachable[s] = true
				open = append(open, s)
			}
		}
	}
	for s := range f.msgs {
		by := v.ShadowedBy(s)
		if (by != session.NoSeq) != reachable[s] || by != session.NoSeq && !slices.Contains(f.runs[by], s) {
			return fmt.Errorf("event %d is said to be hidden by event %d", s, by)
		}
		_, err := v.Position(s)
		var shadowed *session.ShadowedError
		if visible := slices.Contains(f.surface, s); visible != (err == nil) || errors.As(err, &shadowed) != reachable[s] {
			return fmt.Errorf("the position of event %d: %v", s, err)
		}
	}
	return nil
}

// checkPairs compares an index with the naive matching.
func (f *fold) checkPairs(v session.View, x *toolpairing.Index) error {
	m := f.match()
	at := make(map[session.Seq]int)
	last := -1
	for i, s := range f.surface {
		at[s] = i
		if f.msgs[s].Role != session.RoleTool {
			last = i
		}
	}
	balanced := make([]bool, len(f.surface)+1)
	for i := range balanced {
		balanced[i] = true
	}
	for _, p := range m.pairs {
		for cut := at[p.call.node] + 1; cut <= at[p.result]; cut++ {
			balanced[cut] = false
		}
	}
	running := 0
	for _, c := range m.open {
		phase, said := f.phases[c]
		inStep := f.open != session.NoSeq && c.node > f.open && f.runs[c.node] == nil
		if said && phase != session.CallAbandoned || !said && (inStep || at[c.node] >= last) {
			running++
			for cut := at[c.node] + 1; cut < len(balanced); cut++ {
				balanced[cut] = false
			}
		}
	}
	for cut, want := range balanced {
		if x.Balanced(cut) != want {
			return fmt.Errorf("the cut before position %d is balanced: %v, want %v", cut, x.Balanced(cut), want)
		}
		if _, _, split := x.Splits(cut); split == want {
			return fmt.Errorf("the cut before position %d is said to split a call: %v", cut, split)
		}
	}
	open := 0
	for _, p := range x.Diagnose() {
		if p.Kind == toolpairing.UnansweredCall {
			open++
			if p.Running {
				running--
			}
			if !slices.Contains(m.open, call{p.Seq, p.CallID}) {
				return fmt.Errorf("call %q of event %d is said to have no result", p.CallID, p.Seq)
			}
		}
	}
	if open != len(m.open) || running != 0 {
		return fmt.Errorf("%d calls are said to have no result, want %d; %d running too few", open, len(m.open), running)
	}
	for _, p := range m.pairs {
		pos, k, ok := x.CallOf(at[p.result], p.index)
		if !ok || pos != at[p.call.node] || f.msgs[p.call.node].Calls()[k] != p.call.id {
			return fmt.Errorf("result %d of event %d is said to answer position %d", p.index, p.result, pos)
		}
	}
	return nil
}

// checkLive compares the live index of a session with the naive matching.
func checkLive(s *session.Session) error {
	var err error
	toolpairing.For(s).With(func(x *toolpairing.Index) {
		var f *fold
		if f, err = replay(x.View(), func(session.Seq) bool { return false }); err == nil {
			err = f.checkPairs(x.View(), x)
		}
	})
	return err
}
