package summarize

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

// noLeaks checks that a test leaves no goroutine behind. It comes first in a
// test, so that it looks last.
func noLeaks(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

func TestNewLLMOptions(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("OPENAI_BASE_URL", "")
	own := openai.NewClient("k")
	for name, c := range map[string]struct {
		o    LLMOptions
		want string
	}{
		"no model":              {LLMOptions{APIKey: "k"}, "model is required"},
		"no key":                {LLMOptions{Model: "m"}, "key is required"},
		"local endpoint":        {LLMOptions{Model: "m", BaseURL: "http://localhost:1/v1"}, ""},
		"negative limit":        {LLMOptions{Model: "m", APIKey: "k", MaxTokens: -1}, "negative"},
		"client":                {LLMOptions{Model: "m", Client: own}, ""},
		"client and key":        {LLMOptions{Model: "m", Client: own, APIKey: "k"}, "client has its own"},
		"client, known field":   {LLMOptions{Model: "m", Client: own, ExtraBody: map[string]any{"temperature": 0.5}}, ""},
		"client, unknown field": {LLMOptions{Model: "m", Client: own, ExtraBody: map[string]any{"top_k": 5}}, "top_k"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewLLM(c.o)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
	t.Setenv("OPENAI_API_KEY", "from the environment")
	srv := summarizetest.New(t, summarizetest.Text(note))
	t.Setenv("OPENAI_BASE_URL", srv.URL())
	s, err := NewLLM(LLMOptions{Model: "m", HTTPClient: client(), Organization: "org-7", Headers: map[string]string{"X-Team": "blue"}})
	require.NoError(t, err)
	p, err := s.Open(t.Context(), requestOf(session.UserText("hi")))
	require.NoError(t, err)
	p.Cancel()
	h := srv.Requests()[0].Header
	require.Equal(t, "Bearer from the environment", h.Get("Authorization"))
	require.Equal(t, "org-7", h.Get("OpenAI-Organization"))
	require.Equal(t, "blue", h.Get("X-Team"))
}

func TestUsageIsCaptured(t *testing.T) {
	u := summarizetest.Usage{Prompt: 900, Completion: 80, Cached: 640, Reasoning: 30}
	for _, whole := range []bool{false, true} {
		for name, reply := range map[string]summarizetest.Reply{
			"accepted": summarizetest.Text(note).WithUsage(u),
			"failed":   summarizetest.Reply{Reasoning: "hm"}.WithUsage(u),
		} {
			srv := summarizetest.New(t, reply)
			k := newClock()
			w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{NoStream: whole, Provider: "acme", Now: k.Now}), requestOf(session.UserText(fill(100))), k.options(RunOptions{Attempts: 1}))
			want := Call{Provider: "acme", Model: "scribe", Purpose: "summary", Prompt: 900, Completion: 80, CacheRead: 640, Reasoning: 30, Outcome: "ok"}
			if name == "failed" {
				var f *Failure
				require.ErrorAs(t, err, &f)
				want.Outcome = "reasoning"
				require.Equal(t, []Call{want}, f.Calls)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, []Call{want}, w.Calls)
		}
	}
}

// TestEndpointsThatTakeLess: what an endpoint refuses is left out from then on.
func TestEndpointsThatTakeLess(t *testing.T) {
	refuse := func(has, message string) summarizetest.Reply {
		return summarizetest.Func(func(r summarizetest.Request) summarizetest.Reply {
			if strings.Contains(string(r.Body), has) {
				return summarizetest.Fail(400, message)
			}
			return summarizetest.Text(note)
		})
	}
	for name, c := range map[string]struct {
		has, message string
		whole        bool
	}{
		"tool choice":    {`"tool_choice"`, "tool_choice is not supported by this model", false},
		"stream options": {`"stream_options"`, "Unrecognized request argument supplied: stream_options", false},
		"reply limit":    {`"max_tokens"`, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", false},
		"replay":         {`"tool_calls"`, "messages.1: the reasoning of this tool call is missing", true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := summarizetest.New(t, refuse(c.has, c.message))
			s := newTestLLM(t, srv, LLMOptions{})
			req := requestOf(session.UserText("list "+fill(100)), session.AssistantText("", session.ToolCall{ID: "l", Name: "ls", Arguments: "{}"}), session.ToolText("l", "12 files"), session.AssistantText("12 files."))
			req.Model, req.Envelope, req.Head = "scribe", envelope(), true
			for i, want := range [][]string{{"summary transient", "retry ok"}, {"summary ok"}} {
				w, err := Run(t.Context(), s, req, newClock().options(RunOptions{}))
				require.NoError(t, err)
				require.Equal(t, want, outcomes(w.Calls), "run %d", i)
			}
			last := srv.Requests()[2]
			requireValid(t, last.Body)
			require.Contains(t, string(last.Body), `"max_`)
		})
	}
}

// TestAnEndpointThatDoesNotStream answers a request for a stream with the whole reply.
func TestAnEndpointThatDoesNotStream(t *testing.T) {
	text, err := json.Marshal(note)
	require.NoError(t, err)
	for finish, class := range map[string]Class{"stop": "", "length": Truncated} {
		body := `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":` + string(text) + `},"finish_reason":"` + finish + `"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}`
		srv := summarizetest.New(t, summarizetest.Reply{Body: body})
		w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{}), requestOf(session.UserText(fill(100))), newClock().options(RunOptions{Attempts: 1}))
		if class != "" {
			var f *Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, class, f.Class)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, note, w.Text)
		require.Equal(t, 9, w.Calls[0].Prompt)
	}
}

func TestReplyLimitOfTheProviderIsLearned(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Func(func(r summarizetest.Request) summarizetest.Reply {
		if c, _ := r.Chat(); c.MaxTokens > 4096 {
			return summarizetest.Fail(400, "max_tokens is too large: this model supports at most 4096 completion tokens, whereas you provided 8000.")
		}
		return summarizetest.Text(note)
	}))
	w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{MaxTokens: 8000}), requestOf(session.UserText(fill(100))), newClock().options(RunOptions{}))
	require.NoError(t, err)
	require.Len(t, w.Calls, 2)
}

// TestReplyLimitIsNotLoweredForEver: a provider that takes none is not asked on and on.
func TestReplyLimitIsNotLoweredForEver(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Fail(400, "max_tokens is too large: this model supports at most 10 completion tokens, whereas you provided 200."))
	_, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{MaxTokens: 200}), requestOf(session.UserText(fill(100))), newClock().options(RunOptions{}))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Invalid, f.Class)
	require.Len(t, f.Calls, 1)
}

func TestCallersClient(t *testing.T) {
	for _, through := range []bool{false, true} {
		srv := summarizetest.New(t, summarizetest.Fail(429, "slow down").WithHeader("Retry-After", "9"), summarizetest.Text(note))
		config := openai.DefaultConfig("mine")
		config.BaseURL = srv.URL()
		hc := client()
		if through {
			hc.Transport = NewTransport(hc.Transport)
		}
		config.HTTPClient = hc
		s, err := NewLLM(LLMOptions{Client: openai.NewClientWithConfig(config), Model: "m", ExtraBody: map[string]any{"temperature": 0.5}})
		require.NoError(t, err)
		k := newClock()
		w, err := Run(t.Context(), s, requestOf(session.UserText(fill(100))), k.options(RunOptions{}))
		require.NoError(t, err)
		require.Equal(t, note, w.Text)
		require.Contains(t, string(srv.Requests()[1].Body), `"temperature":0.5`)
		want := 250 * time.Millisecond
		if through {
			want = 9 * time.Second
		}
		require.Equal(t, []time.Duration{want}, k.waits)
	}
}

// TestCutStreamsWithTheCallersClient: without our transport a clean end, a cut
// and an error that is not an event look alike; none of them is text.
func TestCutStreamsWithTheCallersClient(t *testing.T) {
	for _, f := range []summarizetest.Fault{summarizetest.FaultCut, summarizetest.FaultDrop, summarizetest.FaultErrorEvent, summarizetest.FaultPlainError, summarizetest.FaultMalformed, summarizetest.FaultEmpty, summarizetest.FaultHTML} {
		srv := summarizetest.New(t, summarizetest.Broken(f, note, 9))
		config := openai.DefaultConfig("mine")
		config.BaseURL, config.HTTPClient = srv.URL(), client()
		s, err := NewLLM(LLMOptions{Client: openai.NewClientWithConfig(config), Model: "m"})
		require.NoError(t, err)
		_, err = Run(t.Context(), s, requestOf(session.UserText(fill(100))), newClock().options(RunOptions{Attempts: 1}))
		var fail *Failure
		require.ErrorAs(t, err, &fail)
		require.Equal(t, BadStream, fail.Class, "fault %d: %v", f, err)
	}
}

func TestOpenIsNotCollect(t *testing.T) {
	noLeaks(t)
	gate := make(chan struct{})
	srv := summarizetest.New(t, summarizetest.Reply{Content: note, ChunkGate: gate})
	s := newTestLLM(t, srv, LLMOptions{})
	opened := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), s, requestOf(session.UserText(fill(100))), newClock().options(RunOptions{Opened: func(n string, _ int) { opened <- n }}))
		done <- err
	}()
	gate <- struct{}{} // the header is out with the first chunk
	require.Equal(t, "scribe", <-opened)
	select {
	case err := <-done:
		t.Fatal("finished before the text came", err)
	default:
	}
	close(gate)
	require.NoError(t, <-done)
}

func TestCanceledReplies(t *testing.T) {
	for _, c := range []string{"open", "collect", "cancel", "collect's own context"} {
		t.Run(c, func(t *testing.T) {
			noLeaks(t)
			gate := make(chan struct{}, 1)
			reply := summarizetest.Reply{Content: note, ChunkGate: gate}
			if c == "open" {
				reply.Gate = gate // no header either
			}
			srv := summarizetest.New(t, reply)
			s := newTestLLM(t, srv, LLMOptions{})
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			go func() {
				if _, err := srv.Await(ctx, 1); err == nil && c == "open" {
					cancel(errWhy)
				}
			}()
			if c != "open" {
				gate <- struct{}{}
			}
			p, err := s.Open(ctx, requestOf(session.UserText("hi")))
			switch c {
			case "open":
				require.Equal(t, errWhy, err)
				return
			case "cancel":
				require.NoError(t, err)
				p.Cancel()
				return
			}
			require.NoError(t, err)
			inner, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			if c == "collect" {
				cancel(errWhy)
			} else {
				stop(errWhy)
			}
			_, err = p.Collect(inner)
			require.Equal(t, errWhy, err)
		})
	}
}

var errWhy = &Failure{Class: Invalid, Detail: "a cause of its own"}

// TestEveryRequestIsValid: whatever the span, the request is one that a
// provider takes, and holds the fence once and no thoughts.
func TestEveryRequestIsValid(t *testing.T) {
	var body []byte
	hc := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		body = readAll(r)
		return nil, context.Canceled
	})}
	s, err := NewLLM(LLMOptions{BaseURL: "http://test.invalid/v1", Model: "scribe", HTTPClient: hc, MaxOutput: 5000})
	require.NoError(t, err)
	texts := rapid.SampledFrom([]string{"", "hello", "</transcript>", "a\xffb", "[0000 user]", "<think>", "line\nline"})
	id := rapid.SampledFrom([]string{"a", "b", "c", ""})
	rapid.Check(t, func(t *rapid.T) {
		req := requestOf(session.UserText("start"))
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			var m session.Message
			switch rapid.SampledFrom([]string{"user", "agent", "calls", "result", "results", "note", "picture"}).Draw(t, "kind") {
			case "user":
				m = session.UserText(texts.Draw(t, "text"))
			case "agent":
				m = session.AssistantText(texts.Draw(t, "text"))
				m.Parts = append(m.Parts, session.Reasoning{Text: "HIDDEN"})
			case "calls":
				m = session.AssistantText(texts.Draw(t, "text"), session.ToolCall{ID: id.Draw(t, "id"), Name: "ls", Arguments: "{}"}, session.ToolCall{ID: id.Draw(t, "id"), Name: "read"})
			case "result":
				m = session.ToolText(id.Draw(t, "id"), texts.Draw(t, "text"))
			case "results":
				m = session.ToolText(id.Draw(t, "id"), texts.Draw(t, "text"))
				m.Parts = append(m.Parts, session.ToolText(id.Draw(t, "id"), "").Parts...)
			case "note":
				m = plugin(session.RoleSystem, "a note")
			case "picture":
				m = session.UserText("look")
				m.Parts = append(m.Parts, session.Image{URL: "data:image/png;base64,AAAA"})
			}
			req.Items = append(req.Items, itemsOf(m)...)
		}
		req.Head = rapid.Bool().Draw(t, "head")
		req.Model = rapid.SampledFrom([]string{"scribe", "other"}).Draw(t, "model")
		if rapid.Bool().Draw(t, "envelope") {
			req.Envelope = envelope()
		}
		body = nil
		_, err := s.Open(context.Background(), req)
		require.Error(t, err)
		chat := requireValid(t, body)
		require.NotContains(t, string(body), "HIDDEN")
		require.NotContains(t, string(body), "base64,")
		require.LessOrEqual(t, chat.MaxTokens, 5000)
		if len(chat.Tools) == 0 {
			all := chat.Messages[0].Text + chat.Messages[1].Text
			require.Equal(t, 1, strings.Count(all, FenceClose))
			require.True(t, utf8.ValidString(all))
		}
	})
}
