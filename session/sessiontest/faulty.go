package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agentcompact/agentcompact/session"
)

// ErrFault is wrapped by the errors that a [Faulty] store makes up.
var ErrFault = errors.New("injected fault")

// Fault is what happens to a write.
type Fault int

// The faults of a write.
const (
	// Fail refuses the write; nothing is stored, and the store goes on.
	Fail Fault = iota + 1
	// Tear breaks the store in the middle of the write: nothing of it is in
	// the store when it is opened again, and nothing is taken until then.
	Tear
	// Lose takes the write and then fails its sync: nothing of it is in the
	// store, and what was staged on top of it fails too.
	Lose
	// Blind stores the write and reports an error nevertheless.
	Blind
)

// Faulty is a store that does to its n-th write what it is told, and is a
// correct [session.Store] and [session.Stager] otherwise. It is safe for
// concurrent use. Open the store behind it again to get rid of its faults.
type Faulty struct {
	session.Store

	mu     sync.Mutex
	writes int // begun so far
	faults map[int]Fault
	stalls map[int]*stall
	lost   bool // a write waits for a sync that fails
	broken error
}

type stall struct{ reached, released chan struct{} }

var (
	_ session.Store  = (*Faulty)(nil)
	_ session.Stager = (*Faulty)(nil)
)

// NewFaulty returns a store over another one.
func NewFaulty(s session.Store) *Faulty {
	return &Faulty{Store: s, faults: map[int]Fault{}, stalls: map[int]*stall{}}
}

// On lets the n-th write from now on have a fault; 1 is the next one.
func (f *Faulty) On(n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[f.writes+n] = fault
}

// Stall holds the n-th write from now on back until release is called; reached
// is closed when it has begun. The stalled write has taken its place in the
// order already, and is not durable.
func (f *Faulty) Stall(n int) (reached <-chan struct{}, release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := &stall{make(chan struct{}), make(chan struct{})}
	f.stalls[f.writes+n] = st
	return st.reached, sync.OnceFunc(func() { close(st.released) })
}

// Writes returns how many writes have begun.
func (f *Faulty) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// Append implements [session.Store].
func (f *Faulty) Append(ctx context.Context, next session.Seq, events []*session.Event) error {
	wait, err := f.Stage(ctx, next, events)
	if err != nil {
		return err
	}
	return wait()
}

// Stage implements [session.Stager].
func (f *Faulty) Stage(ctx context.Context, next session.Seq, events []*session.Event) (func() error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil && !f.lost {
		return nil, f.broken
	}
	f.writes++
	n := f.writes
	fail := func() error { return fmt.Errorf("write %d: %w", n, ErrFault) }
	if f.lost {
		return func() error { return f.broken }, nil // on top of what is lost
	}
	var wait func() error
	switch f.faults[n] {
	case Fail:
		return nil, fail()
	case Tear:
		f.broken = fail()
		return nil, f.broken
	case Lose:
		f.lost, f.broken = true, fail()
		wait = func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lost = false
			return f.broken
		}
	default:
		if st, ok := f.Store.(session.Stager); ok {
			w, err := st.Stage(ctx, next, events)
			if err != nil {
				return nil, err
			}
			wait = w
		} else if err := f.Store.Append(ctx, next, events); err != nil {
			return nil, err
		} else {
			wait = func() error { return nil }
		}
		if f.faults[n] == Blind {
			durable := wait
			f.broken = fail()
			wait = func() error { return errors.Join(fail(), durable()) }
		}
	}
	if st := f.stalls[n]; st != nil {
		rest := wait
		wait = func() error {
			close(st.reached)
			<-st.released
			return rest()
		}
	}
	return wait, nil
}
