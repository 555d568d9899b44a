package engine_test

import (
	"fmt"
	"testing"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

// long returns a session of n nodes of about 300 characters.
func long(b *testing.B, n int) *session.Session {
	b.Helper()
	s, err := session.Open(b.Context(), session.NewMemoryStore(), nil)
	if err != nil {
		b.Fatal(err)
	}
	var batch []session.Message
	for i := range n {
		id := fmt.Sprintf("call_%d", i/4)
		var m session.Message
		switch i % 4 {
		case 0:
			m = session.UserText(fill(75, fmt.Sprintf("request%d", i)))
		case 1:
			m = session.AssistantText(fill(40, "thinking"), session.ToolCall{ID: id, Name: "read", Arguments: fmt.Sprintf(`{"path":"src/pkg%d/file%d.go"}`, i%50, i)})
		case 2:
			m = session.ToolText(id, fill(75, fmt.Sprintf("line%d", i)))
		case 3:
			m = session.AssistantText(fill(75, fmt.Sprintf("answer%d", i)))
		}
		if batch = append(batch, m); len(batch) == 1000 || i == n-1 {
			if _, err := s.Append(b.Context(), batch...); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	b.Cleanup(func() { s.Close() })
	return s
}

var sizes = []int{1_000, 10_000, 100_000}

func benchEngine(b *testing.B) *engine.Engine {
	b.Helper()
	e, err := engine.New(new(stub), &engine.Options{
		Windows: engine.FixedWindow(100_000_000),
		Run:     summarize.RunOptions{Guard: loose, Backoff: -1, Deadline: -1},
	})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func BenchmarkPressureCheckWarm(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, e := long(b, n), benchEngine(b)
			agent := compact.Agent{Session: s, Provider: "p", Model: "m"}
			b.ReportAllocs()
			for b.Loop() {
				if r, err := e.CompactIfNeeded(b.Context(), agent, compact.Pressure); r != nil || err != nil {
					b.Fatal(r, err)
				}
			}
		})
	}
}

func BenchmarkRegionWholeHead(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, e := long(b, n), benchEngine(b)
			agent := compact.Agent{Session: s}
			b.ReportAllocs()
			for b.Loop() {
				r, err := e.CompactRegion(b.Context(), agent, s.View().Node(0).Seq, s.View().Node(n-5).Seq)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if _, err := e.Undo(b.Context(), agent, r.Checkpoint); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkRegionMiddle(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, e := long(b, n), benchEngine(b)
			agent := compact.Agent{Session: s}
			b.ReportAllocs()
			for b.Loop() {
				v := s.View()
				r, err := e.CompactRegion(b.Context(), agent, v.Node(n/2).Seq, v.Node(n/2+39).Seq)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if _, err := e.Undo(b.Context(), agent, r.Checkpoint); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
