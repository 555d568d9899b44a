package target_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/target"
)

func TestLabels(t *testing.T) {
	for label, want := range map[string]target.Target{"steps": target.Steps, "history": target.History, "full_replace": target.FullReplace} {
		got, err := target.Parse(label)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, label, want.String())
	}
	_, err := target.Parse("all")
	require.Error(t, err)
	require.Equal(t, "target(0)", target.Target(0).String())
}

func TestSpans(t *testing.T) {
	call := session.AssistantText("", session.ToolCall{ID: "a", Name: "t"})
	note := session.UserText("summary")
	note.Source = session.Source{Kind: session.SourcePlugin, Plugin: "compact"}
	for name, c := range map[string]struct {
		messages             []session.Message
		steps, history, full [2]int
	}{
		"empty":             {nil, [2]int{0, 0}, [2]int{0, 0}, [2]int{0, 0}},
		"one prompt":        {[]session.Message{session.UserText("u")}, [2]int{1, 1}, [2]int{0, 0}, [2]int{0, 1}},
		"prompts in a row":  {[]session.Message{session.UserText("u"), session.UserText("u"), call}, [2]int{2, 3}, [2]int{0, 0}, [2]int{0, 3}},
		"running turn":      {[]session.Message{session.UserText("u"), call, session.ToolText("a", "r"), session.UserText("v"), call, session.ToolText("a", "r")}, [2]int{4, 6}, [2]int{0, 3}, [2]int{0, 6}},
		"checkpoint first":  {[]session.Message{note, session.UserText("u"), call}, [2]int{2, 3}, [2]int{0, 1}, [2]int{0, 3}},
		"checkpoint inside": {[]session.Message{session.UserText("u"), call, session.ToolText("a", "r"), note, call}, [2]int{1, 5}, [2]int{0, 0}, [2]int{0, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessiontest.Open(t, session.NewMemoryStore(), nil)
			if len(c.messages) > 0 {
				_, err := s.Append(t.Context(), c.messages...)
				require.NoError(t, err)
			}
			for tt, want := range map[target.Target][2]int{target.Steps: c.steps, target.History: c.history, target.FullReplace: c.full} {
				start, end := tt.Span(s.View())
				require.Equal(t, want, [2]int{start, end}, tt.String())
			}
		})
	}
}
