package formats

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

// TestOpen takes every recorded file through Open and requires what Read gives:
// the same conversations, and the same bytes back, also of a compaction.
func TestOpen(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	left := map[string]int{}
	for _, s := range sessions {
		if len(s.Files) > 0 {
			continue
		}
		t.Run(s.Path, func(t *testing.T) {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			opened(t, data, left)
		})
	}
	// No recorded chat has one message a line.
	for name, data := range map[string]string{
		"messages": "{\"role\":\"system\",\"content\":\"s\"}\r\n{\"role\":\"user\",\"content\":\"a\"}\r\n\r\n{]\r\n{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"}\r\n{\"role\":\"exit\"}\r\n{\"role\":\"user\",\"cont",
		"bodies":   "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}]}\n{\"messages\": [ {\"role\":\"user\",\"content\":\"d\"} ,\t{\"role\":\"assistant\",\"content\":\"e\"}, {\"role\":\"user\",\"content\":\"f\"}]}\n",
	} {
		t.Run(name, func(t *testing.T) { opened(t, []byte(data), left) })
	}
	t.Logf("conversations left in their file: %v", left)
	for _, c := range All() {
		if _, ok := c.(wire.Opener); ok {
			require.Positive(t, left[c.Name()], c.Name())
		}
	}
}

// opened requires of Open what Read gives. left counts conversations that were
// left in their file, by format.
func opened(t *testing.T, data []byte, left map[string]int) {
	want, err := Read(t.Context(), data)
	require.NoError(t, err)
	got, err := Open(t.Context(), &wiretest.Stored{Data: data}, int64(len(data)))
	require.NoError(t, err)
	for n, c := range want.Conversations {
		if o := got.Conversations[n]; o.Entries == nil && o.Len() > 0 && len(c.Entries) > 0 {
			left[want.Format]++
		}
	}
	wiretest.SameOpened(t, want, got)
}

// TestOpenChanged changes a file after it was opened: what is appended is
// nothing, any other change is an error in whatever is asked for.
func TestOpenChanged(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	n := 0
	for _, s := range sessions {
		if len(s.Files) > 0 {
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		f, err := Open(t.Context(), bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		c := f.Conversations[0]
		if c.Entries != nil || c.Len() < 3 {
			continue
		}
		n++
		r := &wiretest.Stored{Data: append(bytes.Clone(data), "{\"more\":1}\n"...)}
		f, err = Open(t.Context(), r, int64(len(data)))
		require.NoError(t, err)
		require.Equal(t, data, wiretest.Write(t, f, 0, nil), s.Path)
		held, err := Read(t.Context(), data)
		require.NoError(t, err)
		items := wiretest.Compacted(t, held.Conversations[0], "0123456789abcdef")

		for i, b := range r.Data {
			if b == 'e' {
				r.Data[i] = 'E'
			}
		}
		_, err = f.Conversations[0].At(0)
		require.ErrorIs(t, err, wire.ErrChanged, s.Path)
		require.ErrorIs(t, f.Writer.Write(t.Context(), io.Discard, 0, nil), wire.ErrChanged, s.Path)
		require.ErrorIs(t, f.Writer.Write(t.Context(), io.Discard, 0, items), wire.ErrChanged, s.Path)
		r.Data = data[:len(data)/2]
		require.ErrorIs(t, f.Writer.Write(t.Context(), io.Discard, 0, nil), wire.ErrChanged, s.Path)
	}
	require.Positive(t, n)
}

// TestOpenUnreadable passes on what the reader says.
func TestOpenUnreadable(t *testing.T) {
	var we *wire.Error
	_, err := Open(t.Context(), bytes.NewReader(nil), 10)
	require.ErrorAs(t, err, &we)
	require.ErrorIs(t, err, io.EOF)
	_, err = Open(t.Context(), bytes.NewReader(nil), 0)
	require.ErrorAs(t, err, &we)
}
