package archtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file show that the rules can be broken: each row is one wrong, or right, tree.

func TestCheck(t *testing.T) {
	ours := func(p string) string { return module + "/" + p }
	for name, c := range map[string]struct {
		pkg, imp string
		want     string // empty: allowed
	}{
		"allowed":                      {"toolpairing", ours("session"), ""},
		"standard library":             {"session", "encoding/json", ""},
		"upward":                       {"session", ours("compact"), "session -> compact (f.go): not among the imports"},
		"contract to engine":           {"compact", ours("compact/engine"), "compact -> compact/engine"},
		"sideways":                     {"overflow", ours("session"), "overflow -> session"},
		"engine to a vocabulary":       {"compact/engine", ours("tokencount/bpe"), "compact/engine -> tokencount/bpe"},
		"module not allowed":           {"session", "github.com/google/uuid", "session -> github.com/google/uuid (f.go): not among the modules"},
		"heavy module in a library":    {"compact/engine", "github.com/spf13/cobra", "-> github.com/spf13/cobra"},
		"heavy module in the command":  {"cmd/agentcompact", "github.com/spf13/cobra", ""},
		"module by prefix of its name": {"compact/chat", goOpenAI + "-other", "-> " + goOpenAI + "-other"},
		"package of a module":          {"summarize", goOpenAI + "/jsonschema", ""},
		"testing":                      {"session", "testing", "may import testing"},
		"testing/iotest":               {"session", "testing/iotest", "may import testing"},
		"testing in a kit":             {"session/sessiontest", "testing", ""},
		"kit to its package":           {"session/sessiontest", ours("session"), ""},
		"kit to another kit":           {"compact/compacttest", ours("session/sessiontest"), ""},
		"kit to what its package may":  {"compact/compacttest", ours("target"), ""},
		"kit too high":                 {"session/sessiontest", ours("compact"), "session/sessiontest -> compact"},
		"kit with a row":               {"summarize/summarizetest", ours("summarize"), "summarize/summarizetest -> summarize"},
		"library to kit":               {"compact/engine", ours("session/sessiontest"), "-> session/sessiontest"},
		"command to kit":               {"cmd/agentcompact", ours("session/sessiontest"), "-> session/sessiontest"},
		"command to internal":          {"cmd/agentcompact", ours("internal/pair"), "-> internal/pair"},
		"command to a wire's internal": {"cmd/agentcompact", ours("wire/internal/x"), "-> wire/internal/x"},
		"command to a wire":            {"cmd/agentcompact", ours("wire/x"), ""},
		"example to kit":               {"examples/agentloop", ours("summarize/summarizetest"), ""},
		"example to internal":          {"examples/agentloop", ours("internal/plan"), "-> internal/plan"},
		"the exact row counts alone":   {"wire/formats", ours("toolpairing"), "wire/formats -> toolpairing"},
		"the wide row":                 {"wire/anything", ours("toolpairing"), ""},
		"pair is not any internal":     {"internal/pair", ours("session"), "internal/pair -> session"},
		"other internal":               {"internal/casetest", ours("compact/engine"), ""},
		"no row":                       {"util", "fmt", "util: no such package"},
		"kit of no row":                {"util/utiltest", "fmt", "util/utiltest: no such package"},
		"not a kit by name alone":      {"session/othertest", "fmt", "session/othertest: no such package"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := Check(rules, []Package{{Path: c.pkg, Name: "p", Imports: map[string]string{c.imp: "f.go"}}})
			if c.want == "" {
				assert.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			assert.Contains(t, wrong[0], c.want)
		})
	}
	assert.Empty(t, Check(rules, []Package{{Path: "util", TestOnly: true}}))
}

func TestUndocumented(t *testing.T) {
	assert.Equal(t, []string{
		"a: no package comment",
		`b: the package comment must begin with "Package b"`,
	}, Undocumented([]Package{
		{Path: "a", Name: "a"},
		{Path: "b", Name: "b", Doc: "This package is b."},
		{Path: "c", Name: "c", Doc: "Package c is right."},
		{Path: "cmd/d", Name: "main", Doc: "Agentcompact is a command."},
		{Path: "e", TestOnly: true},
	}))
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go":            "// Package a is one.\npackage a\n\nimport \"fmt\"\n",
		"a/a_windows.go":    "//go:build windows\n\npackage a\n\nimport _ \"x.org/y\"\n",
		"a/a_test.go":       "package a\n\nimport \"testing\"\n",
		"b/b_test.go":       "package b\n",
		"a/testdata/no.go":  "not Go",
		".hidden/no.go":     "not Go",
		"testdata/data.go":  "package testdata\n",
		"a/_unused/no.go":   "not Go",
		"a/nested/go.mod":   "module m\n",
		"a/nested/main.go":  "// Nested is a program.\npackage main\n",
		"a/nested/notes.md": "no Go",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	got, err := Load(dir)
	require.NoError(t, err)
	assert.Equal(t, []Package{
		{Path: "a", Name: "a", Doc: "Package a is one.", Imports: map[string]string{"fmt": "a/a.go", "x.org/y": "a/a_windows.go"}},
		{Path: "a/nested", Name: "main", Doc: "Nested is a program.", Imports: map[string]string{}},
		{Path: "b", Imports: map[string]string{}, TestOnly: true},
		{Path: "testdata", Name: "testdata", Imports: map[string]string{}},
	}, got)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "broken.go"), []byte("package"), 0o644))
	_, err = Load(dir)
	assert.ErrorContains(t, err, "broken.go")
}

func TestUnfit(t *testing.T) {
	work := "/" + "work/main"
	for text, want := range map[string]int{
		"fine":                          0,
		"see " + sharedPath + "/x":      1,
		"cd " + work:                    1,
		work:                            1,
		`"` + work + `"`:                1,
		"https://a.b" + work:            0,
		"a" + work:                      0,
		"~" + work:                      0,
		"$HOME" + work + " ${X}" + work: 0,
		"/workspace/x":                  0,
		"a\n" + conflict[0] + "HEAD\nb\n=======\nc\n" + conflict[1] + "x": 2,
		"quoted: " + conflict[0]:       0,
		"binary\x00" + sharedPath:      0,
		sharedPath + " twice\n" + work: 2,
	} {
		assert.Len(t, Unfit("f", []byte(text)), want, "%q", text)
	}
	assert.Equal(t, []string{"f:2: an absolute path of one machine"}, Unfit("f", []byte("\n"+work)))
}

func TestUnfitFiles(t *testing.T) {
	dir := t.TempDir()
	bad := []byte("x " + sharedPath)
	for _, name := range []string{"a.go", "testdata/sessions/LICENSES.md", "p/testdata/case.json", "p/testdata/doc.md", "testdata/t.go"} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, bad, 0o644))
	}
	files, err := Files(dir)
	require.NoError(t, err)
	require.Len(t, files, 5)
	wrong, err := UnfitFiles(dir, append(files, "deleted.go"))
	require.NoError(t, err)
	assert.Len(t, wrong, 3)
	assert.Contains(t, wrong[0], "a.go:1: a path into a folder outside")
}
