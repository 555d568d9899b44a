package filestore_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

func open(t *testing.T, path string) *session.Session {
	t.Helper()
	store, err := filestore.Open(path, nil)
	require.NoError(t, err)
	s, err := session.Open(t.Context(), store, nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestTwoStoresOnOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	a, b := open(t, path), open(t, path)
	for range 3 {
		_, err := a.Append(t.Context(), session.UserText("from a"), session.UserText("again"))
		require.NoError(t, err)
		_, err = b.Append(t.Context(), session.UserText("from b\n"))
		require.NoError(t, err)
	}
	require.NoError(t, a.Refresh(t.Context()))
	require.Equal(t, 9, a.View().Len())
	require.NoError(t, a.Close())
	m, err := a.View().Message(8)
	require.NoError(t, err)
	require.Equal(t, "from b\n", m.Text())
	require.NoError(t, b.Close())
	require.Equal(t, 9, open(t, path).View().Len())
}
