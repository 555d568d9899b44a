package session_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConformanceRows: every row of the session and pairing inventories, and
// every known fault (F), has a test that is named after it, or a reason why
// not.
func TestConformanceRows(t *testing.T) {
	b, err := os.ReadFile("../testdata/conformance/session.json")
	require.NoError(t, err)
	var rows []struct{ ID, Reason string }
	require.NoError(t, json.Unmarshal(b, &rows))
	require.NotEmpty(t, rows)
	covered := make(map[string]bool)
	for _, r := range rows {
		require.NotEmpty(t, r.Reason, r.ID)
		require.False(t, covered[r.ID], "%s is listed twice", r.ID)
		covered[r.ID] = true
	}
	name := regexp.MustCompile(`func Test(SS|TP|F)(\d\d)[A-Z]`)
	for _, dir := range []string{".", "../toolpairing", "../store/filestore"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			src, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range name.FindAllStringSubmatch(string(src), -1) {
				id := m[1] + "-" + m[2]
				require.False(t, covered[id] && m[1] != "F", "%s has a test and a reason", id)
				covered[id] = true
			}
		}
	}
	for kind, n := range map[string]int{"SS": 19, "TP": 11, "F": 25} {
		for i := 1; i <= n; i++ {
			id := fmt.Sprintf("%s-%02d", kind, i)
			require.True(t, covered[id], "%s has neither a test nor a reason", id)
		}
	}
}
