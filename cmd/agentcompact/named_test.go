package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/wire/formats"
)

// TestNamesSayNothing gives a file of every format names that are no help or
// wrong: it is told by what is in it.
func TestNamesSayNothing(t *testing.T) {
	files := map[string]string{}
	for _, s := range corpus(t) {
		if files[s.Format] == "" {
			files[s.Format] = s.File()
		}
	}
	dir := filepath.Join(t.TempDir(), "session")
	opencodeFolder(t, dir, 3)
	files["opencode"] = opencodeExport(t, dir)
	files[ownFormat] = filepath.Join(t.TempDir(), "own")
	r := run(t, "convert", "--to", ownFormat, "-o", files[ownFormat], files["codex"])
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Len(t, files, len(formats.All())+1)
	for format, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		want := inspected(t, file, 1).Format
		require.Equal(t, format, want, file)
		for _, name := range []string{"x", "x.bin", "x.json", "x.jsonl", "x.md", "agentcompact.jsonl"} {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(path, data, 0o644))
			require.Equal(t, format, inspected(t, path, 1).Format, name)
		}
	}
	// A folder too.
	require.NoError(t, os.Rename(dir, dir+".jsonl"))
	require.Equal(t, "opencode", inspected(t, dir+".jsonl", 1).Format)
}

// TestSeveralConversations: a file with several lists them, and each is taken by
// its number.
func TestSeveralConversations(t *testing.T) {
	found := map[string]bool{}
	for _, s := range corpus(t) {
		n := inspected(t, s.File(), 1).Conversations
		if n < 2 || found[s.Format] {
			continue
		}
		found[s.Format] = true
		r := run(t, "inspect", s.File())
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, fmt.Sprintf("1 of %d", n))
		first, last := inspected(t, s.File(), 1), inspected(t, s.File(), n)
		require.Equal(t, n, last.Conversation)
		require.NotZero(t, first.Messages)
		require.Len(t, first.All, n)
		require.Equal(t, last.Messages, first.All[n-1].Messages)
		require.Contains(t, r.stdout, fmt.Sprintf(" 1: %s", first.All[0].Title))
		r = run(t, "inspect", "--conversation", fmt.Sprint(n+1), s.File())
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, fmt.Sprintf("from 1 to %d", n))
	}
	require.True(t, found["openai-chat"] && found["claude-code"], "%v", found)
}
