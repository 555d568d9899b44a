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
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
)

// behaviors are what a summarizer may do, with the code that ends an attempt
// without interference.
var behaviors = []struct {
	name string
	code compact.Code // empty: committed
	do   func(ctx context.Context) (string, error)
}{
	{"fine", "", says("Short.")},
	{"drops facts", "", says("Nothing much happened.")},
	{"error", compact.SummaryFailed, fails(summarize.Auth)},
	{"plain error", compact.SummaryFailed, func(context.Context) (string, error) { return "", errors.New("boom") }},
	{"transient", compact.SummaryFailed, fails(summarize.Transient)},
	{"timeout", compact.SummaryFailed, fails(summarize.Timeout)},
	{"hangs", compact.SummaryFailed, func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}},
	{"empty", compact.SummaryFailed, says("")},
	{"blank", compact.SummaryFailed, says(" \n\t ")},
	{"truncated", compact.SummaryFailed, fails(summarize.Truncated)},
	{"tool call", compact.SummaryFailed, fails(summarize.ToolCalled)},
	{"invents", compact.Unfaithful, says(invented)},
	{"longer than its source", compact.NotSmaller, says(strings.Repeat("words and more words. ", 3000))},
	{"rate limited", compact.SummaryFailed, fails(summarize.RateLimited)},
	{"overflow", compact.SummaryFailed, fails(summarize.Overflow)},
}

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

var matrixTriggers = []compact.Trigger{compact.Pressure, compact.ContextOverflow, compact.Region, compact.Now, compact.Behind}

// interferences are what may happen around the summary.
var interferences = []string{"none", "cancel before", "cancel during", "cancel after", "append meanwhile", "second meanwhile",
	"store fails at start", "store fails at the next write", "store fails at the third write"}

// matrix is one combination under test.
type matrix struct {
	t       *testing.T
	s       *session.Session
	faulty  *sessiontest.Faulty
	e       *engine.Engine
	agent   compact.Agent
	trigger compact.Trigger
	mu      sync.Mutex
	calls   int
	second  error // what a second compaction got
}

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
		_, err = m.e.CompactIfNeeded(context.WithoutCancel(ctx), m.agent, compact.ContextOverflow)
		var ce *compact.Error
		if errors.As(err, &ce) {
			return err
		}
		return nil
	}
	_, err := m.e.CompactIfNeeded(ctx, m.agent, m.trigger)
	return err
}

func TestFaultMatrix(t *testing.T) {
	for _, b := range behaviors {
		for _, trigger := range matrixTriggers {
			for _, interference := range interferences {
				t.Run(fmt.Sprintf("%s/%s/%s", b.name, trigger, interference), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { combination(t, b.code, b.do, trigger, interference) })
				})
			}
		}
	}
}

func combination(t *testing.T, code compact.Code, do func(context.Context) (string, error), trigger compact.Trigger, interference string) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	cause := errors.New("stop it")
	m := &matrix{t: t, trigger: trigger, faulty: sessiontest.NewFaulty(session.NewMemoryStore())}
	var err error
	m.s, err = session.Open(t.Context(), m.faulty, nil)
	require.NoError(t, err)
	defer m.s.Close()
	m.agent = compact.Agent{Session: m.s}
	other := newEngine(t, new(stub), nil)
	collect := func(ctx context.Context, _ int, _ *summarize.Request) (string, error) {
		m.mu.Lock() // chunks are asked for in parallel
		m.calls++
		first := m.calls == 1
		m.mu.Unlock()
		switch interference {
		case "cancel during":
			cancel(cause)
		case "append meanwhile":
			if first {
				_, err := m.s.Append(context.WithoutCancel(ctx), session.UserText("meanwhile"))
				require.NoError(t, err)
			}
		case "second meanwhile":
			if first {
				_, m.second = other.CompactNow(t.Context(), m.agent, nil)
			}
		}
		text, err := do(ctx)
		if interference == "cancel after" {
			cancel(cause)
		}
		return text, err
	}
	m.e = newEngine(t, &stub{collect: collect}, func(o *engine.Options) {
		o.Run.Deadline = time.Minute
		o.Run.Attempts = 2
		o.BackgroundRatio = 0.3
	})
	talk(t, m.s, 24)
	before, start := texts(t, m.s), m.s.View()
	switch interference {
	case "cancel before":
		cancel(cause)
	case "store fails at start":
		m.faulty.On(1, sessiontest.Fail)
	case "store fails at the next write":
		m.faulty.On(2, sessiontest.Fail)
	case "store fails at the third write":
		m.faulty.On(3, sessiontest.Fail)
	}
	err = m.run(ctx)
	if trigger == compact.Behind && interference != "cancel before" && interference != "store fails at start" && (interference == "store fails at the third write" || code != "" || interference == "cancel during" || interference == "cancel after") {
		// The overflow check behind it makes an attempt of its own; what counts
		// here is the first bracket.
		err = nil
	}

	starts, finished, codes := ends(t, m.s)
	switch interference {
	case "cancel before":
		require.ErrorIs(t, err, compact.Cancelled)
		require.ErrorIs(t, err, cause)
		require.Zero(t, starts+m.calls)
		require.Equal(t, start.Next(), m.s.View().Next())
		return
	case "store fails at start":
		require.ErrorIs(t, err, compact.PersistenceFailed)
		require.Zero(t, starts+m.calls)
		require.Equal(t, before, texts(t, m.s))
		return
	case "cancel during", "cancel after":
		code = compact.Cancelled
		if trigger != compact.Behind {
			require.ErrorIs(t, err, cause)
		}
	case "second meanwhile":
		require.ErrorIs(t, m.second, compact.Busy)
	case "store fails at the next write":
		if code != "" {
			// The end could not be recorded: the attempt is stale at once.
			if trigger != compact.Behind {
				require.ErrorIs(t, err, code)
				require.Equal(t, []int{1, 0}, []int{starts, finished})
			}
			require.Equal(t, before, texts(t, m.s)[:len(before)])
			if trigger != compact.Behind {
				_, err = other.CompactNow(t.Context(), m.agent, nil)
				require.NoError(t, err, "it does not block the next one")
			}
			return
		}
		code = compact.CommitFailed
	}
	require.GreaterOrEqual(t, finished, 1)
	require.Equal(t, starts, finished, "every start has one end")
	require.Equal(t, code, codes[0])
	if trigger != compact.Behind {
		require.Equal(t, 1, starts)
		if code == "" {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, code)
		}
	}
	after := texts(t, m.s)
	if interference == "append meanwhile" {
		require.Equal(t, "meanwhile", after[len(after)-1])
		after = after[:len(after)-1]
	}
	switch {
	case code == "":
		require.Less(t, m.s.View().SurfaceTokens(), start.SurfaceTokens())
		require.True(t, compact.IsCheckpointSource(m.s.View().Node(0).Source()))
	case trigger != compact.Behind:
		require.Equal(t, before, after, "a failed attempt leaves the surface as it was")
	}
	h := compact.HistoryOf(m.s)
	require.NoError(t, h.Err())
	if _, told := do(ctxDone); m.calls > 0 && (told == nil || errors.As(told, new(*summarize.Failure))) {
		assert.NotEmpty(t, h.Attempts[0].End.Calls, "every call is in the log")
	}
	require.NoError(t, sessiontest.Check(m.s.View(), m.s.Pricer()))
	require.NoError(t, compact.CheckLog(m.s.View()))
}
