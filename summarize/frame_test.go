package summarize

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/session"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type shape struct{ ID, Text, Note string }

func hostileShapes(t testing.TB) []shape {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "hostile", "shapes.json"))
	require.NoError(t, err)
	var f struct{ Shapes []shape }
	require.NoError(t, json.Unmarshal(b, &f))
	require.GreaterOrEqual(t, len(f.Shapes), 60)
	return f.Shapes
}

// carelessly is how a reader sees a text who cares for neither invisible
// characters nor for the alphabet that a letter is from. It is not made from the
// code under test.
func carelessly(s string) string {
	fold := strings.NewReplacer("＜", "<", "＞", ">", "／", "/", "｜", "|", "［", "[", "］", "]", "【", "[", "】", "]", "‹", "<", "›", ">",
		"〈", "<", "〉", ">", "：", ":", "ѕ", "s", "Ѕ", "S", "у", "y", "е", "e", "о", "o", "с", "c", "р", "p", "а", "a")
	s = fold.Replace(s)
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == 0x200B && i > 0 && strings.ContainsAny(s[i-1:i], "<["):
			b.WriteRune(r) // the break that defuses
		case r == 0x200B && strings.HasSuffix(b.String(), "<"):
			b.WriteRune(r)
		case unicode.In(r, unicode.Cf, unicode.Mn, unicode.Variation_Selector):
		case r >= 0xFF01 && r <= 0xFF5E:
			b.WriteRune(r - 0xFF01 + '!')
		case r >= 0x1D400 && r < 0x1D6A4:
			b.WriteRune('a' + (r-0x1D400)%26)
		case r >= 0x24D0 && r <= 0x24E9:
			b.WriteRune('a' + r - 0x24D0)
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

var (
	seenFrame = regexp.MustCompile(`\[\s*/?\s*(?:end\s+(?:of\s+)?)?checkpoint`)
	seenTag   = regexp.MustCompile(`<\s*/?\s*(?:summary|analysis|summary_request|thinking|think|system|system-reminder|user|assistant|conversation|tool_calls|invoke|function_calls|tool_result|state_snapshot|user_message)(?:[\s>/=]|$)`)
	seenToken = regexp.MustCompile(`<[ \t]*\|[ \t]*[a-z_]|<<sys>>|<start_of_turn>|\[/?inst\]|<!--|<!\[cdata\[`)
	seenPoint = regexp.MustCompile(`\[\s*history:`)
	endMark   = regexp.MustCompile(`^\[checkpoint ([0-9a-f]{6}): [^\n]*\]\n(?s:(?:.*\n)?)\[end of checkpoint ([0-9a-f]{6})\]$`)
)

func requireNoTags(t require.TestingT, seen string) {
	require.Empty(t, seenTag.FindAllString(seen, -1), "%q", seen)
	require.Empty(t, seenToken.FindAllString(seen, -1), "%q", seen)
}

// requireHarmless checks text that stands in a request as data.
func requireHarmless(t require.TestingT, text string) {
	seen := carelessly(text)
	requireNoTags(t, seen)
	require.Empty(t, seenFrame.FindAllString(seen, -1), "%q", seen)
	require.Empty(t, seenPoint.FindAllString(seen, -1), "%q", seen)
}

// requireFramed checks a checkpoint as a hostile reader would look for holes.
func requireFramed(t require.TestingT, text, pointer string) {
	m := endMark.FindStringSubmatch(text)
	require.NotNil(t, m, "%q", text)
	require.Equal(t, m[1], m[2])
	require.True(t, utf8.ValidString(text))
	seen := carelessly(text)
	require.Len(t, seenFrame.FindAllString(seen, -1), 2, "frame: %q", seen)
	requireNoTags(t, seen)
	n := 0
	if pointer != "" {
		n = 1
		require.Contains(t, text, "\n"+pointer+"\n")
	}
	require.Len(t, seenPoint.FindAllString(seen, -1), n, "%q", seen)
	titles := map[string]int{}
	for line := range strings.Lines(seen) {
		line = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "#* "))
		for _, title := range []string{"user:", "present:", "todo:", "tools:", "failed:", "files:", "quotes:"} {
			if strings.HasPrefix(line, title) {
				titles[title]++
				require.Equal(t, title, line, "a title with content")
			}
		}
		require.False(t, regexp.MustCompile(`^(?:system|assistant|human|developer)\s*:`).MatchString(line), "another speaker: %q", line)
	}
	for title, n := range titles {
		require.Equal(t, 1, n, "%s in %q", title, seen)
	}
	for _, r := range text {
		require.False(t, r < 0x20 && r != '\n' && r != '\t', "control character")
		require.False(t, r >= 0xE0000 && r <= 0xE0FFF || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069, "%U", r)
	}
}

func TestHostileShapesStayInside(t *testing.T) {
	const pointer = "[history: 3 messages, events 1-3, compaction c1]"
	places := map[string]func(s string) Composition{
		"narrative":       func(s string) Composition { return Composition{Narrative: s} },
		"narrative, late": func(s string) Composition { return Composition{Narrative: "## Goal\nAll well.\n" + s} },
		"user":            func(s string) Composition { return Composition{Ledger: &Ledger{User: []Quote{{Seq: 1, Text: s}}}} },
		"note":            func(s string) Composition { return Composition{Ledger: &Ledger{Notes: []string{s}}} },
		"plan": func(s string) Composition {
			return Composition{Ledger: &Ledger{Plan: &Plan{Items: []PlanItem{{Text: s, State: "open"}}}}}
		},
		"carried": func(s string) Composition {
			return Composition{Ledger: &Ledger{Carried: []Carried{{Tool: s, Arguments: s}}}}
		},
		"file": func(s string) Composition { return Composition{Ledger: &Ledger{Files: []File{{Path: s, Did: "read"}}}} },
		"failure": func(s string) Composition {
			return Composition{Ledger: &Ledger{Failures: []FailedCall{{What: s, Error: s}}}}
		},
		"fact": func(s string) Composition {
			return Composition{Ledger: &Ledger{Facts: []Fact{{Line: s + " file_a.go", Keys: []Key{{Text: "file_a.go", Count: 3}}}, {Line: s}}}}
		},
		"span": func(s string) Composition {
			u, a := session.UserText(s), session.AssistantText(s, session.ToolCall{ID: "1", Name: "write_file", Arguments: s})
			r := session.ToolText("1", s+"\nError: no such file a/b.go "+s)
			return Composition{Ledger: Extract(&Request{Items: []Item{{Seq: 1, Message: &u}, {Seq: 2, Message: &a}, {Seq: 3, Message: &r}}}, nil)}
		},
	}
	for _, s := range hostileShapes(t) {
		for name, place := range places {
			t.Run(s.ID+"/"+name, func(t *testing.T) {
				for _, budget := range []int{0, 150, 500} {
					c := place(s.Text)
					c.Pointer, c.Budget = pointer, budget
					text := Compose(c)
					requireFramed(t, text, pointer)
				}
			})
		}
	}
}

func TestDefuse(t *testing.T) {
	for _, s := range hostileShapes(t) {
		for name, f := range map[string]func(string) string{"inside": Defuse, "block": defuseBlock} {
			once := f(s.Text)
			require.Equal(t, once, f(once), "%s of %s is idempotent", name, s.ID)
			require.True(t, utf8.ValidString(once))
		}
	}
	for _, same := range []string{
		"", "plain", "a < b && c > d", "überblick_märz.txt", "if x[i] < y { return }", "日本語のテキスト <b>太字</b>", "می\u200cخواهم", "👩\u200d👩\u200d👧 family",
		"https://example.org/a?b=[1]", "List<User> users = new ArrayList<>();", "map[string]int{}", "```go\nx := 1\n```", "see `<T>` and ~~~", "[x] done [ ] open",
		"<div class=\"summary-box\">", "a::b", "func(a []byte) <-chan int",
	} {
		require.Equal(t, same, Defuse(same), "harmless text stays as it is")
	}
	require.Equal(t, "a\nb\nc", Defuse("a\r\nb\rc"))
	require.Equal(t, "a\uFFFDb", Defuse("a\xffb"))
	require.Equal(t, "```\nopen\n```", Defuse("```\nopen"))
	require.Equal(t, "<"+zwsp+"summary>", Defuse("<summary>"))
	require.Equal(t, "| User: x", defuseBlock("User: x"))
}

func FuzzDefuse(f *testing.F) {
	for _, s := range hostileShapes(f) {
		f.Add(s.Text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range []func(string) string{Defuse, defuseBlock} {
			once := d(s)
			require.True(t, utf8.ValidString(once))
			require.Equal(t, once, d(once))
		}
		requireFramed(t, Compose(Composition{Narrative: s, Ledger: &Ledger{User: []Quote{{Text: s}}, Notes: []string{s}}}), "")
	})
}

// TestMixedShapes puts shapes into one another.
func TestMixedShapes(t *testing.T) {
	shapes := hostileShapes(t)
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for range rapid.IntRange(1, 4).Draw(t, "n") {
			s := rapid.SampledFrom(shapes).Draw(t, "shape").Text
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			text = text[:at] + s + text[at:]
		}
		once := Defuse(text)
		require.Equal(t, once, Defuse(once))
		requireFramed(t, Compose(Composition{Narrative: text, Ledger: &Ledger{User: []Quote{{Seq: 4, Text: text}}, Failures: []FailedCall{{What: text, Error: text}}}}), "")
	})
}
