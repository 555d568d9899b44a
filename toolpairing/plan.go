package toolpairing

import "github.com/agentcompact/agentcompact/session"

// Synthetic is a result that is missing: a request needs an error result for
// the call, since providers refuse a call without one.
type Synthetic struct {
	// Seq and Position name the message that makes the call, Index which of
	// its calls it is.
	Seq      session.Seq
	Position int
	Index    int
	CallID   string
	// After is the position of the last message of the call's unit: the result
	// belongs behind it.
	After int
	// Started says that the host recorded that the tool had begun.
	Started bool
}

// Orphan is a result that no call of the surface waits for: a request must
// show it as a note, or not at all.
type Orphan struct {
	// Seq and Position name the message, Index which of its results it is.
	Seq      session.Seq
	Position int
	Index    int
	CallID   string
	// Kind is [OrphanResult], [DuplicateResult] or [ResultBeforeCall].
	Kind Kind
}

// Misplaced is an answered call with other messages between it and its result:
// a request must move the result up.
type Misplaced struct {
	// Call and Result are the positions of the two messages, Index which of
	// the results of its message it is.
	Call, Result, Index int
	CallID              string
}

// Repair says what makes a surface acceptable to providers. It is data: the
// surface stays as it is, and whoever builds a request applies it. It is empty
// for a sound surface.
type Repair struct {
	// Results are missing, in surface order. Running calls are not among them.
	Results []Synthetic
	// Orphans are results without a call, in surface order.
	Orphans []Orphan
	// Moves are results that do not stand right behind their call's message or
	// another result, in surface order.
	Moves []Misplaced
}

// Empty reports whether nothing has to be done.
func (r *Repair) Empty() bool {
	return len(r.Results) == 0 && len(r.Orphans) == 0 && len(r.Moves) == 0
}

// Plan returns what would make the surface acceptable. It costs O(n).
func (x *Index) Plan() Repair {
	var out Repair
	for _, p := range x.Diagnose() {
		switch p.Kind {
		case UnansweredCall:
			if p.Running {
				continue
			}
			unit := x.Unit(p.Position)
			out.Results = append(out.Results, Synthetic{Seq: p.Seq, Position: p.Position, Index: p.Index, CallID: p.CallID,
				After: unit[len(unit)-1], Started: x.view.CallPhase(p.Seq, p.CallID) == session.CallStarted})
		case OrphanResult, DuplicateResult, ResultBeforeCall:
			out.Orphans = append(out.Orphans, Orphan{Seq: p.Seq, Position: p.Position, Index: p.Index, CallID: p.CallID, Kind: p.Kind})
		}
	}
	last := -1 // the last message that is no result
	for i := range x.view.Len() {
		n := x.view.Node(i)
		for k, id := range n.Results() {
			if call, _, ok := x.CallOf(i, k); ok && call != last {
				out.Moves = append(out.Moves, Misplaced{Call: call, Result: i, Index: k, CallID: id})
			}
		}
		if n.Role() != session.RoleTool {
			last = i
		}
	}
	return out
}
