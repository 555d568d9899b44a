//go:build unix

package session_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

var benchText = strings.Repeat("all work and no play makes a dull boy. ", 8)[:300]

// conversation appends n messages: a prompt, then calls with their results.
func conversation(tb testing.TB, s *session.Session, n int) {
	tb.Helper()
	ctx := context.Background()
	for s.View().Len() < n {
		var bodies []session.Body
		for i := 0; i < 1000 && s.View().Len()+i < n; i++ {
			id := fmt.Sprintf("call_%d", (s.View().Len()+i)/2)
			m := session.UserText(benchText)
			switch at := (s.View().Len() + i) % 20; {
			case at%2 == 1 && at < 19:
				m = session.AssistantText(benchText, session.ToolCall{ID: fmt.Sprintf("call_%d", (s.View().Len()+i+1)/2), Name: "shell"})
			case at > 0 && at%2 == 0:
				m = session.ToolText(id, benchText)
			}
			bodies = append(bodies, session.Append{Message: m})
		}
		if _, err := s.Record(ctx, bodies...); err != nil {
			tb.Fatal(err)
		}
	}
}

func open(tb testing.TB, store session.Store) *session.Session {
	tb.Helper()
	s, err := session.Open(context.Background(), store, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// cpu reports the processor time per operation of this process, which a busy
// machine does not change much. Call the result when the loop is over.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	runtime.GC()
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}

// watch is a stop watch for single operations. Their median is little disturbed
// by what else the machine does, and leaves out most of the collector's work,
// which cpu-ns/op contains.
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

func BenchmarkAppend(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, session.NewMemoryStore())
			conversation(b, s, n)
			m := session.UserText(benchText)
			b.ReportAllocs()
			done := cpu(b)
			var w watch
			for b.Loop() {
				w.begin()
				if _, err := s.Append(context.Background(), m); err != nil {
					b.Fatal(err)
				}
				w.end()
			}
			done()
			w.report(b)
		})
	}
}

func BenchmarkReplace40(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, session.NewMemoryStore())
			conversation(b, s, n)
			note := session.UserText("sum")
			b.ReportAllocs()
			done := cpu(b)
			var w watch
			for i := 0; b.Loop(); i++ {
				v := s.View()
				if i%2 == 1 {
					// The way back costs the same.
					if _, err := s.Record(context.Background(), session.Restore{Node: v.Next() - 1}); err != nil {
						b.Fatal(err)
					}
					continue
				}
				at := v.Len() / 2
				w.begin()
				if _, err := s.Record(context.Background(), session.Replace{Start: v.Node(at).Seq, End: v.Node(at + 39).Seq, Message: note}); err != nil {
					b.Fatal(err)
				}
				w.end()
			}
			done()
			w.report(b)
		})
	}
}

func BenchmarkReopen250k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s.jsonl")
	st, err := filestore.Open(path, &filestore.Options{SyncEvery: filestore.Never})
	if err != nil {
		b.Fatal(err)
	}
	s := open(b, st)
	conversation(b, s, 250_000)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for _, all := range []bool{false, true} {
		b.Run(map[bool]string{false: "lazy", true: "all payloads"}[all], func(b *testing.B) {
			b.ReportAllocs()
			done := cpu(b)
			var w watch
			for b.Loop() {
				w.begin()
				st, err := filestore.Open(path, nil)
				if err != nil {
					b.Fatal(err)
				}
				s := open(b, st)
				if all {
					for i := range s.View().Len() {
						if _, err := s.View().Message(i); err != nil {
							b.Fatal(err)
						}
					}
				}
				w.end()
				s.Close()
			}
			done()
			w.report(b)
		})
	}
}

func BenchmarkFilestoreAppend(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			counter := &syncs{FS: filestore.OS}
			st, err := filestore.Open(filepath.Join(b.TempDir(), "s.jsonl"), &filestore.Options{FS: counter})
			if err != nil {
				b.Fatal(err)
			}
			s := open(b, st)
			defer s.Close()
			m := session.UserText(benchText)
			if _, err := s.Append(context.Background(), m); err != nil {
				b.Fatal(err)
			}
			counter.n.Store(0)
			b.ResetTimer()
			var wg sync.WaitGroup
			var left atomic.Int64
			left.Store(int64(b.N))
			for range writers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := s.Append(context.Background(), m); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/float64(max(counter.n.Load(), 1)), "appends/sync")
		})
	}
}
