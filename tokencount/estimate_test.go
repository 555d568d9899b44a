package tokencount_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/tokencount"
)

const samplesDir = "../testdata/tokens"

type sample struct {
	name, text string
	exact      int // tokens of o200k_base
}

func samples(t testing.TB) []sample {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(samplesDir, "counts.json"))
	require.NoError(t, err)
	var counts map[string]struct {
		O200k int `json:"o200k_base"`
	}
	require.NoError(t, json.Unmarshal(data, &counts))
	var out []sample
	for name, c := range counts {
		text, err := os.ReadFile(filepath.Join(samplesDir, name+".txt"))
		require.NoError(t, err)
		out = append(out, sample{name, string(text), c.O200k})
	}
	require.GreaterOrEqual(t, len(out), 25)
	return out
}

func TestEstimateTextIsNearTheExactCount(t *testing.T) {
	for _, s := range samples(t) {
		got := tokencount.EstimateText(s.text)
		off := float64(got)/float64(s.exact) - 1
		t.Logf("%-14s exact %5d estimate %5d %+6.1f %%", s.name, s.exact, got, 100*off)
		assert.LessOrEqual(t, math.Abs(off), 0.20, "%s: exact %d, estimate %d", s.name, s.exact, got)
	}
}

func TestEstimateTextOfParts(t *testing.T) {
	// Cut into short messages, the sum stays near: an agent's history is many
	// short texts.
	for _, s := range samples(t) {
		sum, whole := 0, tokencount.EstimateText(s.text)
		n := 0
		for rest := s.text; rest != ""; n++ {
			end := min(len(rest), 300)
			for end < len(rest) && !utf8.RuneStart(rest[end]) {
				end++
			}
			sum += tokencount.EstimateText(rest[:end])
			rest = rest[end:]
		}
		assert.InDelta(t, whole, sum, float64(2*n), "%s: %d parts", s.name, n)
	}
}

func TestEstimateTextEdges(t *testing.T) {
	assert.Equal(t, 0, tokencount.EstimateText(""))
	assert.Equal(t, 0, tokencount.EstimateBytes(nil))
	for _, s := range []string{"a", " ", "\n", "x", "ok", "中", "\xff", "0"} {
		assert.LessOrEqual(t, tokencount.EstimateText(s), 2, "%q", s)
		assert.GreaterOrEqual(t, tokencount.EstimateText(s), 1, "%q", s)
	}
}

func TestEstimateTextOfBadBytes(t *testing.T) {
	for _, bad := range []string{"\xff", "\xe4\xb8", "\xf0\x9f\x98", "\xc0\xaf", "\xed\xa0\x80", "\x80\x80"} {
		for n := range 150 { // at every place of a block
			s := strings.Repeat("x", n) + bad + " tail"
			assert.Equal(t, tokencount.EstimateText(string([]rune(s))), tokencount.EstimateText(s), "%q after %d", bad, n)
		}
	}
}

// Where a text stands in the blocks must not matter: a block of other text in
// front changes the estimate by that text alone.
func TestEstimateTextKnowsNoBlocks(t *testing.T) {
	for _, s := range samples(t) {
		text := s.text[:2000]
		whole := tokencount.EstimateText(text)
		for shift := 1; shift < 70; shift++ {
			front := strings.Repeat("\n", shift)
			got := tokencount.EstimateText(front+text) - tokencount.EstimateText(front)
			assert.InDelta(t, whole, got, 4, "%s behind %d newlines", s.name, shift)
		}
	}
}

func TestEstimateTextOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "bytes")
		got := tokencount.EstimateBytes(b)
		require.Equal(t, got, tokencount.EstimateText(string(b)), "the twin agrees")
		require.Equal(t, got, tokencount.EstimateBytes(b), "deterministic")
		require.GreaterOrEqual(t, got, min(1, len(b)))
		require.LessOrEqual(t, got, 7*len(b)+1)
	})
}

// What no vocabulary was made for may be off, but not without bound: 128 bytes
// is the longest token there is.
func TestEstimateTextOfRuns(t *testing.T) {
	exact := map[string]int{"a": 12_500, "A": 12_500, " ": 1_300, "\n": 6_300, "=": 1_600, "-": 1_600, "0": 33_334}
	for unit, want := range exact {
		got := tokencount.EstimateText(strings.Repeat(unit, 100_000))
		assert.Greater(t, got, want/3, "%q", unit)
		assert.Less(t, got, want*8, "%q", unit)
	}
}

func TestEstimateTextAllocatesNothing(t *testing.T) {
	for _, s := range samples(t) {
		b := []byte(s.text)
		assert.Zero(t, testing.AllocsPerRun(3, func() { tokencount.EstimateText(s.text); tokencount.EstimateBytes(b) }), s.name)
	}
}
