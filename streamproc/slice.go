package streamproc

import (
	"context"
	"sync"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
)

// Slice is a [Processor] over items in memory, with all optional abilities. It
// is safe for concurrent use.
type Slice[T any] struct {
	adapter Adapter[T]
	memory  *Memory

	mu             sync.Mutex
	history, steps []T
	revision       uint64
}

// NewSlice returns a processor over the items. It keeps the slices, which must
// not be modified any more; items that it replaces stay in them.
func NewSlice[T any](a Adapter[T], history, steps []T) *Slice[T] {
	return &Slice[T]{adapter: a, memory: NewMemory(), history: history[:len(history):len(history)], steps: steps[:len(steps):len(steps)]}
}

// Memory returns the records of the checkpoints, for a host that stores them
// with its items: records that are added to it before are found, too.
func (s *Slice[T]) Memory() *Memory { return s.memory }

// Append adds items to the running turn.
func (s *Slice[T]) Append(items ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, items...)
	s.revision++
}

// EndTurn makes the steps part of the history, followed by items, which may be
// the prompt of the next turn.
func (s *Slice[T]) EndTurn(items ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(append(s.history[:len(s.history):len(s.history)], s.steps...), items...)
	s.steps = nil
	s.revision++
}

// AccumulatedSteps implements [Processor].
func (s *Slice[T]) AccumulatedSteps(ctx context.Context) ([]T, error) {
	snap, err := s.Snapshot(ctx)
	return snap.Steps, err
}

// History implements [HistoryViewer].
func (s *Slice[T]) History(ctx context.Context) ([]T, error) {
	snap, err := s.Snapshot(ctx)
	return snap.History, err
}

// Snapshot implements [Snapshotter].
func (s *Slice[T]) Snapshot(ctx context.Context) (Snapshot[T], error) {
	if err := context.Cause(ctx); err != nil {
		return Snapshot[T]{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot[T]{Revision: s.revision, History: s.history[:len(s.history):len(s.history)], Steps: s.steps[:len(s.steps):len(s.steps)]}, nil
}

// ReplaceWithCompaction implements [Processor].
func (s *Slice[T]) ReplaceWithCompaction(ctx context.Context, t target.Target, n int, item T) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replace(t, n, item)
}

// replace makes new slices, since others may read the old ones. Of the whole
// conversation the item becomes the first of the view that had something.
func (s *Slice[T]) replace(t target.Target, n int, item T) error {
	have := 0
	switch t {
	case target.Steps:
		have = len(s.steps)
	case target.History:
		have = len(s.history)
	case target.FullReplace:
		have = len(s.history) + len(s.steps)
	default:
		return ErrUnsupported
	}
	if n < 1 || n > have {
		return ErrInvalidSplit{Requested: n, Available: have}
	}
	history, steps := 0, 0
	switch t {
	case target.Steps:
		steps = n
	case target.History:
		history = n
	case target.FullReplace:
		history = min(n, len(s.history))
		steps = n - history
	}
	intoHistory := t == target.History || t == target.FullReplace && len(s.history) > 0
	s.history = swap(s.history, history, item, intoHistory)
	s.steps = swap(s.steps, steps, item, !intoHistory)
	s.revision++
	return nil
}

// swap returns list without its first n items, and item in their place if put.
func swap[T any](list []T, n int, item T, put bool) []T {
	if n == 0 && !put {
		return list
	}
	out := make([]T, 0, len(list)-n+1)
	if put {
		out = append(out, item)
	}
	return append(out, list[n:]...)
}

// Commit implements [Snapshotter].
func (s *Slice[T]) Commit(ctx context.Context, c Commit[T]) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m, err := s.adapter.message(c.Item)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Revision != s.revision {
		view := Snapshot[T]{History: s.history, Steps: s.steps}.view(c.Target)
		if err := stillThere(s.adapter, view, c); err != nil {
			return err
		}
	}
	if err := s.replace(c.Target, c.N, c.Item); err != nil {
		return err
	}
	s.memory.Add(m.Text(), c.Record)
	return nil
}

// stillThere reports, as an [ErrConflict], that the items to be replaced are
// not at the head of the view any more.
func stillThere[T any](a Adapter[T], view []T, c Commit[T]) error {
	if c.N < 0 || len(view) < c.N {
		return ErrConflict{c.Target, "items are gone"}
	}
	digest, err := a.Digest(view[:c.N])
	if err != nil {
		return err
	}
	if digest != c.Digest {
		return ErrConflict{c.Target, "the items to be replaced are others"}
	}
	return nil
}

// Record implements [Keeper].
func (s *Slice[T]) Record(item T) (Record, bool) {
	if s.memory.Len() == 0 {
		return Record{}, false
	}
	m, err := s.adapter.message(item)
	if err != nil || m.Role != session.RoleUser {
		return Record{}, false
	}
	return s.memory.Find(m.Text())
}
