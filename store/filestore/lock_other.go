//go:build !darwin && !dragonfly && !freebsd && !illumos && !linux && !netbsd && !openbsd && !windows

package filestore

import (
	"errors"
	"os"
)

func tryLock(f *os.File, _ bool) (bool, error) {
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: errors.ErrUnsupported}
}

func unlock(*os.File) error { return errors.ErrUnsupported }

func syncDir(string) error { return nil }

func nameless(os.FileInfo) bool { return false }
