package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
)

// TestBackgroundToldOnce: a background summary that is never committed ends what
// it had started, once, whatever is in its way.
func TestBackgroundToldOnce(t *testing.T) {
	check := func(r *rig) {
		_, err := r.e.CompactIfNeeded(r.Context(), r.agent, compact.Pressure)
		_ = err // a closed session takes no commit, which is an error
	}
	for name, end := range map[string]func(r *rig, cancel func()){
		"canceled":                func(_ *rig, cancel func()) { cancel() },
		"canceled, then checked":  func(r *rig, cancel func()) { cancel(); check(r) },
		"closed, then canceled":   func(r *rig, cancel func()) { require.NoError(r, r.s.Close()); cancel() },
		"closed, then checked":    func(r *rig, _ func()) { require.NoError(r, r.s.Close()); check(r) },
		"rewound, then checked":   func(r *rig, _ func()) { r.record(session.Rewind{To: 5}); check(r) },
		"rewound, then canceled":  func(r *rig, cancel func()) { r.record(session.Rewind{To: 5}); cancel(); check(r) },
		"in the way of a region":  func(r *rig, _ func()) { region(r) },
		"store fails, then again": func(r *rig, _ func()) { r.faulty.On(1, sessiontest.Fail); check(r); check(r) },
	} {
		for _, ready := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				rec, g := new(lifecycletest.Recorder), &guardian{id: "g"}
				r := newRig(t, 26, func(o *engine.Options) {
					o.Lifecycle = dispatcher(t, agentOptions{Observers: []lifecycle.Observer{rec}, Preservers: []agentPreserver{g}})
				})
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
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ok, err := r.e.StartBackground(ctx, r.agent)
				require.NoError(t, err)
				require.True(t, ok)
				synctest.Wait()
				if ready {
					require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
				}
				end(r, cancel)
				cancel()
				synctest.Wait()
				list := rec.Transitions()
				require.NoError(t, lifecycletest.Check(list), name)
				first := list[0].Event.TransactionID
				aborted := 0
				for _, x := range list {
					if x.Event.TransactionID == first {
						require.NotEqual(t, lifecycle.OutcomeCompleted, x.Detail.Outcome, name)
						if x.Detail.Outcome == lifecycle.OutcomeAborted {
							require.NotEmpty(t, x.Detail.Code)
							aborted++
						}
					}
				}
				require.Equal(t, 1, aborted, name)
			})
		}
	}
}

// region compacts by hand what the background has in hand.
func region(r *rig) {
	v := r.s.View()
	_, err := r.e.CompactRegion(r.Context(), r.agent, v.Node(0).Seq, v.Node(v.Len()-9).Seq)
	require.NoError(r, err)
}
