package detect_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConformanceRows: every row of the inventory of lifecycle tests, every known
// fault and every point of the checklist has a test here that is named after it,
// one elsewhere, or a reason why not.
func TestConformanceRows(t *testing.T) {
	b, err := os.ReadFile("../testdata/conformance/lifecycle.json")
	require.NoError(t, err)
	var rows []struct{ ID, Reason, Test string }
	require.NoError(t, json.Unmarshal(b, &rows))
	tests := make(map[string]bool)
	covered := make(map[string]bool)
	for pkg, dir := range map[string]string{"detect": ".", "lifecycle": "../lifecycle", "engine": "../compact/engine", "streamproc": "../streamproc"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			src, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`(?m)^func (Test(?:L4(\d)(\d\d))?[A-Z]?\w*)\(`).FindAllStringSubmatch(string(src), -1) {
				tests[pkg+"."+m[1]] = true
				if m[2] != "" {
					covered[fmt.Sprintf("L4.%s-%s", m[2], m[3])] = true
				}
			}
		}
	}
	for _, r := range rows {
		require.False(t, covered[r.ID], "%s is listed and has a test, or is listed twice", r.ID)
		require.True(t, (r.Reason == "") != (r.Test == ""), "%s needs a reason or a test", r.ID)
		require.True(t, r.Test == "" || tests[r.Test], "%s: no test %s", r.ID, r.Test)
		covered[r.ID] = true
	}
	for section, n := range map[int]int{1: 6, 2: 4, 3: 10, 4: 12, 5: 6, 6: 15, 7: 16} {
		for i := 1; i <= n; i++ {
			id := fmt.Sprintf("L4.%d-%02d", section, i)
			require.True(t, covered[id], "%s has neither a test nor a reason", id)
		}
	}
	for i := 8; i <= 17; i++ {
		require.True(t, covered[fmt.Sprintf("L4.%d", i)], i)
	}
	// The mapping to those who compact, the known faults, and the checklist.
	for name, n := range map[string]int{"L5.%d": 6, "L6.%d": 10, "L7-%02d": 10} {
		for i := 1; i <= n; i++ {
			require.True(t, covered[fmt.Sprintf(name, i)], name, i)
		}
	}
}
