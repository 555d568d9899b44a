package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/agentcompact/agentcompact/session"
)

// overlay is a store that is only read, with what is appended to it in memory.
type overlay struct {
	base session.Store

	mu     sync.Mutex
	n      session.Seq // events of base; -1 before they were read
	events [][]byte
}

func newOverlay(base session.Store) *overlay { return &overlay{base: base, n: session.NoSeq} }

var _ session.Store = (*overlay)(nil)

func (o *overlay) state() (session.Seq, [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n, o.events
}

// Scan implements [session.Store]. What others append to base after the first
// Scan is not seen.
func (o *overlay) Scan(ctx context.Context, from session.Seq, fn func(*session.Event) error) error {
	n, events := o.state()
	if n == session.NoSeq || from < n {
		next := from
		err := o.base.Scan(ctx, from, func(e *session.Event) error {
			if n != session.NoSeq && e.Seq >= n {
				return errEnough
			}
			next = e.Seq + 1
			return fn(e)
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
		if n == session.NoSeq {
			o.mu.Lock()
			o.n = next
			o.mu.Unlock()
			n = next
		}
	}
	for _, b := range events[min(max(int(from-n), 0), len(events)):] {
		e, err := session.ParseEvent(b)
		if err == nil {
			err = fn(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errEnough = errors.New("enough")

// Append implements [session.Store].
func (o *overlay) Append(ctx context.Context, next session.Seq, events []*session.Event) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	lines := make([][]byte, len(events))
	for i, e := range events {
		var err error
		if lines[i], err = session.AppendEvent(nil, e); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if have := max(o.n, 0) + session.Seq(len(o.events)); next != have {
		return fmt.Errorf("%w: next event is %d, not %d", session.ErrConflict, have, next)
	}
	o.events = append(o.events, lines...)
	return nil
}

// Close implements [session.Store].
func (o *overlay) Close() error { return o.base.Close() }

// closing is a store that closes something else, too: the file that its session
// reads messages from.
type closing struct {
	session.Store
	also io.Closer
}

// Close implements [session.Store].
func (c closing) Close() error { return errors.Join(c.Store.Close(), c.also.Close()) }
