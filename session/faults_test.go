package session_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// TestF02OneBadNode: a broken pair makes no question about the rest fail.
func TestF02OneBadNode(t *testing.T) {
	s := fresh(t, 1)
	record(t, s, session.Append{Message: session.ToolText("nobody", "x")}, session.Append{Message: call("a")},
		session.Append{Message: session.ToolText("a", "x")}, session.Append{Message: session.UserText("u")})
	for seq := range session.Seq(5) {
		ok, err := toolpairing.For(s).BalancedBefore(seq)
		require.NoError(t, err)
		require.Equal(t, seq != 3, ok)
	}
	record(t, s, session.Replace{Start: 0, End: 3, Message: sum("all of it")})
}

// TestF04OddLogs: a log that is odd but loadable makes nothing wedge.
func TestF04OddLogs(t *testing.T) {
	s := fresh(t, 1)
	record(t, s, session.Usage{Node: 0, Prompt: 1 << 40}, session.Usage{Node: session.NoSeq}, session.Usage{Node: 0},
		session.Raw{Type: "compact/end"}, session.Raw{Type: "compact/start"}, session.Append{Message: session.AssistantText("")})
	require.Equal(t, 2, s.View().Len())
}

// TestF07EveryWriteIsDurable: an append returns synced, whoever makes it.
func TestF07EveryWriteIsDurable(t *testing.T) {
	counter := &syncs{FS: filestore.OS}
	store, err := filestore.Open(t.TempDir()+"/s.jsonl", &filestore.Options{FS: counter})
	require.NoError(t, err)
	s := sessiontest.Open(t, store, nil)
	for range 3 {
		before := counter.n.Load()
		record(t, s, session.Append{Message: session.UserText("x")})
		require.Greater(t, counter.n.Load(), before)
	}
}

// TestF17PinsSurvive: ten rounds of folding everything lose no pinned unit.
func TestF17PinsSurvive(t *testing.T) {
	s := fresh(t, 3)
	record(t, s, session.Pin{Nodes: seqs(1)})
	for round := range 10 {
		_, err := s.Append(t.Context(), session.UserText(fmt.Sprint(round)))
		require.NoError(t, err)
		v := s.View()
		record(t, s, session.Replace{Start: v.Node(0).Seq, End: v.Node(v.Len() - 1).Seq, Keep: v.Pins(), Message: sum("x")})
		require.Equal(t, session.Seq(1), s.View().Node(1).Seq)
	}
}

// appendBytes measures what an append allocates with n nodes on the surface.
func appendBytes(t *testing.T, n int) float64 {
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	for s.View().Len() < n {
		bodies := make([]session.Body, min(1000, n-s.View().Len()))
		for i := range bodies {
			bodies[i] = session.Append{Message: session.UserText("x")}
		}
		record(t, s, bodies...)
	}
	live := toolpairing.For(s)
	live.With(func(*toolpairing.Index) {})
	const times = 2000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		_, _ = s.Append(t.Context(), session.UserText("x"))
		_, _ = live.BalancedAfter(s.View().Next() - 1)
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / times
}

// TestF21AppendCopiesNothing: what an append and a pairing question cost does
// not grow with the session. F-22 and F-23 are the same for the log and for the
// pairing index.
func TestF21AppendCopiesNothing(t *testing.T) {
	small, large := appendBytes(t, 2000), appendBytes(t, 60_000)
	t.Logf("%.0f bytes at 2,000 nodes, %.0f at 60,000", small, large)
	require.Less(t, large, 3*small+2000)
}

func TestF22LogIsNotCopied(t *testing.T) {
	s := fresh(t, 100)
	v := s.View()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for e := range v.Backward() {
			_ = e.Seq
			break
		}
		_ = s.View().Next()
		_, _ = s.View().Event(5)
	}))
}

func TestF23PairingIsIncremental(t *testing.T) {
	s := fresh(t, 100)
	live := toolpairing.For(s)
	_, _ = live.BalancedAfter(0)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = live.BalancedAfter(99) }), 2.0)
}

// TestReadersAndWriters runs 32 readers and 4 writers while spans are folded.
func TestReadersAndWriters(t *testing.T) {
	store, err := filestore.Open(t.TempDir()+"/s.jsonl", nil)
	require.NoError(t, err)
	s := sessiontest.Open(t, store, nil)
	ctx, stop := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 32 {
		readers.Go(func() {
			for ctx.Err() == nil {
				v := s.View()
				tokens := 0
				for i := range v.Len() {
					m, err := v.Message(i)
					if err != nil || len(m.Parts) == 0 {
						t.Error("unreadable message", err)
					}
					tokens += int(v.Node(i).Tokens)
				}
				if tokens != v.SurfaceTokens() {
					t.Error("a view is not of one piece")
				}
				toolpairing.For(s).With(func(x *toolpairing.Index) { x.Nearest(x.View().SurfaceTokens() / 2) })
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range 30 {
				id := fmt.Sprint(w, "/", i)
				if _, err := s.Append(t.Context(), call(id), session.ToolText(id, "r")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Go(func() {
		for range 20 {
			if _, err := s.Update(t.Context(), func(v session.View) ([]session.Body, error) {
				x := toolpairing.Of(v)
				end := x.Before(v.Len() / 2)
				if end < 2 {
					return nil, nil
				}
				return []session.Body{session.Raw{Type: "compact/summary"}, session.Replace{Start: v.Node(0).Seq, End: v.Node(end - 1).Seq, Message: sum("x")}}, nil
			}); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	stop()
	readers.Wait()
}
