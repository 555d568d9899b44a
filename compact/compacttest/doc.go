// Package compacttest tests implementations of [compact.Service].
//
//	compacttest.TestService(t, func(t testing.TB, write compacttest.Write) compact.Service {
//		return mine.New(summarizer(write))
//	})
//
// [TestService] is the conformance suite: what every service promises, whatever
// its policy, under cancellation, changes of the session meanwhile, a second
// compaction and a failing store. Every session that it uses is verified at the
// end with sessiontest.Check and [compact.CheckLog].
package compacttest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// Write is the model of a service under test: it answers the n-th request, from
// 1 on, with a narrative or with an error. It may use the session and wait.
type Write func(ctx context.Context, n int) (string, error)

// Window is the context window of every route in the suite.
const Window = 10_000

// TestService runs the suite. new makes a service that has its narratives
// written by write and is set up like this: the window of every route is
// [Window] tokens, and pressure begins at three quarters of that or later; the
// recent tail has at most half of it; a narrative of one word is taken as it is
// and one above its budget refused; a request is not repeated, waits for
// nothing, and there is no other model to fall back to; tool results are not
// shortened.
//
// The optional abilities are tested as far as the service has them.
func TestService(t *testing.T, new func(t testing.TB, write Write) compact.Service) {
	for _, c := range []struct {
		name string
		run  func(*suite)
	}{
		{"below the threshold", (*suite).below},
		{"pressure", (*suite).pressure},
		{"overflow", (*suite).overflow},
		{"trigger", (*suite).trigger},
		{"context reaches the model", (*suite).reaches},
		{"region", (*suite).region},
		{"region refused", (*suite).refused},
		{"region by position", (*suite).byPosition},
		{"pins", (*suite).pins},
		{"append meanwhile", (*suite).appendMeanwhile},
		{"changed meanwhile", (*suite).changed},
		{"cancel", (*suite).cancel},
		{"one at a time", (*suite).oneAtATime},
		{"many at once", (*suite).many},
		{"leases of others", (*suite).leases},
		{"not smaller", (*suite).notSmaller},
		{"no summary", (*suite).noSummary},
		{"store fails", (*suite).storeFails},
		{"reopened", (*suite).reopened},
		{"growing", (*suite).growing},
		{"considerer", (*suite).considerer},
		{"manual", (*suite).manual},
		{"planner", (*suite).planner},
		{"undoer", (*suite).undoer},
		{"background", (*suite).background},
		{"background gives way", (*suite).givesWay},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&suite{T: t, new: new}) })
	}
}

// suite is one test of the suite.
type suite struct {
	*testing.T
	new func(t testing.TB, write Write) compact.Service
}

// sub runs a part of the test.
func (t *suite) sub(name string, run func(*suite)) {
	t.Run(name, func(tt *testing.T) { run(&suite{T: tt, new: t.new}) })
}

// world is a session with a service for it.
type world struct {
	*suite
	s     *session.Session
	svc   compact.Service
	agent compact.Agent
	calls int   // requests to the model
	write Write // what it does; nil: one word
}

func (t *suite) world(store session.Store) *world {
	t.Helper()
	if store == nil {
		store = session.NewMemoryStore()
	}
	w := &world{suite: t, s: Open(t, store)}
	w.agent = compact.Agent{Session: w.s, Provider: "p", Model: "m"}
	w.svc = t.service(w)
	return w
}

// service makes a service whose model is that of the world.
func (t *suite) service(w *world) compact.Service {
	return t.new(t, func(ctx context.Context, n int) (string, error) {
		w.calls++
		if w.write == nil {
			return "Done.", nil
		}
		return w.write(ctx, n)
	})
}

// other makes a second service, with a model of its own.
func (w *world) other() compact.Service {
	return w.new(w, func(context.Context, int) (string, error) { return "Done.", nil })
}

// Open opens a session that is verified and closed when the test ends.
func Open(t testing.TB, store session.Store) *session.Session {
	t.Helper()
	s := sessiontest.Open(t, store, nil)
	t.Cleanup(func() { Verify(t, s) })
	return s
}

// Verify fails the test when the log of the session breaks the order of
// compaction events, or when a checkpoint on its surface separates a call from
// its result.
func Verify(t testing.TB, s *session.Session) {
	t.Helper()
	v := s.View()
	if err := compact.CheckLog(v); err != nil {
		t.Errorf("the log of compactions is wrong: %v", err)
	}
	x := toolpairing.Of(v)
	for i := range v.Len() {
		if compact.IsCheckpointSource(v.Node(i).Source()) && !(x.Balanced(i) && x.Balanced(i+1)) {
			t.Errorf("the checkpoint at position %d separates a call from its result", i)
		}
	}
}

// rounds appends n rounds of a prompt, a call, its result and an answer, of
// about 400 tokens together.
func (w *world) rounds(n int) {
	w.Helper()
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		_, err := w.s.Append(w.Context(),
			session.UserText(fmt.Sprintf("Request %d: look at item %d.", i, i)),
			session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: fmt.Sprintf(`{"path":"src/item%d.go"}`, i)}),
			session.ToolText(id, strings.Repeat(fmt.Sprintf("line %d; ", i), 1500)[:1400]),
			session.AssistantText(fmt.Sprintf("Item %d is fine.", i)),
		)
		require.NoError(w, err)
	}
}

// region compacts the first rounds of a fresh session.
func (w *world) region(ctx context.Context, rounds int) (*compact.Result, error) {
	return w.svc.CompactRegion(ctx, w.agent, 0, session.Seq(4*rounds-1))
}

// texts returns the surface as text.
func (w *world) texts() []string {
	w.Helper()
	ms, err := w.s.View().Messages()
	require.NoError(w, err)
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.Text()
	}
	return out
}

// attempts returns the attempts in the log; those without an end have a nil one.
func (w *world) attempts() []compact.Attempt {
	w.Helper()
	h := compact.HistoryOf(w.s)
	require.NoError(w, h.Err())
	return h.Attempts
}

// ended checks that the log has so many attempts, all closed, the last one with
// the code.
func (w *world) ended(n int, code compact.Code) {
	w.Helper()
	list := w.attempts()
	require.Len(w, list, n)
	for _, a := range list {
		require.NotNil(w, a.End, "attempt %s is open", a.Start.ID)
	}
	assert.Equal(w, code, list[n-1].End.Code)
}

// failed checks an error of an attempt that is in the log.
func (w *world) failed(err error, code compact.Code) *compact.Error {
	w.Helper()
	require.ErrorIs(w, err, code)
	var ce *compact.Error
	require.ErrorAs(w, err, &ce)
	assert.NotEmpty(w, ce.Code.Advice())
	return ce
}

// committed checks everything that a result says, and that the surface is the
// one before with the span replaced.
func (w *world) committed(before session.View, r *compact.Result, trigger compact.Trigger) {
	w.Helper()
	require.NotNil(w, r)
	v := w.s.View()
	assert.NotEmpty(w, r.ID)
	assert.Equal(w, trigger, r.Trigger)
	require.NotEmpty(w, r.Seqs)
	assert.Equal(w, []session.Seq{r.Summary + 1, r.Summary + 2}, []session.Seq{r.Checkpoint, r.End}, "one store write")
	assert.Less(w, r.Start, r.Summary)
	for seq, typ := range map[session.Seq]session.Type{r.Start: compact.TypeStart, r.Summary: compact.TypeSummary, r.Checkpoint: session.TypeReplace, r.End: compact.TypeEnd} {
		e, err := v.Event(seq)
		require.NoError(w, err)
		assert.Equal(w, typ, e.Type, "event %d", seq)
	}
	p, err := v.Position(r.Checkpoint)
	require.NoError(w, err)
	n := v.Node(p)
	assert.Equal(w, compact.CheckpointSource(r.ID), n.Source())
	assert.True(w, compact.IsCheckpointSource(n.Source()))
	assert.Equal(w, session.RoleUser, n.Role())
	m, err := v.Message(p)
	require.NoError(w, err)
	assert.Contains(w, m.Text(), r.Text)
	assert.NotEmpty(w, compact.ParsePointers(m.Text()), "the checkpoint names what it hides")

	// The span as it stood, without what was kept, is what went.
	at, err := before.Position(r.Shadowed.Start)
	require.NoError(w, err)
	to, err := before.Position(r.Shadowed.End)
	require.NoError(w, err)
	var gone, kept []session.Seq
	spanTokens := 0
	for i := at; i <= to; i++ {
		q := before.Node(i).Seq
		if _, err := v.Position(q); err == nil {
			kept = append(kept, q)
			continue
		}
		gone = append(gone, q)
		spanTokens += int(before.Node(i).Tokens)
		assert.Equal(w, r.Checkpoint, v.ShadowedBy(q))
		_, err := v.Event(q)
		require.NoError(w, err, "what is hidden is in the log")
	}
	assert.Equal(w, gone, r.Seqs)
	assert.ElementsMatch(w, kept, r.Kept)
	assert.Equal(w, at, p, "the checkpoint stands where the span stood")
	for i := range at {
		assert.Equal(w, before.Node(i).Seq, v.Node(i).Seq)
	}
	for i := to + 1; i < before.Len(); i++ {
		assert.Equal(w, before.Node(i).Seq, v.Node(i-len(gone)+1).Seq)
	}
	assert.Equal(w, spanTokens, r.SpanBefore)
	assert.Equal(w, int(n.Tokens), r.SpanAfter)
	assert.Less(w, r.SpanAfter, r.SpanBefore)
	assert.Equal(w, r.Before-r.SpanBefore+r.SpanAfter, r.After)
	assert.Equal(w, v.EnvelopeTokens()+v.SurfaceTokens(), r.After)
	assert.Equal(w, w.s.Pricer().ID(), r.Pricer)
	assert.NotEmpty(w, r.Summarizer)
	assert.NotEmpty(w, r.Calls)
	assert.Equal(w, r.GenerationBefore+1, r.GenerationAfter)
	assert.Equal(w, v.Generation(), r.GenerationAfter)
	assert.GreaterOrEqual(w, r.Duration.Nanoseconds(), int64(0))

	list := w.attempts()
	a := list[len(list)-1]
	assert.Equal(w, r.ID, a.Start.ID)
	assert.Equal(w, trigger, a.Start.Trigger)
	assert.True(w, a.Committed())
	assert.Equal(w, []session.Seq{r.Start, r.Summary, r.Checkpoint, r.End}, []session.Seq{a.StartSeq, a.Summary, a.Checkpoint, a.EndSeq})
	assert.Equal(w, r.Calls, a.End.Calls, "every call is in the log")
}

// untouched checks that nothing was written since the view.
func (w *world) untouched(before session.View, calls int) {
	w.Helper()
	assert.Equal(w, before.Next(), w.s.View().Next(), "nothing is written")
	assert.Equal(w, calls, w.calls, "no call is made")
}
