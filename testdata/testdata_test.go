package testdata

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSessionsAreWhole(t *testing.T) {
	sessions, err := Sessions()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(sessions), 97)
	licenses, err := os.ReadFile(filepath.Join(Root(), "sessions", "LICENSES.md"))
	require.NoError(t, err)
	formats := map[string]int{}
	for _, s := range sessions {
		formats[s.Format]++
		info, err := os.Stat(s.File())
		require.NoError(t, err)
		assert.Equal(t, len(s.Files) > 0, info.IsDir(), s.Path)
		assert.Contains(t, []string{"MIT", "Apache-2.0"}, s.License, s.Path)
		assert.Contains(t, string(licenses), "| "+s.Source.Key+" | ["+s.Source.Repository+"]", s.Path)
		assert.Contains(t, string(licenses), s.Source.Commit, s.Path)
		notice := "\n- " + s.Source.Repository
		if s.License == "MIT" {
			notice += ": Copyright (c)"
		}
		assert.Contains(t, string(licenses), notice, s.Path)
	}
	for format, atLeast := range map[string]int{
		"anthropic-messages": 3, "claude-code": 25, "codex": 8, "gemini-contents": 20, "gemini-session": 8,
		"langchain": 1, "openai-chat": 14, "openai-responses": 5, "opencode": 1, "other": 4, "pi": 8,
	} {
		assert.GreaterOrEqual(t, formats[format], atLeast, format)
		delete(formats, format)
	}
	assert.Empty(t, formats, "a format that the doc of Session does not name")
}

func TestFindAndOfFormat(t *testing.T) {
	s, err := Find("openai-chat/tau-bench-airline-10.json")
	require.NoError(t, err)
	assert.Equal(t, 152, s.Calls)
	_, err = Find("nothing")
	assert.ErrorContains(t, err, `"nothing"`)
	chat, err := OfFormat("openai-chat")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(chat), 14)
	_, err = OfFormat("openai-chatt")
	assert.ErrorContains(t, err, "openai-chatt")
	all, err := Sessions()
	require.NoError(t, err)
	assert.Greater(t, len(all), len(chat), "OfFormat must leave the list alone")
}

func TestLoadFailsOnWhatIsNotWhole(t *testing.T) {
	good := Session{Path: "a.json", Format: "other", SHA256: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"}
	folder := Session{Path: "f", Format: "other", Files: map[string]string{"b": "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"}}
	files := map[string]string{"a.json": "a", "f/b": "b", "LICENSES.md": "x"}
	for name, c := range map[string]struct {
		manifest []Session
		change   map[string]string // empty text removes
		want     string
	}{
		"whole":         {manifest: []Session{good, folder}},
		"empty list":    {manifest: []Session{}, want: "no session listed"},
		"missing":       {manifest: []Session{good, folder}, change: map[string]string{"a.json": ""}, want: "a.json is missing"},
		"missing in it": {manifest: []Session{good, folder}, change: map[string]string{"f/b": ""}, want: "f/b is missing"},
		"changed":       {manifest: []Session{good, folder}, change: map[string]string{"f/b": "c"}, want: "f/b is not as recorded"},
		"not listed":    {manifest: []Session{good, folder}, change: map[string]string{"g": "c"}, want: "g is not in the manifest"},
		"tried out here": {manifest: []Session{good, folder}, change: map[string]string{
			"a.compact.json": "c", "a.compact-12.json": "c", "a.compact.json.agentcompact.jsonl": "c", "f/b.compact": "c"}},
		"no result":       {manifest: []Session{good, folder}, change: map[string]string{"a.compacted.json": "c"}, want: "a.compacted.json is not in the manifest"},
		"no hash":         {manifest: []Session{{Path: "a.json"}, folder}, want: `"a.json" needs either`},
		"several at once": {manifest: []Session{good, folder}, change: map[string]string{"a.json": "", "g": "c"}, want: "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			data, err := json.Marshal(c.manifest)
			require.NoError(t, err)
			write := func(path, text string) {
				full := filepath.Join(root, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
				if text == "" {
					require.NoError(t, os.Remove(full))
					return
				}
				require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
			}
			write("manifest.json", string(data))
			for path, text := range files {
				write(path, text)
			}
			for path, text := range c.change {
				write(path, text)
			}
			sessions, err := load(root)
			if c.want == "" {
				require.NoError(t, err)
				assert.Len(t, sessions, len(c.manifest))
				return
			}
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, len(c.change) > 1, strings.Contains(err.Error(), "\n"))
		})
	}
	_, err := load(t.TempDir())
	assert.ErrorIs(t, err, os.ErrNotExist)
}
