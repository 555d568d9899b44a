package summarize

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

func TestRunDefaults(t *testing.T) {
	o := newRun(stub{}, short(), nil).o
	require.Equal(t, []any{3, 4, 64, 5 * time.Minute, 500 * time.Millisecond}, []any{o.Attempts, o.Parallel, o.MaxCalls, o.Deadline, o.Backoff})
}

// TestBudgetOfEachAttempt: what was cut off or too long is asked for shorter, what
// failed in another way is not, and a budget never becomes none.
func TestBudgetOfEachAttempt(t *testing.T) {
	for _, c := range []struct {
		name   string
		class  Class
		budget int
		want   []int
	}{
		{"truncated", Truncated, 2000, []int{2000, 1333, 888}},
		{"too long", Inflated, 2000, []int{2000, 1333, 888}},
		{"empty", Empty, 2000, []int{2000, 2000, 2000}},
		{"the least budget", Truncated, 1, []int{1, 1, 1}},
		{"no budget", Truncated, 0, []int{0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var budgets []int
			s := scripted(0, func(_ int, r *Request) (string, error) {
				budgets = append(budgets, r.MaxTokens)
				return "", &Failure{Class: c.class}
			})
			req := short()
			req.MaxTokens = c.budget
			_, err := Run(t.Context(), s, req, newClock().options(RunOptions{}))
			require.Error(t, err)
			require.Equal(t, c.want, budgets)
		})
	}
}

// TestAWaitUpToTheDeadline is not begun: nothing could follow it.
func TestAWaitUpToTheDeadline(t *testing.T) {
	s := scripted(0, func(int, *Request) (string, error) {
		return "", &Failure{Class: RateLimited, RetryAfter: time.Hour}
	})
	for deadline, want := range map[time.Duration][]time.Duration{
		time.Hour:     nil,
		time.Hour + 1: {time.Hour},
	} {
		k := newClock()
		_, err := Run(t.Context(), s, short(), k.options(RunOptions{Deadline: deadline}))
		var f *Failure
		require.ErrorAs(t, err, &f)
		require.Equal(t, RateLimited, f.Class)
		require.Equal(t, want, k.waits)
	}
}

// TestNoRequestAfterTheEnd: not even one that needs no wait.
func TestNoRequestAfterTheEnd(t *testing.T) {
	for _, class := range []Class{Empty, Transient, Auth} {
		ctx, cancel := context.WithCancelCause(t.Context())
		made := 0
		s := scripted(0, func(n int, _ *Request) (string, error) {
			made = n
			cancel(errWhy)
			return "", &Failure{Class: class}
		})
		_, err := Run(ctx, s, short(), newClock().options(RunOptions{Backoff: -1, Failover: []Summarizer{s}}))
		require.Equal(t, error(errWhy), err)
		require.Equal(t, 1, made, class)
	}
}

// TestASpentBudgetSaysWhatFailed, though there are others who could be asked.
func TestASpentBudgetSaysWhatFailed(t *testing.T) {
	dull := scripted(0, func(int, *Request) (string, error) { return "", &Failure{Class: Transient, Err: errWhy} })
	other := scripted(0, func(int, *Request) (string, error) { t.Error("asked"); return note, nil })
	_, err := Run(t.Context(), dull, short(), newClock().options(RunOptions{MaxCalls: 2, Failover: []Summarizer{other}}))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Budget, f.Class)
	require.ErrorIs(t, err, errWhy)
}

// TestALostCacheIsReported whichever part lost it.
func TestALostCacheIsReported(t *testing.T) {
	s := stub{window: 10_000, open: func(_ context.Context, req *Request) (Pending, error) {
		return ready{&Summary{Text: note, CacheLost: req.Part == 1, Redacted: 1}}, nil
	}}
	w, err := Run(t.Context(), s, requestOf(toolRounds(6, 3000)...), newClock().options(RunOptions{Parallel: 1}))
	require.NoError(t, err)
	require.True(t, w.CacheLost)
	require.Equal(t, w.Chunks+1, w.Redacted)
}

// ready is a summary that is there.
type ready struct{ *Summary }

func (r ready) Collect(context.Context) (*Summary, error) { return r.Summary, nil }
func (ready) Cancel()                                     {}

// TestTheFallbackOfDullMessages: what the embedded summarizer quotes may be little.
func TestTheFallbackOfDullMessages(t *testing.T) {
	dead := scripted(0, func(int, *Request) (string, error) { return "", &Failure{Class: Invalid} })
	w, err := Run(t.Context(), dead, longSpan(session.UserText("hm"), session.AssistantText("ok")),
		newClock().options(RunOptions{Fallback: NewExtractive(nil), Guard: &GuardOptions{NoSections: true}}))
	require.NoError(t, err)
	require.True(t, w.Fallback)
}

// TestOtherWaysOfBeingTooLong: an overflow that is not told as one, and the span is cut.
func TestOtherWaysOfBeingTooLong(t *testing.T) {
	for name, reply := range map[string]summarizetest.Reply{
		"the reply ran into the window": summarizetest.Reply{Content: "The pump", Finish: "length"}.WithUsage(summarizetest.Usage{Prompt: 2900, Completion: 100}),
		"too many bytes":                summarizetest.Fail(413, "Request Entity Too Large"),
	} {
		t.Run(name, func(t *testing.T) {
			srv := summarizetest.New(t, reply, summarizetest.Text(note))
			w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{Window: 3000, MaxTokens: 500}), requestOf(toolRounds(2, 700)...), newClock().options(RunOptions{}))
			require.NoError(t, err)
			require.Equal(t, "summary overflow", outcomes(w.Calls)[0])
			require.Greater(t, w.Chunks, 1)
		})
	}
}

// TestShapesOfReplies: other names for the same, and thoughts among the parts of a text.
func TestShapesOfReplies(t *testing.T) {
	hc := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answer(`{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":[
			{"type":"thinking","text":"SCRATCH"},{"type":"text","text":"The pump "},{"type":"output_text","text":"is fine."}]}}],
			"usage":{"prompt_tokens":90,"completion_tokens":8,"prompt_cache_hit_tokens":64}}`), nil
	})}
	config := LLMOptions{BaseURL: "http://test.invalid/v1", Model: "scribe", HTTPClient: hc, NoStream: true}
	s, err := NewLLM(config)
	require.NoError(t, err)
	w, err := Run(t.Context(), s, short(), newClock().options(RunOptions{}))
	require.NoError(t, err)
	require.Equal(t, "The pump is fine.", w.Text)
	require.Equal(t, 64, w.Calls[0].CacheRead)
}

// TestTheSmallerWindowHolds: a refusal does not make a window larger than it was set.
func TestTheSmallerWindowHolds(t *testing.T) {
	s, err := NewLLM(LLMOptions{Model: "m", APIKey: "k", Window: 8000})
	require.NoError(t, err)
	for learned, want := range map[int64]int{0: 8000, 6000: 6000, 9000: 8000} {
		s.(*llm).window.Store(learned)
		require.Equal(t, want, s.(Windowed).Window())
	}
}

// TestAnOverflowByTold: a provider that says by how much has said how much it was.
func TestAnOverflowByTold(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Fail(400, "too many tokens: size limit exceeded by 3000 tokens. Try using shorter or fewer inputs. The limit for this model is 6000 tokens."))
	_, err := newTestLLM(t, srv, LLMOptions{}).Open(t.Context(), short())
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, []any{Overflow, 6000, 9000}, []any{f.Class, f.Limit, f.Actual})
}
