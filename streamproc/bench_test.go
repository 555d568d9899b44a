package streamproc

import (
	"testing"

	"github.com/agentcompact/agentcompact/internal/plan"
)

const many = 100_000

func BenchmarkSelect(b *testing.B) {
	items := make([]plan.Item, many)
	for i := range items {
		items[i] = plan.Item{Tokens: 75, Cut: i%3 != 2}
	}
	o := &Options{Window: many * 75, Policy: Policy{TargetPercent: 50, MinTokens: 5000}}
	b.ReportAllocs()
	for b.Loop() {
		if n, _, ok := choose(items, steps, o); !ok || n < many/3 {
			b.Fatal(n)
		}
	}
}

func BenchmarkFit(b *testing.B) {
	items := make([]FitItem, many)
	for i := range items {
		items[i] = FitItem{Tokens: 75, Joined: i%3 == 2, Result: i%3 == 2, Human: i%100 == 0}
	}
	for name, budget := range map[string]int{"history": many * 60, "results": many * 14, "steps": many * 4, "emergency": 50} {
		history := many / 4
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p := Fit(items, history, budget); p.Tokens > budget {
					b.Fatal(p.Rung)
				}
			}
		})
	}
}

func BenchmarkApplySteps(b *testing.B) {
	list := replies(1000, 100)
	b.ReportAllocs()
	for b.Loop() {
		p := NewSlice(adapter, nil, list)
		if _, err := ApplySteps(bg, p, adapter, says(good("")), withWindow(opts(Policy{MinTokens: 1}), 40_000)); err != nil {
			b.Fatal(err)
		}
	}
}
