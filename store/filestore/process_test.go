//go:build unix

package filestore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// TestMain lets the test binary play a child process: AGENTCOMPACT_CHILD names
// what it does to the file in its argument.
func TestMain(m *testing.M) {
	switch os.Getenv("AGENTCOMPACT_CHILD") {
	case "endless":
		child(os.Getenv("AGENTCOMPACT_FILE"), -1)
	case "count":
		n, _ := strconv.Atoi(os.Getenv("AGENTCOMPACT_COUNT"))
		child(os.Getenv("AGENTCOMPACT_FILE"), n)
	default:
		goleak.VerifyTestMain(m)
	}
}

// child appends to a session file, folds it now and then, and prints the seqs
// of what was acknowledged.
func child(path string, n int) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	store, err := filestore.Open(path, nil)
	fail(err)
	s, err := session.Open(ctx, store, nil)
	fail(err)
	fmt.Println("ready")
	for i := 0; i != n; i++ {
		var seqs []session.Seq
		if v := s.View(); i%10 == 9 {
			seqs, err = s.Update(ctx, func(v session.View) ([]session.Body, error) {
				return []session.Body{
					session.Raw{Type: "compact/summary"},
					session.Replace{Start: v.Node(0).Seq, End: v.Node(v.Len() / 2).Seq, Message: sessiontest.Note("c", "sum")},
				}, nil
			})
		} else if i%25 == 24 {
			seqs, err = s.Record(ctx, session.Rewind{To: v.Next() - 1})
		} else {
			seqs, err = s.Append(ctx, session.UserText(fmt.Sprint(os.Getpid(), i)), session.UserText(strings.Repeat("x", i*37%3000)))
		}
		fail(err)
		fmt.Println("acked", seqs[0], seqs[len(seqs)-1])
	}
	fail(s.Close())
	os.Exit(0)
}

func spawn(t *testing.T, kind, path string, n int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "AGENTCOMPACT_CHILD="+kind, "AGENTCOMPACT_FILE="+path, "AGENTCOMPACT_COUNT="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// TestKilled: a process that appends is killed at any moment; what it said was
// acknowledged is there, and the next process goes on.
func TestKilled(t *testing.T) {
	times := 10
	if full() {
		times = 200
	}
	path := filepath.Join(t.TempDir(), "s.jsonl")
	last := session.Seq(-1)
	for i := range times {
		cmd, out := spawn(t, "endless", path, 0)
		acks := rand.IntN(12)
		for range acks + 1 {
			require.True(t, out.Scan())
		}
		// A random moment within the next write.
		kill := time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		for {
			var from, to session.Seq
			if n, _ := fmt.Sscanf(out.Text(), "acked %d %d", &from, &to); n == 2 {
				last = to
			} else {
				require.Equal(t, "ready", out.Text())
			}
			if !out.Scan() {
				break
			}
		}
		_ = cmd.Wait()
		kill.Stop()
		store, err := filestore.Open(path, nil)
		require.NoError(t, err)
		s, err := session.Open(t.Context(), store, nil)
		require.NoError(t, err, "kill %d", i)
		require.GreaterOrEqual(t, s.View().Next(), last+1, "kill %d", i)
		if i%10 == 0 {
			sessiontest.Verify(t, s)
		}
		require.NoError(t, s.Close())
	}
}

// TestProcessesAppend: processes that append to one file lose nothing.
func TestProcessesAppend(t *testing.T) {
	n := 40
	if full() {
		n = 400
	}
	path := filepath.Join(t.TempDir(), "s.jsonl")
	acked := make(map[session.Seq]int)
	a, outA := spawn(t, "count", path, n)
	b, outB := spawn(t, "count", path, n)
	for i, out := range []*bufio.Scanner{outA, outB} {
		for out.Scan() {
			var from, to session.Seq
			if n, _ := fmt.Sscanf(out.Text(), "acked %d %d", &from, &to); n != 2 {
				require.Equal(t, "ready", out.Text())
				continue
			}
			for s := from; s <= to; s++ {
				require.NotContains(t, acked, s, "acknowledged twice")
				acked[s] = i
			}
		}
	}
	require.NoError(t, a.Wait())
	require.NoError(t, b.Wait())
	s := open(t, path)
	require.Len(t, acked, int(s.View().Next()))
	sessiontest.Verify(t, s)
}

// What is appended to a file without a name would be gone with the process.
func TestRemovedUnderAnOpenStore(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"deleted": os.Remove,
		"replaced": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path+".new", data, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.jsonl")
			s := open(t, path)
			_, err := s.Append(t.Context(), session.UserText("kept"))
			require.NoError(t, err)
			require.NoError(t, os.Rename(path, path+".moved"))
			require.NoError(t, os.Rename(path+".moved", path))
			_, err = s.Append(t.Context(), session.UserText("a file may be moved"))
			require.NoError(t, err)
			require.NoError(t, remove(path))
			_, err = s.Append(t.Context(), session.UserText("lost"))
			require.ErrorIs(t, err, filestore.ErrRemoved)
			require.Equal(t, 2, s.View().Len())
		})
	}
}
