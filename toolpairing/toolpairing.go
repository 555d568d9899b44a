// Package toolpairing answers questions about tool calls and their results on
// a session's surface: whether a cut separates a call from its result, where
// the nearest balanced cut is, and what is wrong with the pairing.
//
//	x := toolpairing.For(s)
//	ok, err := x.BalancedBefore(seq)
//
// A cut is a place between two neighbors on the surface. It is balanced when
// no running or answered call stands before it with its result after it. A
// call is answered when a result of its id follows before the id is used up;
// it is running when the host says so, when it belongs to the open step, or
// when nothing but results follows it; otherwise it is abandoned and blocks no
// cut. Faults are local: an orphan result is diagnosed and leaves the rest of
// the surface usable.
package toolpairing

import (
	"slices"
	"sync"

	"github.com/agentcompact/agentcompact/internal/pair"
	"github.com/agentcompact/agentcompact/session"
)

// Kind says what is wrong with a call or a result.
type Kind = pair.Kind

// The kinds of problems.
const (
	OrphanResult     = pair.OrphanResult
	UnansweredCall   = pair.UnansweredCall
	DuplicateCallID  = pair.DuplicateCallID
	DuplicateResult  = pair.DuplicateResult
	ResultBeforeCall = pair.ResultBeforeCall
)

// Problem is one diagnosis.
type Problem struct {
	Kind   Kind
	CallID string
	// Seq is the message at fault, Position where it stands, and Index which
	// of its calls or results it is.
	Seq      session.Seq
	Position int
	Index    int
	// Running says of an unanswered call that its result may still come.
	Running bool
}

// Index answers questions about one view. It is immutable and safe for
// concurrent use as far as its methods say nothing else.
type Index struct {
	view session.View
	m    *pair.Matcher
	// running is the position of the first running call; Len when there is
	// none. No cut behind it is balanced.
	running int
}

// Of builds the index of a view. It costs O(n).
func Of(v session.View) *Index {
	m := new(pair.Matcher)
	fill(m, v)
	return newIndex(v, m)
}

func fill(m *pair.Matcher, v session.View) {
	for i := m.Len(); i < v.Len(); i++ {
		n := v.Node(i)
		m.Add(n.Calls(), n.Results())
	}
}

func newIndex(v session.View, m *pair.Matcher) *Index {
	x := &Index{view: v, m: m, running: v.Len()}
	// Behind tail nothing but results follows.
	tail := v.Len()
	for tail > 0 && v.Node(tail-1).Role() == session.RoleTool {
		tail--
	}
	for _, p := range m.Open() {
		if p.Pos < x.running && x.isRunning(p, tail-1) {
			x.running = p.Pos
		}
	}
	return x
}

func (x *Index) isRunning(p pair.Problem, last int) bool {
	switch x.view.CallPhase(x.view.Node(p.Pos).Seq, p.ID) {
	case session.CallRunning, session.CallStarted:
		return true
	case session.CallAbandoned:
		return false
	}
	return p.Pos >= last
}

// incremental is the matcher that a session keeps.
type incremental struct {
	mu  sync.Mutex
	gen uint64
	m   *pair.Matcher
}

type sessionKey struct{}

// Live answers questions about the newest view of a session. It keeps an index
// that grows with the tail, so that a question right after an append costs
// O(1). It is safe for concurrent use.
type Live struct {
	s   *session.Session
	inc *incremental
}

// For returns the live index of a session.
func For(s *session.Session) Live {
	return Live{s, session.Derived(s, sessionKey{}, func() *incremental { return &incremental{m: new(pair.Matcher)} })}
}

// BalancedBefore reports whether the cut before the message is balanced. The
// error wraps [session.ErrNotOnSurface].
func (l Live) BalancedBefore(seq session.Seq) (bool, error) { return l.cut(seq, 0) }

// BalancedAfter reports whether the cut after the message is balanced. The
// error wraps [session.ErrNotOnSurface].
func (l Live) BalancedAfter(seq session.Seq) (bool, error) { return l.cut(seq, 1) }

func (l Live) cut(seq session.Seq, after int) (bool, error) {
	v := l.s.View()
	p, err := v.Position(seq)
	if err != nil {
		return false, err
	}
	l.inc.mu.Lock()
	defer l.inc.mu.Unlock()
	if l.inc.gen != v.Generation() || l.inc.m.Len() > v.Len() {
		l.inc.gen, l.inc.m = v.Generation(), new(pair.Matcher)
	}
	fill(l.inc.m, v)
	return newIndex(v, l.inc.m).Balanced(p + after), nil
}

// View returns the view that the index is about.
func (x *Index) View() session.View { return x.view }

// Balanced reports whether the cut before position cut is balanced; cut may be
// from 0 to Len. The cut before the head is always balanced.
func (x *Index) Balanced(cut int) bool {
	return cut == 0 || cut <= x.running && x.m.Balanced(cut)
}

// BalancedBefore reports whether the cut before the message is balanced. The
// error wraps [session.ErrNotOnSurface].
func (x *Index) BalancedBefore(seq session.Seq) (bool, error) {
	p, err := x.view.Position(seq)
	return err == nil && x.Balanced(p), err
}

// BalancedAfter reports whether the cut after the message is balanced. The
// error wraps [session.ErrNotOnSurface].
func (x *Index) BalancedAfter(seq session.Seq) (bool, error) {
	p, err := x.view.Position(seq)
	return err == nil && x.Balanced(p+1), err
}

// Before returns the last balanced cut at or before cut. It is 0 when there is
// no other.
func (x *Index) Before(cut int) int { return x.m.Before(min(cut, x.running)) }

// After returns the first balanced cut at or after cut, and false when there
// is none.
func (x *Index) After(cut int) (int, bool) {
	c := x.m.After(cut)
	return c, c <= x.running
}

// Splits returns a call that the unbalanced cut before position cut separates
// from its result: the message that makes it and the id. It returns false when
// the cut is balanced.
func (x *Index) Splits(cut int) (session.Seq, string, bool) {
	if x.Balanced(cut) {
		return session.NoSeq, "", false
	}
	for i := min(cut, x.view.Len()) - 1; i >= 0; i-- {
		n := x.view.Node(i)
		for k, r := range x.m.Answers(i) {
			if r.Pos >= cut || r == pair.None && i >= x.running {
				return n.Seq, n.Calls()[k], true
			}
		}
	}
	return session.NoSeq, "", false
}

// Unit returns the positions of the unit that position i belongs to, in order:
// an assistant message with all results of its calls, or i alone.
func (x *Index) Unit(i int) []int {
	head := i
	for _, c := range x.m.Sources(i) {
		if c != pair.None {
			head = c.Pos
			break
		}
	}
	unit := []int{head}
	for _, r := range x.m.Answers(head) {
		if r != pair.None && r.Pos != unit[len(unit)-1] {
			unit = append(unit, r.Pos)
		}
	}
	if head != i && len(unit) == 1 {
		return []int{i}
	}
	slices.Sort(unit)
	return slices.Compact(unit)
}

// Answered reports whether the k-th call at position i has a result, and where
// that result stands.
func (x *Index) Answered(i, k int) (pos int, ok bool) {
	a := x.m.Answers(i)
	if k >= len(a) || a[k] == pair.None {
		return 0, false
	}
	return a[k].Pos, true
}

// CallOf returns the position and index of the call that the k-th result at
// position i answers.
func (x *Index) CallOf(i, k int) (pos, index int, ok bool) {
	a := x.m.Sources(i)
	if k >= len(a) || a[k] == pair.None {
		return 0, 0, false
	}
	return a[k].Pos, a[k].Index, true
}

// Running reports whether the k-th call at position i has no result yet but may
// still get one.
func (x *Index) Running(i, k int) bool {
	if _, ok := x.Answered(i, k); ok || i < x.running {
		return false
	}
	calls := x.view.Node(i).Calls()
	return k < len(calls) && x.isRunning(pair.Problem{Pos: i, ID: calls[k]}, x.view.Len()-x.trailing()-1)
}

// trailing counts the results at the tail.
func (x *Index) trailing() int {
	n := 0
	for n < x.view.Len() && x.view.Node(x.view.Len()-1-n).Role() == session.RoleTool {
		n++
	}
	return n
}

// Diagnose returns everything that is wrong with the pairing, in surface
// order. It is nil for a sound surface, running calls aside.
func (x *Index) Diagnose() []Problem {
	last := x.view.Len() - x.trailing() - 1
	var out []Problem
	for _, p := range x.m.Problems() {
		q := Problem{Kind: p.Kind, CallID: p.ID, Seq: x.view.Node(p.Pos).Seq, Position: p.Pos, Index: p.Index}
		q.Running = p.Kind == UnansweredCall && x.isRunning(p, last)
		out = append(out, q)
	}
	return out
}
