package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

func TestEncoded(t *testing.T) {
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	_, err = s.Append(t.Context(), session.UserText("hello"))
	require.NoError(t, err)
	e, err := s.View().Event(0)
	require.NoError(t, err)
	_, ok, err := e.Encoded()
	require.NoError(t, err)
	require.False(t, ok, "it is in memory")

	line, err := session.AppendEvent(nil, e)
	require.NoError(t, err)
	e, err = session.ParseEvent(line)
	require.NoError(t, err)
	data, ok, err := e.Encoded()
	require.NoError(t, err)
	require.True(t, ok)
	require.Contains(t, string(data), "hello")
	m, err := e.Message()
	require.NoError(t, err)
	require.Equal(t, "hello", m.Text())
	_, ok, err = e.Encoded()
	require.NoError(t, err)
	require.False(t, ok, "decoded now")
}
