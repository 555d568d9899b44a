package overflow

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func requestError(s shape) error {
	return &openai.RequestError{HTTPStatusCode: s.Status, HTTPStatus: http.StatusText(s.Status),
		Err: errors.New("invalid character"), Body: s.raw()}
}

// lookalikeOpenAI has the exported surface of openai-go's apierror.Error.
type lookalikeOpenAI struct {
	Code, Message, Param, Type string
	JSON                       struct{ raw string }
	StatusCode                 int
	Request                    *http.Request
	Response                   *http.Response
}

func (e lookalikeOpenAI) RawJSON() string { return e.JSON.raw }
func (e *lookalikeOpenAI) Error() string {
	return fmt.Sprintf("%s %q: %d %s %s", e.Request.Method, e.Request.URL, e.Response.StatusCode,
		http.StatusText(e.Response.StatusCode), e.JSON.raw)
}

func openaiGoError(s shape) error {
	e := &lookalikeOpenAI{StatusCode: s.Status}
	e.JSON.raw = string(s.raw())
	e.Request = httptest.NewRequest(http.MethodPost, "https://api.openai.com/v1/chat/completions", nil)
	e.Response = &http.Response{StatusCode: s.Status, Header: http.Header{}}
	return e
}

// lookalikeAnthropic has the exported surface of anthropic-sdk-go's apierror.Error.
type lookalikeAnthropic struct {
	JSON       struct{ raw string }
	StatusCode int
	Request    *http.Request
	Response   *http.Response
	RequestID  string
}

func (e lookalikeAnthropic) RawJSON() string { return e.JSON.raw }
func (e *lookalikeAnthropic) Error() string {
	return fmt.Sprintf("%s %q: %d %s", e.Request.Method, e.Request.URL, e.Response.StatusCode, e.JSON.raw)
}
func (e *lookalikeAnthropic) DumpResponse(body bool) []byte {
	out, _ := httputil.DumpResponse(e.Response, body)
	return out
}

// anthropicError leaves the raw JSON empty, so that the body is found in the dump.
func anthropicError(s shape) error {
	e := &lookalikeAnthropic{StatusCode: s.Status, RequestID: "req-0"}
	e.Request = httptest.NewRequest(http.MethodPost, "https://api.anthropic.com/v1/messages", nil)
	head := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\nRetry-After: 7\r\n\r\n", s.Status, len(s.raw()))
	var err error
	e.Response, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(append([]byte(head), s.raw()...))), nil)
	if err != nil {
		panic(err)
	}
	return e
}

const longMessage = "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens (8001 in the messages, 1000 in the completion). Please reduce the length of the messages or completion."

func apiError() *openai.APIError {
	return &openai.APIError{HTTPStatusCode: 400, Code: "context_length_exceeded", Type: "invalid_request_error", Message: longMessage}
}

func TestGoOpenAI(t *testing.T) {
	want := func(t *testing.T, r Result) {
		t.Helper()
		require.True(t, r.Overflow)
		assert.Equal(t, 8192, r.Limit)
		assert.Equal(t, 8001, r.Actual)
		assert.Equal(t, 1000, r.RequestedOutput)
		assert.Equal(t, 400, r.Status)
	}
	t.Run("bare", func(t *testing.T) { want(t, Classify(apiError())) })
	t.Run("wrapped", func(t *testing.T) {
		err := error(apiError())
		for i := range 40 {
			err = fmt.Errorf("layer %d: %w", i, err)
		}
		want(t, Classify(err))
	})
	t.Run("joined", func(t *testing.T) {
		err := errors.Join(errors.New("first try failed"), fmt.Errorf("x: %w", errors.Join(io(), apiError())))
		want(t, Classify(fmt.Errorf("outer: %w", err)))
		assert.True(t, Is(err))
	})
	t.Run("joined by format", func(t *testing.T) { want(t, Classify(fmt.Errorf("%w and %w", io(), apiError()))) })
	t.Run("code only", func(t *testing.T) {
		r := Classify(&openai.APIError{HTTPStatusCode: 400, Code: "context_length_exceeded"})
		assert.True(t, r.Overflow)
		assert.Zero(t, r.Limit)
	})
	t.Run("in a stream the status is missing", func(t *testing.T) {
		e := apiError()
		e.HTTPStatusCode = 0
		assert.True(t, Is(fmt.Errorf("error, %w", e)))
	})
	t.Run("numeric code", func(t *testing.T) {
		r := Classify(&openai.APIError{HTTPStatusCode: 400, Code: 2013, Message: "invalid params, context window exceeds limit (2013)"})
		assert.True(t, r.Overflow)
		assert.Zero(t, r.Limit)
	})
	t.Run("decoded by the library", func(t *testing.T) {
		var e openai.ErrorResponse
		require.NoError(t, json.Unmarshal([]byte(`{"error":{"message":"prompt is too long: 203501 tokens > 200000 maximum","code":400}}`), &e))
		r := Classify(e.Error)
		assert.True(t, r.Overflow)
		assert.Equal(t, 200000, r.Limit)
		assert.Equal(t, 203501, r.Actual)
	})
	t.Run("a real client against a real server", func(t *testing.T) {
		for body, overflow := range map[string]bool{
			`{"error":{"message":"` + longMessage + `","code":null}}`:             true,
			`{"object":"error","message":"` + longMessage + `"}`:                  true,
			`{"error":"the request exceeds the available context size"}`:          true,
			`<html><title>413 Request Entity Too Large</title></html>`:            false,
			`{"error":{"message":"Unsupported value: 'temperature'","code":"x"}}`: false,
		} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				_, _ = w.Write([]byte(body))
			}))
			cfg := openai.DefaultConfig("none")
			cfg.BaseURL = srv.URL
			_, err := openai.NewClientWithConfig(cfg).CreateChatCompletion(context.Background(), openai.ChatCompletionRequest{Model: "m"})
			srv.Close()
			require.Error(t, err)
			assert.Equal(t, overflow, Is(err), "%v", err)
		}
	})
	t.Run("rate limit", func(t *testing.T) {
		r := Classify(&openai.APIError{HTTPStatusCode: 429, Code: "context_length_exceeded", Message: longMessage})
		assert.False(t, r.Overflow)
		assert.Equal(t, ClassRateLimited, r.Class)
		assert.Zero(t, r.Limit)
	})
}

func io() error { return errors.New("connection reset by peer") }

func TestOtherClients(t *testing.T) {
	s := shape{Status: 400, Body: json.RawMessage(`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 203501 tokens > 200000 maximum"}}`)}
	for name, err := range map[string]error{"openai-go": openaiGoError(s), "anthropic-sdk-go": anthropicError(s)} {
		t.Run(name, func(t *testing.T) {
			r := Classify(fmt.Errorf("call: %w", err))
			assert.True(t, r.Overflow)
			assert.Equal(t, 200000, r.Limit)
			assert.Equal(t, 203501, r.Actual)
			assert.Equal(t, 400, r.Status)
		})
	}
	assert.Equal(t, "anthropic", Classify(anthropicError(s)).Provider)
	assert.Equal(t, 7*time.Second, Classify(anthropicError(s)).RetryAfter)
	t.Run("half filled", func(t *testing.T) {
		assert.NotPanics(t, func() { Classify(&lookalikeOpenAI{}) })
		assert.NotPanics(t, func() { Classify(&lookalikeAnthropic{}) })
		assert.NotPanics(t, func() { Classify((*openai.APIError)(nil)) })
	})
	t.Run("no body", func(t *testing.T) {
		e := openaiGoError(shape{Status: 413, Body: json.RawMessage("null")}).(*lookalikeOpenAI)
		assert.Equal(t, ClassPayloadTooLarge, Classify(e).Class)
		e.Request = httptest.NewRequest(http.MethodPost, "https://api.cerebras.ai/v1/chat/completions", nil)
		assert.True(t, Is(e), "the host tells the provider")
		assert.True(t, Classify(openaiGoError(shape{Status: 413, Body: json.RawMessage("null")}), WithProvider("Cerebras")).Overflow)
	})
}

func TestPlainErrors(t *testing.T) {
	assert.Equal(t, Result{}, Classify(nil))
	assert.False(t, Is(nil))
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, fmt.Errorf("model call: %w", context.Canceled)} {
		r := Classify(err)
		assert.False(t, r.Overflow)
		assert.Equal(t, ClassCanceled, r.Class)
		assert.Equal(t, ClassOther, r.Coarse())
	}
	assert.True(t, Is(errors.New("prompt is too long: 203501 tokens > 200000 maximum")))
	assert.True(t, Is(errors.New(`litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException`)))
	for _, text := range []string{"", "connection refused", "EOF", "context deadline exceeded", "context canceled",
		"read tcp: i/o timeout", "unexpected end of JSON input", "stack overflow", "integer overflow",
		"bufio.Scanner: token too long", "summary is too long", "file name too long"} {
		assert.False(t, Is(errors.New(text)), text)
	}
	t.Run("python text of a client", func(t *testing.T) {
		r := Classify(errors.New(`Error code: 400 - {'error': {'message': "This model's maximum context length is 8192 tokens. However, your messages resulted in 8710 tokens.", 'code': 'context_length_exceeded'}}`))
		assert.True(t, r.Overflow)
		assert.Equal(t, 8192, r.Limit)
		assert.Equal(t, 8710, r.Actual)
		r = Classify(errors.New(`Error code: 429 - {'error': {'message': 'Request too large for m on tokens per min (TPM): Limit 30000, Requested 30601.'}}`))
		assert.Equal(t, ClassRateLimited, r.Class)
	})
}

func TestJoinOrder(t *testing.T) {
	limited := &openai.APIError{HTTPStatusCode: 429, Message: "Rate limit reached. Please try again in 3.5s."}
	assert.True(t, Is(errors.Join(limited, apiError())), "the overflow comes back whatever one waits for")
	r := Classify(errors.Join(errors.New("first"), limited, context.Canceled))
	assert.Equal(t, ClassRateLimited, r.Class)
	assert.Equal(t, 3500*time.Millisecond, r.RetryAfter)
}

func TestWrap(t *testing.T) {
	assert.NoError(t, Wrap(nil))
	other := errors.New("no")
	assert.Same(t, other, Wrap(other))
	err := Wrap(fmt.Errorf("call: %w", apiError()))
	var own *Error
	require.ErrorAs(t, err, &own)
	assert.ErrorIs(t, err, ErrOverflow)
	assert.Equal(t, 8192, own.Result.Limit)
	var api *openai.APIError
	assert.ErrorAs(t, err, &api)
	assert.Contains(t, err.Error(), "8001 tokens, limit 8192")
	again := fmt.Errorf("outer: %w", err)
	assert.Equal(t, again, Wrap(again))
	assert.Equal(t, own.Result, Classify(again))
	assert.Equal(t, "context window exceeded: limit 5 tokens", (&Error{Result: Result{Overflow: true, Limit: 5}}).Error())
}

func TestLearnedWindow(t *testing.T) {
	for _, c := range []struct {
		r         Result
		believed  int
		want      int
		wantFound bool
	}{
		{Result{Overflow: true, Limit: 8192}, 100000, 8192, true},
		{Result{Overflow: true, Limit: 8192}, 0, 8192, true},
		{Result{Overflow: true, Limit: 262144}, 100000, 100000, false},
		{Result{Overflow: true, Limit: 8192}, 8192, 8192, false},
		{Result{Overflow: true}, 100000, 100000, false},
		{Result{Limit: 8192}, 100000, 100000, false},
	} {
		got, found := c.r.LearnedWindow(c.believed)
		assert.Equal(t, c.want, got)
		assert.Equal(t, c.wantFound, found)
	}
}

// TestOrder pins what decides where two things are said at once.
func TestOrder(t *testing.T) {
	const long = "prompt is too long: 9 tokens > 8 maximum"
	for _, c := range []struct {
		name   string
		status int
		body   string
		class  Class
	}{
		{"a 429 before all", 429, long, ClassRateLimited},
		{"a 429 inside a 500", 500, `{"error":{"code":429,"message":"` + long + `"}}`, ClassRateLimited},
		{"money before text", 402, long, ClassQuota},
		{"a rate limit's text before a code", 400, `{"error":{"code":"context_length_exceeded","message":"tokens per minute"}}`, ClassRateLimited},
		{"a code before a look-alike's text", 400, `{"error":{"code":"context_length_exceeded","message":"max_tokens is too large: 5"}}`, ClassOverflow},
		{"a code before the status", 413, `{"error":{"code":"token_limit_exceeded","message":"no"}}`, ClassOverflow},
		{"text before a code about bytes", 413, `{"error":{"type":"request_too_large","message":"` + long + `"}}`, ClassOverflow},
		{"text before an auth status", 401, long, ClassOverflow},
		{"text before a server status", 503, long, ClassOverflow},
		{"the status where nothing else speaks", 413, "no", ClassPayloadTooLarge},
		{"an echo of the request is not read", 400, `{"error":{"message":"no"},"input":[{"message":"` + long + `"}],"request":{"error":"` + long + `"}}`, ClassInvalidRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ClassifyResponse(c.status, []byte(c.body))
			assert.Equal(t, c.class, r.Class, "rule %q", r.Rule)
			assert.Equal(t, c.class == ClassOverflow, r.Overflow)
		})
	}
}

// TestAnyDepth: an answer is found below thousands of wrappers, each of which
// hides what it wraps from its own text.
func TestAnyDepth(t *testing.T) {
	deep := error(apiError())
	for range 5000 {
		deep = silent{deep}
	}
	deep = errors.Join(errors.New("closed"), fmt.Errorf("step: %w", deep))
	r := Classify(deep)
	assert.True(t, r.Overflow)
	assert.Equal(t, 8192, r.Limit)
	assert.True(t, Is(deep))
	var loop loop
	loop.self = &loop
	assert.False(t, Classify(&loop).Overflow, "and a circle ends")
}

type silent struct{ error }

func (silent) Error() string   { return "failed" }
func (s silent) Unwrap() error { return s.error }

type loop struct{ self error }

func (*loop) Error() string   { return "around" }
func (l *loop) Unwrap() error { return l.self }
