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

// Applying commits what is ready and begins nothing, whatever the pressure.
func TestApplyBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 26, nil)
		start := r.s.View().Next() - 1
		apply := func() *compact.Result {
			res, err := r.e.ApplyBackground(t.Context(), r.agent)
			require.NoError(t, err)
			return res
		}
		begin := func() {
			ok, err := r.e.StartBackground(t.Context(), r.agent)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
		}
		assert.Nil(t, apply(), "nothing was begun")
		begin()
		r.record(session.Rewind{To: start / 2})
		asked := r.st.calls
		assert.Nil(t, apply(), "its span is gone")
		assert.Equal(t, 1, r.e.StaleBackground(r.agent))
		assert.Equal(t, asked, r.st.calls)

		r = newRig(t, 26, nil)
		begin()
		res := apply()
		require.NotNil(t, res)
		assert.Equal(t, compact.Behind, res.Trigger)
		assert.Nil(t, apply(), "it is applied already")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := r.e.ApplyBackground(ctx, r.agent)
		require.ErrorIs(t, err, compact.Cancelled)
		_, err = r.e.ApplyBackground(t.Context(), compact.Agent{})
		require.Error(t, err)
	})
}

// A background summary that is ready gives way to somebody who names a part of
// its span, and is what a compaction by hand was for when nothing else is left.
func TestReadyBackgroundAndByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := func() *rig {
			r := newRig(t, 26, nil)
			ok, err := r.e.StartBackground(t.Context(), r.agent)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
			return r
		}
		r := ready()
		_, err := r.e.CompactRegion(t.Context(), r.agent, 2, 99)
		require.ErrorIs(t, err, compact.Unbalanced, "a call that is refused leaves it alone")
		res, err := r.e.CompactRegion(t.Context(), r.agent, 4, 19)
		require.NoError(t, err)
		assert.Equal(t, compact.Region, res.Trigger)
		assert.Equal(t, 1, r.e.StaleBackground(r.agent))

		r = ready()
		v := r.s.View()
		_, err = r.e.CompactRegion(t.Context(), r.agent, v.Node(v.Len()-8).Seq, v.Node(v.Len()-5).Seq)
		require.NoError(t, err)
		h := compact.HistoryOf(r.s)
		require.Len(t, h.Attempts, 2)
		assert.Equal(t, compact.Behind, h.Attempts[0].Start.Trigger)
		assert.True(t, h.Attempts[0].Committed(), "it was not in the way")

		r = ready()
		res, err = r.e.CompactNow(t.Context(), r.agent, nil)
		require.NoError(t, err)
		assert.Contains(t, []compact.Trigger{compact.Behind, compact.Now}, res.Trigger)
	})
}

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		st := &stub{collect: func(ctx context.Context, n int, _ *summarize.Request) (string, error) {
			time.Sleep(5 * time.Second)
			return "Short.", nil
		}}
		e := newEngine(t, st, nil)
		agent := compact.Agent{Session: s}
		ok, err := e.StartBackground(t.Context(), agent)
		require.NoError(t, err)
		assert.False(t, ok, "below the lower mark")
		talk(t, s, 18)
		began := time.Now()
		ok, err = e.StartBackground(t.Context(), agent)
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = e.StartBackground(t.Context(), agent)
		require.NoError(t, err)
		assert.False(t, ok, "single flight")
		talk(t, s, 1)
		r, err := e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		assert.Nil(t, r)
		assert.Zero(t, time.Since(began), "no step waits")
		require.NoError(t, e.WaitBackground(t.Context(), agent))
		assert.Zero(t, s.View().Generation(), "it is committed by the next check")
		r, err = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		require.NotNil(t, r)
		assert.Equal(t, compact.Behind, r.Trigger)
		starts, finished, _ := ends(t, s)
		assert.Equal(t, starts, finished)

		// A span that changed meanwhile: the summary is stale.
		talk(t, s, 14)
		ok, err = e.StartBackground(t.Context(), agent)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, e.WaitBackground(t.Context(), agent))
		_, err = s.Record(t.Context(), session.Rewind{To: 30})
		require.NoError(t, err)
		r, err = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		assert.Nil(t, r)
		assert.Equal(t, 1, e.StaleBackground(agent))
	})
}

// making is a rig with a background summary that is being made and takes an hour
// when nobody gives it up.
func making(t *testing.T, change func(*engine.Options)) *rig {
	r := newRig(t, 26, change)
	r.st.collect = func(ctx context.Context, n int, _ *summarize.Request) (string, error) {
		if n > 1 {
			return "By hand.", nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Hour):
			return "From behind.", nil
		}
	}
	ok, err := r.e.StartBackground(t.Context(), r.agent)
	require.NoError(t, err)
	require.True(t, ok)
	synctest.Wait()
	return r
}

// What somebody asks for, and what a refused request needs, does not wait for a
// background summary and is not refused because of it: that run ends, once, and
// is counted.
func TestBackgroundGivesWay(t *testing.T) {
	for name, run := range map[string]func(r *rig) error{
		"now": func(r *rig) error { _, err := r.e.CompactNow(r.Context(), r.agent, nil); return err },
		"now with a wish": func(r *rig) error {
			_, err := r.e.CompactNow(r.Context(), r.agent, &compact.NowOptions{Instructions: "Mind item 3."})
			return err
		},
		"region": func(r *rig) error { _, err := r.e.CompactRegion(r.Context(), r.agent, 4, 19); return err },
		"behind it": func(r *rig) error {
			v := r.s.View()
			_, err := r.e.CompactRegion(r.Context(), r.agent, v.Node(v.Len()-8).Seq, v.Node(v.Len()-5).Seq)
			return err
		},
		"plan": func(r *rig) error {
			p, err := r.e.Plan(r.Context(), r.agent, nil)
			require.NoError(r, err)
			_, err = r.e.Apply(r.Context(), r.agent, p)
			return err
		},
		"overflow": func(r *rig) error {
			_, err := r.e.CompactIfNeeded(r.Context(), r.agent, compact.ContextOverflow)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := making(t, nil)
				began := time.Now()
				require.NoError(t, run(r))
				assert.Zero(t, time.Since(began), "nobody waits")
				h := compact.HistoryOf(r.s)
				require.NoError(t, h.Err())
				require.Len(t, h.Attempts, 2)
				behind, own := h.Attempts[0], h.Attempts[1]
				assert.Equal(t, compact.Behind, behind.Start.Trigger)
				require.NotNil(t, behind.End)
				assert.Equal(t, compact.Cancelled, behind.End.Code)
				assert.Regexp(t, "somebody asked|provider refused", behind.End.Error)
				assert.Less(t, behind.EndSeq, own.StartSeq)
				assert.True(t, own.Committed())
				starts, finished, _ := ends(t, r.s)
				assert.Equal(t, []int{2, 2}, []int{starts, finished}, "one end each")
				assert.Equal(t, 1, r.e.StaleBackground(r.agent))
				assert.Zero(t, h.Failures())
				r.st.collect = nil
				talk(t, r.s, 26)
				ok, err := r.e.StartBackground(t.Context(), r.agent)
				require.NoError(t, err)
				assert.True(t, ok, "the next one may run")
				require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
				assert.NotNil(t, r.consider(compact.Pressure).Result)
			})
		})
	}
}

// An undo is not refused because of a background summary either, ready or not.
func TestBackgroundGivesWayToUndo(t *testing.T) {
	for _, ready := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 10, nil)
			before := texts(t, r.s)
			res, err := r.e.CompactRegion(t.Context(), r.agent, 0, 15)
			require.NoError(t, err)
			talk(t, r.s, 24)
			r.st.collect = func(ctx context.Context, _ int, _ *summarize.Request) (string, error) {
				if ready {
					return "From behind.", nil
				}
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			ok, err := r.e.StartBackground(t.Context(), r.agent)
			require.NoError(t, err)
			require.True(t, ok)
			synctest.Wait()
			q, err := r.e.Undo(t.Context(), r.agent, session.NoSeq)
			require.NoError(t, err)
			assert.Equal(t, res.Checkpoint, q)
			assert.Equal(t, before, texts(t, r.s)[:len(before)])
			assert.Equal(t, 1, r.e.StaleBackground(r.agent))
			_, err = r.e.Redo(t.Context(), r.agent)
			require.NoError(t, err)
			starts, finished, _ := ends(t, r.s)
			assert.Equal(t, []int{2, 2}, []int{starts, finished})
		})
	}
}

// What is refused for its own sake leaves a background run alone.
func TestRefusedByHandLeavesBackgroundAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := making(t, nil)
		for code, run := range map[compact.Code]func() error{
			compact.NotFound:   func() error { _, err := r.e.CompactRegion(t.Context(), r.agent, 0, 999); return err },
			compact.Reversed:   func() error { _, err := r.e.CompactRegion(t.Context(), r.agent, 4, 3); return err },
			compact.Unbalanced: func() error { _, err := r.e.CompactRegion(t.Context(), r.agent, 0, 1); return err },
			compact.Changed: func() error {
				_, err := r.e.Apply(t.Context(), r.agent, &compact.Plan{Shadowed: compact.Span{Start: 0, End: 7}, Fingerprint: "x"})
				return err
			},
			compact.Cancelled: func() error { _, err := r.e.CompactNow(ctxDone, r.agent, nil); return err },
			compact.NothingToCompact: func() error {
				var all []session.Seq
				for i := range r.s.View().Len() {
					all = append(all, r.s.View().Node(i).Seq)
				}
				_, err := r.e.CompactNow(t.Context(), r.agent, &compact.NowOptions{Keep: all})
				return err
			},
		} {
			require.ErrorIs(t, run(), code)
		}
		_, err := r.e.Undo(t.Context(), r.agent, session.NoSeq)
		require.ErrorIs(t, err, compact.NotFound)
		_, err = r.e.Redo(t.Context(), r.agent)
		require.ErrorIs(t, err, compact.NotFound)
		require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
		assert.Zero(t, r.e.StaleBackground(r.agent))
		o := r.consider(compact.Pressure)
		require.NotNil(t, o.Result)
		assert.Equal(t, "From behind.", o.Result.Text)
	})
}

// A run of somebody else keeps the session busy: only its own engine can end it.
func TestBackgroundOfAnotherEngineIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := making(t, nil)
		other := newEngine(t, new(stub), nil)
		_, err := other.CompactNow(t.Context(), r.agent, nil)
		require.ErrorIs(t, err, compact.Busy)
		var ce *compact.Error
		require.ErrorAs(t, err, &ce)
		require.NotNil(t, ce.Holder)
		require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
		require.NotNil(t, r.consider(compact.Pressure).Result)
	})
}

// A summarizer that does not listen keeps nobody longer than the caller wants to
// wait, and its attempt is closed when it comes back.
func TestDeafSummarizerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 26, nil)
		r.st.collect = func(_ context.Context, n int, _ *summarize.Request) (string, error) {
			if n == 1 {
				time.Sleep(time.Hour)
			}
			return "Short.", nil
		}
		ok, err := r.e.StartBackground(t.Context(), r.agent)
		require.NoError(t, err)
		require.True(t, ok)
		synctest.Wait()
		cause := errors.New("waited long enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		began := time.Now()
		_, err = r.e.CompactNow(ctx, r.agent, nil)
		require.ErrorIs(t, err, compact.Cancelled)
		require.ErrorIs(t, err, cause)
		assert.Equal(t, time.Second, time.Since(began))
		// The agent's steps go on meanwhile.
		r.append(session.UserText("go on"))
		res, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
		require.NoError(t, err)
		assert.Nil(t, res)
		assert.Equal(t, time.Second, time.Since(began))
		time.Sleep(2 * time.Hour)
		starts, finished, codes := ends(t, r.s)
		assert.Equal(t, []int{1, 1}, []int{starts, finished})
		assert.Equal(t, []compact.Code{compact.Cancelled}, codes)
		_, err = r.e.CompactNow(t.Context(), r.agent, nil)
		require.NoError(t, err)
		assert.Equal(t, 1, r.e.StaleBackground(r.agent))
	})
}

// A summary that was ready before somebody said what matters is not what they
// asked for.
func TestReadyBackgroundAndWishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, opts := range []*compact.NowOptions{{Instructions: "Mind item 3."}, {Keep: []session.Seq{4, 5, 6, 7}}} {
			r := newRig(t, 26, nil)
			ok, err := r.e.StartBackground(t.Context(), r.agent)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
			res, err := r.e.CompactNow(t.Context(), r.agent, opts)
			require.NoError(t, err)
			assert.Equal(t, compact.Now, res.Trigger)
			assert.Equal(t, opts.Instructions, r.st.seen[1].Instructions)
			for _, q := range opts.Keep {
				_, err := r.s.View().Position(q)
				require.NoError(t, err, "event %d stays", q)
			}
			assert.Equal(t, 1, r.e.StaleBackground(r.agent))
			starts, finished, _ := ends(t, r.s)
			assert.Equal(t, []int{2, 2}, []int{starts, finished})
		}
	})
}

// An agent works through a hundred steps of ten seconds with a summarizer that
// takes five: no step waits for it, and the session never gets to the threshold.
func TestAgentLoopWithBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, nil)
		r.st.collect = func(context.Context, int, *summarize.Request) (string, error) {
			time.Sleep(5 * time.Second)
			return "Short.", nil
		}
		commits := 0
		for range 100 {
			began := time.Now()
			o := r.consider(compact.Pressure)
			if o.Result != nil {
				commits++
				assert.Equal(t, compact.Behind, o.Result.Trigger)
			}
			_, err := r.e.StartBackground(t.Context(), r.agent)
			require.NoError(t, err)
			require.Zero(t, time.Since(began), "a step waits")
			require.Less(t, r.s.View().SurfaceTokens(), 8_000)
			time.Sleep(10 * time.Second) // the model and its tools
			talk(t, r.s, 1)
		}
		assert.Greater(t, commits, 5)
		assert.Zero(t, r.e.StaleBackground(r.agent))
		require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
		_ = r.consider(compact.Pressure)
		starts, finished, _ := ends(t, r.s)
		assert.Equal(t, starts, finished)
	})
}
