package chat

import (
	"fmt"
	"slices"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// output returns the surface as chat messages that a provider takes.
func (c *conversation) output(rep *Report) ([]openai.ChatCompletionMessage, error) {
	v := c.s.View()
	x := toolpairing.Of(v)
	plan := x.Plan()
	list := make([]openai.ChatCompletionMessage, v.Len())
	for i := range list {
		m, err := c.message(v, i, rep)
		if err != nil {
			return nil, err
		}
		list[i] = m
	}
	if r := rep.Result; r != nil {
		for _, q := range r.Seqs {
			if i, ok := c.input(v, q); ok {
				rep.Replaced = append(rep.Replaced, i)
			}
		}
		rep.Replaced = sortedUnique(rep.Replaced)
	}
	rep.Repaired = len(plan.Results) + len(plan.Orphans) + len(plan.Moves) + rename(x, list)
	out := append(make([]openai.ChatCompletionMessage, 0, c.lead+len(list)+len(plan.Results)), c.in[:c.lead]...)
	for i, m := range list {
		n := v.Node(i)
		if n.Role() == session.RoleTool {
			if _, _, ok := x.CallOf(i, 0); !ok {
				out = append(out, quote(m))
			}
			continue // else it stands behind its call
		}
		if rep.Result != nil && n.Seq == rep.Result.Checkpoint {
			rep.Checkpoint = len(out)
		}
		out = append(out, m)
		var results []int
		var missing []string
		for k := range n.Calls() {
			if at, ok := x.Answered(i, k); ok {
				results = append(results, at)
			} else if !x.Running(i, k) && k < len(m.ToolCalls) {
				missing = append(missing, m.ToolCalls[k].ID)
			}
		}
		for _, at := range sortedUnique(results) {
			out = append(out, list[at])
		}
		for _, id := range missing {
			out = append(out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: id, Content: openaiconv.Abandoned})
		}
	}
	return out, nil
}

// input returns where the message of an event stood in the input.
func (c *conversation) input(v session.View, q session.Seq) (int, bool) {
	for {
		if i, ok := c.at[q]; ok {
			return i, true
		}
		run, _, err := v.Run(q)
		if err != nil || len(run) != 1 {
			return 0, false
		}
		q = run[0]
	}
}

// message returns the i-th message of the surface: as it was given, if it was.
func (c *conversation) message(v session.View, i int, rep *Report) (openai.ChatCompletionMessage, error) {
	n := v.Node(i)
	if at, ok := c.at[n.Seq]; ok {
		return c.in[at], nil
	}
	m, err := v.Message(i)
	if err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	if n.Source().Form == compact.FormPruned {
		if at, ok := c.input(v, n.Seq); ok {
			rep.Shortened = append(rep.Shortened, at)
			out := c.in[at]
			out.Content, out.MultiContent = m.Text(), nil
			return out, nil
		}
	}
	out, err := openaiconv.To(m, openaiconv.Options{})
	if err != nil || len(out) != 1 {
		return openai.ChatCompletionMessage{}, fmt.Errorf("event %d makes %d chat messages: %w", n.Seq, len(out), err)
	}
	if rep.Result != nil && n.Seq == rep.Result.Checkpoint {
		c.remember(m.Text(), rep.Result)
	}
	return out[0], nil
}

// quote turns a result without a call into a note.
func quote(m openai.ChatCompletionMessage) openai.ChatCompletionMessage {
	text := openaiconv.Read(m)
	body := text.Text()
	if body == "" {
		body = "(empty)"
	}
	return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: "[result of a tool call that is not in the conversation]\n" + body}
}

// rename gives calls whose id occurs twice in one message ids of their own,
// with their results, and returns how many.
func rename(x *toolpairing.Index, list []openai.ChatCompletionMessage) int {
	n := 0
	for _, p := range x.Diagnose() {
		if p.Kind != toolpairing.DuplicateCallID || p.Index >= len(list[p.Position].ToolCalls) {
			continue
		}
		m := &list[p.Position]
		m.ToolCalls = slices.Clone(m.ToolCalls)
		id := fmt.Sprintf("%s-%d", p.CallID, p.Index+1)
		m.ToolCalls[p.Index].ID = id
		if at, ok := x.Answered(p.Position, p.Index); ok {
			list[at].ToolCallID = id
		}
		n++
	}
	return n
}
