//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSweep takes away what a killed process left, and nothing else.
func TestSweep(t *testing.T) {
	ended := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	require.NoError(t, ended.Run())
	dead, me := ended.Process.Pid, os.Getpid()
	dir := t.TempDir()
	old := time.Now().Add(-2 * staleAfter)
	put := func(name string, at time.Time) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, nil, 0o600))
		require.NoError(t, os.Chtimes(p, at, at))
		return name
	}
	left := func(host string, pid int, mark string) string {
		return fmt.Sprintf(".agentcompact-%s-%d-%s", host, pid, mark)
	}
	gone := put(left(hostMark(), dead, "1"), old)
	folder := func(name string) string {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		put(filepath.Join(name, "session.json"), old)
		require.NoError(t, os.Symlink(filepath.Join(dir, "run.json"), filepath.Join(dir, name, "link")))
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
		return name
	}
	goneToo := folder(left(hostMark(), dead, "7"))
	stays := []string{
		filepath.Join(folder(left(hostMark(), me, "8")), "session.json"),
		filepath.Join(folder(".agentcompact-own"), "session.json"),
		put(left(hostMark(), me, "2"), old),
		put(left("0badc0de", dead, "3"), old),
		put(left(hostMark(), dead, "4"), time.Now()),
		put(".agentcompact-notes", old),
		put("x"+left(hostMark(), dead, "5"), old),
		put("run.json", old),
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, "run.json"), filepath.Join(dir, left(hostMark(), dead, "6"))))
	require.NoError(t, writable(filepath.Join(dir, "out.json")))
	require.NoFileExists(t, filepath.Join(dir, gone))
	require.NoDirExists(t, filepath.Join(dir, goneToo))
	for _, name := range stays {
		require.FileExists(t, filepath.Join(dir, name))
	}
	_, err := os.Lstat(filepath.Join(dir, left(hostMark(), dead, "6")))
	require.NoError(t, err)
}

// TestOwnerAndMode: what takes the place of a file, and the log beside it, are
// open to whom the file was.
func TestOwnerAndMode(t *testing.T) {
	dir := openFolder(t, 0o755)
	path := filepath.Join(dir, "run.traj")
	transcript(t, path, 0o640)
	root := os.Getuid() == 0
	if root {
		require.NoError(t, os.Chown(path, 65534, 65533))
	}
	require.Equal(t, exitOK, run(t, "compact", path).code)
	require.Equal(t, exitOK, run(t, "compact", "-o", path, path).code)
	own := filepath.Join(dir, "run.compact.traj"+sidecarExt)
	require.Equal(t, exitOK, run(t, "undo", "-o", filepath.Join(dir, "copy.jsonl"), own).code)
	for _, name := range []string{"run.traj", "run.traj" + sidecarExt, "run.compact.traj", "run.compact.traj" + sidecarExt, "run.traj.bak", "copy.jsonl"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode().Perm(), name)
		if st := info.Sys().(*syscall.Stat_t); root {
			require.Equal(t, []uint32{65534, 65533}, []uint32{st.Uid, st.Gid}, name)
		}
	}
	if !root {
		t.Log("not root: owners were not tested")
	}
}
