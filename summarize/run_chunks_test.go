package summarize

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

// noter answers every request with a short text that names it.
func noter(n *atomic.Int32) summarizetest.Reply {
	return summarizetest.Func(func(summarizetest.Request) summarizetest.Reply {
		return summarizetest.Text(fmt.Sprintf("Note %d.", n.Add(1)))
	})
}

func inputs(srv *summarizetest.Server) (all string, largest int) {
	var b strings.Builder
	for _, r := range srv.Requests() {
		largest = max(largest, requestT4(r))
		c, _ := r.Chat()
		for _, m := range c.Messages {
			b.WriteString(m.Text)
		}
	}
	return b.String(), largest
}

func toolRounds(n, tokens int) []session.Message {
	out := []session.Message{session.UserText("Migrate the schema.")}
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		out = append(out,
			session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: fmt.Sprintf(`{"f":%d}`, i)}),
			session.ToolText(id, fmt.Sprintf("FILE-%d ", i)+fill(tokens)))
	}
	return out
}

func TestSpanAboveTheWindowIsChunked(t *testing.T) {
	var n atomic.Int32
	srv := summarizetest.New(t, noter(&n))
	s := newTestLLM(t, srv, LLMOptions{Window: 24000, MaxTokens: 2000})
	req := requestOf(toolRounds(6, 4000)...)
	plan := PlanCalls(s, req, &RunOptions{})
	w, err := Run(t.Context(), s, req, newClock().options(RunOptions{}))
	require.NoError(t, err)
	require.Equal(t, 2, w.Chunks)
	require.Equal(t, []string{"chunk ok", "chunk ok", "reduce ok"}, outcomes(w.Calls))
	require.Equal(t, 3, plan, "the plan is what was done")
	all, largest := inputs(srv)
	require.LessOrEqual(t, largest, 22000)
	for i := range 6 {
		require.Contains(t, all, fmt.Sprintf("FILE-%d ", i))
	}
	require.Contains(t, lastText(t, srv.Requests()[2]), "Note 1.")
	require.Contains(t, lastText(t, srv.Requests()[2]), "Note 2.")
}

// TestReasoningDoesNotCount: the size of a span is that of what is sent.
func TestReasoningDoesNotCount(t *testing.T) {
	var n atomic.Int32
	srv := summarizetest.New(t, noter(&n))
	think := session.AssistantText("Short plan.")
	think.Parts = append([]session.Part{session.Reasoning{Text: "HIDDEN " + fill(9000)}}, think.Parts...)
	w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{Window: 8000, MaxTokens: 1000}),
		requestOf(session.UserText("Plan."), think, session.UserText(fill(4000)), session.AssistantText("ok")), newClock().options(RunOptions{}))
	require.NoError(t, err)
	require.Equal(t, 1, w.Chunks)
	all, largest := inputs(srv)
	require.LessOrEqual(t, largest, 7000)
	require.NotContains(t, all, "HIDDEN")
}

func TestWrongWindowIsLearnedByComputation(t *testing.T) {
	span := []session.Message{session.UserText("Start.")}
	for i := range 20 {
		span = append(span, session.UserText(fmt.Sprintf("item %d %s", i, fill(250))), session.AssistantText(fmt.Sprintf("ok %d", i)))
	}
	silent := func(int, int) summarizetest.Reply {
		return summarizetest.Reply{Status: 400, Err: &summarizetest.Error{
			Code: "context_length_exceeded", Message: "Your input exceeds the context window of this model.",
		}}
	}
	for _, c := range []struct {
		name     string
		real     int
		window   int
		overflow func(int, int) summarizetest.Reply
		calls    int
	}{
		{"no number, halved", 3000, 100000, silent, 6},
		{"no number, halved twice", 1600, 100000, silent, 13},
		{"a number, window unknown", 3000, 0, summarizetest.Overflow, 6},
		{"a number that is far off", 1500, 100000, summarizetest.Overflow, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int32
			srv := summarizetest.NewConfig(t, summarizetest.Config{
				Script: []summarizetest.Reply{noter(&n)}, RealWindow: c.real, Estimate: requestT4, Overflow: c.overflow,
			})
			s := newTestLLM(t, srv, LLMOptions{Window: c.window, MaxTokens: 300})
			w, err := Run(t.Context(), s, requestOf(span...), newClock().options(RunOptions{}))
			require.NoError(t, err)
			require.LessOrEqual(t, len(w.Calls), c.calls, "%v", outcomes(w.Calls))
			require.Len(t, srv.Requests(), len(w.Calls))
			all, _ := inputs(srv)
			for i := range 20 {
				require.Contains(t, all, fmt.Sprintf("item %d ", i))
			}
			t.Log(outcomes(w.Calls))
		})
	}
}

func TestUnitAboveTheWindowIsCutInsideItsText(t *testing.T) {
	var n atomic.Int32
	srv := summarizetest.New(t, noter(&n))
	var b strings.Builder
	for i := range 900 {
		fmt.Fprintf(&b, "line %d héé ends here\n", i)
	}
	span := []session.Message{
		session.UserText("read it"),
		session.AssistantText("", session.ToolCall{ID: "c", Name: "read", Arguments: "{}"}), session.ToolText("c", b.String()),
	}
	w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{Window: 3000, MaxTokens: 300}), requestOf(span...), newClock().options(RunOptions{}))
	require.NoError(t, err)
	require.Greater(t, w.Chunks, 2)
	require.Contains(t, lastText(t, srv.Requests()[len(w.Calls)-1]), "#0 user: read it", "what is shorter than a note goes as it is")
	all, largest := inputs(srv)
	require.LessOrEqual(t, largest, 2700)
	for i := range 900 {
		require.Contains(t, all, fmt.Sprintf("line %d héé ends here\n", i), "no line is lost or cut")
	}
	require.Contains(t, all, "(piece 2 of ")
	require.NotContains(t, all, "\uFFFD")
}

func TestFinishedChunksAreKept(t *testing.T) {
	noLeaks(t)
	held := summarizetest.Text("late").WithGate(make(chan struct{}))
	srv := summarizetest.New(t, summarizetest.Text("Part A."), held, summarizetest.Text("Part B."), summarizetest.Text("Parts A and B."))
	s := newTestLLM(t, srv, LLMOptions{Window: 5000, MaxTokens: 600})
	timeOut(t, s, srv, 2)
	w, err := Run(t.Context(), s,
		requestOf(session.UserText("A "+fill(3500)), session.AssistantText("ok"), session.UserText("B "+fill(3500)), session.AssistantText("ok")),
		newClock().options(RunOptions{Parallel: 1}))
	require.NoError(t, err)
	require.Equal(t, "Parts A and B.", w.Text)
	require.ElementsMatch(t, []string{"chunk ok", "chunk timeout", "retry ok", "reduce ok"}, outcomes(w.Calls))
	_, largest := inputs(srv)
	require.LessOrEqual(t, largest, 4400)
}

func TestChunksRunSideBySideWithinTheBound(t *testing.T) {
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	var running, most atomic.Int32
	srv := summarizetest.New(t, summarizetest.Func(func(r summarizetest.Request) summarizetest.Reply {
		most.Store(max(most.Load(), running.Add(1)))
		<-gate
		running.Add(-1)
		return summarizetest.Text("Part.")
	}))
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{Window: 6000, MaxTokens: 500}), requestOf(toolRounds(12, 3000)...),
			newClock().options(RunOptions{Parallel: 3}))
		done <- err
	}()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // where they run one after the other
	defer stop()
	_, err := srv.Await(ctx, 3)
	require.NoError(t, err)
	require.Len(t, srv.Requests(), 3)
	release()
	require.NoError(t, <-done)
	require.LessOrEqual(t, most.Load(), int32(3))
}

func TestManyChunksReduceInLevels(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Func(func(r summarizetest.Request) summarizetest.Reply {
		return summarizetest.Text(fill(180))
	}))
	s := newTestLLM(t, srv, LLMOptions{Window: 2000, MaxTokens: 250})
	req := requestOf(toolRounds(30, 700)...)
	plan := PlanCalls(s, req, nil)
	w, err := Run(t.Context(), s, req, newClock().options(RunOptions{Guard: &GuardOptions{NoSections: true, NoFloor: true, KeepInvented: true}, MaxCalls: 200}))
	require.NoError(t, err)
	_, largest := inputs(srv)
	require.LessOrEqual(t, largest, 1750)
	require.LessOrEqual(t, len(w.Calls), plan+2, "the plan is close: %d", plan)
	require.Contains(t, outcomes(w.Calls), "reduce ok")
}

func TestPlanAboveTheBudgetCostsNothing(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text("x"))
	w, err := Run(t.Context(), newTestLLM(t, srv, LLMOptions{Window: 2000}), requestOf(toolRounds(30, 700)...), newClock().options(RunOptions{MaxCalls: 5}))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Budget, f.Class)
	require.Nil(t, w)
	require.Empty(t, srv.Requests())
}

func TestBalancedCuts(t *testing.T) {
	call := func(ids ...string) session.Message {
		var calls []session.ToolCall
		for _, id := range ids {
			calls = append(calls, session.ToolCall{ID: id, Name: "t"})
		}
		return session.AssistantText("", calls...)
	}
	items := itemsOf(
		session.UserText("go"),
		call("a", "b"), session.ToolText("b", "1"), session.ToolText("a", "2"),
		call("a"), session.ToolText("a", "id again"),
		call("lost"), session.UserText("never mind"),
		session.ToolText("orphan", "?"),
		call("a"), session.AssistantText("done"),
		call("c"), call("c"), session.ToolText("c", "of both"), session.UserText("thanks"),
	)
	require.Equal(t, []bool{true, true, false, false, true, false, true, true, true, true, true, true, false, false, true}, balanced(items))
}

func TestCancelIsPrompt(t *testing.T) {
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprintf("whole reply %v", whole), func(t *testing.T) {
			noLeaks(t)
			srv := summarizetest.New(t, summarizetest.Text(note).WithGate(make(chan struct{})))
			ctx, cancel := context.WithCancelCause(t.Context())
			why := fmt.Errorf("the user pressed escape")
			go func() {
				if _, err := srv.Await(t.Context(), 2); err == nil {
					cancel(why)
				}
			}()
			w, err := Run(ctx, newTestLLM(t, srv, LLMOptions{Window: 6000, MaxTokens: 500, NoStream: whole}), requestOf(toolRounds(4, 3000)...),
				newClock().options(RunOptions{Parallel: 2, Fallback: NewExtractive(nil)}))
			require.Equal(t, why, err)
			require.Equal(t, []string{"chunk canceled", "chunk canceled"}, outcomes(w.Calls))
			require.Len(t, srv.Requests(), 2)
		})
	}
}

func TestFailoverAndFallback(t *testing.T) {
	dead := summarizetest.New(t, summarizetest.Fail(401, "Incorrect API key"))
	well := summarizetest.New(t, summarizetest.Text(note))
	a, b := newTestLLM(t, dead, LLMOptions{Model: "a"}), newTestLLM(t, well, LLMOptions{Model: "b"})
	req := func() *Request {
		return requestOf(session.UserText("check the pump "+fill(700)), session.AssistantText("Checked."))
	}

	w, err := Run(t.Context(), a, req(), newClock().options(RunOptions{Failover: []Summarizer{b}}))
	require.NoError(t, err)
	require.Equal(t, "b", w.Summarizer)
	require.False(t, w.Fallback)
	require.Equal(t, []string{"summary auth", "summary ok"}, outcomes(w.Calls))
	require.Equal(t, "a", w.Calls[0].Model)

	w, err = Run(t.Context(), a, req(), newClock().options(RunOptions{Fallback: NewExtractive(nil)}))
	require.NoError(t, err)
	require.True(t, w.Fallback)
	require.Equal(t, "extractive", w.Summarizer)
	require.Equal(t, []string{"summary auth"}, outcomes(w.Calls), "the failed call is on record")

	_, err = Run(t.Context(), a, req(), newClock().options(RunOptions{}))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Auth, f.Class)
	require.Len(t, f.Calls, 1)
}

// TestFailoverToASmallerWindow: what the first model left undone is cut for the
// second one.
func TestFailoverToASmallerWindow(t *testing.T) {
	dead := summarizetest.New(t, summarizetest.Fail(401, "Incorrect API key"))
	var n atomic.Int32
	small := summarizetest.New(t, noter(&n))
	run := func(calls int) *Written {
		w, err := Run(t.Context(), newTestLLM(t, dead, LLMOptions{Model: "large", Window: 100_000}), requestOf(toolRounds(6, 3000)...),
			newClock().options(RunOptions{MaxCalls: calls, Failover: []Summarizer{newTestLLM(t, small, LLMOptions{Model: "small", Window: 8000, MaxTokens: 500})}}))
		require.NoError(t, err)
		return w
	}
	w := run(0)
	require.Equal(t, "small", w.Summarizer)
	require.Len(t, dead.Requests(), 1, "a dead key is tried once")
	require.Len(t, small.Requests(), len(w.Calls)-1, "only what was sent is on record")
	_, largest := inputs(small)
	require.LessOrEqual(t, largest, 7500)
	run(len(w.Calls)) // and counts against the budget
}
