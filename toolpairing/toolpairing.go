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
// concurrent use.
type Index struct {
	view session.View
	m    *pair.Matcher
	// last is the position of the last message that is no result, -1 when
	// there is none: nothing but results follows its calls.
	last int
	// running is the position of the first running call; Len when there is
	// none. No cut behind it is balanced.
	running int
}

// Of builds the index of a view. It costs O(n); [For] keeps one up to date.
func Of(v session.View) *Index {
	m := new(pair.Matcher)
	fill(m, v)
	x := newIndex(v, m)
	return &x
}

func fill(m *pair.Matcher, v session.View) {
	for i := m.Len(); i < v.Len(); i++ {
		n := v.Node(i)
		m.Add(n.Calls(), n.Results())
	}
}

func newIndex(v session.View, m *pair.Matcher) Index {
	x := Index{view: v, m: m, running: v.Len(), last: v.Len() - 1}
	for x.last >= 0 && v.Node(x.last).Role() == session.RoleTool {
		x.last--
	}
	// Calls can only be running at the tail, in the open step, or where the
	// host says so.
	if x.last >= 0 {
		x.runs(x.last)
	}
	if step := v.OpenStep(); step != session.NoSeq {
		for i := v.Len() - 1; i >= 0; i-- {
			if n := v.Node(i); n.IsReplacement() {
				continue
			} else if n.Seq < step {
				break
			}
			x.runs(i)
		}
	}
	for c := range v.CallStates() {
		if p, err := v.Position(c.Node); err == nil {
			x.runs(p)
		}
	}
	return x
}

// runs takes note of a running call at position i.
func (x *Index) runs(i int) {
	if i >= x.running {
		return
	}
	for k, id := range x.view.Node(i).Calls() {
		if x.m.Answer(i, k) == pair.None && x.isRunning(i, id) {
			x.running = i
			return
		}
	}
}

// isRunning judges a call without a result.
func (x *Index) isRunning(i int, id string) bool {
	switch x.view.CallPhase(x.view.Node(i).Seq, id) {
	case session.CallRunning, session.CallStarted:
		return true
	case session.CallAbandoned:
		return false
	}
	return i >= x.last
}

// View returns the view that the index is about.
func (x *Index) View() session.View { return x.view }

// Balanced reports whether the cut before position cut is balanced; cut may be
// from 0 to Len. The cut before the head is always balanced.
func (x *Index) Balanced(cut int) bool {
	return cut == 0 || cut <= x.running && x.m.Balanced(cut)
}

// Passes reports whether the cut before position cut separates no call from its
// result, those aside that still run: an operation that keeps their messages
// visible may reach over them.
func (x *Index) Passes(cut int) bool { return x.m.Balanced(cut) }

// PassesBefore returns the last cut at or before cut that passes.
func (x *Index) PassesBefore(cut int) int { return x.m.Before(cut) }

// PassesAfter returns the first cut at or after cut that passes.
func (x *Index) PassesAfter(cut int) int { return x.m.After(cut) }

// RunningAt reports whether the message at position i makes a call that still
// runs.
func (x *Index) RunningAt(i int) bool {
	if i < x.running {
		return false
	}
	for k := range x.view.Node(i).Calls() {
		if x.Running(i, k) {
			return true
		}
	}
	return false
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

// HeadWithin returns the last balanced cut with at most so many tokens before
// it.
func (x *Index) HeadWithin(tokens int) int { return x.Before(x.view.Fit(tokens)) }

// TailWithin returns the first balanced cut with at most so many tokens behind
// it, and false when there is none.
func (x *Index) TailWithin(tokens int) (int, bool) {
	return x.After(x.tailCut(tokens))
}

// tailCut returns the first cut with at most so many tokens behind it.
func (x *Index) tailCut(tokens int) int {
	head := x.view.SurfaceTokens() - max(tokens, 0)
	if head <= 0 {
		return 0
	}
	return min(x.view.Fit(head-1)+1, x.view.Len())
}

// Nearest returns the balanced cut whose head is nearest to so many tokens; of
// two it is the earlier one.
func (x *Index) Nearest(tokens int) int {
	fit := x.view.Fit(tokens)
	before := x.Before(fit)
	after, ok := x.After(fit)
	if ok && after == before {
		after, ok = x.After(min(fit+1, x.view.Len()))
	}
	if ok && x.view.Tokens(0, after)-tokens < tokens-x.view.Tokens(0, before) {
		return after
	}
	return before
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
		for k, id := range n.Calls() {
			r := x.m.Answer(i, k)
			if r.Pos >= cut || r == pair.None && i >= x.running && x.isRunning(i, id) {
				return n.Seq, id, true
			}
		}
	}
	return session.NoSeq, "", false
}

// Unit returns the positions of the unit that position i belongs to, in order:
// an assistant message with all results of its calls, or i alone.
func (x *Index) Unit(i int) []int {
	head := i
	for k := range x.view.Node(i).Results() {
		if c := x.m.Source(i, k); c != pair.None {
			head = c.Pos
			break
		}
	}
	unit := []int{head}
	for k := range x.view.Node(head).Calls() {
		if r := x.m.Answer(head, k); r != pair.None && r.Pos != unit[len(unit)-1] {
			unit = append(unit, r.Pos)
		}
	}
	slices.Sort(unit)
	return slices.Compact(unit)
}

// Answered reports whether the k-th call at position i has a result, and where
// that result stands.
func (x *Index) Answered(i, k int) (pos int, ok bool) {
	a := x.m.Answer(i, k)
	return max(a.Pos, 0), a != pair.None
}

// CallOf returns the position and index of the call that the k-th result at
// position i answers.
func (x *Index) CallOf(i, k int) (pos, index int, ok bool) {
	a := x.m.Source(i, k)
	if a == pair.None {
		return 0, 0, false
	}
	return a.Pos, a.Index, true
}

// Running reports whether the k-th call at position i has no result yet but may
// still get one.
func (x *Index) Running(i, k int) bool {
	if i < x.running || x.m.Answer(i, k) != pair.None {
		return false
	}
	calls := x.view.Node(i).Calls()
	return k < len(calls) && x.isRunning(i, calls[k])
}

// Diagnose returns everything that is wrong with the pairing, in surface
// order. It is nil for a sound surface, running calls aside.
func (x *Index) Diagnose() []Problem {
	var out []Problem
	for _, p := range x.m.Problems() {
		q := Problem{Kind: p.Kind, CallID: p.ID, Seq: x.view.Node(p.Pos).Seq, Position: p.Pos, Index: p.Index}
		q.Running = p.Kind == UnansweredCall && x.isRunning(p.Pos, p.ID)
		out = append(out, q)
	}
	return out
}
