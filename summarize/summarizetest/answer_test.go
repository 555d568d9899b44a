package summarizetest_test

import (
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"

	st "github.com/agentcompact/agentcompact/summarize/summarizetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// events returns the data of each event of a stream, and checks that there is nothing else in it.
func events(t *testing.T, stream string) []string {
	t.Helper()
	var out []string
	for _, block := range strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(block, "data: ")
		require.True(t, ok, "block %q", block)
		out = append(out, data)
	}
	return out
}

type choice struct {
	Message, Delta map[string]any
	FinishReason   any `json:"finish_reason"`
}

type answer struct {
	Object, Model string
	Choices       []choice
	Usage         map[string]any
}

func decode(t *testing.T, data string) answer {
	t.Helper()
	var a answer
	require.NoError(t, json.Unmarshal([]byte(data), &a), data)
	return a
}

func TestJSONAnswer(t *testing.T) {
	tool := st.ToolCall{ID: "c", Name: "ls", Arguments: `{"p":"."}`}
	for name, c := range map[string]struct {
		reply   st.Reply
		message map[string]any
		finish  any
	}{
		"text":         {st.Text("hi"), map[string]any{"content": "hi"}, "stop"},
		"empty":        {st.Reply{}, map[string]any{"content": ""}, "stop"},
		"null":         {st.Reply{Content: "x", Null: true}, map[string]any{"content": nil}, "stop"},
		"reasoning":    {st.Reply{Content: "a", Reasoning: "r"}, map[string]any{"content": "a", "reasoning_content": "r"}, "stop"},
		"refusal":      {st.Reply{Refusal: "no"}, map[string]any{"content": nil, "refusal": "no"}, "stop"},
		"length":       {st.Reply{Content: "a", Finish: st.FinishLength}, map[string]any{"content": "a"}, "length"},
		"no finish":    {st.Reply{Content: "a", Finish: st.FinishNone}, map[string]any{"content": "a"}, nil},
		"filter":       {st.Reply{Finish: st.FinishContentFilter}, map[string]any{"content": ""}, "content_filter"},
		"call":         {st.Call(tool), map[string]any{"content": nil, "tool_calls": wireCalls(tool)}, "tool_calls"},
		"text+call":    {st.Reply{Content: "a", ToolCalls: []st.ToolCall{tool}}, map[string]any{"content": "a", "tool_calls": wireCalls(tool)}, "tool_calls"},
		"call at stop": {st.Reply{ToolCalls: []st.ToolCall{tool}, Finish: "stop"}, map[string]any{"content": nil, "tool_calls": wireCalls(tool)}, "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			res, data, err := body(t, st.New(t, c.reply), plain)
			require.NoError(t, err)
			assert.Equal(t, "application/json", res.Header.Get("Content-Type"))
			a := decode(t, data)
			c.message["role"] = "assistant"
			assert.Equal(t, []choice{{Message: c.message, FinishReason: c.finish}}, a.Choices)
			assert.Equal(t, "chat.completion", a.Object)
			assert.Equal(t, "m", a.Model)
			assert.NotContains(t, data, "usage")

			// The stream carries the same.
			_, data, err = body(t, st.New(t, c.reply), streamed)
			require.NoError(t, err)
			message, finish := assemble(t, data)
			assert.Equal(t, c.message, message)
			assert.Equal(t, c.finish, finish)
		})
	}
}

func wireCalls(c st.ToolCall) []any {
	return []any{map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}}}
}

// assemble puts the deltas of a stream together.
func assemble(t *testing.T, stream string) (message map[string]any, finish any) {
	t.Helper()
	all := events(t, stream)
	assert.Equal(t, "[DONE]", all[len(all)-1])
	message = map[string]any{}
	for _, e := range all[:len(all)-1] {
		for _, c := range decode(t, e).Choices {
			if c.FinishReason != nil {
				finish = c.FinishReason
			}
			for key, value := range c.Delta {
				switch {
				case key == "tool_calls":
					call := value.([]any)[0].(map[string]any)
					if call["id"] != nil {
						delete(call, "index")
						message[key] = append(asList(message[key]), call)
						continue
					}
					fn := message[key].([]any)[int(call["index"].(float64))].(map[string]any)["function"].(map[string]any)
					fn["arguments"] = fn["arguments"].(string) + call["function"].(map[string]any)["arguments"].(string)
				case key != "role" && message[key] != nil:
					message[key] = message[key].(string) + value.(string)
				default:
					message[key] = value
				}
			}
		}
	}
	return message, finish
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

func TestStreamChunksAreWholeCharacters(t *testing.T) {
	_, data, err := body(t, st.New(t, st.Reply{Content: "日本語です", ChunkSize: 2}), streamed)
	require.NoError(t, err)
	var pieces []string
	for _, e := range events(t, data)[1:4] {
		pieces = append(pieces, decode(t, e).Choices[0].Delta["content"].(string))
	}
	assert.Equal(t, []string{"日本", "語で", "す"}, pieces)
}

func TestUsage(t *testing.T) {
	reply := st.Text("x").WithUsage(st.Usage{Prompt: 10, Completion: 4, Cached: 8, Reasoning: 3})
	want := map[string]any{
		"prompt_tokens": 10., "completion_tokens": 4., "total_tokens": 14.,
		"prompt_tokens_details":     map[string]any{"cached_tokens": 8.},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 3.},
	}
	_, data, err := body(t, st.New(t, reply), plain)
	require.NoError(t, err)
	assert.Equal(t, want, decode(t, data).Usage)

	_, data, err = body(t, st.New(t, reply), streamed)
	require.NoError(t, err)
	assert.NotContains(t, data, "usage", "nobody asked")

	_, data, err = body(t, st.New(t, reply), metered)
	require.NoError(t, err)
	all := events(t, data)
	last := decode(t, all[len(all)-2])
	assert.Empty(t, last.Choices)
	assert.Equal(t, want, last.Usage)
	assert.Contains(t, all[0], `"usage":null`)

	_, data, err = body(t, st.New(t, st.Text("x")), metered)
	require.NoError(t, err)
	assert.NotContains(t, data, "total_tokens", "a server that reports no usage")
}

func TestFailingStatus(t *testing.T) {
	srv := st.New(t,
		st.Fail(429, "slow down").WithHeader("Retry-After", "7"),
		st.Reply{Status: 503},
		st.Reply{Status: 502, Body: "bad gateway", Header: map[string][]string{"content-type": {"text/plain"}}},
		st.Reply{Status: 502, Fault: st.FaultHTML},
		st.Reply{Status: 500, Fault: st.FaultEmpty},
	)
	res, data, err := body(t, srv, streamed)
	require.NoError(t, err)
	assert.Equal(t, 429, res.StatusCode)
	assert.Equal(t, "7", res.Header.Get("Retry-After"))
	assert.JSONEq(t, `{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":null}}`, data)

	res, data, _ = body(t, srv, plain)
	assert.Equal(t, 503, res.StatusCode)
	assert.Contains(t, data, "Service Unavailable")
	res, data, _ = body(t, srv, plain)
	assert.Equal(t, 502, res.StatusCode)
	assert.Equal(t, "bad gateway", data)
	assert.Equal(t, "text/plain", res.Header.Get("Content-Type"))
	res, data, _ = body(t, srv, plain)
	assert.Equal(t, 502, res.StatusCode)
	assert.Contains(t, data, "<html>")
	res, data, _ = body(t, srv, plain)
	assert.Equal(t, 500, res.StatusCode)
	assert.Empty(t, data)
}

func TestFaults(t *testing.T) {
	const text = "0123456789"
	for name, c := range map[string]struct {
		fault       st.Fault
		json        string // the end of a JSON answer
		stream      string // the end of a stream
		kind        string // content type of a stream
		unexpected  bool   // the connection breaks off
		hasContent4 bool   // the stream carries the first four characters and no more
	}{
		"empty":       {fault: st.FaultEmpty},
		"html":        {fault: st.FaultHTML, json: "</html>\n", stream: "</html>\n", kind: "text/html; charset=utf-8"},
		"malformed":   {fault: st.FaultMalformed, json: `"choices":[{"mess`, stream: `"choices":[{"del` + "\n\n", hasContent4: true},
		"cut":         {fault: st.FaultCut, json: `"content":"0123`, stream: "\n\n", hasContent4: true},
		"drop":        {fault: st.FaultDrop, json: `"content":"0123`, stream: "\n\n", hasContent4: true, unexpected: true},
		"error event": {fault: st.FaultErrorEvent, json: `"type":"server_error"}}`, stream: `"type":"server_error"}}` + "\n\n", hasContent4: true},
		"plain error": {fault: st.FaultPlainError, json: `"type":"server_error"}}`, stream: "\n\n" + `{"error":{"code":null,"message":"The server had an error while processing your request.","param":null,"type":"server_error"}}` + "\n", hasContent4: true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := st.New(t, st.Reply{Content: text, ChunkSize: 3, Fault: c.fault, After: 4})
			check := func(data, end string, err error) {
				t.Helper()
				if c.unexpected {
					assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
				} else {
					assert.NoError(t, err)
				}
				assert.True(t, strings.HasSuffix(data, end), "%q must end in %q", data, end)
				if end == "" {
					assert.Empty(t, data)
				}
			}
			_, data, err := body(t, srv, plain)
			check(data, c.json, err)

			res, data, err := body(t, srv, streamed)
			check(data, c.stream, err)
			if c.kind == "" {
				c.kind = "text/event-stream"
			}
			assert.Equal(t, c.kind, res.Header.Get("Content-Type"))
			assert.NotContains(t, data, "[DONE]")
			assert.NotContains(t, data, `"finish_reason":"`)
			if c.hasContent4 {
				assert.Contains(t, data, `"content":"012"`)
				assert.Contains(t, data, `"content":"3"`)
				assert.NotContains(t, data, "4")
			}
		})
	}
}

func TestFaultReset(t *testing.T) {
	srv := st.New(t, st.Reply{Fault: st.FaultReset}, st.Text("after"))
	_, err := post(t, srv, plain)
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	_, data, err := body(t, srv, plain)
	require.NoError(t, err)
	assert.Contains(t, data, "after")
	assert.Len(t, srv.Requests(), 2, "a reset request is recorded")
}

func TestFaultNoDone(t *testing.T) {
	_, data, err := body(t, st.New(t, st.Reply{Content: "x", Fault: st.FaultNoDone}), streamed)
	require.NoError(t, err)
	assert.Contains(t, data, `"finish_reason":"stop"`)
	assert.NotContains(t, data, "[DONE]")
}

func TestComments(t *testing.T) {
	_, data, err := body(t, st.New(t, st.Reply{Content: "x", Comments: 2}), streamed)
	require.NoError(t, err)
	assert.Equal(t, 2*strings.Count(data, "data: "), strings.Count(data, ": keep-alive\n\n"))
}

func TestRawBody(t *testing.T) {
	_, data, err := body(t, st.New(t, st.Reply{Body: `{"choices":[]}`}), streamed)
	require.NoError(t, err)
	assert.Equal(t, `{"choices":[]}`, data)
}
