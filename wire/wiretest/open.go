package wiretest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/wire"
)

// Stored is a file of which a codec cannot see that it is in memory.
type Stored struct{ Data []byte }

// ReadAt implements [io.ReaderAt].
func (s *Stored) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(s.Data).ReadAt(b, off)
}

// open requires of a [wire.Opener] what Read gives for the same bytes.
func (s *Suite) open(t testing.TB, data []byte) {
	t.Helper()
	o, ok := s.Codec.(wire.Opener)
	if !ok {
		return
	}
	want, err := o.Read(t.Context(), data)
	got, openErr := o.Open(t.Context(), &Stored{data}, int64(len(data)))
	if err != nil {
		require.Error(t, openErr, "Read has %v", err)
		return
	}
	require.NoError(t, openErr)
	SameOpened(t, want, got)
}

// SameOpened requires that a file which was opened is the one that was read: the
// same conversations, and the same bytes back, also of a compaction.
func SameOpened(t testing.TB, read, opened *wire.File) {
	t.Helper()
	require.Equal(t, read.Format, opened.Format)
	require.Equal(t, read.Container, opened.Container)
	require.Equal(t, read.Notes, opened.Notes)
	require.Len(t, opened.Conversations, len(read.Conversations))
	require.Equal(t, Write(t, read, 0, nil), Write(t, opened, 0, nil))
	for n, c := range read.Conversations {
		o := opened.Conversations[n]
		require.Equal(t, len(c.Entries), o.Len())
		require.Equal(t, c.Envelope, o.Envelope)
		require.Equal(t, c.Checkpoints, o.Checkpoints)
		require.Equal(t, c.Side, o.Side)
		require.Equal(t, c.Title, o.Title)
		for i := range c.Entries {
			e, err := o.At(i)
			require.NoError(t, err)
			require.Equal(t, c.Entries[i], e)
		}
		if len(c.Entries) > 2 {
			items := Compacted(t, c, "0123456789abcdef")
			require.True(t, bytes.Equal(Write(t, read, n, items), Write(t, opened, n, items)))
		}
	}
}
