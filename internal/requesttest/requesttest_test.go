package requesttest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

type fake struct {
	errors []string
	failed bool
}

func (f *fake) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}
func (f *fake) FailNow() { f.failed = true }

// The checks fail for what no provider takes, and pass for what all do.
func TestChecks(t *testing.T) {
	bad := &fake{}
	Chat(bad, []byte(`{"model":"m","messages":[{"role":"assistant","content":"a"}]}`))
	require.True(t, bad.failed)
	require.Len(t, bad.errors, 2, "%v", bad.errors)
	Chat(t, []byte(`{"model":"m","messages":[{"role":"user","content":"a"}]}`))

	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	defer s.Close()
	Session(t, s.View())
	_, err = s.Append(t.Context(), session.AssistantText("a", session.ToolCall{ID: "1", Name: "f", Arguments: "{}"}))
	require.NoError(t, err)
	Session(t, s.View())
}
