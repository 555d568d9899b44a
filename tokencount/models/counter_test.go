package models_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/tokencount/bpe"
	"github.com/agentcompact/agentcompact/tokencount/models"
)

// TestFactorsAreTheMeasured compares the factors with the measurements that they
// were taken from: tokens of a family for one of o200k_base.
func TestFactorsAreTheMeasured(t *testing.T) {
	classes := []models.Class{models.Prose, models.Code, models.Chinese, models.JSON, models.Log,
		models.Japanese, models.Cyrillic, models.Korean, models.German, models.Arabic}
	measured := map[models.Family][]float64{}
	data, err := os.ReadFile("testdata/factors.json")
	require.NoError(t, err)
	var rows map[string][]float64
	require.NoError(t, json.Unmarshal(data, &rows))
	for f := models.O200k; f.String() != "unknown"; f++ {
		if f != models.O200k {
			require.Contains(t, rows, f.String())
			measured[f] = rows[f.String()]
		}
	}
	require.Len(t, measured, len(rows), "a family without factors")
	for f, row := range measured {
		require.Len(t, row, len(classes), f)
		for i, c := range classes {
			assert.Equal(t, row[i], f.Factor(c), "%v, class %d", f, c)
		}
	}
}

// TestCl100kFromO200k has a family whose vocabulary is at hand. A factor is of
// one text of 60,000 characters, so that another text in the same language may
// differ by more; but it must bring the count nearer than none.
func TestCl100kFromO200k(t *testing.T) {
	base, err := bpe.Exact(bpe.O200kBase)
	require.NoError(t, err)
	truth, err := bpe.Exact(bpe.Cl100kBase)
	require.NoError(t, err)
	scaled := models.NewCounter(models.Cl100k, base)
	for name, within := range map[string]float64{
		"prose": 0.05, "go": 0.05, "diff": 0.05, "json": 0.05, "log": 0.05,
		"chinese": 1, "japanese": 1, "korean": 1, "cyrillic": 1, "arabic": 1, "german": 1,
	} {
		b, err := os.ReadFile("../../testdata/tokens/" + name + ".txt")
		require.NoError(t, err)
		want := float64(truth.Count(string(b)))
		off := func(n int) float64 { return math.Abs(float64(n)/want - 1) }
		got, unscaled := scaled.Count(string(b)), base.Count(string(b))
		assert.Less(t, off(got), within, "%s: %d, cl100k %v", name, got, want)
		if within == 1 {
			assert.Less(t, off(got), off(unscaled), "%s: %d, without a factor %d, cl100k %v", name, got, unscaled, want)
		}
	}
}

func TestNewCounter(t *testing.T) {
	claude := models.NewCounter(models.FamilyOf("claude-sonnet-4"), nil)
	assert.Equal(t, tokencount.EstimatorID+"*claude/1", claude.ID())
	assert.Zero(t, claude.Count(""))
	assert.Equal(t, 1, claude.Count("a"))
	text := "func main() { fmt.Println(x[0]) }; if a == b { return nil }"
	assert.Equal(t, models.Claude.Scale(tokencount.EstimateText(text), models.Code), claude.Count(text))
	for _, same := range []models.Family{models.Unknown, models.O200k, models.Family(99)} {
		assert.Equal(t, tokencount.Counter(tokencount.Estimator{}), models.NewCounter(same, nil), same)
	}
	ids := map[string]bool{}
	for f := models.O200k; f.String() != "unknown"; f++ {
		id := models.NewCounter(f, nil).ID()
		assert.False(t, ids[id], "prices of %v would mix with others", f)
		ids[id] = true
	}
}
