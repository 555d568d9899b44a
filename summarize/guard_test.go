package summarize

import (
	"slices"
	"strings"
	"testing"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/stretchr/testify/require"
)

const goodSummary = `## Goal
Make the parser accept trailing commas and never touch src/lex/scan.go.
## State
parseList in src/parse/list.go accepts them; docs/grammar.md is open.
## Done
go test ./parse passed with 12 tests after two edits of src/parse/list.go.
## Failures
list_test.go:31: unexpected EOF, solved.
## Decisions
none
## Next
Add a section on lists to docs/grammar.md.`

func TestGuard(t *testing.T) {
	span := parserStory()
	for i := range span {
		span[i].Tokens = 400
	}
	req := &Request{Items: span, Count: tokencount.EstimateText, MaxTokens: 600, Instructions: strings.Repeat("Keep every port and every path in mind when you write. ", 3)}
	loose := &GuardOptions{NoSections: true, NoFloor: true}
	echo := "The cause is in parseList: it expects an element after each comma, and the closing bracket is read twice by the tokenizer."
	long := session.AssistantText(echo)
	withEcho := *req
	withEcho.Items = append(span[:len(span):len(span)], Item{Seq: 99, Message: &long, Tokens: 40})
	small := *req
	small.MaxTokens = 50
	brief := withEcho
	brief.Items = append(span[:len(span):len(span)], Item{Seq: 99, Message: &session.Message{Role: session.RoleAssistant, Parts: []session.Part{session.Text{Text: "The cause is in parseList."}}}, Tokens: 40})
	pair := withEcho
	pair.Items = []Item{span[0], {Seq: 99, Message: &long, Tokens: 40}}
	for name, c := range map[string]struct {
		text string
		req  *Request
		opts *GuardOptions
		want Class
	}{
		"good":                             {text: goodSummary},
		"empty":                            {text: "", want: Empty},
		"blank":                            {text: " \n\t\u200b", want: Empty, opts: loose},
		"nothing to be seen":               {text: "\u202c\u200b\ufeff", want: Empty, opts: loose},
		"scratchpad only":                  {text: "<analysis>hm</analysis>", want: Empty},
		"empty wrapper":                    {text: "<summary> </summary>", want: Empty, opts: loose},
		"call markup":                      {text: `<tool_calls><invoke name="bash"><parameter name="command">ls</parameter></invoke></tool_calls>`, want: ToolCalled, opts: loose},
		"call in words":                    {text: `[assistant calls read_file] {"path":"f01"}`, want: ToolCalled, opts: loose},
		"call as JSON":                     {text: `{"name": "bash", "arguments": {"command": "ls"}}`, want: ToolCalled, opts: loose},
		"call in a wrapper":                {text: `<summary><function_calls></function_calls></summary>`, want: ToolCalled, opts: loose},
		"a call behind words":              {text: `Let me look. <invoke name="bash"><parameter name="command">ls src/parse</parameter></invoke>`, want: ToolCalled, opts: loose},
		"a call is told":                   {text: "The agent wrote <invoke> markup by mistake and was corrected.", opts: loose},
		"no sections":                      {text: "All went well.", want: Sections, opts: &GuardOptions{NoFloor: true}},
		"a section missing":                {text: strings.Replace(goodSummary, "## Next", "Next", 1), want: Sections},
		"numbered sections":                {text: strings.Replace(goodSummary, "## Goal", "## 1. Goal:", 1)},
		"too short":                        {text: "## Goal\na\n## State\nb\n## Done\nc\n## Failures\nd\n## Decisions\ne\n## Next\nf", want: Degenerate},
		"no floor":                         {text: "SUMMARY-1: build is green.", opts: loose},
		"a loop":                           {text: strings.Repeat("The same thing happens again.\n", 20), want: Degenerate, opts: loose},
		"an echo":                          {text: echo, req: &withEcho, want: Degenerate, opts: loose},
		"a short echo":                     {text: "The cause is in parseList.", req: &brief, opts: loose},
		"an echo of one of two":            {text: echo, req: &pair, opts: loose},
		"longer than asked":                {text: goodSummary, req: &small, want: Inflated},
		"a call that is quoted at the end": {text: goodSummary + "\nIt wrote <invoke name=x> as text."},
		"echo of the prompt":               {text: req.Instructions, want: Degenerate, opts: loose},
		"too long":                         {text: goodSummary, opts: &GuardOptions{MaxTokens: 50}, want: Inflated},
		"no gain":                          {text: goodSummary, opts: &GuardOptions{MinGain: 0.99}, want: Inflated},
		"mostly invented":                  {text: "See a/b.go c/d.go e/f.go g/h.go i/j.go k/l.go m/n.go o/p.go and src/parse/list.go.", want: Invented, opts: loose},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.req
			if r == nil {
				r = req
			}
			got, v, err := Guard(c.text, r, c.opts)
			if c.want == "" {
				require.NoError(t, err)
				require.NotEmpty(t, got)
				require.Equal(t, tokencount.EstimateText(got), v.Tokens)
				require.Empty(t, v.Class)
				again, _, err := Guard(got, r, c.opts)
				require.NoError(t, err)
				require.Equal(t, got, again)
				return
			}
			var f *Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.want, f.Class, f.Detail)
			require.Equal(t, c.want, v.Class)
			require.NotContains(t, f.Error(), "parseList", "no content in errors")
			require.Empty(t, got)
		})
	}
}

func TestGuardMarksWhatIsInvented(t *testing.T) {
	req := &Request{Items: parserStory(), Count: tokencount.EstimateText, Prior: &Ledger{Files: []File{{Path: "old/known.go", Did: "read"}}}}
	opts := &GuardOptions{NoSections: true, NoFloor: true, MinGain: -100}
	text := "Edited src/parse/list.go and src/parse/wrong.go on port 99441.\nlist_test.go:31 failed, src/parse/list.go:12 too; old/known.go was read with read_file."
	got, v, err := Guard(text, req, opts)
	require.NoError(t, err)
	require.Equal(t, []string{"src/parse/wrong.go", "99441"}, v.Invented)
	require.Equal(t, "Edited src/parse/list.go and src/parse/wrong.go on port 99441. (not in the record: src/parse/wrong.go, 99441)\n"+
		"list_test.go:31 failed, src/parse/list.go:12 too; old/known.go was read with read_file.", got)
	got, _, err = Guard("Edited src/parse/wrong.go on port 99441.\nAll done.", req, opts)
	require.NoError(t, err)
	require.Equal(t, "Edited src/parse/wrong.go on port 99441. (not in the record)\nAll done.", got, "nothing else is on the line: no name is needed")
	keep := *opts
	keep.KeepInvented = true
	got, v, err = Guard(text, req, &keep)
	require.NoError(t, err)
	require.Equal(t, text, got)
	require.Empty(t, v.Invented)
}

// TestGuardKnowsItsSources: what a narrative may have its names and numbers from.
func TestGuardKnowsItsSources(t *testing.T) {
	const known = "src/known/place_7731.go"
	for name, put := range map[string]func(*Request){
		"a message": func(r *Request) { *r.Items[0].Message = session.UserText("see " + known) },
		"an escaped argument": func(r *Request) {
			*r.Items[0].Message = session.AssistantText("", session.ToolCall{ID: "1", Name: "read", Arguments: `{"f":"src\/known\/place_7731.go"}`})
		},
		"the name of a call": func(r *Request) {
			*r.Items[0].Message = session.AssistantText("", session.ToolCall{ID: "1", Name: known})
		},
		"an earlier narrative": func(r *Request) { r.Items[0].Checkpoint, r.Items[0].Narrative = true, "see "+known },
		"the instructions":     func(r *Request) { r.Instructions = "mind " + known },
		"a quote":              func(r *Request) { r.Prior = &Ledger{User: []Quote{{Text: known}}} },
		"a note":               func(r *Request) { r.Prior = &Ledger{Notes: []string{known}} },
		"a plan":               func(r *Request) { r.Prior = &Ledger{Plan: &Plan{Items: []PlanItem{{Text: known}}}} },
		"a carried call":       func(r *Request) { r.Prior = &Ledger{Carried: []Carried{{Arguments: known}}} },
		"a file":               func(r *Request) { r.Prior = &Ledger{Files: []File{{Path: known}}} },
		"a failed command":     func(r *Request) { r.Prior = &Ledger{Failures: []FailedCall{{What: known}}} },
		"its error":            func(r *Request) { r.Prior = &Ledger{Failures: []FailedCall{{Error: known}}} },
		"a fact":               func(r *Request) { r.Prior = &Ledger{Facts: []Fact{{Line: known}}} },
		"the system prompt":    func(r *Request) { r.Envelope = &session.Envelope{System: []session.Message{session.UserText(known)}} },
		"a tool":               func(r *Request) { r.Envelope = &session.Envelope{Tools: []session.Tool{{Name: known}}} },
	} {
		t.Run(name, func(t *testing.T) {
			req := longSpan(session.UserText("go on"))
			for _, text := range []string{"Edited " + known + ".", "Edited ./" + known + ".", "Edited " + known + ":12."} {
				_, v, err := Guard(text, req, lookingUp)
				require.NoError(t, err)
				require.Len(t, v.Invented, 1, text)
			}
			put(req)
			for _, text := range []string{"Edited " + known + ".", "Edited ./" + known + ".", "Edited " + known + ":12."} {
				_, v, err := Guard(text, req, lookingUp)
				require.NoError(t, err)
				require.Empty(t, v.Invented, text)
			}
		})
	}
}

// lookingUp looks up literals, too.
var lookingUp = &GuardOptions{NoSections: true, NoFloor: true}

// TestGuardOfHostileShapes has every shape as what a model wrote: alone, and behind
// a sound beginning.
func TestGuardOfHostileShapes(t *testing.T) {
	refused := map[string]Class{
		"analysis-block": Empty, "analysis-unclosed": Empty, "thinking-tags": Empty,
		"tool-calls": ToolCalled, "function-calls": ToolCalled, "long-run": Degenerate,
	}
	// what needs no change: words, quotes, and what is broken already
	harmless := []string{
		"zwsp-after-bracket", "many-zwsp", "entities", "ignore-previous", "ignore-chinese", "when-you-summarize", "important-system",
		"markdown-quote", "list-title",
	}
	req := longSpan(session.UserText("go on"))
	seen := 0
	for _, s := range hostileShapes(t) {
		t.Run(s.ID, func(t *testing.T) {
			got, v, err := Guard(s.Text, req, loose)
			if want := refused[s.ID]; want != "" {
				seen++
				var f *Failure
				require.ErrorAs(t, err, &f)
				require.Equal(t, want, f.Class)
				require.Equal(t, want, v.Class)
				require.Empty(t, got)
			} else {
				require.NoError(t, err)
				same := slices.Contains(harmless, s.ID)
				if same {
					seen++
				}
				require.Equal(t, same, got == s.Text, "%q", got)
				require.Equal(t, !same, v.Cleaned || v.Defused)
				requireFramed(t, Compose(Composition{Narrative: got}), "")
			}
			got, v, err = Guard(goodSummary+"\n"+s.Text, req, &GuardOptions{KeepInvented: true})
			if s.ID == "long-run" {
				require.Equal(t, Degenerate, v.Class)
				return
			}
			require.NoError(t, err)
			require.Contains(t, got, "never touch src/lex/scan.go")
			require.Contains(t, got, "docs/grammar.md")
			requireFramed(t, Compose(Composition{Narrative: got}), "")
		})
	}
	require.Equal(t, len(refused)+len(harmless), seen, "every exception is a shape")
}

func FuzzGuard(f *testing.F) {
	f.Add(goodSummary)
	for _, s := range hostileShapes(f) {
		f.Add(s.Text)
	}
	req := &Request{Items: parserStory(), Count: tokencount.EstimateText, MaxTokens: 500}
	f.Fuzz(func(t *testing.T, s string) {
		got, v, err := Guard(s, req, &GuardOptions{NoSections: true, NoFloor: true, MinGain: -100})
		if err == nil {
			requireFramed(t, Compose(Composition{Narrative: got}), "")
			require.LessOrEqual(t, v.Tokens, 500)
		}
	})
}

// TestOnlyTextIsKept: a call or thoughts behind a sound note leave the note.
func TestOnlyTextIsKept(t *testing.T) {
	note := note + "\nNothing else was changed in the hall or in the files about it, as the user had asked in the beginning of the work."
	req := longSpan(session.UserText(note))
	for _, behind := range []string{
		"<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"rm -rf /\"}}</tool_call>",
		"<function_calls>\n<invoke name=\"bash\"><parameter name=\"command\">rm -rf build</parameter></invoke>\n</function_calls>",
		"<tool_use>\nrm\n</tool_use>\n<tool_use>\nrm\n</tool_use>", "<think>rm, maybe</think>", "<Thinking>\nrm\n</Thinking>",
	} {
		got, v, err := Guard(note+"\n\n"+behind, req, loose)
		require.NoError(t, err)
		require.Equal(t, note, got)
		require.True(t, v.Cleaned)
	}
	for _, part := range []string{"- `<tool_call>` is what it prints.", "<invoke name=\"x\"> is open", "it ends with </tool_call>"} {
		got, _, err := Guard(note+"\n"+part, longSpan(session.UserText(note+part)), loose)
		require.NoError(t, err)
		require.Contains(t, strings.ReplaceAll(got, zwsp, ""), part)
	}
}
