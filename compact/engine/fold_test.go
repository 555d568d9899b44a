package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
)

// A span that is larger than what may be held reaches the summarizer as its
// newest part behind what the older parts were told in, cut between units; its
// facts are those of all of it, and all of it goes.
func TestLargeSpan(t *testing.T) {
	const held = 8 << 10
	r := newRig(t, 60, func(o *engine.Options) { o.HeldBytes = held })
	first := r.s.View().Node(0).Seq
	res, err := r.e.CompactNow(t.Context(), r.agent, nil)
	require.NoError(t, err)
	require.Equal(t, first, res.Seqs[0])
	require.Greater(t, len(res.Seqs), 150)

	require.Len(t, r.st.seen, 1, "the older parts are told without the model")
	req := r.st.seen[0]
	require.True(t, req.Items[0].Checkpoint)
	require.Contains(t, req.Items[0].Narrative, "## Goal")
	size, open := 0, map[string]bool{}
	for _, it := range req.Items[1:] {
		size += it.Message.Size()
		for _, id := range it.Message.Calls() {
			open[id] = true
		}
		for _, id := range it.Message.Results() {
			require.True(t, open[id], "a result without its call")
		}
	}
	require.Less(t, size, held+4<<10)
	require.False(t, req.Head)
	require.Nil(t, req.Surface)

	// The facts are those of all of it.
	ev, err := r.s.View().Event(res.Summary)
	require.NoError(t, err)
	p, err := compact.Decode(ev)
	require.NoError(t, err)
	for _, fact := range []string{"Request 0:", "Request 30:", "src/item1.go"} {
		require.Contains(t, string(p.(compact.SummaryEvent).Ledger)+res.Text+text(t, r.s.View(), res.Checkpoint), fact)
	}
}

func text(t *testing.T, v session.View, q session.Seq) string {
	t.Helper()
	ev, err := v.Event(q)
	require.NoError(t, err)
	m, err := ev.Message()
	require.NoError(t, err)
	return m.Text()
}
