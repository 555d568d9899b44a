package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
)

// flooded are sessions that a provider refused, with what an overflow writes.
var flooded = []struct {
	name   string
	fill   func(r *rig)
	change func(*engine.Options)
	types  []session.Type
	pruned int
	folded bool
}{
	{
		"shortened, then folded", func(r *rig) { r.pair("big", 5_000); talk(r.T, r.s, 8) }, nil,
		[]session.Type{compact.TypeStart, compact.TypePrune, session.TypeReplace, compact.TypeSummary, session.TypeReplace, compact.TypeEnd}, 1, true,
	},
	{
		"folded", func(r *rig) { talk(r.T, r.s, 8) }, nil,
		[]session.Type{compact.TypeStart, compact.TypeSummary, session.TypeReplace, compact.TypeEnd}, 0, true,
	},
	{
		"one unit", func(r *rig) { r.pair("c", 5_000) }, nil,
		[]session.Type{compact.TypeStart, compact.TypePrune, session.TypeReplace, compact.TypeEnd}, 1, false,
	},
	{
		"one unit above the window", func(r *rig) { r.pair("c", 15_000) }, nil,
		[]session.Type{compact.TypeStart, compact.TypePrune, session.TypeReplace, compact.TypeEnd}, 1, false,
	},
	{
		"one unit, pruning off", func(r *rig) { r.pair("c", 5_000) }, func(o *engine.Options) { o.Prune.Off = true },
		[]session.Type{compact.TypeStart, compact.TypePrune, session.TypeReplace, compact.TypeEnd}, 1, false,
	},
	{
		"newest unit too large, enough", func(r *rig) { r.append(session.UserText("look"), session.AssistantText("I do.")); r.pair("c", 9_000) }, nil,
		[]session.Type{compact.TypeStart, compact.TypePrune, session.TypeReplace, compact.TypeEnd}, 1, false,
	},
	{
		"oversized, then the newest unit, then folded",
		func(r *rig) { r.pair("old", 3_000); talk(r.T, r.s, 20); r.pair("c", 9_000) }, nil,
		[]session.Type{compact.TypeStart, compact.TypePrune, session.TypeReplace, compact.TypePrune, session.TypeReplace,
			compact.TypeSummary, session.TypeReplace, compact.TypeEnd}, 2, true,
	},
	{
		"capped", func(r *rig) { r.pair("old", 900); r.pair("c", 900) }, func(o *engine.Options) { o.Policy.ResultCap = 300; o.Prune.Off = true },
		[]session.Type{compact.TypeStart, compact.TypePrune, session.TypeReplace, session.TypeReplace, compact.TypeSummary, session.TypeReplace, compact.TypeEnd}, 2, true,
	},
	{
		"nothing to do", func(r *rig) { r.pair("c", 100) }, nil, nil, 0, false,
	},
}

// typesFrom returns the events from seq on.
func (r *rig) typesFrom(seq session.Seq) (out []session.Type) {
	for e := range r.s.View().Events(seq) {
		out = append(out, e.Type)
	}
	return out
}

// prunes are the prune events in the log.
func (r *rig) prunes() (out []compact.PruneEvent) {
	for e := range r.s.View().Events(0) {
		if p, err := compact.Decode(e); err == nil {
			if p, ok := p.(compact.PruneEvent); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// An overflow takes the lease, shortens under it, folds if that was not enough,
// and closes the attempt, whatever was needed.
func TestOverflowTakesTheLeaseFirst(t *testing.T) {
	for _, c := range flooded {
		t.Run(c.name, func(t *testing.T) {
			rec := new(lifecycletest.Recorder)
			r := newRig(t, 0, func(o *engine.Options) {
				o.Prune = engine.Prune{}
				o.Lifecycle = dispatcher(t, agentOptions{Observers: []lifecycle.Observer{rec}})
				if c.change != nil {
					c.change(o)
				}
			})
			c.fill(r)
			before := r.s.View()
			o := r.consider(compact.ContextOverflow)
			assert.Equal(t, c.types, r.typesFrom(before.Next()))
			assert.Len(t, o.Pruned, c.pruned)
			assert.Equal(t, c.folded, o.Result != nil)
			for _, p := range o.Pruned {
				assert.Equal(t, p.By, r.s.View().ShadowedBy(p.Node))
			}
			transitions := rec.Transitions()
			require.NoError(t, lifecycletest.Check(transitions))
			if len(c.types) == 0 {
				assert.Equal(t, compact.NothingToCompact, o.Code)
				assert.False(t, o.RetryUseful)
				assert.Equal(t, o.GenerationBefore, o.GenerationAfter)
				assert.Empty(t, transitions)
				assert.Zero(t, r.starts())
				return
			}
			assert.Empty(t, o.Code)
			assert.True(t, o.RetryUseful)
			assert.Less(t, o.After, o.Tokens)
			a := r.last()
			require.NotNil(t, a)
			assert.Equal(t, 1, r.starts())
			assert.Equal(t, compact.ContextOverflow, a.Start.Trigger)
			assert.Equal(t, []bool{c.folded, !c.folded}, []bool{a.Committed(), a.PruneOnly()})
			for _, p := range r.prunes() {
				assert.Equal(t, a.Start.ID, p.Attempt)
			}
			v := r.s.View()
			assert.Equal(t, v.EnvelopeTokens()+v.SurfaceTokens(), a.End.After)
			if c.folded {
				assert.Equal(t, 1, r.st.calls)
				assert.Len(t, transitions, 2, "a summary was asked for and committed")
				assert.Equal(t, o.GenerationAfter, o.Result.GenerationAfter)
				return
			}
			assert.Zero(t, r.st.calls)
			assert.Empty(t, transitions, "no summarizer, nothing to tell")
			assert.Equal(t, before.EnvelopeTokens()+before.SurfaceTokens(), a.End.Before)
		})
	}
}

// A pruning that was enough is no compaction for CompactIfNeeded.
func TestOverflowPrunedAlone(t *testing.T) {
	r := newRig(t, 0, pruning)
	r.pair("c", 5_000)
	res, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.ContextOverflow)
	require.NoError(t, err)
	assert.Nil(t, res)
	assert.True(t, r.last().PruneOnly())
	h := compact.HistoryOf(r.s)
	assert.Zero(t, h.Failures())
	// It neither opens nor closes the breaker, and sets no growth anchor.
	talk(t, r.s, 26)
	assert.Empty(t, r.consider(compact.Pressure).Code)
}

// Whatever write fails, and wherever the caller gives up, there is one end, and
// the surface is the old one or the shortened one.
func TestOverflowFaults(t *testing.T) {
	const writes = 3 // start, pruning, commit
	fill := func(r *rig) { r.pair("big", 5_000); talk(r.T, r.s, 8) }
	for n, code := range map[int]compact.Code{1: compact.PersistenceFailed, 2: compact.CommitFailed, 3: compact.CommitFailed} {
		t.Run(fmt.Sprint("store fails at write ", n), func(t *testing.T) {
			r := newRig(t, 0, pruning)
			fill(r)
			before, next := texts(t, r.s), r.s.View().Next()
			r.faulty.On(n, sessiontest.Fail)
			o, err := r.e.Consider(t.Context(), r.agent, compact.ContextOverflow)
			if n < writes {
				require.ErrorIs(t, err, code)
				require.ErrorIs(t, err, sessiontest.ErrFault)
				assert.Equal(t, before, texts(t, r.s))
				var ce *compact.Error
				require.ErrorAs(t, err, &ce)
				assert.Equal(t, n > 1, ce.Written)
				assert.Equal(t, ce.Written, r.s.View().Next() > next)
			} else {
				require.NoError(t, err, "what was shortened makes another try useful")
				assert.Equal(t, code, o.Code)
				assert.True(t, o.RetryUseful)
				assert.Len(t, o.Pruned, 1)
			}
			starts, finished, codes := ends(t, r.s)
			if n == 1 {
				assert.Zero(t, starts+finished)
			} else {
				assert.Equal(t, []int{1, 1}, []int{starts, finished})
				assert.Equal(t, []compact.Code{code}, codes)
			}
			assert.NotNil(t, r.consider(compact.ContextOverflow).Result, "the next one works")
		})
		t.Run(fmt.Sprint("cancelled at write ", n), func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("escape")
			store := &onWrite{Store: session.NewMemoryStore()}
			r := newRigOver(t, store, 0, pruning)
			fill(r)
			before := texts(t, r.s)
			store.after(n, func() { cancel(cause) })
			res, err := r.e.CompactIfNeeded(ctx, r.agent, compact.ContextOverflow)
			starts, finished, codes := ends(t, r.s)
			assert.Equal(t, []int{1, 1}, []int{starts, finished})
			if n == writes {
				require.NoError(t, err, "it is committed")
				require.NotNil(t, res)
				return
			}
			require.ErrorIs(t, err, compact.Cancelled)
			require.ErrorIs(t, err, cause)
			assert.Equal(t, []compact.Code{compact.Cancelled}, codes)
			assert.Equal(t, n == 1, fmt.Sprint(before) == fmt.Sprint(texts(t, r.s)), "what was shortened stays shortened")
		})
	}
	t.Run("cancelled when pruning was enough", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		store := &onWrite{Store: session.NewMemoryStore()}
		r := newRigOver(t, store, 0, pruning)
		r.pair("c", 5_000)
		store.after(2, func() { cancel(errors.New("escape")) })
		o, err := r.e.Consider(ctx, r.agent, compact.ContextOverflow)
		require.NoError(t, err)
		assert.Len(t, o.Pruned, 1)
		assert.True(t, r.last().PruneOnly())
	})
	t.Run("taken over before it prunes", func(t *testing.T) {
		store := &onWrite{Store: session.NewMemoryStore()}
		r := newRigOver(t, store, 0, pruning)
		fill(r)
		before := texts(t, r.s)
		r.st.collect = nil
		other := open(t, store.Store)
		store.after(1, func() { // as another process that takes us for dead
			_, err := other.Record(t.Context(), compact.Event(compact.StartEvent{ID: "theirs", Trigger: compact.Now, Holder: compact.Holder{Host: "elsewhere", Run: "x"}}))
			require.NoError(t, err)
		})
		_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.ContextOverflow)
		require.ErrorIs(t, err, compact.Changed)
		assert.Equal(t, before, texts(t, r.s))
		assert.Empty(t, r.prunes())
	})
}

// A process may die after any write of an overflow: what it leaves open is stale,
// blocks nobody and is in order.
func TestOverflowCrash(t *testing.T) {
	for _, c := range flooded {
		if len(c.types) == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			store := &onWrite{Store: session.NewMemoryStore()}
			r := newRigOver(t, store, 0, func(o *engine.Options) {
				o.Prune = engine.Prune{}
				if c.change != nil {
					c.change(o)
				}
			})
			c.fill(r)
			var cuts []session.Seq
			store.always = func(next session.Seq) { cuts = append(cuts, next) }
			_ = r.consider(compact.ContextOverflow)
			require.GreaterOrEqual(t, len(cuts), 2)
			all := store.Store.(*session.MemoryStore).Events()
			for _, cut := range cuts {
				again := session.NewMemoryStore()
				require.NoError(t, again.Append(t.Context(), 0, all[:cut]))
				s := open(t, again)
				h := compact.HistoryOf(s)
				require.NoError(t, h.Err())
				assert.Equal(t, cut != cuts[len(cuts)-1], h.Open() != nil, "only the last write closes it")
				talk(t, s, 4)
				_, err := r.e.CompactNow(t.Context(), compact.Agent{Session: s}, nil)
				require.NoError(t, err)
				require.NoError(t, compact.CheckLog(s.View()))
			}
		})
	}
}

// While somebody compacts, a refused request changes nothing, and the precedence
// is that of every path: what cannot be done is said before busy.
func TestOverflowUnderALease(t *testing.T) {
	for name, fill := range map[string]func(r *rig){
		"folded": func(r *rig) { r.pair("big", 5_000); talk(r.T, r.s, 8) },
		"pruned": func(r *rig) { r.pair("c", 5_000) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 0, pruning)
			fill(r)
			r.record(compact.Event(foreign("theirs")))
			next := r.s.View().Next()
			_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.ContextOverflow)
			require.ErrorIs(t, err, compact.Busy)
			var ce *compact.Error
			require.ErrorAs(t, err, &ce)
			assert.False(t, ce.Written)
			assert.Equal(t, next, r.s.View().Next())
		})
	}
}
