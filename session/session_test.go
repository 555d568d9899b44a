package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

func TestReplaceKeepRestoreRewind(t *testing.T) {
	ctx := t.Context()
	store := session.NewMemoryStore()
	s, err := session.Open(ctx, store, nil)
	require.NoError(t, err)
	_, err = s.Append(ctx, session.UserText("a"), session.UserText("b"), session.UserText("p"), session.UserText("c"), session.UserText("d"))
	require.NoError(t, err)
	texts := func(s *session.Session) (out []string) {
		ms, err := s.View().Messages()
		require.NoError(t, err)
		for _, m := range ms {
			out = append(out, m.Text())
		}
		return out
	}
	_, err = s.Record(ctx, session.Pin{Nodes: []session.Seq{2}})
	require.NoError(t, err)
	_, err = s.Record(ctx, session.Replace{Start: 1, End: 3, Message: session.UserText("X")})
	require.ErrorIs(t, err, session.ErrPinned)
	_, err = s.Record(ctx, session.Replace{Start: 1, End: 3, Keep: []session.Seq{2}, Message: session.UserText("X")})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "X", "p", "d"}, texts(s))
	_, err = s.View().Position(3)
	var shadowed *session.ShadowedError
	require.ErrorAs(t, err, &shadowed)
	_, err = s.Record(ctx, session.Restore{Node: 6})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "p", "c", "d"}, texts(s))
	_, err = s.Record(ctx, session.Rewind{To: 6})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "X", "p", "d"}, texts(s))
	s2, err := session.Open(ctx, store, nil)
	require.NoError(t, err)
	require.Equal(t, texts(s), texts(s2))
	require.Equal(t, s.View().Generation(), s2.View().Generation())
	require.Equal(t, 4, s2.View().SurfaceTokens())
}
