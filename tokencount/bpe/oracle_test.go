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
// OpenAI's own but for one letter, see assertLikeOracle.
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
	if strings.Contains(text, "'ſ") {
		return // the oracle is wrong there; TestGolden has OpenAI's own ids
	}
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
		rapid.SampledFrom([]string{"the", " model's", "I'LL", "don't", "'re", "HTTPServer", "getUserName", "\n\t\t\n", " \n \n  x", "123456", "://", "});\n\n", "\r\n\r\n"}),
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

// Ids that OpenAI's own implementation gives: npm tiktoken 1.0.22, the Rust core
// as WASM, encode_ordinary.
func TestGolden(t *testing.T) {
	tests := []struct {
		text          string
		o200k, cl100k []int
	}{
		{"hello world", []int{24912, 2375}, []int{15339, 1917}},
		{"tiktoken is great!", []int{83, 8251, 2488, 382, 2212, 0}, []int{83, 1609, 5963, 374, 2294, 0}},
		{"don't I'LL", []int{91418, 3413, 7454}, []int{15357, 956, 358, 6, 4178}},
		// The long s is an s where case does not matter.
		{"X'ſ'redon't", []int{55, 6, 70067, 6, 1291, 263, 1507}, []int{55, 6, 129, 123, 2351, 15357, 956}},
		// Plain text, no special token.
		{"<|endoftext|>", []int{27, 91, 419, 1440, 919, 91, 29}, []int{27, 91, 8862, 728, 428, 91, 29}},
		// An indented blank line.
		{"  \n\t\t\n x", []int{4066, 4209, 1215}, []int{2355, 2451, 865}},
		// A run of capitals that has to give some back.
		{"ªAAAª", []int{25661, 74473, 25661}, []int{65005, 51207, 65005}},
		{
			"naïve café 中文字 👨\u200d👩\u200d👧 ١٢٣٤",
			[]int{1503, 9954, 737, 30469, 83711, 8134, 61138, 101, 2524, 28823, 102, 2524, 28823, 100, 220, 46600, 53184, 81473, 98713},
			[]int{3458, 38672, 588, 53050, 73958, 88435, 62904, 101, 378, 235, 9468, 239, 102, 378, 235, 9468, 239, 100, 220, 149, 94, 149, 95, 149, 96, 149, 97},
		},
	}
	for _, test := range tests {
		for e, want := range map[bpe.Encoding][]int{bpe.O200kBase: test.o200k, bpe.Cl100kBase: test.cl100k} {
			got, err := counterFor(t, e).Encode(context.Background(), nil, test.text)
			require.NoError(t, err)
			assert.Equal(t, want, got, "%s %q", e, test.text)
			assert.Equal(t, len(want), counterFor(t, e).CountString(test.text), "%s %q", e, test.text)
		}
	}
}

func FuzzCount(f *testing.F) {
	for _, s := range []string{"", "hello world", "don't", "\n\t\t\n", "  x", "中文 text", "\xff\xfe", "ǅaſ", "१२३४", "a\u0301\u200d", "  \r\n  ", "ªAAAª"} {
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
