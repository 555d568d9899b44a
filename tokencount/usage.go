package tokencount

import (
	"encoding/json"

	"github.com/agentcompact/agentcompact/session"
)

// ReadUsage reads the usage object of a provider's response (the value of
// "usage", "usageMetadata" or "tokenUsage") into the terms of [session.Usage]:
// Prompt with everything that was read, cached or not, and Completion with
// everything that was written, reasoning included. What a provider counts
// apart is added, what it counts within is not added again:
//
//   - OpenAI, DeepSeek and their like: prompt_tokens and input_tokens with
//     details have the cached tokens in them, completion_tokens the reasoning;
//   - Anthropic and Bedrock: input_tokens leaves out what was read from the
//     cache and written to it;
//   - Gemini: promptTokenCount has the cached tokens in it, candidatesTokenCount
//     leaves out the thoughts, and what tools brought in is counted apart.
//
// ok is false for what is no usage object or has no count above zero; negative
// counts are taken for none. Node, Provider, Model and Aggregate are the
// caller's to set.
func ReadUsage(object []byte) (usage session.Usage, ok bool) {
	var u rawUsage
	if json.Unmarshal(object, &u) != nil {
		return session.Usage{}, false
	}
	switch {
	case u.PromptTokens > 0 || u.CompletionTokens > 0:
		usage = session.Usage{Prompt: u.PromptTokens.n(), Completion: u.CompletionTokens.n(),
			CacheRead:  max(u.PromptDetails.Cached, u.CacheHit, u.Cached).n(),
			CacheWrite: u.PromptDetails.CacheWrite.n(), Reasoning: u.CompletionDetails.Reasoning.n()}
	case u.GeminiPrompt > 0 || u.GeminiCandidates > 0:
		usage = session.Usage{Prompt: u.GeminiPrompt.n() + u.GeminiTools.n(), Completion: u.GeminiCandidates.n() + u.GeminiThoughts.n(),
			CacheRead: u.GeminiCached.n(), Reasoning: u.GeminiThoughts.n()}
	case u.BedrockInput > 0 || u.BedrockOutput > 0:
		usage = session.Usage{Prompt: u.BedrockInput.n() + u.BedrockRead.n() + u.BedrockWrite.n(), Completion: u.BedrockOutput.n(),
			CacheRead: u.BedrockRead.n(), CacheWrite: u.BedrockWrite.n()}
	case u.InputDetails != nil || u.OutputDetails != nil: // OpenAI Responses
		usage = session.Usage{Prompt: u.Input.n(), Completion: u.Output.n()}
		if u.InputDetails != nil {
			usage.CacheRead = u.InputDetails.Cached.n()
		}
		if u.OutputDetails != nil {
			usage.Reasoning = u.OutputDetails.Reasoning.n()
		}
	default: // Anthropic Messages
		usage = session.Usage{Prompt: u.Input.n() + u.Read.n() + u.Write.n(), Completion: u.Output.n(),
			CacheRead: u.Read.n(), CacheWrite: u.Write.n()}
	}
	// A part is not more than the whole, whatever was reported.
	usage.CacheRead = min(usage.CacheRead, usage.Prompt)
	usage.CacheWrite = min(usage.CacheWrite, usage.Prompt-usage.CacheRead)
	usage.Reasoning = min(usage.Reasoning, usage.Completion)
	return usage, usage.Prompt+usage.Completion > 0
}

// reported is a count as a provider wrote it.
type reported int

// n is the count, within what a request can have.
func (r reported) n() int { return int(min(max(r, 0), 1<<40)) }

type usageDetails struct {
	Cached     reported `json:"cached_tokens"`
	CacheWrite reported `json:"cache_write_tokens"`
	Reasoning  reported `json:"reasoning_tokens"`
}

type rawUsage struct {
	PromptTokens      reported     `json:"prompt_tokens"`
	CompletionTokens  reported     `json:"completion_tokens"`
	PromptDetails     usageDetails `json:"prompt_tokens_details"`
	CompletionDetails usageDetails `json:"completion_tokens_details"`
	CacheHit          reported     `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cached            reported     `json:"cached_tokens"`           // Moonshot

	Input         reported      `json:"input_tokens"`
	Output        reported      `json:"output_tokens"`
	InputDetails  *usageDetails `json:"input_tokens_details"`
	OutputDetails *usageDetails `json:"output_tokens_details"`
	Read          reported      `json:"cache_read_input_tokens"`
	Write         reported      `json:"cache_creation_input_tokens"`

	GeminiPrompt     reported `json:"promptTokenCount"`
	GeminiCandidates reported `json:"candidatesTokenCount"`
	GeminiThoughts   reported `json:"thoughtsTokenCount"`
	GeminiTools      reported `json:"toolUsePromptTokenCount"`
	GeminiCached     reported `json:"cachedContentTokenCount"`

	BedrockInput  reported `json:"inputTokens"`
	BedrockOutput reported `json:"outputTokens"`
	BedrockRead   reported `json:"cacheReadInputTokens"`
	BedrockWrite  reported `json:"cacheWriteInputTokens"`
}
