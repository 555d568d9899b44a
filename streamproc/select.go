package streamproc

import (
	"github.com/agentcompact/agentcompact/internal/pair"
	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
)

// items describes entries to the shared selection. A call without a result is
// running as long as nothing but results follows it, and from there on nothing
// may be replaced.
func planItems(list []entry) []plan.Item {
	var m pair.Matcher
	last := -1
	for i := range list {
		m.Add(list[i].msg.Calls(), list[i].msg.Results())
		if list[i].msg.Role != session.RoleTool {
			last = i
		}
	}
	out := make([]plan.Item, len(list))
	for i := range list {
		e := &list[i]
		out[i] = plan.Item{Tokens: e.tokens, Cut: m.Balanced(i) && !glued(e.msg), Checkpoint: e.ckpt, Fixed: e.runs}
	}
	if last >= 0 {
		for _, a := range m.Answers(last) {
			if a == pair.None {
				out[last].Fixed = true
			}
		}
	}
	return out
}

// glued reports whether a message belongs to the one before it although no id
// says so: a result without an id, for which no open call was found.
func glued(m *session.Message) bool {
	for _, p := range m.Parts {
		if r, ok := p.(session.ToolResult); ok && r.CallID == "" {
			return true
		}
	}
	return false
}

// choose returns how many of the first items to replace, and their tokens.
func choose(items []plan.Item, t target.Target, o *Options) (n, tokens int, ok bool) {
	p := plan.Policy{TailTokens: -1, MinSpanTokens: o.Policy.MinTokens}
	if t != target.FullReplace {
		p.TailTokens = o.Window * o.Policy.TargetPercent / 100
	}
	_, n, ok = plan.Select(items, p)
	if !ok {
		return 0, 0, false
	}
	tail := 0
	for i := range items {
		if i < n {
			tokens += items[i].Tokens
		} else {
			tail += items[i].Tokens
		}
	}
	if o.Policy.StrictTail && t != target.FullReplace && tail > p.TailTokens {
		return 0, 0, false
	}
	return n, tokens, true
}
