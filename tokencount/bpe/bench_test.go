package bpe

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	tiktoken "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// samples are the texts of testdata/tokens by name, and all of them shuffled
// together as "mixed".
func samples(b *testing.B) map[string]string {
	b.Helper()
	files, err := filepath.Glob("../../testdata/tokens/*.txt")
	if err != nil || len(files) == 0 {
		b.Fatal("no samples", err)
	}
	out := map[string]string{}
	var all []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".txt")] = string(data)
		all = append(all, string(data))
	}
	// A slice of 2 kB of each in turn.
	var mixed strings.Builder
	for i := 0; i < 10_000; i += 2_000 {
		for _, s := range all {
			if i+2_000 <= len(s) {
				mixed.WriteString(strings.ToValidUTF8(s[i:i+2_000], ""))
			}
		}
	}
	out["mixed"] = mixed.String()
	return out
}

func BenchmarkCount(b *testing.B) {
	all := samples(b)
	for _, name := range []string{"mixed", "prose", "go", "json", "log", "chinese", "base64"} {
		text := all[name]
		b.Run(name, func(b *testing.B) {
			c, err := For(O200kBase)
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.Count(ctx, text)
			}
		})
	}
}

// BenchmarkCountCold empties the cache of pieces before each round.
func BenchmarkCountCold(b *testing.B) {
	text := samples(b)["mixed"]
	c, err := For(O200kBase)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w := c.take()
		clear(w.cache[:])
		c.give(w)
		_ = c.CountString(text)
	}
}

func BenchmarkHostileMegabyte(b *testing.B) {
	for name, text := range hostile(1 << 20) {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			c, err := For(O200kBase)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_ = c.CountString(text)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := loadVocabulary(string(O200kBase)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPkoukk is the other library, for the ratio.
func BenchmarkPkoukk(b *testing.B) {
	text := samples(b)["mixed"]
	get := sync.OnceValues(func() (*tiktoken.Tiktoken, error) {
		tiktoken.SetBpeLoader(loader.NewOfflineLoader())
		return tiktoken.GetEncoding(string(O200kBase))
	})
	t, err := get()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		_ = t.EncodeOrdinary(text)
	}
}
