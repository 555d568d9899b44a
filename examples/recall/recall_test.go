package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

func TestTheDetailComesBackWithinTwoCalls(t *testing.T) {
	var out strings.Builder
	o, err := run(t.Context(), &out)
	require.NoError(t, err, "%s", &out)
	t.Log(out.String())
	require.True(t, o.Lost, "the checkpoint still has the detail: nothing is shown")
	require.Contains(t, o.Answer, detail)
	require.LessOrEqual(t, o.Calls, 2)
	require.Positive(t, o.Calls)
}

// TestWithoutTheToolsItDoesNotKnow: the script does not know the answer itself.
func TestWithoutTheToolsItDoesNotKnow(t *testing.T) {
	m := scripted([]byte(`{"messages":[{"role":"user","content":"` + question + `"},{"role":"assistant"},{"role":"tool","content":"nothing"}]}`))
	require.Equal(t, "I do not know.", m.Text())
	require.Empty(t, m.Calls())
	require.Equal(t, session.RoleAssistant, m.Role)
}
