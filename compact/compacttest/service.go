package compacttest

import (
	"context"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

func (t *suite) below() {
	w := t.world(nil)
	before := w.s.View()
	r, err := w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Pressure)
	require.NoError(w, err)
	assert.Nil(w, r, "an empty session")
	w.untouched(before, 0)
	w.rounds(5)
	before = w.s.View()
	r, err = w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Pressure)
	require.NoError(w, err)
	assert.Nil(w, r)
	w.untouched(before, 0)
}

func (t *suite) pressure() {
	w := t.world(nil)
	w.rounds(26)
	before := w.s.View()
	r, err := w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Pressure)
	require.NoError(w, err)
	w.committed(before, r, compact.Pressure)
	v := w.s.View()
	assert.True(w, compact.IsCheckpointSource(v.Node(0).Source()), "the oldest goes")
	assert.Equal(w, before.Node(before.Len()-1).Seq, v.Node(v.Len()-1).Seq, "the newest unit stays")
	assert.Positive(w, w.calls)

	// Again on the unchanged session.
	calls := w.calls
	before = w.s.View()
	r, err = w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Pressure)
	require.NoError(w, err)
	assert.Nil(w, r)
	w.untouched(before, calls)
}

func (t *suite) overflow() {
	w := t.world(nil)
	r, err := w.svc.CompactIfNeeded(w.Context(), w.agent, compact.ContextOverflow)
	require.NoError(w, err)
	assert.Nil(w, r, "an empty session")
	_, err = w.s.Append(w.Context(),
		session.AssistantText("", session.ToolCall{ID: "c0", Name: "read", Arguments: "{}"}), session.ToolText("c0", "nothing"))
	require.NoError(w, err)
	before := w.s.View()
	r, err = w.svc.CompactIfNeeded(w.Context(), w.agent, compact.ContextOverflow)
	require.NoError(w, err)
	assert.Nil(w, r, "one unit")
	w.untouched(before, 0)

	w.rounds(6) // far below the threshold
	before = w.s.View()
	r, err = w.svc.CompactIfNeeded(w.Context(), w.agent, compact.ContextOverflow)
	require.NoError(w, err)
	w.committed(before, r, compact.ContextOverflow)
	assert.Equal(w, before.Node(before.Len()-1).Seq, w.s.View().Node(w.s.View().Len()-1).Seq, "the newest unit stays")
}

func (t *suite) trigger() {
	w := t.world(nil)
	w.rounds(26)
	before := w.s.View()
	_, err := w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Region)
	require.Error(w, err, "that is no trigger of automatic policy")
	w.untouched(before, 0)
}

func (t *suite) reaches() {
	type key struct{}
	w := t.world(nil)
	w.write = func(ctx context.Context, _ int) (string, error) {
		assert.Equal(w, "here", ctx.Value(key{}), "the context of the caller, or one made from it")
		return "Done.", nil
	}
	ctx := context.WithValue(w.Context(), key{}, "here")
	w.rounds(26)
	_, err := w.svc.CompactIfNeeded(ctx, w.agent, compact.Pressure)
	require.NoError(w, err)
	v := w.s.View()
	_, err = w.svc.CompactRegion(ctx, w.agent, v.Node(0).Seq, v.Node(v.Len()-5).Seq)
	require.NoError(w, err)
	assert.Equal(w, 2, w.calls)
}

func (t *suite) region() {
	w := t.world(nil)
	w.rounds(8)
	long, err := w.s.Append(w.Context(), session.UserText(strings.Repeat("long story ", 400)))
	require.NoError(w, err)
	for _, edges := range [][2]session.Seq{{8, 15}, {long[0], long[0]}, {0, 3}, {16, 17 + 14}} {
		before := w.s.View()
		r, err := w.svc.CompactRegion(w.Context(), w.agent, edges[0], edges[1])
		require.NoError(w, err, "%v", edges)
		w.committed(before, r, compact.Region)
		assert.Equal(w, compact.Span{Start: edges[0], End: edges[1]}, r.Shadowed)
	}
}

func (t *suite) refused() {
	w := t.world(nil)
	w.rounds(4)
	before := w.s.View()
	for _, c := range []struct {
		name       string
		start, end session.Seq
		code       compact.Code
		edge, call string
	}{
		{"unknown start", 99, 3, compact.NotFound, "start", ""},
		{"unknown end", 0, 99, compact.NotFound, "end", ""},
		{"negative", -1, 3, compact.NotFound, "start", ""},
		{"reversed", 7, 4, compact.Reversed, "", ""},
		{"start inside a pair", 2, 7, compact.Unbalanced, "start", "c0"},
		{"end inside a pair", 0, 5, compact.Unbalanced, "end", "c1"},
	} {
		r, err := w.svc.CompactRegion(w.Context(), w.agent, c.start, c.end)
		assert.Nil(w, r)
		ce := w.failed(err, c.code)
		assert.Equal(w, c.edge, ce.Edge, c.name)
		assert.Equal(w, c.call, ce.CallID, c.name)
		assert.False(w, ce.Written, c.name)
	}
	w.untouched(before, 0)
	// A message that is hidden is not on the surface.
	before = w.s.View()
	r, err := w.region(w.Context(), 2)
	require.NoError(w, err)
	w.committed(before, r, compact.Region)
	_, err = w.svc.CompactRegion(w.Context(), w.agent, 0, 15)
	w.failed(err, compact.NotFound)
	var shadowed *session.ShadowedError
	require.ErrorAs(w, err, &shadowed, "the error names what hides the edge")
	assert.Equal(w, r.Checkpoint, shadowed.By)
}

// byPosition: after a compaction in the middle, the span's start has a larger
// seq than its end.
func (t *suite) byPosition() {
	w := t.world(nil)
	w.rounds(10)
	first, err := w.svc.CompactRegion(w.Context(), w.agent, 8, 15)
	require.NoError(w, err)
	before := w.s.View()
	_, err = w.svc.CompactRegion(w.Context(), w.agent, 16, first.Checkpoint)
	w.failed(err, compact.Reversed)
	r, err := w.svc.CompactRegion(w.Context(), w.agent, first.Checkpoint, 23)
	require.NoError(w, err)
	assert.Greater(w, r.Shadowed.Start, r.Shadowed.End)
	w.committed(before, r, compact.Region)
	// And one around all of it.
	before = w.s.View()
	outer, err := w.svc.CompactRegion(w.Context(), w.agent, 4, 27)
	require.NoError(w, err)
	w.committed(before, outer, compact.Region)
}

func (t *suite) pins() {
	w := t.world(nil)
	w.rounds(6)
	_, err := w.s.Record(w.Context(), session.Pin{Nodes: []session.Seq{4, 5, 6, 7}})
	require.NoError(w, err)
	before := w.s.View()
	_, err = w.svc.CompactRegion(w.Context(), w.agent, 4, 7)
	w.failed(err, compact.IsPinned)
	w.untouched(before, 0)
	r, err := w.region(w.Context(), 4)
	require.NoError(w, err)
	w.committed(before, r, compact.Region)
	assert.Equal(w, []session.Seq{4, 5, 6, 7}, r.Kept)
}

func (t *suite) appendMeanwhile() {
	w := t.world(nil)
	w.write = func(ctx context.Context, _ int) (string, error) {
		_, err := w.s.Append(ctx, session.UserText("meanwhile"))
		return "Done.", err
	}
	w.rounds(10)
	before := w.s.View()
	r, err := w.region(w.Context(), 8)
	require.NoError(w, err)
	w.committed(before, r, compact.Region)
	got := w.texts()
	assert.Equal(w, "meanwhile", got[len(got)-1])
	_, err = w.s.Record(w.Context(), session.TurnStart{}) // log only
	require.NoError(w, err)
}

// reopened: what was committed is there when the log is read again, and so is
// what the service needs to go on.
func (t *suite) reopened() {
	store := session.NewMemoryStore()
	w := t.world(store)
	w.rounds(26)
	r, err := w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Pressure)
	require.NoError(w, err)
	require.NotNil(w, r)
	again := session.NewMemoryStore()
	require.NoError(w, again.Append(w.Context(), 0, store.Events()))
	next := t.world(again)
	assert.Equal(w, w.texts(), next.texts())
	assert.Equal(w, w.s.View().Generation(), next.s.View().Generation())
	r, err = next.svc.CompactIfNeeded(next.Context(), next.agent, compact.Pressure)
	require.NoError(w, err)
	assert.Nil(w, r)
	next.rounds(24)
	before := next.s.View()
	r, err = next.svc.CompactIfNeeded(next.Context(), next.agent, compact.Pressure)
	require.NoError(w, err)
	next.committed(before, r, compact.Pressure)
}

// growing: ten rounds on one session; pins stay, and the session stays small.
func (t *suite) growing() {
	w := t.world(nil)
	pinned, err := w.s.Append(w.Context(), session.UserText("The release is on 2026-12-24."))
	require.NoError(w, err)
	_, err = w.s.Record(w.Context(), session.Pin{Nodes: pinned})
	require.NoError(w, err)
	for round := range 10 {
		w.rounds(24)
		before := w.s.View()
		r, err := w.svc.CompactIfNeeded(w.Context(), w.agent, compact.Pressure)
		require.NoError(w, err)
		require.NotNil(w, r, "round %d", round)
		w.committed(before, r, compact.Pressure)
		_, err = w.s.View().Position(pinned[0])
		require.NoError(w, err, "the pinned message is visible")
		assert.Less(w, r.After, Window*3/4)
	}
	assert.Equal(w, 10, w.calls)
}
