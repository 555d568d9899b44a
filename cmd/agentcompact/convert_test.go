package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
)

// Only the live conversation is converted: what a checkpoint of the file stands
// for stays behind, and convert says where.
func TestConvertNamesSpansLeftBehind(t *testing.T) {
	for path, want := range map[string]int{"other/qwen-compression.jsonl": 1, "codex/rollout-medium.jsonl": 0} {
		s, err := testdata.Find(path)
		require.NoError(t, err)
		r := run(t, "convert", "--json", "--to", ownFormat, "-o", filepath.Join(t.TempDir(), "own.jsonl"), s.File())
		require.Zero(t, r.code, r.stderr)
		var info convertedInfo
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &info))
		require.Len(t, info.Lost, want, path)
		for _, l := range info.Lost {
			require.Contains(t, l, "what 1 checkpoint stands for: it can be read in "+s.File())
		}
	}
}
