package tokencount_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agentcompact/agentcompact/tokencount"
)

func TestEstimateTextEdges(t *testing.T) {
	assert.Equal(t, 0, tokencount.EstimateText(""))
	assert.Equal(t, 1, tokencount.EstimateText(" "))
	for n := range 200 { // every tail length
		s := strings.Repeat("word and ", 30)[:n]
		assert.Equal(t, tokencount.EstimateText(s), tokencount.EstimateBytes([]byte(s)))
	}
}
