package engine_test

import (
	"context"
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
