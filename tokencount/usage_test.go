package tokencount_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
)

func TestReadUsage(t *testing.T) {
	for name, test := range map[string]struct {
		object string
		want   session.Usage
	}{
		"OpenAI chat": {`{"prompt_tokens":8850,"completion_tokens":310,"total_tokens":9160,"prompt_tokens_details":{"cached_tokens":8500,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":300}}`,
			session.Usage{Prompt: 8850, Completion: 310, CacheRead: 8500, Reasoning: 300}},
		"OpenAI responses": {`{"input_tokens":8850,"input_tokens_details":{"cached_tokens":8500},"output_tokens":310,"output_tokens_details":{"reasoning_tokens":300},"total_tokens":9160}`,
			session.Usage{Prompt: 8850, Completion: 310, CacheRead: 8500, Reasoning: 300}},
		"without details": {`{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"prompt_tokens_details":null}`,
			session.Usage{Prompt: 12, Completion: 3}},
		"DeepSeek": {`{"prompt_tokens":900,"completion_tokens":30,"prompt_cache_hit_tokens":832,"prompt_cache_miss_tokens":68}`,
			session.Usage{Prompt: 900, Completion: 30, CacheRead: 832}},
		"Moonshot":   {`{"prompt_tokens":900,"completion_tokens":30,"cached_tokens":832}`, session.Usage{Prompt: 900, Completion: 30, CacheRead: 832}},
		"OpenRouter": {`{"prompt_tokens":900,"completion_tokens":30,"cost":0.01,"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":700}}`, session.Usage{Prompt: 900, Completion: 30, CacheRead: 100, CacheWrite: 700}},
		"Anthropic": {`{"input_tokens":400,"cache_creation_input_tokens":1200,"cache_read_input_tokens":11000,"cache_creation":{"ephemeral_5m_input_tokens":1200},"output_tokens":20,"service_tier":"standard"}`,
			session.Usage{Prompt: 12600, Completion: 20, CacheRead: 11000, CacheWrite: 1200}},
		"Anthropic, all from the cache": {`{"input_tokens":0,"cache_read_input_tokens":11000,"output_tokens":20}`,
			session.Usage{Prompt: 11000, Completion: 20, CacheRead: 11000}},
		// What the gateways that speak OpenAI's form for Anthropic add of theirs is in the prompt already.
		"LiteLLM": {`{"prompt_tokens":12600,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":11000},"cache_read_input_tokens":11000,"cache_creation_input_tokens":1200}`,
			session.Usage{Prompt: 12600, Completion: 20, CacheRead: 11000}},
		"Gemini": {`{"promptTokenCount":5000,"cachedContentTokenCount":4000,"candidatesTokenCount":50,"thoughtsTokenCount":70,"toolUsePromptTokenCount":10,"totalTokenCount":5130}`,
			session.Usage{Prompt: 5010, Completion: 120, CacheRead: 4000, Reasoning: 70}},
		"Bedrock": {`{"inputTokens":400,"outputTokens":20,"totalTokens":420,"cacheReadInputTokens":11000,"cacheWriteInputTokens":1200}`,
			session.Usage{Prompt: 12600, Completion: 20, CacheRead: 11000, CacheWrite: 1200}},
		"a part above the whole": {`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":500},"completion_tokens_details":{"reasoning_tokens":50}}`,
			session.Usage{Prompt: 100, Completion: 5, CacheRead: 100, Reasoning: 5}},
		"negative": {`{"prompt_tokens":100,"completion_tokens":-5}`, session.Usage{Prompt: 100}},
	} {
		got, ok := tokencount.ReadUsage([]byte(test.object))
		assert.True(t, ok, name)
		assert.Equal(t, test.want, got, name)
	}
	for _, none := range []string{"", "null", "{}", "[]", `{"prompt_tokens":0,"completion_tokens":0}`, `{"prompt_tokens":"many"}`, `{"prompt_tokens":-1}`, "{"} {
		got, ok := tokencount.ReadUsage([]byte(none))
		assert.False(t, ok, none)
		assert.Zero(t, got, none)
	}
}
