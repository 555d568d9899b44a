package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/toolpairing"
)

type noModel struct{}

func (noModel) Name() string { return "none" }

func (noModel) Open(context.Context, *summarize.Request) (summarize.Pending, error) {
	panic("the transaction alone asks nobody")
}

// transaction makes one compaction without the making of its text: span, lease,
// revalidation and commit.
func transaction(b *testing.B, e *Engine, s *session.Session, start, end session.Seq) *compact.Result {
	ctx := b.Context()
	a, err := e.begin(ctx, compact.Agent{Session: s}, job{trigger: compact.Region, choose: func(v session.View) (span, error) {
		return region(s, v, start, end)
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer a.release()
	c := &checkpoint{written: &summarize.Written{Summary: summarize.Summary{Text: "Short."}, Summarizer: "none"}}
	c.message = a.message("Short.")
	c.tokens = s.Pricer().Price(&c.message)
	if err := a.worthwhile(c.tokens); err != nil {
		b.Fatal(err)
	}
	r, err := a.commit(ctx, c)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkTransaction is CompactRegion without what package summarize does for
// it, over the whole head and over 40 messages in the middle.
func BenchmarkTransaction(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		for _, c := range []struct {
			name     string
			from, to int
		}{{"head", 0, n - 5}, {"middle", n / 2, n/2 + 39}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				s := filled(b, n)
				e, err := New(noModel{}, nil)
				if err != nil {
					b.Fatal(err)
				}
				var took []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					v := s.View()
					from, to := v.Node(c.from).Seq, v.Node(c.to).Seq
					began := time.Now()
					r := transaction(b, e, s, from, to)
					took = append(took, time.Since(began))
					b.StopTimer()
					if _, err := e.Undo(b.Context(), compact.Agent{Session: s}, r.Checkpoint); err != nil {
						b.Fatal(err)
					}
					toolpairing.For(s).With(func(*toolpairing.Index) {}) // not a part of this transaction
					b.StartTimer()
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[0].Microseconds()), "min-µs")
			})
		}
	}
}

// filled returns a session of n messages of about 300 characters.
func filled(b *testing.B, n int) *session.Session {
	b.Helper()
	s, err := session.Open(b.Context(), session.NewMemoryStore(), nil)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("words of text. ", 20)
	batch := make([]session.Message, 0, n)
	for i := range n {
		switch id := fmt.Sprintf("call_%d", i/4); i % 4 {
		case 0:
			batch = append(batch, session.UserText(text))
		case 1:
			batch = append(batch, session.AssistantText(text, session.ToolCall{ID: id, Name: "read", Arguments: "{}"}))
		case 2:
			batch = append(batch, session.ToolText(id, text))
		case 3:
			batch = append(batch, session.AssistantText(text))
		}
	}
	if _, err := s.Append(b.Context(), batch...); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}
