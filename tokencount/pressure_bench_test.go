package tokencount_test

import (
	"strings"
	"testing"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
)

// BenchmarkPressureCold prices 30 MB of a conversation that was never priced,
// as the first check of its size must; a later one is a subtraction.
func BenchmarkPressureCold(b *testing.B) {
	var block strings.Builder
	for _, s := range samples(b) {
		switch s.name {
		case "prose", "go", "json", "log", "markdown", "diff":
			block.WriteString(s.text)
		}
	}
	text := strings.Repeat(block.String(), 1+20_000/block.Len())[:20_000]
	var messages []session.Message
	size := 0
	for size < 30<<20 {
		m := session.UserText(text)
		messages, size = append(messages, m), size+len(text)
	}
	p := tokencount.NewPricer(nil)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		total := 0
		for i := range messages {
			total += p.Price(&messages[i])
		}
		if total < size/8 {
			b.Fatal("not priced")
		}
	}
}
