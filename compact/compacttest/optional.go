package compacttest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// ability returns the optional ability of the service, or skips the test.
func ability[T any](w *world) T {
	w.Helper()
	a, ok := w.svc.(T)
	if !ok {
		w.Skip("the service does not have it")
	}
	return a
}

func (t *suite) considerer() {
	w := t.world(nil)
	c := ability[compact.Considerer](w)
	w.rounds(5)
	before := w.s.View()
	o, err := c.Consider(w.Context(), w.agent, compact.Pressure)
	require.NoError(w, err)
	require.NotNil(w, o)
	assert.Nil(w, o.Result)
	assert.Equal(w, compact.BelowThreshold, o.Code)
	assert.NotEmpty(w, o.Reason)
	assert.Equal(w, Window, o.Window)
	assert.GreaterOrEqual(w, o.Threshold, Window*3/4)
	assert.Equal(w, before.SurfaceTokens(), o.Tokens)
	assert.False(w, o.RetryUseful)
	assert.Equal(w, o.GenerationBefore, o.GenerationAfter)
	w.untouched(before, 0)
	o, err = c.Consider(w.Context(), w.agent, compact.ContextOverflow)
	require.NoError(w, err)
	w.committed(before, o.Result, compact.ContextOverflow)
	assert.Empty(w, o.Code)
	assert.True(w, o.RetryUseful, "the surface is smaller")
	assert.Equal(w, o.GenerationBefore+1, o.GenerationAfter)
	assert.Equal(w, w.s.View().SurfaceTokens(), o.After)
	// Now there is nothing left to gain.
	o, err = c.Consider(w.Context(), w.agent, compact.ContextOverflow)
	require.NoError(w, err)
	if o.Result == nil {
		assert.NotEmpty(w, o.Code)
		assert.False(w, o.RetryUseful)
	}
}

func (t *suite) manual() {
	w := t.world(nil)
	m := ability[compact.Manual](w)
	_, err := m.CompactNow(w.Context(), w.agent, nil)
	w.failed(err, compact.NothingToCompact)
	w.rounds(10) // below the threshold
	before := w.s.View()
	r, err := m.CompactNow(w.Context(), w.agent, &compact.NowOptions{Instructions: "Mind the items.", Keep: []session.Seq{0}})
	require.NoError(w, err)
	w.committed(before, r, compact.Now)
	_, err = w.s.View().Position(0)
	require.NoError(w, err, "what is to be kept is kept")
	calls, before := w.calls, w.s.View()
	_, err = m.CompactNow(w.Context(), w.agent, &compact.NowOptions{Instructions: "Mind the items.", Keep: []session.Seq{0}})
	w.failed(err, compact.NothingToCompact)
	w.untouched(before, calls)
}

func (t *suite) planner() {
	w := t.world(nil)
	p := ability[compact.Planner](w)
	w.rounds(12)
	before := w.s.View()
	plan, err := p.Plan(w.Context(), w.agent, nil)
	require.NoError(w, err)
	w.untouched(before, 0)
	assert.Positive(w, plan.Calls)
	assert.Positive(w, plan.Count)
	assert.Equal(w, before.SurfaceTokens(), plan.Before)
	assert.Less(w, plan.After, plan.Before)
	again, err := p.Plan(w.Context(), w.agent, nil)
	require.NoError(w, err)
	assert.Equal(w, plan, again, "a plan is deterministic")

	_, err = w.s.Append(w.Context(), session.UserText("It grows."))
	require.NoError(w, err)
	before = w.s.View()
	r, err := p.Apply(w.Context(), w.agent, plan)
	require.NoError(w, err)
	w.committed(before, r, compact.Now)
	assert.Equal(w, plan.Shadowed, r.Shadowed)
	assert.Len(w, r.Seqs, plan.Count)
	assert.LessOrEqual(w, r.Before-r.After, plan.Span)
	calls := w.calls
	next := w.s.View()
	_, err = p.Apply(w.Context(), w.agent, plan)
	w.failed(err, compact.Changed)
	w.untouched(next, calls)

	// The edges are where they were, and what is between them is not.
	w = t.world(nil)
	p = ability[compact.Planner](w)
	w.rounds(12)
	plan, err = p.Plan(w.Context(), w.agent, nil)
	require.NoError(w, err)
	_, err = w.s.Record(w.Context(), session.Replace{Start: 7, End: 7, Message: session.AssistantText("other")})
	require.NoError(w, err)
	next = w.s.View()
	_, err = p.Apply(w.Context(), w.agent, plan)
	w.failed(err, compact.Changed)
	w.untouched(next, 0)
}

func (t *suite) undoer() {
	w := t.world(nil)
	u := ability[compact.Undoer](w)
	_, err := u.Undo(w.Context(), w.agent, session.NoSeq)
	w.failed(err, compact.NotFound)
	_, err = u.Redo(w.Context(), w.agent)
	w.failed(err, compact.NotFound)
	w.rounds(10)
	_, err = w.s.Record(w.Context(), session.Pin{Nodes: []session.Seq{4, 5, 6, 7}})
	require.NoError(w, err)
	before := w.texts()
	inner, err := w.region(w.Context(), 4)
	require.NoError(w, err)
	middle := w.texts()
	_, err = w.svc.CompactRegion(w.Context(), w.agent, inner.Checkpoint, 31)
	require.NoError(w, err)
	after := w.texts()
	_, err = u.Undo(w.Context(), w.agent, inner.Checkpoint)
	w.failed(err, compact.NotFound)
	for range 2 {
		_, err := u.Undo(w.Context(), w.agent, session.NoSeq)
		require.NoError(w, err)
		assert.Equal(w, middle, w.texts())
		_, err = u.Undo(w.Context(), w.agent, session.NoSeq)
		require.NoError(w, err)
		assert.Equal(w, before, w.texts(), "to the byte")
		_, err = u.Redo(w.Context(), w.agent)
		require.NoError(w, err)
		assert.Equal(w, middle, w.texts())
		_, err = u.Redo(w.Context(), w.agent)
		require.NoError(w, err)
		assert.Equal(w, after, w.texts())
	}
	ctx, cancel := context.WithCancelCause(w.Context())
	cause := errors.New("stop")
	cancel(cause)
	_, err = u.Undo(ctx, w.agent, session.NoSeq)
	w.failed(err, compact.Cancelled)
	assert.ErrorIs(w, err, cause)
}

func (t *suite) background() {
	w := t.world(nil)
	b := ability[compact.Background](w)
	begun, gate := make(chan struct{}), make(chan struct{})
	w.write = func(context.Context, int) (string, error) {
		close(begun)
		<-gate
		return "Done.", nil
	}
	ok, err := b.StartBackground(w.Context(), w.agent)
	require.NoError(w, err)
	assert.False(w, ok, "there is nothing to do")
	w.rounds(26)
	before := w.s.View()
	ok, err = b.StartBackground(w.Context(), w.agent)
	require.NoError(w, err)
	require.True(w, ok)
	<-begun
	ok, err = b.StartBackground(w.Context(), w.agent)
	require.NoError(w, err)
	assert.False(w, ok, "single flight")
	// No step waits for it.
	r, err := w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Pressure)
	require.NoError(w, err)
	assert.Nil(w, r)
	close(gate)
	require.NoError(w, b.WaitBackground(w.Context(), w.agent))
	assert.Equal(w, before.Generation(), w.s.View().Generation(), "the next check commits it")
	r, err = w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Pressure)
	require.NoError(w, err)
	w.committed(before, r, compact.Behind)
}

// givesWay: who asks for a compaction, or has a request refused, does not wait for
// a summary in the background, and is not told that the session is busy by it.
func (t *suite) givesWay() {
	for name, run := range map[compact.Trigger]func(w *world) (*compact.Result, error){
		compact.Region: func(w *world) (*compact.Result, error) { return w.region(w.Context(), 4) },
		compact.ContextOverflow: func(w *world) (*compact.Result, error) {
			return w.svc.CompactIfNeeded(w.Context(), w.agent, compact.ContextOverflow)
		},
	} {
		t.sub(string(name), func(t *suite) {
			w := t.world(nil)
			b := ability[compact.Background](w)
			begun := make(chan struct{})
			w.write = func(ctx context.Context, n int) (string, error) {
				if n > 1 {
					return "Done.", nil
				}
				close(begun)
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			w.rounds(26)
			ok, err := b.StartBackground(w.Context(), w.agent)
			require.NoError(w, err)
			require.True(w, ok)
			<-begun
			_, err = w.svc.CompactRegion(w.Context(), w.agent, 7, 4)
			w.failed(err, compact.Reversed)
			require.Nil(w, w.attempts()[0].End, "what is refused disturbs nobody")
			before := w.s.View()
			r, err := run(w)
			require.NoError(w, err)
			w.committed(before, r, name)
			w.ended(2, "")
			assert.Equal(w, compact.Cancelled, w.attempts()[0].End.Code)
		})
	}
}
