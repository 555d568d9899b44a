package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

func TestRun(t *testing.T) {
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "session.jsonl")
	require.NoError(t, writeDemo(ctx, file))
	before := load(t, file)

	var out bytes.Buffer
	require.NoError(t, run(ctx, &out, file, 7, 12))
	assert.Contains(t, out.String(), "Wanted 7 to 12, balanced 6 to 13.")
	assert.Contains(t, out.String(), "separate call call_1_config of event 6")
	assert.Contains(t, out.String(), "The surface is what it was.")

	after := load(t, file)
	assert.Equal(t, seqs(before), seqs(after))
	was, err := before.Messages()
	require.NoError(t, err)
	is, err := after.Messages()
	require.NoError(t, err)
	assert.Equal(t, was, is)

	// The compaction was real, and it is in the log.
	h := compact.HistoryAt(after)
	require.Len(t, h.Attempts, 1)
	a := h.Attempts[0]
	assert.True(t, a.Committed())
	assert.Equal(t, compact.Region, a.Start.Trigger)
	hidden, kept, err := after.Run(a.Checkpoint)
	require.NoError(t, err)
	assert.Equal(t, seqs(before)[6:14], hidden)
	assert.Empty(t, kept)
}

func TestEveryRegionIsBalanced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.jsonl")
	require.NoError(t, writeDemo(context.Background(), file))
	v := load(t, file)
	x := toolpairing.Of(v)
	for from := range v.Len() {
		for to := from; to < v.Len(); to++ {
			start, end, err := balanced(&bytes.Buffer{}, v, from, to)
			require.NoError(t, err)
			assert.True(t, start <= from && to <= end && x.Balanced(start) && x.Balanced(end+1), "%d to %d: %d to %d", from, to, start, end)
		}
	}
}

func TestRefuses(t *testing.T) {
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "session.jsonl")
	assert.ErrorContains(t, run(ctx, &bytes.Buffer{}, file, -1, -1), "no messages")
	require.NoError(t, writeDemo(ctx, file))
	assert.ErrorContains(t, run(ctx, &bytes.Buffer{}, file, 5, 20), "not within the 20 messages")
	assert.ErrorContains(t, run(ctx, &bytes.Buffer{}, file, 9, 5), "from 9 to 5")
}

func load(t *testing.T, file string) session.View {
	t.Helper()
	s, err := open(context.Background(), file)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s.View()
}
