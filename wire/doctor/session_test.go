package doctor

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

func TestDiagnoseSession(t *testing.T) {
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	defer s.Close()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	list, err := DiagnoseSession(t.Context(), s.View(), now)
	require.NoError(t, err)
	require.Empty(t, list)

	cp := session.UserText("a summary of something else")
	cp.Source = compact.CheckpointSource("gone")
	start, err := json.Marshal(compact.StartEvent{ID: "c1", Trigger: "manual", Span: compact.Span{}, Holder: compact.Holder{Host: "h", PID: 7, Run: "r",
		Since: now.Add(-time.Hour), Until: now.Add(-time.Minute)}})
	require.NoError(t, err)
	call := session.AssistantText("", session.ToolCall{ID: "1", Name: "f", Arguments: "{}"})
	_, err = s.Record(t.Context(), session.Append{Message: cp}, session.Append{Message: call}, session.Append{Message: session.UserText("go on")},
		session.Raw{Type: compact.TypeStart, Data: start, Ignorable: true})
	require.NoError(t, err)
	list, err = DiagnoseSession(t.Context(), s.View(), now)
	require.NoError(t, err)
	var kinds []Kind
	for _, f := range list {
		kinds = append(kinds, f.Kind)
		require.NotEmpty(t, f.Consequence)
		require.Contains(t, f.Detail, "(seq ")
	}
	require.Equal(t, []Kind{UnansweredCall, SpanMissing, StaleLease}, kinds)
	require.Equal(t, 2, list[0].Message)

	list, err = DiagnoseSession(t.Context(), s.View(), now.Add(-30*time.Minute))
	require.NoError(t, err)
	require.Equal(t, OpenAttempt, list[len(list)-1].Kind)
}
