package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

// spoken is a loader that has messages and no JSON.
type spoken struct{ asked int }

func (*spoken) Load(int64, int) ([]byte, error) { return nil, errors.New("nobody should ask for JSON") }

func (s *spoken) LoadMessage(off int64, n int) (*session.Message, error) {
	s.asked++
	if off != 7 || n != 3 {
		return nil, errors.New("there is no such message")
	}
	m := session.UserText("said")
	return &m, nil
}

// A loader that has messages is asked for them, not for their JSON; what somebody
// uses is not loaded again.
func TestMessageLoader(t *testing.T) {
	m := session.UserText("said")
	l := new(spoken)
	e, err := session.MessageEvent(0, time.Now(), &m, 1, "by", session.Payload{Loader: l, Off: 7, Len: 3})
	require.NoError(t, err)
	got, err := e.Message()
	require.NoError(t, err)
	require.Equal(t, &m, got)
	again, err := e.Message()
	require.NoError(t, err)
	require.Same(t, got, again)
	require.Equal(t, 1, l.asked)
	line, err := session.AppendEvent(nil, e)
	require.NoError(t, err)
	require.Contains(t, string(line), `"said"`)

	e, err = session.MessageEvent(0, time.Now(), &m, 1, "by", session.Payload{Loader: l, Off: 8, Len: 3})
	require.NoError(t, err)
	_, err = e.Message()
	require.ErrorContains(t, err, "load event 0: there is no such message")
}
