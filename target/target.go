// Package target names the part of a conversation that a compaction acts on,
// and says which span of a surface that is.
package target

import (
	"fmt"

	"github.com/agentcompact/agentcompact/session"
)

// Target is the part of a conversation that a compaction acts on.
type Target int

// The targets.
const (
	// Steps is what the running turn accumulated: everything since the newest
	// user prompt, an earlier checkpoint of it included.
	Steps Target = iota + 1
	// History is what came before the running turn.
	History
	// FullReplace is the whole conversation.
	FullReplace
)

// String returns the stable label: steps, history, full_replace.
func (t Target) String() string {
	switch t {
	case Steps:
		return "steps"
	case History:
		return "history"
	case FullReplace:
		return "full_replace"
	}
	return fmt.Sprintf("target(%d)", int(t))
}

// Parse returns the target with the given label.
func Parse(label string) (Target, error) {
	for _, t := range []Target{Steps, History, FullReplace} {
		if label == t.String() {
			return t, nil
		}
	}
	return 0, fmt.Errorf("unknown target %q: want steps, history or full_replace", label)
}

// Span returns the positions that the target covers on the surface, from start
// up to, not including, end. An empty span has start equal to end. It does not
// look at pairing: the caller moves the edges to balanced cuts.
func (t Target) Span(v session.View) (start, end int) {
	if t == FullReplace {
		return 0, v.Len()
	}
	prompt := newestPrompt(v)
	if t == History {
		return 0, prompt
	}
	start = prompt
	for start < v.Len() && isPrompt(v.Node(start)) {
		start++
	}
	return start, v.Len()
}

func isPrompt(n session.Node) bool {
	return n.Role() == session.RoleUser && n.Source().Kind == session.SourceUser
}

// newestPrompt returns the position of the user prompt that opened the running
// turn; prompts in a row count from the first. It is 0 when there is none.
func newestPrompt(v session.View) int {
	turns := v.Turns()
	if len(turns) == 0 {
		return 0
	}
	return turns[len(turns)-1].Start
}
