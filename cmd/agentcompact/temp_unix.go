//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// gone reports whether there is surely no process with that id.
func gone(pid int) bool {
	return pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// chownLike gives a file the owner and group of another one. Who may not do that
// leaves it.
func chownLike(path string, other fs.FileInfo) {
	want, ok := other.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && (have.Uid != want.Uid || have.Gid != want.Gid) {
		_ = os.Chown(path, int(want.Uid), int(want.Gid))
	}
}
