// Package streamproctest checks that a host's processor keeps the contract of
// [streamproc.Processor].
//
//	func TestProcessor(t *testing.T) {
//		streamproctest.Run(t, streamproctest.Host[Message]{
//			Adapter: adapter,
//			New:     func(t *testing.T, history, steps []Message) streamproc.Processor[Message] { … },
//			Append:  func(p streamproc.Processor[Message], item Message) { … },
//		})
//	}
//
// Optional abilities are found by themselves and checked, too.
package streamproctest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/streamproc"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

// Host is what the suite needs of a host.
type Host[T any] struct {
	// Adapter is the host's; required.
	Adapter streamproc.Adapter[T]
	// New returns a processor whose views have these items; required. history is
	// nil unless History is set.
	New func(t *testing.T, history, steps []T) streamproc.Processor[T]
	// Item returns the i-th item for a view, each different; nil makes model
	// replies without calls by Adapter.From.
	Item func(t *testing.T, i int) T
	// History says that the host has a history. Without it the history is empty
	// and its targets may be unsupported.
	History bool
	// Append adds an item to the running turn; nil skips what needs it.
	Append func(p streamproc.Processor[T], item T)
	// Equal compares items; nil compares what they mean by Adapter.Digest.
	Equal func(a, b T) bool
}

// Run runs the suite.
func Run[T any](t *testing.T, h Host[T]) {
	if h.New == nil || h.Adapter.To == nil || h.Adapter.From == nil {
		t.Fatal("a host needs New and an adapter")
	}
	s := suite[T]{h}
	t.Run("Adapter", s.adapter)
	t.Run("Views", s.views)
	t.Run("ViewsAreStable", s.stable)
	t.Run("Replace", s.replace)
	t.Run("InvalidSplit", s.invalid)
	t.Run("UnknownTarget", s.unknown)
	t.Run("Cancelled", s.cancelled)
	t.Run("Commit", s.commit)
	t.Run("CommitKeepsWhatWasAppended", s.appended)
	t.Run("CommitConflict", s.conflict)
	t.Run("CommitInvalidSplit", s.commitInvalid)
	t.Run("Concurrent", s.concurrent)
	t.Run("Apply", s.apply)
}

type suite[T any] struct{ h Host[T] }

var ctx = context.Background()

func (s suite[T]) item(t *testing.T, i int) T {
	t.Helper()
	if s.h.Item != nil {
		return s.h.Item(t, i)
	}
	it, err := s.h.Adapter.From(session.AssistantText(fmt.Sprintf("reply %d: the file pkg/part%d.go is read and has %d lines", i, i, 100+i)))
	if err != nil {
		t.Fatalf("item %d: %v", i, err)
	}
	return it
}

func (s suite[T]) items(t *testing.T, from, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = s.item(t, from+i)
	}
	return out
}

func (s suite[T]) checkpoint(t *testing.T, text string) T {
	t.Helper()
	m := session.UserText(text)
	m.Source = compact.CheckpointSource("c1")
	it, err := s.h.Adapter.From(m)
	if err != nil {
		t.Fatalf("adapter: an item of a checkpoint: %v", err)
	}
	return it
}

// fresh returns a processor with h items of history, if there is one, and k
// steps, with what its whole view should be.
func (s suite[T]) fresh(t *testing.T, h, k int) (streamproc.Processor[T], []T, []T) {
	if !s.h.History {
		h = 0
	}
	history, steps := s.items(t, 0, h), s.items(t, 100, k)
	if h == 0 {
		history = nil
	}
	return s.h.New(t, slices.Clone(history), slices.Clone(steps)), history, steps
}

func (s suite[T]) same(t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d items, want %d", what, len(got), len(want))
	}
	for i := range got {
		equal := false
		if s.h.Equal != nil {
			equal = s.h.Equal(got[i], want[i])
		} else {
			a, err1 := s.h.Adapter.Digest(got[i : i+1])
			b, err2 := s.h.Adapter.Digest(want[i : i+1])
			equal = a == b && err1 == nil && err2 == nil
		}
		if !equal {
			t.Fatalf("%s: item %d is %+v, want %+v", what, i, got[i], want[i])
		}
	}
}

func (s suite[T]) check(t *testing.T, p streamproc.Processor[T], history, steps []T) {
	t.Helper()
	got, err := streamproc.History(ctx, p)
	if err != nil {
		t.Fatalf("history: %v", err)
	}
	s.same(t, "history", got, history)
	if got, err = p.AccumulatedSteps(ctx); err != nil {
		t.Fatalf("steps: %v", err)
	}
	s.same(t, "steps", got, steps)
	if got, err = streamproc.All(ctx, p); err != nil {
		t.Fatalf("all: %v", err)
	}
	s.same(t, "all", got, slices.Concat(history, steps))
	if snap, ok := p.(streamproc.Snapshotter[T]); ok {
		v, err := snap.Snapshot(ctx)
		if err != nil {
			t.Fatalf("snapshot: %v", err)
		}
		s.same(t, "history of the snapshot", v.History, history)
		s.same(t, "steps of the snapshot", v.Steps, steps)
	}
}

// targets are those that the host must support; the others may be unsupported.
func (s suite[T]) targets() []target.Target {
	if s.h.History {
		return []target.Target{target.Steps, target.History, target.FullReplace}
	}
	return []target.Target{target.Steps}
}

func (s suite[T]) adapter(t *testing.T) {
	it := s.checkpoint(t, "a summary")
	m, err := s.h.Adapter.To(it)
	if err != nil {
		t.Fatalf("the item of a checkpoint cannot be read: %v", err)
	}
	if m.Role != session.RoleUser || m.Text() != "a summary" {
		t.Fatalf("the item of a checkpoint reads as %s %q: its text must survive", m.Role, m.Text())
	}
	a := s.item(t, 1)
	before, err := s.h.Adapter.Digest([]T{a})
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := s.h.Adapter.Digest([]T{a}); again != before {
		t.Fatal("the same item has two digests")
	}
	if other, _ := s.h.Adapter.Digest([]T{s.item(t, 2)}); other == before {
		t.Fatal("two items have the same digest")
	}
}

func (s suite[T]) views(t *testing.T) {
	p, history, steps := s.fresh(t, 3, 5)
	s.check(t, p, history, steps)
	p, history, steps = s.fresh(t, 0, 0)
	s.check(t, p, history, steps)
}

// stable: a view that was read stays as it is.
func (s suite[T]) stable(t *testing.T) {
	p, history, steps := s.fresh(t, 2, 4)
	got, err := p.AccumulatedSteps(ctx)
	if err != nil {
		t.Fatal(err)
	}
	old, err := streamproc.History(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if s.h.Append != nil {
		s.h.Append(p, s.item(t, 300))
	}
	if err := p.ReplaceWithCompaction(ctx, target.Steps, 2, s.checkpoint(t, "sum")); err != nil {
		t.Fatal(err)
	}
	s.same(t, "a view that was read before a change", got, steps)
	s.same(t, "a history that was read before a change", old, history)
}

func (s suite[T]) replace(t *testing.T) {
	for _, tg := range s.targets() {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", tg, n), func(t *testing.T) {
				p, history, steps := s.fresh(t, 3, 4)
				sum := s.checkpoint(t, "sum")
				if err := p.ReplaceWithCompaction(ctx, tg, n, sum); err != nil {
					t.Fatal(err)
				}
				if tg == target.Steps {
					s.check(t, p, history, append([]T{sum}, steps[n:]...))
				} else {
					s.check(t, p, append([]T{sum}, history[n:]...), steps)
				}
			})
		}
	}
	if !s.h.History {
		return
	}
	p, _, steps := s.fresh(t, 3, 4)
	sum := s.checkpoint(t, "sum")
	if err := p.ReplaceWithCompaction(ctx, target.FullReplace, 5, sum); err != nil {
		t.Fatal(err)
	}
	all, err := streamproc.All(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	s.same(t, "what a full replacement across the border left", all, append([]T{sum}, steps[2:]...))
}

func (s suite[T]) invalid(t *testing.T) {
	for _, tg := range s.targets() {
		p, history, steps := s.fresh(t, 3, 4)
		have := map[target.Target]int{target.Steps: 4, target.History: 3, target.FullReplace: 7}[tg]
		for _, n := range []int{have + 1, 1 << 40, 0, -1} {
			err := p.ReplaceWithCompaction(ctx, tg, n, s.checkpoint(t, "sum"))
			var split streamproc.ErrInvalidSplit
			if !errors.As(err, &split) {
				t.Fatalf("%s: replacing %d items of %d: error is %v, want an ErrInvalidSplit", tg, n, have, err)
			}
			if want := (streamproc.ErrInvalidSplit{Requested: n, Available: have}); split != want {
				t.Fatalf("%s: error is %+v, want %+v", tg, split, want)
			}
			s.check(t, p, history, steps)
		}
	}
}

func (s suite[T]) unknown(t *testing.T) {
	p, history, steps := s.fresh(t, 2, 3)
	ask := []target.Target{0, 99}
	if !s.h.History {
		ask = append(ask, target.History)
	}
	for _, tg := range ask {
		err := p.ReplaceWithCompaction(ctx, tg, 1, s.checkpoint(t, "sum"))
		var split streamproc.ErrInvalidSplit
		if !errors.Is(err, streamproc.ErrUnsupported) && !(tg == target.History && errors.As(err, &split)) {
			t.Fatalf("target %v: error is %v, want ErrUnsupported", tg, err)
		}
		s.check(t, p, history, steps)
	}
}

func (s suite[T]) cancelled(t *testing.T) {
	p, history, steps := s.fresh(t, 2, 3)
	over, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("the host stops"))
	if err := p.ReplaceWithCompaction(over, target.Steps, 1, s.checkpoint(t, "sum")); err == nil {
		t.Fatal("a replacement under a context that has ended was made")
	}
	s.check(t, p, history, steps)
}

func (s suite[T]) snapshotter(t *testing.T, p streamproc.Processor[T]) streamproc.Snapshotter[T] {
	t.Helper()
	snap, ok := p.(streamproc.Snapshotter[T])
	if !ok {
		t.Skip("the processor has no snapshots")
	}
	return snap
}

// prepare returns a commit of the first n steps.
func (s suite[T]) prepare(t *testing.T, p streamproc.Snapshotter[T], n int) streamproc.Commit[T] {
	t.Helper()
	v, err := p.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := s.h.Adapter.Digest(v.Steps[:n])
	if err != nil {
		t.Fatal(err)
	}
	return streamproc.Commit[T]{Target: target.Steps, Revision: v.Revision, N: n, Digest: digest, Item: s.checkpoint(t, "sum"),
		Record: streamproc.Record{ID: "c1", Narrative: "the narrative", Count: n}}
}

func (s suite[T]) commit(t *testing.T) {
	p, history, steps := s.fresh(t, 2, 5)
	snap := s.snapshotter(t, p)
	c := s.prepare(t, snap, 3)
	if err := snap.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	s.check(t, p, history, append([]T{c.Item}, steps[3:]...))
	v, err := snap.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if v.Revision == c.Revision {
		t.Fatal("a commit did not change the revision")
	}
	k, ok := p.(streamproc.Keeper[T])
	if !ok {
		return
	}
	if r, ok := k.Record(v.Steps[0]); !ok || r.ID != "c1" || r.Narrative != "the narrative" {
		t.Fatalf("the record of the checkpoint is %+v, %v", r, ok)
	}
	if r, ok := k.Record(v.Steps[1]); ok {
		t.Fatalf("an item that is no checkpoint has the record %+v", r)
	}
}

func (s suite[T]) appended(t *testing.T) {
	if s.h.Append == nil {
		t.Skip("the host cannot append")
	}
	p, history, steps := s.fresh(t, 2, 5)
	snap := s.snapshotter(t, p)
	c := s.prepare(t, snap, 5)
	late := s.item(t, 300)
	s.h.Append(p, late)
	if err := snap.Commit(ctx, c); err != nil {
		t.Fatalf("something was appended meanwhile: %v", err)
	}
	s.check(t, p, history, []T{c.Item, late})
	_ = steps
}

func (s suite[T]) conflict(t *testing.T) {
	p, history, steps := s.fresh(t, 2, 6)
	snap := s.snapshotter(t, p)
	c := s.prepare(t, snap, 4)
	other := s.checkpoint(t, "somebody else's")
	if err := p.ReplaceWithCompaction(ctx, target.Steps, 2, other); err != nil {
		t.Fatal(err)
	}
	err := snap.Commit(ctx, c)
	var conflict streamproc.ErrConflict
	if !errors.As(err, &conflict) {
		t.Fatalf("the replaced items changed meanwhile: error is %v, want an ErrConflict", err)
	}
	s.check(t, p, history, append([]T{other}, steps[2:]...))
}

func (s suite[T]) commitInvalid(t *testing.T) {
	p, history, steps := s.fresh(t, 2, 3)
	snap := s.snapshotter(t, p)
	c := s.prepare(t, snap, 3)
	c.N = 4
	var split streamproc.ErrInvalidSplit
	if err := snap.Commit(ctx, c); !errors.As(err, &split) {
		t.Fatalf("a commit of 4 items of 3: error is %v, want an ErrInvalidSplit", err)
	}
	s.check(t, p, history, steps)
}

// concurrent is for the race detector: nothing is lost, whoever comes first.
func (s suite[T]) concurrent(t *testing.T) {
	if s.h.Append == nil {
		t.Skip("the host cannot append")
	}
	p, _, _ := s.fresh(t, 0, 20)
	var wg sync.WaitGroup
	for w := range 4 {
		late := s.items(t, 1000+100*w, 10)
		wg.Go(func() {
			for i := range 10 {
				s.h.Append(p, late[i])
			}
		})
	}
	sum := s.checkpoint(t, "sum")
	done := 0
	wg.Go(func() {
		for range 5 {
			if _, err := p.AccumulatedSteps(ctx); err != nil {
				return
			}
			if p.ReplaceWithCompaction(ctx, target.Steps, 3, sum) == nil {
				done++
			}
		}
	})
	wg.Wait()
	steps, err := p.AccumulatedSteps(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if want := 20 + 40 - 2*done; len(steps) != want {
		t.Fatalf("%d items after %d replacements of three by one, want %d", len(steps), done, want)
	}
}

// apply compacts by the package's own road.
func (s suite[T]) apply(t *testing.T) {
	p, history, _ := s.fresh(t, 2, 200)
	all, err := p.AccumulatedSteps(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := streamproc.ApplySteps(ctx, p, s.h.Adapter, summarize.NewExtractive(nil), &streamproc.Options{
		Window: 2000, Policy: streamproc.Policy{MinTokens: 1}, Run: summarize.RunOptions{Guard: &summarize.GuardOptions{NoFloor: true}}})
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.AccumulatedSteps(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.same(t, "the recent steps", steps[1:], all[r.Items:])
	m, err := s.h.Adapter.To(steps[0])
	if err != nil || m.Text() != r.Text {
		t.Fatalf("the first step is %q (%v), want the checkpoint", m.Text(), err)
	}
	got, err := streamproc.History(ctx, p)
	if err != nil || !reflect.DeepEqual(len(got), len(history)) {
		t.Fatalf("the history has %d items, want %d (%v)", len(got), len(history), err)
	}
}
