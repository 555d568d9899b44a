package engine_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/wire"
)

// rounds is a conversation of n rounds that is not in memory; reads counts what
// was read.
func rounds(n int, reads *atomic.Int64) *wire.Conversation {
	c := new(wire.Conversation)
	c.Leave(3*n, func(i int) (wire.Entry, error) {
		reads.Add(1)
		id := fmt.Sprintf("c%d", i/3)
		said := fmt.Sprintf("part %d: %s", i/3, strings.Repeat("this was asked for and done ", 10))
		switch i % 3 {
		case 0:
			return wire.Entry{Message: session.UserText(said)}, nil
		case 1:
			return wire.Entry{Message: session.Message{Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel},
				Parts: []session.Part{session.Text{Text: said}, session.ToolCall{ID: id, Name: "read", Arguments: "{}"}}}}, nil
		}
		return wire.Entry{Message: session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool},
			Parts: []session.Part{session.ToolResult{CallID: id, Parts: []session.Part{session.Text{Text: said + said}}}}}}, nil
	})
	return c
}

// Where masking every old result would not be enough, none is read for it: each
// message is read for the session and for the summary, and that is all.
func TestNoReadingWithoutHope(t *testing.T) {
	const n = 400
	var reads atomic.Int64
	pricer := tokencount.NewPricer(nil)
	s, err := session.Open(t.Context(), wire.NewStore(rounds(n, &reads), pricer, nil), &session.Options{Pricer: pricer})
	require.NoError(t, err)
	defer s.Close()
	require.EqualValues(t, 3*n, reads.Load())
	e, err := engine.New(summarize.NewExtractive(nil), &engine.Options{Windows: engine.FixedWindow(8000)})
	require.NoError(t, err)
	o, err := e.Consider(t.Context(), compact.Agent{Session: s}, compact.Pressure)
	require.NoError(t, err)
	require.NotNil(t, o.Result)
	require.Greater(t, len(o.Result.Seqs), 3*n*9/10)
	require.Less(t, reads.Load(), int64(2*3*n+n/8), "results were read that nothing came of")
}
