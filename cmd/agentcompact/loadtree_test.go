package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// opencodeFolder makes a session of opencode with some turns.
func opencodeFolder(t *testing.T, dir string, turns int) {
	t.Helper()
	put := func(name, format string, args ...any) {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, fmt.Appendf(nil, format+"\n\n", args...), 0o644))
	}
	put("migration", "2")
	put("session/p/ses.json", `{"id":"ses","version":"1.3.17","projectID":"p","directory":"/tmp/x","title":"Long","time":{"created":1730000100000,"updated":1730000109000}}`)
	for i := range turns {
		at := 1730000100000 + 1000*i
		put(fmt.Sprintf("message/ses/m%03da.json", i), `{"id":"m%03da","sessionID":"ses","role":"user","time":{"created":%d},"agent":"build"}`, i, at)
		put(fmt.Sprintf("part/m%03da/001.json", i), `{"id":"p%03da","sessionID":"ses","messageID":"m%03da","type":"text","text":"Request %d: look at part %d."}`, i, i, i, i)
		put(fmt.Sprintf("message/ses/m%03db.json", i), `{"id":"m%03db","sessionID":"ses","role":"assistant","parentID":"m%03da","time":{"created":%d},"modelID":"m","providerID":"openai","finish":"stop"}`, i, i, at+100)
		put(fmt.Sprintf("part/m%03db/001.json", i), `{"id":"p%03db1","sessionID":"ses","messageID":"m%03db","type":"tool","callID":"c%d","tool":"read","state":{"status":"completed","input":{"path":"/srv/part%d.go"},"output":%q,"time":{"start":%d,"end":%d}}}`,
			i, i, i, i, strings.Repeat(fmt.Sprintf("line of part %d; ", i), 60), at, at)
		put(fmt.Sprintf("part/m%03db/002.json", i), `{"id":"p%03db2","sessionID":"ses","messageID":"m%03db","type":"text","text":"Part %d is fine."}`, i, i, i)
	}
}

// tree returns the content of every file below dir.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = os.ReadFile(filepath.Join(dir, path))
			out[path] = string(b)
		}
		return err
	}))
	return out
}

// TestFolder takes a session that is a folder through the command: the result is
// a new folder with everything of the old one.
func TestFolder(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "storage")
	opencodeFolder(t, dir, 30)
	before := tree(t, dir)
	was := inspected(t, dir, 1)
	require.Equal(t, "opencode", was.Format)
	require.Equal(t, 90, was.Messages)
	require.Equal(t, 30, was.ToolResults)

	r := run(t, "compact", "--json", "--ratio", "0.3", dir)
	require.Zero(t, r.code, r.stderr)
	var out compacted
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	require.Equal(t, filepath.Join(home, "storage.compact"), out.Out)
	require.Equal(t, before, tree(t, dir), "the input changed")
	after := tree(t, out.Out)
	changed := 0
	for name, old := range before {
		require.Contains(t, after, name)
		if after[name] != old {
			changed++
		}
	}
	require.LessOrEqual(t, changed, 1, "more than the session's own file changed")
	now := inspected(t, out.Out, 1)
	require.Equal(t, out.After.Tokens, now.Tokens.Total)
	require.Equal(t, 1, live(now))
	require.Empty(t, now.Problems)
	require.Equal(t, []string{"storage", "storage.compact", "storage.compact" + sidecarExt}, names(t, home))

	found := run(t, "recall", "search", "part 3;", out.Out)
	require.Zero(t, found.code, found.stderr)
	require.Contains(t, found.stdout, "line of part 3;")

	// Undone, the folder holds what the agent wrote, byte for byte.
	back := turned(t, "undo", out.Out, 1)
	require.Equal(t, before, tree(t, back.Out))

	for _, c := range []struct{ out, says string }{
		{dir, "not changed in place"}, {filepath.Join(dir, "x"), "lies in the folder"}, {out.Out, "exists already"},
	} {
		r := run(t, "compact", "--ratio", "0.3", "-o", c.out, dir)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, c.says)
	}
	require.Equal(t, before, tree(t, dir))
	r = run(t, "convert", "--to", "openai-chat", "-o", "-", dir)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "Request 29")
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// opencodeExport makes the export of the session in a folder, as "opencode
// export" does, beside it.
func opencodeExport(t *testing.T, dir string) string {
	t.Helper()
	read := func(name string) json.RawMessage {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		return data
	}
	type message struct {
		Info  json.RawMessage   `json:"info"`
		Parts []json.RawMessage `json:"parts"`
	}
	doc := struct {
		Info     json.RawMessage `json:"info"`
		Messages []message       `json:"messages"`
	}{Info: read(filepath.Join(dir, "session", "p", "ses.json"))}
	for _, name := range names(t, filepath.Join(dir, "message", "ses")) {
		m := message{Info: read(filepath.Join(dir, "message", "ses", name))}
		parts := filepath.Join(dir, "part", strings.TrimSuffix(name, ".json"))
		for _, p := range names(t, parts) {
			m.Parts = append(m.Parts, read(filepath.Join(parts, p)))
		}
		doc.Messages = append(doc.Messages, m)
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	require.NoError(t, err)
	path := dir + ".json"
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}
