package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
)

func TestRegionRows(t *testing.T) {
	region := func(r *rig) error {
		_, err := r.e.CompactRegion(r.Context(), r.agent, 0, 15)
		return err
	}
	runRows(t, []row{
		{"RG-01", func(t *testing.T) {
			r := newRig(t, 6, nil)
			res, err := r.e.CompactRegion(t.Context(), r.agent, 0, 15)
			require.NoError(t, err)
			ev, err := r.s.View().Event(res.Summary)
			require.NoError(t, err)
			p, err := compact.Decode(ev)
			require.NoError(t, err)
			sum := p.(compact.SummaryEvent)
			assert.Equal(t, []string{"stub", "Short.", res.ID}, []string{sum.Summarizer, sum.Text, sum.ID})
			assert.Positive(t, sum.Before)
			assert.NotEmpty(t, sum.Ledger)
			assert.NotEmpty(t, sum.Verdict)
			assert.Equal(t, []compact.Call{{Model: "stub", Purpose: "summary", Prompt: 100, Completion: 10, Outcome: "ok"}}, r.last().End.Calls)
		}},
		{"RG-02", func(t *testing.T) {
			r := newRig(t, 6, nil)
			r.record(session.SetEnvelope{Envelope: session.Envelope{Provider: "p", Model: "routed"}})
			r.agent = compact.Agent{Session: r.s}
			require.NoError(t, region(r))
			q := r.st.seen[0]
			assert.Equal(t, []string{"p", "routed"}, []string{q.Provider, q.Model})
			assert.Equal(t, "routed", q.Envelope.Model)
			assert.Len(t, q.Items, 16)
			assert.True(t, q.Head, "the request can share the prompt cache")
			for i, it := range q.Items {
				assert.Equal(t, session.Seq(i), it.Seq)
			}
		}},
		{"RG-03", func(t *testing.T) {
			r := newRig(t, 2, nil)
			_, err := r.e.CompactRegion(t.Context(), r.agent, 77, 3)
			require.ErrorIs(t, err, compact.NotFound)
		}},
		{"RG-04", func(t *testing.T) {
			r := newRig(t, 2, nil)
			_, err := r.e.CompactRegion(t.Context(), r.agent, 0, 77)
			require.ErrorIs(t, err, compact.NotFound)
		}},
		{"RG-05", func(t *testing.T) {
			r := newRig(t, 2, nil)
			for _, c := range []struct {
				start, end session.Seq
				code       compact.Code
			}{{4, 3, compact.Reversed}, {2, 7, compact.Unbalanced}, {0, 5, compact.Unbalanced}} {
				_, err := r.e.CompactRegion(t.Context(), r.agent, c.start, c.end)
				require.ErrorIs(t, err, c.code)
			}
		}},
		{"RG-06", func(t *testing.T) {
			r := newRig(t, 6, nil)
			r.during(func(context.Context) { require.ErrorIs(t, region(r), compact.Busy) })
			require.NoError(t, region(r))
		}},
		{"RG-09", func(t *testing.T) {
			r := newRig(t, 6, nil)
			boom := errors.New("boom")
			r.st.collect = func(context.Context, int, *summarize.Request) (string, error) { return "", boom }
			before := texts(t, r.s)
			require.ErrorIs(t, region(r), boom)
			assert.Equal(t, before, texts(t, r.s))
			assert.Contains(t, r.last().End.Error, "boom")
		}},
		{"RG-11", func(t *testing.T) {
			r := newRig(t, 6, nil)
			r.during(func(context.Context) { r.record(session.TurnStart{}, session.TurnEnd{}) })
			require.NoError(t, region(r))
		}},
		{"RG-13", func(t *testing.T) {
			r := newRig(t, 1, nil)
			_, err := r.e.CompactRegion(t.Context(), r.agent, 0, 0) // a line that no checkpoint can undercut
			require.ErrorIs(t, err, compact.NotSmaller)
			assert.Equal(t, session.NoSeq, r.last().Summary)
		}},
		{"RG-14", func(t *testing.T) {
			r := newRig(t, 6, func(o *engine.Options) { o.Windows = nil })
			r.agent = compact.Agent{Session: r.s}
			require.NoError(t, region(r))
		}},
		{"SM-05", func(t *testing.T) {
			r := newRig(t, 6, nil)
			r.record(session.SetEnvelope{Envelope: session.Envelope{Provider: "other", Model: "other"}})
			require.NoError(t, region(r)) // the agent's own word counts most here
			assert.Equal(t, []string{"p", "m"}, []string{r.st.seen[0].Provider, r.st.seen[0].Model})
		}},
		{"SM-08", func(t *testing.T) {
			r := newRig(t, 6, nil)
			require.NoError(t, region(r))
			assert.Equal(t, []string{"p", "m"}, []string{r.st.seen[0].Provider, r.st.seen[0].Model})
			assert.Nil(t, r.st.seen[0].Envelope)
		}},
	})
}

func TestManualRows(t *testing.T) {
	region := func(r *rig) error {
		_, err := r.e.CompactRegion(r.Context(), r.agent, 0, 15)
		return err
	}
	now := func(r *rig) error {
		_, err := r.e.CompactNow(r.Context(), r.agent, nil)
		return err
	}
	changed := func(change session.Body) func(t *testing.T) {
		return func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.during(func(context.Context) { r.record(change) })
			require.ErrorIs(t, now(r), compact.Changed)
			r.st.collect = nil
			require.NoError(t, now(r), "the lease is free again")
		}
	}
	runRows(t, []row{
		{"MN-01", func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.during(func(context.Context) { r.append(session.UserText("a new prompt")) })
			require.NoError(t, now(r))
			got := texts(t, r.s)
			assert.True(t, compact.IsCheckpointSource(r.s.View().Node(0).Source()))
			assert.Equal(t, "a new prompt", got[len(got)-1])
		}},
		{"MN-02", func(t *testing.T) {
			r := newRig(t, 10, nil)
			note := session.UserText("from a plugin")
			note.Source = session.Source{Kind: session.SourcePlugin, Plugin: "clock"}
			r.during(func(context.Context) { r.append(note) })
			require.NoError(t, now(r))
			assert.Equal(t, 1, strings.Count(strings.Join(texts(t, r.s), "\n"), "from a plugin"))
		}},
		{"MN-05", func(t *testing.T) {
			r := newRig(t, 10, nil)
			before := texts(t, r.s)
			r.fails("boom")
			require.ErrorIs(t, now(r), compact.SummaryFailed)
			assert.Equal(t, before, texts(t, r.s))
			assert.Equal(t, compact.SummaryFailed, r.last().End.Code)
			r.append(session.UserText("the next prompt"))
		}},
		{"MN-06", func(t *testing.T) {
			r := newRig(t, 0, nil)
			r.append(session.UserText("hello"))
			require.ErrorIs(t, now(r), compact.NothingToCompact)
			assert.Equal(t, session.Seq(1), r.s.View().Next())
		}},
		{"MN-07", func(t *testing.T) {
			r := newRig(t, 10, func(o *engine.Options) { o.NewID = func() string { return "id-7" } })
			res, err := r.e.CompactNow(t.Context(), r.agent, nil)
			require.NoError(t, err)
			assert.Equal(t, "id-7", res.ID)
			for e := range r.s.View().Events(res.Start) {
				if e.Type != session.TypeReplace {
					p, err := compact.Decode(e)
					require.NoError(t, err)
					assert.Contains(t, fmt.Sprintf("%+v", p), "id-7")
				}
			}
			assert.Equal(t, "id-7", r.s.View().Node(0).Source().Ref)
			turn, _ := r.s.View().OpenTurn()
			assert.Zero(t, turn)
		}},
		{"MN-08", func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.record(compact.Event(compact.StartEvent{ID: "x", Holder: compact.Holder{Host: "elsewhere", PID: 1, Run: "r", Until: time.Now().Add(time.Hour)}}))
			require.ErrorIs(t, now(r), compact.Busy)
		}},
		{"MN-09", func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.record(compact.Event(compact.StartEvent{ID: "x", Holder: compact.Holder{Host: "elsewhere", PID: 1, Run: "r", Until: time.Now().Add(-time.Hour)}}))
			require.NoError(t, now(r))
		}},
		{"MN-10", func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.record(session.TurnStart{}, compact.Event(compact.StartEvent{ID: "x", Holder: compact.Holder{Host: "elsewhere", PID: 1, Run: "r", Until: time.Now().Add(-time.Hour)}}))
			_, err := r.s.Repair(t.Context())
			require.NoError(t, err)
			require.NoError(t, now(r))
		}},
		{"MN-13", changed(session.Replace{Start: 0, End: 0, Message: session.UserText("other")})},
		{"MN-14", changed(session.Replace{Start: 7, End: 7, Message: session.AssistantText("other")})},
		{"MN-15", func(t *testing.T) {
			var r *rig
			r = newRig(t, 10, func(o *engine.Options) {
				o.LiveNotes = func(context.Context, compact.Agent) []string { // asked when the summary is there
					if r.starts() == 1 {
						r.record(session.Replace{Start: 7, End: 7, Message: session.AssistantText("other")})
					}
					return nil
				}
			})
			require.ErrorIs(t, now(r), compact.Changed)
			require.NoError(t, now(r))
		}},
		{"MN-17", func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.fails("boom")
			r.faulty.On(2, sessiontest.Fail)
			err := now(r)
			require.ErrorIs(t, err, compact.SummaryFailed)
			require.ErrorIs(t, err, sessiontest.ErrFault, "both failures are told")
			r.st.collect = nil
			require.NoError(t, now(r), "nobody is blocked")
		}},
		{"MN-19", func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.faulty.On(2, sessiontest.Fail)
			require.ErrorIs(t, now(r), compact.CommitFailed)
			assert.Equal(t, compact.CommitFailed, r.last().End.Code)
			require.NoError(t, now(r))
		}},
		{"MN-21", func(t *testing.T) {
			r := newRig(t, 10, nil)
			require.NoError(t, now(r))
			for e := range r.s.View().Events(0) {
				assert.NotEqual(t, session.TypeTurnStart, e.Type)
			}
		}},
		{"MN-23", func(t *testing.T) {
			for _, rounds := range []int{0, 10} {
				r := newRig(t, rounds, nil)
				next := r.s.View().Next()
				_, err := r.e.CompactNow(ctxDone, r.agent, nil)
				require.ErrorIs(t, err, compact.Cancelled)
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, next, r.s.View().Next())
			}
		}},
		{"MN-24", func(t *testing.T) {
			r := newRig(t, 10, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("escape")
			r.st.collect = func(context.Context, int, *summarize.Request) (string, error) {
				cancel(cause)
				return "", errors.New("boom")
			}
			_, err := r.e.CompactNow(ctx, r.agent, nil)
			require.ErrorIs(t, err, cause)
			assert.Equal(t, compact.Cancelled, r.last().End.Code)
		}},
		{"MN-26", func(t *testing.T) {
			r := newRig(t, 10, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("escape")
			r.during(func(context.Context) { cancel(cause) })
			_, err := r.e.CompactNow(ctx, r.agent, nil)
			require.ErrorIs(t, err, cause)
			assert.Equal(t, session.NoSeq, r.last().Summary)
		}},
		{"MN-28", func(t *testing.T) {
			r := newRig(t, 10, nil)
			require.NoError(t, now(r))
			assert.Equal(t, 100, r.last().End.Calls[0].Prompt)
			assert.Equal(t, 10, r.last().End.Calls[0].Completion)
		}},
		{"MN-29", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 10, nil)
				r.during(func(context.Context) { time.Sleep(3 * time.Second) })
				res, err := r.e.CompactNow(t.Context(), r.agent, nil)
				require.NoError(t, err)
				assert.Equal(t, 3*time.Second, res.Duration)
				start, _ := r.s.View().Event(res.Start)
				end, _ := r.s.View().Event(res.End)
				assert.Equal(t, 3*time.Second, end.Time.Sub(start.Time))
			})
		}},
		{"MN-30", func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.during(func(context.Context) { require.ErrorIs(t, region(r), compact.Busy) })
			require.NoError(t, now(r))
		}},
		{"MN-31", func(t *testing.T) {
			r := newRig(t, 10, nil)
			r.during(func(context.Context) { require.ErrorIs(t, now(r), compact.Busy) })
			require.NoError(t, region(r))
		}},
	})
}
