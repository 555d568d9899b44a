package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckpoint(t *testing.T) {
	for _, c := range []struct {
		tokens int
		ratio  float64
		least  int
		bounds []int
		want   int
	}{
		{10_000, 0.25, 384, nil, 2500},
		{10_003, 0.25, 384, nil, 2500},          // rounded down
		{1000, 0.25, 384, []int{8192}, 384},     // the least
		{100_000, 0.25, 384, []int{8192}, 8192}, // the most
		{400, 0.25, 384, []int{8192, 360}, 360}, // a bound beats the least
		{400, 0.25, 384, []int{-5}, 1},          // never less than a token
		{0, 0.25, 0, nil, 1},
		{10_000, 1, 1, []int{1 << 40, 3000}, 3000}, // a share of a total
	} {
		require.Equal(t, c.want, Checkpoint(c.tokens, c.ratio, c.least, c.bounds...), "%+v", c)
	}
}
