package filestore_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/agentcompact/agentcompact/store/filestore"
)

// disk is a file system of one file that remembers what was synced, and fails
// where it is told.
type disk struct {
	mu     sync.Mutex
	data   []byte
	synced []byte
	dirs   int // syncs of the directory

	writes, syncs int
	// fault is asked before each operation ("write", "sync", "truncate") with
	// how many of its kind there were. A torn write says how much of it is
	// written.
	fault func(op string, n int) (torn int, err error)
	dead  bool // the process is gone: nothing is written any more

	exclusive, shared int
}

var errDead = errors.New("the process is dead")

func newDisk(data []byte) *disk {
	return &disk{data: append([]byte(nil), data...), synced: append([]byte(nil), data...)}
}

func (d *disk) check(op string, n int) (int, error) {
	if d.dead {
		return 0, errDead
	}
	if d.fault == nil {
		return 0, nil
	}
	return d.fault(op, n)
}

func (d *disk) OpenFile(_ string, flag int, _ fs.FileMode) (filestore.File, error) {
	if d.data == nil && flag&os.O_CREATE == 0 {
		return nil, fs.ErrNotExist
	}
	return &diskFile{disk: d}, nil
}

func (d *disk) SyncDir(string) error { d.dirs++; return nil }

type diskFile struct {
	*disk
	lock   int // 0 none, 1 shared, 2 exclusive
	closed bool
}

func (f *diskFile) ReadAt(b []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *diskFile) WriteAt(b []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	torn, err := f.check("write", f.writes)
	if err != nil {
		b = b[:min(torn, len(b))]
	}
	f.data = append(f.data[:off], b...)
	return len(b), err
}

func (f *diskFile) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *diskFile) Truncate(n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.check("truncate", 0); err != nil {
		return err
	}
	f.data = f.data[:n]
	return nil
}

func (f *diskFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncs++
	if _, err := f.check("sync", f.syncs); err != nil {
		return err
	}
	f.synced = append(f.synced[:0:0], f.data...)
	return nil
}

func (f *diskFile) TryLock(exclusive bool) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exclusive > 0 || exclusive && f.shared > 0 {
		return false, nil
	}
	if exclusive {
		f.exclusive, f.lock = 1, 2
	} else {
		f.shared++
		f.lock = 1
	}
	return true, nil
}

func (f *diskFile) Unlock() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unlock()
	return nil
}

func (f *diskFile) unlock() {
	switch f.lock {
	case 1:
		f.shared--
	case 2:
		f.exclusive = 0
	}
	f.lock = 0
}

func (f *diskFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unlock()
	f.closed = true
	return nil
}
