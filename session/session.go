package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the optional settings of [Open]. Nil means all defaults.
type Options struct {
	// Pricer prices messages; nil means [BytePricer].
	Pricer Pricer
	// Now is the clock; nil means [time.Now].
	Now func() time.Time
	// Known says which event types of other packages the host understands. A
	// log with a required event of any other type is refused, and so is
	// appending one. Nil means all that start with "compact/".
	Known func(Type) bool
}

// config is what folding a log depends on.
type config struct {
	pricer Pricer
	known  func(Type) bool
}

// Session is a conversation over a [Store]. It is safe for concurrent use.
type Session struct {
	store Store
	cfg   config
	now   func() time.Time

	cur atomic.Pointer[state]

	mu     sync.Mutex // guards writing: order of store appends, and the fields below
	broken error      // why nothing can be written any more

	derived sync.Map // caches of other packages, by key
}

// Open reads the session in store and returns it; an empty store is an empty
// session. The session owns the store from then on and closes it.
//
// Nothing is repaired silently: an event that cannot be applied fails the
// whole, with its seq.
func Open(ctx context.Context, store Store, opts *Options) (*Session, error) {
	s := &Session{store: store, now: time.Now, cfg: config{
		pricer: BytePricer{},
		known:  func(t Type) bool { return strings.HasPrefix(string(t), "compact/") },
	}}
	if opts != nil {
		if opts.Pricer != nil {
			s.cfg.pricer = opts.Pricer
		}
		if opts.Known != nil {
			s.cfg.known = opts.Known
		}
		if opts.Now != nil {
			s.now = opts.Now
		}
	}
	s.cur.Store(newState())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.catchUp(ctx); err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	return s, nil
}

// View returns the newest state that this process knows. What another process
// appended shows up after the next write or [Session.Refresh]. With a store
// that is a [Stager], a view may show events that are not durable yet; if they
// cannot be made durable, the session takes no more writes.
func (s *Session) View() View { return View{s.cur.Load()} }

// Pricer returns the pricer of the session.
func (s *Session) Pricer() Pricer { return s.cfg.pricer }

// Refresh catches up with what others appended to the store.
func (s *Session) Refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	return s.catchUp(ctx)
}

// Update runs fn against the newest view and appends the events that it
// returns as one unit: all of them are stored, or none. When another process
// was faster, it catches up and runs fn again, so fn must not have effects.
// An error of fn is returned as it is; no events and no error appends nothing.
//
// It returns the seqs of the appended events, after they are durable. An error
// that wraps an error of the surface (such as [ErrPinned]) says that an event
// cannot be applied; nothing was stored then.
//
// fn runs while other writers wait. It must not write to the session, which
// would wait for ever.
func (s *Session) Update(ctx context.Context, fn func(View) ([]Body, error)) ([]Seq, error) {
	return s.write(ctx, func(st *state) ([]*Event, *state, error) {
		bodies, err := fn(View{st})
		if err != nil || len(bodies) == 0 {
			return nil, nil, err
		}
		return s.prepareBodies(st, s.now(), bodies)
	})
}

// write stores as one unit the events that next makes for the newest state, and
// takes over the state after them. It runs next again when another process was
// faster; no events and no error write nothing.
func (s *Session) write(ctx context.Context, next func(*state) ([]*Event, *state, error)) ([]Seq, error) {
	s.mu.Lock()
	seqs, wait, err := s.tryWrite(ctx, next)
	s.mu.Unlock()
	if err != nil || wait == nil {
		return seqs, err
	}
	if err := wait(); err != nil {
		err = fmt.Errorf("append event %d: %w", seqs[0], err)
		s.mu.Lock()
		if s.broken == nil {
			s.broken = fmt.Errorf("session takes no more writes: %w", err)
		}
		s.mu.Unlock()
		return nil, err
	}
	return seqs, nil
}

func (s *Session) tryWrite(ctx context.Context, next func(*state) ([]*Event, *state, error)) ([]Seq, func() error, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, nil, err
		}
		if s.broken != nil {
			return nil, nil, s.broken
		}
		st := s.cur.Load()
		events, after, err := next(st)
		if err != nil || len(events) == 0 {
			return nil, nil, err
		}
		wait, err := s.stage(ctx, Seq(len(st.log)), events)
		if errors.Is(err, ErrConflict) {
			if err := s.catchUp(ctx); err != nil {
				return nil, nil, err
			}
			if s.cur.Load() == st {
				return nil, nil, fmt.Errorf("store reports a conflict at event %d but holds no newer events: %w", len(st.log), err)
			}
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("append event %d: %w", len(st.log), err)
		}
		s.cur.Store(after)
		seqs := make([]Seq, len(events))
		for i, e := range events {
			seqs[i] = e.Seq
		}
		return seqs, wait, nil
	}
}

func (s *Session) prepareBodies(st *state, at time.Time, bodies []Body) ([]*Event, *state, error) {
	return s.prepare(st, at, len(bodies), func(st *state, i int) (*Event, error) {
		return newEvent(st, bodies[i], s.cfg.pricer)
	})
}

func (s *Session) stage(ctx context.Context, next Seq, events []*Event) (func() error, error) {
	if st, ok := s.store.(Stager); ok {
		return st.Stage(ctx, next, events)
	}
	return nil, s.store.Append(ctx, next, events)
}

// prepare returns the n events that event makes, with the seqs and the time
// that they get, and the state after them. event is given the state before it.
func (s *Session) prepare(st *state, at time.Time, n int, event func(st *state, i int) (*Event, error)) ([]*Event, *state, error) {
	at = time.UnixMilli(at.UnixMilli()).UTC()
	events := make([]*Event, n)
	st = st.derive()
	for i := range events {
		seq := Seq(len(st.log))
		e, err := event(st, i)
		if err != nil {
			return nil, nil, fmt.Errorf("event %d: %w", seq, err)
		}
		e.Seq, e.Time = seq, at
		if err := st.step(e, &s.cfg); err != nil {
			return nil, nil, fmt.Errorf("event %d (%s): %w", seq, e.Type, err)
		}
		events[i] = e
	}
	return events, st, nil
}

// catchUp applies the events that the store has and the session has not.
func (s *Session) catchUp(ctx context.Context) error {
	var st *state
	err := s.store.Scan(ctx, s.View().Next(), func(e *Event) error {
		if st == nil {
			st = s.cur.Load().derive()
		}
		if err := st.step(e, &s.cfg); err != nil {
			return fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
		}
		return nil
	})
	if err != nil || st == nil {
		return err
	}
	s.cur.Store(st)
	return nil
}

// Append puts messages at the tail of the surface, as one unit, and returns
// their seqs. It keeps no reference to them.
func (s *Session) Append(ctx context.Context, messages ...Message) ([]Seq, error) {
	// Not by Update, whose bodies would cost a copy of each message.
	return s.write(ctx, func(st *state) ([]*Event, *state, error) {
		return s.prepare(st, s.now(), len(messages), func(st *state, i int) (*Event, error) {
			return newAppend(st, &messages[i], s.cfg.pricer)
		})
	})
}

// Record appends events as one unit and returns their seqs.
func (s *Session) Record(ctx context.Context, bodies ...Body) ([]Seq, error) {
	return s.Update(ctx, func(View) ([]Body, error) { return bodies, nil })
}

// Fork copies the log up to and with event at into an empty store and opens it.
// [NoSeq] copies nothing. It fails inside an open turn. The two sessions share
// nothing that changes.
func (s *Session) Fork(ctx context.Context, at Seq, store Store, opts *Options) (*Session, error) {
	v := s.View()
	if at < NoSeq || at >= v.Next() {
		return nil, fmt.Errorf("fork: no event %d in a log of %d", at, v.Next())
	}
	open := NoSeq
	var events []*Event
	for e := range v.Events(0) {
		if e.Seq > at {
			break
		}
		switch e.Type {
		case TypeTurnStart:
			open = e.Seq
		case TypeTurnEnd:
			open = NoSeq
		}
		events = append(events, e)
	}
	if open != NoSeq {
		return nil, fmt.Errorf("fork: %w: event %d lies in the turn that event %d opened", ErrTurnState, at, open)
	}
	if len(events) > 0 {
		if err := store.Append(ctx, 0, events); err != nil {
			return nil, fmt.Errorf("fork: %w", err)
		}
	}
	return Open(ctx, store, opts)
}

// Close closes the store. Views stay readable as far as their payloads are in
// memory. A second Close does nothing.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = fmt.Errorf("session: %w", ErrClosed)
	}
	return s.store.Close()
}

// Derived returns the value that belongs to the session under key, made by
// make on first use. Packages keep incremental indexes there; the key should
// be of a type of their own. make may be called more than once, and one of its
// values is kept.
func Derived[T any](s *Session, key any, make func() T) T {
	if v, ok := s.derived.Load(key); ok {
		return v.(T)
	}
	v, _ := s.derived.LoadOrStore(key, make())
	return v.(T)
}
