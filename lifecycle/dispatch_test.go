package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
)

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// TestObserversInOrder: all see one event before any sees the next, whatever
// the others do, and everybody's failures are counted.
func TestObserversInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var mu sync.Mutex
		var got []string
		watch := func(name, kind string) watcher {
			return func(_ context.Context, e lifecycle.Event) error {
				mu.Lock()
				got = append(got, name+" "+e.TraceID)
				mu.Unlock()
				return misbehave(kind, gate)
			}
		}
		var failures []lifecycle.Failure
		d := newDocs(t, lifecycle.Options[doc, doc]{
			Observers: []lifecycle.Observer{watch("a", "error"), watch("b", "panic"), watch("c", "exit"), watch("d", "hang"), watch("e", "")},
			Failures: func(f lifecycle.Failure) {
				mu.Lock()
				failures = append(failures, f)
				mu.Unlock()
			},
		})
		began := time.Now()
		d.Emit(t.Context(), lifecycle.Transition{Event: lifecycle.Event{TraceID: "1"}}, lifecycle.Transition{Event: lifecycle.Event{TraceID: "2"}})
		require.Equal(t, "a 1,b 1,c 1,d 1,e 1,a 2,b 2,c 2,d 2,e 2", strings.Join(got, ","))
		require.Equal(t, 2*time.Second, time.Since(began), "waited for the hanging one alone, to its deadline")
		s := d.Stats()
		require.Equal(t, [6]uint64{10, 2, 4, 2, 0, 0}, [6]uint64{s.Calls, s.Errors, s.Panics, s.Deadlines, s.Dropped, s.Invalid})
		require.Equal(t, 2, s.Running)
		require.Len(t, failures, 8)
		close(gate)
		synctest.Wait()
		require.Zero(t, d.Stats().Running)
	})
}

// TestBreakerAndBound: who hangs is left alone a bounded number of times, who
// fails is not asked for a while, then once.
func TestBreakerAndBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		calls, healed := 0, false
		failing := watcher(func(context.Context, lifecycle.Event) error {
			calls++
			if healed {
				return nil
			}
			return errSecret
		})
		hanging := watcher(func(context.Context, lifecycle.Event) error { <-gate; return nil })
		d := newDocs(t, lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{failing, hanging}, MaxRunning: 2, MaxFailures: 3})
		for range 10 {
			d.Emit(t.Context(), lifecycle.Transition{})
		}
		s := d.Stats()
		require.Equal(t, 3, calls)
		require.Equal(t, 2, s.Running, "no more than MaxRunning are left alone")
		require.True(t, s.Owners[0].Open)
		require.EqualValues(t, 7, s.Owners[0].Dropped)
		require.EqualValues(t, 8, s.Owners[1].Dropped)
		require.EqualValues(t, 15, s.Dropped)

		time.Sleep(time.Minute)
		d.Emit(t.Context(), lifecycle.Transition{}, lifecycle.Transition{})
		require.Equal(t, 4, calls, "half open lets one through")
		time.Sleep(time.Minute)
		healed = true
		for range 5 {
			d.Emit(t.Context(), lifecycle.Transition{})
		}
		require.Equal(t, 9, calls, "a success closes it")
		close(gate)
		synctest.Wait()
	})
}

// TestCancellation: a canceled compaction does not wait for callbacks, and
// those that come after are not made.
func TestCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		later := 0
		d := newDocs(t, lifecycle.Options[doc, doc]{Preservers: []lifecycle.Preserver[doc, doc]{
			&fake{id: "hang", before: func(_ context.Context, d *doc, _ lifecycle.Services) error {
				<-gate
				d.Text = "too late"
				return nil
			}},
			&fake{id: "later", before: func(context.Context, *doc, lifecycle.Services) error { later++; return nil }},
		}})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Millisecond); cancel() }()
		began := time.Now()
		v := doc{Text: "x"}
		require.NoError(t, begin(d).BeforeRequest(ctx, &v, nil))
		require.Equal(t, time.Millisecond, time.Since(began))
		require.Zero(t, later)
		require.EqualValues(t, 1, d.Stats().Canceled)
		require.NoError(t, begin(d).BeforeRequest(ctx, &v, nil))
		require.EqualValues(t, 1, d.Stats().Calls, "none is made when it is over")
		close(gate)
		synctest.Wait()
		require.Equal(t, "x", v.Text)
	})
}

// TestCancellationSparesObservers: the end of a context ends what preservers
// are told of an opened request, and nothing of what observers are.
func TestCancellationSparesObservers(t *testing.T) {
	for _, when := range []string{"before", "in a preserver", "in an observer"} {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			var tr trace
			p, q := traced(&tr, "p"), traced(&tr, "q")
			if when == "in a preserver" {
				p.opened = func(context.Context, doc, []lifecycle.Event) error { <-gate; return nil }
			}
			ctx, cancel := context.WithCancel(t.Context())
			watch := watcher(func(ctx context.Context, e lifecycle.Event) error {
				if when == "in an observer" && e.Phase == lifecycle.PhaseStarted {
					time.Sleep(2 * time.Millisecond)
				}
				tr.add("observer:" + string(e.Phase))
				return ctx.Err()
			})
			d := newDocs(t, lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{watch, watch}, Preservers: []lifecycle.Preserver[doc, doc]{p, q}})
			if when == "before" {
				cancel()
			} else {
				time.AfterFunc(time.Millisecond, cancel)
			}
			r := begin(d)
			r.RequestOpened(ctx, doc{}, "", 1)
			require.Error(t, ctx.Err())
			r.Committed(ctx, doc{}, nil)
			want, calls := "observer:started observer:started observer:completed observer:completed p:after q:after", 6
			switch when {
			case "in a preserver":
				calls++
			case "in an observer":
				want, calls = "p:opened:started q:opened:started "+want, calls+2
			}
			require.Equal(t, want, strings.Join(tr, " "))
			left := map[string]uint64{"in a preserver": 1}[when]
			s := d.Stats()
			require.Equal(t, [4]uint64{uint64(calls), 0, left, 0}, [4]uint64{s.Calls, s.Errors, s.Canceled, s.Deadlines})
			close(gate)
			synctest.Wait()
		})
	}
}

// TestContextOfCallback: it carries the deadline, ends with the callback, and
// the state that came with it ends, too.
func TestContextOfCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept, unasked context.Context
		var store lifecycle.State
		late := make(chan error, 1)
		type key struct{}
		d := newDocs(t, lifecycle.Options[doc, doc]{PreserverTimeout: 3 * time.Second, Preservers: []lifecycle.Preserver[doc, doc]{
			&fake{id: "keeps", before: func(ctx context.Context, _ *doc, s lifecycle.Services) error {
				kept, store = ctx, s.State
				until, ok := ctx.Deadline()
				require.True(t, ok)
				require.Equal(t, 3*time.Second, time.Until(until))
				require.Equal(t, 7, ctx.Value(key{}))
				require.NoError(t, ctx.Err())
				return s.State.Put(ctx, "k", []byte("v"))
			}},
			&fake{id: "silent", before: func(ctx context.Context, _ *doc, _ lifecycle.Services) error {
				unasked = ctx
				return nil
			}},
			&fake{id: "obeys", before: func(ctx context.Context, _ *doc, s lifecycle.Services) error {
				assert.Error(t, unasked.Err(), "it is over, also if nobody asked before")
				<-ctx.Done()
				time.Sleep(time.Second)
				late <- s.State.Put(context.Background(), "k", []byte("late"))
				return ctx.Err()
			}},
		}})
		state := new(lifecycle.MemoryState)
		run := d.Begin(lifecycle.RunInfo{State: state})
		v := doc{Text: "x"}
		require.NoError(t, run.BeforeRequest(context.WithValue(t.Context(), key{}, 7), &v, nil))
		require.Error(t, kept.Err())
		require.ErrorIs(t, store.Put(t.Context(), "k", nil), lifecycle.ErrStateClosed)
		require.ErrorIs(t, <-late, lifecycle.ErrStateClosed)
		got, ok, err := state.Of("keeps").Get(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "v", string(got))
		_, ok, _ = state.Of("obeys").Get(t.Context(), "k")
		require.False(t, ok)
	})
}

// TestSinkHangs: a failure sink that hangs or panics holds up nothing for long.
func TestSinkHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var n atomic.Int32
		d := newDocs(t, lifecycle.Options[doc, doc]{
			Observers: []lifecycle.Observer{watcher(func(context.Context, lifecycle.Event) error { return errSecret })}, MaxFailures: 100, MaxRunning: 2,
			Failures: func(lifecycle.Failure) {
				if n.Add(1) == 1 {
					panic(secret)
				}
				<-gate
			},
		})
		began := time.Now()
		for range 20 {
			d.Emit(t.Context(), lifecycle.Transition{})
		}
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Equal(t, 2, d.Stats().Running)
		close(gate)
		synctest.Wait()
	})
}

// TestSecretStaysIn: a secret that is everywhere in the content reaches no
// event, detail, failure, statistic or log line.
func TestSecretStaysIn(t *testing.T) {
	var log bytes.Buffer
	rec := new(lifecycletest.Recorder)
	ch := lifecycle.NewChannel(16)
	var failures []lifecycle.Failure
	bad := func(kind string) func(context.Context, *doc, lifecycle.Services) error {
		return func(_ context.Context, d *doc, _ lifecycle.Services) error {
			d.Text = secret
			return misbehave(kind, nil)
		}
	}
	d := newDocs(t, lifecycle.Options[doc, doc]{
		Observers: []lifecycle.Observer{
			lifecycle.NewSlog(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))), rec, ch,
			watcher(func(context.Context, lifecycle.Event) error { panic(errSecret) }),
		},
		Preservers: []lifecycle.Preserver[doc, doc]{
			&fake{id: "ok", before: bad("")}, &fake{id: "err", before: bad("error")}, &fake{id: "panic", before: bad("panic")},
			&fake{id: "invalid", before: func(_ context.Context, d *doc, _ lifecycle.Services) error { d.Text = ""; return nil }},
			&fake{id: "veto", release: func(context.Context, *doc, lifecycle.ResponsePreview) error {
				return fmt.Errorf("%s: %w", secret, lifecycle.Veto())
			}},
		},
		Failures: func(f lifecycle.Failure) { failures = append(failures, f) },
	})
	run := begin(d)
	v := doc{Text: secret, Lines: []string{secret}}
	require.NoError(t, run.BeforeRequest(t.Context(), &v, nil))
	run.RequestOpened(t.Context(), v, "leg", 1)
	err := run.BeforeRelease(t.Context(), &v, nil)
	var veto *lifecycle.VetoError
	require.ErrorAs(t, err, &veto)
	require.Equal(t, "veto", veto.ID)
	run.Close(t.Context(), "vetoed", nil)
	ch.Close()
	var handed []lifecycle.Transition
	for x := range ch.C() {
		handed = append(handed, x)
	}
	require.Len(t, handed, 2)
	require.Len(t, failures, 5)
	all, jerr := json.Marshal([]any{rec.Transitions(), rec.Events(), failures, d.Stats(), handed, err.Error(), fmt.Sprintf("%+v", err)})
	require.NoError(t, jerr)
	require.Contains(t, log.String(), "compaction aborted")
	require.NotContains(t, log.String()+string(all), "PLANTED")
	require.NotContains(t, log.String()+string(all), "boom")
}

// TestChannelDrops: the channel never holds anybody up.
func TestChannelDrops(t *testing.T) {
	ch := lifecycle.NewChannel(2)
	d := newDocs(t, lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{ch}})
	for range 5 {
		d.Emit(t.Context(), lifecycle.Transition{Detail: lifecycle.Detail{Outcome: lifecycle.OutcomeStarted}})
	}
	require.EqualValues(t, 3, ch.Dropped())
	ch.Close()
	ch.Close()
	d.Emit(t.Context(), lifecycle.Transition{})
	require.EqualValues(t, 4, ch.Dropped())
	n := 0
	for range ch.C() {
		n++
	}
	require.Equal(t, 2, n)
}

// TestRandomCallbacks: for callbacks that do anything, the live value is what
// the successful valid ones make of it, in order, and every run ends once.
func TestRandomCallbacks(t *testing.T) {
	kinds := []string{"ok", "noop", "error", "panic", "exit", "hang", "invalid", "keeps", "nils", "obeys"}
	rapid.Check(t, func(rt *rapid.T) {
		plan := rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 7).Draw(rt, "callbacks")
		opens := rapid.Bool().Draw(rt, "opens")
		commits := opens && rapid.Bool().Draw(rt, "commits")
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			var kept []*doc
			act := func(i int, kind string) func(context.Context, *doc) error {
				return func(ctx context.Context, d *doc) error {
					if kind == "noop" {
						return nil
					}
					d.Lines = append(d.Lines, fmt.Sprint(i))
					d.Extra["x"] += fmt.Sprint(i)
					switch kind {
					case "invalid":
						d.Text = ""
					case "keeps":
						kept = append(kept, d)
					case "nils":
						d.Lines, d.Extra, d.Raw = nil, nil, nil
						return errSecret
					case "hang":
						<-gate
						d.Lines[0] = "late"
					case "obeys":
						<-ctx.Done()
						return ctx.Err()
					default:
						return misbehave(kind, gate)
					}
					return nil
				}
			}
			rec := new(lifecycletest.Recorder)
			o := lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{rec}}
			want := doc{Text: "t", Lines: []string{}, Extra: map[string]string{}, Raw: []byte{}}
			for i, kind := range plan {
				f := act(i, kind)
				o.Preservers = append(o.Preservers, &fake{
					id: fmt.Sprint(kind, i), before: func(ctx context.Context, d *doc, _ lifecycle.Services) error { return f(ctx, d) },
					opened: func(ctx context.Context, d doc, e []lifecycle.Event) error {
						e[0].RuleID = secret
						return f(ctx, &d)
					},
					release: func(ctx context.Context, d *doc, _ lifecycle.ResponsePreview) error { return f(ctx, d) },
					after:   func(ctx context.Context, d doc) error { return f(ctx, &d) },
					aborted: func(string) error { return misbehave(kind, gate) },
					failed:  func(lifecycle.PreservationMeta) error { return misbehave(kind, gate) },
				})
				if kind == "ok" || kind == "keeps" {
					want.Lines = append(want.Lines, fmt.Sprint(i))
					want.Extra["x"] += fmt.Sprint(i)
				}
			}
			d := newDocs(t, o)
			run := begin(d)
			live := doc{Text: "t", Lines: []string{}, Extra: map[string]string{}, Raw: []byte{}}
			result := docCodec.Clone(live)
			require.NoError(t, run.BeforeRequest(t.Context(), &live, nil))
			if opens {
				run.RequestOpened(t.Context(), live, "", 1)
				run.RequestOpened(t.Context(), live, "", 1)
				require.NoError(t, run.BeforeRelease(t.Context(), &result, nil))
			}
			if commits {
				run.Committed(t.Context(), result, nil)
			}
			run.Close(t.Context(), "failed", nil)
			run.Close(t.Context(), "failed", nil)
			for _, k := range kept {
				k.Text, k.Lines = secret, append(k.Lines[:0], secret)
			}
			close(gate)
			synctest.Wait()
			require.Equal(t, want, live)
			if opens {
				require.Equal(t, want, result)
			}
			require.NoError(t, lifecycletest.Check(rec.Transitions()))
			require.Equal(t, opens, len(rec.Transitions()) == 2)
			for _, e := range rec.Events() {
				require.Equal(t, "r", e.RuleID)
			}
			require.Zero(t, d.Stats().Running)
		})
	})
}
