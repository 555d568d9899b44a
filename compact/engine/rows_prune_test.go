package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
)

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
