package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrConflict says that the log has grown since the writer looked: the next seq
// is not the expected one. Nothing was stored.
var ErrConflict = errors.New("the log has grown")

// ErrClosed is returned by operations on a closed store or session.
var ErrClosed = errors.New("closed")

// Store keeps the events of one session in order. It keeps order and bytes, not
// meaning. Implementations must be safe for concurrent use; package sessiontest
// has the suite that they must pass.
//
// There is no delete and no update: a log only grows.
type Store interface {
	// Append stores the events, which have the seqs next, next+1 and so on, as
	// one unit: after a crash all of them are in the store or none is. It
	// returns when they are durable. If the store holds another number of
	// events than next, it stores nothing and returns an error that wraps
	// [ErrConflict]. After any other error none of them is stored, or the store
	// cannot tell, and then answers the next Append with a conflict if they
	// are. It keeps no reference to the slice.
	Append(ctx context.Context, next Seq, events []*Event) error
	// Scan calls fn for each event from seq on, in order, until fn returns an
	// error, which Scan returns. It sees all events that were stored before it
	// was called, those of other processes included.
	Scan(ctx context.Context, from Seq, fn func(*Event) error) error
	// Close releases the store. Appends that run are finished first. A second
	// Close does nothing.
	Close() error
}

// Stager is an optional ability of a [Store]: it takes events in order at once
// and makes them durable later, so that many appends share one sync.
type Stager interface {
	// Stage is Append without the wait. The function that it returns blocks
	// until the events are durable, or says why they are not; after that error
	// the store takes nothing more. It must be called, from any goroutine: the
	// store may do the work in it.
	Stage(ctx context.Context, next Seq, events []*Event) (wait func() error, err error)
}

// MemoryStore keeps events in memory.
type MemoryStore struct {
	mu     sync.RWMutex
	events []*Event
}

// NewMemoryStore returns an empty store. Events are durable as long as it
// lives; Close and another [Open] of the same store find them again.
func NewMemoryStore() *MemoryStore { return new(MemoryStore) }

var _ Store = (*MemoryStore)(nil)

// Append implements [Store].
func (m *MemoryStore) Append(ctx context.Context, next Seq, events []*Event) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if int(next) != len(m.events) {
		return fmt.Errorf("%w: next event is %d, not %d", ErrConflict, len(m.events), next)
	}
	grown := m.events
	for _, e := range events {
		if e.external() {
			// Another store may not live as long as this one.
			body, err := e.Body()
			if err != nil {
				return err
			}
			e = e.fresh()
			e.body, e.src = body, nil
		}
		grown = append(grown, e)
	}
	m.events = grown
	return nil
}

// Scan implements [Store].
func (m *MemoryStore) Scan(ctx context.Context, from Seq, fn func(*Event) error) error {
	m.mu.RLock()
	events := m.events
	m.mu.RUnlock()
	if from < 0 {
		return fmt.Errorf("scan from event %d", from)
	}
	for _, e := range events[min(int(from), len(events)):] {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := fn(e.fresh()); err != nil {
			return err
		}
	}
	return nil
}

// Close implements [Store]. The events stay for the next Open.
func (m *MemoryStore) Close() error { return nil }

// Events returns the events stored so far.
func (m *MemoryStore) Events() []*Event {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.events)
}
