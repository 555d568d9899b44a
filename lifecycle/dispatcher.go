package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Codec tells a [Dispatcher] how to handle values of a host's type. Its
// functions are pure and safe for concurrent use.
type Codec[T any] struct {
	// Clone returns a deep copy that keeps the difference between nil and empty;
	// required.
	Clone func(T) T
	// Equal reports whether two values are the same, so that what a preserver
	// left as it was is not replaced by its copy; nil means never.
	Equal func(a, b T) bool
	// Validate says what is wrong with what a preserver made of a value; nil
	// means that nothing can be.
	Validate func(before, after T) error
}

// Options configure a [Dispatcher].
type Options[C, R any] struct {
	// Observers and Preservers are called in order. Nil entries are an error.
	Observers  []Observer
	Preservers []Preserver[C, R]
	// Call and Result handle what is sent and what is released; required with
	// preservers.
	Call   Codec[C]
	Result Codec[R]
	// BackgroundAux is handed to preservers; nil means that there is none.
	BackgroundAux BackgroundClient
	// ObserverTimeout and PreserverTimeout bound one callback; 0 means one and
	// five seconds. A [Deadliner] has its own.
	ObserverTimeout, PreserverTimeout time.Duration
	// MaxRunning bounds, for each observer and preserver, the callbacks that
	// were left alone and have not returned; while so many run it is not called.
	// 0 means 4.
	MaxRunning int
	// MaxFailures in a row keep an observer or preserver from being called for
	// CoolDown; then one callback is tried. 0 means 5 and one minute.
	MaxFailures int
	CoolDown    time.Duration
	// Failures is told of every callback that went wrong, without content, also
	// from several goroutines. It has one second; nil means that nobody is.
	Failures func(Failure)
	// Now is the clock of events and of the breaker; nil means [time.Now].
	Now func() time.Time
}

// Dispatcher stands between compactions and those who watch and guard them.
// It is safe for concurrent use and serves any number of compactions. It has
// no goroutine of its own. A nil Dispatcher tells nobody.
type Dispatcher[C, R any] struct {
	opts      Options[C, R]
	guard     *guard
	observers []observer
	keepers   []keeper[C, R]

	counts
}

type observer struct {
	Observer
	*owner
	detail DetailObserver // nil when it is none
}

type keeper[C, R any] struct {
	Preserver[C, R]
	*owner
	// Optional abilities; nil when it has them not.
	after   AfterResponseReleasePreserver[R]
	failed  RequestOpenFailedPreserver
	aborted AbortedPreserver
}

// New returns a dispatcher. The error names the option that does not fit.
func New[C, R any](o Options[C, R]) (*Dispatcher[C, R], error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.ObserverTimeout, time.Second)
	def(&o.PreserverTimeout, 5*time.Second)
	def(&o.CoolDown, time.Minute)
	if o.MaxRunning <= 0 {
		o.MaxRunning = 4
	}
	if o.MaxFailures <= 0 {
		o.MaxFailures = 5
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Preservers) > 0 && (o.Call.Clone == nil || o.Result.Clone == nil) {
		return nil, errors.New("lifecycle: preservers need codecs that clone what is sent and what is released")
	}
	d := &Dispatcher[C, R]{opts: o, guard: &guard{
		maxRunning: int32(o.MaxRunning), maxFailures: o.MaxFailures, coolDown: o.CoolDown, now: o.Now, sink: o.Failures,
		sinkOwner: owner{timeout: time.Second},
	}}
	for i, w := range o.Observers {
		if w == nil {
			return nil, fmt.Errorf("lifecycle: observer %d is nil", i)
		}
		detail, _ := w.(DetailObserver)
		d.observers = append(d.observers, observer{w, &owner{id: fmt.Sprintf("%T", w), timeout: timeoutOf(w, o.ObserverTimeout)}, detail})
	}
	seen := make(map[string]bool)
	for i, p := range o.Preservers {
		if p == nil {
			return nil, fmt.Errorf("lifecycle: preserver %d is nil", i)
		}
		id, err := idOf(p.ID)
		if err != nil {
			return nil, fmt.Errorf("lifecycle: preserver %d: %w", i, err)
		}
		if seen[id] {
			return nil, fmt.Errorf("lifecycle: two preservers have the id %q", id)
		}
		seen[id] = true
		k := keeper[C, R]{Preserver: p, owner: &owner{id: id, timeout: timeoutOf(p, o.PreserverTimeout)}}
		k.after, _ = p.(AfterResponseReleasePreserver[R])
		k.failed, _ = p.(RequestOpenFailedPreserver)
		k.aborted, _ = p.(AbortedPreserver)
		d.keepers = append(d.keepers, k)
	}
	return d, nil
}

func idOf(ask func() string) (id string, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it panicked when asked for its id")
		}
	}()
	if id = ask(); id == "" {
		err = errors.New("it has no id")
	}
	return id, err
}

func timeoutOf(x any, d time.Duration) time.Duration {
	if own, ok := x.(Deadliner); ok {
		if t := own.CallbackTimeout(); t > 0 {
			return t
		}
	}
	return d
}

// Emit tells the observers of transitions that were found elsewhere, by
// package detect for example: all are told of one before any is told of the
// next.
func (d *Dispatcher[C, R]) Emit(ctx context.Context, list ...Transition) {
	if d == nil {
		return
	}
	t := &telling[C, R]{d: d, list: list}
	t.count()
	d.guard.run(ctx, t, t.size())
}

// tell makes the callbacks of a stage. When ctx ends, preservers that come
// before the observers are told no more; all the others are.
func (d *Dispatcher[C, R]) tell(ctx context.Context, t *telling[C, R]) {
	t.d = d
	t.count()
	if t.run != nil && IsAuxiliary(ctx) {
		t.run = nil
	}
	free := 0
	if t.run != nil && !t.last {
		free = len(d.keepers)
	}
	d.guard.run(ctx, t, free)
}

// Stats returns the counts so far.
func (d *Dispatcher[C, R]) Stats() Stats {
	if d == nil {
		return Stats{}
	}
	g := d.guard
	s := Stats{
		Started: d.started.Load(), Completed: d.completed.Load(), Aborted: d.aborted.Load(),
		Calls: g.calls.Load(), Errors: g.errors.Load(), Panics: g.panics.Load(), Invalid: g.invalid.Load(),
		Deadlines: g.deadlines.Load(), Canceled: g.canceled.Load(), Vetoes: g.vetoes.Load(), Dropped: g.dropped.Load(),
	}
	add := func(o *owner) {
		n := int(o.running.Load())
		o.mu.Lock()
		open := int(o.failures.Load()) >= g.maxFailures && g.now().Before(o.openTill)
		o.mu.Unlock()
		s.Running += n
		s.Owners = append(s.Owners, OwnerStats{ID: o.id, Calls: o.calls.Load(), Failed: o.failed.Load(), Dropped: o.dropped.Load(), Running: n, Open: open})
	}
	for _, o := range d.observers {
		add(o.owner)
	}
	for _, k := range d.keepers {
		add(k.owner)
	}
	s.Running += int(g.sinkOwner.running.Load())
	return s
}
