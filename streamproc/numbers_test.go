package streamproc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

// TestNumbersGoOn: the numbers of items are those of the uncompacted views, over
// all targets, so that facts of several rounds keep their order.
func TestNumbersGoOn(t *testing.T) {
	p := NewSlice(adapter, exchanges(0, 8, 500), replies(8, 500))
	o := withWindow(opts(Policy{MinTokens: 1, TargetPercent: 10}), 8000)
	r, err := ApplyHistoryThenSteps(bg, p, adapter, says(good("")), o)
	require.NoError(t, err)
	require.Equal(t, session.Seq(0), r.Passes[0].Record.Start)
	require.Equal(t, session.Seq(16), r.Passes[1].Record.Start, "the history had sixteen items")
	end := r.Passes[1].Record.End
	p.Append(T{Role: "user", Text: "the newest wish of all"}, T{Role: "assistant", Text: text(1, 3000)})
	all, err := ApplyFullReplace(bg, p, adapter, says(good("")), opts(Policy{MinTokens: 1}))
	require.NoError(t, err)
	require.Equal(t, session.Seq(0), all.Passes[0].Record.Start)
	require.Greater(t, all.Passes[0].Record.End, end)
	said := all.Passes[0].Record.Ledger.User
	require.Equal(t, "the newest wish of all", said[len(said)-1].Text)
	require.Contains(t, said[0].Text, "R-1000")
}
