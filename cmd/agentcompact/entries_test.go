package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

func TestEntryIndex(t *testing.T) {
	check := func(x entryIndex, seqs []session.Seq) {
		t.Helper()
		for i, q := range seqs {
			e, ok := x.of(q)
			require.True(t, ok)
			require.Equal(t, i, e)
			require.Equal(t, q, x.seq(i))
		}
		for _, q := range []session.Seq{session.NoSeq, 0, 4, 100} {
			_, ok := x.of(q)
			require.False(t, ok, q)
		}
		require.Equal(t, session.NoSeq, x.seq(len(seqs)))
		require.Equal(t, session.NoSeq, x.seq(-1))
	}
	check(entryIndex{}, nil)
	check(entriesInOrder([]session.Seq{1, 2, 5}), []session.Seq{1, 2, 5})
	check(entriesAt([]session.Seq{9, 1, 5, 2}), []session.Seq{9, 1, 5, 2})
}

// batches is a store that notes how many events were appended at once.
type batches struct {
	session.Store
	sizes []int
}

func (b *batches) Append(ctx context.Context, next session.Seq, events []*session.Event) error {
	b.sizes = append(b.sizes, len(events))
	return b.Store.Append(ctx, next, events)
}

// TestCopyInPieces copies large messages: not many of them are in memory at once.
func TestCopyInPieces(t *testing.T) {
	ctx := t.Context()
	from, err := session.Open(ctx, session.NewMemoryStore(), sessionOptions())
	require.NoError(t, err)
	defer from.Close()
	for range 20 {
		_, err := from.Append(ctx, session.UserText(strings.Repeat("a large message ", copyBytes/64)))
		require.NoError(t, err)
	}
	to := &batches{Store: session.NewMemoryStore()}
	s, err := copySession(ctx, from, to)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []int{4, 4, 4, 4, 4}, to.sizes)
	require.Equal(t, from.View().Len(), s.View().Len())
	m, err := s.View().Message(19)
	require.NoError(t, err)
	require.Len(t, m.Text(), copyBytes/4)
}
