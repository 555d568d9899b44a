package overflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
)

// sane holds for every answer to any input.
func sane(t *testing.T, r Result) {
	t.Helper()
	if r.Limit < 0 || r.Actual < 0 || r.OverBy < 0 || r.RequestedOutput < 0 || r.ByteLimit < 0 || r.ByteActual < 0 || r.RetryAfter < 0 {
		t.Fatalf("a negative number: %+v", r)
	}
	if !r.Overflow && (r.Limit != 0 || r.Actual != 0 || r.OverBy != 0 || r.HasRequestedOutput) {
		t.Fatalf("numbers without an overflow: %+v", r)
	}
	if r.Overflow != (r.Class == ClassOverflow) || r.Overflow != (r.Kind == KindTokens) {
		t.Fatalf("class, kind and verdict disagree: %+v", r)
	}
	if len(r.Message) > messageCap {
		t.Fatalf("a long message: %d", len(r.Message))
	}
	if w, ok := r.LearnedWindow(1000); ok && (w <= 0 || w >= 1000) {
		t.Fatalf("a window that grew: %d", w)
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range loadShapes(f) {
		f.Add(s.Status, s.raw())
	}
	f.Add(400, []byte(strings.Repeat(`{"error":`, 500)))
	f.Add(0, []byte("\xff\xfe{\"message\":\"\xff"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		sane(t, ClassifyResponse(status, body))
		sane(t, ClassifyStream(body))
		sane(t, Classify(errors.New(string(body))))
		sane(t, Classify(&openai.RequestError{HTTPStatusCode: status, Body: body, Err: errors.New("x")}))
		sane(t, Classify(&openai.APIError{HTTPStatusCode: status, Code: string(body), Message: string(body)}))
		sane(t, ClassifyFinish(string(body), Usage{Input: status, Window: len(body)}))
		for _, r := range []Result{
			ClassifyResponse(429, body), ClassifyResponse(429, body, WithProvider("cerebras")),
			Classify(&openai.RequestError{HTTPStatusCode: 429, Body: body, Err: errors.New("x")}),
			Classify(&openai.APIError{HTTPStatusCode: 429, Code: string(body), Message: string(body)}),
		} {
			sane(t, r)
			if r.Overflow {
				t.Fatalf("a 429 became an overflow: %+v", r)
			}
		}
	})
}

// hostile are bodies that make careless readers slow or recursive.
func hostile() map[string][]byte {
	const n = 4 << 20
	return map[string][]byte{
		"brackets":       bytes.Repeat([]byte("["), n),
		"objects":        bytes.Repeat([]byte(`{"error":`), n/9),
		"nested text":    nestedText(12),
		"digits":         bytes.Repeat([]byte("9"), n),
		"words":          bytes.Repeat([]byte("prompt tokens exceed maximum context "), n/37),
		"near misses":    bytes.Repeat([]byte("maximum "), n/8),
		"comparisons":    bytes.Repeat([]byte("1 + 1 > 1 "), n/10),
		"half objects":   bytes.Repeat([]byte(`x {"a`), n/5),
		"events":         bytes.Repeat([]byte("data: {\"error\":null}\n\n"), n/22),
		"lines":          bytes.Repeat([]byte("\n"), n),
		"invalid utf-8":  bytes.Repeat([]byte{0xff}, n),
		"one long value": append([]byte(`{"error":{"message":"`), bytes.Repeat([]byte("a "), n/2)...),
	}
}

func nestedText(depth int) []byte {
	s := "prompt is too long: 9 tokens > 8 maximum"
	for range depth {
		b, _ := json.Marshal(map[string]string{"message": s})
		s = string(b)
	}
	return []byte(s)
}

func TestHostile(t *testing.T) {
	for name, body := range hostile() {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			sane(t, ClassifyResponse(400, body))
			sane(t, ClassifyStream(body))
			sane(t, Classify(errors.New(string(body))))
			assert.Less(t, time.Since(start), 15*time.Second)
		})
	}
}

// TestTruncated finds the message in a body that was cut in the middle.
func TestTruncated(t *testing.T) {
	body := `{"error":{"message":"prompt is too long: 203501 tokens > 200000 maximum","type":"invalid_request_error","echo":[1,2`
	r := ClassifyResponse(400, []byte(body))
	assert.True(t, r.Overflow)
	assert.Equal(t, 200000, r.Limit)
}

func TestParseCount(t *testing.T) {
	for in, want := range map[string]int{
		"8192": 8192, "1,048,576": 1048576, "1_000": 1000, "128k": 128000, "1.5m": 1500000, "4096.0": 4096, "131072.": 131072,
		"0": 0, "4096,": 4096, "8192,8193": 8192, "1,2": 1,
	} {
		got, ok := parseCount(in)
		assert.True(t, ok, in)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"", ",", "k", "99999999999999999999", strings.Repeat("9", 5000), "-5", "1e309m"} {
		_, ok := parseCount(in)
		assert.False(t, ok, in)
	}
}

func TestFinish(t *testing.T) {
	assert.Equal(t, Result{}, ClassifyFinish("stop", Usage{Input: 10, Output: 5, Window: 100}))
	assert.Equal(t, Result{}, ClassifyFinish("", Usage{}))
	assert.Equal(t, KindReply, ClassifyFinish("max_tokens", Usage{Input: 10, Output: 5, Window: 100}).Kind)
	assert.Equal(t, KindReply, ClassifyFinish("MAX_TOKENS", Usage{}).Kind)
	assert.Equal(t, ClassContentPolicy, ClassifyFinish("content_filter", Usage{}).Class)
	r := ClassifyFinish("model_context_window_exceeded", Usage{Input: 99, Output: 1, Window: 100})
	assert.True(t, r.Overflow)
	assert.Equal(t, 100, r.Limit)
	assert.Equal(t, 99, r.Actual)
	assert.True(t, ClassifyFinish("contextLengthReached", Usage{}).Overflow)
	assert.True(t, ClassifyFinish("stop", Usage{Input: 101, Output: 1, Window: 100}).Overflow)
	assert.True(t, ClassifyFinish("length", Usage{Input: 1000, Window: 1000}).Overflow)
	assert.False(t, ClassifyFinish("length", Usage{Input: 1000}).Overflow)
	assert.False(t, ClassifyFinish("length", Usage{Input: 500, Window: 1000}).Overflow)
}

func TestStream(t *testing.T) {
	long := strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"prompt is too long\"}}]}\n\n", 20000)
	r := ClassifyStream([]byte(long + "data: {\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}\n\n"))
	assert.True(t, r.Overflow, "the error stands at the end of a long stream")
	assert.Equal(t, 8, r.Limit)
	assert.Equal(t, Result{Status: 200}, ClassifyStream([]byte(long)))
	assert.False(t, ClassifyStream(nil).Overflow)
	assert.True(t, ClassifyStream([]byte("error: prompt is too long: 9 tokens > 8 maximum")).Overflow, "bare text")
	limited := ClassifyStream([]byte("data: {\"error\":{\"code\":429,\"message\":\"maximum context length is 5 tokens\"}}\n\n"))
	assert.Equal(t, ClassRateLimited, limited.Class)
}

func TestRetryAfter(t *testing.T) {
	for body, want := range map[string]time.Duration{
		"Rate limit reached. Please try again in 3.5s.":                         3500 * time.Millisecond,
		"Rate limit reached. Please try again in 3m10s.":                        190 * time.Second,
		"Rate limit reached. Please try again in 20ms.":                         20 * time.Millisecond,
		"token rate limit. Please retry after 21 seconds.":                      21 * time.Second,
		`{"error":{"code":429,"message":"x","details":[{"retryDelay":"34s"}]}}`: 34 * time.Second,
		`{"error":{"message":"slow down","retry_after":2.5}}`:                   2500 * time.Millisecond,
		"Rate limit reached.":                                                   0,
	} {
		r := ClassifyResponse(429, []byte(body))
		assert.Equal(t, want, r.RetryAfter, body)
		assert.Equal(t, ClassRateLimited, r.Class, body)
	}
}

func TestProvider(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`: "anthropic",
		`{"error":{"code":400,"message":"The input token count exceeds","status":"INVALID_ARGUMENT"}}`:                   "google-gemini",
		`{"__type":"ValidationException","message":"Input is too long for requested model."}`:                            "bedrock",
		`{"error":{"type":"exceed_context_size_error","n_ctx":5}}`:                                                       "llama.cpp",
		`{"error":{"message":"no"}}`: "",
	} {
		assert.Equal(t, want, ClassifyResponse(400, []byte(body)).Provider, body)
		assert.Equal(t, "mine", ClassifyResponse(400, []byte(body), WithProvider("Mine")).Provider)
	}
}

func TestBytes(t *testing.T) {
	r := ClassifyResponse(400, []byte("Request payload size exceeds the limit: 20971520 bytes."))
	assert.Equal(t, KindBytes, r.Kind)
	assert.Equal(t, 20971520, r.ByteLimit)
	assert.Equal(t, ClassPayloadTooLarge, r.Coarse())
}

func BenchmarkClassify(b *testing.B) {
	overflow := error(apiError())
	plain := errors.New("connection reset by peer")
	limited := &openai.APIError{HTTPStatusCode: 429, Message: "Rate limit reached for m on tokens per min (TPM): Limit 3, Used 2, Requested 2."}
	for name, err := range map[string]error{"overflow": overflow, "plain": plain, "rate limit": limited} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Classify(err)
			}
		})
	}
	body := hostile()["words"]
	b.Run("hostile 4 MB", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			ClassifyResponse(400, body)
		}
	})
}
