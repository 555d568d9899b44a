package streamproc

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRows runs every conformance row by its id.
func TestRows(t *testing.T) {
	ids := make([]string, 0, len(rows))
	for id := range rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t.Run(id, rows[id])
	}
}

// TestEveryRowIsAccountedFor: each row of the parts that concern this package
// has a test, or a reason in testdata/conformance/streamproc.json, not both.
func TestEveryRowIsAccountedFor(t *testing.T) {
	data, err := os.ReadFile("../testdata/conformance/streamproc.json")
	require.NoError(t, err)
	var list []struct{ ID, Reason string }
	require.NoError(t, json.Unmarshal(data, &list))
	why := map[string]string{}
	for _, e := range list {
		require.NotEmpty(t, e.Reason, e.ID)
		require.NotContains(t, why, e.ID)
		why[e.ID] = e.Reason
	}
	known := map[string]bool{"ASM-1": true, "DEG-1": true}
	for prefix, n := range map[string]int{"SEL": 7, "TRG": 8, "CFG": 5, "INT": 18, "FIT": 8, "HIS": 7, "VAL": 3, "PRM": 2, "SMP": 2,
		"RTY": 7, "CLS": 10, "FRP": 8, "CLN": 24} {
		for i := range n {
			known[fmt.Sprintf("%s-%d", prefix, i+1)] = true
		}
	}
	for i := range 32 {
		known[fmt.Sprintf("W%d", i+1)] = true
	}
	for id := range known {
		_, excused := why[id]
		if prefix, _, ok := strings.Cut(id, "-"); ok && !excused {
			_, excused = why[prefix+"-*"]
		}
		require.True(t, excused || rows[id] != nil, "row %s has neither a test nor a reason", id)
		require.False(t, excused && rows[id] != nil, "row %s has a test and a reason", id)
	}
	for id := range rows {
		require.True(t, known[id], "there is no row %s", id)
	}
	for id := range why {
		require.True(t, known[id] || strings.HasSuffix(id, "-*"), "there is no row %s", id)
	}
}
