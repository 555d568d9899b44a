package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// appender is a program for the tests: an agent that appends turns to a session
// file until its standard input is closed, and prints each text when it is
// acknowledged.
func appender() {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "appender:", err)
			os.Exit(1)
		}
	}
	stop := make(chan struct{})
	go func() {
		var b [1]byte
		_, _ = os.Stdin.Read(b[:])
		close(stop)
	}()
	store, err := filestore.Open(os.Args[1], nil)
	fail(err)
	s, err := session.Open(ctx, store, sessionOptions())
	fail(err)
	for i := 0; ; i++ {
		select {
		case <-stop:
			fail(s.Close())
			os.Exit(0)
		default:
		}
		text := fmt.Sprintf("appended %d", i)
		_, err := s.Append(ctx, session.UserText(text))
		fail(err)
		fmt.Println(text)
	}
}

// ownSession writes a session file of our format with some turns.
func ownSession(t testing.TB, path string, turns int) {
	t.Helper()
	store, err := filestore.Open(path, nil)
	require.NoError(t, err)
	s, err := session.Open(t.Context(), store, sessionOptions())
	require.NoError(t, err)
	for i := range turns {
		id := "call_" + strconv.Itoa(i)
		for _, m := range []session.Message{
			session.UserText(fmt.Sprintf("Request %d: have a look at /srv/app/file%d.go and say what is wrong.", i, i)),
			{Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel}, Parts: []session.Part{
				session.Text{Text: "I read the file first."}, session.ToolCall{ID: id, Name: "read", Arguments: fmt.Sprintf(`{"path":"/srv/app/file%d.go"}`, i)},
			}},
			{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool}, Parts: []session.Part{
				session.ToolResult{CallID: id, Parts: []session.Part{session.Text{Text: strings.Repeat(fmt.Sprintf("line of file %d\n", i), 40)}}},
			}},
			{Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel}, Parts: []session.Part{session.Text{Text: fmt.Sprintf("Line %d lacks a check.", i)}}},
		} {
			_, err := s.Append(t.Context(), m)
			require.NoError(t, err)
		}
	}
	require.NoError(t, s.Close())
}

// TestOwnSessionWhileItGrows compacts a session that another process appends
// to: both succeed and nothing is lost.
func TestOwnSessionWhileItGrows(t *testing.T) {
	rounds := 5
	if os.Getenv("AGENTCOMPACT_FULL") == "1" {
		rounds = 50
	}
	path := filepath.Join(t.TempDir(), "session.jsonl")
	ownSession(t, path, 20)
	var acked []string
	compactions := 0
	for range rounds {
		cmd := exec.CommandContext(t.Context(), "appender", path)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(pipe)
		for range 50 { // enough for a compaction of their own
			require.True(t, lines.Scan())
			acked = append(acked, lines.Text())
		}
		rest := make(chan []string)
		go func() {
			var list []string
			for lines.Scan() {
				list = append(list, lines.Text())
			}
			rest <- list
		}()
		r := run(t, "compact", "--json", path)
		require.NoError(t, in.Close())
		acked = append(acked, <-rest...)
		require.NoError(t, cmd.Wait(), "the appender")
		require.Equal(t, exitOK, r.code, r.stderr)
		var out compacted
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
		require.True(t, out.Compacted)
		require.Equal(t, path, out.Out)
		compactions++
	}
	s := openOwn(t, path)
	v := s.View()
	sessiontest.Verify(t, s)
	var texts []string
	for e := range v.Events(0) {
		if e.Type != session.TypeMessage {
			continue
		}
		m, err := e.Message()
		require.NoError(t, err)
		if strings.HasPrefix(m.Text(), "appended ") {
			texts = append(texts, m.Text())
		}
	}
	require.Equal(t, acked, texts, "acknowledged appends, in order")
	require.Len(t, v.Replacements(), compactions)
	require.Empty(t, toolpairing.Of(v).Diagnose())
	require.Empty(t, leftovers(t, filepath.Dir(path), "session.jsonl"))
}

func openOwn(t testing.TB, path string) *session.Session {
	t.Helper()
	store, err := filestore.Open(path, &filestore.Options{ReadOnly: true})
	require.NoError(t, err)
	s, err := session.Open(t.Context(), store, sessionOptions())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// ran is what a run of the command came to.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs the command in this process.
func run(t testing.TB, args ...string) ran {
	t.Helper()
	var out, errs strings.Builder
	code := (&app{stdout: &out, stderr: &errs}).run(t.Context(), args)
	return ran{code, out.String(), errs.String()}
}

// leftovers lists what a folder holds beside the named files.
func leftovers(t testing.TB, dir string, known ...string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
next:
	for _, e := range list {
		for _, k := range known {
			if e.Name() == k {
				continue next
			}
		}
		out = append(out, e.Name())
	}
	return out
}
