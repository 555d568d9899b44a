package summarizetest_test

import (
	"encoding/json"
	"errors"
	"io"
	"syscall"
	"testing"

	st "github.com/agentcompact/agentcompact/summarize/summarizetest"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The server is there for clients that nobody wrote for it; go-openai is the one that we use.

func goOpenAI(t *testing.T, srv *st.Server) *openai.Client {
	config := openai.DefaultConfig("key")
	config.BaseURL = srv.URL()
	config.HTTPClient = client(t)
	return openai.NewClientWithConfig(config)
}

var hello = openai.ChatCompletionRequest{
	Model:    "some-model",
	Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: "hello"}},
}

// read collects a stream until it ends, and returns the error that ended it.
func read(t *testing.T, srv *st.Server) (text string, message openai.ChatCompletionStreamResponse, usage *openai.Usage, err error) {
	t.Helper()
	request := hello
	request.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	stream, err := goOpenAI(t, srv).CreateChatCompletionStream(soon(t), request)
	if err != nil {
		return "", message, nil, err
	}
	defer func() { _ = stream.Close() }()
	for {
		chunk, err := stream.Recv()
		if err != nil {
			return text, message, usage, err
		}
		if chunk.Usage != nil {
			usage = chunk.Usage
		}
		for _, c := range chunk.Choices {
			text += c.Delta.Content
			if c.FinishReason != "" {
				message = chunk
			}
		}
	}
}

func TestGoOpenAICompletion(t *testing.T) {
	srv := st.New(t, st.Reply{
		Content: "text", Reasoning: "because", ToolCalls: []st.ToolCall{{"c1", "ls", `{"a":1}`}},
		Usage: &st.Usage{Prompt: 5, Completion: 3, Cached: 2, Reasoning: 1},
	})
	res, err := goOpenAI(t, srv).CreateChatCompletion(soon(t), hello)
	require.NoError(t, err)
	m := res.Choices[0].Message
	assert.Equal(t, "text", m.Content)
	assert.Equal(t, "because", m.ReasoningContent)
	assert.Equal(t, []openai.ToolCall{{ID: "c1", Type: "function", Function: openai.FunctionCall{Name: "ls", Arguments: `{"a":1}`}}}, m.ToolCalls)
	assert.Equal(t, openai.FinishReasonToolCalls, res.Choices[0].FinishReason)
	assert.Equal(t, "some-model", res.Model)
	assert.Equal(t, 8, res.Usage.TotalTokens)
	assert.Equal(t, 2, res.Usage.PromptTokensDetails.CachedTokens)
	assert.Equal(t, 1, res.Usage.CompletionTokensDetails.ReasoningTokens)

	models, err := goOpenAI(t, srv).ListModels(soon(t))
	require.NoError(t, err)
	assert.Equal(t, "scripted-model", models.Models[0].ID)
}

func TestGoOpenAIStream(t *testing.T) {
	srv := st.New(t, st.Text("a text of more than sixteen characters").WithUsage(st.Usage{Prompt: 5, Completion: 3}))
	text, last, usage, err := read(t, srv)
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, "a text of more than sixteen characters", text)
	assert.Equal(t, openai.FinishReasonStop, last.Choices[0].FinishReason)
	require.NotNil(t, usage)
	assert.Equal(t, 8, usage.TotalTokens)

	var seen openai.ChatCompletionRequest
	require.NoError(t, srv.Requests()[0].Decode(&seen))
	assert.True(t, seen.Stream)
	assert.Equal(t, hello.Messages, seen.Messages)
}

func TestGoOpenAIErrorsAreTyped(t *testing.T) {
	type fault struct {
		reply st.Reply
		check func(t *testing.T, err error)
	}
	// go-openai reads a null code as the number 0.
	api := func(status int, code any) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			var e *openai.APIError
			require.True(t, errors.As(err, &e), "%T %v", err, err)
			assert.Equal(t, status, e.HTTPStatusCode)
			assert.Equal(t, code, e.Code)
		}
	}
	request := func(status int) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			var e *openai.RequestError
			require.True(t, errors.As(err, &e), "%T %v", err, err)
			assert.Equal(t, status, e.HTTPStatusCode)
		}
	}
	is := func(want error) func(*testing.T, error) {
		return func(t *testing.T, err error) { assert.ErrorIs(t, err, want) }
	}
	syntax := func(t *testing.T, err error) {
		var e *json.SyntaxError
		assert.True(t, errors.As(err, &e) || errors.Is(err, io.ErrUnexpectedEOF), "%T %v", err, err)
	}
	both := map[string]fault{
		"rate limit":   {st.Fail(429, "slow down"), api(429, 0)},
		"overflow":     {st.Overflow(100, 200), api(400, "context_length_exceeded")},
		"gateway page": {st.Reply{Status: 502, Fault: st.FaultHTML}, request(502)},
		"empty 500":    {st.Reply{Status: 500, Fault: st.FaultEmpty}, request(500)},
		"reset":        {st.Reply{Fault: st.FaultReset}, is(syscall.ECONNRESET)},
	}
	plainOnly := map[string]fault{
		"empty":     {st.Reply{Fault: st.FaultEmpty}, is(io.EOF)},
		"html":      {st.Reply{Fault: st.FaultHTML}, syntax},
		"malformed": {st.Reply{Fault: st.FaultMalformed}, syntax},
		"cut":       {st.Broken(st.FaultCut, "0123456789", 4), is(io.ErrUnexpectedEOF)},
		"drop":      {st.Broken(st.FaultDrop, "0123456789", 4), is(io.ErrUnexpectedEOF)},
	}
	streamOnly := map[string]fault{
		"malformed":   {st.Broken(st.FaultMalformed, "0123456789", 4), syntax},
		"error event": {st.Broken(st.FaultErrorEvent, "0123456789", 4), api(0, 0)},
		"plain error": {st.Broken(st.FaultPlainError, "0123456789", 4), api(0, 0)},
		"drop":        {st.Broken(st.FaultDrop, "0123456789", 4), is(io.ErrUnexpectedEOF)},
		// go-openai cannot tell these from an end; a caller must look at the finish reason.
		"cut":     {st.Broken(st.FaultCut, "0123456789", 4), is(io.EOF)},
		"no done": {st.Reply{Content: "0123", Fault: st.FaultNoDone}, is(io.EOF)},
		"empty":   {st.Reply{Fault: st.FaultEmpty}, is(io.EOF)},
		"html":    {st.Reply{Fault: st.FaultHTML}, is(io.EOF)},
	}
	for _, table := range []map[string]fault{both, plainOnly} {
		for name, f := range table {
			t.Run("plain/"+name, func(t *testing.T) {
				_, err := goOpenAI(t, st.New(t, f.reply)).CreateChatCompletion(soon(t), hello)
				require.Error(t, err)
				f.check(t, err)
			})
		}
	}
	for _, table := range []map[string]fault{both, streamOnly} {
		for name, f := range table {
			t.Run("stream/"+name, func(t *testing.T) {
				text, last, _, err := read(t, st.New(t, f.reply))
				require.Error(t, err)
				f.check(t, err)
				if f.reply.After > 0 {
					assert.Equal(t, "0123", text)
					assert.Empty(t, last.Choices, "no finish reason")
				}
			})
		}
	}
}
