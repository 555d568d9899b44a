package detect_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentcompact/agentcompact/detect"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a detector with a clock and everything that it ever said.
type world struct {
	t   *testing.T
	d   *detect.Detector
	now time.Time
	all []lifecycle.Transition
}

func newWorld(t *testing.T, change func(*detect.Options)) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	o := detect.Options{Now: func() time.Time { return w.now }}
	if change != nil {
		change(&o)
	}
	var err error
	w.d, err = detect.New(&o)
	require.NoError(t, err)
	return w
}

func meta(branch, trace string) detect.Meta {
	return detect.Meta{Branch: branch, Session: "s-" + branch, Trace: trace, Leg: "leg-" + trace, Attempt: 1}
}

// open sends a request, after a preview that must agree and change nothing.
func (w *world) open(q detect.Request) []string {
	w.t.Helper()
	p := w.d.PreviewRequest(q)
	require.Equal(w.t, p, w.d.PreviewRequest(q), "a preview has no effect")
	out := w.d.RequestOpened(q)
	w.all = append(w.all, out...)
	switch p.Kind {
	case lifecycle.PreviewStartCandidate:
		require.Empty(w.t, kinds(out, lifecycle.OutcomeCompleted))
		require.NotEmpty(w.t, p.BoundaryFingerprint)
		if p.TransactionID == "" {
			require.Len(w.t, kinds(out, lifecycle.OutcomeStarted), 1)
		}
	case lifecycle.PreviewCompletionCandidate:
		done := kinds(out, lifecycle.OutcomeCompleted)
		require.Len(w.t, done, 1)
		require.Equal(w.t, p.RuleID, done[0].Event.RuleID)
		require.Equal(w.t, p.Evidence, done[0].Event.Evidence)
		if p.TransactionID != "" {
			require.Equal(w.t, p.TransactionID, done[0].Event.TransactionID)
		}
	default:
		require.Equal(w.t, lifecycle.PreviewNone, p.Kind)
		require.Empty(w.t, kinds(out, lifecycle.OutcomeStarted))
		require.Empty(w.t, kinds(out, lifecycle.OutcomeCompleted))
	}
	return words(out)
}

// release hands out a piece of a response, after a preview.
func (w *world) release(r detect.Response) []string {
	w.t.Helper()
	p := w.d.PreviewResponse(r)
	require.Equal(w.t, p, w.d.PreviewResponse(r), "a preview has no effect")
	out := w.d.ResponseReleased(r)
	w.all = append(w.all, out...)
	if done := kinds(out, lifecycle.OutcomeCompleted); len(done) > 0 {
		require.Equal(w.t, lifecycle.PreviewCompletionCandidate, p.Kind)
		require.Equal(w.t, p.TransactionID, done[0].Event.TransactionID)
	}
	return words(out)
}

// end closes every branch and checks that each start has one end.
func (w *world) end() {
	w.t.Helper()
	w.now = w.now.Add(1000 * time.Hour)
	w.all = append(w.all, w.d.Sweep()...)
	require.Zero(w.t, w.d.Branches())
	require.NoError(w.t, lifecycletest.Check(w.all))
}

func kinds(list []lifecycle.Transition, o lifecycle.Outcome) []lifecycle.Transition {
	var out []lifecycle.Transition
	for _, t := range list {
		if t.Detail.Outcome == o {
			out = append(out, t)
		}
	}
	return out
}

// words are transitions as "started rule" and "aborted rule: reason".
func words(list []lifecycle.Transition) []string {
	var out []string
	for _, t := range list {
		s := string(t.Detail.Outcome) + " " + t.Event.RuleID
		if t.Detail.Code != "" {
			s += ": " + t.Detail.Code
		}
		out = append(out, s)
	}
	return out
}

func user(text string) *session.Message { m := session.UserText(text); return &m }
func model(text string) *session.Message {
	m := session.AssistantText(text)
	return &m
}

func call(id, args string) *session.Message {
	m := session.AssistantText("", session.ToolCall{ID: id, Name: "bash", Arguments: args})
	return &m
}
func result(id, text string) *session.Message { m := session.ToolText(id, text); return &m }

func system(text string) *session.Message {
	return &session.Message{Role: session.RoleSystem, Source: session.Source{Kind: session.SourceUser}, Parts: []session.Part{session.Text{Text: text}}}
}

func opaque(kind, raw string) *session.Message {
	return &session.Message{Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel}, Parts: []session.Part{session.Opaque{Kind: kind, Raw: json.RawMessage(raw)}}}
}

// long is a conversation of n rounds of about 1 000 tokens each.
func long(n int) []*session.Message {
	list := []*session.Message{user("Build the parser, please.")}
	for i := range n {
		id := fmt.Sprint("c", i)
		list = append(list, call(id, fmt.Sprintf(`{"cmd":"step %d"}`, i)), result(id, strings.Repeat(fmt.Sprintf("line %d ", i), 560)))
	}
	return append(list, model("That is step one."), user("And now the lexer."))
}

func with(list []*session.Message, more ...*session.Message) []*session.Message {
	return append(list[:len(list):len(list)], more...)
}

func ask(branch, trace string, messages ...*session.Message) detect.Request {
	return detect.Request{Meta: meta(branch, trace), Messages: messages}
}

const (
	codexAsk  = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that will resume the task.\n\nInclude:\n- Current progress"
	codexDone = "Another language model started to solve this problem and produced a summary of its thinking process. You also have access to the state of the tools that were used by that language model. Here is the summary produced by the other language model, use the information in this summary to assist with your own analysis:\nThe parser is half done."
	codex     = "codex.local_compaction.v1"
)

func TestL4402ProtocolOperation(t *testing.T) {
	w := newWorld(t, nil)
	q := ask("a", "1", with(long(3), user(codexAsk))...)
	q.Compact = true
	require.Equal(t, []string{"started " + detect.RuleProtocol}, w.open(q))
	require.Equal(t, lifecycle.EvidenceProtocolStrict, w.all[0].Event.Evidence)
	e := w.all[0].Event
	require.Equal(t, []any{"a", "s-a", "1", "leg-1", 1, w.now, lifecycle.PhaseStarted}, []any{e.ALegID, e.SessionID, e.TraceID, e.BLegID, e.AttemptSeq, e.OccurredAt, e.Phase})
	w.end()
}

func TestL4403NearMisses(t *testing.T) {
	for _, text := range []string{
		"Please summarize our conversation.", "Summarize the <conversation> above.", "What does CONTEXT CHECKPOINT COMPACTION mean?",
		"Grep for 'You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM'", "compaction", "text only, please",
		"Your task is to create a detailed summary of the meeting.", "Create a <state_snapshot> component in React.", "# USER stories\nsummarize them",
		"Condense and summarize the conversation module.", "<conversation> is our new tag; add a checkpoint to it", "objective, important details, work state, next move, relevant files",
	} {
		w := newWorld(t, nil)
		require.Empty(t, w.open(ask("a", "1", with(long(12), user(text))...)), text)
	}
}

func TestL4404GenericSummary(t *testing.T) {
	w := newWorld(t, nil)
	require.Empty(t, w.open(ask("a", "1", user("Summarize the conversation: "+strings.Repeat("hello ", 9000)))))
	require.Empty(t, w.release(detect.Response{Meta: meta("a", "1"), Text: "A summary.", Done: true, Finish: "stop"}))
}

func TestL4407CompactionItem(t *testing.T) {
	w := newWorld(t, nil)
	list := long(12)
	require.Empty(t, w.open(ask("a", "1", list...)))
	item := detect.Response{Meta: meta("a", "1"), Item: "compaction", ItemID: "cmp_1"}
	require.Equal(t, []string{"completed " + detect.RuleProtocol}, w.release(item))
	require.Empty(t, w.release(item), "the same item again")
	require.Empty(t, w.release(detect.Response{Meta: meta("a", "1"), Item: "compaction_trigger", ItemID: "x"}))
	// The next request has the item in its history: the same compaction.
	next := []*session.Message{opaque("compaction", `{"type":"compaction","encrypted_content":"x"}`), list[len(list)-1]}
	require.Empty(t, w.open(ask("a", "2", next...)))
	require.Empty(t, w.open(ask("a", "3", with(next, model("ok"), user("go on"))...)))
	// An item that no response of ours brought is seen in the request, once.
	other := []*session.Message{opaque("compaction", `{"type":"compaction","encrypted_content":"y"}`), user("and on")}
	require.Equal(t, []string{"completed " + detect.RuleProtocol}, w.open(ask("a", "4", other...)))
	require.Empty(t, w.open(ask("a", "5", with(other, model("ok"))...)))
	w.end()
}

func TestL4408CompactCallEnds(t *testing.T) {
	w := newWorld(t, nil)
	q := ask("a", "1", long(3)...)
	q.Compact = true
	require.Len(t, w.open(q), 1)
	done := detect.Response{Meta: meta("a", "1"), Done: true, Status: "completed"}
	require.Equal(t, []string{"completed " + detect.RuleProtocol}, w.release(done))
	require.Empty(t, w.release(done))
	require.Equal(t, w.all[0].Event.TransactionID, w.all[1].Event.TransactionID)
	w.end()
}

func TestL4409TerminalVariants(t *testing.T) {
	for _, c := range []struct {
		status, finish string
		ok             bool
	}{
		{"", "stop", true}, {"", " End_Turn ", true}, {"completed", "content_filter", true},
		{"incomplete", "stop", false}, {"failed", "", false}, {"cancelled", "", false}, {"", "length", false}, {"", "max_tokens", false},
		{"", "content_filter", false}, {"", "tool_calls", false}, {"", "what", false}, {"", "", false},
	} {
		w := newWorld(t, nil)
		q := ask("a", "1", long(3)...)
		q.Compact = true
		w.open(q)
		got := w.release(detect.Response{Meta: meta("a", "1"), Done: true, Status: c.status, Finish: c.finish})
		if c.ok {
			require.Equal(t, []string{"completed " + detect.RuleProtocol}, got, "%+v", c)
		} else {
			require.Equal(t, []string{"aborted " + detect.RuleProtocol + ": " + detect.ReasonResponse}, got, "%+v", c)
		}
		require.Len(t, w.open(q), 1, "what failed does not stand in the way of the next")
		w.end()
	}
}

// summary plays a Claude Code summary whose continuation text is unknown, so
// that only the shape of the next request tells.
func summary(w *world, deltas ...string) []string {
	list := long(12)
	w.open(ask("a", "1", list...))
	w.open(ask("a", "2", with(list, user(fixture(w.t, "claude_code.compaction.v1").Request.Messages[0].Text))...))
	for i, s := range deltas {
		r := detect.Response{Meta: meta("a", "2"), Text: s}
		if i == len(deltas)-1 {
			r.Done, r.Finish = true, "end_turn"
		}
		require.Empty(w.t, w.release(r))
	}
	return w.open(ask("a", "3", user("Continue from here: a custom text"), user("go on"), model("ok"), user("x")))
}

func TestL4410SplitMark(t *testing.T) {
	require.Equal(t, []string{"completed claude_code.compaction.v1"}, summary(newWorld(t, nil), "<analysis>x</analysis><su", "mm", "ary>text</summary>"))
	require.Equal(t, []string{"aborted claude_code.compaction.v1: " + detect.ReasonNotInstalled}, summary(newWorld(t, nil), "I would", " rather not."))
}

func TestL4411MarkInLargeDelta(t *testing.T) {
	require.Equal(t, []string{"completed claude_code.compaction.v1"}, summary(newWorld(t, nil), "<summary>"+strings.Repeat("x", 4096), "é", "</summary>"))
}

func TestL4502Heuristic(t *testing.T) {
	w := newWorld(t, nil)
	list := long(40)
	require.Empty(t, w.open(ask("a", "1", list...)))
	next := with([]*session.Message{user("Earlier: the parser was built.")}, list[len(list)-2:]...)
	require.Equal(t, []string{"completed " + detect.RuleHeuristic}, w.open(ask("a", "2", next...)))
	e := w.all[0]
	require.Equal(t, lifecycle.EvidenceHistoryHeuristic, e.Event.Evidence)
	require.Equal(t, "2", e.Event.TraceID)
	require.Greater(t, e.Detail.TokensBefore, 20*e.Detail.TokensAfter)
	require.Empty(t, w.open(ask("a", "2", next...)), "a retry is nothing new")
	require.Empty(t, w.open(ask("a", "3", with(next, model("ok"), user("go"))...)))
	w.end()
}

func TestL4503NoRewrite(t *testing.T) {
	list := long(40)
	n := len(list)
	tail := list[n-2:]
	sum := user("Earlier: the parser was built.")
	cleared := make([]*session.Message, n)
	for i, m := range list {
		if cleared[i] = m; m.Role == session.RoleTool && i < n-4 {
			cleared[i] = result(m.Results()[0], "[cleared]")
		}
	}
	own := *user("[checkpoint] ours")
	own.Source = session.Source{Kind: session.SourcePlugin, Plugin: "compact", Ref: "c1"}
	for name, next := range map[string][]*session.Message{
		"tail dropped":      {sum, user("other"), model("x")},
		"fresh":             {user("a new question")},
		"same":              list,
		"tail reordered":    {sum, tail[1], tail[0]},
		"tail torn apart":   {sum, tail[0], model("between"), tail[1]},
		"near the limit":    with(append([]*session.Message{sum}, list[12:]...)),
		"only cut":          tail,
		"cut at the front":  list[n-6:],
		"results cleared":   cleared,
		"back to a prompt":  list[:5],
		"our checkpoint":    append([]*session.Message{&own}, tail...),
		"larger":            with(list, model("x"), user("y")),
		"results shortened": append([]*session.Message{list[0], list[1], result("c0", "short")}, tail...),
	} {
		w := newWorld(t, nil)
		w.open(ask("a", "1", list...))
		require.Empty(t, w.open(ask("a", "2", next...)), name)
	}
	w := newWorld(t, nil)
	small := long(6)
	w.open(ask("a", "1", small...))
	require.Empty(t, w.open(ask("a", "2", with([]*session.Message{sum}, small[len(small)-2:]...)...)), "small before")
	w = newWorld(t, func(o *detect.Options) { o.NoHeuristic = true })
	w.open(ask("a", "1", list...))
	require.Empty(t, w.open(ask("a", "2", append([]*session.Message{sum}, tail...)...)), "switched off")
}

// TestArgumentsCount: two calls of one tool with other arguments are not one
// surviving end.
func TestArgumentsCount(t *testing.T) {
	w := newWorld(t, nil)
	list := with(long(40), call("x", `{"cmd":"ls"}`), result("x", "ok"))
	w.open(ask("a", "1", list...))
	require.Empty(t, w.open(ask("a", "2", user("sum"), call("x", `{"cmd":"rm"}`), result("x", "ok"))))
}

func TestL4504OtherBranch(t *testing.T) {
	w := newWorld(t, nil)
	list := long(40)
	w.open(ask("a", "1", list...))
	require.Empty(t, w.open(ask("b", "2", with([]*session.Message{user("sum")}, list[len(list)-2:]...)...)))
}

func TestL4505KnownRewrite(t *testing.T) {
	w := newWorld(t, nil)
	list := long(40)
	w.open(ask("a", "1", list...))
	require.Len(t, w.release(detect.Response{Meta: meta("a", "1"), Item: "compaction", ItemID: "1"}), 1)
	next := with([]*session.Message{user("sum")}, list[len(list)-2:]...)
	require.Empty(t, w.open(ask("a", "2", next...)), "the response had told of it")
	w.end()
}

func TestL4506SuppressionResets(t *testing.T) {
	w := newWorld(t, nil)
	list := long(40)
	w.open(ask("a", "1", list...))
	w.release(detect.Response{Meta: meta("a", "1"), Item: "compaction", ItemID: "1"})
	w.open(ask("a", "2", with([]*session.Message{user("sum")}, list[len(list)-2:]...)...))
	w.open(ask("a", "3", list...))
	require.Equal(t, []string{"completed " + detect.RuleHeuristic}, w.open(ask("a", "4", with([]*session.Message{user("sum 2")}, list[len(list)-2:]...)...)))
	w.end()
}
