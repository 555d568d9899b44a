package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/compacttest"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// rig is an engine with a session.
type rig struct {
	*testing.T
	s      *session.Session
	faulty *sessiontest.Faulty
	st     *stub
	e      *engine.Engine
	agent  compact.Agent
}

func newRig(t *testing.T, rounds int, change func(*engine.Options)) *rig {
	t.Helper()
	r := &rig{T: t, st: new(stub), faulty: sessiontest.NewFaulty(session.NewMemoryStore())}
	r.s = open(t, r.faulty)
	r.e = newEngine(t, r.st, func(o *engine.Options) {
		o.Run.Attempts = 1
		if change != nil {
			change(o)
		}
	})
	r.agent = compact.Agent{Session: r.s, Provider: "p", Model: "m"}
	talk(t, r.s, rounds)
	return r
}

func pruning(o *engine.Options) { o.Prune = engine.Prune{ProtectTokens: 1} }

func (r *rig) append(messages ...session.Message) []session.Seq {
	r.Helper()
	seqs, err := r.s.Append(r.Context(), messages...)
	require.NoError(r, err)
	return seqs
}

func (r *rig) record(bodies ...session.Body) []session.Seq {
	r.Helper()
	seqs, err := r.s.Record(r.Context(), bodies...)
	require.NoError(r, err)
	return seqs
}

// pair appends a call with a result of so many tokens.
func (r *rig) pair(id string, tokens int) {
	r.Helper()
	r.append(session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: "{}"}), session.ToolText(id, fill(tokens, "out")))
}

func (r *rig) consider(trigger compact.Trigger) *compact.Outcome {
	r.Helper()
	o, err := r.e.Consider(r.Context(), r.agent, trigger)
	require.NoError(r, err)
	return o
}

func (r *rig) fails(text string) {
	r.st.collect = func(context.Context, int, *summarize.Request) (string, error) { return "", errors.New(text) }
}

// during lets something happen while the summary is made.
func (r *rig) during(do func(ctx context.Context)) {
	r.st.collect = func(ctx context.Context, _ int, _ *summarize.Request) (string, error) {
		do(ctx)
		return "Short.", nil
	}
}

func (r *rig) last() *compact.Attempt {
	h := compact.HistoryOf(r.s)
	return h.Last()
}

func (r *rig) starts() int {
	h := compact.HistoryOf(r.s)
	return len(h.Attempts)
}

// asked returns what the summarizer was asked, as text.
func (r *rig) asked(n int) string {
	var b strings.Builder
	for _, it := range r.st.seen[n].Items {
		b.WriteString(it.Message.Text() + "\n")
	}
	return b.String()
}

// system is a system prompt of so many tokens.
func system(tokens int) []session.Message {
	m := session.UserText(fill(tokens, "rule"))
	m.Role = session.RoleSystem
	return []session.Message{m}
}

type row struct {
	id  string
	run func(t *testing.T)
}

func runRows(t *testing.T, rows []row) {
	for _, r := range rows {
		t.Run(r.id, r.run)
	}
}

func TestServiceRows(t *testing.T) {
	runRows(t, []row{
		{"SV-03", func(t *testing.T) {
			r := newRig(t, 1, nil)
			for _, trigger := range []compact.Trigger{compact.Pressure, compact.ContextOverflow} {
				_, err := r.e.CompactIfNeeded(t.Context(), r.agent, trigger)
				require.NoError(t, err)
			}
			_, err := r.e.CompactNow(t.Context(), r.agent, nil)
			require.ErrorIs(t, err, compact.NothingToCompact)
		}},
		{"SV-04", func(t *testing.T) {
			r := newRig(t, 6, nil)
			res, err := r.e.CompactRegion(t.Context(), r.agent, 0, 15)
			require.NoError(t, err)
			var types []session.Type
			for e := range r.s.View().Events(res.Start) {
				types = append(types, e.Type)
			}
			assert.Equal(t, []session.Type{compact.TypeStart, compact.TypeSummary, session.TypeReplace, compact.TypeEnd}, types)
			assert.False(t, compact.IsCheckpointSource(session.Source{Kind: session.SourcePlugin, Plugin: "other"}))
			assert.False(t, compact.IsCheckpointSource(session.Source{Kind: session.SourceUser, Plugin: compact.Plugin}))
		}},
		{"SV-05", func(t *testing.T) {
			r := newRig(t, 26, nil)
			type key struct{}
			ctx := context.WithValue(t.Context(), key{}, 7)
			seen := 0
			r.during(func(ctx context.Context) { seen += ctx.Value(key{}).(int) })
			_, err := r.e.CompactIfNeeded(ctx, r.agent, compact.Pressure)
			require.NoError(t, err)
			talk(t, r.s, 6)
			_, err = r.e.CompactNow(ctx, r.agent, nil)
			require.NoError(t, err)
			assert.Equal(t, 14, seen)
		}},
	})
}

func TestPressureRows(t *testing.T) {
	runRows(t, []row{
		{"PR-02", func(t *testing.T) {
			r := newRig(t, 26, func(o *engine.Options) {
				o.Windows = engine.WindowFunc(func(provider, model string) (int, bool) { return 10_000, provider == "own" && model == "unlisted" })
			})
			r.agent.Provider, r.agent.Model = "own", "unlisted"
			assert.NotNil(t, r.consider(compact.Pressure).Result)
		}},
		{"PR-04", func(t *testing.T) {
			r := newRig(t, 12, func(o *engine.Options) {
				o.Windows = engine.WindowFunc(func(provider, _ string) (int, bool) {
					return map[string]int{"large": 100_000, "small": 5_000}[provider], true
				})
			})
			r.record(session.SetEnvelope{Envelope: session.Envelope{Provider: "large", Model: "m"}})
			r.agent = compact.Agent{Session: r.s}
			assert.Equal(t, compact.BelowThreshold, r.consider(compact.Pressure).Code)
			r.record(session.SetEnvelope{Envelope: session.Envelope{Provider: "small", Model: "m"}})
			o := r.consider(compact.Pressure)
			require.NotNil(t, o.Result)
			assert.Equal(t, 5_000, o.Window)
			assert.Less(t, o.After, 4_000)
		}},
		{"PR-05", func(t *testing.T) {
			r := newRig(t, 26, func(o *engine.Options) { o.Windows = nil })
			for range 2 {
				_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
				require.ErrorIs(t, err, compact.NoWindow)
				require.ErrorContains(t, err, `provider "p", model "m"`)
			}
			assert.NotNil(t, r.consider(compact.ContextOverflow).Result)
		}},
		{"PR-06", func(t *testing.T) {
			r := newRig(t, 0, nil)
			r.pair("c", 100)
			o := r.consider(compact.ContextOverflow)
			assert.Nil(t, o.Result)
			assert.Equal(t, compact.NothingToCompact, o.Code)
			assert.Zero(t, o.GenerationAfter)
			assert.Zero(t, r.starts())
		}},
		{"PR-07", func(t *testing.T) {
			r := newRig(t, 10, nil)
			assert.Nil(t, r.consider(compact.Pressure).Result)
			talk(t, r.s, 16)
			before := r.s.View()
			o := r.consider(compact.Pressure)
			require.NotNil(t, o.Result)
			assert.Equal(t, before.Node(0).Seq, o.Result.Shadowed.Start)
			assert.Less(t, r.s.View().Len(), before.Len())
		}},
		{"PR-08", func(t *testing.T) {
			r := newRig(t, 8, nil)
			assert.Equal(t, compact.BelowThreshold, r.consider(compact.Pressure).Code)
			r.record(session.SetEnvelope{Envelope: session.Envelope{Provider: "p", Model: "m",
				System: system(6_000)}})
			assert.NotNil(t, r.consider(compact.Pressure).Result)
			for i := range r.s.View().Len() {
				assert.NotEqual(t, session.RoleSystem, r.s.View().Node(i).Role())
			}
			assert.Len(t, r.st.seen[0].Envelope.System, 1, "it goes with the summarizer's request")
		}},
		{"PR-09", func(t *testing.T) {
			r := newRig(t, 8, nil)
			for _, size := range []int{5_000, 10} {
				r.record(session.SetEnvelope{Envelope: session.Envelope{Provider: "p", Model: "m",
					System: system(size)}})
			}
			assert.Equal(t, compact.BelowThreshold, r.consider(compact.Pressure).Code, "the newest envelope counts")
		}},
		{"PR-10", func(t *testing.T) {
			r := newRig(t, 0, nil)
			r.record(session.SetEnvelope{Envelope: session.Envelope{Provider: "p", Model: "m",
				System: system(9_000)}})
			assert.Nil(t, r.consider(compact.Pressure).Result)
			r.append(session.UserText("hello"), session.AssistantText("hello"))
			o := r.consider(compact.Pressure)
			assert.Nil(t, o.Result)
			assert.Equal(t, compact.Floor, o.Code)
			assert.Contains(t, o.Reason, "envelope")
			assert.Zero(t, r.st.calls+r.starts())
		}},
		{"PR-11", func(t *testing.T) {
			asked := 0
			r := newRig(t, 26, func(o *engine.Options) {
				o.Windows = engine.WindowFunc(func(string, string) (int, bool) { asked++; return 1_000_000, true })
			})
			_ = r.consider(compact.Pressure)
			assert.Equal(t, 1, asked, "one measurement decides")
		}},
		{"PR-12", func(t *testing.T) {
			r := newRig(t, 26, func(o *engine.Options) { o.Policy.RetainMessages = 90 })
			before := texts(t, r.s)
			o := r.consider(compact.Pressure)
			assert.Nil(t, o.Result)
			assert.Equal(t, compact.NoProgress, o.Code)
			assert.Contains(t, o.Reason, "threshold of 8000")
			assert.Equal(t, before, texts(t, r.s), "nothing is committed that does not help")
		}},
		{"PR-13", func(t *testing.T) {
			for tokens := 100; tokens < 1_000; tokens += 97 { // the cut falls everywhere
				r := newRig(t, 26, func(o *engine.Options) { o.Policy.RetainTokens = tokens })
				require.NotNil(t, r.consider(compact.Pressure).Result)
				assert.Empty(t, toolpairing.Of(r.s.View()).Diagnose())
				assert.LessOrEqual(t, r.s.View().Tokens(1, r.s.View().Len()), max(tokens, 400))
			}
		}},
		{"PR-15", func(t *testing.T) {
			r := newRig(t, 0, nil)
			r.pair("c", 9_000)
			o := r.consider(compact.Pressure)
			assert.Nil(t, o.Result)
			assert.Zero(t, r.st.calls+r.starts())
		}},
	})
}

func TestPruningRows(t *testing.T) {
	runRows(t, []row{
		{"PN-01", func(t *testing.T) {
			r := newRig(t, 10, pruning)
			o := r.consider(compact.Pressure)
			assert.Empty(t, o.Pruned)
			assert.Zero(t, r.s.View().Generation())
		}},
		{"PN-02", func(t *testing.T) {
			r := newRig(t, 26, pruning)
			res, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
			require.NoError(t, err)
			assert.Nil(t, res, "a pruning is no compaction")
			assert.Zero(t, r.st.calls+r.starts())
			assert.NotZero(t, r.s.View().Generation())
			assert.Less(t, r.s.View().SurfaceTokens(), 8_000)
		}},
		{"PN-03", func(t *testing.T) {
			r := newRig(t, 0, pruning)
			r.append(session.UserText("look"))
			r.pair("big", 3_000)
			for range 10 { // what cannot be shortened
				r.append(session.AssistantText(fill(700, "thought")))
			}
			o := r.consider(compact.Pressure)
			require.NotNil(t, o.Result)
			require.Len(t, o.Pruned, 1)
			assert.Contains(t, r.asked(0), "left out; history: 1 message, event 2]")
			assert.Less(t, len(r.asked(0)), 4*9_000)
		}},
		{"PN-04", func(t *testing.T) {
			r := newRig(t, 26, nil) // pruning is off
			o := r.consider(compact.Pressure)
			require.NotNil(t, o.Result)
			assert.Empty(t, o.Pruned)
			assert.Equal(t, uint64(1), r.s.View().Generation())
		}},
		{"PU-03", func(t *testing.T) {
			r := newRig(t, 0, func(o *engine.Options) { o.Policy.ResultCap, o.Prune = 100, engine.Prune{} })
			r.pair("small", 60)
			r.append(session.UserText("go on"))
			next := r.s.View().Next()
			assert.Empty(t, r.consider(compact.Pressure).Pruned)
			assert.Equal(t, next, r.s.View().Next())
		}},
		{"PU-05", func(t *testing.T) {
			r := newRig(t, 0, func(o *engine.Options) { o.Policy.ResultCap, o.Prune = 2_000, engine.Prune{} })
			img := session.Image{URL: "https://example.org/a.png"}
			r.append(session.AssistantText("", session.ToolCall{ID: "c", Name: "read", Arguments: "{}"}))
			m := session.ToolText("c", "")
			res := m.Parts[0].(session.ToolResult)
			res.Parts = []session.Part{session.Text{Text: fill(4_000, "first")}, img, session.Text{Text: fill(4_000, "second")}}
			m.Parts[0] = res
			r.append(m)
			o := r.consider(compact.Pressure)
			require.Len(t, o.Pruned, 1)
			got, err := r.s.View().Message(1)
			require.NoError(t, err)
			parts := got.Parts[0].(session.ToolResult).Parts
			require.Len(t, parts, 2)
			assert.Equal(t, img, parts[1], "pictures stay")
			assert.Equal(t, 1, strings.Count(got.Text(), "left out"))
			assert.Equal(t, "c", got.Parts[0].(session.ToolResult).CallID)
		}},
		{"PU-07", func(t *testing.T) {
			r := newRig(t, 0, func(o *engine.Options) { o.Policy.ResultCap, o.Prune = 500, engine.Prune{} })
			r.pair("c", 3_000)
			before, err := r.s.View().Message(1)
			require.NoError(t, err)
			o := r.consider(compact.Pressure)
			require.Len(t, o.Pruned, 1)
			p := o.Pruned[0]
			assert.Equal(t, []session.Seq{1, 3}, []session.Seq{p.Node, p.By})
			ev, err := r.s.View().Event(2)
			require.NoError(t, err)
			assert.Equal(t, compact.TypePrune, ev.Type, "the record stands right before")
			ev, err = r.s.View().Event(1)
			require.NoError(t, err)
			m, err := ev.Message()
			require.NoError(t, err)
			assert.Equal(t, before, m, "the original is in the log")
			assert.Equal(t, session.Seq(3), r.s.View().ShadowedBy(1))
			assert.Equal(t, []int{int(before0(before, r.s)), int(r.s.View().Node(1).Tokens)}, []int{p.Before, p.After})
			got, err := r.s.View().Message(1)
			require.NoError(t, err)
			assert.Equal(t, []compact.Pointer{{Start: 1, End: 1, Count: 1}}, compact.ParsePointers(got.Text()))
		}},
		{"PU-08", func(t *testing.T) {
			r := newRig(t, 0, func(o *engine.Options) { o.Policy.ResultCap, o.Prune = 500, engine.Prune{} })
			for i, size := range []int{3_000, 50, 2_000} {
				r.pair(fmt.Sprint("c", i), size)
			}
			before := r.s.View().SurfaceTokens()
			o := r.consider(compact.Pressure)
			require.Len(t, o.Pruned, 2, "the short one is left alone")
			assert.Equal(t, before-r.s.View().SurfaceTokens(), o.Pruned[0].Before-o.Pruned[0].After+o.Pruned[1].Before-o.Pruned[1].After)
			next := r.s.View().Next()
			assert.Empty(t, r.consider(compact.Pressure).Pruned)
			assert.Equal(t, next, r.s.View().Next(), "a second pass does nothing")
		}},
		{"PU-09", func(t *testing.T) {
			r := newRig(t, 26, pruning)
			_ = r.consider(compact.Pressure)
			again := session.NewMemoryStore()
			var events []*session.Event
			for e := range r.s.View().Events(0) {
				events = append(events, e)
			}
			require.NoError(t, again.Append(t.Context(), 0, events))
			s := open(t, again)
			assert.Equal(t, texts(t, r.s), texts(t, s))
			assert.Equal(t, r.s.View().Generation(), s.View().Generation())
		}},
	})
}

func before0(m *session.Message, s *session.Session) int { return s.Pricer().Price(m) }

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
