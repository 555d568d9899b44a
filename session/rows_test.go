package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
)

func fresh(t *testing.T, n int) *session.Session {
	t.Helper()
	s := sessiontest.Open(t, session.NewMemoryStore(), nil)
	for i := range n {
		_, err := s.Append(t.Context(), session.UserText(fmt.Sprint("message ", i)))
		require.NoError(t, err)
	}
	return s
}

func record(t *testing.T, s *session.Session, bodies ...session.Body) []session.Seq {
	t.Helper()
	seqs, err := s.Record(t.Context(), bodies...)
	require.NoError(t, err)
	return seqs
}

func refused(t *testing.T, s *session.Session, want error, bodies ...session.Body) {
	t.Helper()
	before := surface(s)
	_, err := s.Record(t.Context(), bodies...)
	require.ErrorIs(t, err, want)
	require.Equal(t, before, surface(s), "a refused operation left a trace")
}

func surface(s *session.Session) []session.Seq {
	out := []session.Seq{}
	v := s.View()
	for i := range v.Len() {
		out = append(out, v.Node(i).Seq)
	}
	return out
}

func seqs(n ...session.Seq) []session.Seq { return append([]session.Seq{}, n...) }

func sum(text string) session.Message { return sessiontest.Note("c", text) }

func call(ids ...string) session.Message {
	m := session.AssistantText("")
	for _, id := range ids {
		m.Parts = append(m.Parts, session.ToolCall{ID: id, Name: "shell"})
	}
	return m
}

func TestSS01AppendOrder(t *testing.T) {
	s := fresh(t, 0)
	require.Empty(t, surface(s))
	store := session.NewMemoryStore()
	a, b := sessiontest.Open(t, store, nil), sessiontest.Open(t, store, nil)
	for i := range 5 {
		_, err := a.Append(t.Context(), session.UserText("x"))
		require.NoError(t, err)
		require.Equal(t, session.Seq(i), a.View().Node(i).Seq)
	}
	require.Empty(t, surface(b))
	require.NoError(t, b.Refresh(t.Context()))
	require.Equal(t, surface(a), surface(b), "the unseen tail was not picked up")
}

func TestSS02Replace(t *testing.T) {
	s := fresh(t, 6)
	record(t, s, session.Replace{Start: 2, End: 3, Message: sum("middle")})
	require.Equal(t, seqs(0, 1, 6, 4, 5), surface(s))
	record(t, s, session.Replace{Start: 0, End: 0, Message: sum("single")})
	require.Equal(t, seqs(7, 1, 6, 4, 5), surface(s))
	record(t, s, session.Replace{Start: 7, End: 4, Message: sum("nested")})
	require.Equal(t, seqs(8, 5), surface(s))
	run, kept, err := s.View().Run(8)
	require.NoError(t, err)
	require.Equal(t, seqs(7, 1, 6, 4), run)
	require.Empty(t, kept)
	record(t, s, session.Replace{Start: 8, End: 5, Message: sum("whole")})
	require.Equal(t, seqs(9), surface(s))
	require.Equal(t, session.Seq(9), s.View().ShadowedBy(8))
	require.Equal(t, session.Seq(8), s.View().ShadowedBy(6))
	require.Equal(t, session.Seq(6), s.View().ShadowedBy(2))
}

func TestSS03BadReplace(t *testing.T) {
	s := fresh(t, 4)
	refused(t, s, session.ErrNotOnSurface, session.Replace{Start: 9, End: 1, Message: sum("x")})
	refused(t, s, session.ErrNotOnSurface, session.Replace{Start: 0, End: -1, Message: sum("x")})
	refused(t, s, session.ErrReversed, session.Replace{Start: 2, End: 1, Message: sum("x")})
	refused(t, s, session.ErrNotOnSurface, session.Replace{Start: 1, End: 2, Keep: seqs(3), Message: sum("x")})
	refused(t, s, session.ErrInvalidMessage, session.Replace{Start: 1, End: 2})
	// One bad event of several: none is stored.
	refused(t, s, session.ErrReversed, session.Append{Message: session.UserText("x")}, session.Replace{Start: 2, End: 1, Message: sum("x")})
	require.Equal(t, session.Seq(4), s.View().Next())
}

func TestSS06ResultRewrite(t *testing.T) {
	s := fresh(t, 1)
	record(t, s, session.Append{Message: call("a", "b")}, session.Append{Message: session.ToolText("a", strings.Repeat("long ", 99))}, session.Append{Message: session.ToolText("b", "x")})
	bad := session.ToolText("a", "short")
	bad.Parts[0] = session.ToolResult{CallID: "a", IsError: true}
	for name, r := range map[string]session.Replace{
		"two nodes":     {Start: 2, End: 3, Message: session.ToolText("a", "short")},
		"not a result":  {Start: 0, End: 0, Message: session.ToolText("a", "short")},
		"another call":  {Start: 2, End: 2, Message: session.ToolText("b", "short")},
		"another error": {Start: 2, End: 2, Message: bad},
	} {
		t.Run(name, func(t *testing.T) { refused(t, s, session.ErrResultRewrite, r) })
	}
	record(t, s, session.Replace{Start: 2, End: 2, Message: session.ToolText("a", "short")})
	require.Equal(t, seqs(0, 1, 4, 3), surface(s))
}

func TestSS08Generation(t *testing.T) {
	store := session.NewMemoryStore()
	a, b := sessiontest.Open(t, store, nil), sessiontest.Open(t, store, nil)
	_, err := a.Append(t.Context(), session.UserText("x"), session.UserText("y"))
	require.NoError(t, err)
	require.Zero(t, a.View().Generation())
	record(t, a, session.Raw{Type: "compact/start"}, session.Replace{Start: 0, End: 0, Message: sum("x")}, session.TurnStart{})
	require.Equal(t, uint64(1), a.View().Generation())
	require.Zero(t, b.View().Generation())
	require.NoError(t, b.Refresh(t.Context()))
	require.Equal(t, uint64(1), b.View().Generation())
}

func TestSS09Views(t *testing.T) {
	s := fresh(t, 2)
	old := s.View()
	a, err := old.Messages()
	require.NoError(t, err)
	b, err := old.Messages()
	require.NoError(t, err)
	a[0] = nil
	require.NotNil(t, b[0])
	record(t, s, session.Replace{Start: 0, End: 1, Message: sum("x")}, session.Append{Message: session.UserText("y")})
	require.Equal(t, 2, old.Len())
	m, err := old.Message(1)
	require.NoError(t, err)
	require.Equal(t, "message 1", m.Text(), "an old view changed")
	require.Equal(t, session.Seq(2), old.Next())
}

func TestSS10LogOnlyEvents(t *testing.T) {
	s := fresh(t, 2)
	before := surface(s)
	record(t, s, session.TurnStart{}, session.Raw{Type: "x", Ignorable: true}, session.SetEnvelope{}, session.StepStart{},
		session.Usage{Node: 1, Prompt: 3}, session.Pin{Nodes: seqs(0)}, session.StepEnd{}, session.TurnEnd{Reason: "completed"})
	require.Equal(t, before, surface(s))
}

func TestSS11Snapshot(t *testing.T) {
	s := fresh(t, 0)
	m := session.AssistantText("before", session.ToolCall{ID: "a", Raw: json.RawMessage(`{"a":1}`)})
	end := &session.TurnEnd{Reason: "completed"}
	data := json.RawMessage(`{"k":1}`)
	record(t, s, session.TurnStart{}, session.Append{Message: m}, end, session.Raw{Type: "compact/x", Data: data})
	m.Parts[0] = session.Text{Text: "after"}
	m.Parts[1].(session.ToolCall).Raw[2] = 'X'
	end.Reason, data[2] = "after", 'X'
	got, err := s.View().Message(0)
	require.NoError(t, err)
	require.Equal(t, "before", got.Text())
	require.JSONEq(t, `{"a":1}`, string(got.Parts[1].(session.ToolCall).Raw))
	e, _ := s.View().Event(2)
	b, err := e.Body()
	require.NoError(t, err)
	require.Equal(t, "completed", b.(*session.TurnEnd).Reason)
	_, err = s.Record(t.Context(), session.Raw{Type: "compact/x", Data: json.RawMessage(`{bad`)})
	require.Error(t, err)
	for _, nothing := range []session.Body{nil, (*session.Append)(nil), (*session.TurnEnd)(nil)} {
		_, err = s.Record(t.Context(), nothing)
		require.Error(t, err)
	}
	deep := json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))
	record(t, s, session.Raw{Type: "compact/x", Data: deep})
}

func TestSS12Veto(t *testing.T) {
	s := fresh(t, 1)
	veto := errors.New("veto")
	_, err := s.Update(t.Context(), func(session.View) ([]session.Body, error) { return []session.Body{session.TurnStart{}}, veto })
	require.ErrorIs(t, err, veto)
	require.Equal(t, session.Seq(1), s.View().Next())
}

func TestSS13Envelope(t *testing.T) {
	s := fresh(t, 0)
	e, at := s.View().Envelope()
	require.Nil(t, e)
	require.Equal(t, session.NoSeq, at)
	one := session.Envelope{Model: "m", Tools: []session.Tool{{Name: "a"}, {Name: "b"}}}
	two := session.Envelope{Model: "m", Tools: []session.Tool{{Name: "b"}, {Name: "a"}}}
	record(t, s, session.SetEnvelope{Envelope: one}, session.SetEnvelope{Envelope: two})
	e, at = s.View().Envelope()
	require.Equal(t, session.Seq(1), at)
	require.True(t, e.Equal(&two))
	require.False(t, e.Equal(&one), "the order of tools counts")
	require.True(t, (&session.Envelope{}).Equal(&session.Envelope{Tools: []session.Tool{}, System: []session.Message{}}))
}

func TestSS14Fork(t *testing.T) {
	s := fresh(t, 3)
	record(t, s, session.Replace{Start: 0, End: 1, Message: sum("x")})
	for _, reason := range []string{"completed", "aborted", "error", "interrupted"} {
		record(t, s, session.TurnStart{}, session.Append{Message: session.UserText("y")}, session.TurnEnd{Reason: reason})
		sessiontest.Verify(t, mustFork(t, s, s.View().Next()-1))
	}
	open := record(t, s, session.TurnStart{}, session.Append{Message: session.UserText("z")})
	_, err := s.Fork(t.Context(), open[1], session.NewMemoryStore(), nil)
	require.ErrorIs(t, err, session.ErrTurnState)
	_, err = s.Fork(t.Context(), 999, session.NewMemoryStore(), nil)
	require.Error(t, err)
	taken := session.NewMemoryStore()
	sessiontest.Open(t, taken, nil)
	child := mustFork(t, s, 2) // before the replacement: the earlier surface
	require.Equal(t, seqs(0, 1, 2), surface(child))
	require.Equal(t, seqs(), surface(mustFork(t, s, session.NoSeq)))
	record(t, child, session.Replace{Start: 0, End: 2, Message: sum("child")})
	require.Equal(t, session.Seq(3), s.View().Node(0).Seq, "the parent changed with the child")
	full := session.NewMemoryStore()
	require.NoError(t, full.Append(t.Context(), 0, []*session.Event{mustEvent(t, s, 0)}))
	_, err = s.Fork(t.Context(), 1, full, nil)
	require.ErrorIs(t, err, session.ErrConflict)
}

func mustEvent(t *testing.T, s *session.Session, seq session.Seq) *session.Event {
	e, err := s.View().Event(seq)
	require.NoError(t, err)
	return e
}

func mustFork(t *testing.T, s *session.Session, at session.Seq) *session.Session {
	t.Helper()
	child, err := s.Fork(t.Context(), at, session.NewMemoryStore(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { sessiontest.Verify(t, child) })
	return child
}

func TestSS15Repair(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000).UTC()
	store := session.NewMemoryStore()
	s := sessiontest.Open(t, store, &session.Options{Now: func() time.Time { return now }})
	repaired := func() []session.Seq {
		t.Helper()
		got, err := s.Repair(t.Context())
		require.NoError(t, err)
		return got
	}
	require.Empty(t, repaired())
	record(t, s, session.TurnStart{}, session.Append{Message: session.UserText("go")}, session.StepStart{}, session.Append{Message: call("lost")}, session.StepEnd{}, session.TurnEnd{Reason: "completed"})
	require.Empty(t, repaired(), "a closed turn is not touched")
	record(t, s, session.TurnStart{})
	require.Len(t, repaired(), 1)
	at := record(t, s, session.TurnStart{}, session.StepStart{}, session.Append{Message: call("x")}, session.StepEnd{},
		session.StepStart{}, session.Append{Message: call("a", "b", "c", "d")})
	node := at[5]
	record(t, s, session.CallState{Node: node, CallID: "b", Phase: session.CallStarted}, session.Append{Message: session.ToolText("c", "fine")},
		session.CallState{Node: node, CallID: "d", Phase: session.CallAbandoned})
	last := now
	now = now.Add(time.Hour)
	got := repaired()
	require.Len(t, got, 4)
	var texts []string
	for _, seq := range got[:2] {
		e := mustEvent(t, s, seq)
		require.Equal(t, last, e.Time)
		m, err := e.Message()
		require.NoError(t, err)
		r := m.Parts[0].(session.ToolResult)
		require.True(t, r.IsError)
		require.Equal(t, "shell", r.Name)
		require.Equal(t, session.FormRepair, m.Source.Form)
		texts = append(texts, r.CallID+": "+m.Text())
	}
	require.Contains(t, texts[0], "a: The agent was interrupted before this tool was started")
	require.Contains(t, texts[1], "b: The agent was interrupted while this tool was running")
	require.Equal(t, session.TypeStepEnd, mustEvent(t, s, got[2]).Type)
	b, err := mustEvent(t, s, got[3]).Body()
	require.NoError(t, err)
	require.Equal(t, session.ReasonInterrupted, b.(*session.TurnEnd).Reason)
	require.Empty(t, repaired())
	// A host that marks no steps, and a call it said is running outside a turn.
	record(t, s, session.TurnStart{}, session.Append{Message: call("e")})
	require.Len(t, repaired(), 2)
	at = record(t, s, session.Append{Message: call("f")})
	record(t, s, session.CallState{Node: at[0], CallID: "f", Phase: session.CallRunning})
	require.Len(t, repaired(), 1)
	require.Equal(t, session.CallAbandoned, s.View().CallPhase(at[0], "f"))
}

func TestLateResults(t *testing.T) {
	s := fresh(t, 1)
	record(t, s, session.Append{Message: call("a", "b")}, session.Append{Message: session.ToolText("b", "in time")}, session.Append{Message: session.UserText("on")})
	record(t, s, session.Replace{Start: 0, End: 2, Message: sum("folded")})
	long := strings.Repeat("line of output]\n", 1000)
	at := record(t, s, session.Append{Message: session.ToolText("a", long)})
	m, err := mustEvent(t, s, at[0]).Message()
	require.NoError(t, err)
	require.Equal(t, session.RoleUser, m.Role)
	require.Equal(t, session.Source{Kind: session.SourcePlugin, Plugin: session.Plugin, Form: session.FormLateResult, Ref: "a"}, m.Source)
	require.Less(t, len(m.Text()), 3000)
	require.Contains(t, m.Text(), "\n| line of output]\n| line")
	require.Contains(t, m.Text(), "more bytes are in the log")
	var kept session.Message
	require.NoError(t, json.Unmarshal(m.Origin.Raw, &kept))
	require.Equal(t, long, kept.Text(), "the result itself is not in the log")
	// Abandoned in the host's words, though still visible.
	at = record(t, s, session.Append{Message: call("c")})
	record(t, s, session.CallState{Node: at[0], CallID: "c", Phase: session.CallAbandoned})
	record(t, s, session.Append{Message: session.ToolText("c", "too late")})
	require.Equal(t, session.RoleUser, s.View().Node(s.View().Len()-1).Role())
	// A result nobody ever asked for, and one that came twice, are not late.
	record(t, s, session.Append{Message: session.ToolText("never", "x")}, session.Append{Message: call("d")},
		session.Append{Message: session.ToolText("d", "1")}, session.Append{Message: session.ToolText("d", "2")})
	require.Equal(t, session.RoleTool, s.View().Node(s.View().Len()-1).Role())
}

func TestUnknownTypes(t *testing.T) {
	store := session.NewMemoryStore()
	mine := &session.Options{Known: func(t session.Type) bool { return t == "mine" }}
	s := sessiontest.Open(t, store, mine)
	_, err := s.Record(t.Context(), session.Raw{Type: "compact/start"})
	require.ErrorIs(t, err, session.ErrUnknownType)
	record(t, s, session.Raw{Type: "other", Ignorable: true})
	_, err = session.Open(t.Context(), store, nil)
	require.NoError(t, err)
	record(t, s, session.Raw{Type: "mine"})
	_, err = session.Open(t.Context(), store, nil)
	require.ErrorIs(t, err, session.ErrUnknownType)
	require.ErrorContains(t, err, "event 1 (mine)")
}

func TestPinsAreUnits(t *testing.T) {
	s := fresh(t, 1)
	record(t, s, session.Append{Message: call("a", "b")}, session.Append{Message: session.ToolText("a", "x")}, session.Pin{Nodes: seqs(2)})
	require.True(t, s.View().Pinned(1))
	record(t, s, session.Append{Message: session.ToolText("b", "later")})
	require.True(t, s.View().Pinned(4), "a result that came after the pin")
	refused(t, s, session.ErrPinned, session.Replace{Start: 0, End: 4, Message: sum("x")})
	refused(t, s, session.ErrPinned, session.Rewind{To: 0})
	record(t, s, session.Replace{Start: 0, End: 4, Keep: seqs(1, 2, 4), Message: sum("x")})
	require.Equal(t, seqs(5, 1, 2, 4), surface(s))
	record(t, s, session.Restore{Node: 5})
	require.Equal(t, seqs(0, 1, 2, 4), surface(s))
	record(t, s, session.Pin{Nodes: seqs(4), Off: true})
	require.Empty(t, s.View().Pins())
	record(t, s, session.Rewind{To: session.NoSeq})
	require.Empty(t, surface(s))
}

// TestUndoNested: checkpoints are undone from the outside in, and redone.
func TestUndoNested(t *testing.T) {
	s := fresh(t, 5)
	inner := record(t, s, session.Replace{Start: 1, End: 2, Message: sum("inner")})[0]
	outer := record(t, s, session.Replace{Start: inner, End: 3, Message: sum("outer")})[0]
	_, err := s.Record(t.Context(), session.Restore{Node: inner})
	var shadowed *session.ShadowedError
	require.ErrorAs(t, err, &shadowed)
	require.Equal(t, outer, shadowed.By)
	before := surface(s)
	record(t, s, session.Append{Message: session.UserText("since")})
	record(t, s, session.Restore{Node: outer})
	record(t, s, session.Restore{Node: inner})
	require.Equal(t, seqs(0, 1, 2, 3, 4, 7), surface(s))
	refused(t, s, session.ErrNotOnSurface, session.Redo{Node: outer})
	record(t, s, session.Redo{Node: inner})
	record(t, s, session.Redo{Node: outer})
	require.Equal(t, append(before, 7), surface(s))
}

func TestUsageAnchor(t *testing.T) {
	s := fresh(t, 1)
	record(t, s, session.SetEnvelope{Envelope: session.Envelope{Model: "m"}}, session.Append{Message: session.AssistantText("r")}, session.Usage{Node: 2, Prompt: 50, Completion: 5})
	_, err := s.Append(t.Context(), session.UserText("12345678"))
	require.NoError(t, err)
	u, ok := s.View().Usage()
	require.True(t, ok)
	require.True(t, u.Fresh)
	require.Equal(t, 2, u.Since)
	record(t, s, session.Usage{Node: session.NoSeq, Prompt: 9}, session.Usage{Node: 2, Prompt: 9, Aggregate: true})
	u, _ = s.View().Usage()
	require.Equal(t, 50, u.Prompt, "a sum is no anchor")
	record(t, s, session.Replace{Start: 0, End: 0, Message: sum("x")})
	u, _ = s.View().Usage()
	require.False(t, u.Fresh)
	record(t, s, session.Usage{Node: 2, Prompt: 60, Completion: 5})
	u, _ = s.View().Usage()
	require.False(t, u.Fresh, "the reply is older than the replacement")
	at := record(t, s, session.Append{Message: session.AssistantText("r")})
	record(t, s, session.Usage{Node: at[0], Prompt: 20})
	u, _ = s.View().Usage()
	require.True(t, u.Fresh)
	record(t, s, session.SetEnvelope{Envelope: session.Envelope{Model: "other"}})
	u, _ = s.View().Usage()
	require.False(t, u.Fresh)
}

// TestFailedSync: nothing is acknowledged on top of a write that was lost, and
// the session says so.
func TestFailedSync(t *testing.T) {
	for _, fault := range []sessiontest.Fault{sessiontest.Lose, sessiontest.Tear, sessiontest.Blind} {
		mem := session.NewMemoryStore()
		f := sessiontest.NewFaulty(mem)
		s, err := session.Open(t.Context(), f, nil)
		require.NoError(t, err)
		_, err = s.Append(t.Context(), session.UserText("safe"))
		require.NoError(t, err)
		f.On(1, fault)
		_, err = s.Append(t.Context(), session.UserText("lost"))
		require.ErrorIs(t, err, sessiontest.ErrFault)
		_, err = s.Append(t.Context(), session.UserText("later"))
		require.ErrorIs(t, err, sessiontest.ErrFault)
		again := sessiontest.Open(t, mem, nil)
		require.Contains(t, []int{1, 2}, again.View().Len())
	}
	mem := session.NewMemoryStore()
	f := sessiontest.NewFaulty(mem)
	s := sessiontest.Open(t, f, nil)
	f.On(1, sessiontest.Fail)
	_, err := s.Append(t.Context(), session.UserText("refused"))
	require.ErrorIs(t, err, sessiontest.ErrFault)
	_, err = s.Append(t.Context(), session.UserText("fine"))
	require.NoError(t, err)
}

// TestVisibleBeforeDurable: a view shows what is staged; the append returns
// when it is durable.
func TestVisibleBeforeDurable(t *testing.T) {
	f := sessiontest.NewFaulty(session.NewMemoryStore())
	s := sessiontest.Open(t, f, nil)
	reached, release := f.Stall(1)
	done := make(chan error)
	go func() {
		_, err := s.Append(context.Background(), session.UserText("x"))
		done <- err
	}()
	<-reached
	require.Equal(t, 1, s.View().Len())
	select {
	case <-done:
		t.Fatal("the append returned before it was durable")
	default:
	}
	release()
	require.NoError(t, <-done)
}
