package tokencount_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agentcompact/agentcompact/tokencount"
)

func TestEstimateImage(t *testing.T) {
	tests := []struct {
		name          string
		width, height int
		detail        string
		want          int
	}{
		// The first three are the examples of OpenAI's documentation.
		{"square", 1024, 1024, "high", 765},
		{"tall", 2048, 4096, "high", 1105},
		{"low detail has one price", 4096, 8192, "low", 85},
		{"one tile", 512, 512, "high", 255},
		{"a pixel more", 513, 512, "high", 425},
		{"tiny is not scaled up", 1, 1, "high", 255},
		{"exactly the limits", 2048, 768, "high", 85 + 4*2*170},
		{"wide screenshot", 1920, 1080, "auto", 85 + 3*2*170},
		{"no detail named", 1024, 1024, "", 765},
		{"unheard-of detail", 1024, 1024, "ultra", 765},
		{"unknown size", 0, 0, "high", tokencount.DefaultImage},
		{"half a size", 640, -1, "", tokencount.DefaultImage},
		{"unknown size, low", 0, 0, "low", 85},
		{"a thread", 100_000, 1, "high", 85 + 4*170},
		{"absurd", math.MaxInt, math.MaxInt, "high", 765},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, tokencount.EstimateImage(test.width, test.height, test.detail), test.name)
	}
}

func TestEstimateFile(t *testing.T) {
	assert.Equal(t, 85, tokencount.EstimateFile(0, ""))
	assert.Equal(t, 85, tokencount.EstimateFile(-1, "application/pdf"))
	assert.Equal(t, 85+1000, tokencount.EstimateFile(4000, "text/csv"))
	assert.Equal(t, 85+1000, tokencount.EstimateFile(4000, ""))
	assert.Equal(t, tokencount.DefaultImage, tokencount.EstimateFile(9_000_000, "image/png"))
	// A page of a PDF is some 75 kB and some 2,000 tokens; a minute of speech at
	// 16 kB/s some 600 to 2,000.
	assert.InDelta(t, 20_000, tokencount.EstimateFile(10*75_000, "application/PDF"), 10_000)
	assert.InDelta(t, 1_300, tokencount.EstimateFile(60*16_000, "audio/mpeg"), 750)
}

func TestEstimateSchema(t *testing.T) {
	dense := `{"name":"read_file","description":"Read a file.","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`
	spread := "{\n  \"name\": \"read_file\",\n  \"description\": \"Read a file.\",\n  \"parameters\": {\n    \"type\": \"object\",\n" +
		"    \"properties\": {\"path\": {\"type\": \"string\"}},\n    \"required\": [ \"path\" ]\n  }\n}\n"
	want := tokencount.PerTool + tokencount.EstimateText(dense)
	assert.Equal(t, want, tokencount.EstimateSchema([]byte(dense)))
	assert.Equal(t, want, tokencount.EstimateSchema([]byte(spread)), "white space is free")
	assert.Greater(t, want, 25)
	assert.Less(t, want, 60)

	assert.Zero(t, tokencount.EstimateSchema(nil))
	assert.Zero(t, tokencount.EstimateSchema([]byte(" \n")))
	assert.Equal(t, tokencount.PerTool+tokencount.EstimateText("{broken"), tokencount.EstimateSchema([]byte("{broken")))
}
