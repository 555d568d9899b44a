package streamproc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

var bg = context.Background()

// rows are the tests of conformance rows, by id.
var rows = map[string]func(*testing.T){}

func row(id string, fn func(*testing.T)) {
	if rows[id] != nil {
		panic("two tests of " + id)
	}
	rows[id] = fn
}

// quarter prices a token for four bytes of text and at least one.
type quarter struct{}

func (quarter) ID() string                          { return "quarter" }
func (quarter) PriceEnvelope(*session.Envelope) int { return 0 }
func (quarter) Price(m *session.Message) int {
	n := len(m.Text())
	for _, p := range m.Parts {
		if c, ok := p.(session.ToolCall); ok {
			n += len(c.Arguments)
		}
	}
	return max(1, n/4)
}

// said is a summarizer that answers by a script: texts, or errors. The last
// entry is repeated.
type said struct {
	mu     sync.Mutex
	script []any
	calls  int
	reqs   []*summarize.Request
}

func says(script ...any) *said { return &said{script: script} }

func (*said) Name() string { return "script" }

func (s *said) Open(_ context.Context, req *summarize.Request) (summarize.Pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.reqs = append(s.reqs, req)
	what := s.script[min(s.calls, len(s.script))-1]
	if early, ok := what.(atOpen); ok {
		return nil, early.error
	}
	return reply{what}, nil
}

// atOpen is an error before the request is accepted.
type atOpen struct{ error }

type reply struct{ what any }

func (reply) Cancel() {}
func (r reply) Collect(ctx context.Context) (*summarize.Summary, error) {
	call := []summarize.Call{{Model: "script", Outcome: "ok", Prompt: 10, Completion: 5}}
	switch w := r.what.(type) {
	case error:
		return nil, w
	case func(context.Context) error:
		if err := w(ctx); err != nil {
			return nil, err
		}
		return &summarize.Summary{Text: good(""), Calls: call}, nil
	case string:
		return &summarize.Summary{Text: w, Calls: call}, nil
	}
	panic(fmt.Sprintf("script: %T", r.what))
}

func failure(c summarize.Class) error { return &summarize.Failure{Class: c} }

// good is a summary of at least 500 characters that a guard takes.
func good(state string) string {
	if state == "" {
		state = "the parser is half done"
	}
	filler := []string{"keep going with the parser as agreed", state, "read the sources and listed what is there",
		"the first build did not link", "one token type is enough for all words", "write the tests of the lexer first"}
	var b strings.Builder
	for i, h := range summarize.RequiredSections {
		fmt.Fprintf(&b, "## %s\n%s, which is what the %s of this work says about it at this point of time\n", h, filler[i], strings.ToLower(h))
	}
	return b.String()
}

// T is a host's message in these tests: role and text, with ids where it has
// them.
type T struct {
	Role, Text   string
	Call, Answer string
	Named        bool // it has a call without an id
}

var adapter = Adapter[T]{
	To: func(t T) (session.Message, error) {
		switch t.Role {
		case "assistant":
			var calls []session.ToolCall
			if t.Call != "" || t.Named {
				for id := range strings.SplitSeq(t.Call, ",") {
					calls = append(calls, session.ToolCall{ID: id, Name: "run", Arguments: ""})
				}
			}
			return session.AssistantText(t.Text, calls...), nil
		case "tool":
			return session.ToolText(t.Answer, t.Text), nil
		case "user":
			return session.UserText(t.Text), nil
		case "summary":
			m := session.UserText(t.Text)
			m.Source = session.Source{Kind: session.SourcePlugin, Plugin: "compact", Ref: t.Call}
			return m, nil
		}
		return session.Message{}, fmt.Errorf("no role %q", t.Role)
	},
	From: func(m session.Message) (T, error) {
		return T{Role: "summary", Text: m.Text(), Call: m.Source.Ref}, nil
	},
}

// text returns a text of so many tokens by quarter, different for each i.
func text(i, tokens int) string {
	s := fmt.Sprintf("item %d says something about topic %d. ", i, i*7)
	return strings.Repeat(s, 4*tokens/len(s)+1)[:4*tokens]
}

// replies returns n model replies of so many tokens.
func replies(n, tokens int) (out []T) {
	for i := range n {
		out = append(out, T{Role: "assistant", Text: text(i, tokens)})
	}
	return out
}

// host is the plainest processor: no history, no snapshots.
type host struct {
	mu      sync.Mutex
	steps   []T
	applied int
	refuse  error
}

func (h *host) AccumulatedSteps(context.Context) ([]T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.steps[:len(h.steps):len(h.steps)], nil
}

func (h *host) ReplaceWithCompaction(_ context.Context, t targetOf, n int, it T) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return h.refuse
	}
	if t != steps && t != full {
		return ErrUnsupported
	}
	if n < 1 || n > len(h.steps) {
		return ErrInvalidSplit{n, len(h.steps)}
	}
	h.applied++
	h.steps = append([]T{it}, h.steps[n:]...)
	return nil
}

// watch records what an observer is told.
type watch struct {
	started   int
	committed []Pass
	ended     []End
}

func (w *watch) observer() *Observer {
	return &Observer{
		Started:   func(Mode) { w.started++ },
		Committed: func(p *Pass) { w.committed = append(w.committed, *p) },
		Ended:     func(e End) { w.ended = append(w.ended, e) },
	}
}

// opts are options for tests: no waits, prices by quarter, ids in order.
func opts(p Policy) *Options {
	n := 0
	if p.RetrySeconds == 0 {
		p.RetrySeconds = -1
	}
	return &Options{Policy: p, Pricer: quarter{}, Now: func() time.Time { return time.Unix(0, 0) },
		NewID: func() string { n++; return fmt.Sprintf("c%d", n) }}
}

func kind(t *testing.T, err error, k Kind) *Error {
	t.Helper()
	require.ErrorIs(t, err, k)
	var e *Error
	require.True(t, errors.As(err, &e))
	return e
}
