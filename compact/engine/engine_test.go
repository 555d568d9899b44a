package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/compacttest"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

// stub is a summarizer that does what a test says.
type stub struct {
	mu    sync.Mutex
	calls int
	// collect answers the n-th request, from 1; nil answers "Short.".
	collect func(ctx context.Context, n int, req *summarize.Request) (string, error)
	// seen are the requests.
	seen []*summarize.Request
}

func (s *stub) Name() string { return "stub" }

func (s *stub) Open(ctx context.Context, req *summarize.Request) (summarize.Pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.seen = append(s.seen, req)
	return stubPending{s, s.calls, req}, nil
}

type stubPending struct {
	s   *stub
	n   int
	req *summarize.Request
}

func (p stubPending) Cancel() {}

func (p stubPending) Collect(ctx context.Context) (*summarize.Summary, error) {
	text := "Short."
	call := summarize.Call{Model: "stub", Purpose: "summary", Prompt: 100, Completion: 10, Outcome: "ok"}
	if p.s.collect != nil {
		var err error
		if text, err = p.s.collect(ctx, p.n, p.req); err != nil {
			var f *summarize.Failure
			if errors.As(err, &f) && f.Calls == nil {
				call.Outcome = string(f.Class)
				f.Calls = []summarize.Call{call}
			}
			return nil, err
		}
	}
	return &summarize.Summary{Text: text, Calls: []summarize.Call{call}}, nil
}

// loose is a guard for one-line summaries.
var loose = &summarize.GuardOptions{NoSections: true, NoFloor: true}

func newEngine(t *testing.T, s summarize.Summarizer, change func(*engine.Options)) *engine.Engine {
	t.Helper()
	o := engine.Options{
		Windows: engine.FixedWindow(10_000),
		Prune:   engine.Prune{Off: true},
		Run:     summarize.RunOptions{Guard: loose, Backoff: -1, Deadline: -1},
	}
	if change != nil {
		change(&o)
	}
	e, err := engine.New(s, &o)
	require.NoError(t, err)
	return e
}

// fill returns a text of n tokens of the session's default pricer.
func fill(n int, word string) string {
	return strings.Repeat(word+" ", 4*n/(len(word)+1)+1)[:4*n]
}

// talk appends n rounds of a prompt, a call, a result and an answer, of about
// 400 tokens each.
func talk(t *testing.T, s *session.Session, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		_, err := s.Append(t.Context(),
			session.UserText(fmt.Sprintf("Request %d: look at item %d.", i, i)),
			session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: fmt.Sprintf(`{"path":"src/item%d.go"}`, i)}),
			session.ToolText(id, fill(350, fmt.Sprintf("line%d", i))),
			session.AssistantText(fmt.Sprintf("Item %d is fine.", i)),
		)
		require.NoError(t, err)
	}
}

func open(t *testing.T, store session.Store) *session.Session {
	t.Helper()
	if store == nil {
		store = session.NewMemoryStore()
	}
	return compacttest.Open(t, store)
}

func texts(t *testing.T, s *session.Session) []string {
	t.Helper()
	ms, err := s.View().Messages()
	require.NoError(t, err)
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.Text()
	}
	return out
}

func ends(t *testing.T, s *session.Session) (starts, finished int, codes []compact.Code) {
	t.Helper()
	for e := range s.View().Events(0) {
		p, err := compact.Decode(e)
		require.NoError(t, err)
		switch p := p.(type) {
		case compact.StartEvent:
			starts++
		case compact.EndEvent:
			finished++
			codes = append(codes, p.Code)
		}
	}
	return starts, finished, codes
}

func TestPressure(t *testing.T) {
	s := open(t, nil)
	st := new(stub)
	e := newEngine(t, st, nil)
	agent := compact.Agent{Session: s, Provider: "p", Model: "m"}
	talk(t, s, 10)
	r, err := e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
	require.NoError(t, err)
	require.Nil(t, r, "below the threshold")
	o, err := e.Consider(t.Context(), agent, compact.Pressure)
	require.NoError(t, err)
	assert.Equal(t, compact.BelowThreshold, o.Code)
	assert.Zero(t, st.calls)

	talk(t, s, 15)
	before := s.View()
	r, err = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
	require.NoError(t, err)
	require.NotNil(t, r)
	v := s.View()
	assert.Equal(t, before.SurfaceTokens(), r.Before)
	assert.Equal(t, v.SurfaceTokens(), r.After)
	assert.Less(t, r.After, 8000)
	assert.Equal(t, 1, st.calls)
	assert.Len(t, r.Calls, 1)
	assert.Equal(t, before.Generation()+1, v.Generation())
	assert.True(t, compact.IsCheckpointSource(v.Node(0).Source()))
	assert.Equal(t, r.ID, v.Node(0).Source().Ref)
	assert.Equal(t, before.Len()-len(r.Seqs)+1, v.Len())
	m, err := v.Message(0)
	require.NoError(t, err)
	assert.Contains(t, m.Text(), "Short.")
	assert.Contains(t, m.Text(), "Request 0: look at item 0.", "user instructions are quoted")
	assert.Contains(t, m.Text(), r.ID, "the pointer names the compaction")
	// Nothing is lost: the shadowed messages are the head of what there was.
	for i, q := range r.Seqs {
		assert.Equal(t, before.Node(i).Seq, q)
	}

	// Again on the unchanged session: nothing, and no call.
	r, err = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
	require.NoError(t, err)
	assert.Nil(t, r)
	_, err = e.CompactNow(t.Context(), agent, nil)
	if err == nil { // by hand with the same policy it may shorten further once
		_, err = e.CompactNow(t.Context(), agent, nil)
	}
	require.ErrorIs(t, err, compact.NothingToCompact)
}

func TestNowTwiceIsIdle(t *testing.T) {
	s := open(t, nil)
	st := new(stub)
	e := newEngine(t, st, nil)
	agent := compact.Agent{Session: s}
	talk(t, s, 20)
	_, err := e.CompactNow(t.Context(), agent, nil)
	require.NoError(t, err)
	calls, after := st.calls, texts(t, s)
	_, err = e.CompactNow(t.Context(), agent, nil)
	require.ErrorIs(t, err, compact.NothingToCompact)
	assert.Equal(t, calls, st.calls)
	assert.Equal(t, after, texts(t, s))
}

func TestUnknownWindow(t *testing.T) {
	s := open(t, nil)
	e := newEngine(t, new(stub), func(o *engine.Options) { o.Windows = nil })
	agent := compact.Agent{Session: s, Provider: "p", Model: "m"}
	talk(t, s, 30)
	for range 2 {
		_, err := e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.ErrorIs(t, err, compact.NoWindow)
		assert.ErrorContains(t, err, `"m"`)
	}
	r, err := e.CompactIfNeeded(t.Context(), agent, compact.ContextOverflow)
	require.NoError(t, err)
	assert.NotNil(t, r, "an overflow needs no window")
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		gate := make(chan struct{})
		st := &stub{collect: func(context.Context, int, *summarize.Request) (string, error) {
			<-gate
			return "Short.", nil
		}}
		e, other := newEngine(t, st, nil), newEngine(t, new(stub), nil)
		talk(t, s, 10)
		done := make(chan error)
		go func() {
			_, err := e.CompactNow(t.Context(), compact.Agent{Session: s}, nil)
			done <- err
		}()
		synctest.Wait()
		for name, try := range map[string]func() error{
			"now":    func() error { _, err := other.CompactNow(t.Context(), compact.Agent{Session: s}, nil); return err },
			"region": func() error { _, err := other.CompactRegion(t.Context(), compact.Agent{Session: s}, 0, 3); return err },
			"overflow": func() error {
				_, err := other.CompactIfNeeded(t.Context(), compact.Agent{Session: s}, compact.ContextOverflow)
				return err
			},
			"undo": func() error {
				_, err := other.Undo(t.Context(), compact.Agent{Session: s}, session.NoSeq)
				if errors.Is(err, compact.NotFound) {
					return compact.Busy // nothing to undo yet is as good
				}
				return err
			},
		} {
			require.ErrorIs(t, try(), compact.Busy, name)
		}
		var ce *compact.Error
		_, err := other.CompactNow(t.Context(), compact.Agent{Session: s}, nil)
		require.ErrorAs(t, err, &ce)
		require.NotNil(t, ce.Holder)
		assert.NotZero(t, ce.Holder.PID)
		close(gate)
		require.NoError(t, <-done)
		starts, finished, _ := ends(t, s)
		assert.Equal(t, []int{1, 1}, []int{starts, finished})
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		down := true
		st := &stub{}
		st.collect = func(context.Context, int, *summarize.Request) (string, error) {
			if down {
				return "", &summarize.Failure{Class: summarize.Auth, Detail: "no credit"}
			}
			return "Short.", nil
		}
		e := newEngine(t, st, func(o *engine.Options) { o.Windows = engine.FixedWindow(20_000) })
		agent := compact.Agent{Session: s}
		talk(t, s, 45)
		for range 100 {
			_, _ = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
			talk(t, s, 1)
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, st.calls, 5)
		o, err := e.Consider(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		assert.Equal(t, compact.BreakerOpen, o.Code)
		down = false
		time.Sleep(time.Hour)
		_, err = s.Append(t.Context(), session.UserText("go on"))
		require.NoError(t, err)
		r, err := e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		require.NotNil(t, r, "half open: one attempt is let through")
		h := compact.HistoryOf(s)
		assert.Zero(t, h.Failures())
	})
}

func TestUndoRedoNested(t *testing.T) {
	s := open(t, nil)
	e := newEngine(t, new(stub), nil)
	agent := compact.Agent{Session: s}
	var states [][]string
	states = append(states, nil)
	talk(t, s, 12)
	states[0] = texts(t, s)
	_, err := e.CompactNow(t.Context(), agent, nil)
	require.NoError(t, err)
	first := texts(t, s)
	talk(t, s, 12)
	states = append(states, texts(t, s))
	_, err = e.CompactNow(t.Context(), agent, nil)
	require.NoError(t, err)
	second := texts(t, s)

	_, err = e.Undo(t.Context(), agent, session.NoSeq)
	require.NoError(t, err)
	assert.Equal(t, states[1], texts(t, s))
	_, err = e.Undo(t.Context(), agent, session.NoSeq)
	require.NoError(t, err)
	assert.Equal(t, states[0], texts(t, s)[:len(states[0])])
	_, err = e.Undo(t.Context(), agent, session.NoSeq)
	require.ErrorIs(t, err, compact.NotFound)

	_, err = e.Redo(t.Context(), agent)
	require.NoError(t, err)
	assert.Equal(t, first, texts(t, s)[:len(first)])
	assert.Equal(t, states[1], texts(t, s))
	_, err = e.Redo(t.Context(), agent)
	require.NoError(t, err)
	assert.Equal(t, second, texts(t, s))
	_, err = e.Redo(t.Context(), agent)
	require.Error(t, err)
}

func TestPlanAndApply(t *testing.T) {
	s := open(t, nil)
	st := new(stub)
	e := newEngine(t, st, nil)
	agent := compact.Agent{Session: s}
	talk(t, s, 12)
	next := s.View().Next()
	p, err := e.Plan(t.Context(), agent, nil)
	require.NoError(t, err)
	assert.Equal(t, next, s.View().Next())
	assert.Zero(t, st.calls)
	assert.Positive(t, p.Calls)
	_, err = s.Append(t.Context(), session.UserText("grew"))
	require.NoError(t, err)
	r, err := e.Apply(t.Context(), agent, p)
	require.NoError(t, err)
	assert.Equal(t, p.Shadowed, r.Shadowed)
	assert.LessOrEqual(t, r.After, p.After+20)
	_, err = e.Apply(t.Context(), agent, p)
	require.ErrorIs(t, err, compact.Changed)
}

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		st := &stub{collect: func(ctx context.Context, n int, _ *summarize.Request) (string, error) {
			time.Sleep(5 * time.Second)
			return "Short.", nil
		}}
		e := newEngine(t, st, nil)
		agent := compact.Agent{Session: s}
		ok, err := e.StartBackground(t.Context(), agent)
		require.NoError(t, err)
		assert.False(t, ok, "below the lower mark")
		talk(t, s, 18)
		began := time.Now()
		ok, err = e.StartBackground(t.Context(), agent)
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = e.StartBackground(t.Context(), agent)
		require.NoError(t, err)
		assert.False(t, ok, "single flight")
		talk(t, s, 1)
		r, err := e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		assert.Nil(t, r)
		assert.Zero(t, time.Since(began), "no step waits")
		require.NoError(t, e.WaitBackground(t.Context(), agent))
		assert.Zero(t, s.View().Generation(), "it is committed by the next check")
		r, err = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		require.NotNil(t, r)
		assert.Equal(t, compact.Behind, r.Trigger)
		starts, finished, _ := ends(t, s)
		assert.Equal(t, starts, finished)

		// A span that changed meanwhile: the summary is stale.
		talk(t, s, 14)
		ok, err = e.StartBackground(t.Context(), agent)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, e.WaitBackground(t.Context(), agent))
		_, err = s.Record(t.Context(), session.Rewind{To: 30})
		require.NoError(t, err)
		r, err = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		assert.Nil(t, r)
		assert.Equal(t, 1, e.StaleBackground(agent))
	})
}

func TestOverflow(t *testing.T) {
	s := open(t, nil)
	e := newEngine(t, new(stub), nil)
	agent := compact.Agent{Session: s}
	talk(t, s, 6) // far below the threshold
	o, err := e.Consider(t.Context(), agent, compact.ContextOverflow)
	require.NoError(t, err)
	require.NotNil(t, o.Result)
	assert.True(t, o.RetryUseful)
	got := texts(t, s)
	assert.Equal(t, "Item 5 is fine.", got[len(got)-1], "the newest unit stays")

	// Nothing but one unit is left: there is nothing to gain.
	s = open(t, nil)
	_, err = s.Append(t.Context(), session.UserText("hello"))
	require.NoError(t, err)
	o, err = e.Consider(t.Context(), compact.Agent{Session: s}, compact.ContextOverflow)
	require.NoError(t, err)
	assert.Nil(t, o.Result)
	assert.False(t, o.RetryUseful)
	assert.NotEmpty(t, o.Code)
}

func TestTenRoundsKeepWhatPeopleSaid(t *testing.T) {
	s := open(t, nil)
	e := newEngine(t, new(stub), nil)
	agent := compact.Agent{Session: s}
	_, err := s.Append(t.Context(), session.UserText("GOAL-7f3: port the parser, and never touch config/prod.yaml."))
	require.NoError(t, err)
	pinned, err := s.Append(t.Context(), session.UserText("PIN: release is on 2026-12-24."))
	require.NoError(t, err)
	_, err = s.Record(t.Context(), session.Pin{Nodes: pinned})
	require.NoError(t, err)
	var sizes []int
	for round := range 10 {
		talk(t, s, 22)
		r, err := e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		require.NoError(t, err)
		require.NotNil(t, r, "round %d", round)
		sizes = append(sizes, r.SpanAfter)
		all := strings.Join(texts(t, s), "\n")
		require.Contains(t, all, "GOAL-7f3: port the parser, and never touch config/prod.yaml.", "round %d", round)
		require.Contains(t, all, "PIN: release is on 2026-12-24.")
		checkpoints := 0
		for i := range s.View().Len() {
			if compact.IsCheckpointSource(s.View().Node(i).Source()) {
				checkpoints++
			}
		}
		require.Equal(t, 1, checkpoints)
	}
	assert.Less(t, sizes[9], 2*sizes[1]+200, "the checkpoint stays bounded: %v", sizes)
}
