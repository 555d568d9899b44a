package tokencount_test

import (
	"testing"

	"github.com/agentcompact/agentcompact/tokencount"
)

func BenchmarkEstimateText(b *testing.B) {
	for _, s := range samples(b) {
		switch s.name {
		case "prose", "go", "json", "log", "base64", "chinese", "japanese", "korean", "cyrillic", "emoji":
		default:
			continue
		}
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(len(s.text)))
			b.ReportAllocs()
			for b.Loop() {
				tokencount.EstimateText(s.text)
			}
		})
	}
}
