package session

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// Texts of the results that [Session.Repair] writes.
const (
	textNotStarted = "The agent was interrupted before this tool was started. It has had no effect."
	textUnknown    = "The agent was interrupted while this tool was running. It is not known what effect it had."
)

// Repair closes a turn that a crash left open: every call of the open step
// that has no result gets an error result that says whether the tool had
// started (see [CallStarted]), and step/end and turn/end "interrupted" follow,
// all as one unit with the time of the newest event. Calls of steps that are
// closed stay as they are; of those that the host said are running or started,
// it records that they are abandoned. It returns the seqs of what it appended,
// none when there is nothing to repair.
//
// A session cannot know whether the process that opened the turn still lives:
// call Repair when the host starts, before it goes on, and not from a tool that
// looks into a session which an agent may be running.
func (s *Session) Repair(ctx context.Context) ([]Seq, error) {
	return s.write(ctx, func(st *state) ([]*Event, *state, error) {
		bodies, err := repair(st)
		if err != nil || len(bodies) == 0 {
			return nil, nil, err
		}
		return s.prepareBodies(st, st.log[len(st.log)-1].Time, bodies)
	})
}

func repair(st *state) ([]Body, error) {
	var out []Body
	closed := make(map[callKey]bool)
	if st.turnSeq != NoSeq {
		from := st.stepSeq
		if !st.stepped {
			from = st.turnSeq // the host does not mark steps
		}
		for p := st.nodes.len() - 1; p >= 0 && from != NoSeq; p-- {
			n := st.nodes.at(p)
			if n.Seq < from || n.meta.repl != nil {
				continue
			}
			var results []Body
			for _, id := range st.openCalls(p) {
				k := callKey{n.Seq, id}
				if st.calls[k] == CallAbandoned {
					continue
				}
				closed[k] = true
				b, err := st.interrupted(k)
				if err != nil {
					return nil, err
				}
				results = append(results, b)
			}
			out = append(results, out...)
		}
	}
	keys := slices.SortedFunc(maps.Keys(st.calls), func(a, b callKey) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.id, b.id))
	})
	for _, k := range keys {
		if st.calls[k] != CallAbandoned && !closed[k] {
			out = append(out, CallState{Node: k.node, CallID: k.id, Phase: CallAbandoned})
		}
	}
	if st.turnSeq != NoSeq {
		if st.stepSeq != NoSeq {
			out = append(out, StepEnd{})
		}
		out = append(out, TurnEnd{Reason: ReasonInterrupted})
	}
	return out, nil
}

// ReasonInterrupted is the reason of a turn/end that [Session.Repair] wrote.
const ReasonInterrupted = "interrupted"

func (st *state) interrupted(k callKey) (Body, error) {
	m, err := st.log[k.node].Message()
	if err != nil {
		return nil, err
	}
	text := textNotStarted
	if st.calls[k] == CallStarted {
		text = textUnknown
	}
	r := ToolResult{CallID: k.id, IsError: true, Parts: []Part{Text{text}}}
	for _, p := range m.Parts {
		if c, ok := p.(ToolCall); ok && c.ID == k.id {
			r.Name = c.Name
			break
		}
	}
	return Append{Message{Role: RoleTool, Parts: []Part{r}, Source: Source{Kind: SourcePlugin, Plugin: Plugin, Form: FormRepair}}}, nil
}
