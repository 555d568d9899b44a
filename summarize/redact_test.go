package summarize

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/session"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type secretRow struct {
	Text  string
	Gone  []string
	Stays []string
}

func secretRows(t testing.TB) []secretRow {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "summarize", "secrets.json"))
	require.NoError(t, err)
	var f struct{ Rows []secretRow }
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(b), "++", "")), &f))
	require.GreaterOrEqual(t, len(f.Rows), 40)
	return f.Rows
}

func TestRedactKnownSecrets(t *testing.T) {
	r, err := NewRedactor()
	require.NoError(t, err)
	for _, row := range secretRows(t) {
		got, n := r.Redact("before " + row.Text + " after")
		if len(row.Gone) == 0 {
			require.Equal(t, "before "+row.Text+" after", got, "is no secret")
			require.Zero(t, n)
			continue
		}
		require.Positive(t, n, row.Text)
		require.Contains(t, got, "[redacted:")
		for _, s := range row.Gone {
			require.NotContains(t, got, s)
		}
		for _, s := range append(row.Stays, "before ") {
			require.Contains(t, got, s)
		}
		again, n := r.Redact(got)
		require.Equal(t, got, again)
		require.Zero(t, n)
	}
}

// TestHiddenCharactersHideNoSecret: not even those that something takes out later.
func TestHiddenCharactersHideNoSecret(t *testing.T) {
	r, err := NewRedactor(`ticket-\d{4}`)
	require.NoError(t, err)
	rows := append(secretRows(t), secretRow{Text: "see ticket-4711", Gone: []string{"ticket-4711"}})
	for _, row := range rows {
		if len(row.Gone) == 0 || strings.Contains(row.Text, `\`) {
			continue // a backslash escapes what is put behind it
		}
		want, n := r.Redact(row.Text)
		for _, c := range []string{"\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\x00", "\x1b", "\u202e", "\U000e0061", `\u200b`, `\u0000`} {
			// one in every secret, away from its ends, and one outside
			text := row.Text
			for _, s := range row.Gone {
				mid := len(s) / 2
				for !utf8.RuneStart(s[mid]) {
					mid++
				}
				text = strings.Replace(text, s, s[:mid]+c+s[mid:], 1)
			}
			got, hits := r.Redact("a" + c + " " + text)
			require.Equal(t, n, hits, "%q in %q", c, text)
			require.Equal(t, "a"+c+" "+want, got, "the same placeholder, and what is outside stays")
		}
	}
	for _, text := range []string{"👩\u200d👩\u200d👧 family", "می\u200cخواهم", "co\u00adoperate with\x00 me", `say \u200b twice \\u`, "\\", `\u12`} {
		got, n := r.Redact(text)
		require.Equal(t, text, got)
		require.Zero(t, n)
	}
}

// TestSecretsBehindEscapes: the letter of an escape is no part of a word.
func TestSecretsBehindEscapes(t *testing.T) {
	r, err := NewRedactor()
	require.NoError(t, err)
	token, claim := "ghp"+"_0123456789abcdefghijABCDEFGHIJ", "eyJ"+"hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP"
	for _, secret := range []string{token, claim} {
		for _, before := range []string{`\n`, `\t`, `\r`, `\f`, `\b`, `\u003e`, `\u0026`, `\\n`} {
			got, n := r.Redact(`{"content":"first` + before + secret + `"}`)
			require.Equal(t, 1, n, before)
			require.NotContains(t, got, secret)
			require.True(t, json.Valid([]byte(got)))
		}
		for _, before := range []string{"n", "x", "_", "u003e", `\x`, `\u00`, `\uzzzz`, "xu003e", `\x003e`} {
			got, _ := r.Redact(before + secret)
			require.Contains(t, got, before+secret[:12], "a longer word")
		}
	}
}

// TestUnveil: hidden characters go, written out or escaped, and lines stay apart.
func TestUnveil(t *testing.T) {
	for text, want := range map[string]string{
		"a\u200bb": "ab", "a\u200b": "a", "\u200b": "", "a\u000ab": "a\u000ab",
		"a\tb\nc\rd\ve\ff\u0085g": "a\tb\nc\rd\ve\ff\u0085g",
		`a\u200bb`:                "ab", `a\u200b`: "a", `a\u200`: `a\u200`, `a\u000ab`: `a\u000ab`, `a\nb`: `a\nb`,
	} {
		bare, at := unveil(text)
		require.Equal(t, want, bare, "%q", text)
		require.Equal(t, want == text, at == nil, "%q", text)
	}
}

func TestRedactPlaceholdersAreStable(t *testing.T) {
	a, err := NewRedactor()
	require.NoError(t, err)
	b, err := NewRedactor(`ticket-\d+`)
	require.NoError(t, err)
	const text = "password=hunter2x and password=hunter2x and password=hunter3x"
	x, n := a.Redact(text)
	require.Equal(t, 3, n)
	y, _ := b.Redact(text)
	require.Equal(t, x, y)
	f := strings.Fields(x)
	require.Equal(t, f[0], f[2], "the same secret")
	require.NotEqual(t, f[0], f[4], "another secret")
}

func TestRedactPatterns(t *testing.T) {
	_, err := NewRedactor(`(`)
	require.ErrorContains(t, err, "(")
	r, err := NewRedactor(`sk-example-[0-9]+`, `://[^:]+:[^@]+@`, `customer (\d+)`, `[a-z]*`)
	require.NoError(t, err)
	got, n := r.Redact("API_KEY=sk-example-0000111122223333 CUSTOMER customer 4711 X")
	require.Positive(t, n)
	require.NotContains(t, got, "0000111122223333")
	require.NotContains(t, got, "4711")
	again, n := r.Redact(got)
	require.Equal(t, got, again, "a pattern does not match placeholders")
	require.Zero(t, n)
	var none *Redactor
	same, n := none.Redact("password=hunter2")
	require.Equal(t, "password=hunter2", same)
	require.Zero(t, n)
}

func TestRedactMessage(t *testing.T) {
	r, err := NewRedactor()
	require.NoError(t, err)
	const secret = "hunter2-example"
	m := session.Message{
		Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel},
		Parts: []session.Part{
			session.Text{Text: "password: " + secret},
			session.Reasoning{Text: "password: " + secret, Signature: "sig", Raw: json.RawMessage(`{"t":"` + secret + `"}`)},
			session.ToolCall{ID: "1", Name: "connect", Arguments: `{"dsn":"postgres://bob:` + secret + `@db/x"}`, Raw: json.RawMessage(`{"a":"` + secret + `"}`)},
			session.Image{URL: "https://bob:" + secret + "@img.example/a.png"},
			session.Opaque{Kind: "x", Raw: json.RawMessage(`{"password":"` + secret + `"}`)},
			session.Text{Text: "clean"},
		},
		Extra:  map[string]json.RawMessage{"x": json.RawMessage(`{"password":"` + secret + `"}`), "y": json.RawMessage(`1`)},
		Origin: &session.Origin{Format: "f", Raw: json.RawMessage(`"` + secret + `"`)},
	}
	before, err := json.Marshal(m)
	require.NoError(t, err)
	got, n := r.Message(&m)
	require.Equal(t, 6, n)
	b, err := json.Marshal(got)
	require.NoError(t, err)
	require.NotContains(t, string(b), secret)
	require.True(t, json.Valid([]byte(got.Parts[2].(session.ToolCall).Arguments)), "arguments stay JSON")
	require.True(t, json.Valid(got.Parts[4].(session.Opaque).Raw))
	require.Empty(t, got.Parts[1].(session.Reasoning).Signature)
	after, err := json.Marshal(m)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the message itself is not touched")

	tool := session.ToolText("1", "password: "+secret)
	got, n = r.Message(&tool)
	require.Equal(t, 1, n)
	require.NotContains(t, got.Text(), secret)
	require.Contains(t, tool.Text(), secret)

	clean := session.UserText("nothing here")
	same, n := r.Message(&clean)
	require.Same(t, &clean, same)
	require.Zero(t, n)
}

func TestRedactLedger(t *testing.T) {
	r, err := NewRedactor()
	require.NoError(t, err)
	const key = "ghp_0123456789abcdefghijABCDEFGHIJ"
	full := func(s string) *Ledger {
		return &Ledger{
			User: []Quote{{Seq: 1, Text: "a"}, {Seq: 2, Text: s}}, Notes: []string{s}, Plan: &Plan{Tool: "todo", Items: []PlanItem{{Text: s, State: s}}},
			Carried: []Carried{{Seq: 3, Tool: "t", Arguments: s}}, Files: []File{{Path: s, Did: "read"}},
			Failures: []FailedCall{{What: s, Error: s}}, Facts: []Fact{{Line: "plain"}, {Line: s, Keys: []Key{{Text: "x"}, {Text: s}}}},
		}
	}
	in := full(key)
	out, n := r.Ledger(in)
	require.Equal(t, 10, n)
	mark, _ := r.Redact(key)
	require.Equal(t, full(mark), out)
	require.Equal(t, full(key), in, "the argument is not modified")
	clean := full("nothing")
	out, n = r.Ledger(clean)
	require.Zero(t, n)
	require.Same(t, clean, out)
	out, n = r.Ledger(nil)
	require.Zero(t, n)
	require.Nil(t, out)
	// no string of a ledger is left out
	b, err := json.Marshal(full(key))
	require.NoError(t, err)
	require.Equal(t, 10, strings.Count(string(b), key))
}

func TestRedactIsIdempotent(t *testing.T) {
	rows := secretRows(t)
	r, err := NewRedactor(`[0-9]{4}`)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 4).Draw(t, "n") {
			b.WriteString(rapid.SampledFrom(rows).Draw(t, "row").Text)
			b.WriteString(rapid.SampledFrom([]string{"", " ", "\n", "=", ":", "@", "[redacted:", "\"", "\\"}).Draw(t, "sep"))
		}
		once, _ := r.Redact(b.String())
		twice, n := r.Redact(once)
		require.Equal(t, once, twice)
		require.Zero(t, n)
	})
}

func FuzzRedact(f *testing.F) {
	for _, row := range secretRows(f) {
		f.Add(row.Text)
	}
	r, err := NewRedactor()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, s string) {
		once, n := r.Redact(s)
		require.Equal(t, n == 0, once == s)
		twice, n := r.Redact(once)
		require.Equal(t, once, twice)
		require.Zero(t, n)
	})
}

func BenchmarkRedact(b *testing.B) {
	text := strings.Repeat("The parser reads tokens from scan.go and keeps a table of passwords policy; see https://example.org/a/b for secrets of style.\n", 8000)
	r, _ := NewRedactor()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Redact(text)
	}
}

// TestNamesOfFilesAreRedacted: they are told where the content is not.
func TestNamesOfFilesAreRedacted(t *testing.T) {
	r, err := NewRedactor(`falcon-\d+`)
	require.NoError(t, err)
	m := session.Message{Role: session.RoleUser, Parts: []session.Part{session.File{Name: "falcon-77.txt", URL: "data:text/plain;base64,aGk=", Raw: json.RawMessage(`{"name":"falcon-77.txt"}`)}}}
	got, n := r.Message(&m)
	require.Equal(t, 1, n)
	f := got.Parts[0].(session.File)
	require.NotContains(t, f.Name+string(f.Raw), "falcon-77")
	require.Equal(t, "data:text/plain;base64,aGk=", f.URL)
}
