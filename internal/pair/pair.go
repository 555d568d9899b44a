// Package pair matches tool calls with their results by id, over anything that
// can list its calls and results in order.
//
// A call is identified by its id within its message. A result belongs to the
// nearest earlier open call of its id; several equal ids in one message are
// answered in order. Ids that are used again later are normal.
package pair

import (
	"cmp"
	"slices"
	"sort"
)

// Kind says what is wrong with a call or a result.
type Kind string

// The kinds of problems. The words are part of the command's JSON.
const (
	// OrphanResult: no call of that id is in the conversation.
	OrphanResult Kind = "orphan_result"
	// UnansweredCall: no result follows the call.
	UnansweredCall Kind = "unanswered_call"
	// DuplicateCallID: the id occurs twice within one message.
	DuplicateCallID Kind = "duplicate_call_id"
	// DuplicateResult: all calls of that id before it are answered already.
	DuplicateResult Kind = "duplicate_result"
	// ResultBeforeCall: the call of that id comes only later.
	ResultBeforeCall Kind = "result_before_call"
)

// Problem is one fault of the pairing.
type Problem struct {
	Kind Kind
	ID   string
	// Pos and Index name the call or result: the Index-th of its kind at
	// position Pos.
	Pos, Index int
}

// Ref names the Index-th call or result at a position.
type Ref struct{ Pos, Index int }

// None is the Ref of nothing.
var None = Ref{-1, -1}

type open struct{ pos, index int32 }

// Matcher matches a growing sequence. The zero value is empty and ready. It is
// for one goroutine at a time.
type Matcher struct {
	n        int
	open     map[string][]open
	seen     map[string]bool // ids that were called
	answers  map[int][]Ref   // by position of the calls, one per call
	sources  map[int][]Ref   // by position of the results, one per result
	blocks   []int           // starts of the maximal runs without a balanced cut inside
	problems []Problem
}

// Len returns the number of positions added.
func (m *Matcher) Len() int { return m.n }

// Add appends a position with the ids of its calls and results, in order. The
// slices are kept and must not be modified.
func (m *Matcher) Add(calls, results []string) {
	pos := m.n
	m.n++
	m.blocks = append(m.blocks, pos)
	if len(calls) == 0 && len(results) == 0 {
		return
	}
	if m.open == nil {
		m.open = make(map[string][]open)
		m.seen = make(map[string]bool)
		m.answers = make(map[int][]Ref)
		m.sources = make(map[int][]Ref)
	}
	if len(results) > 0 {
		refs := make([]Ref, len(results))
		for i, id := range results {
			refs[i] = m.answer(pos, i, id)
		}
		m.sources[pos] = refs
	}
	if len(calls) > 0 {
		refs := make([]Ref, len(calls))
		for i, id := range calls {
			refs[i] = None
			if slices.Contains(calls[:i], id) {
				m.problems = append(m.problems, Problem{DuplicateCallID, id, pos, i})
			}
			m.open[id] = append(m.open[id], open{int32(pos), int32(i)})
			m.seen[id] = true
		}
		m.answers[pos] = refs
	}
}

func (m *Matcher) answer(pos, index int, id string) Ref {
	list := m.open[id]
	if len(list) == 0 {
		kind := OrphanResult
		if m.seen[id] {
			kind = DuplicateResult
		}
		m.problems = append(m.problems, Problem{kind, id, pos, index})
		return None
	}
	// The nearest message; within it the first open call.
	i := len(list) - 1
	for i > 0 && list[i-1].pos == list[i].pos {
		i--
	}
	call := list[i]
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(m.open, id)
	} else {
		m.open[id] = list
	}
	c := int(call.pos)
	m.answers[c][call.index] = Ref{pos, index}
	// No cut between the call and this result is balanced.
	n := len(m.blocks)
	for n > 0 && m.blocks[n-1] > c {
		n--
	}
	m.blocks = m.blocks[:n]
	return Ref{c, int(call.index)}
}

// Answers returns, for each call at pos, the result that answers it or [None].
// It is nil when there are no calls. The slice is shared.
func (m *Matcher) Answers(pos int) []Ref { return m.answers[pos] }

// Sources returns, for each result at pos, the call that it answers or [None].
// It is nil when there are no results. The slice is shared.
func (m *Matcher) Sources(pos int) []Ref { return m.sources[pos] }

// Balanced reports whether no pair is split by the cut before position cut.
// The cuts before the first position and after the last one are balanced.
func (m *Matcher) Balanced(cut int) bool {
	if cut == m.n {
		return true
	}
	_, ok := slices.BinarySearch(m.blocks, cut)
	return ok
}

// Before returns the last balanced cut at or before cut.
func (m *Matcher) Before(cut int) int {
	if cut >= m.n {
		return m.n
	}
	i := sort.SearchInts(m.blocks, cut+1)
	if i == 0 {
		return 0
	}
	return m.blocks[i-1]
}

// After returns the first balanced cut at or after cut.
func (m *Matcher) After(cut int) int {
	i := sort.SearchInts(m.blocks, cut)
	if i == len(m.blocks) {
		return m.n
	}
	return m.blocks[i]
}

// Open returns the calls that have no result, in order.
func (m *Matcher) Open() []Problem {
	var out []Problem
	for id, list := range m.open {
		for _, o := range list {
			out = append(out, Problem{UnansweredCall, id, int(o.pos), int(o.index)})
		}
	}
	sortProblems(out)
	return out
}

// Problems returns all faults in order of position. Calls without a result are
// among them; whether one of those is still running is for the caller to know.
func (m *Matcher) Problems() []Problem {
	if len(m.problems) == 0 && len(m.open) == 0 {
		return nil
	}
	out := slices.Clone(m.problems)
	for i, p := range out {
		// A result without an earlier call, whose call comes later.
		if p.Kind == OrphanResult && m.seen[p.ID] {
			out[i].Kind = ResultBeforeCall
		}
	}
	out = append(out, m.Open()...)
	sortProblems(out)
	return out
}

func sortProblems(list []Problem) {
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Kind, b.Kind))
	})
}
