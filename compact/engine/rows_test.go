package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

func TestServiceRows(t *testing.T) {
	runRows(t, []row{
		{"SV-03", func(t *testing.T) {
			r := newRig(t, 1, func(o *engine.Options) { o.Policy.RetainTokens = 20 }) // more than the newest turn has
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
