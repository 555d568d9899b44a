package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	t.Log(out.String())
	require.GreaterOrEqual(t, strings.Count(out.String(), "compaction: success"), 3, "it compacts several times in one turn")
	require.NotContains(t, out.String(), "not compacted")
	for _, m := range regexp.MustCompile(`after: .*`).FindAllString(out.String(), -1) {
		require.Contains(t, m, "(1 summaries", "the next checkpoint takes the last one in")
	}
	require.Contains(t, out.String(), "[history: ")
	require.Contains(t, out.String(), "part00.go", "what was read first is still known")
}
