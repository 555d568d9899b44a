package wire

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

// Store is a conversation as the log of a session: its envelope, unless it is
// empty, then its entries with their usage. A session that is opened on it does
// not keep the messages but reads them from the conversation when somebody asks;
// what is appended stays in memory. It is safe for concurrent use.
//
//	s, err := session.Open(ctx, wire.NewStore(c, pricer), &session.Options{Pricer: pricer})
type Store struct {
	c      *Conversation
	pricer session.Pricer
	usage  bool
	at     time.Time

	mu     sync.Mutex
	read   bool          // the conversation was read to its end
	seqs   []session.Seq // of its entries
	next   session.Seq   // the seq behind it
	events [][]byte      // what was appended
	closed bool
}

// StoreOptions are the optional settings of [NewStore].
type StoreOptions struct {
	// NoUsage leaves out what providers reported.
	NoUsage bool
	// Time is that of the events, as if the conversation had been imported then;
	// zero means now.
	Time time.Time
}

// NewStore returns a store over the conversation, which must not be changed
// afterwards. pricer is that of the session. The conversation's file must stay
// readable as long as the session is in use.
func NewStore(c *Conversation, pricer session.Pricer, opts *StoreOptions) *Store {
	s := &Store{c: c, pricer: pricer, usage: true, at: time.Now()}
	if opts != nil {
		s.usage = !opts.NoUsage
		if !opts.Time.IsZero() {
			s.at = opts.Time
		}
	}
	s.at = time.UnixMilli(s.at.UnixMilli())
	return s
}

var _ session.Store = (*Store)(nil)

// Seqs returns the seq of each entry. It is complete when a session was opened.
func (s *Store) Seqs() []session.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seqs
}

// payloads gives back messages by entry.
type payloads struct{ c *Conversation }

// Load implements [session.Loader].
func (p payloads) Load(off int64, _ int) ([]byte, error) {
	e, err := p.c.At(int(off))
	if err != nil {
		return nil, err
	}
	return e.Message.MarshalJSON()
}

// LoadMessage implements [session.MessageLoader].
func (p payloads) LoadMessage(off int64, _ int) (*session.Message, error) {
	e, err := p.c.At(int(off))
	if err != nil {
		return nil, err
	}
	return &e.Message, nil
}

var _ session.MessageLoader = payloads{}

// Scan implements [session.Store].
func (s *Store) Scan(ctx context.Context, from session.Seq, fn func(*session.Event) error) error {
	if from < 0 {
		return fmt.Errorf("scan from event %d", from)
	}
	if read, next, _ := s.state(); !read || from < next {
		if err := s.scan(ctx, from, fn); err != nil {
			return err
		}
	}
	_, next, events := s.state()
	for _, b := range events[min(int(max(from-next, 0)), len(events)):] {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		e, err := session.ParseEvent(b)
		if err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) state() (read bool, next session.Seq, events [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read, s.next, s.events
}

// scan makes the events of the conversation.
func (s *Store) scan(ctx context.Context, from session.Seq, fn func(*session.Event) error) error {
	next := session.Seq(0)
	emit := func(e *session.Event, err error) error {
		if err != nil {
			return fmt.Errorf("event %d of the transcript: %w", next, err)
		}
		if next++; next > from {
			return fn(e)
		}
		return nil
	}
	if e := &s.c.Envelope; !e.Equal(&session.Envelope{}) {
		if err := emit(session.BodyEvent(next, s.at, session.SetEnvelope{Envelope: *e})); err != nil {
			return err
		}
	}
	seqs := make([]session.Seq, 0, s.c.Len())
	id := s.pricer.ID() // the events share it
	for i := range s.c.Len() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		e, err := s.c.At(i)
		if err != nil {
			return err
		}
		seqs = append(seqs, next)
		if err := emit(session.MessageEvent(next, s.at, &e.Message, s.pricer.Price(&e.Message), id,
			session.Payload{Loader: payloads{s.c}, Off: int64(i)})); err != nil {
			return err
		}
		if !countable(e.Usage) || !s.usage {
			continue
		}
		u := *e.Usage
		u.Node = seqs[i]
		if err := emit(session.BodyEvent(next, s.at, u)); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.seqs, s.next = true, seqs, next
	return nil
}

// Append implements [session.Store].
func (s *Store) Append(ctx context.Context, next session.Seq, events []*session.Event) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if read, _, _ := s.state(); !read { // how long it is is not known yet
		if err := s.scan(ctx, 0, func(*session.Event) error { return nil }); err != nil {
			return err
		}
	}
	lines := make([][]byte, len(events))
	for i, e := range events {
		var err error
		if lines[i], err = session.AppendEvent(nil, e); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return session.ErrClosed
	}
	if have := s.next + session.Seq(len(s.events)); next != have {
		return fmt.Errorf("%w: next event is %d, not %d", session.ErrConflict, have, next)
	}
	s.events = append(s.events, lines...)
	return nil
}

// Close implements [session.Store]. The conversation stays readable.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
