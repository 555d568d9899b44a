package summarize

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// ExtractiveOptions are the optional settings of [NewExtractive].
type ExtractiveOptions struct{}

// NewExtractive returns the embedded summarizer: it works without a model and
// without a network, quotes the conversation in its own language, and writes
// the same text for the same span. A nil opts is the default.
func NewExtractive(opts *ExtractiveOptions) Summarizer { return extractive{} }

type extractive struct{}

// Name implements [Summarizer].
func (extractive) Name() string { return "extractive" }

// Open implements [Summarizer].
func (extractive) Open(ctx context.Context, req *Request) (Pending, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if req.Count == nil || req.MaxTokens < 0 {
		return nil, &Failure{Class: Invalid, Detail: "a request needs a counter and a budget"}
	}
	return extract{req}, nil
}

type extract struct{ req *Request }

// Cancel implements [Pending].
func (extract) Cancel() {}

// Collect implements [Pending].
func (e extract) Collect(ctx context.Context) (*Summary, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var goal, state string
	users, calls := 0, 0
	for _, it := range e.req.Items {
		m := it.Message
		if m == nil || it.Recalled {
			continue
		}
		text := it.Narrative
		if !it.Checkpoint {
			text = m.Text()
			calls += len(m.Calls())
		}
		if m.Role == session.RoleUser && !it.Checkpoint && m.Source.Kind == session.SourceUser {
			users++
			if goal == "" {
				goal = firstLine(text)
			}
		}
		if m.Role == session.RoleAssistant {
			if line := firstLine(text); line != "" {
				state = line
			} else if c := lastCall(m); c != "" {
				state = c
			}
		}
	}
	var b strings.Builder
	max := e.req.MaxTokens
	for _, s := range [][2]string{{"Goal", goal}, {"State", state}, {"Done", fmt.Sprintf("%d requests, %d calls", users, calls)}, {"Failures", ""}, {"Decisions", ""}, {"Next", ""}} {
		if s[1] == "" {
			s[1] = "none"
		}
		part := "## " + s[0] + "\n" + Defuse(s[1]) + "\n"
		if max > 0 && e.req.Count(b.String()+part) > max {
			part = "## " + s[0] + "\nnone\n"
		}
		b.WriteString(part)
	}
	return &Summary{Text: strings.TrimSpace(b.String()), Prompt: "extractive/1"}, nil
}

// lastCall names the last call of a message that says nothing else.
func lastCall(m *session.Message) string {
	out := ""
	for _, p := range m.Parts {
		if c, ok := p.(session.ToolCall); ok {
			out = "called " + c.Name + " " + head(c.Arguments, 300)
		}
	}
	return out
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return head(line, 300)
		}
	}
	return ""
}
