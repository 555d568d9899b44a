//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
)

// asOther runs the command as another user, and skips the test where this one
// cannot become another. The folder is made passable for that user.
func asOther(t *testing.T, args ...string) ran {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can run something as another user")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "agentcompact-other-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	bin := filepath.Join(dir, "agentcompact")
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(bin, data, 0o755))
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return finish(t, cmd)
}

func finish(t *testing.T, cmd *exec.Cmd) ran {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var e *exec.ExitError
	switch {
	case errors.As(err, &e):
		return ran{e.ExitCode(), out.String(), errs.String()}
	case errors.Is(err, syscall.EPERM):
		t.Skip("this user cannot run something as another one")
	}
	require.NoError(t, err)
	return ran{0, out.String(), errs.String()}
}

// open makes a folder that every user can pass and, if asked, write into.
func openFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agentcompact-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, mode))
	return dir
}

func transcript(t *testing.T, path string, mode os.FileMode) []byte {
	t.Helper()
	s, err := testdata.Find("openai-chat/swe-agent-xml-no-tools.traj")
	require.NoError(t, err)
	data, err := os.ReadFile(s.File())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, mode))
	require.NoError(t, os.Chmod(path, mode))
	return data
}

func TestNoPermission(t *testing.T) {
	dir := openFolder(t, 0o777)
	secret := filepath.Join(dir, "secret.traj")
	transcript(t, secret, 0o600)
	for _, args := range [][]string{{"inspect", secret}, {"compact", secret}, {"compact", "--json", "-o", secret, secret}} {
		r := asOther(t, args...)
		require.Equal(t, exitFailed, r.code)
		if slices.Contains(args, "--json") {
			require.Contains(t, r.stdout, `"kind": "failed"`)
		} else {
			require.Empty(t, r.stdout)
		}
		require.Contains(t, r.stderr, secret+": no permission: check the owner and mode of the file and of its folder")
	}
	require.Empty(t, leftovers(t, dir, "secret.traj"))

	// Our own format, readable but not writable: it is inspected, and compacted
	// elsewhere.
	own := filepath.Join(dir, "session.jsonl")
	ownSession(t, own, 20)
	require.NoError(t, os.Chmod(own, 0o644))
	require.Equal(t, exitOK, asOther(t, "inspect", own).code)
	r := asOther(t, "compact", own)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "no permission")
	r = asOther(t, "compact", "-o", filepath.Join(dir, "copy.jsonl"), own)
	require.Equal(t, exitOK, r.code, r.stderr)
}

func TestReadOnlyFolder(t *testing.T) {
	dir := openFolder(t, 0o755)
	path := filepath.Join(dir, "run.traj")
	data := transcript(t, path, 0o644)
	require.Equal(t, exitOK, asOther(t, "inspect", path).code)
	for _, args := range [][]string{{"compact", path}, {"compact", "-o", path, path}, {"compact", "-o", filepath.Join(dir, "x.traj"), path}} {
		r := asOther(t, args...)
		require.Equal(t, exitFailed, r.code, "%v", args)
		require.Contains(t, r.stderr, "permission")
		require.Contains(t, r.stderr, dir)
		require.Empty(t, leftovers(t, dir, "run.traj"))
	}
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, now))

	elsewhere := filepath.Join(openFolder(t, 0o777), "x.traj")
	require.Equal(t, exitOK, asOther(t, "compact", "-o", elsewhere, path).code)
}

// TestFullDisk writes to a file system that has room for the input only.
func TestFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("needs to mount a small file system")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small file system: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	path := filepath.Join(dir, "run.traj")
	data := transcript(t, path, 0o644)
	for _, args := range [][]string{{"compact", path}, {"compact", "-o", path, path}} {
		r := run(t, args...)
		require.Equal(t, exitFailed, r.code, r.stdout)
		require.Contains(t, r.stderr, "no space left on device")
		require.Contains(t, r.stderr, "free some space")
		require.Empty(t, leftovers(t, dir, "run.traj"))
	}
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, now))
}

// TestFileSizeLimit lets each write of the command in turn be the one that does
// not fit: nothing is left behind, and the input is as it was.
func TestFileSizeLimit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.traj")
	data := transcript(t, path, 0o644)
	failed := 0
	for _, kb := range []string{"1", "8", "24", "48", "64"} {
		for _, out := range []string{path, filepath.Join(dir, "x.traj")} {
			// ulimit counts blocks of 512 or 1024 bytes; both are fine here.
			cmd := exec.CommandContext(t.Context(), "sh", "-c", "ulimit -f "+kb+` && exec agentcompact compact -o "$1" "$2"`, "sh", out, path)
			r := finish(t, cmd)
			if r.code == exitOK {
				for _, n := range leftovers(t, dir, "run.traj") {
					require.NoError(t, os.Remove(filepath.Join(dir, n)))
				}
				require.NoError(t, os.WriteFile(path, data, 0o644))
				continue
			}
			failed++
			require.Equal(t, exitFailed, r.code, r.stderr)
			require.Contains(t, r.stderr, "too large")
			require.NotContains(t, r.stderr, "goroutine")
			require.Empty(t, leftovers(t, dir, "run.traj"), "after %s blocks", kb)
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, now))
		}
	}
	require.GreaterOrEqual(t, failed, 4)
}

// TestInterrupted sends the signal of Ctrl-C to a run that waits for its model.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.traj")
	transcript(t, path, 0o644)
	asked := make(chan struct{}, 8)
	srv := hangingServer(t, asked)
	cmd := exec.CommandContext(t.Context(), "agentcompact", "compact", "--model", "m", "--base-url", srv+"/v1", path)
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=test")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	<-asked
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	text, _ := io.ReadAll(stderr)
	err = cmd.Wait()
	var e *exec.ExitError
	require.ErrorAs(t, err, &e)
	require.Equal(t, exitFailed, e.ExitCode())
	require.Contains(t, strings.ToLower(string(text)), "cancelled")
	require.Empty(t, leftovers(t, dir, "run.traj"))
}
