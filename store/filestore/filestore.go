package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

// Options are the optional settings of [Open]. Nil means all defaults.
type Options struct {
	// SyncEvery says when bytes are synced. Zero: before an append returns;
	// nothing acknowledged is ever lost. Positive: an append returns when its
	// bytes are written, and a sync follows within that time; a crash of the
	// machine may lose the appends of that time, a crash of the process none.
	// [Never]: only when the store is closed; a crash of the machine may lose
	// every append since the file was opened.
	SyncEvery time.Duration
	// ReadOnly opens an existing file for scans only.
	ReadOnly bool
	// Cut is called when the remains of a crash were cut off the end of the
	// file. It must not use the store. Nil means nobody is told.
	Cut func(Cut)
	// Now is the clock; nil means [time.Now].
	Now func() time.Time
	// FS is the file system; nil means [OS].
	FS FS
}

// Never is the SyncEvery of a store that syncs only when it is closed.
const Never time.Duration = -1

// Store is a [session.Store] and a [session.Stager] over one file. It is safe
// for concurrent use.
type Store struct {
	path string
	opts Options
	fs   FS
	f    File

	mu   ctxMutex // guards the fields below, and is held while the file lock is waited for
	cond *sync.Cond

	end   place   // behind the last append that is known to be in the file
	marks []place // some boundaries, in order
	// durable is how much of the file is known to be synced.
	durable int64

	locked   bool // whether this store has the exclusive file lock
	lockedAt time.Time
	grace    *time.Timer // gives back a lock that a conflict left behind

	group    *group // appends that wait to be written; nil when there are none
	flushing bool
	inFlight session.Seq // events that are being written
	timer    *time.Timer // of SyncEvery

	sound atomic.Int64 // the offset of end, for readers without the mutex
	ahead ahead

	torn   *Torn // what the newest scan passed over
	closed bool
	broken error // why nothing can be appended any more
}

var (
	_ session.Store  = (*Store)(nil)
	_ session.Stager = (*Store)(nil)
)

// Open opens a session file, and creates it when there is none. The first
// append writes the header. Open reads no more than that.
func Open(path string, opts *Options) (*Store, error) {
	s := &Store{path: path, mu: newCtxMutex()}
	s.cond = sync.NewCond(s.mu)
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.fs = s.opts.FS; s.fs == nil {
		s.fs = OS
	}
	flag := os.O_RDWR | os.O_CREATE
	if s.opts.ReadOnly {
		flag = os.O_RDONLY
	}
	f, err := s.fs.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	s.f = f
	if err := s.checkHeader(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) checkHeader() error {
	b := make([]byte, maxHeader+1)
	n, err := s.f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	_, err = parseHeader(s.path, b[:n])
	return err
}

// Append implements [session.Store].
func (s *Store) Append(ctx context.Context, next session.Seq, events []*session.Event) error {
	wait, err := s.Stage(ctx, next, events)
	if err != nil {
		return err
	}
	return wait()
}

// Scan implements [session.Store]. Payloads are left in the file and loaded
// when they are needed, also after the store was closed.
func (s *Store) Scan(ctx context.Context, from session.Seq, fn func(*session.Event) error) error {
	if from < 0 {
		return fmt.Errorf("scan from event %d", from)
	}
	start, limit, err := s.extent(ctx, from)
	if err != nil {
		return err
	}
	var batch []*session.Event
	var marks []place
	last := start
	end, t, err := walk(s.path, s.f, start, limit, func(off int64, l line) error {
		e, err := session.ParseEventAt(l.event, (*payloads)(s), off)
		if err != nil {
			return fmt.Errorf("%s: byte %d: %w", s.path, off, err)
		}
		batch = append(batch, e)
		return nil
	}, func(p place) error {
		if p.off-last.off >= markEvery {
			marks, last = append(marks, p), p
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for _, e := range batch {
			if e.Seq >= from {
				if err := fn(e); err != nil {
					return err
				}
			}
		}
		batch = batch[:0]
		return nil
	})
	if err != nil {
		return err
	}
	var torn *Torn
	if t.reason != "" {
		if err := judge(s.path, s.f, end, t, limit); err != nil {
			return err
		}
		torn = &Torn{Path: s.path, Offset: end.off, Bytes: limit - end.off, Reason: t.reason}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.torn = torn
	for _, m := range append(marks, end) {
		s.learn(m)
	}
	return nil
}

// Torn returns what the newest [Store.Scan] found behind the last whole append
// and passed over; false when there was nothing, or no scan has come to the end
// yet. A session has scanned its store when it is open.
func (s *Store) Torn() (Torn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.torn == nil {
		return Torn{}, false
	}
	return *s.torn, true
}

const markEvery = 256 << 10

// learn takes note of a boundary; the mutex is held.
func (s *Store) learn(p place) {
	if p.off > s.end.off {
		s.end = p
		s.sound.Store(p.off)
	}
	if n := len(s.marks); n == 0 && p.off >= markEvery || n > 0 && p.off-s.marks[n-1].off >= markEvery {
		s.marks = append(s.marks, p)
	}
}

// extent returns where a scan starts and where it ends: behind everything that
// is durable now, whoever wrote it.
func (s *Store) extent(ctx context.Context, from session.Seq) (start place, limit int64, err error) {
	if err := s.mu.LockContext(ctx); err != nil {
		return start, 0, err
	}
	defer s.mu.Unlock()
	if s.closed {
		return start, 0, fmt.Errorf("session file %s: %w", s.path, session.ErrClosed)
	}
	limit = s.end.off
	if !s.locked {
		// Whoever writes has the lock until it is synced.
		if err := s.waitLock(ctx, false); err != nil {
			return start, 0, err
		}
		size, err := s.f.Size()
		if err := errors.Join(err, s.f.Unlock()); err != nil {
			return start, 0, err
		}
		if size < s.end.off {
			return start, 0, s.shrunk(size)
		}
		limit = size
	}
	if from >= s.end.next {
		return s.end, limit, nil
	}
	if i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].next > from }); i > 0 {
		start = s.marks[i-1]
	}
	return start, limit, nil
}

func (s *Store) shrunk(size int64) error {
	return &DamageError{Path: s.path, Offset: size, Events: s.end.next,
		Reason: fmt.Sprintf("the file was %d bytes long and has become shorter", s.end.off)}
}

// Close implements [session.Store]. It syncs what was not synced yet.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for s.flushing || s.group != nil {
		s.progress()
	}
	var err error
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.durable < s.end.off && s.opts.SyncEvery != 0 && !s.opts.ReadOnly && s.broken == nil {
		err = s.f.Sync()
	}
	s.release()
	return errors.Join(err, s.f.Close())
}

// payloads is the store as the [session.Loader] of its events.
type payloads Store

// ahead is what was read beyond the last payload that was asked for, since
// payloads are mostly asked for in order.
type ahead struct {
	mu   sync.Mutex
	off  int64
	data []byte
	want int64 // where the next payload may be when they are asked for in order
}

const readAhead = 128 << 10

func (p *payloads) Load(off int64, n int) ([]byte, error) {
	b := make([]byte, n)
	a := &p.ahead
	a.mu.Lock()
	if off >= a.off && off+int64(n) <= a.off+int64(len(a.data)) {
		copy(b, a.data[off-a.off:])
		a.want = off + int64(n)
		a.mu.Unlock()
		return b, nil
	}
	inOrder := off >= a.want && off < a.want+4<<10
	a.want = off + int64(n)
	a.mu.Unlock()
	if !inOrder {
		return b, p.read(b, off)
	}
	// Whatever is before the end of the last append never changes.
	block := make([]byte, min(max(p.sound.Load()-off, int64(n)), max(readAhead, int64(n))))
	if err := p.read(block, off); err != nil {
		return nil, err
	}
	copy(b, block)
	a.mu.Lock()
	a.off, a.data = off, block
	a.mu.Unlock()
	return b, nil
}

func (p *payloads) read(b []byte, off int64) error {
	_, err := p.f.ReadAt(b, off)
	if errors.Is(err, fs.ErrClosed) {
		f, err := p.fs.OpenFile(p.path, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.ReadAt(b, off); err != nil {
			return fmt.Errorf("read %s: %w", p.path, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", p.path, err)
	}
	return nil
}

// ctxMutex is a mutex whose Lock can be given up.
type ctxMutex chan struct{}

func newCtxMutex() ctxMutex { return make(ctxMutex, 1) }

func (m ctxMutex) Lock()   { m <- struct{}{} }
func (m ctxMutex) Unlock() { <-m }

func (m ctxMutex) LockContext(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
