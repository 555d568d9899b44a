package summarize

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// spanOf makes the items of a span; the messages are not copied.
func spanOf(messages ...session.Message) []Item {
	items := make([]Item, len(messages))
	for i := range messages {
		items[i] = Item{Seq: session.Seq(i), Message: &messages[i], Tokens: session.BytePricer{}.Price(&messages[i])}
	}
	return items
}

func extractive1(t require.TestingT, req *Request) string {
	p, err := NewExtractive(nil).Open(context.Background(), req)
	require.NoError(t, err)
	s, err := p.Collect(context.Background())
	require.NoError(t, err)
	return s.Text
}

func parserStory() []Item {
	return spanOf(
		session.UserText("Fix the parser: it must accept trailing commas. Never touch src/lex/scan.go."),
		session.AssistantText("I will look at the parser first.", session.ToolCall{ID: "1", Name: "read_file", Arguments: `{"path":"src/parse/list.go"}`}),
		session.ToolText("1", "package parse\nfunc list() {}\n"),
		session.AssistantText("The cause is in parseList: it expects an element after each comma.", session.ToolCall{ID: "2", Name: "edit_file", Arguments: `{"path":"src/parse/list.go","old":"a","new":"b"}`}),
		session.ToolText("2", "ok"),
		session.AssistantText("", session.ToolCall{ID: "3", Name: "bash", Arguments: `{"command":"go test ./parse"}`}),
		session.ToolText("3", "--- FAIL: TestList\nlist_test.go:31: unexpected EOF\nexit status 1"),
		session.AssistantText("The test fails because the closing bracket is read twice.", session.ToolCall{ID: "4", Name: "edit_file", Arguments: `{"path":"src/parse/list.go","old":"b","new":"c"}`}),
		session.ToolText("4", "ok"),
		session.AssistantText("", session.ToolCall{ID: "5", Name: "bash", Arguments: `{"command":"go test ./parse"}`}),
		session.ToolText("5", "ok  \tparse\t0.1s"),
		session.AssistantText("Fixed: parseList accepts trailing commas and all 12 tests pass."),
		session.UserText("Good. Now document it in docs/grammar.md."),
		session.AssistantText("Next I will add a section on lists to docs/grammar.md."),
	)
}

func TestExtractiveTellsTheStory(t *testing.T) {
	req := &Request{Items: parserStory(), Count: tokencount.EstimateText, MaxTokens: 600}
	text := extractive1(t, req)
	clean, v, err := Guard(text, req, &GuardOptions{NoFloor: true, MaxTokens: 600, MinGain: -9})
	require.NoError(t, err)
	require.Empty(t, v.Invented)
	require.Equal(t, text, clean, "it follows the guard's rules by itself")
	at := -1
	for _, h := range RequiredSections {
		i := strings.Index(text, "## "+h+"\n")
		require.Greater(t, i, at, h)
		at = i
	}
	section := func(name string) string {
		_, rest, ok := strings.Cut(text, "## "+name+"\n")
		require.True(t, ok, name)
		body, _, _ := strings.Cut(rest, "\n## ")
		return body
	}
	require.Contains(t, section("Goal"), "must accept trailing commas")
	require.Contains(t, section("Goal"), "docs/grammar.md")
	require.Contains(t, section("Done"), "all 12 tests pass")
	require.Contains(t, section("Done"), "(parse/list.go)")
	require.Contains(t, section("Failures"), "`go test ./parse`: --- FAIL: TestList → The test fails because the closing bracket is read twice. ✓")
	require.Contains(t, section("Decisions"), "The cause is in parseList")
	require.Contains(t, section("Next"), "add a section on lists")
}

func TestExtractiveKeepsTheLanguage(t *testing.T) {
	for lang, say := range map[string][3]string{
		"Chinese": {"请修复解析器，必须接受尾随逗号。", "原因在于列表函数在逗号之后等待元素。", "已修复，所有测试通过。"},
		"German":  {"Bitte prüfe die Pumpe in Halle drei.", "Die Ursache ist ein defektes Ventil, weil der Druck fehlt.", "Erledigt, die Pumpe läuft."},
		"Arabic":  {"أصلح المحلل من فضلك.", "السبب هو الدالة لأن العنصر مفقود.", "تم الإصلاح وكل الاختبارات ناجحة."},
		"Russian": {"Исправь разборщик списков.", "Ошибка потому что скобка читается дважды.", "Готово, все проверки проходят."},
	} {
		t.Run(lang, func(t *testing.T) {
			req := &Request{Count: tokencount.EstimateText, MaxTokens: 400, Items: spanOf(session.UserText(say[0]), session.AssistantText(say[1]), session.AssistantText(say[2]), session.UserText("OK"))}
			text := extractive1(t, req)
			for _, s := range say {
				require.Contains(t, text, s)
			}
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); line != noneText && !strings.HasPrefix(line, "## ") {
					require.NotRegexp(t, `\b(the|was|user|asked|tool|calls?)\b`, line, "no words of ours")
				}
			}
		})
	}
}

func TestExtractiveFitsItsBudget(t *testing.T) {
	items := parserStory()
	p, err := NewExtractive(nil).Open(context.Background(), &Request{Items: items, Count: tokencount.EstimateText, MaxTokens: 5})
	require.NoError(t, err)
	_, err = p.Collect(context.Background())
	var f *Failure
	require.ErrorAs(t, err, &f, "no room for the sections")
	require.Equal(t, Inflated, f.Class)
	for budget := 60; budget < 700; budget += 7 {
		text := extractive1(t, &Request{Items: items, Count: tokencount.EstimateText, MaxTokens: budget})
		require.LessOrEqual(t, tokencount.EstimateText(text), budget)
		require.Equal(t, text, extractive1(t, &Request{Items: items, Count: tokencount.EstimateText, MaxTokens: budget}), "deterministic")
	}
	shapes := hostileShapes(t)
	rapid.Check(t, func(t *rapid.T) {
		var ms []session.Message
		for range rapid.IntRange(1, 8).Draw(t, "n") {
			s := rapid.SampledFrom(shapes).Draw(t, "shape").Text
			ms = append(ms, rapid.SampledFrom([]session.Message{session.UserText(s), session.AssistantText(s), session.AssistantText(s, session.ToolCall{ID: "1", Name: s, Arguments: s}), session.ToolText("1", s)}).Draw(t, "message"))
		}
		budget := rapid.IntRange(60, 400).Draw(t, "budget")
		text := extractive1(t, &Request{Items: spanOf(ms...), Count: tokencount.EstimateText, MaxTokens: budget})
		require.LessOrEqual(t, tokencount.EstimateText(text), budget)
	})
}

func TestExtractiveRefusesAndCancels(t *testing.T) {
	s := NewExtractive(&ExtractiveOptions{MaxTurns: 3})
	require.Equal(t, "extractive", s.Name())
	for _, req := range []*Request{{}, {Count: tokencount.EstimateText}, {Items: parserStory()}} {
		_, err := s.Open(context.Background(), req)
		var f *Failure
		require.ErrorAs(t, err, &f)
		require.Equal(t, Invalid, f.Class)
	}
	req := &Request{Items: parserStory(), Count: tokencount.EstimateText, MaxTokens: 100}
	cause := fmt.Errorf("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	p, err := s.Open(ctx, req)
	require.NoError(t, err)
	cancel(cause)
	_, err = p.Collect(ctx)
	require.ErrorIs(t, err, cause)
	_, err = s.Open(ctx, req)
	require.ErrorIs(t, err, cause)
}

func TestExtractiveCarriesEarlierSummaries(t *testing.T) {
	note := session.UserText("[checkpoint …]")
	items := append([]Item{{Seq: 0, Message: &note, Checkpoint: true, Tokens: 50, Narrative: "## Goal\n- Build the site with word MARBLE.\n## Done\n- Pages were written.\n## Next\n- Deploy."}}, spanOf(session.UserText("Add a footer."), session.AssistantText("The footer was added."))...)
	text := extractive1(t, &Request{Items: items, Count: tokencount.EstimateText, MaxTokens: 400})
	require.Contains(t, text, "MARBLE")
	require.Contains(t, text, "Pages were written.")
	require.Contains(t, text, "Add a footer.")
	require.NotContains(t, text, "[checkpoint")
}

// longSession is about 300 bytes a message.
func longSession(n int) []Item {
	words := strings.Fields("parser table index cache retry queue shard token stream buffer socket header footer module release")
	ms := make([]session.Message, 0, n)
	for i := 0; len(ms) < n; i++ {
		w := func(k int) string { return words[(i*7+k*5)%len(words)] }
		if i%10 == 0 {
			ms = append(ms, session.UserText(fmt.Sprintf("Please fix the %s of the %s in src/%s/%s_%d.go, it must keep the %s order. %s", w(1), w(2), w(3), w(4), i%500, w(5), strings.Repeat("Some more words about it. ", 8))))
		}
		id := fmt.Sprint("c", i)
		ms = append(ms,
			session.AssistantText(fmt.Sprintf("The cause is the %s: it reads the %s twice, so I change %s_%d. %s", w(6), w(7), w(8), i, strings.Repeat("It is a small change. ", 6)),
				session.ToolCall{ID: id, Name: "bash", Arguments: fmt.Sprintf(`{"command":"go test ./%s/... -run Test%d"}`, w(1), i)}),
			session.ToolText(id, fmt.Sprintf("ok src/%s/%s_%d.go:%d 0x%08x\n%s", w(3), w(4), i%500, i, i*2654435761%4294967295, strings.Repeat("line of plain output text\n", 9))))
	}
	return spanOf(ms[:n]...)
}

func TestHundredThousandMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	items := longSession(100_000)
	bytes := 0
	for _, it := range items {
		eachText(it.Message, func(_, s string) { bytes += len(s) })
	}
	require.Greater(t, bytes, 25<<20)
	req := &Request{Items: items, Count: tokencount.EstimateText, MaxTokens: 4000}
	start := time.Now()
	text := extractive1(t, req)
	told := time.Since(start)
	require.LessOrEqual(t, tokencount.EstimateText(text), 4000)
	start = time.Now()
	l := Extract(req, nil)
	extracted := time.Since(start)
	start = time.Now()
	r, err := NewRedactor()
	require.NoError(t, err)
	for _, it := range items {
		r.Message(it.Message)
	}
	redacted := time.Since(start)
	start = time.Now()
	_, _, err = Guard(text, req, nil)
	require.NoError(t, err)
	guarded := time.Since(start)
	start = time.Now()
	Compose(Composition{Narrative: text, Ledger: l, Budget: 20000, Count: tokencount.EstimateText})
	t.Logf("%d MB: extractive %v, ledger %v, redaction %v, guard %v, compose %v", bytes>>20, told, extracted, redacted, guarded, time.Since(start))
	require.Less(t, told, 15*time.Second, "the aim is 5 s on an idle machine")
}

func TestRequestBehindContext(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"plain":           {"Fix the parser.", "Fix the parser."},
		"an IDE":          {"# Context from my IDE setup:\n\n## Active file: src/a.go\n\n## Open tabs:\n- a.go: src/a.go\n- b.go: src/b.go\n\n## My request:\nFix the parser.\nThen test.", "Fix the parser.\nThen test."},
		"a block":         {"<environment_context>\n  <cwd>/x</cwd>\n</environment_context>\nFix the parser.", "Fix the parser."},
		"only a block":    {"<environment_context>\n  <cwd>/x</cwd>\n</environment_context>", "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>"},
		"a task in tags":  {"<task>\nFix it.\n</task>\n<limits>none</limits>", "<task>\nFix it.\n</task>\n<limits>none</limits>"},
		"a list of tasks": {"# Please\n- fix the parser\n- write the docs\n\n# Notes\nBe quick.", "# Please\n- fix the parser\n- write the docs\n\n# Notes\nBe quick."},
		"a title":         {"# Fix the parser\nIt fails on commas.", "# Fix the parser\nIt fails on commas."},
		"names alone":     {"# Files\n- src/a.go\n- src/b.go", "# Files\n- src/a.go\n- src/b.go"},
	} {
		require.Equal(t, c.want, request(c.text), name)
	}
	require.Equal(t, "Both were seen in testing, and `**kw` too.", sentences("**Both were seen in testing**, and `**kw` too.", 1)[0])
}

// TestStateSaysSomething: a last word that says nothing has the one before it
// beside it, and a call that nobody spoke after is named.
func TestStateSaysSomething(t *testing.T) {
	section := func(text, name string) string {
		_, rest, _ := strings.Cut(text, "## "+name+"\n")
		body, _, _ := strings.Cut(rest, "\n## ")
		return body
	}
	call := session.ToolCall{ID: "1", Name: "bash", Arguments: `{"command":"go vet ./parse"}`}
	req := &Request{Count: tokencount.EstimateText, MaxTokens: 400, Items: spanOf(
		session.UserText("Fix the parser."),
		session.AssistantText("The closing bracket is read twice in parseList."), session.AssistantText("Great! Let me look:"),
		session.UserText("And now check it with the other tool."), session.AssistantText("", call), session.ToolText("1", "ok"))}
	text := extractive1(t, req)
	require.Equal(t, "- The closing bracket is read twice in parseList.\n- `go vet ./parse`", section(text, "State"))
	require.NotContains(t, text, "×")
	require.NotContains(t, section(text, "Decisions"), "Let me look")
}

func TestSentencesKeepNamesAndCode(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"Operators other than `==` and `!=` fail. We iterate with `utf8.RuneLen` here! See ../scripts/verify.ts and [`x.spec.ts`](../x.spec.ts). Done.",
			[]string{"Operators other than `==` and `!=` fail.", "We iterate with `utf8.RuneLen` here!", "See ../scripts/verify.ts and [`x.spec.ts`](../x.spec.ts).", "Done."}},
		{"它完成了。然后继续！好吗？是的", []string{"它完成了。", "然后继续！", "好吗？", "是的"}},
		{"He said `open. Then closed. Fine.", []string{"He said `open.", "Then closed.", "Fine."}},
	} {
		require.Equal(t, c.want, sentences(c.text, 10))
	}
}
