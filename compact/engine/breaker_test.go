package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

// Somebody who tries by hand and fails does not open the breaker for automatic
// attempts.
func TestByHandDoesNotResetTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 26, nil)
		r.fails("boom")
		for range 3 {
			_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
			require.ErrorIs(t, err, compact.SummaryFailed)
			time.Sleep(10 * time.Minute)
		}
		calls := r.st.calls
		_, err := r.e.CompactNow(t.Context(), r.agent, nil)
		require.ErrorIs(t, err, compact.SummaryFailed)
		assert.Equal(t, calls+1, r.st.calls, "by hand it is tried")
		_, err = r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
		require.ErrorIs(t, err, compact.SummaryFailed) // the wait is over
		_, err = r.e.CompactNow(t.Context(), r.agent, nil)
		require.Error(t, err)
		assert.Equal(t, compact.BreakerOpen, r.consider(compact.Pressure).Code)
		r.st.collect = nil
		_, err = r.e.CompactNow(t.Context(), r.agent, nil)
		require.NoError(t, err)
		h := compact.HistoryOf(r.s)
		assert.Zero(t, h.Failures(), "a success does")
	})
}

// A run after a failure asks once: it is a probe.
func TestProbesAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 26, func(o *engine.Options) { o.Run.Attempts = 3 })
		r.st.collect = func(context.Context, int, *summarize.Request) (string, error) {
			return "", &summarize.Failure{Class: summarize.Transient}
		}
		for range 100 {
			_, _ = r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
			talk(t, r.s, 1)
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, r.st.calls, 5, "an always failing summarizer over 100 steps")
		r.st.collect = nil
		time.Sleep(2 * time.Minute)
		assert.NotNil(t, r.consider(compact.Pressure).Result, "it works again within one cool-down")
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		down := true
		st := &stub{}
		st.collect = func(context.Context, int, *summarize.Request) (string, error) {
			if down {
				return "", &summarize.Failure{Class: summarize.Auth, Detail: "no credit"}
			}
			return "Short.", nil
		}
		e := newEngine(t, st, func(o *engine.Options) { o.Windows = engine.FixedWindow(20_000) })
		agent := compact.Agent{Session: s}
		talk(t, s, 45)
		for range 100 {
			_, _ = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
			talk(t, s, 1)
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, st.calls, 5)
		o, err := e.Consider(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		assert.Equal(t, compact.BreakerOpen, o.Code)
		down = false
		time.Sleep(time.Hour)
		_, err = s.Append(t.Context(), session.UserText("go on"))
		require.NoError(t, err)
		r, err := e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		require.NotNil(t, r, "half open: one attempt is let through")
		h := compact.HistoryOf(s)
		assert.Zero(t, h.Failures())
	})
}

// What bounds attempts is in the log: a process that is started anew at every step
// makes no more of them, and an open breaker lets one attempt through when it has
// cooled down, which shuts it or opens it for longer.
func TestBreakerAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemoryStore()
		calls, down := 0, true
		// step is a process of its own; it reports whether something was committed.
		step := func() (compact.Code, bool) {
			copied := session.NewMemoryStore()
			require.NoError(t, copied.Append(t.Context(), 0, store.Events()))
			store = copied
			s := open(t, store)
			e := newEngine(t, &stub{collect: func(context.Context, int, *summarize.Request) (string, error) {
				if calls++; down {
					return "", &summarize.Failure{Class: summarize.Auth}
				}
				return "Short.", nil
			}}, nil)
			talk(t, s, 1)
			o, err := e.Consider(t.Context(), compact.Agent{Session: s}, compact.Pressure)
			var ce *compact.Error
			if errors.As(err, &ce) {
				return ce.Code, false
			}
			require.NoError(t, err)
			return o.Code, o.Result != nil
		}
		for range 26 {
			talk(t, open(t, store), 1)
		}
		for range 50 {
			_, _ = step()
			time.Sleep(2 * time.Second)
		}
		assert.LessOrEqual(t, calls, 5)
		for range 3 { // until the breaker is open for long
			time.Sleep(10 * time.Minute)
			before := calls
			code, _ := step()
			assert.Equal(t, compact.SummaryFailed, code, "half open: one attempt")
			assert.Equal(t, before+1, calls)
			code, _ = step()
			assert.Equal(t, compact.BreakerOpen, code, "and open again")
			assert.Equal(t, before+1, calls)
		}
		down = false
		code, _ := step()
		assert.Equal(t, compact.BreakerOpen, code, "nobody knows that it has recovered")
		time.Sleep(32 * time.Minute) // one cool-down, the longest
		_, committed := step()
		assert.True(t, committed)
		code, _ = step()
		assert.Equal(t, compact.BelowThreshold, code)
	})
}

// A clock that was set back does not keep automatic compaction off until it has
// caught up; one that is a little behind another host's still waits.
func TestBreakerAfterTheClockWasSetBack(t *testing.T) {
	now := time.Now()
	st := &stub{collect: func(context.Context, int, *summarize.Request) (string, error) {
		return "", &summarize.Failure{Class: summarize.Auth, Detail: "no credit"}
	}}
	clock := func() time.Time { return now }
	s, err := session.Open(t.Context(), session.NewMemoryStore(), &session.Options{Now: clock})
	require.NoError(t, err)
	defer s.Close()
	e := newEngine(t, st, func(o *engine.Options) { o.Windows, o.Now = engine.FixedWindow(20_000), clock })
	talk(t, s, 45)
	try := func() error {
		_, err := e.CompactIfNeeded(t.Context(), compact.Agent{Session: s}, compact.Pressure)
		return err
	}
	require.ErrorIs(t, try(), compact.SummaryFailed)
	now = now.Add(-30 * time.Second)
	require.NoError(t, try())
	require.Equal(t, 1, st.calls, "within the cool-down")
	now = now.Add(-30 * 24 * time.Hour)
	require.ErrorIs(t, try(), compact.SummaryFailed)
	require.NoError(t, try())
	require.Equal(t, 2, st.calls, "once for each jump")
	require.NoError(t, compact.CheckLog(s.View()))
}

func TestNoSession(t *testing.T) {
	e := newEngine(t, &stub{}, nil)
	_, err := e.Undo(t.Context(), compact.Agent{}, session.NoSeq)
	require.ErrorContains(t, err, "no session")
	_, err = e.Redo(t.Context(), compact.Agent{})
	require.ErrorContains(t, err, "no session")
	require.ErrorContains(t, e.WaitBackground(t.Context(), compact.Agent{}), "no session")
}

// A window below one is unknown, whoever says it.
func TestImpossibleWindow(t *testing.T) {
	s := open(t, nil)
	talk(t, s, 45)
	e := newEngine(t, &stub{}, func(o *engine.Options) { o.Windows = engine.FixedWindow(-1) })
	_, err := e.CompactIfNeeded(t.Context(), compact.Agent{Session: s}, compact.Pressure)
	require.ErrorIs(t, err, compact.NoWindow)
	out, err := e.Consider(t.Context(), compact.Agent{Session: s}, compact.ContextOverflow)
	require.NoError(t, err)
	require.Zero(t, out.Window)
}
