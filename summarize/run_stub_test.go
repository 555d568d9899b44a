package summarize

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

// stub is a summarizer of a user's own.
type stub struct {
	window int
	open   func(ctx context.Context, req *Request) (Pending, error)
}

func (stub) Name() string  { return "stub" }
func (s stub) Window() int { return s.window }
func (s stub) Open(ctx context.Context, req *Request) (Pending, error) {
	return s.open(ctx, req)
}

type pendingText struct {
	text    func(ctx context.Context) (string, error)
	settled *atomic.Int32
}

func (p pendingText) Collect(ctx context.Context) (*Summary, error) {
	if p.settled != nil {
		p.settled.Add(1)
	}
	s, err := p.text(ctx)
	if err != nil {
		return nil, err
	}
	return &Summary{Text: s}, nil
}

func (p pendingText) Cancel() {
	if p.settled != nil {
		p.settled.Add(1)
	}
}

type nothing struct{}

func (nothing) Collect(context.Context) (*Summary, error) { return nil, nil }
func (nothing) Cancel()                                   {}

func says(s string) pendingText {
	return pendingText{text: func(context.Context) (string, error) { return s, nil }}
}

func short() *Request {
	return requestOf(session.UserText("check the pump "+fill(700)), session.AssistantText("Checked."))
}

func TestASummarizerOfOnesOwn(t *testing.T) {
	t.Run("plain errors are classified", func(t *testing.T) {
		for _, c := range []struct {
			err   error
			class Class
			calls int
		}{
			{errors.New("boom"), Transient, 3},
			{errors.New("This model's maximum context length is 100 tokens, however you requested 900 tokens"), Overflow, 1},
			{&Failure{Class: Invalid}, Invalid, 1},
		} {
			n := 0
			_, err := Run(t.Context(), stub{open: func(context.Context, *Request) (Pending, error) { n++; return nil, c.err }}, short(), newClock().options(RunOptions{}))
			var f *Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.class, f.Class)
			require.Equal(t, c.calls, n)
		}
	})
	t.Run("overflow without a window is planned anew", func(t *testing.T) {
		var mu sync.Mutex
		var parts []string
		s := stub{open: func(_ context.Context, req *Request) (Pending, error) {
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for _, it := range req.Items {
				n += t4(it.Message.Text())
			}
			if n > 4000 {
				return nil, &Failure{Class: Overflow, Limit: 4000, Actual: n}
			}
			parts = append(parts, fmt.Sprintf("%d/%d", req.Part, req.Parts))
			return says(note), nil
		}}
		w, err := Run(t.Context(), s, requestOf(toolRounds(6, 1500)...), newClock().options(RunOptions{Parallel: 1}))
		require.NoError(t, err)
		require.Equal(t, []string{"1/3", "2/3", "3/3", "0/0"}, parts)
		require.Equal(t, 3, w.Chunks)
	})
	t.Run("a failover with a larger window takes what cannot be cut", func(t *testing.T) {
		small := stub{open: func(context.Context, *Request) (Pending, error) { return nil, &Failure{Class: Overflow, Limit: 10} }}
		large := stub{open: func(context.Context, *Request) (Pending, error) { return says(note), nil }}
		w, err := Run(t.Context(), small, short(), newClock().options(RunOptions{Failover: []Summarizer{large}}))
		require.NoError(t, err)
		require.Equal(t, note, w.Text)
	})
	t.Run("what was opened is settled once", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var settled atomic.Int32
		s := stub{open: func(context.Context, *Request) (Pending, error) {
			cancel(errWhy)
			return pendingText{settled: &settled}, nil
		}}
		_, err := Run(ctx, s, short(), newClock().options(RunOptions{}))
		require.Equal(t, error(errWhy), err)
		require.Equal(t, int32(1), settled.Load())
	})
	t.Run("a panic is a failure, and its value stays out of it", func(t *testing.T) {
		for want, open := range map[string]func(context.Context, *Request) (Pending, error){
			"Open panicked with a string": func(context.Context, *Request) (Pending, error) { panic("hunter2") },
			"Open returned neither":       func(context.Context, *Request) (Pending, error) { return nil, nil },
			"Collect panicked with a *errors.errorString": func(context.Context, *Request) (Pending, error) {
				return pendingText{text: func(context.Context) (string, error) { panic(errors.New("hunter2")) }}, nil
			},
			"Collect returned neither": func(context.Context, *Request) (Pending, error) { return nothing{}, nil },
			"index out of range": func(context.Context, *Request) (Pending, error) {
				return pendingText{text: func(context.Context) (string, error) { return strings.Fields("")[0], nil }}, nil
			},
		} {
			_, err := Run(t.Context(), stub{open: open}, short(), newClock().options(RunOptions{}))
			var f *Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, Invalid, f.Class)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "hunter2")
			w, err := Run(t.Context(), stub{open: open}, short(), newClock().options(RunOptions{Fallback: NewExtractive(nil)}))
			require.NoError(t, err)
			require.True(t, w.Fallback)
		}
	})
	t.Run("the request is not modified", func(t *testing.T) {
		req := short()
		n := 0
		_, err := Run(t.Context(), stub{open: func(_ context.Context, r *Request) (Pending, error) {
			if n++; n == 1 {
				return says(""), nil
			}
			require.Equal(t, Empty, r.Failed)
			return says(note), nil
		}}, req, newClock().options(RunOptions{}))
		require.NoError(t, err)
		require.Equal(t, short().MaxTokens, req.MaxTokens)
		require.Empty(t, req.Correction)
		require.Zero(t, req.Items[0].size)
	})
}

// TestTheDeadlineIsOne: opening, reading and waiting together end by it, in
// time that passes for nothing.
func TestTheDeadlineIsOne(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for name, s := range map[string]stub{
		"open hangs": {open: func(ctx context.Context, _ *Request) (Pending, error) { return nil, hang(ctx) }},
		"read hangs": {open: func(context.Context, *Request) (Pending, error) {
			return pendingText{text: func(ctx context.Context) (string, error) { return "", hang(ctx) }}, nil
		}},
		"waits": {open: func(context.Context, *Request) (Pending, error) { return nil, &Failure{Class: Transient} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := Run(t.Context(), s, short(), &RunOptions{Deadline: 2 * time.Second, Attempts: 50, Guard: loose})
				var f *Failure
				require.ErrorAs(t, err, &f)
				require.LessOrEqual(t, time.Since(start), 2*time.Second)
				if name == "waits" {
					require.Equal(t, Transient, f.Class, "it gives up when the next wait would pass the deadline")
					return
				}
				require.Equal(t, Timeout, f.Class)
				require.ErrorIs(t, err, ErrDeadline)

				w, err := Run(t.Context(), s, short(), &RunOptions{Deadline: 2 * time.Second, Guard: loose, Fallback: NewExtractive(nil)})
				require.NoError(t, err)
				require.True(t, w.Fallback)

				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errWhy) })
				start = time.Now()
				_, err = Run(ctx, s, short(), &RunOptions{Guard: loose, Fallback: NewExtractive(nil)})
				require.Equal(t, error(errWhy), err)
				require.Equal(t, time.Second, time.Since(start), "cancellation is prompt")
			})
		})
	}
}

// TestBackoff: it doubles, is bounded and jittered, and can be canceled.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub{open: func(context.Context, *Request) (Pending, error) { return nil, &Failure{Class: Transient} }}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(errWhy) })
		start := time.Now()
		_, err := Run(ctx, s, short(), &RunOptions{Guard: loose})
		require.Equal(t, error(errWhy), err)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
	})
	r := newRun(stub{}, short(), &RunOptions{Jitter: func() float64 { return 0.999 }})
	for i, most := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
		require.InDelta(t, float64(most), float64(r.backoff(i)), float64(10*time.Millisecond))
	}
	require.LessOrEqual(t, r.backoff(60), 30*time.Second)
	r.o.Backoff = -1
	require.Zero(t, r.backoff(3))
}

func TestProgressIsTold(t *testing.T) {
	var n atomic.Int32
	srv := summarizetest.New(t, noter(&n))
	req := requestOf(toolRounds(6, 3000)...)
	var mu sync.Mutex
	var told []string
	req.Progress = func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf("%s %d/%d", p.Stage, p.Done, p.Total))
	}
	_, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{Window: 8000, MaxTokens: 500}), req, newClock().options(RunOptions{Parallel: 1}))
	require.NoError(t, err)
	all := strings.Join(told, ", ")
	require.Contains(t, all, "chunk 1/3")
	require.Contains(t, all, "chunk 3/3")
	require.Contains(t, all, "reduce")
}

// TestInstructionsReachEveryPath: chunks, reduce, retries, both shapes.
func TestInstructionsReachEveryPath(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text(""), summarizetest.Text(note))
	req := requestOf(toolRounds(6, 3000)...)
	req.Instructions, req.Language = "mind the GAP", "Klingon"
	req.Model, req.Envelope, req.Head = "scribe", envelope(), true
	w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{Window: 8000, MaxTokens: 500}), req, newClock().options(RunOptions{Parallel: 1}))
	require.NoError(t, err)
	require.Equal(t, []string{"chunk empty", "retry ok", "chunk ok", "chunk ok", "reduce ok"}, outcomes(w.Calls))
	replays := 0
	for _, r := range srv.Requests() {
		c := requireValid(t, r.Body)
		last := lastText(t, r)
		require.Contains(t, last, "mind the GAP")
		require.Contains(t, last, "Klingon")
		if len(c.Tools) > 0 {
			replays++
		}
	}
	require.Equal(t, 2, replays, "the first part shares the agent's cache, the others cannot")
}

// TestARequestThatWasNotSentCostsNothing.
func TestARequestThatWasNotSentCostsNothing(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text(note))
	_, err := newTestLLM(t, srv, LLMOptions{Window: 500}).Open(t.Context(), short())
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Overflow, f.Class)
	require.Empty(t, f.Calls)
	require.Empty(t, srv.Requests())
}

func TestAnEchoIsNoNote(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text(rules), summarizetest.Text(note))
	w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{}), short(), newClock().options(RunOptions{}))
	require.NoError(t, err)
	require.Equal(t, []string{"summary degenerate", "retry ok"}, outcomes(w.Calls))
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		key, value string
		want       time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second}, {"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "Sun, 01 Mar 2026 12:00:30 GMT", 30 * time.Second},
		{"Retry-After", "Sun, 01 Mar 2026 11:00:00 GMT", 0}, {"Retry-After", "soon", 0}, {"Retry-After", "-3", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond}, {"Retry-After", "1e99", 1e6 * time.Second},
		{"Retry-After-Ms", "1e99", 1e6 * time.Second}, {"Retry-After-Ms", "-250", 0},
	} {
		require.Equal(t, c.want, retryAfter(http.Header{c.key: {c.value}}, now), "%s: %s", c.key, c.value)
	}
	both := http.Header{"Retry-After-Ms": {"0"}, "Retry-After": {"7"}}
	require.Equal(t, 7*time.Second, retryAfter(both, now), "no milliseconds say nothing")
}

// TestSecretsAreSeenWholeWhenTextIsCut: a key at the place of a cut.
func TestSecretsAreSeenWholeWhenTextIsCut(t *testing.T) {
	var n atomic.Int32
	srv := summarizetest.New(t, noter(&n))
	red, err := NewRedactor(`SECRET-[0-9]{60}`)
	require.NoError(t, err)
	key := "SECRET-" + strings.Repeat("0123456789", 6)
	text := "begin " + strings.Repeat(key+" x ", 397)
	w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{Window: 2500, MaxTokens: 300, Redactor: red}), requestOf(session.UserText(text)), newClock().options(RunOptions{}))
	require.NoError(t, err)
	require.Greater(t, w.Chunks, 1)
	all, _ := inputs(srv)
	require.NotContains(t, all, "SECRET-0")
	require.NotContains(t, all, "012345678901234")
	require.Equal(t, 397, w.Redacted, "the secrets that the model did not see")
}

func TestCutText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "語", "🙂", "\n", "word ", strings.Repeat("x", 90), "語語語語語語語語"})).Draw(t, "text"), "")
		tokens := rapid.IntRange(1, 60).Draw(t, "tokens")
		pieces := cutText(s, tokens, t4)
		require.Equal(t, s, strings.Join(pieces, ""))
		for _, p := range pieces {
			require.True(t, utf8.ValidString(p))
			require.LessOrEqual(t, t4(p), max(tokens, 16))
		}
	})
}

// TestALearnedWindowIsKept: the next run of the same summarizer plans by it.
func TestALearnedWindowIsKept(t *testing.T) {
	var n atomic.Int32
	srv := summarizetest.NewConfig(t, summarizetest.Config{Script: []summarizetest.Reply{noter(&n)}, RealWindow: 6000, Estimate: requestT4})
	s := newTestLLM(t, srv, LLMOptions{MaxTokens: 500})
	for i, want := range []string{"summary overflow", "chunk ok"} {
		w, err := Run(t.Context(), s, requestOf(toolRounds(4, 2000)...), newClock().options(RunOptions{Parallel: 1}))
		require.NoError(t, err)
		require.Equal(t, want, outcomes(w.Calls)[0], "run %d", i)
	}
	require.Equal(t, 6000, s.(Windowed).Window())
}

// TestAProviderThatCountsMore: its numbers are put into our unit.
func TestAProviderThatCountsMore(t *testing.T) {
	var n atomic.Int32
	srv := summarizetest.NewConfig(t, summarizetest.Config{
		Script: []summarizetest.Reply{noter(&n)}, RealWindow: 12000, Estimate: func(r summarizetest.Request) int { return 2 * requestT4(r) },
	})
	s := newTestLLM(t, srv, LLMOptions{MaxTokens: 500})
	for i, want := range []int{1, 0} {
		w, err := Run(t.Context(), s, requestOf(toolRounds(8, 1500)...), newClock().options(RunOptions{}))
		require.NoError(t, err)
		require.Equal(t, want, strings.Count(strings.Join(outcomes(w.Calls), ","), "overflow"), "run %d: %v", i, outcomes(w.Calls))
	}
}

func TestNoFallbackAfterCancellation(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := stub{open: func(context.Context, *Request) (Pending, error) { cancel(errWhy); return nil, &Failure{Class: Invalid} }}
	asked := stub{open: func(context.Context, *Request) (Pending, error) {
		t.Error("the fallback was asked")
		return says(note), nil
	}}
	_, err := Run(ctx, s, short(), newClock().options(RunOptions{Fallback: asked}))
	require.Equal(t, error(errWhy), err)
}

func BenchmarkPlan100k(b *testing.B) {
	var msgs []session.Message
	for i := range 50_000 {
		id := fmt.Sprintf("c%d", i)
		msgs = append(msgs, session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: `{"path":"/a/b.go"}`}), session.ToolText(id, fill(140)))
	}
	req := requestOf(msgs...)
	s, err := NewLLM(LLMOptions{Model: "m", APIKey: "k", Window: 128_000})
	require.NoError(b, err)
	for b.Loop() {
		PlanCalls(s, req, nil)
	}
}
