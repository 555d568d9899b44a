package overflow

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestVariations holds wordings that nobody reported: what the next gateway may
// say. They keep the patterns general.
func TestVariations(t *testing.T) {
	checkVariations(t, []variation{
		{400, `{"error":{"message":"This model's maximum context length is 128,000 tokens. However, your messages resulted in 130,512 tokens."}}`, true, 128000, 130512, ""},
		{400, `{"error":{"message":"Input is too large: 150000 tokens, max 131072"}}`, true, 131072, 150000, ""},
		{400, `{"message":"Prompt has too many tokens (150000), maximum allowed is 131072"}`, true, 131072, 150000, ""},
		{400, `{"message":"Context window exceeded: 150000/131072 tokens"}`, true, 131072, 150000, ""},
		{400, `{"error":"context limit exceeded"}`, true, 0, 0, ""},
		{400, `{"error":{"message":"The prompt you provided is 9000 tokens long, which exceeds the model's context window of 8192 tokens."}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Your request contains 9000 tokens which is more than the 8192 tokens supported by this model"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"The conversation is too long. Please start a new chat."}}`, true, 0, 0, ""},
		{400, `{"error":{"message":"input tokens (9000) exceed the limit (8192)"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Total tokens 9000 exceed maximum of 8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Requested 9000 tokens exceeds the model limit of 8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"token limit exceeded"}}`, true, 0, 0, ""},
		{400, `{"error":{"message":"Maximum token limit exceeded: 9000 > 8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Number of tokens in the prompt (9000) exceeds model max (8192)"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"The model's context length is 8192 tokens, but the request has 9000 tokens"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Prompt token count 9000 is over the 8192 token limit"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"prompt length (9000) exceeds maximum input length (8192). Set log level to info and above for more details."}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Failed: input_tokens=9000 exceeds max_input_tokens=8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"n_tokens 9000 exceeds n_ctx 8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Prompt size 9000 > model context size 8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"the maximum sequence length of the model is 8192 but got 9000 tokens"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Input text is too long. Max tokens: 8192, got: 9000"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"You have exceeded the maximum context length for this model of 8192 tokens"}}`, true, 8192, 0, ""},
		{400, `{"error":{"message":"This model only supports a context of 8192 tokens, your prompt has 9000"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"The input is too long for this model: 9000 tokens. The limit is 8192."}}`, true, 8192, 9000, ""},
		{413, `{"error":{"message":"Prompt is too long","type":"request_too_large"}}`, true, 0, 0, ""},
		{400, `{"error":{"message":"Conversation exceeds the 200k token context window"}}`, true, 200000, 0, ""},
		{400, `{"error":{"message":"The request exceeds the model's maximum of 8_192 tokens (got 9_000)"}}`, true, 8192, 9000, ""},
		{500, `{"error":"llama runner: input length exceeds context length"}`, true, 0, 0, ""},
		{400, `{"error":{"message":"Context length exceeded, (code: 4096)"}}`, true, 0, 0, ""},
		{400, `{"error":{"message":"context window exceeds limit [2013]"}}`, true, 0, 0, ""},
		{400, `{"error":{"message":"Request too long: prompt tokens 9000, max context 8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"输入token数9000超过最大限制8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Tokens in prompt (9000) + max_tokens (1000) > context window (8192)"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"prompt tokens (9000) plus max_tokens (1000) exceeds the context length 8192"}}`, true, 8192, 9000, ""},
		{400, `{"error":{"message":"Requested generation length 4096 is not possible! The provided prompt is 14000 tokens long, so generating 4096 tokens requires a sequence length of 18096, but the maximum supported sequence length is just 16384!"}}`, true, 16384, 14000, ""},
		{400, `{"error":{"message":"The request is too long: 210000 tokens. Maximum is 200000 tokens."}}`, true, 200000, 210000, ""},
		// look-alikes
		{400, `{"message":"too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 8000."}`, false, 0, 0, ClassInvalidRequest},
		{400, `{"error":{"message":"thinking.budget_tokens must be less than max_tokens"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"max_tokens must be greater than thinking.budget_tokens. Please consult our documentation"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Invalid value for max_output_tokens: must be between 1 and 8192 inclusive"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"max_completion_tokens exceeds the model's maximum output tokens of 16384"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"The requested max_tokens (64000) exceeds the limit of 8192 for this model"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Too many tools: 140, maximum is 128"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"stop sequences: at most 4 items"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"messages.1.content.0.text: cache_control cannot be set for empty text blocks"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Your credit balance is too low to access the API"}}`, false, 0, 0, ""},
		{403, `{"error":{"message":"Your organization has exceeded its monthly token limit"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Daily token limit exceeded for your plan"}}`, false, 0, 0, ""},
		{503, `{"error":{"message":"The model is overloaded, please try again later"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Invalid token: token expired, maximum age exceeded"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"tool name exceeds maximum length of 64 characters"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Request headers too large"}}`, false, 0, 0, ""},
		{431, `Request Header Fields Too Large`, false, 0, 0, ""},
		{414, `URI Too Long`, false, 0, 0, ""},
		{400, `{"error":{"message":"The file is too large: 40 MB, max 32 MB"}}`, false, 0, 0, ""},
		{413, `{"message":"Request size limit exceeded"}`, false, 0, 0, ""},
		{413, `{"message":"Request Too Long"}`, false, 0, 0, ""},
		{400, `{"error":{"message":"The long context beta is not yet available for this subscription."}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"prompt_cache_key too long: maximum length 64"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Expected maxLength: 2048, actual: 23000, please reformat your input and try again."}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Tool call arguments exceed the maximum size"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"The number of requests exceeds the limit of 10 concurrent requests"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Input should be less than or equal to 2 for temperature"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"top_logprobs must be less than 20"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"logit_bias: token id 200000 exceeds vocabulary of model (128000)"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"response ended: max output tokens reached for this request"}}`, false, 0, 0, ""},
		{504, `upstream request timeout`, false, 0, 0, ""},
		{400, `{"error":{"message":"Image token count exceeds limit: too many images"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"unexpected tool_use_id found in tool_result blocks: toolu_1. Each tool_result block must have a corresponding tool_use block in the previous message."}}`, false, 0, 0, ""},
		{409, `{"error":{"message":"conversation is locked"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Error from provider: {\"error\":{\"message\":\"This model's maximum context length is 4096 tokens. However, you requested 5060 tokens (4036 in the messages, 1024 in the completion).\",\"code\":400}}"}}`, true, 4096, 4036, ""},
		{502, `{"error":{"message":"Upstream error: 400 Bad Request: prompt is too long: 203501 tokens > 200000 maximum"}}`, true, 200000, 203501, ""},
		{400, `{"code":400,"msg":"input tokens exceed the limit","data":null}`, true, 0, 0, ""},
		{400, `{"errors":["prompt is too long: 203501 tokens > 200000 maximum"]}`, true, 200000, 203501, ""},
		{400, `{"detail":"This model's maximum context length is 4096 tokens, but 5000 were given."}`, true, 4096, 5000, ""},
		{400, `{"error":{"message":["prompt is too long: 203501 tokens > 200000 maximum"]}}`, true, 200000, 203501, ""},
		{400, `"prompt is too long: 203501 tokens > 200000 maximum"`, true, 200000, 203501, ""},
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens, however you requested 9000 tokens (8000 in your prompt; 1000 for the completion). Please reduce your prompt; or completion length.","code":"context_length_exceeded"}}`, true, 8192, 8000, ""},
		{400, `{"error":{"code":"ContextLengthExceeded","message":"no"}}`, true, 0, 0, ""},
		{400, `{"error":{"code":"context-length-exceeded","message":"no"}}`, true, 0, 0, ""},
		{400, `{"error":{"type":"context_length_error","message":"no"}}`, true, 0, 0, ""},
		{400, `{"error":{"type":"input_too_long"}}`, true, 0, 0, ""},
		{400, `{"error":{"code":"max_tokens_exceeded","message":"max_tokens exceeds the maximum"}}`, false, 0, 0, "invalid_request"},
		{400, `{"error":{"code":"max_input_tokens_exceeded","message":"no"}}`, true, 0, 0, ""},
		{413, `{"error":{"code":"context_length_exceeded","message":"Request too large"}}`, true, 0, 0, ""},
		{413, `{"error":{"message":"This request is too large: 8.4MB exceeds 4.5MB"}}`, false, 0, 0, "payload_too_large"},
		{413, `FUNCTION_PAYLOAD_TOO_LARGE`, false, 0, 0, "payload_too_large"},
		{413, `{"message":"Request Too Long"}`, false, 0, 0, "payload_too_large"},
		{400, `{"error":{"message":"Invalid request: http: request body too large"}}`, false, 0, 0, "payload_too_large"},
		{400, `{"error":{"message":"Exceeded limit on max bytes per request body : 10485760"}}`, false, 0, 0, "payload_too_large"},
		{400, `{"error":{"message":"Exceeded limit on max bytes per data-uri item : 10485760"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Multimodal file size is too large"}}`, false, 0, 0, ""},
		{503, `{"error":{"message":"Service unavailable: too many tokens in queue"}}`, false, 0, 0, "other"},
		{429, `{"error":{"message":"prompt is too long: 203501 tokens > 200000 maximum"}}`, false, 0, 0, "rate_limited"},
		{400, `{"error":{"type":"rate_limit_error","message":"This request would exceed the rate limit for your organization of 80,000 input tokens per minute"}}`, false, 0, 0, "rate_limited"},
		{400, `{"error":{"message":"Token usage limit reached: 5-hour window"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"You have hit your usage limit"}}`, false, 0, 0, ""},
		{429, `{"error":{"code":"1302","message":"您当前使用该API的并发数过高，请降低并发"}}`, false, 0, 0, "rate_limited"},
		{429, `{"error":{"code":"1113","message":"您的账户已欠费，请充值后重试"}}`, false, 0, 0, "rate_limited"},
		{400, `{"error":{"message":"Token rate limit exceeded: limit 90000/min. Current: 89000/min"}}`, false, 0, 0, "rate_limited"},
		{400, `{"error":{"message":"tokens_per_minute limit exceeded: 8000 requested, 6000 available"}}`, false, 0, 0, "rate_limited"},
		{413, `{"error":{"message":"Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 7000"}}`, false, 0, 0, "rate_limited"},
		{400, `{"error":{"message":"Requested tokens (9000) exceed your remaining budget (100)"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"Organization has exceeded its maximum number of input tokens for today"}}`, false, 0, 0, ""},
		{403, `{"error":{"message":"request rejected by the WAF: body exceeds 8 KB"}}`, false, 0, 0, ""},
		{400, `{"error":{"message":"messages: roles must alternate between user and assistant"}}`, false, 0, 0, "invalid_request"},
		{400, `{"error":{"message":"Invalid parameter: context_length must be an integer"}}`, false, 0, 0, "invalid_request"},
		{400, `{"error":{"message":"Unknown parameter: max_context_tokens"}}`, false, 0, 0, "invalid_request"},
		{400, `{"error":{"message":"function call arguments too long"}}`, false, 0, 0, "invalid_request"},
		{404, `{"error":{"message":"model with context window 8192 not found"}}`, false, 0, 0, "invalid_request"},
		{500, `{"error":{"message":"context canceled while reading prompt"}}`, false, 0, 0, "other"},
		{200, `{"id":"x","choices":[{"message":{"content":"hi","error":"maximum context length exceeded"},"finish_reason":"stop"}]}`, false, 0, 0, ""},
		{200, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, false, 0, 0, "other"},
		{0, `POST "https://api.anthropic.com/v1/messages": 400 Bad Request (Request-ID: req_0) {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 203501 tokens > 200000 maximum"},"request_id":"req_0"}`, true, 200000, 203501, ""},
		{0, `error, status code: 429, status: 429 Too Many Requests, message: maximum context length is 8192 tokens`, false, 0, 0, "rate_limited"},
		{0, `error, status code: 400, status: 400 Bad Request, message: This model's maximum context length is 8192 tokens. However, your messages resulted in 8710 tokens.`, true, 8192, 8710, ""},
		{0, `googleapi: Error 400: The input token count (1189240) exceeds the maximum number of tokens allowed (1048576)., badRequest`, true, 1048576, 1189240, ""},
		{0, `rpc error: code = InvalidArgument desc = The input token count (1189240) exceeds the maximum number of tokens allowed (1048576).`, true, 1048576, 1189240, ""},
		{0, `Error 429, Message: Resource has been exhausted (e.g. check quota)., Status: RESOURCE_EXHAUSTED`, false, 0, 0, "rate_limited"},
		{400, `{"error":{"message":"input length and max_tokens exceed context limit: 198,240 + 4,096 > 200,000"}}`, true, 200000, 198240, ""},
		{400, `{"error":{"message":"The prompt is 203501 tokens, but the maximum is 200000."}}`, true, 200000, 203501, ""},
		{400, `{"error":{"message":"Please reduce the size of your input. Input size: 9000 tokens. Max: 8192 tokens"}}`, true, 8192, 9000, ""},
		{400, `{"message":"Validation error: input exceeds maximum token limit of 8192"}`, true, 8192, 0, ""},
		{400, `{"message":"Sequence length 9000 exceeds maximum 8192"}`, true, 8192, 9000, ""},
		{400, `{"message":"Prompt (9000 tokens) won't fit in the 8192-token window"}`, true, 8192, 9000, ""},
		{422, `{"error":"Input validation error: inputs tokens + max_new_tokens must be <= 8192. Given: 9000 inputs tokens and 100 max_new_tokens","error_type":"validation"}`, true, 8192, 9000, ""},
		{424, `{"error":"Request failed during generation: Server error: prompt too long"}`, true, 0, 0, ""},
		{400, `{"error":{"message":"The total number of tokens (9000) in the input and max_tokens exceeds the model's context length (8192)."}}`, true, 8192, 9000, ""},
	})
}

type variation struct {
	st       int
	s        string
	ov       bool
	lim, act int
	class    Class // coarse; "": not looked at
}

func checkVariations(t *testing.T, list []variation) {
	t.Helper()
	for _, c := range list {
		r := ClassifyResponse(c.st, []byte(c.s))
		assert.Equal(t, c.ov, r.Overflow, "%s: rule %q", c.s, r.Rule)
		if c.class != "" {
			assert.Equal(t, c.class, r.Coarse(), "class of %s: rule %q", c.s, r.Rule)
		}
		assert.Equal(t, c.lim, r.Limit, "limit of %s", c.s)
		assert.Equal(t, c.act, r.Actual, "actual of %s", c.s)
		limited := ClassifyResponse(429, []byte(c.s))
		assert.False(t, limited.Overflow, "under 429: %s", c.s)
		if c.st >= 200 && c.st < 300 || c.st == 402 || c.st == 429 {
			continue // the status decides
		}
		// The same as the text of an error, wrapped and joined.
		text := Classify(fmt.Errorf("call: %w", errors.Join(errors.New("closed"), errors.New(c.s))))
		assert.Equal(t, c.ov, text.Overflow, "as text: %s: rule %q", c.s, text.Rule)
	}
}
