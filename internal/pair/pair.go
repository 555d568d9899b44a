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

// ref is a Ref that survives a splice: key names a position for good.
type ref struct{ key, index int32 }

var none = ref{-1, -1}

// entry is a position with calls or results.
type entry struct {
	calls, results   []string
	answers, sources []ref // by call and by result
}

// Matcher matches a growing sequence. The zero value is empty and ready. It is
// for one goroutine at a time.
type Matcher struct {
	keys    []int32  // by position
	pos     []int32  // by key; -1 when it was taken out
	entries []*entry // by key; nil when there are neither calls nor results

	open    map[string][]ref // calls without a result, in order of position
	seen    map[string]int   // how many calls there are of an id
	blocks  []int32          // starts of the maximal runs without a balanced cut inside
	orphans []ref            // results without a call
	twice   []ref            // calls whose id occurs before in the same message
}

// Len returns the number of positions added.
func (m *Matcher) Len() int { return len(m.keys) }

// Add appends a position with the ids of its calls and results, in order. The
// slices are kept and must not be modified.
func (m *Matcher) Add(calls, results []string) {
	m.blocks = append(m.blocks, int32(len(m.keys)))
	key := int32(len(m.pos))
	m.pos = append(m.pos, int32(len(m.keys)))
	m.keys = append(m.keys, key)
	if len(calls) == 0 && len(results) == 0 {
		m.entries = append(m.entries, nil)
		return
	}
	if m.open == nil {
		m.open = make(map[string][]ref)
		m.seen = make(map[string]int)
	}
	e := &entry{calls: calls, results: results}
	m.entries = append(m.entries, e)
	if len(results) > 0 {
		e.sources = make([]ref, len(results))
		for i, id := range results {
			e.sources[i] = m.answer(key, i, id)
		}
	}
	if len(calls) > 0 {
		e.answers = make([]ref, len(calls))
		for i, id := range calls {
			e.answers[i] = none
			if slices.Contains(calls[:i], id) {
				m.twice = append(m.twice, ref{key, int32(i)})
			}
			m.open[id] = append(m.open[id], ref{key, int32(i)})
			m.seen[id]++
		}
	}
}

func (m *Matcher) answer(key int32, index int, id string) ref {
	list := m.open[id]
	if len(list) == 0 {
		m.orphans = append(m.orphans, ref{key, int32(index)})
		return none
	}
	call := nearest(list)
	m.close(id, call)
	m.entries[call.key].answers[call.index] = ref{key, int32(index)}
	// No cut between the call and this result is balanced.
	n, c := len(m.blocks), m.pos[call.key]
	for n > 0 && m.blocks[n-1] > c {
		n--
	}
	m.blocks = m.blocks[:n]
	return call
}

// nearest returns the call of the last message; within it the first.
func nearest(list []ref) ref {
	i := len(list) - 1
	for i > 0 && list[i-1].key == list[i].key {
		i--
	}
	return list[i]
}

func (m *Matcher) close(id string, call ref) {
	list := m.open[id]
	i := slices.Index(list, call)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(m.open, id)
	} else {
		m.open[id] = list
	}
}

func (m *Matcher) public(r ref) Ref {
	if r == none {
		return None
	}
	return Ref{int(m.pos[r.key]), int(r.index)}
}

func (m *Matcher) entry(pos int) *entry { return m.entries[m.keys[pos]] }

// Answer returns the result that answers the k-th call at pos, or [None].
func (m *Matcher) Answer(pos, k int) Ref {
	if e := m.entry(pos); e != nil && k < len(e.answers) {
		return m.public(e.answers[k])
	}
	return None
}

// Source returns the call that the k-th result at pos answers, or [None].
func (m *Matcher) Source(pos, k int) Ref {
	if e := m.entry(pos); e != nil && k < len(e.sources) {
		return m.public(e.sources[k])
	}
	return None
}

// Answers returns, for each call at pos, the result that answers it or [None].
// It is nil when there are no calls.
func (m *Matcher) Answers(pos int) []Ref {
	e := m.entry(pos)
	if e == nil {
		return nil
	}
	return m.all(e.answers)
}

// Sources returns, for each result at pos, the call that it answers or [None].
// It is nil when there are no results.
func (m *Matcher) Sources(pos int) []Ref {
	e := m.entry(pos)
	if e == nil {
		return nil
	}
	return m.all(e.sources)
}

func (m *Matcher) all(refs []ref) []Ref {
	if refs == nil {
		return nil
	}
	out := make([]Ref, len(refs))
	for i, r := range refs {
		out[i] = m.public(r)
	}
	return out
}

// Balanced reports whether no pair is split by the cut before position cut.
// The cuts before the first position and after the last one are balanced.
func (m *Matcher) Balanced(cut int) bool {
	if cut == len(m.keys) {
		return true
	}
	_, ok := slices.BinarySearch(m.blocks, int32(cut))
	return ok
}

// Before returns the last balanced cut at or before cut.
func (m *Matcher) Before(cut int) int {
	if cut >= len(m.keys) {
		return len(m.keys)
	}
	i, ok := slices.BinarySearch(m.blocks, int32(cut))
	switch {
	case ok:
		return cut
	case i == 0:
		return 0
	}
	return int(m.blocks[i-1])
}

// After returns the first balanced cut at or after cut.
func (m *Matcher) After(cut int) int {
	i, _ := slices.BinarySearch(m.blocks, int32(min(cut, len(m.keys))))
	if i == len(m.blocks) {
		return len(m.keys)
	}
	return int(m.blocks[i])
}

// Open returns the calls that have no result, in order.
func (m *Matcher) Open() []Problem {
	var out []Problem
	for id, list := range m.open {
		for _, o := range list {
			out = append(out, Problem{UnansweredCall, id, int(m.pos[o.key]), int(o.index)})
		}
	}
	sortProblems(out)
	return out
}

// Problems returns all faults in order of position. Calls without a result are
// among them; whether one of those is still running is for the caller to know.
func (m *Matcher) Problems() []Problem {
	if len(m.orphans) == 0 && len(m.twice) == 0 && len(m.open) == 0 {
		return nil
	}
	out := m.Open()
	for _, r := range m.twice {
		out = append(out, Problem{DuplicateCallID, m.entries[r.key].calls[r.index], int(m.pos[r.key]), int(r.index)})
	}
	first := m.firstCalls()
	for _, r := range m.orphans {
		p := Problem{OrphanResult, m.entries[r.key].results[r.index], int(m.pos[r.key]), int(r.index)}
		if at, ok := first[p.ID]; ok {
			p.Kind = DuplicateResult
			if at >= p.Pos {
				p.Kind = ResultBeforeCall
			}
		}
		out = append(out, p)
	}
	sortProblems(out)
	return out
}

// firstCalls returns where the ids of orphans were called first.
func (m *Matcher) firstCalls() map[string]int {
	first := make(map[string]int)
	for _, r := range m.orphans {
		if id := m.entries[r.key].results[r.index]; m.seen[id] > 0 {
			first[id] = -1
		}
	}
	if len(first) == 0 {
		return nil
	}
	for pos, key := range m.keys {
		e := m.entries[key]
		if e == nil {
			continue
		}
		for _, id := range e.calls {
			if at, ok := first[id]; ok && at < 0 {
				first[id] = pos
			}
		}
	}
	return first
}

func sortProblems(list []Problem) {
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Kind, b.Kind))
	})
}
