package lifecycle_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
)

type quietObserver struct{}

func (quietObserver) OnCompaction(context.Context, lifecycle.Event) error { return nil }
func (quietObserver) OnCompactionDetail(context.Context, lifecycle.Event, lifecycle.Detail) error {
	return nil
}

// quietPreserver has every callback and does nothing in it.
type quietPreserver struct{ lifecycle.Pinned }

func (*quietPreserver) ID() string { return "quiet" }
func (*quietPreserver) BeforeResponseRelease(_ context.Context, c *lifecycle.Checkpoint, _ lifecycle.ResponsePreview, _ lifecycle.PreservationMeta, _ lifecycle.Services) error {
	c.Notes = append(c.Notes, "a note of the preserver")
	return nil
}

func (*quietPreserver) AfterResponseRelease(context.Context, lifecycle.Checkpoint, lifecycle.PreservationMeta, lifecycle.Services) error {
	return nil
}

type otherQuiet struct{ quietPreserver }

func (*otherQuiet) ID() string { return "other" }

// BenchmarkDispatch is what three observers and two preservers add to one
// compaction: 20 callbacks and the copies that they get.
func BenchmarkDispatch(b *testing.B) { benchmarkDispatch(b, new(quietPreserver), new(otherQuiet)) }

// BenchmarkDispatchReady is the same with preservers that do something.
func BenchmarkDispatchReady(b *testing.B) {
	benchmarkDispatch(b, lifecycle.NewPinned("the port is 8443"), lifecycle.NewTodos(nil))
}

func benchmarkDispatch(b *testing.B, preservers ...preserver) {
	d, err := lifecycle.New(lifecycle.Options[lifecycle.Call, lifecycle.Checkpoint]{
		Observers:  []lifecycle.Observer{quietObserver{}, quietObserver{}, quietObserver{}},
		Preservers: preservers,
		Call:       lifecycle.CallCodec, Result: lifecycle.CheckpointCodec,
	})
	if err != nil {
		b.Fatal(err)
	}
	call, k := lifecycletest.Call(), lifecycletest.Checkpoint()
	state := new(lifecycle.MemoryState)
	b.ReportAllocs()
	// The median leaves out what the machine does beside, and the collector.
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		c, r := call, k
		run := d.Begin(lifecycle.RunInfo{Meta: lifecycletest.Meta(), State: state})
		_ = run.BeforeRequest(b.Context(), &c, nil)
		run.RequestOpened(b.Context(), c, "leg", 1)
		_ = run.BeforeRelease(b.Context(), &r, nil)
		run.Committed(b.Context(), r, nil)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[0]), "min-ns")
	if s := d.Stats(); s.Errors+s.Panics+s.Invalid+s.Deadlines+s.Dropped > 0 || s.Started != s.Completed {
		b.Fatalf("%+v", s)
	}
}
