package streamproc_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/streamproc"
	"github.com/agentcompact/agentcompact/summarize"
)

// keeper is a preserver for one test.
type keeper struct {
	lifecycle.Pinned
	before func() error
	after  int
}

func (k *keeper) ID() string { return "keeper" }

func (k *keeper) BeforeRequest(_ context.Context, c *lifecycle.Call, _ lifecycle.RequestPreview, _ lifecycle.PreservationMeta, _ lifecycle.Services) error {
	c.Notes = lifecycle.AddNotes(c.Notes, "said before")
	if k.before != nil {
		return k.before()
	}
	return nil
}

func (k *keeper) AfterResponseRelease(context.Context, lifecycle.Checkpoint, lifecycle.PreservationMeta, lifecycle.Services) error {
	k.after++
	return nil
}

// failing opens and then fails.
type failing struct{}

func (failing) Name() string { return "failing" }
func (failing) Open(context.Context, *summarize.Request) (summarize.Pending, error) {
	return failing{}, nil
}
func (failing) Cancel() {}
func (failing) Collect(context.Context) (*summarize.Summary, error) {
	return nil, &summarize.Failure{Class: summarize.Auth, Err: errors.New("no")}
}

// TestLifecycle: passes are told of, what preservers add is in the host's list,
// and every started pass ends once.
func TestLifecycle(t *testing.T) {
	rec := new(lifecycletest.Recorder)
	k := &keeper{}
	k.Set("The port is 8443.")
	d, err := lifecycle.New(lifecycle.Options[lifecycle.Call, lifecycle.Checkpoint]{
		Observers: []lifecycle.Observer{rec}, Preservers: []lifecycle.Preserver[lifecycle.Call, lifecycle.Checkpoint]{k},
		Call: lifecycle.CallCodec, Result: lifecycle.CheckpointCodec,
	})
	require.NoError(t, err)
	apply := func(s summarize.Summarizer) (string, error) {
		p := streamproc.NewSlice(turns, nil, steps(40, 300))
		_, err := streamproc.ApplySteps(t.Context(), p, turns, s, &streamproc.Options{Window: 100_000, Lifecycle: d, LifecycleState: new(lifecycle.MemoryState)})
		list, lerr := p.AccumulatedSteps(t.Context())
		require.NoError(t, lerr)
		var b strings.Builder
		for _, x := range list {
			b.WriteString(x.Text + "\n")
		}
		return b.String(), err
	}
	text, err := apply(summarize.NewExtractive(nil))
	require.NoError(t, err)
	require.Contains(t, text, "The port is 8443.")
	require.Contains(t, text, "said before")
	require.Equal(t, []lifecycle.Outcome{lifecycle.OutcomeStarted, lifecycle.OutcomeCompleted}, rec.Outcomes())
	require.Equal(t, "agent.compact_steps.v1", rec.Events()[0].RuleID)
	require.Equal(t, 1, k.after)

	_, err = apply(failing{})
	require.Error(t, err)
	require.Equal(t, lifecycle.OutcomeAborted, rec.Outcomes()[3])
	k.before = lifecycle.Veto
	_, err = apply(summarize.NewExtractive(nil))
	require.ErrorIs(t, err, streamproc.Vetoed)
	k.before = func() error { panic("x") }
	text, err = apply(summarize.NewExtractive(nil))
	require.NoError(t, err)
	require.NotContains(t, text, "said before")
	require.NoError(t, lifecycletest.Check(rec.Transitions()))
	require.Len(t, rec.Transitions(), 6)
}
