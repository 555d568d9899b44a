package formats

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
)

// TestRefusalCrosses: what a model said when it declined is not lost where the
// provider has another form for it, or none.
func TestRefusalCrosses(t *testing.T) {
	f, err := Read(t.Context(), []byte(`{"messages":[{"role":"user","content":"do it"},{"role":"assistant","content":null,"refusal":"I cannot"},{"role":"user","content":"why"}]}`))
	require.NoError(t, err)
	v := imported(t, f.Conversations[0]).View()
	r, err := openairesponses.BuildRequest(v, nil)
	require.NoError(t, err)
	require.Len(t, r.Input, 3)
	require.JSONEq(t, `{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I cannot"}]}`, string(r.Input[1]))
	require.Empty(t, openairesponses.Validate(r.Body))
	a, err := anthropicmessages.BuildRequest(v, nil)
	require.NoError(t, err)
	require.Len(t, a.Messages, 3)
	require.JSONEq(t, `{"role":"assistant","content":"I cannot"}`, string(a.Messages[1]))
	require.Empty(t, anthropicmessages.Validate(a.Body))
}
