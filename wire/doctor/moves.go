package doctor

import (
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// answers reports whether all results of an entry that answer anything answer
// calls of one entry.
func (p *patient) answers(entry, call int) bool {
	for k := range p.x.View().Node(entry).Results() {
		if q, _, ok := p.x.CallOf(entry, k); ok && q != call {
			return false
		}
	}
	return true
}

// movement says where results go.
type movement struct {
	// from are the entries that go as a whole, behind are they by the entry that
	// they then stand behind; split are results that go without their entry.
	from   map[int]bool
	behind map[int][]int
	split  map[int][]*session.Message
}

// moves puts results that stand too late behind their call.
func (p *patient) moves(list []toolpairing.Misplaced) movement {
	mv := movement{from: map[int]bool{}, behind: map[int][]int{}, split: map[int][]*session.Message{}}
	for n, m := range list {
		if mv.from[m.Result] {
			continue
		}
		after := p.inPlace(m.Call)
		p.did(LateResult, m.Result, m.CallID, "the result was moved behind its call (message %d)", m.Call+1)
		if p.answers(m.Result, m.Call) {
			mv.from[m.Result] = true
			mv.behind[after] = append(mv.behind[after], m.Result)
			continue
		}
		if n > 0 && list[n-1].Result == m.Result && list[n-1].Call == m.Call {
			continue // went with the one before
		}
		mv.split[after] = append(mv.split[after], p.split(m.Result, m.Call))
	}
	return mv
}

// split takes the results that answer calls of one entry out of an entry that
// answers others, too, and returns them as a message.
func (p *patient) split(entry, call int) *session.Message {
	goes := map[int]bool{}
	for k, at := range p.resultParts(entry) {
		if q, _, ok := p.x.CallOf(entry, k); ok && q == call {
			goes[at] = true
		}
	}
	m := p.message(entry)
	return &session.Message{Role: session.RoleTool, Source: m.Source, Parts: p.take(entry, goes)}
}

// resultParts are the indexes of the parts of an entry that are results.
func (p *patient) resultParts(entry int) (out []int) {
	for at, part := range p.entry(entry).Parts {
		if _, ok := part.(session.ToolResult); ok {
			out = append(out, at)
		}
	}
	return out
}

// take takes parts of an entry out, by their index as it was read.
func (p *patient) take(entry int, goes map[int]bool) (out []session.Part) {
	m := p.message(entry)
	var stay []session.Part
	var were []int
	for i, part := range m.Parts {
		at := -1 // added
		if i < len(p.were[entry]) {
			at = p.were[entry][i]
		}
		if goes[at] {
			out = append(out, part)
			continue
		}
		stay, were = append(stay, part), append(were, at)
	}
	m.Parts, p.were[entry] = stay, were
	return out
}
