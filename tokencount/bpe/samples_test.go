package bpe_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/tokencount/bpe"
)

var update = flag.Bool("update", false, "record the oracle's counts in testdata/tokens/counts.json")

const samplesDir = "../../testdata/tokens"

func TestSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(samplesDir, "*.txt"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 25)
	counts := map[string]map[bpe.Encoding]int{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		of := map[bpe.Encoding]int{}
		for _, e := range encodings {
			c := counterFor(t, e)
			assertLikeOracle(t, c, string(text))
			of[e] = len(oracles[e]().EncodeOrdinary(repair(string(text))))
		}
		counts[strings.TrimSuffix(filepath.Base(f), ".txt")] = of
	}
	path := filepath.Join(samplesDir, "counts.json")
	if *update {
		data, err := json.MarshalIndent(counts, "", "\t")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o644))
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var recorded map[string]map[bpe.Encoding]int
	require.NoError(t, json.Unmarshal(data, &recorded))
	assert.Equal(t, recorded, counts)
}
