package models_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/tokencount/models"
)

func TestLookup(t *testing.T) {
	tests := []struct {
		name           string
		id             string
		provider       string
		window, output int
	}{
		{"gpt-4o", "gpt-4o", "openai", 128_000, 16_384},
		{"gpt-4o-2024-08-06", "gpt-4o", "openai", 128_000, 16_384},
		{"openai/gpt-4o", "gpt-4o", "openai", 128_000, 16_384},
		{"openai/gpt-4o-2024-08-06", "gpt-4o", "openai", 128_000, 16_384},
		{"GPT-4o", "gpt-4o", "openai", 128_000, 16_384},
		{" gpt-4.1 ", "gpt-4.1", "openai", 1_047_576, 32_768},
		{"claude-sonnet-4-20250514", "claude-sonnet-4-20250514", "anthropic", 200_000, 64_000},
		{"claude-sonnet-4", "claude-sonnet-4-20250514", "anthropic", 200_000, 64_000},
		{"claude-sonnet-4-0", "claude-sonnet-4-20250514", "anthropic", 200_000, 64_000},
		{"claude-sonnet-4@20250514", "claude-sonnet-4-20250514", "anthropic", 200_000, 64_000},
		{"claude-sonnet-4[1m]", "claude-sonnet-4-20250514", "anthropic", 1_000_000, 64_000},
		{"claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", "anthropic", 200_000, 8_192},
		{"claude-3-5-sonnet-20240620", "claude-3-5-sonnet-20240620", "anthropic", 200_000, 8_192},
		{"claude-3.5-sonnet", "claude-3-5-sonnet-20241022", "anthropic", 200_000, 8_192},
		{"anthropic/claude-sonnet-4.5", "claude-sonnet-4-5-20250929", "anthropic", 200_000, 64_000},
		{"us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4-20250514", "anthropic", 200_000, 64_000},
		{"bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", 200_000, 64_000},
		{"bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet-20241022", "anthropic", 200_000, 8_192}, // not in the list of bedrock
		{"anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet-20241022", "anthropic", 200_000, 8_192},
		{"models/gemini-2.5-pro", "gemini-2.5-pro", "gemini", 1_048_576, 65_536},
		{"google/gemini-2.5-pro", "gemini-2.5-pro", "gemini", 1_048_576, 65_536},
		{"vertex_ai/claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929", "vertexai", 200_000, 50_000},
		{"azure/gpt-4o", "gpt-4o", "azure", 128_000, 20_000},
	}
	r := models.Embedded()
	for _, test := range tests {
		m, ok := r.Lookup(test.name)
		if !assert.True(t, ok, test.name) {
			continue
		}
		assert.Equal(t, test.id, m.ID, test.name)
		assert.Equal(t, test.provider, m.Provider, test.name)
		assert.Equal(t, test.window, m.Window, test.name)
		assert.Equal(t, test.output, m.Output, test.name)
	}
}

func TestUnknownStaysUnknown(t *testing.T) {
	for _, name := range []string{
		"", "/", "gpt", "gpt-4o-", "gpt-4o-turbo-max", "gpt-4o-20", "claude", "claude-sonnet", "my-finetune", "[1m]",
		"ollama/gpt-4o", "ft:gpt-4o:acme::x1", "openai/", "openai/nonsense", "us.anthropic.nothing-v1:0", "models/",
	} {
		m, ok := models.Embedded().Lookup(name)
		assert.False(t, ok, "%q is %+v", name, m)
		assert.Zero(t, m, name)
	}
}

func TestOpenRouterKeepsItsOwnEntries(t *testing.T) {
	direct, ok := models.Embedded().Lookup("deepseek-chat")
	require.True(t, ok)
	assert.Equal(t, "deepseek", direct.Provider)
	m, ok := models.Embedded().Lookup("openrouter/anthropic/claude-sonnet-4.5")
	require.True(t, ok)
	assert.Equal(t, "openrouter", m.Provider)
	assert.Equal(t, "anthropic/claude-sonnet-4.5", m.ID)
	free, ok := models.Embedded().Lookup("openrouter/anthropic/claude-sonnet-4.5:beta")
	require.True(t, ok)
	assert.Equal(t, m, free)
}

func TestPrices(t *testing.T) {
	m, ok := models.Embedded().Lookup("claude-sonnet-4-20250514")
	require.True(t, ok)
	assert.Equal(t, models.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}, m.Price)
	m, ok = models.Embedded().Lookup("gpt-4o")
	require.True(t, ok)
	assert.Equal(t, models.Price{Input: 2.5, Output: 10, CacheRead: 1.25}, m.Price)
}

func TestLayers(t *testing.T) {
	own := models.Model{ID: "gpt-4o", Provider: "acme", Window: 32_000}
	r := models.Layers{models.Fixed{"gpt-4o": own}, models.Embedded()}
	m, ok := r.Lookup("gpt-4o")
	assert.True(t, ok)
	assert.Equal(t, own, m)
	m, ok = r.Lookup("gpt-4o-mini")
	assert.True(t, ok)
	assert.Equal(t, "openai", m.Provider)
	_, ok = r.Lookup("nobody")
	assert.False(t, ok)
	_, ok = models.Layers(nil).Lookup("gpt-4o")
	assert.False(t, ok)
}

func TestFamilyOf(t *testing.T) {
	tests := map[string]models.Family{
		"gpt-4o": models.O200k, "openai/gpt-5.2-codex": models.O200k, "o3-mini": models.O200k, "gpt-4.1-nano": models.O200k,
		"gpt-oss-120b": models.O200k, "chatgpt-4o-latest": models.O200k,
		"gpt-4": models.Cl100k, "gpt-4-0613": models.Cl100k, "gpt-4-turbo": models.Cl100k, "gpt-3.5-turbo": models.Cl100k, "gpt-35-turbo": models.Cl100k,
		"us.anthropic.claude-sonnet-4-20250514-v1:0": models.Claude, "gemini-2.5-pro": models.Gemma, "google/gemma-3-27b": models.Gemma,
		"meta-llama/llama-3.3-70b": models.Llama, "qwen3-coder": models.Qwen, "deepseek-ai/DeepSeek-V3.2": models.DeepSeek,
		"": models.Unknown, "kimi-k2": models.Unknown, "openai/whisper": models.Unknown,
	}
	for name, want := range tests {
		assert.Equal(t, want, models.FamilyOf(name), name)
	}
	m, ok := models.Embedded().Lookup("anthropic/claude-sonnet-4.5")
	require.True(t, ok)
	assert.Equal(t, models.Claude, m.Family)
}

func TestScale(t *testing.T) {
	assert.Equal(t, 1000, models.O200k.Scale(1000, models.Arabic))
	assert.Equal(t, 1890, models.Claude.Scale(1000, models.Arabic))
	assert.Equal(t, 1420, models.Gemma.Scale(1000, models.JSON))
	assert.Equal(t, 1000, models.Unknown.Scale(1000, models.Code))
	assert.Equal(t, 0, models.Claude.Scale(0, models.Code))
	assert.Equal(t, 7, models.Family(99).Scale(7, models.Code))
	assert.Equal(t, 7, models.Claude.Scale(7, models.Class(99)))
	assert.Equal(t, "claude", fmt.Sprint(models.Claude))
	assert.Equal(t, "unknown", fmt.Sprint(models.Family(99)))
	for f := models.Unknown; f.String() != "unknown" || f == models.Unknown; f++ {
		for c := models.Prose; c <= models.Arabic; c++ {
			assert.InDelta(t, 1, f.Factor(c), 0.9, "%v %v", f, c)
		}
	}
}

func TestClassOf(t *testing.T) {
	tests := map[string]models.Class{
		"prose": models.Prose, "go": models.Code, "minified_js": models.Code, "diff": models.Code,
		"json": models.JSON, "json_indented": models.JSON, "log": models.Log, "chinese": models.Chinese,
		"japanese": models.Japanese, "korean": models.Korean, "cyrillic": models.Cyrillic, "arabic": models.Arabic, "german": models.German,
	}
	for name, want := range tests {
		text, err := os.ReadFile("../../testdata/tokens/" + name + ".txt")
		require.NoError(t, err)
		assert.Equal(t, want, models.ClassOf(string(text)), name)
	}
	assert.Equal(t, models.Prose, models.ClassOf(""))
	assert.Equal(t, models.Prose, models.ClassOf("ok"))
	assert.Equal(t, models.Prose, models.ClassOf("\xff\xff"))
}
