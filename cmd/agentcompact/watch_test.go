package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

func openForWriting(t testing.TB, path string) *session.Session {
	t.Helper()
	store, err := filestore.Open(path, nil)
	require.NoError(t, err)
	s, err := session.Open(t.Context(), store, sessionOptions())
	require.NoError(t, err)
	return s
}

// watching runs watch --json and returns the lines as they come.
func watching(t *testing.T, path string) func() watched {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		code := (&app{stdout: w, stderr: io.Discard}).run(ctx, []string{"watch", "--json", "--every", "10ms", path})
		_ = w.Close()
		done <- code
	}()
	t.Cleanup(func() {
		cancel()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		require.Equal(t, exitOK, <-done, "Ctrl-C is how it ends")
	})
	lines := make(chan watched)
	go func() {
		sc := bufio.NewScanner(r)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			var x watched
			if json.Unmarshal(sc.Bytes(), &x) == nil {
				select {
				case lines <- x:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return func() watched {
		t.Helper()
		select {
		case x := <-lines:
			return x
		case <-time.After(30 * time.Second):
			require.Fail(t, "no line")
			return watched{}
		}
	}
}

func TestWatchOwnSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.jsonl")
	ownSession(t, path, 10)
	next := watching(t, path)
	first := next()
	require.Equal(t, 40, first.Messages)
	require.Zero(t, first.Change)

	s := openForWriting(t, path)
	_, err := s.Append(t.Context(), session.UserText("one more"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	grown := next()
	require.Equal(t, 41, grown.Messages)
	require.Equal(t, grown.Tokens-first.Tokens, grown.Change)
	require.Positive(t, grown.Change)

	require.Equal(t, exitOK, run(t, "compact", path).code)
	for x := next(); ; x = next() { // the attempt's start may be a line of its own
		if len(x.Checkpoints) > 0 {
			require.Len(t, x.Checkpoints, 1)
			require.Less(t, x.Tokens, grown.Tokens)
			break
		}
	}
	require.Equal(t, exitOK, run(t, "undo", path).code)
	x := next()
	require.Len(t, x.Undone, 1)
	require.Equal(t, grown.Tokens, x.Tokens)
}

// TestWatchForeignFile follows a file that is rewritten, also while it is half
// written and gone.
func TestWatchForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) }
	chat := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,{"role":"user","content":"question ` + strconv.Itoa(i) + `"},{"role":"assistant","content":"answer"}`)
		}
		return "[" + b.String()[1:] + "]"
	}
	write(chat(2))
	next := watching(t, path)
	require.Equal(t, 4, next().Messages)
	write(chat(3))
	for x := next(); x.Messages != 6; x = next() { // what is half written is an error, or less
	}
	require.NoError(t, os.Remove(path))
	require.Contains(t, next().Error, "does not exist")
	write(chat(5))
	for x := next(); x.Messages != 10; x = next() {
	}
}
