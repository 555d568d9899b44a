package tokencount_test

import (
	"os"
	"testing"

	"github.com/agentcompact/agentcompact/tokencount"
)

func BenchmarkF(b *testing.B) {
	d, _ := os.ReadFile("/usr/local/go/src/net/http/server.go")
	s := string(d)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		tokencount.EstimateText(s)
	}
}
