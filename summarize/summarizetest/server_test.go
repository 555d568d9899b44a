package summarizetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentcompact/agentcompact/summarize/summarizetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScriptAnswersInOrderAndRepeatsTheLast(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text("one"), summarizetest.Text("two"))
	for _, want := range []string{"one", "two", "two", "two"} {
		_, got, err := body(t, srv, plain)
		require.NoError(t, err)
		assert.Contains(t, got, `"content":"`+want+`"`)
	}
	srv.Append(summarizetest.Text("three"))
	_, got, err := body(t, srv, plain)
	require.NoError(t, err)
	assert.Contains(t, got, `"content":"three"`)

	var replies []int
	for _, r := range srv.Requests() {
		replies = append(replies, r.Reply)
	}
	assert.Equal(t, []int{0, 1, 1, 1, 2}, replies)
}

func TestAnEmptyScriptSaysSo(t *testing.T) {
	srv := summarizetest.New(t)
	res, got, err := body(t, srv, plain)
	require.NoError(t, err)
	assert.Equal(t, 500, res.StatusCode)
	assert.Contains(t, got, "the script has no reply")
	assert.Equal(t, -1, srv.Requests()[0].Reply)
}

func TestFuncSeesTheRequest(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Func(func(r summarizetest.Request) summarizetest.Reply {
		c, err := r.Chat()
		if err != nil {
			return summarizetest.Fail(400, err.Error())
		}
		return summarizetest.Text("you said " + c.Messages[0].Text)
	}))
	_, got, err := body(t, srv, plain)
	require.NoError(t, err)
	assert.Contains(t, got, "you said hello")
}

func TestAPanicOfAFunctionIsAnAnswer(t *testing.T) {
	boom := func(summarizetest.Request) summarizetest.Reply { panic("boom") }
	srv := summarizetest.NewServer(summarizetest.Func(boom))
	defer srv.Close()
	res, got, err := body(t, srv, plain)
	require.NoError(t, err)
	assert.Equal(t, 500, res.StatusCode)
	assert.Contains(t, got, "panicked: boom")

	tb := &fakeTB{TB: t}
	failing := summarizetest.New(tb, summarizetest.Func(boom))
	_, _, err = body(t, failing, plain)
	require.NoError(t, err)
	failing.Close()
	assert.Equal(t, 1, tb.errors, "the test of the server must fail")
}

type fakeTB struct {
	testing.TB
	errors int
}

func (f *fakeTB) Errorf(string, ...any) { f.errors++ }

func TestRequestsAreRecordedAsSent(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text("x"))
	sent := `{"model":"m", "messages":[
		{"role":"system","content":[{"type":"text","text":"be "},{"type":"text","text":"brief"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","name":"ls","content":"a.go"}],
		"tools":[{"type":"function"}],"max_tokens":7,"extra":{"kept":true}}`
	before := time.Now()
	_, _, err := body(t, srv, sent)
	require.NoError(t, err)
	r := srv.Requests()[0]
	assert.Equal(t, sent, string(r.Body))
	assert.Equal(t, "POST", r.Method)
	assert.Equal(t, "/v1/chat/completions", r.Path)
	assert.Equal(t, "Bearer k", r.Header.Get("Authorization"))
	assert.False(t, r.At.Before(before))

	c, err := r.Chat()
	require.NoError(t, err)
	assert.Equal(t, "m", c.Model)
	assert.Equal(t, 7, c.MaxTokens)
	assert.Len(t, c.Tools, 1)
	require.Len(t, c.Messages, 3)
	assert.Equal(t, "be brief", c.Messages[0].Text)
	assert.Equal(t, "null", string(c.Messages[1].Content))
	assert.Equal(t, []summarizetest.ToolCall{{ID: "c1", Name: "ls", Arguments: "{}"}}, c.Messages[1].ToolCalls)
	assert.Equal(t, "c1", c.Messages[2].ToolCallID)

	var own struct{ Extra struct{ Kept bool } }
	require.NoError(t, r.Decode(&own))
	assert.True(t, own.Extra.Kept)

	r.Body[0], r.Header["Authorization"][0] = 'X', "changed"
	again := srv.Requests()[0]
	assert.Equal(t, sent, string(again.Body), "a recorded request is a copy")
	assert.Equal(t, "Bearer k", again.Header.Get("Authorization"))
}

func TestABodyThatIsNotJSONIsRecordedAndSaysSoWhenDecoded(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text("x"))
	_, _, err := body(t, srv, "{nonsense")
	require.NoError(t, err)
	_, err = srv.Requests()[0].Chat()
	assert.ErrorContains(t, err, "decode body of request 0")
}

func TestModelsAndUnknownPathsUseNoReply(t *testing.T) {
	srv := summarizetest.NewConfig(t, summarizetest.Config{
		Script: []summarizetest.Reply{summarizetest.Text("first"), summarizetest.Text("second")},
		Models: []string{"a", "b"},
	})
	get := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(soon(t), http.MethodGet, srv.URL()+path, nil)
		require.NoError(t, err)
		res, err := client(t).Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(data)
	}
	status, list := get("/models")
	assert.Equal(t, 200, status)
	var models struct{ Data []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(list), &models))
	assert.Equal(t, []struct{ ID string }{{"a"}, {"b"}}, models.Data)

	status, text := get("/chat/completions")
	assert.Equal(t, 404, status)
	assert.Contains(t, text, "no such endpoint: GET /v1/chat/completions")

	_, got, err := body(t, srv, plain)
	require.NoError(t, err)
	assert.Contains(t, got, "first")
	assert.Len(t, srv.Requests(), 3)
}

func TestRealWindow(t *testing.T) {
	config := summarizetest.Config{Script: []summarizetest.Reply{summarizetest.Text("fits"), summarizetest.Text("later")}, RealWindow: 20}
	srv := summarizetest.NewConfig(t, config)
	large := strings.Replace(plain, "hello", strings.Repeat("x", 100), 1)

	res, got, err := body(t, srv, large)
	require.NoError(t, err)
	assert.Equal(t, 400, res.StatusCode)
	assert.Contains(t, got, `"code":"context_length_exceeded"`)
	assert.Contains(t, got, "maximum context length is 20 tokens")

	_, got, err = body(t, srv, plain)
	require.NoError(t, err)
	assert.Contains(t, got, "fits", "the refused request used no reply")
	r := srv.Requests()
	assert.True(t, r[0].OverWindow)
	assert.Equal(t, -1, r[0].Reply)
	assert.False(t, r[1].OverWindow)

	config.Estimate = func(r summarizetest.Request) int { return strings.Count(string(r.Body), "x") }
	config.Overflow = func(window, tokens int) summarizetest.Reply {
		return summarizetest.Reply{Status: 413, Body: "too long", Header: http.Header{"Content-Type": {"text/plain"}}}
	}
	config.RealWindow = 99
	own := summarizetest.NewConfig(t, config)
	res, got, err = body(t, own, large)
	require.NoError(t, err)
	assert.Equal(t, 413, res.StatusCode)
	assert.Equal(t, "too long", got)
	assert.Equal(t, "text/plain", res.Header.Get("Content-Type"))
	_, got, err = body(t, own, strings.Replace(large, "x", "", 1)) // exactly the window
	require.NoError(t, err)
	assert.Contains(t, got, "fits")
}

func TestGateAndAwaitOrderEventsWithoutSleeping(t *testing.T) {
	gate := make(chan struct{})
	srv := summarizetest.New(t, summarizetest.Text("slow").WithGate(gate), summarizetest.Text("fast"))
	var wg sync.WaitGroup
	var slow string
	wg.Go(func() { _, slow, _ = body(t, srv, plain) })
	first, err := srv.Await(soon(t), 1)
	require.NoError(t, err)
	assert.Equal(t, 0, first.Index)

	_, fast, err := body(t, srv, plain)
	require.NoError(t, err)
	assert.Contains(t, fast, "fast")
	assert.Empty(t, slow, "the first answer is still held")
	close(gate)
	wg.Wait()
	assert.Contains(t, slow, "slow")
}

func TestChunkGateHoldsEachChunk(t *testing.T) {
	gate := make(chan struct{})
	srv := summarizetest.New(t, summarizetest.Reply{Content: "abcd", ChunkSize: 2, ChunkGate: gate})
	res, err := post(t, srv, streamed) // the header comes before the first chunk
	require.NoError(t, err)
	read := func() string {
		buf := make([]byte, 4096)
		n, err := res.Body.Read(buf)
		if n == 0 || err != io.EOF { // the last chunk may bring the end with it
			require.NoError(t, err)
		}
		return string(buf[:n])
	}
	for _, want := range []string{`"role":"assistant"`, `"content":"ab"`, `"content":"cd"`, `"finish_reason":"stop"`, "[DONE]"} {
		gate <- struct{}{}
		assert.Contains(t, read(), want)
	}
}

func TestDelays(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Reply{Content: "abcd", ChunkSize: 1, Delay: 30 * time.Millisecond, ChunkDelay: 10 * time.Millisecond})
	start := time.Now()
	_, got, err := body(t, srv, streamed)
	require.NoError(t, err)
	assert.Contains(t, got, "[DONE]")
	assert.GreaterOrEqual(t, time.Since(start), 90*time.Millisecond) // seven chunks, six delays between them
}

func TestWaitingEndsWithTheClientOrTheServer(t *testing.T) {
	never := make(chan struct{})
	for name, reply := range map[string]summarizetest.Reply{
		"gate":        {Gate: never},
		"delay":       {Delay: time.Hour},
		"chunk gate":  {ChunkGate: never},
		"chunk delay": {ChunkDelay: time.Hour},
	} {
		t.Run(name+", client", func(t *testing.T) {
			srv := summarizetest.New(t, reply)
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(soon(t))
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL()+"/chat/completions", strings.NewReader(streamed))
			require.NoError(t, err)
			var wg sync.WaitGroup
			wg.Go(func() {
				res, err := client(t).Do(req)
				if err == nil {
					_, err = io.ReadAll(res.Body)
					_ = res.Body.Close()
				}
				assert.Error(t, err)
			})
			_, err = srv.Await(soon(t), 1)
			require.NoError(t, err)
			cancel(cause)
			wg.Wait()
		})
		t.Run(name+", server", func(t *testing.T) {
			srv := summarizetest.NewServer(reply)
			var wg sync.WaitGroup
			wg.Go(func() {
				res, err := post(t, srv, streamed)
				if err == nil {
					_, err = io.ReadAll(res.Body)
				}
				assert.Error(t, err)
			})
			_, err := srv.Await(soon(t), 1)
			require.NoError(t, err)
			srv.Close() // returns only when the handler has
			wg.Wait()
			srv.Close()
		})
	}
}

func TestAwaitEnds(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text("x"))
	_, err := srv.Await(soon(t), 0)
	assert.ErrorContains(t, err, "counted from 1")
	cause := errors.New("not today")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	_, err = srv.Await(ctx, 1)
	assert.ErrorIs(t, err, cause)
	srv.Close()
	_, err = srv.Await(soon(t), 1)
	assert.ErrorIs(t, err, summarizetest.ErrClosed)
}

func TestConcurrentRequestsUseEachReplyOnce(t *testing.T) {
	const n = 40
	var script []summarizetest.Reply
	for range n {
		script = append(script, summarizetest.Text("x"))
	}
	srv := summarizetest.New(t, script...)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, _, err := body(t, srv, plain)
			assert.NoError(t, err)
		})
	}
	_, err := srv.Await(soon(t), n)
	require.NoError(t, err)
	wg.Wait()
	used := map[int]bool{}
	for i, r := range srv.Requests() {
		assert.Equal(t, i, r.Index)
		used[r.Reply] = true
	}
	assert.Len(t, used, n)
}

func TestSameScriptSameBytes(t *testing.T) {
	reply := summarizetest.Reply{Content: "same", Reasoning: "why", ToolCalls: []summarizetest.ToolCall{{"1", "f", "{}"}}, Usage: &summarizetest.Usage{Prompt: 1}}
	for _, request := range []string{plain, metered} {
		_, one, err := body(t, summarizetest.New(t, reply), request)
		require.NoError(t, err)
		_, two, err := body(t, summarizetest.New(t, reply), request)
		require.NoError(t, err)
		assert.Equal(t, one, two)
	}
}
