package bpe_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	tiktoken "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/tokencount/bpe"
)

var encodings = []bpe.Encoding{bpe.O200kBase, bpe.Cl100kBase}

// oracles are the encoders of another library: slow, and known to agree with
// OpenAI's own.
var oracles = map[bpe.Encoding]func() *tiktoken.Tiktoken{
	bpe.O200kBase:  sync.OnceValue(func() *tiktoken.Tiktoken { return oracle(bpe.O200kBase) }),
	bpe.Cl100kBase: sync.OnceValue(func() *tiktoken.Tiktoken { return oracle(bpe.Cl100kBase) }),
}

func oracle(e bpe.Encoding) *tiktoken.Tiktoken {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	t, err := tiktoken.GetEncoding(string(e))
	if err != nil {
		panic(err)
	}
	return t
}

// repair puts U+FFFD for each bad byte.
func repair(s string) string { return string([]rune(s)) }

func counterFor(t testing.TB, e bpe.Encoding) *bpe.Counter {
	t.Helper()
	c, err := bpe.For(e)
	require.NoError(t, err)
	return c
}

// assertLikeOracle wants the ids of the oracle, and a count that agrees.
func assertLikeOracle(t require.TestingT, c *bpe.Counter, text string) {
	want := oracles[c.Encoding()]().EncodeOrdinary(repair(text))
	got, err := c.Encode(context.Background(), nil, text)
	require.NoError(t, err)
	if len(want) == 0 {
		require.Empty(t, got)
	} else {
		require.Equal(t, want, got, "%s: %q", c.Encoding(), text)
	}
	require.Equal(t, len(want), c.CountString(text), "%s: %q", c.Encoding(), text)
}

// alphabet has runes of every class that the patterns tell apart, several of
// each, and what has a special place in them.
var alphabet = []rune("abzesTAZQ 0123459      \n\n\r\t\v\f'''/\\.,:;-_=+*(){}[]<>|\"#$%&!?" +
	"ßéñüÀÉſǅǈʰˈªº" + "абвАБЯґ" + "αβΩ" + "אבגּ" + "عربيةً٣٤" + "हिन्दी१२" + "ไทยก็๑" + "가나다한" + "あアーっ々" + "中文字㐀𠀀" +
	"½²Ⅷ①𝟘" + "\u0301\u0308\u20dd\u200d\ufe0f\u00a0\u2003\u2028\u3000\u0085\u00ad\u200b\ufeff\ufffd" + "😀👨👩🏽🇩🇪✅→─│█“”…€©" + "\x00\x07\x7f")

func texts() *rapid.Generator[string] {
	rune_ := rapid.SampledFrom(alphabet)
	word := rapid.OneOf(
		rapid.StringOfN(rune_, 1, 8, -1),
		rapid.SampledFrom([]string{"the", " model's", "I'LL", "don't", "X'ſ", "'re", "HTTPServer", "getUserName", "\n\t\t\n", " \n \n  x", "123456", "://", "});\n\n", "\r\n\r\n"}),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 5), func(b []byte) string { return string(b) }),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(string(rune_.Draw(t, "rune")), rapid.IntRange(1, 100).Draw(t, "times"))
		}),
		rapid.String(),
	)
	return rapid.Map(rapid.SliceOfN(word, 0, 12), func(w []string) string { return strings.Join(w, "") })
}

func TestCountLikeOracleOnAnyText(t *testing.T) {
	for _, e := range encodings {
		t.Run(string(e), func(t *testing.T) {
			c := counterFor(t, e)
			rapid.Check(t, func(t *rapid.T) { assertLikeOracle(t, c, texts().Draw(t, "text")) })
		})
	}
}

func TestCountLikeOracleOnLongPieces(t *testing.T) {
	long := []string{
		strings.Repeat("a", 3000), strings.Repeat(" ", 3000), strings.Repeat("\n", 3000), strings.Repeat(" \n\t ", 700),
		strings.Repeat("中文分词", 500), strings.Repeat("👨\u200d👩\u200d👧", 200), strings.Repeat("e\u0301", 700),
		strings.Repeat("\xff", 1000), strings.Repeat("\xe4\xb8", 700), strings.Repeat("-=", 1500), strings.Repeat("AbC", 900),
	}
	for _, e := range encodings {
		c := counterFor(t, e)
		for _, s := range long {
			assertLikeOracle(t, c, s)
			assertLikeOracle(t, c, "x"+s+"y")
		}
	}
}

// Ids that OpenAI's own implementation gives.
func TestGolden(t *testing.T) {
	tests := []struct {
		encoding bpe.Encoding
		text     string
		ids      []int
	}{
		{bpe.Cl100kBase, "hello world", []int{15339, 1917}},
		{bpe.Cl100kBase, "tiktoken is great!", []int{83, 1609, 5963, 374, 2294, 0}},
		{bpe.O200kBase, "hello world", []int{24912, 2375}},
		{bpe.O200kBase, "<|endoftext|>", nil}, // plain text: no special id, see below
	}
	for _, test := range tests {
		got, err := counterFor(t, test.encoding).Encode(context.Background(), nil, test.text)
		require.NoError(t, err)
		if test.ids == nil {
			assert.Greater(t, len(got), 1, "%q is not a special token here", test.text)
			continue
		}
		assert.Equal(t, test.ids, got, "%s %q", test.encoding, test.text)
	}
}

func FuzzCount(f *testing.F) {
	for _, s := range []string{"", "hello world", "don't", "\n\t\t\n", "  x", "中文 text", "\xff\xfe", "ǅa'ſ", "१२३४", "a\u0301\u200d", "  \r\n  ", "ªAAAª"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 512 {
			s = s[:512]
		}
		for _, e := range encodings {
			c := counterFor(t, e)
			assertLikeOracle(t, c, s)
			if n := c.CountString(s); n > utf8.RuneCountInString(s)*4 {
				t.Errorf("%d tokens for %d bytes", n, len(s))
			}
		}
	})
}
