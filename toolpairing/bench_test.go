package toolpairing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// watch is a stop watch for single operations; their median is little disturbed
// by what else the machine does.
type watch struct {
	start time.Time
	took  []time.Duration
}

func (w *watch) begin() { w.start = time.Now() }
func (w *watch) end()   { w.took = append(w.took, time.Since(w.start)) }

func (w *watch) report(b *testing.B) {
	slices.Sort(w.took)
	b.ReportMetric(float64(w.took[len(w.took)/2]), "p50-ns")
	b.ReportMetric(float64(w.took[0]), "min-ns")
}

var sizes = []int{1000, 10_000, 100_000}

func BenchmarkQueryAfterAppend(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := long(b, n)
			live := toolpairing.For(s)
			m := session.UserText("u")
			_, _ = live.BalancedAfter(0)
			var w watch
			for b.Loop() {
				seqs, err := s.Append(context.Background(), m)
				if err != nil {
					b.Fatal(err)
				}
				w.begin()
				ok, err := live.BalancedAfter(seqs[0])
				w.end()
				if !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
			w.report(b)
		})
	}
}

func BenchmarkNearestCut(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := long(b, n)
			live := toolpairing.For(s)
			half := s.View().SurfaceTokens() / 2
			live.With(func(*toolpairing.Index) {})
			b.ReportAllocs()
			var w watch
			for b.Loop() {
				w.begin()
				live.With(func(x *toolpairing.Index) {
					if x.Nearest(half) == 0 {
						b.Fatal("no cut")
					}
				})
				w.end()
			}
			w.report(b)
		})
	}
}

// BenchmarkQueryAfterReplace is a question after 40 nodes in the middle were
// replaced, or came back.
func BenchmarkQueryAfterReplace(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := long(b, n)
			live := toolpairing.For(s)
			live.With(func(*toolpairing.Index) {})
			var w watch
			for i := 0; b.Loop(); i++ {
				v := s.View()
				var err error
				if i%2 == 0 {
					_, err = s.Record(context.Background(), session.Replace{Start: v.Node(n / 2).Seq, End: v.Node(n/2 + 39).Seq, Message: session.UserText("sum")})
				} else {
					_, err = s.Record(context.Background(), session.Restore{Node: v.Next() - 1})
				}
				if err != nil {
					b.Fatal(err)
				}
				w.begin()
				live.With(func(*toolpairing.Index) {})
				w.end()
			}
			w.report(b)
		})
	}
}

func long(b *testing.B, n int) *session.Session {
	b.Helper()
	s, err := session.Open(context.Background(), session.NewMemoryStore(), nil)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("x", 300)
	var bodies []session.Body
	for i := range n {
		m := session.AssistantText(text, session.ToolCall{ID: "c", Name: "t"})
		if i%2 == 1 {
			m = session.ToolText("c", text)
		}
		bodies = append(bodies, session.Append{Message: m})
	}
	if _, err := s.Record(context.Background(), bodies...); err != nil {
		b.Fatal(err)
	}
	return s
}
