package overflow

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// example shows what a row is for: what it must match, and what is near to it
// and must not. For rows about codes they are codes, for rows about text texts;
// a row about both is shown by its text.
type example struct{ hit, miss string }

var examples = map[string]example{
	"rate.grpc-size":            {"grpc: received message larger than max (5 vs. 4)", "larger than the maximum context length"},
	"rate.code":                 {"rate_limit_exceeded", "context_length_exceeded"},
	"rate.phrase":               {"Rate limit reached for model-a", "the limit was reached"},
	"rate.per-time":             {"rate of 40,000 input tokens per minute", "the number of tokens per prompt"},
	"rate.wait":                 {"Too many tokens, please wait before trying again.", "please shorten and try again"},
	"rate.metric":               {"Quota exceeded for metric: x_input_token_count", "limit exceeded for prompt"},
	"rate.chinese":              {"您当前使用该API的频率过高", "输入过长"},
	"quota.code":                {"insufficient_quota", "token_quota_info"},
	"quota.text":                {"You exceeded your current quota", "exceeded the token limit"},
	"content.code":              {"content_filter", "content_too_long"},
	"content.text":              {"triggering the content management policy", "the content is too long"},
	"other.reply":               {"max_tokens is too large: 32000", "input length and max_tokens exceed context limit"},
	"other.reply-bedrock":       {"#/maxTokens: 8192 is not less or equal to 8191", "#/messages: 8192 is not less or equal to 100"},
	"other.reply-groq":          {"the maximum value for max_tokens is less than the context_window", "the prompt is less than the context_window"},
	"other.reply-of-model":      {"max tokens must be at most 4096, the maximum output for this model", "the maximum prompt plus maximum output for this model"},
	"other.reply-parameter":     {"Range of max_tokens should be [1, 8192]", "Range of input length should be [1, 8192]"},
	"other.reply-unfinished":    {"Could not finish the message because max_tokens or", "could not finish the message because of the context"},
	"other.string":              {"string too long. Expected a string with maximum length 64", "prompt too long"},
	"other.string-characters":   {"exceeds the limit of 5000 characters", "exceeds the limit of 5000 tokens"},
	"other.media":               {"At least one of the image dimensions exceed max allowed size", "tokens of text and pictures exceed"},
	"other.bytes":               {"413 Request Entity Too Large", "Request body too large for m model. Max size: 8000 tokens."},
	"other.bytes-number":        {"exceeds the limit: 20971520 bytes", "exceeds the limit: 20971520 tokens"},
	"other.media-bytes":         {"image exceeds 5 MB maximum", "prompt exceeds the maximum"},
	"other.pairing":             {"tool_use ids were found without tool_result blocks", "too many tool definitions"},
	"code.context":              {"context_length_exceeded", "context_canceled"},
	"code.exceed-context":       {"exceed_context_size_error", "exceeded_current_quota_error"},
	"code.prompt-tokens":        {"model_max_prompt_tokens_exceeded", "prompt_tokens_details"},
	"code.token-limit":          {"tokens_limit_reached", "daily_token_limit_exceeded"},
	"code.too-long":             {"prompt_too_long", "string_too_long"},
	"code.z.ai-1261":            {"1261", "1210"},
	"text.max-context":          {"This model's maximum context length is 1024 tokens", "maximum number of retries exceeded"},
	"text.exceeds-context":      {"Your input exceeds the context window of this model", "context deadline exceeded"},
	"text.context-exceeded":     {"context window exceeds limit (2013)", "context deadline exceeded"},
	"text.reached-context":      {"Reached context length of 4096 tokens", "reached the end of the file"},
	"text.too-long":             {"prompt is too long: 9 tokens > 8 maximum", "input is too long for this field"},
	"text.too-long-model":       {"Request is too large for the selected model", "Request is too large"},
	"text.body-tokens":          {"Request body too large for m model. Max size: 8000 tokens.", "Request body too large. Max size: 8000 bytes."},
	"text.tokens-exceed":        {"prompt token count of 9 exceeds the limit of 8", "your access token exceeds its lifetime"},
	"text.must-have-less":       {"`inputs` must have less than 1024 tokens", "names must have less than 64 letters"},
	"text.states-both":          {"Prompt has 9 tokens, but the configured context size is 8 tokens", "Prompt has 9 tokens"},
	"text.states-both-reversed": {"The model's context length is 8 tokens, but the request has 9 tokens", "context length: 8 tokens"},
	"text.compare-context":      {"Prompt size 9000 > model context size 8192", "9000 > 8192"},
	"text.states-max":           {"The prompt is 9 tokens, but the maximum is 8", "The prompt is 9 tokens, but short"},
	"text.no-fit":               {"Prompt (9 tokens) won't fit in the 8-token window", "the image does not fit into the frame"},
	"text.supports-context":     {"k3 supports only 256K context.", "supports only text content"},
	"text.prompt-exceeds":       {"Prompt exceeds max length", "prompt exceeds 100 bytes"},
	"text.token-limit":          {"Your request exceeded model token limit: 8192", "exceeded the retry limit"},
	"text.reduce":               {"Please reduce the length of the messages or completion.", "please reduce the temperature"},
	"text.input-range":          {"Range of input length should be [1, 204800]", "Range of max_tokens should be [1, 8192]"},
	"text.too-many-tokens":      {"Too many input tokens.", "Too many tokens, please wait"},
	"text.n-keep":               {"Cannot truncate prompt with n_keep (9) >= n_ctx (8)", "n_keep (9) is set"},
	"text.room-left":            {"max_seq_len (2048) - splited_prompt_len (2053)", "max_seq_len (2048)"},
	"text.window-sum":           {"'max_tokens' is too large: 5. The maximum context length is 8 tokens and your request has 4 input tokens", "max_tokens is too large: 5"},
	"text.chinese":              {"输入内容超过模型的最大上下文长度", "图片超过大小"},
	"text.exceeds-tokens":       {"The total length of input and output exceeds 8192 tokens", "requests above 10 per user"},
	"text.tokens-compare":       {"total tokens in request (205000) > max (200000)", "max_tokens: 200000 > 64000, the most of output tokens for the request"},
	"text.japanese":             {"入力トークン数がモデルの最大コンテキスト長を超えています", "画像の入力サイズが上限を超えています"},
	"text.korean":               {"입력이 모델의 최대 컨텍스트 길이를 초과했습니다", "분당 토큰 한도를 초과했습니다"},
	"text.european":             {"Die Eingabe überschreitet die maximale Kontextlänge von 32.768 Token.", "Die Kontextlänge ist 32.768 Token."},
	"finish.window":             {"model_context_window_exceeded", "length"},
	"finish.mistral":            {"model_length", "length"},
	"finish.cohere":             {"ERROR_LIMIT", "ERROR_TOXIC"},
	"rest.bytes-code":           {"request_too_large", "request_timeout"},
	"rest.bytes-text":           {"Request too large", "Request too slow"},
	"rest.auth":                 {"Incorrect API key provided", "the key of the object is missing"},
	"rest.server":               {"Overloaded", "loaded"},
	"rest.invalid":              {"invalid_request_error", "valid_request"},

	"num.output-generation":   {"Requested generation length 4096 is not possible", "the generation length"},
	"num.total-sequence":      {"requires a sequence length of 18096", "a sequence length of 18096"},
	"num.over":                {"exceeded by 812 tokens", "exceeded by 812 bytes"},
	"num.output-window-input": {"(5000 > 8192 - 4000)", "5000 > 8192"},
	"num.window-minus-prompt": {"max_seq_len (2048) - splited_prompt_len (2053)", "max_seq_len (2048)"},
	"num.compare":             {"188240 + 21333 > 200000", "188240 + 21333"},
	"num.total-both":          {"input and maximum output tokens (7200)", "maximum output tokens (7200)"},
	"num.ratio":               {"150000/131072 tokens", "11/30 messages"},
	"num.compare-words":       {"(9000) + max_tokens (1000) > context window (8192)", "(9000) and context window (8192)"},
	"num.pair":                {"input tokens (9000) exceed the limit (8192)", "context window exceeds limit (2013)"},
	"num.chinese":             {"输入token数9000超过最大限制8192", "输入token数9000"},
	"num.window-context":      {"max context 8192", "context exceeded (2013)"},
	"num.exceeds":             {"exceeds the 200k token context window", "exceeds the 5 MB limit"},
	"num.window-european":     {"la fenêtre de contexte est de 32768 jetons", "la fenêtre de contexte"},
	"num.window-before":       {"the 8192-token window", "8192 tokens"},
	"num.input-given":         {"but 5000 were given", "5000 are allowed"},
	"num.range":               {"input length should be [1, 204800]", "max_tokens should be [1, 8192]"},
	"num.max-input":           {"a maximum input length of 99072 tokens", "a maximum context length of 131072 tokens"},
	"num.supports":            {"only supports up to 1048576", "supports 5 languages"},
	"num.window-of":           {"model with 32768 maximum context length", "32768 tokens"},
	"num.window":              {"the available context size (40960 tokens)", "context window exceeds limit (2013)"},
	"num.window-n-ctx":        {"n_ctx (4096)", "n_keep (4096)"},
	"num.output-of":           {"4096 in the completion", "4096 in the messages"},
	"num.output-tokens":       {"requested 32000 output tokens", "requested 32000 input tokens"},
	"num.output-param":        {"max_tokens is too large: 5000", "the maximum is 5000"},
	"num.output-max-new":      {"the requested max new tokens (512)", "max input tokens (512)"},
	"num.part":                {"150889 of text input", "32000 in the output"},
	"num.limit-less":          {"must have less than 1024 tokens", "more than 1024 tokens"},
	"num.limit-le":            {"must be <= 4097", "must be 4097"},
	"num.allowed":             {"the maximum number of tokens allowed (1048576)", "not allowed (see 4.2)"},
	"num.limit":               {"exceeds the limit of 90000", "context window exceeds limit (2013)"},
	"num.max":                 {"Max size: 4000 tokens", "exceeds maximum (2013)."},
	"num.max-behind":          {"200000 maximum", "200000 tokens"},
	"num.input-tokens":        {"contains at least 262145 input tokens", "262145 output tokens"},
	"num.input":               {"The input (61709 tokens) is longer", "the output (61709 tokens)"},
	"num.input-requested":     {"(requested: 269030)", "(limit: 269030)"},
	"num.input-keep":          {"Trying to keep the first 111490 tokens", "drop the first 111490 tokens"},
	"num.input-current":       {"Current length is 42328", "limit is 40000"},
	"num.total":               {"answering your request will take 17001 tokens", "for at least 262145"},
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range table {
		t.Run(r.name, func(t *testing.T) {
			require.False(t, seen[r.name], "two rows of one name")
			seen[r.name] = true
			ex, ok := examples[r.name]
			require.True(t, ok, "a row without an example")
			require.NotEmpty(t, r.source)
			require.True(t, r.code != "" || r.text != "")
			if r.text != "" {
				assert.NotRegexp(t, `(?:^|[^\\P])[A-Z]`, strings.ReplaceAll(r.text, "(?P<", ""), "text is matched in lower case")
				assert.True(t, r.matchText(normalize(ex.hit)) || r.matchCode(squash(ex.hit)), "must match %q", ex.hit)
				assert.False(t, r.matchText(normalize(ex.miss)), "must not match %q", ex.miss)
				return
			}
			assert.True(t, r.matchCode(squash(ex.hit)), "must match %q", ex.hit)
			assert.False(t, r.matchCode(squash(ex.miss)), "must not match %q", ex.miss)
		})
	}
	assert.Len(t, examples, len(table), "an example without a row")
}

// TestVerdictOfExamples runs the example of every row through the whole order.
func TestVerdictOfExamples(t *testing.T) {
	for _, r := range table {
		ex := examples[r.name]
		switch r.stage {
		case stageText, stageLookalike:
			assert.Equal(t, r.stage == stageText, ClassifyResponse(400, []byte(ex.hit)).Overflow, "%s: %q", r.name, ex.hit)
		case stageCode:
			body := `{"error":{"code":"` + ex.hit + `","message":"refused"}}`
			assert.True(t, ClassifyResponse(400, []byte(body)).Overflow, "%s: %q", r.name, ex.hit)
			assert.False(t, ClassifyResponse(429, []byte(body)).Overflow, "%s: %q", r.name, ex.hit)
		case stageRate, stageQuota, stageContent, stageRest:
			assert.False(t, ClassifyResponse(400, []byte(ex.hit)).Overflow, "%s: %q", r.name, ex.hit)
		case stageFinish:
			assert.True(t, ClassifyFinish(ex.hit, Usage{}).Overflow)
			assert.False(t, ClassifyFinish(ex.miss, Usage{}).Overflow)
		}
	}
}
