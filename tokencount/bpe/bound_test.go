package bpe

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile is text that makes other implementations quadratic, or is the
// slowest that we found for this one.
func hostile(size int) map[string]string {
	random := rand.New(rand.NewPCG(1, 2))
	letters := func(alphabet string) string {
		var b strings.Builder
		r := []rune(alphabet)
		for b.Len() < size {
			b.WriteRune(r[random.IntN(len(r))])
		}
		return b.String()
	}
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)+1)[:size] }
	return map[string]string{
		"one letter":          fill("a"),
		"one capital":         fill("A"),
		"caseless letter":     fill("ª"),
		"caseless, then caps": "ª" + fill("A"),
		"mixed case run":      fill("AªA"),
		"spaces":              fill(" "),
		"newlines":            fill("\n"),
		"blank lines":         fill(" \n\t "),
		"spaces, then word":   fill(" ") + "x",
		"newline, spaces":     "\n" + fill(" "),
		"emoji with joiners":  fill("👨\u200d👩\u200d👧"),
		"joiners":             fill("\u200d"),
		"combining marks":     "a" + fill("\u0301"),
		"marks on letters":    fill("e\u0301\u0308"),
		"invalid bytes":       fill("\xff"),
		"cut runes":           fill("\xe4\xb8"),
		"Han phrase":          fill("中文分词测试"),
		"random letters":      letters("abcdefghijklmnopqrstuvwxyz"),
		"random Han":          letters("的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从"),
		"random symbols":      letters("!@#$%^&*()-_=+[]{};:,.<>?|~"),
		"random blanks":       letters(" \t\u00a0\u2003"),
		"random any":          letters("aZ5 \n\t'/é中가😀\u0301ª½\u200d"),
		"words for the scan":  shortWords(letters("abcdefghijklmnopqrstuvwxyz")),
		"digits":              letters("0123456789"),
		"contractions":        fill("'s'll"),
		"slashes":             fill("/"),
	}
}

// shortWords puts a space in place of every scanLimit-th letter, so that each piece is
// just short enough for the scan.
func shortWords(s string) string {
	b := []byte(s)
	for i := scanLimit - 2; i < len(b); i += scanLimit {
		b[i] = ' '
	}
	return string(b)
}

// steps counts text with a fresh worker and returns how much work it was.
func steps(t *testing.T, c *Counter, text string) (scanned, merged int) {
	w := &worker{
		vocab:    c.vocab,
		splitter: splitter{o200k: c.encoding == O200kBase},
		merger:   merger{vocab: c.vocab},
		cache:    new(cache),
	}
	_, err := w.count(context.Background(), text)
	require.NoError(t, err)
	assert.LessOrEqual(t, cap(w.merger.links), 4*MaxPiece+1024, "memory of a worker is bounded")
	assert.LessOrEqual(t, cap(w.merger.heap), 12*MaxPiece, "memory of a worker is bounded")
	return w.splitter.work, w.merger.work
}

func TestWorkGrowsWithLengthOnly(t *testing.T) {
	small, large := hostile(16<<10), hostile(128<<10)
	for _, e := range []Encoding{O200kBase, Cl100kBase} {
		c, err := For(e)
		require.NoError(t, err)
		for name, text := range large {
			scanned, merged := steps(t, c, text)
			assert.LessOrEqual(t, scanned, 4*len(text)+16, "%s %s: bytes looked at", e, name)
			// A piece of MaxPiece bytes makes at most three candidates a byte, each
			// sifted down log2(3*MaxPiece) levels at most and up fewer.
			sent := len(string([]rune(text))) // with each bad byte made three
			assert.LessOrEqual(t, merged, 60*sent+1024, "%s %s: merge steps", e, name)

			s0, m0 := steps(t, c, small[name])
			assert.LessOrEqual(t, scanned+merged, 10*(s0+m0)+1024, "%s %s: eight times the text", e, name)
		}
	}
}

func TestCountStopsWhenCanceled(t *testing.T) {
	c, err := For(O200kBase)
	require.NoError(t, err)
	cause := assert.AnError
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	for _, text := range []string{"some words", strings.Repeat("a", 1<<20)} {
		n, err := c.Count(ctx, text)
		assert.ErrorIs(t, err, cause)
		assert.Zero(t, n)
	}

	// Canceled half way, it looks again within 64 KiB, inside one piece too.
	for _, text := range []string{strings.Repeat("some words ", 40_000), strings.Repeat("a", 400_000)} {
		after := &cancelAfter{Context: context.Background(), looks: 3}
		n, err := c.Count(after, text)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Positive(t, n)
		assert.Less(t, n, c.CountString(text)*4*checkEvery/len(text)+1)
	}
}

// cancelAfter is canceled from a number of looks on.
type cancelAfter struct {
	context.Context
	looks int
}

func (c *cancelAfter) Err() error {
	c.looks--
	if c.looks < 0 {
		return context.Canceled
	}
	return nil
}

func (c *cancelAfter) Value(any) any { return nil }

func TestCutPiecesStayNear(t *testing.T) {
	c, err := For(O200kBase)
	require.NoError(t, err)
	for name, text := range hostile(5 * MaxPiece / 2) {
		w := c.take()
		exact := 0
		for i := 0; i < len(text); {
			end := w.splitter.next(text, i)
			exact += w.piece(text[i:end], false)
			i = end
		}
		got := c.CountString(text)
		assert.InDelta(t, exact, got, 8, "%s: two cuts", name)
	}
}

func TestUnknownEncoding(t *testing.T) {
	_, err := For("p50k")
	assert.ErrorContains(t, err, "p50k")
}

func TestCountAllocatesNothing(t *testing.T) {
	c, err := For(O200kBase)
	require.NoError(t, err)
	texts := hostile(20_000)
	for _, text := range texts {
		c.CountString(text)
	}
	ctx := context.Background()
	for name, text := range texts {
		assert.Zero(t, testing.AllocsPerRun(3, func() { _, _ = c.Count(ctx, text) }), name)
	}
}

func TestConcurrentCountsAgree(t *testing.T) {
	c, err := For(O200kBase)
	require.NoError(t, err)
	texts := hostile(3_000)
	want := map[string]int{}
	for name, text := range texts {
		want[name] = c.CountString(text)
	}
	done := make(chan bool)
	for range 12 { // more than are kept idle
		go func() {
			ok := true
			for range 3 {
				for name, text := range texts {
					ok = ok && c.CountString(text) == want[name]
				}
			}
			done <- ok
		}()
	}
	for range 12 {
		assert.True(t, <-done)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.LessOrEqual(t, len(c.idle), maxIdle)
}

func TestEachPieceIsLookedAtAFewTimes(t *testing.T) {
	for name, text := range hostile(100_000) {
		p := splitter{o200k: true}
		for i := 0; i < len(text); {
			end := p.next(text, i)
			if !assert.Greater(t, end, i, "%s: progress", name) {
				break
			}
			i = end
		}
		assert.LessOrEqual(t, p.work, 4*len(text)+16, name)
	}
}
