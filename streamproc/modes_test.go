package streamproc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

func TestHistoryThenSteps(t *testing.T) {
	hts := func(p Policy) *Options {
		p.MinTokens, p.TargetPercent = 1, 10
		return withWindow(opts(p), 8000)
	}
	fresh := func(h, s int) *Slice[T] {
		return NewSlice(adapter, exchanges(0, h, 500), replies(s, 500))
	}
	t.Run("both", func(t *testing.T) {
		w, o := new(watch), hts(Policy{})
		o.Observer = w.observer()
		p := fresh(8, 8)
		r, err := ApplyHistoryThenSteps(bg, p, adapter, says(good("")), o)
		require.NoError(t, err)
		require.Len(t, r.Passes, 2)
		require.Equal(t, history, r.Passes[0].Target)
		require.Equal(t, steps, r.Passes[1].Target)
		require.Equal(t, r.Passes[0].Text+"\n\n"+r.Passes[1].Text, r.Text)
		require.Equal(t, r.Passes[0].Before+r.Passes[1].Before, r.Before)
		require.Equal(t, r.Passes[0].Items+r.Passes[1].Items, r.Items)
		require.Len(t, w.committed, 2, "once per commit")
		require.Len(t, w.ended, 1)
	})
	t.Run("steps too small beside the history", func(t *testing.T) {
		p := fresh(8, 1)
		r, err := ApplyHistoryThenSteps(bg, p, adapter, says(good("")), hts(Policy{StepsTriggerRatio: 2}))
		require.NoError(t, err)
		require.Len(t, r.Passes, 1)
		s, _ := p.AccumulatedSteps(bg)
		require.Len(t, s, 1)
	})
	t.Run("no history", func(t *testing.T) {
		r, err := ApplyHistoryThenSteps(bg, fresh(0, 8), adapter, says(good("")), hts(Policy{}))
		require.NoError(t, err)
		require.Equal(t, steps, r.Passes[0].Target)
	})
	t.Run("nothing", func(t *testing.T) {
		s := says(good(""))
		_, err := ApplyHistoryThenSteps(bg, fresh(0, 0), adapter, s, hts(Policy{}))
		kind(t, err, NothingToCompact)
		require.Zero(t, s.calls)
	})
	t.Run("the history fails", func(t *testing.T) {
		p := fresh(8, 8)
		r, err := ApplyHistoryThenSteps(bg, p, adapter, says(failure(summarize.Auth)), hts(Policy{}))
		e := kind(t, err, SamplerBuild)
		require.Nil(t, r)
		require.Nil(t, e.Durable)
		require.Equal(t, history, e.Target)
	})
	t.Run("the steps fail", func(t *testing.T) {
		w, o := new(watch), hts(Policy{})
		o.Observer = w.observer()
		p := fresh(8, 8)
		r, err := ApplyHistoryThenSteps(bg, p, adapter, says(good(""), failure(summarize.Auth)), o)
		e := kind(t, err, SamplerBuild)
		require.Equal(t, steps, e.Target)
		require.NotNil(t, r)
		require.Same(t, r, e.Durable)
		require.Len(t, r.Passes, 1)
		require.Contains(t, err.Error(), "of history were replaced before")
		h, _ := p.History(bg)
		require.Equal(t, "summary", h[0].Role, "it is durable")
		s, _ := p.AccumulatedSteps(bg)
		require.Len(t, s, 8, "it is untouched")
		require.Len(t, w.ended, 1)
		require.Equal(t, Failed, w.ended[0].Status)
		require.Same(t, r, w.ended[0].Result)
	})
}

// TestNoOptionIsIgnored: what a mode has no use for is refused.
func TestNoOptionIsIgnored(t *testing.T) {
	apply := func(p Policy, change func(*Options)) error {
		o := withWindow(opts(p), 1000)
		if change != nil {
			change(o)
		}
		_, err := Apply(bg, &host{steps: replies(6, 500)}, adapter, says(good("")), o)
		return err
	}
	for name, p := range map[string]Policy{
		"MinSteps": {MinSteps: 3}, "TargetPercent": {TargetPercent: 50}, "StrictTail": {StrictTail: true},
		"StepsTriggerRatio":          {Mode: StepsOnly, StepsTriggerRatio: 0.3},
		"StepsTriggerRatio, history": {Mode: HistoryOnly, StepsTriggerRatio: 0.3},
		"QueryChars":                 {Mode: StepsOnly, QueryChars: 9},
		"mode":                       {Mode: "all"}, "percent": {TriggerPercent: 101}, "ratio": {MaxReductionRatio: 1.5},
		"negative ratio": {MaxReductionRatio: -0.5}, "attempts": {MaxAttempts: -1}, "tokens": {MinTokens: -2}, "timeout": {TimeoutSeconds: -2},
	} {
		kind(t, apply(p, nil), InvalidOptions)
		word, _, _ := strings.Cut(name, ",")
		if p.Mode != "all" && word[0] < 'a' {
			require.ErrorContains(t, apply(p, nil), word)
		}
	}
	kind(t, apply(Policy{Mode: StepsOnly}, func(o *Options) { o.Window = 0 }), InvalidOptions)
	kind(t, apply(Policy{}, func(o *Options) { o.Run.Attempts = 3 }), InvalidOptions)
	_, err := ApplySteps(bg, &host{}, adapter, says(""), withWindow(opts(Policy{Mode: HistoryOnly}), 1000))
	kind(t, err, InvalidOptions)
	for _, p := range []Policy{GrokIntra(), GrokIntraSteps(StepsOnly), GrokIntraSteps(HistoryOnly), GrokIntraSteps(HistoryThenSteps), GrokShell(), Recommended()} {
		require.NoError(t, p.Validate())
	}
	_, err = ApplySteps(bg, &host{}, Adapter[T]{}, says(""), withWindow(opts(Policy{}), 1000))
	kind(t, err, InvalidOptions)
}

func TestPresetsHaveUpstreamsNumbers(t *testing.T) {
	p := GrokIntraSteps(HistoryThenSteps)
	p.MinSummaryChars, p.StrictTail = 0, false // beyond the defaults
	want := Policy{}.WithDefaults()
	want.Mode = HistoryThenSteps
	require.Equal(t, want, p.WithDefaults())
	q := GrokIntra()
	q.MinSummaryChars = 0
	require.Equal(t, Policy{}.WithDefaults(), q.WithDefaults())
	require.Equal(t, 500, GrokIntra().MinSummaryChars)
}

func TestObserversAreHarmless(t *testing.T) {
	ends := 0
	o := withWindow(opts(Policy{MinTokens: 1}), 1000)
	o.Observer = &Observer{
		Started:   func(Mode) { panic("started") },
		Committed: func(*Pass) { panic("committed") },
		Ended:     func(End) { ends++; panic("ended") },
	}
	h := &host{steps: replies(6, 500)}
	_, err := ApplySteps(bg, h, adapter, says(good("")), o)
	require.NoError(t, err)
	require.Equal(t, 1, ends)
	require.Equal(t, 1, h.applied)

	for _, c := range []struct {
		name   string
		ctx    func() context.Context
		h      *host
		script any
		status Status
		label  string
	}{
		{"skipped", context.Background, &host{}, good(""), Skipped, "nothing_to_compact"},
		{"failed", context.Background, &host{steps: replies(6, 500)}, failure(summarize.Auth), Failed, "sampler_build"},
		{"cancelled", func() context.Context { ctx, c := context.WithCancel(bg); c(); return ctx }, &host{steps: replies(6, 500)}, good(""), Stopped, "cancelled"},
	} {
		w := new(watch)
		o := withWindow(opts(Policy{MinTokens: 1}), 1000)
		o.Observer = w.observer()
		_, err := ApplySteps(c.ctx(), c.h, adapter, says(c.script), o)
		require.Error(t, err, c.name)
		require.Equal(t, 1, w.started, c.name)
		require.Len(t, w.ended, 1, c.name)
		require.Equal(t, c.status, w.ended[0].Status, c.name)
		require.Equal(t, c.label, w.ended[0].Label, c.name)
		require.Equal(t, err, w.ended[0].Err, c.name)
	}
	// The host's code panics: that is the host's, and the pair is still whole.
	w := new(watch)
	o = withWindow(opts(Policy{MinTokens: 1}), 1000)
	o.Observer = w.observer()
	boom := Adapter[T]{To: func(T) (session.Message, error) { panic("boom") }, From: adapter.From}
	require.PanicsWithValue(t, "boom", func() {
		_, _ = ApplySteps(bg, &host{steps: replies(6, 500)}, boom, says(good("")), o)
	})
	require.Len(t, w.ended, 1)
	require.Equal(t, Failed, w.ended[0].Status)
}

func TestErrorsOfViewsAndAdapters(t *testing.T) {
	why := errors.New("gone")
	for name, a := range map[string]Adapter[T]{
		"to":      {To: func(T) (session.Message, error) { return session.Message{}, why }, From: adapter.From},
		"invalid": {To: func(T) (session.Message, error) { return session.Message{Role: "critic"}, nil }, From: adapter.From},
	} {
		_, err := ApplySteps(bg, &host{steps: replies(6, 500)}, a, says(good("")), withWindow(opts(Policy{MinTokens: 1}), 1000))
		e := kind(t, err, ViewFailed)
		require.Equal(t, steps, e.Target, name)
	}
	h := &host{steps: replies(6, 500)}
	_, err := ApplySteps(bg, h, Adapter[T]{To: adapter.To, From: func(session.Message) (T, error) { return T{}, why }}, says(good("")), withWindow(opts(Policy{MinTokens: 1}), 1000))
	kind(t, err, ApplyFailed)
	require.ErrorIs(t, err, why)
	require.Zero(t, h.applied)
}

// TestInputBudget: what the summarizer does not read is still in the ledger.
func TestInputBudget(t *testing.T) {
	p := NewSlice(adapter, exchanges(0, 10, 300), append(replies(3, 100), T{Role: "assistant", Text: "look", Call: "a"},
		T{Role: "tool", Answer: "a", Text: text(99, 3000)}, T{Role: "assistant", Text: "done"}))
	o := opts(Policy{MinTokens: 1})
	o.InputBudget = 1200
	s := says(good(""))
	r, err := ApplyFullReplace(bg, p, adapter, s, o)
	require.NoError(t, err)
	fit := r.Passes[0].Fit
	require.NotNil(t, fit)
	require.Equal(t, ToolTruncated, fit.Rung)
	require.Equal(t, 1, fit.Clipped)
	require.Equal(t, 19, fit.HistoryOmitted, "the newest prompt stays")
	got, prompt := 0, false
	for _, it := range s.reqs[0].Items {
		got += quarter{}.Price(it.Message)
		prompt = prompt || strings.HasPrefix(it.Message.Text(), "Request 9")
	}
	require.True(t, prompt)
	require.LessOrEqual(t, got, 1200)
	require.Equal(t, fit.Tokens, got)
	require.Contains(t, r.Text, "R-1000", "the ledger has what was omitted")
	require.Greater(t, r.Before, 6000, "the reduction is measured against everything")
	o.InputBudget = 0
	p = NewSlice(adapter, exchanges(0, 10, 300), nil)
	r, err = ApplyFullReplace(bg, p, adapter, s, o)
	require.NoError(t, err)
	require.Nil(t, r.Passes[0].Fit)
}

// TestRunningCallsStay: a call whose result is to come is not replaced.
func TestRunningCallsStay(t *testing.T) {
	for _, call := range []T{{Role: "assistant", Text: "go", Call: "a,b"}, {Role: "assistant", Text: "go", Named: true}} {
		p := NewSlice(adapter, nil, append(replies(6, 500), call))
		if call.Call != "" {
			p.Append(T{Role: "tool", Answer: "b", Text: "one of two"})
		}
		before, _ := p.AccumulatedSteps(bg)
		r, err := ApplyFullReplace(bg, p, adapter, says(good("")), opts(Policy{MinTokens: 1}))
		require.NoError(t, err)
		require.Equal(t, 6, r.Items)
		after, _ := p.AccumulatedSteps(bg)
		require.Equal(t, before[6:], after[1:])
	}
}

func TestSecretsStayOut(t *testing.T) {
	key := "sk-abcdefghijklmnop1234567890"
	h := &host{steps: append(replies(5, 500), T{Role: "assistant", Text: "the key is " + key + " as it seems"}, T{Role: "assistant", Text: text(8, 10)})}
	s, o := says(good("")), opts(Policy{MinTokens: 1})
	o.Ledger.LiveNotes = []string{"key in use: " + key}
	r, err := ApplyFullReplace(bg, h, adapter, s, o)
	require.NoError(t, err)
	require.NotContains(t, r.Text, key)
	require.Positive(t, r.Passes[0].Redacted)
	for _, it := range s.reqs[0].Items {
		require.NotContains(t, it.Message.Text(), key)
	}
	data, err := json.Marshal(r.Passes[0].Record)
	require.NoError(t, err)
	require.NotContains(t, string(data), key)
}

// TestSession compacts a session three times and reads its log.
func TestSession(t *testing.T) {
	s, err := session.Open(bg, session.NewMemoryStore(), &session.Options{Pricer: quarter{}})
	require.NoError(t, err)
	add := func(list ...T) {
		for _, it := range list {
			m, err := adapter.To(it)
			require.NoError(t, err)
			_, err = s.Append(bg, m)
			require.NoError(t, err)
		}
	}
	add(exchanges(0, 8, 500)...)
	_, err = s.Record(bg, session.Pin{Nodes: []session.Seq{2}})
	require.NoError(t, err)
	add(T{Role: "user", Text: "The prompt: port the parser."})
	add(replies(8, 500)...)
	p := NewSession(s, nil)
	o := withWindow(opts(Policy{MinTokens: 1, TargetPercent: 10}), 8000)
	r, err := ApplyHistoryThenSteps(bg, p, SessionAdapter(), says(good("")), o)
	require.NoError(t, err)
	require.Len(t, r.Passes, 2)
	add(replies(8, 500)...)
	_, err = ApplySteps(bg, p, SessionAdapter(), says(good("")), withOut(o))
	require.NoError(t, err)
	v := s.View()
	var sources, prompts, pins int
	for i := range v.Len() {
		m, err := v.Message(i)
		require.NoError(t, err)
		if compact.IsCheckpointSource(m.Source) {
			sources++
		}
		if strings.HasPrefix(m.Text(), "The prompt") {
			prompts++
		}
		if v.Pinned(v.Node(i).Seq) {
			pins++
		}
	}
	require.Equal(t, 2, sources, "the second checkpoint of the steps has taken the first one in")
	require.Equal(t, 1, prompts)
	require.Equal(t, 1, pins)
	h := compact.HistoryAt(v)
	require.NoError(t, h.Err())
	require.Len(t, h.Attempts, 3)
	for _, a := range h.Attempts {
		require.True(t, a.Committed())
	}
	again, err := ApplyFullReplace(bg, p, SessionAdapter(), says(good("")), opts(Policy{MinTokens: 1}))
	require.NoError(t, err)
	require.Contains(t, again.Text, "R-1000")
	v = s.View()
	require.Equal(t, 3, v.Len(), "checkpoint, pin and prompt")

	// A live attempt of somebody else's.
	add(replies(8, 500)...)
	now := p.now()
	_, err = s.Record(bg, compact.Event(compact.StartEvent{ID: "other", Trigger: compact.Now, Holder: compact.Holder{Run: "x", Since: now, Until: now.Add(1 << 40)}}))
	require.NoError(t, err)
	_, err = ApplySteps(bg, p, SessionAdapter(), says(good("")), withOut(o))
	kind(t, err, Conflict)
	require.ErrorIs(t, p.ReplaceWithCompaction(bg, target.Target(9), 1, SessionItem{}), ErrUnsupported)
}

// withOut returns options for the steps alone.
func withOut(o *Options) *Options {
	c := *o
	n := 0
	c.NewID = func() string { n++; return "later" + string(rune('a'+n)) }
	c.Policy.Mode = ""
	return &c
}

func TestMemoryIsData(t *testing.T) {
	m := NewMemory()
	m.Add("text", Record{ID: "c", Narrative: "n", Ledger: &summarize.Ledger{Notes: []string{"x"}}, Start: 3, End: 9, Count: 7})
	b, err := json.Marshal(m)
	require.NoError(t, err)
	back := NewMemory()
	require.NoError(t, json.Unmarshal(b, back))
	want, _ := m.Find("text")
	got, ok := back.Find("text")
	require.True(t, ok)
	require.Equal(t, want, got)
	require.Error(t, json.Unmarshal([]byte(`[]`), back))
	var none *Memory
	none.Add("x", Record{})
	_, ok = none.Find("x")
	require.False(t, ok)
	require.Zero(t, none.Len())
}
