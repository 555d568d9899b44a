package filestore

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var (
	kernel32   = syscall.NewLazyDLL("kernel32.dll")
	lockFile   = kernel32.NewProc("LockFileEx")
	unlockFile = kernel32.NewProc("UnlockFileEx")
)

const (
	failImmediately = 1
	exclusiveLock   = 2
	errLocked       = syscall.Errno(33)
)

// Locks bar reading on Windows, so it is a byte far behind the end that is
// locked.
func lockedByte() *syscall.Overlapped { return &syscall.Overlapped{OffsetHigh: 1 << 30} }

func tryLock(f *os.File, exclusive bool) (bool, error) {
	flags := uintptr(failImmediately)
	if exclusive {
		flags |= exclusiveLock
	}
	ok, _, err := lockFile.Call(f.Fd(), flags, 0, 1, 0, uintptr(unsafe.Pointer(lockedByte())))
	switch {
	case ok != 0:
		return true, nil
	case errors.Is(err, errLocked):
		return false, nil
	}
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
}

func unlock(f *os.File) error {
	if ok, _, err := unlockFile.Call(f.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(lockedByte()))); ok == 0 {
		return err
	}
	return nil
}

func syncDir(string) error { return nil }

func nameless(os.FileInfo) bool { return false }
