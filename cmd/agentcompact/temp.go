package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tempPrefix begins the names of temporary files and folders: .agentcompact-HOST-PID-RANDOM,
// so that a later run knows whether anybody still writes to them.
const tempPrefix = ".agentcompact-"

// hostMark tells hosts that share a folder apart.
var hostMark = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	return fmt.Sprintf("%08x", h.Sum32())
})

// tempPattern is the pattern of the names that this process gives.
func tempPattern() string { return fmt.Sprintf("%s%s-%d-*", tempPrefix, hostMark(), os.Getpid()) }

// createTemp makes a temporary file in the folder of path.
func createTemp(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), tempPattern())
}

// staleAfter is how old what is taken away must be: one more guard against a process that this one cannot see.
const staleAfter = 10 * time.Minute

// sweep takes away what processes that were killed left in the folder of path.
// It is careful: only regular files and folders with a name of ours, from this
// host, old, and of a process that is not there any more. A link is left, and
// links in a folder are not followed.
func sweep(path string, now time.Time) {
	dir := filepath.Dir(path)
	list, _ := os.ReadDir(dir) // what cannot be listed stays
	for _, e := range list {
		rest, ours := strings.CutPrefix(e.Name(), tempPrefix)
		parts := strings.Split(rest, "-")
		if !ours || len(parts) != 3 || parts[0] != hostMark() || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		pid, err := strconv.Atoi(parts[1])
		if err != nil || !gone(pid) {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// likeInput gives a file that is about to take its place the owner of the input,
// where the process may do that and the file goes into the folder of the input.
// The mode is the caller's affair.
func (in *input) likeInput(tmp, path string) {
	a, err1 := os.Stat(filepath.Dir(path))
	b, err2 := os.Stat(filepath.Dir(in.path))
	if err := errors.Join(err1, err2); err == nil && os.SameFile(a, b) {
		chownLike(tmp, in.info)
	}
}

// sideMode is the mode of a log beside a transcript: it holds what the
// transcript does.
func (in *input) sideMode() fs.FileMode { return in.info.Mode().Perm() &^ 0o111 }
