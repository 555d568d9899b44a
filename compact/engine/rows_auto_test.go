package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/compacttest"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/toolpairing"
)

func TestAutomaticRows(t *testing.T) {
	runRows(t, []row{
		{"AU-01", func(t *testing.T) {
			assert.Nil(t, newRig(t, 3, nil).consider(compact.Pressure).Result)
			assert.NotNil(t, newRig(t, 26, nil).consider(compact.Pressure).Result)
		}},
		{"AU-02", func(t *testing.T) {
			r := newRig(t, 26, nil)
			_, err := r.e.CompactIfNeeded(ctxDone, r.agent, compact.Pressure)
			require.ErrorIs(t, err, compact.Cancelled)
			assert.Zero(t, r.st.calls+r.starts())
		}},
		{"AU-03", func(t *testing.T) {
			r := newRig(t, 26, nil)
			r.fails("boom")
			_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
			require.ErrorIs(t, err, compact.SummaryFailed)
			r.append(session.UserText("the step goes on"))
		}},
		{"AU-04", func(t *testing.T) {
			var log bytes.Buffer
			r := newRig(t, 26, func(o *engine.Options) {
				o.Windows, o.Logger = nil, slog.New(slog.NewTextHandler(&log, nil))
			})
			for range 2 {
				_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
				require.ErrorIs(t, err, compact.NoWindow)
			}
			assert.Equal(t, 1, strings.Count(log.String(), "unknown"))
			r.agent.Model = "another"
			_, _ = r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
			assert.Equal(t, 2, strings.Count(log.String(), "unknown"), "once for each route")
		}},
		{"AU-05", func(t *testing.T) {
			r := newRig(t, 26, func(o *engine.Options) { o.Policy.RetainTokens = 9_000 }) // above the threshold
			for range 2 {
				assert.Equal(t, compact.NoProgress, r.consider(compact.Pressure).Code)
			}
			assert.Zero(t, r.st.calls+r.starts())
		}},
		{"AU-06", func(t *testing.T) {
			r := newRig(t, 4, nil)
			newest := r.s.View().Node(r.s.View().Len() - 1).Seq
			o := r.consider(compact.ContextOverflow)
			require.NotNil(t, o.Result)
			assert.True(t, o.RetryUseful)
			assert.Equal(t, o.GenerationBefore+1, o.GenerationAfter)
			assert.Equal(t, newest, r.s.View().Node(r.s.View().Len()-1).Seq)
		}},
		{"AU-07", func(t *testing.T) {
			r := newRig(t, 0, pruning)
			r.pair("c", 5_000)
			o := r.consider(compact.ContextOverflow)
			assert.Nil(t, o.Result)
			assert.Len(t, o.Pruned, 1)
			assert.True(t, o.RetryUseful)
			assert.Equal(t, uint64(1), r.s.View().Generation())
			assert.Zero(t, r.st.calls)
		}},
		{"AU-08", func(t *testing.T) {
			r := newRig(t, 0, pruning)
			r.pair("big", 5_000)
			talk(t, r.s, 8)
			o := r.consider(compact.ContextOverflow)
			require.NotNil(t, o.Result)
			assert.True(t, o.RetryUseful)
			assert.Contains(t, r.asked(0), "left out; history")
		}},
		{"AU-09", func(t *testing.T) {
			var log bytes.Buffer
			r := newRig(t, 0, func(o *engine.Options) { pruning(o); o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			r.pair("big", 5_000)
			talk(t, r.s, 8)
			r.fails("boom")
			o := r.consider(compact.ContextOverflow)
			assert.Nil(t, o.Result)
			assert.Equal(t, compact.SummaryFailed, o.Code)
			assert.True(t, o.RetryUseful)
			assert.Contains(t, r.last().End.Error, "boom")
			assert.Contains(t, log.String(), "boom")
		}},
		{"AU-10", func(t *testing.T) {
			r := newRig(t, 0, pruning)
			r.pair("big", 5_000)
			talk(t, r.s, 8)
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("escape")
			r.st.collect = func(context.Context, int, *summarize.Request) (string, error) {
				cancel(cause)
				return "", errors.New("boom")
			}
			_, err := r.e.CompactIfNeeded(ctx, r.agent, compact.ContextOverflow)
			require.ErrorIs(t, err, compact.Cancelled)
			require.ErrorIs(t, err, cause)
			var ce *compact.Error
			require.ErrorAs(t, err, &ce)
			assert.True(t, ce.Written)
			assert.Equal(t, uint64(1), r.s.View().Generation(), "the pruning stays")
		}},
		{"AU-11", func(t *testing.T) {
			r := newRig(t, 6, nil)
			r.pair("newest", 50)
			require.NotNil(t, r.consider(compact.ContextOverflow).Result)
			v := r.s.View()
			x := toolpairing.Of(v)
			assert.Equal(t, []string{"newest"}, v.Node(v.Len()-1).Results())
			assert.True(t, x.Balanced(v.Len()-2) && x.Balanced(v.Len()))
		}},
		{"AU-13", func(t *testing.T) {
			r := newRig(t, 0, nil)
			r.append(session.UserText("hello"))
			o := r.consider(compact.ContextOverflow)
			assert.False(t, o.RetryUseful, "the refusal stands")
			assert.NotEmpty(t, o.Code)
		}},
		{"AU-16", func(t *testing.T) {
			r := newRig(t, 6, func(o *engine.Options) { o.Windows = nil })
			r.agent.Model = "unlisted"
			assert.NotNil(t, r.consider(compact.ContextOverflow).Result)
		}},
		{"AU-18", func(t *testing.T) {
			r := newRig(t, 6, nil)
			res, err := r.e.Rejected(t.Context(), r.agent, errors.New("rate limit exceeded, try again in 20s"))
			require.NoError(t, err)
			assert.False(t, res.Overflow)
			res, err = r.e.Rejected(t.Context(), r.agent, errors.New("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."))
			require.NoError(t, err)
			assert.True(t, res.Overflow)
		}},
		{"AU-22", func(t *testing.T) {
			r := newRig(t, 26, func(o *engine.Options) { o.AutoOff = true })
			next := r.s.View().Next()
			for _, trigger := range []compact.Trigger{compact.Pressure, compact.ContextOverflow} {
				o := r.consider(trigger)
				assert.Equal(t, compact.AutoOff, o.Code)
				assert.False(t, o.RetryUseful)
			}
			ok, err := r.e.StartBackground(t.Context(), r.agent)
			require.NoError(t, err)
			assert.False(t, ok)
			assert.Equal(t, next, r.s.View().Next())
			_, err = r.e.CompactNow(t.Context(), r.agent, nil)
			require.NoError(t, err, "by hand it works")
		}},
	})
}

func TestLoopRows(t *testing.T) {
	// loop is an agent that checks before every step.
	loop := func(r *rig, steps int) (checks []*compact.Result) {
		r.record(session.TurnStart{}, session.Append{Message: session.UserText("Do it.")})
		for i := range steps {
			res, err := r.e.CompactIfNeeded(r.Context(), r.agent, compact.Pressure)
			require.NoError(r, err)
			if res != nil {
				checks = append(checks, res)
			}
			r.record(session.StepStart{})
			r.pair(fmt.Sprint("s", i), 500)
			r.record(session.StepEnd{})
		}
		r.record(session.TurnEnd{Reason: "completed"})
		return checks
	}
	runRows(t, []row{
		{"LP-01", func(t *testing.T) {
			r := newRig(t, 0, func(o *engine.Options) {
				o.Windows = engine.WindowFunc(func(_, model string) (int, bool) { return 10_000, model == "routed" })
			})
			r.record(session.SetEnvelope{Envelope: session.Envelope{Provider: "p", Model: "routed"}})
			r.agent = compact.Agent{Session: r.s}
			assert.NotEmpty(t, loop(r, 30))
		}},
		{"LP-02", func(t *testing.T) {
			r := newRig(t, 0, nil)
			results := loop(r, 40)
			require.NotEmpty(t, results)
			open := false
			for e := range r.s.View().Events(0) {
				switch e.Type {
				case session.TypeStepStart:
					open = true
				case session.TypeStepEnd:
					open = false
				case compact.TypeStart, compact.TypeEnd:
					assert.False(t, open, "event %d lies in a step", e.Seq)
				}
			}
		}},
		{"LP-03", func(t *testing.T) {
			r := newRig(t, 0, nil)
			require.NotEmpty(t, loop(r, 60))
			compacttest.Verify(t, r.s)
			got := texts(t, r.s)
			assert.Contains(t, got, "Do it.", "a turn that ran away is compacted at its steps, its prompt stays")
		}},
		{"LP-04", func(t *testing.T) {
			r := newRig(t, 12, nil)
			r.record(session.TurnStart{}, session.Append{Message: session.UserText("And now?")}, session.StepStart{})
			o := r.consider(compact.ContextOverflow)
			require.NotNil(t, o.Result)
			assert.Equal(t, 1, r.st.calls)
			got := strings.Join(texts(t, r.s), "\n")
			assert.NotContains(t, got, strings.Repeat("line0 ", 10), "the old text is not in the next request")
			assert.Contains(t, got, "And now?")
			r.append(session.AssistantText("Done."))
			r.record(session.StepEnd{}, session.TurnEnd{Reason: "completed"})
		}},
	})
}
