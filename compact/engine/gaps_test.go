package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
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

// invented is a summary that says what no message says.
var invented = func() string {
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "Changed /srv/made/up/file%d.go at commit deadbeef%04d.\n", i, i)
	}
	return b.String()
}()

// Every code can be reached, by an error or as the answer of an automatic
// compaction, and says whether something was written.
func TestEveryCode(t *testing.T) {
	type how struct {
		rounds  int
		change  func(*engine.Options)
		prepare func(r *rig)
		run     func(r *rig) error // nil: pressure
	}
	now := func(r *rig) error { _, err := r.e.CompactNow(r.Context(), r.agent, nil); return err }
	region := func(start, end session.Seq) func(r *rig) error {
		return func(r *rig) error { _, err := r.e.CompactRegion(r.Context(), r.agent, start, end); return err }
	}
	write := func(text string) func(r *rig) {
		return func(r *rig) {
			r.st.collect = func(context.Context, int, *summarize.Request) (string, error) { return text, nil }
		}
	}
	for code, h := range map[compact.Code]how{
		compact.Busy: {10, nil, func(r *rig) {
			r.record(compact.Event(compact.StartEvent{ID: "x", Holder: compact.Holder{Host: "elsewhere", Run: "r", Until: time.Now().Add(time.Hour)}}))
		}, now},
		compact.Cancelled:         {10, nil, nil, func(r *rig) error { _, err := r.e.CompactNow(ctxDone, r.agent, nil); return err }},
		compact.Changed:           {10, nil, func(r *rig) { r.during(func(context.Context) { r.record(session.Rewind{To: 2}) }) }, now},
		compact.NotFound:          {1, nil, nil, region(0, 99)},
		compact.Reversed:          {2, nil, nil, region(4, 3)},
		compact.Unbalanced:        {2, nil, nil, region(0, 1)},
		compact.IsPinned:          {2, nil, func(r *rig) { r.record(session.Pin{Nodes: []session.Seq{0}}) }, region(0, 0)},
		compact.NoWindow:          {1, func(o *engine.Options) { o.Windows = nil }, nil, nil},
		compact.SummaryFailed:     {26, nil, func(r *rig) { r.fails("boom") }, nil},
		compact.NotSmaller:        {10, nil, write(fill(9_000, "long")), now},
		compact.Unfaithful:        {10, nil, write(invented), now},
		compact.OverBudget:        {20, func(o *engine.Options) { o.Run.ChunkTokens, o.Run.MaxCalls = 300, 2 }, nil, now},
		compact.NoProgress:        {26, func(o *engine.Options) { o.Policy.RetainMessages = 100 }, nil, nil},
		compact.CommitFailed:      {10, nil, func(r *rig) { r.faulty.On(2, sessiontest.Fail) }, now},
		compact.PersistenceFailed: {10, nil, func(r *rig) { r.faulty.On(1, sessiontest.Fail) }, now},
		compact.NothingToCompact:  {0, nil, nil, now},
		compact.BelowThreshold:    {2, nil, nil, nil},
		compact.AutoOff:           {26, func(o *engine.Options) { o.AutoOff = true }, nil, nil},
		compact.Floor: {4, nil, func(r *rig) {
			r.record(session.Pin{Nodes: r.append(session.UserText(fill(7_900, "pinned")))})
			r.append(session.UserText("and now?"), session.AssistantText(fill(200, "this")))
		}, nil},
		compact.BreakerOpen: {26, nil, func(r *rig) {
			r.fails("boom")
			_, err := r.e.CompactIfNeeded(r.Context(), r.agent, compact.Pressure)
			require.Error(r, err)
		}, nil},
	} {
		t.Run(string(code), func(t *testing.T) {
			r := newRig(t, h.rounds, h.change)
			if h.prepare != nil {
				h.prepare(r)
			}
			before, surface := r.s.View().Next(), texts(t, r.s)
			run := h.run
			if run == nil {
				run = func(r *rig) error {
					o, err := r.e.Consider(r.Context(), r.agent, compact.Pressure)
					if err == nil {
						assert.Nil(t, o.Result)
						assert.NotEmpty(t, o.Reason)
						assert.False(t, o.RetryUseful)
						return o.Code
					}
					return err
				}
			}
			err := run(r)
			require.ErrorIs(t, err, code)
			var ce *compact.Error
			if errors.As(err, &ce) {
				assert.Equal(t, r.s.View().Next() > before, ce.Written, "whether something was written")
			} else {
				assert.Equal(t, before, r.s.View().Next(), "an answer writes nothing")
			}
			if code != compact.Changed {
				assert.Equal(t, surface, texts(t, r.s))
			}
			assert.NotEmpty(t, code.Advice())
		})
	}
}

// A checkpoint for which there is no room below the threshold is not committed,
// and not tried again until the session has grown.
func TestNoRoomForACheckpoint(t *testing.T) {
	for room, code := range map[int]compact.Code{300: "", 20: compact.NoProgress} {
		r := newRig(t, 26, nil)
		v := r.s.View()
		r.e = newEngine(t, r.st, func(o *engine.Options) {
			o.Policy.RetainMessages, o.Policy.ThresholdTokens = 40, v.Tokens(v.Len()-40, v.Len())+room
		})
		for range 3 {
			o, err := r.e.Consider(t.Context(), r.agent, compact.Pressure)
			if code == "" {
				require.NoError(t, err)
				assert.Contains(t, []compact.Code{"", compact.BelowThreshold}, o.Code)
			} else if err != nil {
				require.ErrorIs(t, err, code)
			} else {
				assert.Equal(t, code, o.Code)
			}
		}
		assert.Equal(t, 1, r.st.calls)
		assert.Equal(t, code, r.last().End.Code)
	}
}

// A prune writes, and an error that comes after it says so.
func TestErrorsAfterPruningSayWritten(t *testing.T) {
	r := newRig(t, 0, pruning)
	r.append(session.UserText("look"))
	r.pair("big", 3_000)
	for range 10 {
		r.append(session.AssistantText(fill(700, "thought")))
	}
	r.faulty.On(2, sessiontest.Fail) // the start, after the pruning
	_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
	require.ErrorIs(t, err, compact.PersistenceFailed)
	var ce *compact.Error
	require.ErrorAs(t, err, &ce)
	assert.True(t, ce.Written)
}

func TestPruningPolicy(t *testing.T) {
	// mixed has results of three tools, oldest first, and a tail.
	mixed := func(t *testing.T, change func(*engine.Options)) *rig {
		r := newRig(t, 0, change)
		r.append(session.UserText("look at everything"))
		for i := range 12 {
			id := fmt.Sprint("c", i)
			tool := []string{"read", "grep", "plan"}[i%3]
			r.append(session.AssistantText("", session.ToolCall{ID: id, Name: tool, Arguments: "{}"}), session.ToolText(id, fill(700, tool)))
		}
		r.append(session.AssistantText("I see."))
		return r
	}
	toolsOf := func(r *rig, list []compact.Pruned) (out []string) {
		for _, p := range list {
			ev, err := r.s.View().Event(p.Node - 1)
			require.NoError(r, err)
			m, err := ev.Message()
			require.NoError(r, err)
			out = append(out, m.Parts[len(m.Parts)-1].(session.ToolCall).Name)
		}
		return out
	}
	t.Run("oldest first, and only as many as it takes", func(t *testing.T) {
		r := mixed(t, pruning)
		o := r.consider(compact.Pressure)
		require.Nil(t, o.Result)
		require.NotEmpty(t, o.Pruned)
		assert.Less(t, len(o.Pruned), 6)
		for i, p := range o.Pruned {
			assert.Equal(t, session.Seq(2+2*i), p.Node)
			assert.Less(t, p.After, p.Before)
		}
		assert.Less(t, o.After, 8_000*86/100)
		assert.Zero(t, r.st.calls)
	})
	t.Run("never and first", func(t *testing.T) {
		r := mixed(t, func(o *engine.Options) {
			pruning(o)
			o.Prune.Never, o.Prune.First = []string{"read"}, []string{"plan"}
		})
		o := r.consider(compact.Pressure)
		require.Nil(t, o.Result)
		tools := toolsOf(r, o.Pruned)
		assert.NotContains(t, tools, "read")
		assert.Equal(t, "plan", tools[0])
	})
	t.Run("pins", func(t *testing.T) {
		r := mixed(t, pruning)
		r.record(session.Pin{Nodes: []session.Seq{2}})
		for _, p := range r.consider(compact.Pressure).Pruned {
			assert.NotEqual(t, session.Seq(2), p.Node)
		}
	})
	t.Run("protects the newest within a budget", func(t *testing.T) {
		r := mixed(t, func(o *engine.Options) { o.Prune = engine.Prune{ProtectTokens: 7_800} })
		o := r.consider(compact.Pressure)
		require.NotNil(t, o.Result, "what may be pruned is not enough")
		v := r.s.View()
		for i := range v.Len() {
			assert.Empty(t, v.Node(i).Source().Form)
		}
	})
	t.Run("never what is smaller already", func(t *testing.T) {
		r := newRig(t, 0, pruning)
		for i := range 10 {
			r.pair(fmt.Sprint("c", i), 8) // a pointer would be longer
		}
		for i := range 12 {
			r.pair(fmt.Sprint("d", i), 700)
		}
		r.append(session.UserText("and?"))
		o := r.consider(compact.Pressure)
		require.NotEmpty(t, o.Pruned)
		for _, p := range o.Pruned {
			assert.Greater(t, p.Before, 600, "event %d was replaced", p.Node)
			assert.Less(t, p.After, p.Before)
		}
	})
	t.Run("cap at every check", func(t *testing.T) {
		r := newRig(t, 0, func(o *engine.Options) { o.Prune = engine.Prune{}; o.Policy.ResultCap = 400 })
		r.pair("c", 2_000)
		o := r.consider(compact.Pressure)
		require.Len(t, o.Pruned, 1)
		assert.LessOrEqual(t, o.Pruned[0].After, 400)
		assert.Equal(t, compact.BelowThreshold, o.Code)
		m, err := r.s.View().Message(1)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(m.Text(), "out out"), "the head stays")
		assert.True(t, strings.HasSuffix(strings.TrimSpace(m.Text()), "out"), "and the tail")
	})
	t.Run("twice is shortened from the original", func(t *testing.T) {
		r := newRig(t, 0, func(o *engine.Options) { o.Prune = engine.Prune{ProtectTokens: 1}; o.Policy.ResultCap = 600 })
		r.append(session.UserText("look"))
		for i := range 20 {
			r.pair(fmt.Sprint("c", i), 1_000)
			_ = r.consider(compact.Pressure)
		}
		twice := 0
		for i := range r.s.View().Len() {
			m, err := r.s.View().Message(i)
			require.NoError(t, err)
			if m.Source.Form != compact.FormPruned {
				continue
			}
			assert.Equal(t, 1, strings.Count(m.Text(), "left out"))
			p := compact.ParsePointers(m.Text())
			require.Len(t, p, 1)
			ev, err := r.s.View().Event(p[0].Start)
			require.NoError(t, err)
			orig, err := ev.Message()
			require.NoError(t, err)
			assert.Empty(t, orig.Source.Form, "the pointer leads to the original")
			if r.s.View().ShadowedBy(p[0].Start) != r.s.View().Node(i).Seq {
				twice++
			}
		}
		assert.Positive(t, twice)
	})
}

func TestOffloadAtAppend(t *testing.T) {
	var stored []string
	var fail error
	r := newRig(t, 1, func(o *engine.Options) {
		o.Prune = engine.Prune{Offload: []string{"read"}}
		o.Offload = func(_ context.Context, id string, text []byte) (string, error) {
			stored = append(stored, string(text))
			return "out/" + id + ".txt", fail
		}
		o.NewID = func() string { return fmt.Sprint("id", len(stored)) }
	})
	call := func(id, tool string) session.Message {
		return session.AssistantText("", session.ToolCall{ID: id, Name: tool, Arguments: "{}"})
	}
	big := fill(5_000, "line")
	seqs, err := r.e.Append(t.Context(), r.agent, call("a", "read"), session.ToolText("a", big), session.UserText("and?"))
	require.NoError(t, err)
	require.Len(t, seqs, 3)
	assert.Equal(t, []string{big}, stored)
	v := r.s.View()
	for i, q := range seqs {
		p, err := v.Position(q)
		require.NoError(t, err)
		assert.Equal(t, v.Len()-3+i, p)
	}
	m, err := v.Message(v.Len() - 2)
	require.NoError(t, err)
	assert.Contains(t, m.Text(), "full text: out/id0.txt]")
	assert.Less(t, int(v.Node(v.Len()-2).Tokens), 1_500)
	ev, err := v.Event(5)
	require.NoError(t, err)
	orig, err := ev.Message()
	require.NoError(t, err)
	assert.Equal(t, big, orig.Text(), "the log has all of it")

	// The call may be on the surface already; other tools and small results
	// stay; a store that fails costs nothing but the file.
	r.append(call("b", "read"), call("c", "grep"))
	seqs, err = r.e.Append(t.Context(), r.agent, session.ToolText("b", big), session.ToolText("c", big))
	require.NoError(t, err)
	assert.Len(t, stored, 2)
	assert.Greater(t, seqs[0], seqs[1])
	fail = errors.New("disk full")
	r.append(call("d", "read"))
	seqs, err = r.e.Append(t.Context(), r.agent, session.ToolText("d", big))
	require.NoError(t, err)
	p, err := r.s.View().Position(seqs[0])
	require.NoError(t, err)
	assert.Equal(t, 5_000, int(r.s.View().Node(p).Tokens)-int(r.s.View().Node(p).Tokens)%100)
	fail = nil

	// While another compaction is under way nothing is shortened.
	r.during(func(context.Context) {
		_, err := r.e.Append(t.Context(), r.agent, call("e", "read"), session.ToolText("e", big))
		require.NoError(t, err)
	})
	_, err = r.e.CompactRegion(t.Context(), r.agent, 0, 3)
	require.NoError(t, err)
	v = r.s.View()
	assert.Empty(t, v.Node(v.Len()-1).Source().Form)
}

func TestAbsoluteLimitAndPolicies(t *testing.T) {
	r := newRig(t, 6, func(o *engine.Options) {
		o.Windows = nil
		o.Policy = engine.Policy{ThresholdTokens: 2_000, RetainTokens: 500}
		o.Models = []engine.ModelPolicy{{Provider: "p", Model: "roomy", Policy: engine.Policy{ThresholdTokens: 50_000, RetainTokens: 500}}}
	})
	r.agent.Model = "roomy"
	assert.Equal(t, compact.BelowThreshold, r.consider(compact.Pressure).Code)
	r.agent.Model = "other"
	o := r.consider(compact.Pressure)
	require.NotNil(t, o.Result, "an absolute limit needs no window")
	assert.Equal(t, []int{2_000, 0}, []int{o.Threshold, o.Window})
}

func TestLearnedWindow(t *testing.T) {
	r := newRig(t, 10, func(o *engine.Options) { o.Windows = engine.FixedWindow(100_000) })
	refuse := func(limit int) {
		t.Helper()
		_, err := r.e.Rejected(t.Context(), r.agent, fmt.Errorf("This model's maximum context length is %d tokens. However, your messages resulted in 200000 tokens.", limit))
		require.NoError(t, err)
	}
	refuse(120_000) // windows only shrink
	h := compact.HistoryOf(r.s)
	assert.Empty(t, h.Windows)
	refuse(4_500)
	h = compact.HistoryOf(r.s)
	require.Equal(t, []compact.WindowEvent{{Provider: "p", Model: "m", Window: 4_500}}, h.Windows)
	refuse(4_500)
	h = compact.HistoryOf(r.s)
	assert.Len(t, h.Windows, 1, "it is recorded once")
	o := r.consider(compact.Pressure)
	require.NotNil(t, o.Result)
	assert.Equal(t, 4_500, o.Window)
	r.agent.Model = "other"
	assert.Equal(t, 100_000, r.consider(compact.Pressure).Window, "another route has its own")
}

// Somebody who tries by hand and fails does not open the breaker for automatic
// attempts.
func TestByHandDoesNotResetTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 26, nil)
		r.fails("boom")
		for range 3 {
			_, err := r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
			require.ErrorIs(t, err, compact.SummaryFailed)
			time.Sleep(10 * time.Minute)
		}
		calls := r.st.calls
		_, err := r.e.CompactNow(t.Context(), r.agent, nil)
		require.ErrorIs(t, err, compact.SummaryFailed)
		assert.Equal(t, calls+1, r.st.calls, "by hand it is tried")
		_, err = r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
		require.ErrorIs(t, err, compact.SummaryFailed) // the wait is over
		_, err = r.e.CompactNow(t.Context(), r.agent, nil)
		require.Error(t, err)
		assert.Equal(t, compact.BreakerOpen, r.consider(compact.Pressure).Code)
		r.st.collect = nil
		_, err = r.e.CompactNow(t.Context(), r.agent, nil)
		require.NoError(t, err)
		h := compact.HistoryOf(r.s)
		assert.Zero(t, h.Failures(), "a success does")
	})
}

// A run after a failure asks once: it is a probe.
func TestProbesAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 26, func(o *engine.Options) { o.Run.Attempts = 3 })
		r.st.collect = func(context.Context, int, *summarize.Request) (string, error) {
			return "", &summarize.Failure{Class: summarize.Transient}
		}
		for range 100 {
			_, _ = r.e.CompactIfNeeded(t.Context(), r.agent, compact.Pressure)
			talk(t, r.s, 1)
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, r.st.calls, 5, "an always failing summarizer over 100 steps")
		r.st.collect = nil
		time.Sleep(2 * time.Minute)
		assert.NotNil(t, r.consider(compact.Pressure).Result, "it works again within one cool-down")
	})
}

// A background summary that is ready gives way to somebody who names a part of
// its span, and is what a compaction by hand was for when nothing else is left.
func TestReadyBackgroundAndByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := func() *rig {
			r := newRig(t, 26, nil)
			ok, err := r.e.StartBackground(t.Context(), r.agent)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, r.e.WaitBackground(t.Context(), r.agent))
			return r
		}
		r := ready()
		_, err := r.e.CompactRegion(t.Context(), r.agent, 2, 99)
		require.ErrorIs(t, err, compact.Unbalanced, "a call that is refused leaves it alone")
		res, err := r.e.CompactRegion(t.Context(), r.agent, 4, 19)
		require.NoError(t, err)
		assert.Equal(t, compact.Region, res.Trigger)
		assert.Equal(t, 1, r.e.StaleBackground(r.agent))

		r = ready()
		v := r.s.View()
		_, err = r.e.CompactRegion(t.Context(), r.agent, v.Node(v.Len()-8).Seq, v.Node(v.Len()-5).Seq)
		require.NoError(t, err)
		h := compact.HistoryOf(r.s)
		require.Len(t, h.Attempts, 2)
		assert.Equal(t, compact.Behind, h.Attempts[0].Start.Trigger)
		assert.True(t, h.Attempts[0].Committed(), "it was not in the way")

		r = ready()
		res, err = r.e.CompactNow(t.Context(), r.agent, nil)
		require.NoError(t, err)
		assert.Contains(t, []compact.Trigger{compact.Behind, compact.Now}, res.Trigger)
	})
}

// After 50 compactions a session takes memory for what is on its surface and for
// its log, and nothing that grows with the square of either.
func TestFiftyCompactionsStayFlat(t *testing.T) {
	rounds := 12
	if os.Getenv("AGENTCOMPACT_FULL") == "1" {
		rounds = 50
	}
	r := newRig(t, 0, nil)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var grown []int64
	last := heap()
	for range rounds {
		talk(t, r.s, 24)
		require.NotNil(t, r.consider(compact.Pressure).Result)
		r.st.seen = nil
		now := heap()
		grown = append(grown, now-last)
		last = now
	}
	half := len(grown) / 2
	early, late := int64(0), int64(0)
	for i := 2; i < half; i++ {
		early += grown[i] / int64(half-2)
	}
	for _, g := range grown[half:] {
		late += g / int64(len(grown)-half)
	}
	t.Logf("a round takes %d bytes at first and %d in the end", early, late)
	assert.Less(t, late, early+early/2+64<<10, "%v", grown)
	assert.Less(t, r.s.View().Len(), 40)
}

// Many goroutines check one session for a while: whatever happens, its log
// stays in order, and every attempt is closed.
func TestManyCheckersOneSession(t *testing.T) {
	r := newRig(t, 10, nil)
	done := make(chan error, 6)
	for i := range 6 {
		e := newEngine(t, new(stub), nil)
		go func() {
			var bad error
			for range 20 {
				_, err := r.s.Append(t.Context(), session.UserText(fill(300, fmt.Sprint("g", i))), session.AssistantText("ok"))
				if err == nil {
					_, err = e.CompactIfNeeded(t.Context(), r.agent, []compact.Trigger{compact.Pressure, compact.ContextOverflow}[i%2])
				}
				if err != nil && !errors.Is(err, compact.Busy) && !errors.Is(err, compact.Changed) {
					bad = err
				}
			}
			done <- bad
		}()
	}
	for range 6 {
		require.NoError(t, <-done)
	}
	h := compact.HistoryOf(r.s)
	for _, a := range h.Attempts {
		assert.NotNil(t, a.End)
	}
}
