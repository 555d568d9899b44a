package session_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
)

// told is everything that a view says without payloads.
func told(v session.View) string {
	seqs, positions := []session.Seq{}, []string{}
	for i := range v.Len() {
		seqs = append(seqs, v.Node(i).Seq)
	}
	for s := range v.Next() {
		p, err := v.Position(s)
		positions = append(positions, fmt.Sprint(p, err))
	}
	states := map[session.CallState]bool{}
	for c := range v.CallStates() {
		states[c] = true
	}
	turn, opened := v.OpenTurn()
	_, envelope := v.Envelope()
	usage, ok := v.Usage()
	return fmt.Sprint(v.Next(), seqs, positions, v.Generation(), v.LastChange(), v.SurfaceTokens(), v.Pins(), states,
		turn, opened, v.OpenStep(), envelope, v.EnvelopeTokens(), usage, ok, v.UsageSamples(), v.Replacements())
}

// TestViewsStay: a view says for ever what it said when it was taken, whatever
// happens to the session afterwards.
func TestViewsStay(t *testing.T) {
	s := sessiontest.Open(t, session.NewMemoryStore(), nil)
	var views []session.View
	var want []string
	take := func([]session.Seq) {
		v := s.View()
		views, want = append(views, v), append(want, told(v))
	}
	take(nil)
	require.NoError(t, sessiontest.Script(t, s, take))
	for _, b := range []session.Body{
		session.TurnStart{}, session.Append{Message: session.UserText("go on")}, session.StepStart{},
		session.Append{Message: session.AssistantText("", session.ToolCall{ID: "last", Name: "shell"})},
	} {
		seqs, err := s.Record(t.Context(), b)
		require.NoError(t, err)
		take(seqs)
	}
	node := s.View().Next() - 1
	for _, b := range []session.Body{
		session.CallState{Node: node, CallID: "last", Phase: session.CallStarted}, session.Pin{Nodes: []session.Seq{node}},
		session.Append{Message: session.ToolText("last", "done")}, session.StepEnd{}, session.TurnEnd{Reason: "completed"},
		session.SetEnvelope{Envelope: session.Envelope{Provider: "p", Model: "m"}},
		session.Append{Message: session.AssistantText("bye")}, session.Usage{Node: node + 7, Prompt: 100, Completion: 5},
	} {
		seqs, err := s.Record(t.Context(), b)
		require.NoError(t, err)
		take(seqs)
	}
	for i, v := range views {
		require.Equal(t, want[i], told(v), "view %d of %d", i, len(views))
	}
}
