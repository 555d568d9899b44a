package compacttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
)

func (t *suite) changed() {
	other := session.AssistantText("other")
	for name, change := range map[string]session.Body{
		"head replaced":   session.Replace{Start: 0, End: 0, Message: session.UserText("other")},
		"middle replaced": session.Replace{Start: 7, End: 7, Message: other},
		"end replaced":    session.Replace{Start: 15, End: 15, Message: other},
		"pinned":          session.Pin{Nodes: []session.Seq{3}},
		"rewound":         session.Rewind{To: 8},
	} {
		t.sub(name, func(t *suite) {
			w := t.world(nil)
			w.write = func(ctx context.Context, _ int) (string, error) {
				_, err := w.s.Record(ctx, change)
				return "Done.", err
			}
			w.rounds(6)
			_, err := w.region(w.Context(), 4)
			ce := w.failed(err, compact.Changed)
			assert.True(w, ce.Written)
			assert.True(w, ce.Code.RetryUseful())
			w.ended(1, compact.Changed)
			for i := range w.s.View().Len() {
				assert.False(w, compact.IsCheckpointSource(w.s.View().Node(i).Source()))
			}
		})
	}
}

func (t *suite) cancel() {
	cause := errors.New("user pressed escape")
	for _, when := range []string{"before", "during", "after"} {
		for name, run := range map[string]func(*world, context.Context) error{
			"region":   func(w *world, ctx context.Context) error { _, err := w.region(ctx, 20); return err },
			"pressure": func(w *world, ctx context.Context) error { return w.auto(ctx, compact.Pressure) },
			"overflow": func(w *world, ctx context.Context) error { return w.auto(ctx, compact.ContextOverflow) },
		} {
			t.sub(when+" "+name, func(t *suite) {
				w := t.world(nil)
				ctx, cancel := context.WithCancelCause(w.Context())
				defer cancel(nil)
				w.write = func(ctx context.Context, _ int) (string, error) {
					cancel(cause)
					if when == "during" {
						<-ctx.Done()
						return "", context.Cause(ctx)
					}
					return "Done.", nil // it does not notice
				}
				w.rounds(26)
				before, texts := w.s.View(), w.texts()
				if when == "before" {
					cancel(cause)
				}
				err := run(w, ctx)
				w.failed(err, compact.Cancelled)
				require.ErrorIs(w, err, cause, "the cause comes back")
				assert.Equal(w, texts, w.texts())
				if when == "before" {
					w.untouched(before, 0)
				} else {
					w.ended(1, compact.Cancelled)
				}
				w.write = nil
				_, err = w.region(w.Context(), 20)
				require.NoError(w, err, "it does not block the next one")
			})
		}
	}
}

func (w *world) auto(ctx context.Context, trigger compact.Trigger) error {
	_, err := w.svc.CompactIfNeeded(ctx, w.agent, trigger)
	return err
}

func (t *suite) oneAtATime() {
	w := t.world(nil)
	begun, gate := make(chan struct{}), make(chan struct{})
	w.write = func(context.Context, int) (string, error) {
		close(begun)
		<-gate
		return "Done.", nil
	}
	w.rounds(26)
	before := w.s.View()
	var r *compact.Result
	done := make(chan error)
	go func() {
		var err error
		r, err = w.region(w.Context(), 20)
		done <- err
	}()
	<-begun
	next := w.s.View().Next()
	for name, svc := range map[string]compact.Service{"the same": w.svc, "another": w.other()} {
		_, err := svc.CompactRegion(w.Context(), w.agent, 80, 87)
		ce := w.failed(err, compact.Busy)
		require.NotNil(w, ce.Holder, "%s: it names who holds the lease", name)
		assert.Equal(w, os.Getpid(), ce.Holder.PID)
		assert.False(w, ce.Holder.Since.IsZero())
		assert.False(w, ce.Written)
		for _, trigger := range []compact.Trigger{compact.Pressure, compact.ContextOverflow} {
			r, err := svc.CompactIfNeeded(w.Context(), w.agent, trigger)
			assert.Nil(w, r)
			if err != nil { // a busy session may be an answer, too
				w.failed(err, compact.Busy)
			}
		}
	}
	assert.Equal(w, next, w.s.View().Next(), "nothing is written meanwhile")
	close(gate)
	require.NoError(w, <-done)
	w.committed(before, r, compact.Region)
}

func (t *suite) many() {
	w := t.world(nil)
	w.rounds(26)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	services := []compact.Service{w.other(), w.other()}
	for i := range 8 {
		wg.Go(func() {
			_, err := services[i%2].CompactRegion(w.Context(), w.agent, 0, 79)
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, compact.Busy), errors.Is(err, compact.NotFound):
				lost.Add(1)
			default:
				w.Errorf("a racer got %v", err)
			}
		})
	}
	wg.Wait()
	assert.Equal(w, []int32{1, 7}, []int32{won.Load(), lost.Load()})
	w.ended(1, "")
}

func (t *suite) leases() {
	host, err := os.Hostname()
	require.NoError(t, err)
	now := time.Now()
	for name, c := range map[string]struct {
		holder compact.Holder
		busy   bool
	}{
		"a dead process":         {compact.Holder{Run: "r", Host: host, PID: 1 << 22, Since: now, Until: now.Add(time.Hour)}, false},
		"a run of ours that was": {compact.Holder{Run: "r", Host: host, PID: os.Getpid(), Boot: "other", Since: now, Until: now.Add(time.Hour)}, false},
		"another host, late":     {compact.Holder{Run: "r", Host: host + "x", PID: 1, Since: now.Add(-time.Hour), Until: now.Add(-time.Minute)}, false},
		"another host":           {compact.Holder{Run: "r", Host: host + "x", PID: 1, Since: now, Until: now.Add(time.Hour)}, true},
	} {
		t.sub(name, func(t *suite) {
			w := t.world(nil)
			w.rounds(6)
			_, err := w.s.Record(w.Context(), compact.Event(compact.StartEvent{ID: "theirs", Trigger: compact.Now, Holder: c.holder}))
			require.NoError(w, err)
			before := w.s.View()
			r, err := w.region(w.Context(), 4)
			if c.busy {
				ce := w.failed(err, compact.Busy)
				require.NotNil(w, ce.Holder)
				assert.Equal(w, c.holder.Host, ce.Holder.Host)
				w.untouched(before, 0)
				return
			}
			require.NoError(w, err)
			w.committed(before, r, compact.Region)
		})
	}
}

func (t *suite) notSmaller() {
	w := t.world(nil)
	w.write = func(context.Context, int) (string, error) {
		return strings.Repeat("many words in many lines, ", 4000), nil
	}
	w.rounds(6)
	texts := w.texts()
	_, err := w.region(w.Context(), 4)
	ce := w.failed(err, compact.NotSmaller)
	assert.True(w, ce.Written)
	assert.NotEmpty(w, ce.Calls)
	w.ended(1, compact.NotSmaller)
	assert.Equal(w, texts, w.texts())
}

func (t *suite) noSummary() {
	boom := errors.New("boom")
	for name, write := range map[string]Write{
		"error": func(context.Context, int) (string, error) { return "", boom },
		"empty": func(context.Context, int) (string, error) { return "", nil },
		"blank": func(context.Context, int) (string, error) { return " \n\t ", nil },
	} {
		t.sub(name, func(t *suite) {
			w := t.world(nil)
			w.write = write
			w.rounds(6)
			texts := w.texts()
			_, err := w.region(w.Context(), 4)
			ce := w.failed(err, compact.SummaryFailed)
			assert.True(w, ce.Written)
			if name == "error" {
				assert.ErrorIs(w, err, boom, "the cause comes back")
				assert.Contains(w, w.attempts()[0].End.Error, "boom", "and is in the log")
			}
			w.ended(1, compact.SummaryFailed)
			assert.Equal(w, texts, w.texts())
			w.write = nil
			_, err = w.region(w.Context(), 4)
			require.NoError(w, err, "the next one works")
			w.ended(2, "")
		})
	}
}

func (t *suite) storeFails() {
	for n, fault := range []sessiontest.Fault{sessiontest.Fail, sessiontest.Fail, sessiontest.Fail} {
		t.sub(fmt.Sprint("write ", n+1), func(t *suite) {
			faulty := sessiontest.NewFaulty(session.NewMemoryStore())
			w := t.world(faulty)
			w.rounds(6)
			texts := w.texts()
			before := w.s.View()
			faulty.On(n+1, fault)
			r, err := w.region(w.Context(), 4)
			switch n {
			case 0: // the start
				ce := w.failed(err, compact.PersistenceFailed)
				assert.ErrorIs(w, err, sessiontest.ErrFault)
				assert.False(w, ce.Written)
				w.untouched(before, 0)
			case 1: // summary, replacement and end
				ce := w.failed(err, compact.CommitFailed)
				assert.ErrorIs(w, err, sessiontest.ErrFault)
				assert.True(w, ce.Written)
				w.ended(1, compact.CommitFailed)
				assert.Equal(w, texts, w.texts())
			case 2:
				require.NoError(w, err)
				w.committed(before, r, compact.Region)
				return
			}
			faulty.On(1, 0)
			_, err = w.region(w.Context(), 4)
			require.NoError(w, err, "the next one works")
		})
	}
	t.sub("the record of a failure", func(t *suite) {
		faulty := sessiontest.NewFaulty(session.NewMemoryStore())
		w := t.world(faulty)
		w.write = func(context.Context, int) (string, error) { return "", errors.New("boom") }
		w.rounds(6)
		texts := w.texts()
		faulty.On(2, sessiontest.Fail)
		_, err := w.region(w.Context(), 4)
		w.failed(err, compact.SummaryFailed)
		assert.Equal(w, texts, w.texts())
		w.write = nil
		before := w.s.View()
		r, err := w.region(w.Context(), 4)
		require.NoError(w, err, "an attempt whose end is not in the log blocks nobody")
		w.committed(before, r, compact.Region)
	})
}
