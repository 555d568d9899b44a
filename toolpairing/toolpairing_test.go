package toolpairing_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// build opens a session with one message per word: u is a user message, a(x,y)
// an assistant message that makes calls x and y, r(x) a result.
func build(t *testing.T, script string) *session.Session {
	t.Helper()
	s := sessiontest.Open(t, session.NewMemoryStore(), nil)
	add(t, s, script)
	return s
}

func add(t *testing.T, s *session.Session, script string) {
	t.Helper()
	for _, word := range strings.Fields(script) {
		kind, args, _ := strings.Cut(strings.TrimSuffix(word, ")"), "(")
		m := session.UserText("u")
		switch kind {
		case "a":
			m = session.AssistantText("a")
			for _, id := range strings.Split(args, ",") {
				if id != "" {
					m.Parts = append(m.Parts, session.ToolCall{ID: id, Name: "t"})
				}
			}
		case "r":
			m = session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool}}
			for _, id := range strings.Split(args, ",") {
				m.Parts = append(m.Parts, session.ToolResult{CallID: id, Parts: []session.Part{session.Text{Text: "r"}}})
			}
		}
		_, err := s.Append(t.Context(), m)
		require.NoError(t, err)
	}
}

// cuts writes the answers to both questions about each message: + for balanced.
func cuts(t *testing.T, s *session.Session) string {
	t.Helper()
	x, of := toolpairing.For(s), toolpairing.Of(s.View())
	var b strings.Builder
	for i := range s.View().Len() {
		seq := s.View().Node(i).Seq
		for k, ask := range []func(session.Seq) (bool, error){x.BalancedBefore, x.BalancedAfter} {
			ok, err := ask(seq)
			require.NoError(t, err)
			again, err := ask(seq)
			require.NoError(t, err)
			require.Equal(t, ok, again)
			require.Equal(t, of.Balanced(i+k), ok)
			b.WriteString(map[bool]string{true: "+", false: "-"}[ok])
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

func replace(t *testing.T, s *session.Session, from, to int, keep ...int) session.Seq {
	t.Helper()
	v := s.View()
	r := session.Replace{Start: v.Node(from).Seq, End: v.Node(to).Seq, Message: sessiontest.Note("c", "sum")}
	for _, k := range keep {
		r.Keep = append(r.Keep, v.Node(k).Seq)
	}
	seqs, err := s.Record(t.Context(), r)
	require.NoError(t, err)
	return seqs[0]
}

func TestTP01CallAndResult(t *testing.T) {
	require.Equal(t, "++ +- -+", cuts(t, build(t, "u a(x) r(x)")))
	require.Equal(t, "+-", cuts(t, build(t, "a(x)")))
}

func TestTP02ParallelCalls(t *testing.T) {
	require.Equal(t, "+- -- -+", cuts(t, build(t, "a(x,y) r(x) r(y)")))
	require.Equal(t, "+- -- -+", cuts(t, build(t, "a(x,y) r(y) r(x)")))
}

func TestTP03MessageBetween(t *testing.T) {
	require.Equal(t, "+- -- -+", cuts(t, build(t, "a(x) u r(x)")))
	require.Equal(t, "++", cuts(t, build(t, "u")))
}

func TestTP04WholeSurfaceReplaced(t *testing.T) {
	s := build(t, "u a(x) r(x)")
	require.Equal(t, "++ +- -+", cuts(t, s))
	replace(t, s, 0, 2)
	require.Equal(t, "++", cuts(t, s))
	for _, ask := range []func(session.Seq) (bool, error){toolpairing.For(s).BalancedBefore, toolpairing.For(s).BalancedAfter} {
		_, err := ask(1)
		require.ErrorIs(t, err, session.ErrNotOnSurface)
		var shadowed *session.ShadowedError
		require.ErrorAs(t, err, &shadowed)
		require.Equal(t, session.Seq(3), shadowed.By)
	}
}

func TestTP06EmptySurface(t *testing.T) {
	s := build(t, "")
	for _, seq := range []session.Seq{0, 7, session.NoSeq} {
		_, err := toolpairing.For(s).BalancedBefore(seq)
		require.ErrorIs(t, err, session.ErrNotOnSurface)
		_, err = toolpairing.For(s).BalancedAfter(seq)
		require.ErrorIs(t, err, session.ErrNotOnSurface)
	}
	add(t, s, "u")
	require.Equal(t, "++", cuts(t, s))
}

func TestTP07Reads(t *testing.T) {
	s := build(t, "u a(x) r(x) u a(y) r(y) u")
	x := toolpairing.For(s)
	reads := func() (added, rebuilt int) {
		x.With(func(*toolpairing.Index) {})
		return toolpairing.Reads(x)
	}
	step := func(read, rebuilt int) {
		t.Helper()
		a, r := toolpairing.Reads(x)
		b, q := reads()
		require.Equal(t, []int{read, rebuilt}, []int{b - a, q - r})
	}
	step(7, 0)
	step(0, 0)
	_, err := s.Record(t.Context(), session.Raw{Type: "compact/start"})
	require.NoError(t, err)
	step(0, 0)
	add(t, s, "u")
	step(1, 0)
	add(t, s, "u u")
	step(2, 0)
	c := replace(t, s, 0, 2)
	step(1, 0) // the replacement only
	add(t, s, "u")
	replace(t, s, 1, 4, 2, 3)
	step(4, 0) // the replacement, the unit that stays, and the append
	_, err = s.Record(t.Context(), session.Restore{Node: c})
	require.NoError(t, err)
	step(3, 0)
	_, err = s.Record(t.Context(), session.Rewind{To: 3})
	require.NoError(t, err)
	step(1, 0)
}

func TestTP09OrphanIsLocal(t *testing.T) {
	s := build(t, "u r(zz) u a(x) r(x) u")
	require.Equal(t, "++ ++ ++ +- -+ ++", cuts(t, s))
	p := toolpairing.Of(s.View()).Diagnose()
	require.Equal(t, []toolpairing.Problem{{Kind: toolpairing.OrphanResult, CallID: "zz", Seq: 1, Position: 1}}, p)
}

func TestTP10OrphanAppended(t *testing.T) {
	s := build(t, "u a(x) r(x)")
	require.Equal(t, "++ +- -+", cuts(t, s))
	add(t, s, "r(x) u")
	for range 2 {
		require.Equal(t, "++ +- -+ ++ ++", cuts(t, s))
		p := toolpairing.Of(s.View()).Diagnose()
		require.Equal(t, []toolpairing.Problem{{Kind: toolpairing.DuplicateResult, CallID: "x", Seq: 3, Position: 3}}, p)
	}
}

// TestF01WrongIDs: a result of another id closes nothing, and one lost result
// blocks no later cut.
func TestF01WrongIDs(t *testing.T) {
	s := build(t, "u a(x) r(y) u u")
	require.Equal(t, "++ ++ ++ ++ ++", cuts(t, s))
	kinds := []toolpairing.Kind{}
	for _, p := range toolpairing.Of(s.View()).Diagnose() {
		kinds = append(kinds, p.Kind)
		require.False(t, p.Running)
	}
	require.Equal(t, []toolpairing.Kind{toolpairing.UnansweredCall, toolpairing.OrphanResult}, kinds)
	// Re-used ids pair in order.
	require.Equal(t, "+- -+ +- -+", cuts(t, build(t, "a(x) r(x) a(x) r(x)")))
	// Two equal calls with one result: the other one blocks nothing.
	require.Equal(t, "+- -+ ++ ++", cuts(t, build(t, "a(x,x) r(x) u u")))
}

func TestRunningCalls(t *testing.T) {
	s := build(t, "u a(x,y) r(x)")
	require.Equal(t, "++ +- --", cuts(t, s), "the tail may still get its result")
	add(t, s, "u")
	require.Equal(t, "++ +- -+ ++", cuts(t, s), "the conversation went on")
	_, err := s.Record(t.Context(), session.CallState{Node: 1, CallID: "y", Phase: session.CallRunning})
	require.NoError(t, err)
	require.Equal(t, "++ +- -- --", cuts(t, s))
	toolpairing.For(s).With(func(x *toolpairing.Index) {
		seq, id, ok := x.Splits(4)
		require.True(t, ok)
		require.Equal(t, session.Seq(1), seq)
		require.Equal(t, "y", id)
		require.True(t, x.Running(1, 1))
		require.False(t, x.Running(1, 0))
		require.Equal(t, []int{1, 2}, x.Unit(2))
		require.Equal(t, []int{3}, x.Unit(3))
		c, ok := x.After(2)
		require.False(t, ok, "%d", c)
		require.Equal(t, 1, x.Before(4))
	})
	_, err = s.Record(t.Context(), session.Replace{Start: 0, End: 3, Message: session.UserText("sum")})
	require.ErrorIs(t, err, session.ErrRunning)
	_, err = s.Record(t.Context(), session.CallState{Node: 1, CallID: "y", Phase: session.CallAbandoned})
	require.NoError(t, err)
	require.Equal(t, "++ +- -+ ++", cuts(t, s))
}

func TestPlan(t *testing.T) {
	s := build(t, "r(q) a(x,y) u r(x) a(z) r(z) r(z) u a(k)")
	plan := toolpairing.Of(s.View()).Plan()
	require.Equal(t, toolpairing.Repair{
		Results: []toolpairing.Synthetic{{Seq: 1, Position: 1, Index: 1, CallID: "y", After: 3}},
		Orphans: []toolpairing.Orphan{
			{Seq: 0, Position: 0, CallID: "q", Kind: toolpairing.OrphanResult},
			{Seq: 6, Position: 6, CallID: "z", Kind: toolpairing.DuplicateResult}},
		Moves: []toolpairing.Misplaced{{Call: 1, Result: 3, CallID: "x"}},
	}, plan)
	sound := toolpairing.Of(build(t, "u a(x,y) r(y) r(x) u").View()).Plan()
	require.True(t, sound.Empty())
}

func TestCutsByTokens(t *testing.T) {
	// Every message costs 1 token, calls 1 more.
	s := sessiontest.Open(t, session.NewMemoryStore(), &session.Options{Pricer: one{}})
	add(t, s, "u u a(x) r(x) u a(y) r(y) u")
	x := toolpairing.Of(s.View())
	for tokens, want := range []int{0, 1, 2, 2, 4, 5, 5, 7, 8} {
		require.Equal(t, want, x.HeadWithin(tokens), "head of %d", tokens)
	}
	for tokens, want := range []int{8, 7, 7, 5, 4, 4, 2, 1, 0} {
		cut, ok := x.TailWithin(tokens)
		require.True(t, ok)
		require.Equal(t, want, cut, "tail of %d", tokens)
	}
	for tokens, want := range []int{0, 1, 2, 2, 4, 5, 5, 7, 8, 8} {
		require.Equal(t, want, x.Nearest(tokens), "nearest to %d", tokens)
	}
	add(t, s, "a(z)")
	x = toolpairing.Of(s.View())
	_, ok := x.TailWithin(0)
	require.False(t, ok, "the call at the tail is running")
}

type one struct{ session.BytePricer }

func (one) ID() string                 { return "one" }
func (one) Price(*session.Message) int { return 1 }
