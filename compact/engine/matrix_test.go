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

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
)

// behaviors are what a summarizer may do, with the code that ends an attempt
// without interference, and the requests that are made for it where two are
// allowed for one text.
var behaviors = []struct {
	name  string
	code  compact.Code // empty: committed
	calls int
	do    func(ctx context.Context) (string, error)
}{
	{"fine", "", 1, says("Short.")},
	{"drops required facts", "", 1, says("Nothing much happened.")}, // the ledger has them
	{"error", compact.SummaryFailed, 1, fails(summarize.Auth)},
	{"plain error", compact.SummaryFailed, 2, func(context.Context) (string, error) { return "", errors.New("boom") }},
	{"transient", compact.SummaryFailed, 2, fails(summarize.Transient)},
	{"timeout", compact.SummaryFailed, 2, fails(summarize.Timeout)},
	{"hangs until canceled", compact.SummaryFailed, 1, func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}},
	{"empty", compact.SummaryFailed, 2, says("")},
	{"blank", compact.SummaryFailed, 2, says(" \n\t ")},
	{"truncated", compact.SummaryFailed, 2, fails(summarize.Truncated)},
	{"tool call only", compact.SummaryFailed, 2, fails(summarize.ToolCalled)},
	{"invents", compact.Unfaithful, 2, says(invented)},
	{"longer than its source", compact.NotSmaller, 2, says(strings.Repeat("words and more words. ", 3000))},
	{"rate limited", compact.SummaryFailed, 2, fails(summarize.RateLimited)},
	{"overflow", compact.SummaryFailed, manyCalls, fails(summarize.Overflow)},
}

// manyCalls are requests for pieces, which are made side by side until one fails;
// maxCalls bounds them.
const manyCalls, maxCalls = -1, 12

func says(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

func fails(c summarize.Class) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "", &summarize.Failure{Class: c} }
}

// ctxDone is a context that has ended.
var ctxDone = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// ways are the triggers; an overflow with and without results to shorten first.
var ways = []struct {
	name    string
	trigger compact.Trigger
	prune   engine.Prune
}{
	{"pressure", compact.Pressure, engine.Prune{Off: true}},
	{"overflow", compact.ContextOverflow, engine.Prune{Off: true}},
	{"overflow, pruned", compact.ContextOverflow, engine.Prune{OversizedTokens: 300, HeadTokens: 100, TailTokens: 50}},
	{"region", compact.Region, engine.Prune{}},
	{"now", compact.Now, engine.Prune{}},
	{"background", compact.Behind, engine.Prune{Off: true}},
}

// interferences are what may happen around the summary. A store fails at the
// first write with an event of that type; those of a commit are in one write.
var interferences = []struct {
	name  string
	fails session.Type
}{
	{"none", ""}, {"cancel before", ""}, {"cancel during", ""}, {"cancel after", ""}, {"append meanwhile", ""}, {"second meanwhile", ""},
	{"store fails at start", compact.TypeStart}, {"store fails at summary", compact.TypeSummary},
	{"store fails at replacement", session.TypeReplace}, {"store fails at end", compact.TypeEnd},
}

// failing is a store that refuses the first write with an event of a type.
type failing struct {
	session.Store
	at session.Type
}

func (f *failing) Append(ctx context.Context, next session.Seq, events []*session.Event) error {
	for _, e := range events {
		if f.at != "" && e.Type == f.at {
			f.at = ""
			return sessiontest.ErrFault
		}
	}
	return f.Store.Append(ctx, next, events)
}

// matrix is one combination under test.
type matrix struct {
	t       *testing.T
	s       *session.Session
	store   *failing
	e       *engine.Engine
	agent   compact.Agent
	trigger compact.Trigger
	mu      sync.Mutex
	calls   int
	second  error // what a second compaction got
	pruned  []compact.Pruned
	// unrecorded: the end of a failed background run is not in the log.
	unrecorded bool
}

// run makes the compaction; why nothing was committed comes back as an error.
func (m *matrix) run(ctx context.Context) error {
	switch m.trigger {
	case compact.Region:
		v := m.s.View()
		_, err := m.e.CompactRegion(ctx, m.agent, v.Node(0).Seq, v.Node(v.Len()-9).Seq)
		return err
	case compact.Now:
		_, err := m.e.CompactNow(ctx, m.agent, nil)
		return err
	case compact.Behind:
		ok, err := m.e.StartBackground(ctx, m.agent)
		if err != nil {
			return err
		}
		require.True(m.t, ok)
		if err := m.e.WaitBackground(context.WithoutCancel(ctx), m.agent); err != nil {
			return err
		}
		if m.unrecorded {
			return compact.SummaryFailed // for the next check there was no attempt
		}
		o, err := m.e.Consider(context.WithoutCancel(ctx), m.agent, compact.Pressure) // the next check
		if err != nil || o.Result != nil {
			return err
		}
		h := compact.HistoryOf(m.s)
		if last := h.Last(); last != nil { // it tells why
			return last.End.Code
		}
		return nil
	}
	o, err := m.e.Consider(ctx, m.agent, m.trigger)
	if o != nil {
		m.pruned = o.Pruned
		if err == nil && o.Result == nil {
			return o.Code
		}
	}
	return err
}

func TestFaultMatrix(t *testing.T) {
	for _, b := range behaviors {
		for _, way := range ways {
			for _, i := range interferences {
				t.Run(fmt.Sprintf("%s/%s/%s", b.name, way.name, i.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := &matrix{t: t, trigger: way.trigger, store: &failing{Store: session.NewMemoryStore()}}
						m.combination(b.code, b.calls, b.do, way.prune, i.name, i.fails)
					})
				})
			}
		}
	}
}

func (m *matrix) combination(code compact.Code, calls int, do func(context.Context) (string, error), prune engine.Prune, interference string, fails session.Type) {
	t := m.t
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	cause := errors.New("stop it")
	m.s = open(t, m.store)
	m.agent = compact.Agent{Session: m.s}
	other := newEngine(t, new(stub), nil)
	m.e = newEngine(t, &stub{collect: func(ctx context.Context, _ int, _ *summarize.Request) (string, error) {
		m.mu.Lock() // chunks are asked for in parallel
		m.calls++
		first := m.calls == 1
		m.mu.Unlock()
		switch {
		case interference == "cancel during":
			cancel(cause)
		case interference == "append meanwhile" && first:
			_, err := m.s.Append(context.WithoutCancel(ctx), session.UserText("meanwhile"))
			require.NoError(t, err)
		case interference == "second meanwhile" && first:
			_, m.second = other.CompactNow(t.Context(), m.agent, nil)
		}
		text, err := do(ctx)
		if interference == "cancel after" {
			cancel(cause)
		}
		return text, err
	}}, func(o *engine.Options) {
		o.Prune = prune
		o.Run.Deadline = time.Minute
		o.Run.Attempts, o.Run.MaxCalls = 2, maxCalls
		o.BackgroundRatio = 0.3
	})
	talk(t, m.s, 24)
	start := m.s.View()
	if interference == "cancel before" {
		cancel(cause)
	}
	m.store.at = fails
	m.unrecorded = fails == compact.TypeEnd && code != ""
	err := m.run(ctx)

	// The code, and what there is in the log.
	pruned := m.trigger == compact.ContextOverflow && !prune.Off
	commits := code == ""
	switch {
	case interference == "cancel before":
		code = compact.Cancelled
		require.ErrorIs(t, err, cause)
	case interference == "store fails at start":
		code = compact.PersistenceFailed
	case strings.HasPrefix(interference, "cancel"):
		code = compact.Cancelled
		if m.trigger != compact.Behind {
			require.ErrorIs(t, err, cause)
		}
	case interference == "second meanwhile":
		require.ErrorIs(t, m.second, compact.Busy)
	case fails == session.TypeReplace && pruned, fails != "" && commits:
		code = compact.CommitFailed
	}
	if code == "" {
		require.NoError(t, err)
	} else if m.trigger != compact.Behind || !m.unrecorded {
		require.ErrorIs(t, err, code)
	}
	var want []session.Type
	switch began := interference != "cancel before" && interference != "store fails at start"; {
	case !began:
		require.Zero(t, m.calls)
	case fails == session.TypeReplace && pruned: // the pruning is refused
		want = []session.Type{compact.TypeStart, compact.TypeEnd}
		require.Zero(t, m.calls)
		require.Empty(t, m.pruned)
	default:
		want = []session.Type{compact.TypeStart}
		if pruned {
			require.NotEmpty(t, m.pruned)
			want = append(want, compact.TypePrune)
			for range m.pruned {
				want = append(want, session.TypeReplace)
			}
		}
		if interference == "append meanwhile" {
			want = append(want, session.TypeMessage)
		}
		switch {
		case code == "":
			want = append(want, compact.TypeSummary, session.TypeReplace, compact.TypeEnd)
		case m.unrecorded: // its record was refused: it is stale at once
		default:
			want = append(want, compact.TypeEnd)
		}
		if interference == "cancel during" || interference == "cancel after" {
			require.Equal(t, 1, m.calls)
		} else if calls == manyCalls {
			require.Greater(t, m.calls, 2)
			require.LessOrEqual(t, m.calls, maxCalls)
		} else {
			require.Equal(t, calls, m.calls)
		}
	}
	var got []session.Type
	for e := range m.s.View().Events(start.Next()) {
		got = append(got, e.Type)
	}
	require.Equal(t, want, got)

	// Exactly one end, with the code and the calls.
	h := compact.HistoryOf(m.s)
	require.NoError(t, h.Err())
	if len(want) > 0 && want[len(want)-1] == compact.TypeEnd {
		require.Len(t, h.Attempts, 1)
		a := h.Attempts[0]
		require.Equal(t, code, a.End.Code)
		if _, told := do(ctxDone); told == nil || errors.As(told, new(*summarize.Failure)) {
			require.Len(t, a.End.Calls, m.calls, "every call is in the log")
		}
	}

	// The surface: what stood there, with short forms and the checkpoint in the
	// places of what they stand for.
	v := m.s.View()
	short, gone := make(map[session.Seq]session.Seq), make(map[session.Seq]bool)
	for _, p := range m.pruned {
		short[p.Node] = p.By
		require.Less(t, p.After, p.Before)
	}
	var surface []session.Seq
	if code == "" {
		ev, err := v.Event(h.Attempts[0].Summary)
		require.NoError(t, err)
		p, err := compact.Decode(ev)
		require.NoError(t, err)
		for _, q := range p.(compact.SummaryEvent).Seqs {
			gone[q] = true
		}
		surface = append(surface, h.Attempts[0].Checkpoint)
		require.Contains(t, texts(t, m.s)[0], "Request 0: look at item 0.", "facts do not depend on the summarizer")
		require.Less(t, v.SurfaceTokens(), start.SurfaceTokens())
	}
	for i := range start.Len() {
		q := start.Node(i).Seq
		if by, ok := short[q]; ok {
			q = by
		}
		if !gone[q] {
			surface = append(surface, q)
		}
	}
	for e := range v.Events(start.Next()) {
		if e.Type == session.TypeMessage { // appended meanwhile
			surface = append(surface, e.Seq)
		}
	}
	var stands []session.Seq
	for i := range v.Len() {
		stands = append(stands, v.Node(i).Seq)
	}
	require.Equal(t, surface, stands)
	require.NoError(t, sessiontest.Check(m.s.View(), m.s.Pricer()))

	// It blocks nobody.
	m.store.at = ""
	if code != "" {
		_, err = other.CompactNow(t.Context(), m.agent, nil)
		require.NoError(t, err, "the next one works")
	}
}
