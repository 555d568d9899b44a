package wire_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// TestStoreIsAStore runs the suite of stores over an empty conversation.
func TestStoreIsAStore(t *testing.T) {
	sessiontest.TestStore(t, func(*testing.T) func() session.Store {
		s := wire.NewStore(&wire.Conversation{}, session.BytePricer{}, nil)
		return func() session.Store { return s }
	})
}

// TestStore opens a session on every recorded transcript and requires the log
// that an import makes, before and after something is appended.
func TestStore(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	now := time.UnixMilli(1_790_000_000_123).UTC()
	opts := &session.Options{Now: func() time.Time { return now }}
	for _, s := range sessions {
		if len(s.Files) > 0 {
			continue
		}
		t.Run(s.Path, func(t *testing.T) {
			f, err := os.Open(s.File())
			require.NoError(t, err)
			defer f.Close()
			info, err := f.Stat()
			require.NoError(t, err)
			if info.Size() > 500_000 && os.Getenv("AGENTCOMPACT_FULL") != "1" {
				t.Skip("long")
			}
			file, err := formats.Open(t.Context(), f, info.Size())
			require.NoError(t, err)
			for _, c := range file.Conversations {
				want, err := session.Open(t.Context(), session.NewMemoryStore(), opts)
				require.NoError(t, err)
				seqs, err := wire.Import(t.Context(), want, c)
				require.NoError(t, err)
				store := wire.NewStore(c, session.BytePricer{}, &wire.StoreOptions{Time: now})
				got, err := session.Open(t.Context(), store, opts)
				require.NoError(t, err)
				require.Equal(t, seqs, store.Seqs())
				same(t, want, got)
				for _, one := range []*session.Session{want, got} {
					_, err := one.Append(t.Context(), session.UserText("and more"))
					require.NoError(t, err)
				}
				same(t, want, got)
				require.NoError(t, sessiontest.Check(got.View(), session.BytePricer{}))
				again, err := session.Open(t.Context(), store, opts)
				require.NoError(t, err)
				same(t, want, again)
			}
		})
	}
}

func same(t *testing.T, want, got *session.Session) {
	t.Helper()
	require.Equal(t, log(t, want), log(t, got))
	require.Equal(t, want.View().SurfaceTokens(), got.View().SurfaceTokens())
}

func log(t *testing.T, s *session.Session) []string {
	t.Helper()
	var out []string
	for e := range s.View().Events(0) {
		b, err := session.AppendEvent(nil, e)
		require.NoError(t, err)
		out = append(out, string(b))
	}
	return out
}
