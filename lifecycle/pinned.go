package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// Pinned is a preserver that puts facts into every checkpoint: those of all
// sessions, set in the program, and those of one session, kept in its state.
// It is safe for concurrent use.
type Pinned struct {
	mu    sync.Mutex
	facts []string
}

var _ Preserver[Call, Checkpoint] = (*Pinned)(nil)

// pinnedID is the id of the preserver, factsKey where a session's facts are.
const (
	pinnedID = "pinned-facts"
	factsKey = "facts"
)

// NewPinned returns a preserver with these facts for all sessions.
func NewPinned(facts ...string) *Pinned {
	p := new(Pinned)
	p.Set(facts...)
	return p
}

// Set replaces the facts for all sessions.
func (p *Pinned) Set(facts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.facts = AddNotes(nil, facts...)
}

// Facts returns the facts for all sessions.
func (p *Pinned) Facts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.facts)
}

// Pin stores facts with one session, beside those that it has already.
func (p *Pinned) Pin(ctx context.Context, store StateStore, facts ...string) error {
	own, err := sessionFacts(ctx, store.Of(pinnedID))
	if err != nil {
		return err
	}
	return putFacts(ctx, store.Of(pinnedID), AddNotes(own, facts...))
}

// Unpin takes facts of one session away.
func (p *Pinned) Unpin(ctx context.Context, store StateStore, facts ...string) error {
	own, err := sessionFacts(ctx, store.Of(pinnedID))
	if err != nil {
		return err
	}
	gone := AddNotes(nil, facts...)
	return putFacts(ctx, store.Of(pinnedID), slices.DeleteFunc(own, func(f string) bool { return slices.Contains(gone, f) }))
}

func sessionFacts(ctx context.Context, s State) ([]string, error) {
	if s == nil {
		return nil, nil
	}
	b, ok, err := s.Get(ctx, factsKey)
	if err != nil || !ok {
		return nil, err
	}
	var facts []string
	if err := json.Unmarshal(b, &facts); err != nil {
		return nil, fmt.Errorf("read pinned facts: %w", err)
	}
	return facts, nil
}

func putFacts(ctx context.Context, s State, facts []string) error {
	b, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("store pinned facts: %w", err)
	}
	return s.Put(ctx, factsKey, b)
}

// ID implements [Preserver].
func (p *Pinned) ID() string { return pinnedID }

// BeforeRequest implements [Preserver]; it changes nothing.
func (p *Pinned) BeforeRequest(context.Context, *Call, RequestPreview, PreservationMeta, Services) error {
	return nil
}

// RequestOpened implements [Preserver]; it does nothing.
func (p *Pinned) RequestOpened(context.Context, Call, []Event, PreservationMeta, Services) error {
	return nil
}

// BeforeResponseRelease implements [Preserver]: it adds the facts.
func (p *Pinned) BeforeResponseRelease(ctx context.Context, c *Checkpoint, _ ResponsePreview, _ PreservationMeta, s Services) error {
	own, err := sessionFacts(ctx, s.State)
	if err != nil {
		return err
	}
	c.Notes = AddNotes(AddNotes(c.Notes, p.Facts()...), own...)
	return nil
}
