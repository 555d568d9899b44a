package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
)

// invented is a summary that says what no message says.
var invented = func() string {
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "Changed /srv/made/up/file%d.go at commit deadbeef%04d.\n", i, i)
	}
	return b.String()
}()

// Every code can be reached, by an error or as the answer of an automatic
// compaction, and says whether something was written.
func TestEveryCode(t *testing.T) {
	type how struct {
		rounds  int
		change  func(*engine.Options)
		prepare func(r *rig)
		run     func(r *rig) error // nil: pressure
	}
	now := func(r *rig) error { _, err := r.e.CompactNow(r.Context(), r.agent, nil); return err }
	region := func(start, end session.Seq) func(r *rig) error {
		return func(r *rig) error { _, err := r.e.CompactRegion(r.Context(), r.agent, start, end); return err }
	}
	write := func(text string) func(r *rig) {
		return func(r *rig) {
			r.st.collect = func(context.Context, int, *summarize.Request) (string, error) { return text, nil }
		}
	}
	for code, h := range map[compact.Code]how{
		compact.Busy: {10, nil, func(r *rig) {
			r.record(compact.Event(compact.StartEvent{ID: "x", Holder: compact.Holder{Host: "elsewhere", Run: "r", Until: time.Now().Add(time.Hour)}}))
		}, now},
		compact.Cancelled:         {10, nil, nil, func(r *rig) error { _, err := r.e.CompactNow(ctxDone, r.agent, nil); return err }},
		compact.Changed:           {10, nil, func(r *rig) { r.during(func(context.Context) { r.record(session.Rewind{To: 2}) }) }, now},
		compact.NotFound:          {1, nil, nil, region(0, 99)},
		compact.Reversed:          {2, nil, nil, region(4, 3)},
		compact.Unbalanced:        {2, nil, nil, region(0, 1)},
		compact.IsPinned:          {2, nil, func(r *rig) { r.record(session.Pin{Nodes: []session.Seq{0}}) }, region(0, 0)},
		compact.NoWindow:          {1, func(o *engine.Options) { o.Windows = nil }, nil, nil},
		compact.SummaryFailed:     {26, nil, func(r *rig) { r.fails("boom") }, nil},
		compact.NotSmaller:        {10, nil, write(fill(9_000, "long")), now},
		compact.Unfaithful:        {10, nil, write(invented), now},
		compact.OverBudget:        {20, func(o *engine.Options) { o.Run.ChunkTokens, o.Run.MaxCalls = 300, 2 }, nil, now},
		compact.NoProgress:        {26, func(o *engine.Options) { o.Policy.RetainMessages = 100 }, nil, nil},
		compact.CommitFailed:      {10, nil, func(r *rig) { r.faulty.On(2, sessiontest.Fail) }, now},
		compact.PersistenceFailed: {10, nil, func(r *rig) { r.faulty.On(1, sessiontest.Fail) }, now},
		compact.NothingToCompact:  {0, nil, nil, now},
		compact.BelowThreshold:    {2, nil, nil, nil},
		compact.AutoOff:           {26, func(o *engine.Options) { o.AutoOff = true }, nil, nil},
		compact.Floor: {4, nil, func(r *rig) {
			r.record(session.Pin{Nodes: r.append(session.UserText(fill(7_900, "pinned")))})
			r.append(session.UserText("and now?"), session.AssistantText(fill(200, "this")))
		}, nil},
		compact.BreakerOpen: {26, nil, func(r *rig) {
			r.fails("boom")
			_, err := r.e.CompactIfNeeded(r.Context(), r.agent, compact.Pressure)
			require.Error(r, err)
		}, nil},
	} {
		t.Run(string(code), func(t *testing.T) {
			r := newRig(t, h.rounds, h.change)
			if h.prepare != nil {
				h.prepare(r)
			}
			before, surface := r.s.View().Next(), texts(t, r.s)
			run := h.run
			if run == nil {
				run = func(r *rig) error {
					o, err := r.e.Consider(r.Context(), r.agent, compact.Pressure)
					if err == nil {
						assert.Nil(t, o.Result)
						assert.NotEmpty(t, o.Reason)
						assert.False(t, o.RetryUseful)
						return o.Code
					}
					return err
				}
			}
			err := run(r)
			require.ErrorIs(t, err, code)
			var ce *compact.Error
			if errors.As(err, &ce) {
				assert.Equal(t, r.s.View().Next() > before, ce.Written, "whether something was written")
			} else {
				assert.Equal(t, before, r.s.View().Next(), "an answer writes nothing")
			}
			if code != compact.Changed {
				assert.Equal(t, surface, texts(t, r.s))
			}
			assert.NotEmpty(t, code.Advice())
		})
	}
}

// A checkpoint for which there is no room below the threshold is not committed,
// and not tried again until the session has grown.
func TestNoRoomForACheckpoint(t *testing.T) {
	for room, code := range map[int]compact.Code{300: "", 20: compact.NoProgress} {
		r := newRig(t, 26, nil)
		v := r.s.View()
		r.e = newEngine(t, r.st, func(o *engine.Options) {
			o.Policy.RetainMessages, o.Policy.ThresholdTokens = 40, v.Tokens(v.Len()-40, v.Len())+room
		})
		for range 3 {
			o, err := r.e.Consider(t.Context(), r.agent, compact.Pressure)
			if code == "" {
				require.NoError(t, err)
				assert.Contains(t, []compact.Code{"", compact.BelowThreshold}, o.Code)
			} else if err != nil {
				require.ErrorIs(t, err, code)
			} else {
				assert.Equal(t, code, o.Code)
			}
		}
		assert.Equal(t, 1, r.st.calls)
		assert.Equal(t, code, r.last().End.Code)
	}
}

// A prune writes, and an error that comes after it says so.
func TestErrorsAfterPruningSayWritten(t *testing.T) {
	r := newRig(t, 0, pruning)
	r.append(session.UserText("look"))
	r.pair("big", 3_000)
	for range 10 {
		r.append(session.AssistantText(fill(700, "thought")))
	}
	r.faulty.On(2, sessiontest.Fail) // the start, after the pruning
	_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
	require.ErrorIs(t, err, compact.PersistenceFailed)
	var ce *compact.Error
	require.ErrorAs(t, err, &ce)
	assert.True(t, ce.Written)
}

// What is said first, when several things are wrong at once, does not depend on
// the path: the caller has gone, what was asked for cannot be done, somebody else
// is at it.
func TestPrecedence(t *testing.T) {
	now := func(opts *compact.NowOptions) func(context.Context, *rig) error {
		return func(ctx context.Context, r *rig) error { _, err := r.e.CompactNow(ctx, r.agent, opts); return err }
	}
	region := func(start, end session.Seq) func(context.Context, *rig) error {
		return func(ctx context.Context, r *rig) error {
			_, err := r.e.CompactRegion(ctx, r.agent, start, end)
			return err
		}
	}
	auto := func(trigger compact.Trigger) func(context.Context, *rig) error {
		return func(ctx context.Context, r *rig) error {
			o, err := r.e.Consider(ctx, r.agent, trigger)
			if err == nil {
				return o.Code
			}
			return err
		}
	}
	apply := func(ctx context.Context, r *rig) error {
		_, err := r.e.Apply(ctx, r.agent, &compact.Plan{Shadowed: compact.Span{Start: 0, End: 7}, Fingerprint: "x"})
		return err
	}
	undo := func(ctx context.Context, r *rig) error { _, err := r.e.Undo(ctx, r.agent, session.NoSeq); return err }
	redo := func(ctx context.Context, r *rig) error { _, err := r.e.Redo(ctx, r.agent); return err }
	all := make([]session.Seq, 104)
	for i := range all {
		all[i] = session.Seq(i)
	}
	for name, c := range map[string]struct {
		run    func(context.Context, *rig) error
		rounds int
		change func(*engine.Options)
		alone  compact.Code // without a lease of somebody else
		busy   compact.Code // with one
	}{
		"region":            {region(0, 15), 26, nil, compact.SummaryFailed, compact.Busy},
		"region unknown":    {region(0, 999), 26, nil, compact.NotFound, compact.NotFound},
		"region reversed":   {region(4, 3), 26, nil, compact.Reversed, compact.Reversed},
		"region unbalanced": {region(0, 1), 26, nil, compact.Unbalanced, compact.Unbalanced},
		"now":               {now(nil), 26, nil, compact.SummaryFailed, compact.Busy},
		"now, all kept":     {now(&compact.NowOptions{Keep: all}), 26, nil, compact.NothingToCompact, compact.NothingToCompact},
		"plan":              {apply, 26, nil, compact.Changed, compact.Changed},
		"undo":              {undo, 26, nil, compact.NotFound, compact.NotFound},
		"redo":              {redo, 26, nil, compact.NotFound, compact.NotFound},
		"pressure":          {auto(compact.Pressure), 26, nil, compact.SummaryFailed, compact.Busy},
		"pressure, none":    {auto(compact.Pressure), 3, nil, compact.BelowThreshold, compact.BelowThreshold},
		"pressure, window":  {auto(compact.Pressure), 26, func(o *engine.Options) { o.Windows = nil }, compact.NoWindow, compact.NoWindow},
		"pressure, off":     {auto(compact.Pressure), 26, func(o *engine.Options) { o.Windows, o.AutoOff = nil, true }, compact.AutoOff, compact.AutoOff},
		"overflow":          {auto(compact.ContextOverflow), 26, nil, compact.SummaryFailed, compact.Busy},
		"overflow, none":    {auto(compact.ContextOverflow), 0, nil, compact.NothingToCompact, compact.NothingToCompact},
		"overflow, off":     {auto(compact.ContextOverflow), 26, func(o *engine.Options) { o.AutoOff = true }, compact.AutoOff, compact.AutoOff},
	} {
		t.Run(name, func(t *testing.T) {
			for _, busy := range []bool{true, false} {
				r := newRig(t, c.rounds, c.change)
				r.fails("boom")
				if c.rounds == 0 {
					r.append(session.UserText("hello"))
				}
				want := c.alone
				if busy {
					r.record(compact.Event(foreign("theirs")))
					want = c.busy
				}
				next := r.s.View().Next()
				ctx, cancel := context.WithCancelCause(t.Context())
				cause := errors.New("escape")
				cancel(cause)
				err := c.run(ctx, r)
				require.ErrorIs(t, err, compact.Cancelled)
				require.ErrorIs(t, err, cause)
				require.ErrorIs(t, c.run(t.Context(), r), want)
				if want != compact.SummaryFailed {
					assert.Equal(t, next, r.s.View().Next())
					assert.Zero(t, r.st.calls)
				}
			}
		})
	}
}

// Cancellation wins until the commit: also when it comes after the summary, from
// what the host is asked for the checkpoint.
func TestCancelledAfterTheSummary(t *testing.T) {
	for _, trigger := range []compact.Trigger{compact.Pressure, compact.ContextOverflow, compact.Now, compact.Region} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("escape")
		r := newRig(t, 26, func(o *engine.Options) {
			o.LiveNotes = func(context.Context, compact.Agent) []string { cancel(cause); return nil }
		})
		before := texts(t, r.s)
		var err error
		switch trigger {
		case compact.Now:
			_, err = r.e.CompactNow(ctx, r.agent, nil)
		case compact.Region:
			_, err = r.e.CompactRegion(ctx, r.agent, 0, 15)
		default:
			_, err = r.e.CompactIfNeeded(ctx, r.agent, trigger)
		}
		require.ErrorIs(t, err, compact.Cancelled, "%s", trigger)
		require.ErrorIs(t, err, cause)
		assert.Equal(t, before, texts(t, r.s))
		assert.Equal(t, compact.Cancelled, r.last().End.Code)
		assert.Len(t, r.last().End.Calls, 1)
	}
}

// TestRefusedKeyStaysOut: providers repeat the key that they refuse; neither the
// log nor the logger gets it.
func TestRefusedKeyStaysOut(t *testing.T) {
	const key = "sk-proj-4f9A2kLm8Qz7Xw3Vb6Nn1Rt5Yc0Pd9Js2Hg4"
	var told strings.Builder
	r := newRig(t, 6, func(o *engine.Options) { o.Logger = slog.New(slog.NewTextHandler(&told, nil)) })
	r.fails("401: Incorrect API key provided: " + key)
	_, err := r.e.CompactRegion(t.Context(), r.agent, 0, 15)
	require.Error(t, err)
	require.Contains(t, r.last().End.Error, "Incorrect API key")
	require.NotContains(t, r.last().End.Error, key)
	require.Contains(t, told.String(), "Incorrect API key")
	require.NotContains(t, told.String(), key)
}
