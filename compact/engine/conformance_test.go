package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// inventory is how many rows there are of each kind, numbered from 1. F are the
// known faults of others.
var inventory = map[string]int{
	"SV": 5, "IV": 31, "CF": 5, "PR": 15, "PN": 4, "RG": 14, "SM": 18, "AU": 24, "LP": 6, "MN": 31, "PU": 12, "LD": 5, "CM": 13, "F": 25,
}

// TestConformanceRows: every row has a test that is named after it, or a reason
// why not.
func TestConformanceRows(t *testing.T) {
	b, err := os.ReadFile("../../testdata/conformance/compact.json")
	require.NoError(t, err)
	var rows []struct{ ID, Reason string }
	require.NoError(t, json.Unmarshal(b, &rows))
	require.NotEmpty(t, rows)
	reasons := make(map[string]bool)
	for _, r := range rows {
		require.NotEmpty(t, r.Reason, r.ID)
		require.False(t, reasons[r.ID], "%s is listed twice", r.ID)
		reasons[r.ID] = true
	}
	tested := make(map[string]bool)
	name := regexp.MustCompile(`\{?"([A-Z]{1,2}-\d\d)(?: [a-z]+)?"(?:,|:)`)
	for _, dir := range []string{".", ".."} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			src, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range name.FindAllStringSubmatch(string(src), -1) {
				tested[m[1]] = true
			}
		}
	}
	known := 0
	for kind, n := range inventory {
		for i := 1; i <= n; i++ {
			id := fmt.Sprintf("%s-%02d", kind, i)
			require.True(t, tested[id] || reasons[id], "%s has neither a test nor a reason", id)
			require.False(t, tested[id] && reasons[id], "%s has a test and a reason", id)
			known++
		}
	}
	require.Len(t, reasons, known-len(tested), "a reason or a test is for no row")
}
