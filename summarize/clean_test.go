package summarize

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type cleanRow struct{ ID, In, Want string }

func cleanRows(t testing.TB) []cleanRow {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "summarize", "clean.json"))
	require.NoError(t, err)
	var f struct{ Rows []cleanRow }
	require.NoError(t, json.Unmarshal(b, &f))
	require.GreaterOrEqual(t, len(f.Rows), 30)
	return f.Rows
}

func TestClean(t *testing.T) {
	for _, r := range cleanRows(t) {
		t.Run(r.ID, func(t *testing.T) {
			want := strings.ReplaceAll(r.Want, "~", zwsp)
			got := Clean(r.In)
			require.Equal(t, want, got)
			require.Equal(t, got, Clean(got), "idempotent")
		})
	}
}

var live = regexp.MustCompile(`(?i)<[ \t]*/?[ \t]*(?:summary|analysis|summary_request|think|thinking|reasoning|scratchpad)[ \t]*>`)

func requireClean(t require.TestingT, s string) {
	c := Clean(s)
	require.True(t, utf8.ValidString(c))
	require.False(t, live.MatchString(c), "%q", c)
	require.Equal(t, c, Clean(c))
	require.NotContains(t, c, "\n\n\n")
	require.Equal(t, strings.TrimSpace(c), c)
}

func TestCleanTagSoup(t *testing.T) {
	pieces := []string{"<summary>", "</summary>", "<analysis>", "</analysis>", "<think>", "</think>", "<summary_request>", "\n", "\n\n\n", "1. a", "## 1. b", "word ", "日本", "<", ">", "```\n", "**Analysis**\n", " ", "</ Summary >", "< analysis>"}
	rapid.Check(t, func(t *rapid.T) {
		requireClean(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 14).Draw(t, "pieces"), ""))
	})
}

func FuzzClean(f *testing.F) {
	for _, r := range cleanRows(f) {
		f.Add(r.In)
	}
	f.Fuzz(func(t *testing.T, s string) { requireClean(t, s) })
}
