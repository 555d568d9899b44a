package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
)

// TestLifecycleFaults: whatever the summarizer, the store, the caller and the
// callbacks do together, the session ends as it does without a lifecycle, and
// every started compaction ends once.
func TestLifecycleFaults(t *testing.T) {
	callbacks := []string{"nothing", "error", "panic", "exit", "hang", "illegal", "keep"}
	summarizers := map[string]func(ctx context.Context) (string, error){
		"fine":  func(context.Context) (string, error) { return "Short.", nil },
		"fails": func(context.Context) (string, error) { return "", &summarize.Failure{Class: summarize.Auth} },
		"hangs": func(ctx context.Context) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) },
		"long":  func(context.Context) (string, error) { return fill(30_000, "words"), nil },
	}
	ways := []string{"none", "cancel", "store fails at start", "store fails at commit", "edited meanwhile"}
	triggers := []compact.Trigger{compact.Pressure, compact.ContextOverflow, compact.Now, compact.Region, compact.Behind}
	for name, do := range summarizers {
		for _, way := range ways {
			for _, trigger := range triggers {
				t.Run(fmt.Sprintf("%s/%s/%s", name, way, trigger), func(t *testing.T) {
					var want string
					for _, kind := range append([]string{""}, callbacks...) {
						synctest.Test(t, func(t *testing.T) {
							got := lifecycleFault(t, kind, do, way, trigger)
							if kind == "" {
								want = got
							}
							require.Equal(t, want, got, kind)
						})
					}
				})
			}
		}
	}
}

// lifecycleFault plays one combination and returns what came of it.
func lifecycleFault(t *testing.T, kind string, do func(context.Context) (string, error), way string, trigger compact.Trigger) string {
	faulty := sessiontest.NewFaulty(session.NewMemoryStore())
	s, err := session.Open(t.Context(), faulty, nil)
	require.NoError(t, err)
	defer s.Close()
	gate := make(chan struct{})
	var kept []*lifecycle.Checkpoint
	bad := func(context.Context) error {
		switch kind {
		case "error":
			return errors.New(planted)
		case "panic":
			panic(planted)
		case "exit":
			runtime.Goexit()
		case "hang":
			<-gate
		}
		return nil
	}
	rec := new(lifecycletest.Recorder)
	var d *agentDispatcher
	if kind != "" {
		g := &guardian{id: "g", other: bad}
		switch kind {
		case "illegal":
			g.before = func(_ context.Context, c *lifecycle.Call) error { c.Model = "another"; return nil }
			g.release = func(_ context.Context, c *lifecycle.Checkpoint) error { c.ID, c.Narrative = "x", planted; return nil }
		case "keep":
			g.release = func(_ context.Context, c *lifecycle.Checkpoint) error { kept = append(kept, c); return nil }
			g.other = func(context.Context) error {
				for _, k := range kept {
					k.Narrative, k.Notes = planted, append(k.Notes, planted)
				}
				return nil
			}
		}
		d = dispatcher(t, agentOptions{Observers: []lifecycle.Observer{observerFunc(func(ctx context.Context, _ lifecycle.Event) error { return bad(ctx) }), rec}, Preservers: []agentPreserver{g}})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	st := &stub{collect: func(ctx context.Context, n int, _ *summarize.Request) (string, error) {
		if n == 1 {
			switch way {
			case "cancel":
				cancel(errors.New("stop it"))
			case "edited meanwhile":
				v := s.View()
				_, err := s.Record(context.WithoutCancel(ctx), session.Replace{Start: v.Node(0).Seq, End: v.Node(0).Seq, Message: session.UserText("edited")})
				require.NoError(t, err)
			}
		}
		return do(ctx)
	}}
	e := newEngine(t, st, func(o *engine.Options) {
		o.Lifecycle, o.NewID = d, func() string { return fmt.Sprint("id-", faulty.Writes()) }
		o.Run.Deadline, o.Run.Attempts, o.BackgroundRatio = time.Minute, 1, 0.3
	})
	talk(t, s, 24)
	agent := compact.Agent{Session: s}
	switch way {
	case "store fails at start":
		faulty.On(1, sessiontest.Fail)
	case "store fails at commit":
		faulty.On(2, sessiontest.Fail)
	}
	switch trigger {
	case compact.Pressure, compact.ContextOverflow:
		_, err = e.CompactIfNeeded(ctx, agent, trigger)
	case compact.Now:
		_, err = e.CompactNow(ctx, agent, nil)
	case compact.Region:
		v := s.View()
		_, err = e.CompactRegion(ctx, agent, v.Node(0).Seq, v.Node(v.Len()-9).Seq)
	case compact.Behind:
		if _, err = e.StartBackground(ctx, agent); err == nil {
			require.NoError(t, e.WaitBackground(t.Context(), agent))
			_, err = e.CompactIfNeeded(t.Context(), agent, compact.Pressure)
		}
	}
	close(gate)
	synctest.Wait()
	var ce *compact.Error
	code := ""
	if errors.As(err, &ce) {
		code = string(ce.Code)
	}
	starts, finished, codes := ends(t, s)
	if kind != "" {
		require.NoError(t, lifecycletest.Check(rec.Transitions()))
		stats := d.Stats()
		require.Equal(t, stats.Started, stats.Completed+stats.Aborted)
		require.Zero(t, stats.Running)
		if h := compact.HistoryOf(s); h.LastCommitted() != nil {
			require.NotZero(t, stats.Completed)
		} else {
			require.Zero(t, stats.Completed)
		}
		all, err := json.Marshal([]any{rec.Transitions(), stats})
		require.NoError(t, err)
		require.NotContains(t, string(all)+surfaceJSON(t, s), "PLANTED")
	}
	return fmt.Sprint(code, starts, finished, codes, surfaceJSON(t, s))
}

type observerFunc func(context.Context, lifecycle.Event) error

func (f observerFunc) OnCompaction(ctx context.Context, e lifecycle.Event) error { return f(ctx, e) }
