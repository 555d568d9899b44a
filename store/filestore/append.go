package filestore

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

// How appends reach the file. Stage takes the file lock unless the store has
// it, catches up with what others appended, and puts the events into the open
// group. The first of those who wait for the group writes and syncs it while
// the next group fills; there is no goroutine of the store's own. The lock is
// given back when no group is left, and at the latest when it was held for
// holdLock, so that other processes get their turn.
const (
	holdLock = 20 * time.Millisecond
	// A store that was told of a conflict keeps the lock for so long, since it
	// is about to catch up and try again; a busy process could starve it
	// otherwise.
	graceLock = 20 * time.Millisecond
)

// group is a number of appends that share a write and a sync.
type group struct {
	buf   []byte // encoded events
	lines []staged
	done  bool
	err   error
}

type staged struct{ size, left int }

// encoded has buffers for events that are being encoded, none above maxScratch.
var encoded = sync.Pool{New: func() any { return new([]byte) }}

const maxScratch = 16 << 20

// Stage implements [session.Stager].
func (s *Store) Stage(ctx context.Context, next session.Seq, events []*session.Event) (wait func() error, err error) {
	scratch := encoded.Get().(*[]byte)
	buf := (*scratch)[:0]
	defer func() {
		if cap(buf) <= maxScratch {
			*scratch = buf
			encoded.Put(scratch)
		}
	}()
	lines := make([]staged, len(events))
	for i, e := range events {
		if e.Seq != next+session.Seq(i) {
			return nil, fmt.Errorf("append to %s: event %d has seq %d", s.path, next+session.Seq(i), e.Seq)
		}
		before := len(buf)
		b, err := session.AppendEvent(buf, e)
		if err != nil {
			return nil, err
		}
		buf = b
		lines[i] = staged{len(buf) - before, len(events) - 1 - i}
	}
	if err := s.mu.LockContext(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	have := s.end.next
	if s.flushing {
		have += s.inFlight
	}
	if s.group != nil {
		have += session.Seq(len(s.group.lines))
	}
	switch {
	case next != have:
		// Who is told so catches up, so what is staged must be in the file.
		for s.flushing || s.group != nil {
			s.progress()
		}
		if s.locked {
			s.grace = time.AfterFunc(graceLock, s.graceOver)
		}
		return nil, fmt.Errorf("append to %s: %w: next event is %d, not %d", s.path, session.ErrConflict, have, next)
	case len(events) == 0:
		if s.group == nil && !s.flushing {
			s.release()
		}
		return func() error { return nil }, nil
	}
	if s.group == nil {
		s.group = new(group)
	}
	g := s.group
	g.buf = append(g.buf, buf...)
	g.lines = append(g.lines, lines...)
	return func() error { return s.wait(g) }, nil
}

// wait returns when the group is in the file, and writes it when nobody else
// does.
func (s *Store) wait(g *group) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !g.done {
		s.progress()
	}
	return g.err
}

// progress waits for the group that is being written, or else writes the open
// one. The mutex is held, and given up meanwhile.
func (s *Store) progress() {
	if s.flushing {
		s.cond.Wait()
	} else if s.group != nil {
		s.flush()
	}
}

// acquire gets the file lock and catches up with the file. The mutex is held.
func (s *Store) acquire(ctx context.Context) error {
	for {
		switch {
		case s.closed:
			return fmt.Errorf("session file %s: %w", s.path, session.ErrClosed)
		case s.opts.ReadOnly:
			return fmt.Errorf("append to %s: %w", s.path, ErrReadOnly)
		case s.broken != nil:
			return s.broken
		}
		if s.grace != nil {
			s.grace.Stop()
			s.grace = nil
		}
		if !s.locked {
			break
		}
		if time.Since(s.lockedAt) < holdLock || s.group == nil && !s.flushing {
			return nil
		}
		// Let others have the lock before more is staged.
		s.progress()
		if !s.locked {
			s.mu.Unlock()
			time.Sleep(pollMin)
			s.mu.Lock()
		}
	}
	if err := s.waitLock(ctx, true); err != nil {
		return err
	}
	s.locked, s.lockedAt = true, time.Now()
	if err := s.catchUp(); err != nil {
		s.release()
		return err
	}
	return nil
}

// Waiting for the file lock is polling, since a wait for it cannot be given up.
const (
	pollMin = 50 * time.Microsecond
	pollMax = 2 * time.Millisecond
)

func (s *Store) waitLock(ctx context.Context, exclusive bool) error {
	for d := pollMin; ; d = min(d*2, pollMax) {
		ok, err := s.f.TryLock(exclusive)
		if ok || err != nil {
			return err
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

func (s *Store) graceOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grace != nil && s.group == nil && !s.flushing {
		s.release()
	}
}

// release gives the file lock back. The mutex is held.
func (s *Store) release() {
	if s.grace != nil {
		s.grace.Stop()
		s.grace = nil
	}
	if s.locked {
		s.locked = false
		if err := s.f.Unlock(); err != nil && s.broken == nil {
			s.broken = fmt.Errorf("unlock %s: %w", s.path, err)
		}
	}
}

// catchUp brings the end up to the file's, and cuts off a torn write: since
// this store has the lock, nobody is still writing it.
func (s *Store) catchUp() error {
	if f, ok := s.f.(interface{ Removed() (bool, error) }); ok {
		removed, err := f.Removed()
		if err != nil {
			return err
		}
		if removed {
			return fmt.Errorf("session file %s: %w", s.path, ErrRemoved)
		}
	}
	size, err := s.f.Size()
	if err != nil {
		return err
	}
	if size < s.end.off {
		return s.shrunk(size)
	}
	if size > s.end.off {
		end, t, err := walk(s.path, s.f, s.end, size, nil, func(p place) error {
			s.learn(p)
			return nil
		})
		if err != nil {
			return err
		}
		if t.reason != "" {
			if err := judge(s.path, s.f, end, t, size); err != nil {
				return err
			}
			if err := s.f.Truncate(end.off); err != nil {
				return fmt.Errorf("cut off the torn end of %s: %w", s.path, err)
			}
			s.torn = nil
			if s.opts.Cut != nil {
				s.opts.Cut(Cut{Path: s.path, Offset: end.off, Bytes: size - end.off})
			}
		}
	}
	if s.durable == 0 && s.end.off > 0 && s.opts.SyncEvery == 0 {
		// From here on damage before the end can be told from a torn write.
		if err := s.f.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", s.path, err)
		}
		s.durable = s.end.off
	}
	return nil
}

// flush writes and syncs the open group. The mutex is held, and given up
// meanwhile. Afterwards the group is done.
func (s *Store) flush() {
	g, at, durable := s.group, s.end, s.durable
	s.group, s.flushing, s.inFlight = nil, true, session.Seq(len(g.lines))
	s.mu.Unlock()
	n, err := s.write(g, at, durable)
	s.mu.Lock()
	s.flushing, s.inFlight = false, 0
	g.done, g.err = true, err
	if err == nil {
		s.learn(place{at.off + n, at.next + session.Seq(len(g.lines))})
		if s.opts.SyncEvery == 0 {
			s.durable = s.end.off
		} else if s.opts.SyncEvery > 0 && s.timer == nil {
			s.timer = time.AfterFunc(s.opts.SyncEvery, s.syncLate)
		}
	} else {
		s.fail(err)
	}
	if s.group == nil {
		s.release()
	}
	s.cond.Broadcast()
}

// fail makes the store refuse everything from now on, what is staged on top of
// the failure included.
func (s *Store) fail(err error) {
	if s.broken == nil {
		s.broken = fmt.Errorf("session file takes no more appends: %w", err)
	}
	if s.group != nil {
		s.group.done, s.group.err = true, s.broken
		s.group = nil
	}
}

// write puts the group into the file, or takes back what it can.
func (s *Store) write(g *group, at place, durable int64) (int64, error) {
	start := at.off
	if at.off == 0 {
		n, err := s.writeHeader()
		if err != nil {
			return 0, s.takeBack(at.off, err)
		}
		start = n
	}
	buf := make([]byte, 0, len(g.buf)+len(g.lines)*(trailer+64))
	events := g.buf
	for i, l := range g.lines {
		if i > 0 {
			durable = 0
		}
		buf = appendLine(buf, events[:l.size], l.left, durable)
		events = events[l.size:]
	}
	_, err := s.f.WriteAt(buf, start)
	if err != nil {
		err = fmt.Errorf("write %s: %w", s.path, err)
	} else if s.opts.SyncEvery == 0 {
		if err = s.f.Sync(); err != nil {
			err = fmt.Errorf("sync %s: %w", s.path, err)
		}
	}
	if err != nil {
		return 0, s.takeBack(at.off, err)
	}
	return start - at.off + int64(len(buf)), nil
}

// takeBack cuts off what a failed write may have left.
func (s *Store) takeBack(off int64, err error) error {
	if terr := s.f.Truncate(off); terr != nil {
		return fmt.Errorf("%w (and taking it back failed: %v)", err, terr)
	}
	return err
}

// writeHeader writes the header and makes it and the name of the file durable,
// whatever SyncEvery says: a file without a header is no session file.
func (s *Store) writeHeader() (int64, error) {
	h := appendHeader(nil, s.opts.Now())
	if _, err := s.f.WriteAt(h, 0); err != nil {
		return 0, fmt.Errorf("write %s: %w", s.path, err)
	}
	if err := s.f.Sync(); err != nil {
		return 0, fmt.Errorf("sync %s: %w", s.path, err)
	}
	if err := s.fs.SyncDir(filepath.Dir(s.path)); err != nil {
		return 0, fmt.Errorf("sync the directory of %s: %w", s.path, err)
	}
	return int64(len(h)), nil
}

// syncLate is the sync that follows an append with SyncEvery.
func (s *Store) syncLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	if s.closed || s.broken != nil || s.durable >= s.end.off {
		return
	}
	end := s.end.off
	s.mu.Unlock()
	err := s.f.Sync()
	s.mu.Lock()
	if err != nil {
		s.fail(fmt.Errorf("sync %s: %w", s.path, err))
		return
	}
	s.durable = max(s.durable, end)
}
