package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agentcompact/agentcompact/session"
)

// State keeps small values by key. It is safe for concurrent use.
type State interface {
	// Get returns the value of a key, and false when there is none. The value
	// is the caller's.
	Get(ctx context.Context, key string) ([]byte, bool, error)
	// Put stores a value durably, at most [MaxStateBytes] long.
	Put(ctx context.Context, key string, value []byte) error
	// Delete removes a key; it is no error when there is none.
	Delete(ctx context.Context, key string) error
}

// StateStore holds the states of several owners apart. It is safe for
// concurrent use.
type StateStore interface {
	// Of returns the state of one owner.
	Of(owner string) State
}

// MaxStateBytes is the longest value of a [State]. A key has at most 256 bytes.
const MaxStateBytes = 64 << 10

const maxKeyBytes = 256

// ErrStateTooLarge is wrapped by the error of a Put whose key or value is too
// long; ErrStateClosed is that of a store whose callback is over.
var (
	ErrStateTooLarge = errors.New("key or value is too long")
	ErrStateClosed   = errors.New("the callback that this store was lent to is over")
)

func checkState(key string, value []byte) error {
	if len(key) > maxKeyBytes || len(value) > MaxStateBytes {
		return fmt.Errorf("store state: %w: key of %d bytes, value of %d", ErrStateTooLarge, len(key), len(value))
	}
	return nil
}

// lentState is a state that a callback may use until it returns or is left
// alone.
type lentState struct {
	store StateStore
	owner string
	cc    *callContext
}

func (l *lentState) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if l.cc.ended() {
		return nil, false, ErrStateClosed
	}
	return l.store.Of(l.owner).Get(ctx, key)
}

func (l *lentState) Put(ctx context.Context, key string, value []byte) error {
	if l.cc.ended() {
		return ErrStateClosed
	}
	return l.store.Of(l.owner).Put(ctx, key, value)
}

func (l *lentState) Delete(ctx context.Context, key string) error {
	if l.cc.ended() {
		return ErrStateClosed
	}
	return l.store.Of(l.owner).Delete(ctx, key)
}

// TypeState is the log-only event in which [SessionState] keeps a value.
const TypeState session.Type = "lifecycle/state"

// stateEvent is the payload of [TypeState].
type stateEvent struct {
	Owner string `json:"owner"`
	Key   string `json:"key"`
	Value []byte `json:"value,omitempty"`
	Gone  bool   `json:"gone,omitempty"`
}

type stateKey struct{ owner, key string }

// sessionState reads the state from the log as far as it has not yet.
type sessionState struct {
	s      *session.Session
	mu     sync.Mutex
	next   session.Seq
	values map[stateKey][]byte
}

type sessionStateKey struct{}

// SessionState returns the store that keeps state in the session's log: it
// survives restarts, goes along when the session is forked, and is never on
// the surface. A value that is stored again unchanged writes nothing.
func SessionState(s *session.Session) StateStore {
	return session.Derived(s, sessionStateKey{}, func() *sessionState {
		return &sessionState{s: s, values: make(map[stateKey][]byte)}
	})
}

// fold reads what was appended since. The caller holds the lock.
func (t *sessionState) fold(v session.View) error {
	for e := range v.Events(t.next) {
		if e.Type == TypeState {
			b, err := e.Body()
			if err != nil {
				return err
			}
			var p stateEvent
			var data json.RawMessage
			switch b := b.(type) {
			case *session.Raw:
				data = b.Data
			case session.Raw:
				data = b.Data
			}
			if err := json.Unmarshal(data, &p); err != nil {
				return fmt.Errorf("decode event %d (%s): %w", e.Seq, e.Type, err)
			}
			if k := (stateKey{p.Owner, p.Key}); p.Gone {
				delete(t.values, k)
			} else {
				t.values[k] = p.Value
			}
		}
		t.next = e.Seq + 1
	}
	return nil
}

func (t *sessionState) get(v session.View, k stateKey) ([]byte, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.fold(v); err != nil {
		return nil, false, fmt.Errorf("read state: %w", err)
	}
	b, ok := t.values[k]
	return slices.Clone(b), ok, nil
}

// Of implements [StateStore].
func (t *sessionState) Of(owner string) State { return ownState{t, owner} }

type ownState struct {
	t     *sessionState
	owner string
}

func (o ownState) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, false, err
	}
	return o.t.get(o.t.s.View(), stateKey{o.owner, key})
}

func (o ownState) Put(ctx context.Context, key string, value []byte) error {
	if err := checkState(key, value); err != nil {
		return err
	}
	return o.t.write(ctx, stateEvent{Owner: o.owner, Key: key, Value: value})
}

func (o ownState) Delete(ctx context.Context, key string) error {
	return o.t.write(ctx, stateEvent{Owner: o.owner, Key: key, Gone: true})
}

func (t *sessionState) write(ctx context.Context, p stateEvent) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("store state: %w", err)
	}
	_, err = t.s.Update(ctx, func(v session.View) ([]session.Body, error) {
		old, ok, err := t.get(v, stateKey{p.Owner, p.Key})
		if err != nil {
			return nil, err
		}
		if p.Gone && !ok || ok && !p.Gone && string(old) == string(p.Value) {
			return nil, nil
		}
		return []session.Body{session.Raw{Type: TypeState, Data: data, Ignorable: true}}, nil
	})
	if err != nil {
		return fmt.Errorf("store state: %w", err)
	}
	return nil
}

// MemoryState keeps state in memory, for hosts without a session. The zero
// value is empty and ready to use.
type MemoryState struct {
	mu     sync.Mutex
	values map[stateKey][]byte
}

// Of implements [StateStore].
func (m *MemoryState) Of(owner string) State { return memoryPart{m, owner} }

type memoryPart struct {
	m     *MemoryState
	owner string
}

func (p memoryPart) Get(_ context.Context, key string) ([]byte, bool, error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	b, ok := p.m.values[stateKey{p.owner, key}]
	return slices.Clone(b), ok, nil
}

func (p memoryPart) Put(_ context.Context, key string, value []byte) error {
	if err := checkState(key, value); err != nil {
		return err
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.m.values == nil {
		p.m.values = make(map[stateKey][]byte)
	}
	p.m.values[stateKey{p.owner, key}] = slices.Clone(value)
	return nil
}

func (p memoryPart) Delete(_ context.Context, key string) error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	delete(p.m.values, stateKey{p.owner, key})
	return nil
}
