package summarize

import (
	"context"
	"testing"

	"github.com/agentcompact/agentcompact/session"
	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	a := session.UserText("Fix src/lex/scan.go, never touch c.go.")
	b := session.AssistantText("Editing.", session.ToolCall{ID: "1", Name: "edit", Arguments: `{"path":"src/lex/scan.go"}`})
	c := session.ToolText("1", "error: line 42 of scan.go: undefined: fooBar")
	req := &Request{Count: func(s string) int { return (len(s) + 3) / 4 }, MaxTokens: 500, Items: []Item{
		{Seq: 1, Message: &a, Tokens: 10}, {Seq: 2, Message: &b, Tokens: 10}, {Seq: 3, Message: &c, Tokens: 400}}}
	p, err := NewExtractive(nil).Open(context.Background(), req)
	require.NoError(t, err)
	s, err := p.Collect(context.Background())
	require.NoError(t, err)
	clean, _, err := Guard(s.Text, req, nil)
	require.NoError(t, err)
	l := Extract(req, nil)
	text := Compose(Composition{Narrative: clean, Ledger: l, Pointer: "[history: 3 messages, events 1-3, compaction c1]", Budget: 300, Count: req.Count})
	require.Contains(t, text, "never touch c.go")
	require.LessOrEqual(t, req.Count(text), 300)
	t.Log(text)
}
