package filestore

import (
	"io"
	"io/fs"
	"os"
)

// FS is what a store needs of a file system. Tests put faults into it.
type FS interface {
	// OpenFile is [os.OpenFile].
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error
}

// File is what a store needs of a file. All methods but Close may be called
// concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes everything that was written durable.
	Sync() error
	// TryLock takes the lock of the file, exclusively or shared with other
	// shared ones, and reports false when somebody else has it. It may be
	// taken through one File once at a time.
	TryLock(exclusive bool) (bool, error)
	// Unlock gives the lock back.
	Unlock() error
}

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) SyncDir(dir string) error { return syncDir(dir) }

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Removed reports whether the file has no name any more, where the system can tell.
func (f osFile) Removed() (bool, error) {
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	return nameless(st), nil
}

func (f osFile) TryLock(exclusive bool) (bool, error) { return tryLock(f.File, exclusive) }
func (f osFile) Unlock() error                        { return unlock(f.File) }
