package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/testdata"
)

// hangingServer is a model that never answers; it tells when it is asked.
func hangingServer(t *testing.T, asked chan<- struct{}) string {
	t.Helper()
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-done:
		}
	}))
	t.Cleanup(func() { close(done); srv.Close() })
	return srv.URL
}

// growing is a transcript that its agent appends to between the moment when it
// was read and the one when the result is written.
func growing(t *testing.T) (path string, before []byte, in *input, out *compacted) {
	t.Helper()
	s, err := testdata.Find("claude-code/small/full-session-four.jsonl")
	require.NoError(t, err)
	path = place(t, s)
	before, err = os.ReadFile(path)
	require.NoError(t, err)
	in, err = load(t.Context(), path, 0, true)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.session.Close() })
	var f compactFlags
	e, err := f.engine(in.session.View(), 0)
	require.NoError(t, err)
	out = &compacted{}
	require.NoError(t, f.run(t.Context(), e, compact.Agent{Session: in.session}, false, out))
	require.True(t, out.Compacted)
	return path, before, in, out
}

const oneMore = `{"type":"user","uuid":"99999999-0000-4000-8000-000000000000","parentUuid":null,"sessionId":"s","timestamp":"2026-12-01T00:00:00Z","message":{"role":"user","content":"one more thing"}}` + "\n"

func grow(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(oneMore)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestGrowingFile replaces nothing that grew meanwhile: the result stands
// beside it, and the message says why.
func TestGrowingFile(t *testing.T) {
	path, before, in, out := growing(t)
	place, err := in.outPath(path)
	require.NoError(t, err)
	require.Equal(t, path, place)
	grow(t, path)
	require.NoError(t, in.write(t.Context(), place, out))
	out.After = sizeOf(in.session.View())

	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before)+oneMore, string(now))
	require.Equal(t, strings.TrimSuffix(path, ".jsonl")+".compact.jsonl", out.Out)
	require.Empty(t, out.Backup)
	require.Contains(t, strings.Join(out.Notes, "\n"), path+" was written to meanwhile and is left as it is")
	require.Empty(t, leftovers(t, filepath.Dir(path), filepath.Base(path), filepath.Base(out.Out), filepath.Base(out.Sidecar)))
	require.Equal(t, 1, live(inspected(t, out.Out, 1)))

	// The agent goes on from the result: the log still says what the checkpoint
	// hides, and what is new can be compacted.
	data, err := os.ReadFile(out.Out)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var last struct{ UUID string }
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	next := strings.Replace(oneMore, `"parentUuid":null`, `"parentUuid":"`+last.UUID+`"`, 1)
	require.NoError(t, os.WriteFile(out.Out, append(data, next...), 0o644))
	more := inspected(t, out.Out, 1)
	require.Equal(t, out.After.Messages, more.Messages-1)
	require.Equal(t, 1, live(more))
	require.Empty(t, more.Notes)
	r := run(t, "compact", "--json", out.Out)
	require.Equal(t, exitOK, r.code, r.stderr)
	var second compacted
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &second))
	require.Equal(t, 1, live(inspected(t, second.Out, 1)))
}

func live(r *report) int {
	n := 0
	for _, c := range r.Checkpoints {
		if c.Live {
			n++
		}
	}
	return n
}

// TestGrowingFileBeside writes beside a file that grew; the message says so.
func TestGrowingFileBeside(t *testing.T) {
	path, before, in, out := growing(t)
	place, err := in.outPath("")
	require.NoError(t, err)
	grow(t, path)
	require.NoError(t, in.write(t.Context(), place, out))
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before)+oneMore, string(now))
	require.Contains(t, strings.Join(out.Notes, "\n"), "was written to meanwhile; the result has what the file held before")
}

// TestOpenHandle has an agent that keeps its file open: what it writes after the
// file was replaced is in the backup.
func TestOpenHandle(t *testing.T) {
	path, before, in, out := growing(t)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, in.write(t.Context(), path, out))
	_, err = f.WriteString(oneMore)
	require.NoError(t, err)
	kept, err := os.ReadFile(out.Backup)
	require.NoError(t, err)
	require.Equal(t, string(before)+oneMore, string(kept))
}

// TestTakenBack lets the last step of a replacement fail: everything is as it
// was, the old log included.
func TestTakenBack(t *testing.T) {
	path, _, in, out := growing(t)
	require.NoError(t, in.write(t.Context(), path, out)) // now there is a log
	dir := filepath.Dir(path)
	was := contents(t, dir)

	in, err := load(t.Context(), path, 0, true)
	require.NoError(t, err)
	defer in.session.Close()
	require.True(t, in.restored)
	f := compactFlags{ratio: 0.1}
	e, err := f.engine(in.session.View(), 0)
	require.NoError(t, err)
	next := &compacted{}
	require.NoError(t, f.run(t.Context(), e, compact.Agent{Session: in.session}, false, next))
	require.True(t, next.Compacted)
	p := &placing{}
	tmpSide, err := in.writeSidecar(t.Context(), sidecarPath(path, 0), nil)
	require.NoError(t, err)
	err = in.replace(p, path, sidecarPath(path, 0), filepath.Join(dir, "no such file"), tmpSide, next)
	require.Error(t, err)
	p.undo()
	require.Equal(t, was, contents(t, dir))

	// The same for a result with a new name.
	p = &placing{}
	tmpSide, err = in.writeSidecar(t.Context(), sidecarPath(path, 0), nil)
	require.NoError(t, err)
	fresh := filepath.Join(dir, "fresh.jsonl")
	require.Error(t, in.place(p, fresh, sidecarPath(fresh, 0), filepath.Join(dir, "no such file"), tmpSide))
	p.undo()
	require.NoError(t, os.Remove(tmpSide))
	require.Equal(t, was, contents(t, dir))
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, n := range leftovers(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, n))
		require.NoError(t, err)
		out[n] = string(data)
	}
	return out
}

// TestProgress: long work draws on a terminal and is silent in a pipe.
func TestProgress(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "session.jsonl")
		ownSession(t, path, 20)
		var out, errs strings.Builder
		a := &app{stdout: &out, stderr: &errs, progress: terminal}
		require.Equal(t, exitOK, a.run(context.Background(), []string{"compact", "--json", path}))
		require.True(t, json.Valid([]byte(out.String())), "progress is not for stdout")
		if !terminal {
			require.Empty(t, errs.String())
			continue
		}
		require.Contains(t, errs.String(), "reading "+path)
		require.Contains(t, errs.String(), "compacting")
		require.True(t, strings.HasSuffix(errs.String(), "\r\x1b[K"), "the line is taken away at the end: %q", errs.String())
	}
}

// TestAppearedMeanwhile: somebody takes the name of the result while it is made.
func TestAppearedMeanwhile(t *testing.T) {
	path, _, in, out := growing(t)
	place, err := in.outPath("")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(place, []byte("mine"), 0o644))
	was := contents(t, filepath.Dir(path))
	require.ErrorContains(t, in.write(t.Context(), place, out), place+" appeared meanwhile: choose another name with -o")
	require.Equal(t, was, contents(t, filepath.Dir(path)))
	require.Empty(t, out.Out)
}

// TestLastMoment: the file grows when the log is in place already.
func TestLastMoment(t *testing.T) {
	path, _, in, out := growing(t)
	dir := filepath.Dir(path)
	grow(t, path)
	was := contents(t, dir)
	tmpSide, err := in.writeSidecar(t.Context(), sidecarPath(path, 0), nil)
	require.NoError(t, err)
	p := &placing{}
	require.ErrorContains(t, in.replace(p, path, sidecarPath(path, 0), tmpSide, tmpSide, out), "at the last moment: nothing was replaced; run it again")
	p.undo()
	require.Equal(t, was, contents(t, dir))
}

// TestShadowedOfPruned: a format is told of every message that a checkpoint
// replaces, those included that were shortened before.
func TestShadowedOfPruned(t *testing.T) {
	s, err := testdata.Find("claude-code/orphan-result.jsonl")
	require.NoError(t, err)
	in := loaded(t, s.File(), 1)
	f := compactFlags{window: counted(in.session.View()) / 6}
	e, err := f.engine(in.session.View(), 0)
	require.NoError(t, err)
	var out compacted
	require.NoError(t, f.run(t.Context(), e, compact.Agent{Session: in.session}, false, &out))
	require.Positive(t, out.Pruned)
	items, err := in.items()
	require.NoError(t, err)
	for _, it := range items {
		if it.Compaction != nil {
			require.Len(t, it.Compaction.Shadowed, out.Shadowed)
			return
		}
	}
	require.Fail(t, "no checkpoint")
}
