// Package readme compiles the code that README.md shows.
package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCodeCompilesAndRuns builds every complete Go program in README.md and
// runs it in an empty folder.
func TestCodeCompilesAndRuns(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindAllSubmatch(b, -1)
	require.NotEmpty(t, blocks, "README.md shows no program")
	for _, m := range blocks {
		// Inside the module, so that imports resolve to this tree.
		dir, err := os.MkdirTemp(".", "_prog-")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), m[1], 0o600))
		bin := filepath.Join(t.TempDir(), "prog")
		out, err := exec.Command("go", "build", "-o", bin, "./"+dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
		cmd := exec.Command(bin)
		cmd.Dir = t.TempDir()
		out, err = cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "list the failing tests")
	}
}
