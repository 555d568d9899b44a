package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

// TestFaults shows that what other compaction got wrong does not happen here.
func TestFaults(t *testing.T) {
	now := func(r *rig) error { _, err := r.e.CompactNow(r.Context(), r.agent, nil); return err }
	runRows(t, []row{
		{"F-03", func(t *testing.T) { // pruning under a running compaction
			r := newRig(t, 26, pruning)
			r.during(func(context.Context) {
				next, before := r.s.View().Next(), texts(t, r.s)
				_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.ContextOverflow)
				require.ErrorIs(t, err, compact.Busy)
				_, err = r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
				require.ErrorIs(t, err, compact.Busy)
				assert.Equal(t, next, r.s.View().Next())
				assert.Equal(t, before, texts(t, r.s))
			})
			require.NoError(t, now(r), "what is paid for is committed")
		}},
		{"F-05", func(t *testing.T) { // cancellation after the summary, on the automatic path
			for _, trigger := range []compact.Trigger{compact.Pressure, compact.ContextOverflow} {
				r := newRig(t, 26, nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				cause := errors.New("escape")
				r.during(func(context.Context) { cancel(cause) })
				before := texts(t, r.s)
				_, err := r.e.CompactIfNeeded(ctx, r.agent, trigger)
				require.ErrorIs(t, err, cause)
				assert.Equal(t, before, texts(t, r.s))
			}
		}},
		{"F-06", func(t *testing.T) { // a dead process, without anybody who cleans up
			r := newRig(t, 10, nil)
			r.record(compact.Event(compact.StartEvent{ID: "x", Holder: compact.Holder{Host: "elsewhere", PID: 1, Run: "r", Until: time.Now().Add(-time.Second)}}))
			require.NoError(t, now(r))
		}},
		{"F-07", func(t *testing.T) { // durable when it returns, automatic or not
			r := newRig(t, 26, nil)
			store := r.faulty.Store.(*session.MemoryStore)
			require.NotNil(t, r.consider(compact.Pressure).Result)
			list := store.Events()
			assert.Equal(t, compact.TypeEnd, list[len(list)-1].Type)
		}},
		{"F-08", func(t *testing.T) { // the summarizer's window is smaller than the span
			r := newRig(t, 20, nil)
			r.st.collect = func(_ context.Context, _ int, req *summarize.Request) (string, error) {
				size := 0
				for _, it := range req.Items {
					size += it.Tokens
				}
				if size > 3_000 {
					return "", &summarize.Failure{Class: summarize.Overflow, Limit: 3_000, Actual: size}
				}
				return "Short.", nil
			}
			res, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.ContextOverflow)
			require.NoError(t, err)
			require.NotNil(t, res)
			assert.Greater(t, len(res.Calls), 2, "it is cut into pieces")
		}},
		{"F-09", func(t *testing.T) { // the same again at every step
			r := newRig(t, 26, nil)
			r.st.collect = func(context.Context, int, *summarize.Request) (string, error) { return fill(9_000, "long"), nil }
			for range 20 {
				_, _ = r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
			}
			assert.Equal(t, 1, r.st.calls)
			r = newRig(t, 10, nil)
			require.NoError(t, now(r))
			require.ErrorIs(t, now(r), compact.NothingToCompact)
			assert.Equal(t, 1, r.st.calls)
		}},
		{"F-10", func(t *testing.T) { // a gain that is none
			for gain, code := range map[float64]compact.Code{-1: "", 0.97: compact.NotSmaller} {
				r := newRig(t, 4, func(o *engine.Options) { o.Policy.MinGain = gain })
				_, err := r.e.CompactRegion(t.Context(), r.agent, 0, 3)
				if code == "" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, code)
				}
			}
		}},
		{"F-11", func(t *testing.T) { // room for the reply
			r := newRig(t, 16, func(o *engine.Options) { o.Policy.ReserveOutput = 4_500 })
			o := r.consider(compact.Pressure)
			require.NotNil(t, o.Result)
			assert.Equal(t, 5_500, o.Threshold)
		}},
		{"F-12", func(t *testing.T) { // what the provider counted decides, and where it ends
			r := newRig(t, 16, nil)
			assert.Equal(t, compact.BelowThreshold, r.consider(compact.Pressure).Code)
			r.record(session.Usage{Node: r.s.View().Node(r.s.View().Len() - 1).Seq, Prompt: 9_000, Completion: 10, Provider: "p", Model: "m"})
			o := r.consider(compact.Pressure)
			require.NotNil(t, o.Result)
			assert.Equal(t, 9_010, o.Tokens)
			assert.Less(t, o.After, 8_000, "in the provider's tokens")
			assert.Equal(t, compact.BelowThreshold, r.consider(compact.Pressure).Code)
		}},
		{"F-13", func(t *testing.T) { // the newest results are shortened first
			r := newRig(t, 26, pruning)
			v := r.s.View()
			newest := v.Node(v.Len() - 2).Seq
			for _, p := range r.consider(compact.Pressure).Pruned {
				assert.NotEqual(t, newest, p.Node)
			}
			_, err := r.s.View().Position(newest)
			require.NoError(t, err)
		}},
		{"F-14", func(t *testing.T) { // one huge message of the user's
			r := newRig(t, 0, nil)
			r.append(session.UserText("Read this. "+fill(9_000, "log")+" Mind the end: KEEP-17."), session.AssistantText("I have."), session.UserText("Good."), session.AssistantText("Thanks."))
			o := r.consider(compact.Pressure)
			require.NotNil(t, o.Result)
			got := strings.Join(texts(t, r.s), "\n")
			assert.Contains(t, got, "Read this.")
			assert.Contains(t, got, "KEEP-17")
			assert.Less(t, r.s.View().SurfaceTokens(), 3_000)
		}},
		{"F-16", func(t *testing.T) { // no way back to what is hidden
			r := newRig(t, 10, nil)
			res, err := r.e.CompactNow(t.Context(), r.agent, nil)
			require.NoError(t, err)
			m, err := r.s.View().Message(0)
			require.NoError(t, err)
			list := compact.ParsePointers(m.Text())
			require.Len(t, list, 1)
			assert.Equal(t, compact.Pointer{Compaction: res.ID, Start: res.Shadowed.Start, End: res.Shadowed.End, Count: len(res.Seqs)}, list[0])
		}},
		{"F-17", func(t *testing.T) { // pins on every path
			r := newRig(t, 2, pruning)
			r.pair("p", 3_000)
			v := r.s.View()
			result := v.Node(v.Len() - 1).Seq
			r.record(session.Pin{Nodes: []session.Seq{result}})
			talk(t, r.s, 18)
			for _, trigger := range []compact.Trigger{compact.Pressure, compact.ContextOverflow, compact.ContextOverflow} {
				_ = r.consider(trigger)
			}
			_, _ = r.e.CompactNow(t.Context(), r.agent, nil)
			p, err := r.s.View().Position(result)
			require.NoError(t, err, "it is neither folded nor shortened")
			assert.Equal(t, []string{"p"}, r.s.View().Node(p-1).Calls(), "with its call")
		}},
		{"F-18", func(t *testing.T) { // instructions, a dry run, progress
			r := newRig(t, 10, nil)
			p, err := r.e.Plan(t.Context(), r.agent, &compact.NowOptions{Instructions: "Mind item 3.", Turns: 40})
			require.NoError(t, err)
			assert.Zero(t, r.st.calls)
			assert.Equal(t, []string{"Mind item 3.", "stub"}, []string{p.Instructions, p.Summarizer})
			assert.Equal(t, 40, p.Turns)
			assert.Equal(t, p.Before-p.After, p.Saved)
			assert.Equal(t, session.NoSeq, p.Head.Outside)
			assert.Equal(t, p.Shadowed.End, p.Tail.Inside)
			v := r.s.View()
			at, err := v.Position(p.Tail.Inside)
			require.NoError(t, err)
			assert.Equal(t, v.Node(at+1).Seq, p.Tail.Outside)
			ctx := engine.WithProgress(t.Context(), func(summarize.Progress) {})
			_, err = r.e.Apply(ctx, r.agent, p)
			require.NoError(t, err)
			assert.Contains(t, r.st.seen[0].Instructions, "Mind item 3.")
			assert.NotNil(t, r.st.seen[0].Progress)
		}},
		{"F-20", func(t *testing.T) { // calls that nobody adds up
			r := newRig(t, 10, func(o *engine.Options) { o.Run.Attempts = 3 })
			r.st.collect = func(_ context.Context, n int, _ *summarize.Request) (string, error) {
				if n < 3 {
					return "", &summarize.Failure{Class: summarize.Transient}
				}
				return "Short.", nil
			}
			res, err := r.e.CompactNow(t.Context(), r.agent, nil)
			require.NoError(t, err)
			assert.Len(t, res.Calls, 3, "failed ones included")
			assert.Equal(t, res.Calls, r.last().End.Calls)
			r.fails("boom")
			talk(t, r.s, 6)
			r.st.collect = func(context.Context, int, *summarize.Request) (string, error) {
				return "", &summarize.Failure{Class: summarize.Auth}
			}
			var ce *compact.Error
			require.ErrorAs(t, now(r), &ce)
			assert.Len(t, ce.Calls, 1)
			assert.Equal(t, ce.Calls, r.last().End.Calls)
		}},
		{"F-25", func(t *testing.T) { // shadowed lists that grow with the span
			r := newRig(t, 40, nil)
			res, err := r.e.CompactRegion(t.Context(), r.agent, 0, 151)
			require.NoError(t, err)
			ev, err := r.s.View().Event(res.Summary)
			require.NoError(t, err)
			b, err := session.AppendEvent(nil, ev)
			require.NoError(t, err)
			assert.Contains(t, string(b), `"seqs":[[0,151]]`)
		}},
	})
}
