package summarize

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

// scripted answers each request by its number, from 1.
func scripted(window int, text func(n int, req *Request) (string, error)) stub {
	var n atomic.Int32
	return stub{window: window, open: func(_ context.Context, req *Request) (Pending, error) {
		s, err := text(int(n.Add(1)), req)
		if err != nil {
			return nil, err
		}
		return says(s), nil
	}}
}

// TestPartsAreAskedFor: only the first part is the head of the surface, the notes on
// all of them fit the request that joins them, and the result is judged by the span.
func TestPartsAreAskedFor(t *testing.T) {
	var asked, opened []string
	s := scripted(10_000, func(_ int, req *Request) (string, error) {
		asked = append(asked, fmt.Sprintf("%d/%d %v %d", req.Part, req.Parts, req.Head, req.MaxTokens))
		return note, nil
	})
	req := requestOf(toolRounds(6, 3000)...)
	req.MaxTokens, req.Head = 4000, true
	w, err := Run(t.Context(), s, req, newClock().options(RunOptions{Parallel: 1, Opened: func(by string, attempt int) {
		opened = append(opened, fmt.Sprint(by, " ", attempt))
	}}))
	require.NoError(t, err)
	require.Equal(t, []string{"1/3 true 2262", "2/3 false 2262", "3/3 false 2262", "0/0 false 4000"}, asked)
	require.Equal(t, []string{"stub 1"}, opened, "it is told once")
	span := 0
	for _, it := range req.Items {
		span += it.Tokens
	}
	require.Equal(t, span, w.Verdict.Span)
}

// TestANoteOnAPartMayBeLonger than asked, and than the gain that the whole has to have.
func TestANoteOnAPartMayBeLonger(t *testing.T) {
	made := 0
	s := scripted(10_000, func(n int, req *Request) (string, error) {
		made = n
		if n == 1 {
			return fill(req.MaxTokens + 200), nil
		}
		return note, nil
	})
	req := requestOf(toolRounds(6, 3000)...)
	req.MaxTokens = 4000
	guard := *loose
	guard.MinGain = 0.7
	_, err := Run(t.Context(), s, req, newClock().options(RunOptions{Parallel: 1, Guard: &guard}))
	require.NoError(t, err)
	require.Equal(t, 4, made, "nothing was asked again")
}

func TestNotesThatDoNotGetFewer(t *testing.T) {
	made := 0
	s := scripted(10_000, func(n int, _ *Request) (string, error) {
		made = n
		return fill(3500), nil // two of them do not fit together
	})
	req := requestOf(toolRounds(4, 3000)...)
	req.MaxTokens = 4000
	_, err := Run(t.Context(), s, req, newClock().options(RunOptions{Parallel: 1}))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Overflow, f.Class)
	require.ErrorContains(t, err, "do not get fewer")
	require.Equal(t, 4, made)
}

// TestWhatIsLearnedHoldsForTheRest: a refusal of one part is not asked for again with
// each of the parts behind it.
func TestWhatIsLearnedHoldsForTheRest(t *testing.T) {
	limit, refused := 4000, 0
	s := scripted(0, func(_ int, req *Request) (string, error) {
		n := 0
		for _, it := range req.Items {
			n += t4(it.Message.Text())
		}
		if n > limit {
			refused++
			return "", &Failure{Class: Overflow, Limit: limit}
		}
		if req.Part == 1 {
			limit = 2500
		}
		return note, nil
	})
	_, err := Run(t.Context(), s, requestOf(toolRounds(8, 1500)...), newClock().options(RunOptions{Parallel: 1}))
	require.NoError(t, err)
	require.Equal(t, 2, refused)
}

// TestPiecesThatAreNeverSmallEnough end after so many cuts, whatever the calls that
// are left.
func TestPiecesThatAreNeverSmallEnough(t *testing.T) {
	for name, less := range map[string]int{"a stated limit": 1, "a guess": 0} {
		t.Run(name, func(t *testing.T) {
			made := 0
			req := short()
			req.Count = func(s string) int { return 1000 * len(s) }
			s := scripted(0, func(n int, req *Request) (string, error) {
				made = n
				f := &Failure{Class: Overflow}
				if less > 0 {
					_, entries := sizes(req, req.Items)
					f.Limit = entries + overhead(&model{}, req) - less
				}
				return "", f
			})
			_, err := Run(t.Context(), s, req, newClock().options(RunOptions{Parallel: 1, MaxCalls: 500}))
			var f *Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, Overflow, f.Class)
			require.ErrorContains(t, err, "cannot be cut small enough")
			require.LessOrEqual(t, made, maxDepth+3)
		})
	}
}

// TestThePlanIsTheBound: where as many calls are allowed as are planned, they are
// enough, and of one less none is made.
func TestThePlanIsTheBound(t *testing.T) {
	made := 0
	s := scripted(2000, func(n int, req *Request) (string, error) {
		made = n
		return fill(min(req.MaxTokens, 180)), nil
	})
	req := requestOf(toolRounds(30, 700)...)
	planned := PlanCalls(s, req, nil)
	_, err := Run(t.Context(), s, req, newClock().options(RunOptions{Parallel: 1, MaxCalls: planned - 1}))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Budget, f.Class)
	require.Zero(t, made)
	_, err = Run(t.Context(), s, req, newClock().options(RunOptions{Parallel: 1, MaxCalls: planned}))
	require.NoError(t, err)
	require.LessOrEqual(t, made, planned)
	require.GreaterOrEqual(t, made, planned-1, "the plan is close")
}

// TestAReplayKeepsToWhatWasLearned: where no number was told, the agent's own request
// is not sent again with a part for which only a transcript is small enough.
func TestAReplayKeepsToWhatWasLearned(t *testing.T) {
	var n atomic.Int32
	srv := summarizetest.NewConfig(t, summarizetest.Config{
		Script: []summarizetest.Reply{noter(&n)}, RealWindow: 6000, Estimate: requestT4,
		Overflow: func(int, int) summarizetest.Reply {
			return summarizetest.Fail(400, "Your input exceeds the context window of this model.")
		},
	})
	req := requestOf(toolRounds(8, 1000)...)
	req.Model, req.Envelope, req.Head = "scribe", envelope(), true
	req.Envelope.System[0].Parts = []session.Part{session.Text{Text: fill(4000)}}
	w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{MaxTokens: 300}), req, newClock().options(RunOptions{Parallel: 1}))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(strings.Join(outcomes(w.Calls), ","), "overflow"), "%v", outcomes(w.Calls))
}

// TestChunksAreWithinTheRoom, the marks at the cuts of a text included, and together
// cost no more than what was cut.
func TestChunksAreWithinTheRoom(t *testing.T) {
	for _, room := range []int{200, 333, 1000} {
		for name, text := range map[string]string{"lines": strings.Repeat("a line of a log\n", 900), "one line": fill(4000)} {
			req := sized(requestOf(session.UserText("go"), session.UserText(text), session.AssistantText("ok")))
			r := newRun(stub{}, req, nil)
			tokens := 0
			for _, c := range r.chunked(r.models[0], req, req.Items, room) {
				_, total := sizes(req, c)
				require.LessOrEqual(t, total, room, name)
				for _, it := range c {
					tokens += it.Tokens
				}
			}
			span := 0
			for _, it := range req.Items {
				span += it.Tokens
			}
			require.LessOrEqual(t, tokens, span, name)
			require.Greater(t, tokens, span*9/10, name)
		}
	}
}

// TestPiecesOfATextAreEven: none is much smaller than it could be.
func TestPiecesOfATextAreEven(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		count func(string) int
	}{
		"a line end early on":    {"short\n" + strings.Repeat("x", 3994), t4},
		"dense at the beginning": {strings.Repeat("x", 1000) + strings.Repeat("語", 20), utf8.RuneCountInString},
	} {
		pieces := cutText(c.text, 102, c.count)
		require.Equal(t, c.text, strings.Join(pieces, ""))
		for _, p := range pieces[:len(pieces)-1] {
			require.LessOrEqual(t, c.count(p), 102, name)
			require.Greater(t, c.count(p), 70, name)
		}
	}
}
