package recall_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

func TestSearch(t *testing.T) {
	w := newWorld(t)
	a, b := w.turn(t, "alpha"), w.turn(t, "Bravo")
	visible := w.turn(t, "charlie")
	first := w.compact(t, a[0], a[3])
	w.prune(t, b[2])
	second := w.compact(t, first.Checkpoint, b[3])
	v := w.session.View()
	all := []session.Seq{b[3], b[2], b[1], b[0], a[3], a[2], a[1], a[0]}

	for _, c := range []struct {
		name    string
		q       recall.Query
		want    []session.Seq
		scanned int // 8 when zero
	}{
		{"literal", recall.Query{Text: "alpha"}, []session.Seq{a[3], a[2], a[1], a[0]}, 0},
		{"case counts", recall.Query{Text: "bravo"}, nil, 0},
		{"case ignored", recall.Query{Text: "bRAVO", IgnoreCase: true}, []session.Seq{b[3], b[2], b[1], b[0]}, 0},
		{"expression", recall.Query{Regexp: `look at (alpha|Bravo)$`}, []session.Seq{b[0], a[0]}, 0},
		{"expression, case ignored", recall.Query{Regexp: `^PLEASE`, IgnoreCase: true}, []session.Seq{b[0], a[0]}, 0},
		{"nothing like it", recall.Query{Text: "zulu"}, nil, 0},
		{"what is visible is not hidden", recall.Query{Text: "charlie"}, nil, 0},
		{"by role", recall.Query{Role: session.RoleUser}, []session.Seq{b[0], a[0]}, 0},
		{"by tool", recall.Query{Tool: "read_file"}, []session.Seq{b[2], b[1], a[2], a[1]}, 0},
		{"by tool, in a range without the call", recall.Query{Tool: "read_file", From: a[2], To: a[3]}, []session.Seq{a[2]}, 2},
		{"another tool", recall.Query{Tool: "write_file"}, nil, 0},
		{"by path", recall.Query{Path: "src/alpha.go"}, []session.Seq{a[1]}, 0},
		{"path and text", recall.Query{Path: "src/alpha.go", Text: "Bravo"}, nil, 0},
		{"role and text", recall.Query{Role: session.RoleTool, Text: "alpha"}, []session.Seq{a[2]}, 0},
		{"from", recall.Query{Text: "alpha", From: a[2]}, []session.Seq{a[3], a[2]}, 6},
		{"to", recall.Query{Text: "alpha", To: a[1]}, []session.Seq{a[1], a[0]}, 2},
		{"only a superseded one", recall.Query{Role: session.RoleUser, Scope: recall.Checkpoint(first.ID)}, []session.Seq{a[0]}, 4},
		{"visible ones too", recall.Query{Role: session.RoleUser, Scope: recall.Events(0, 1000)}, []session.Seq{second.Checkpoint, first.Checkpoint, visible[0], b[0], a[0]}, 15},
		{"escapes undone", recall.Query{Text: `to "see" it`}, []session.Seq{b[1], a[1]}, 0},
		{"as written", recall.Query{Text: `to \"see\" it`}, []session.Seq{b[1], a[1]}, 0},
		{"from the name into the arguments", recall.Query{Text: `read_file {`}, []session.Seq{b[1], a[1]}, 0},
		{"everything", recall.Query{Regexp: `.`}, all, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := recall.Search(v, c.q)
			require.NoError(t, err)
			var got []session.Seq
			for _, h := range f.Hits {
				got = append(got, h.Seq)
				require.NotEmpty(t, h.Snippet)
			}
			require.Equal(t, c.want, got)
			require.Equal(t, len(c.want), f.Matched)
			require.False(t, f.Truncated)
			if c.scanned == 0 {
				c.scanned = 8
			}
			require.Equal(t, c.scanned, f.Scanned)
		})
	}

	f, err := recall.Search(v, recall.Query{Text: "alpha", Limit: 2})
	require.NoError(t, err)
	require.Len(t, f.Hits, 2)
	require.Equal(t, 4, f.Matched)
	require.True(t, f.Truncated)
	require.Equal(t, first.ID, f.Hits[0].Compaction, "the checkpoint that hides it directly")
	require.Equal(t, 61, f.Hits[1].Matches)

	for _, bad := range []recall.Query{{}, {Text: "a", Regexp: "b"}, {Regexp: "("}, {Text: "a", Scope: recall.Checkpoint("nowhere")}} {
		_, err := recall.Search(v, bad)
		require.Error(t, err, "%+v", bad)
	}
}

func TestSnippet(t *testing.T) {
	w := newWorld(t)
	_, err := w.session.Append(t.Context(), session.UserText(strings.Repeat("ä", 300)+"\n\tneedle  in\nhay "+strings.Repeat("ö", 300)))
	require.NoError(t, err)
	_, err = w.session.Record(t.Context(), session.Rewind{To: session.NoSeq})
	require.NoError(t, err)
	f, err := recall.Search(w.session.View(), recall.Query{Text: "needle", Context: 20})
	require.NoError(t, err)
	require.Equal(t, "…"+strings.Repeat("ä", 9)+" needle in hay "+strings.Repeat("ö", 6)+"…", f.Hits[0].Snippet)
	f, err = recall.Search(w.session.View(), recall.Query{Regexp: "(?s).*", Context: 20})
	require.NoError(t, err)
	require.Less(t, len(f.Hits[0].Snippet), 200, "a match as long as the text")
}

// TestRecalledIsNotFoundAgain: the copy of a message is not one more message.
func TestRecalledIsNotFoundAgain(t *testing.T) {
	w := newWorld(t)
	a := w.turn(t, "alpha")
	b := w.turn(t, "bravo")
	r := w.compact(t, a[0], a[3])
	w.recall(t, "call_1", recall.ToolRead, `{"compaction":"`+r.ID+`"}`)
	b = append(b, w.turn(t, "charlie")...)
	w.compact(t, r.Checkpoint, w.session.View().Node(w.session.View().Len()-5).Seq)
	f, err := recall.Search(w.session.View(), recall.Query{Text: "look at alpha"})
	require.NoError(t, err)
	require.Len(t, f.Hits, 1)
	require.Equal(t, a[0], f.Hits[0].Seq)
	require.NotEmpty(t, b)
}

// recall makes a call of a tool and appends both.
func (w *world) recall(t testing.TB, id, name, args string) session.Message {
	t.Helper()
	call := session.ToolCall{ID: id, Name: name, Arguments: args}
	m := recall.NewTools(nil).Call(w.session.View(), call)
	_, err := w.session.Append(t.Context(), session.AssistantText("I look it up", call), m)
	require.NoError(t, err)
	return m
}

// TestCaseIgnoredLikeAnExpression holds the search for ASCII text without case
// against the regular expression that says the same.
func TestCaseIgnoredLikeAnExpression(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abABxX .é-_/")), 1, 40, -1)
	needle := rapid.StringOfN(rapid.RuneFrom([]rune("abABxX .-_/")), 1, 4, -1)
	rapid.Check(t, func(r *rapid.T) {
		s, n := text.Draw(r, "text"), needle.Draw(r, "needle")
		sess, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
		require.NoError(r, err)
		_, err = sess.Append(t.Context(), session.UserText(s))
		require.NoError(r, err)
		f, err := recall.Search(sess.View(), recall.Query{Text: n, IgnoreCase: true, Scope: recall.Events(0, 0)})
		require.NoError(r, err)
		want := len(regexp.MustCompile("(?i:"+regexp.QuoteMeta(n)+")").FindAllStringIndex(s, -1))
		got := 0
		if len(f.Hits) > 0 {
			got = f.Hits[0].Matches
		}
		require.Equal(r, want, got)
	})
}

// TestStoredLikeInMemory: payloads that are not decoded are judged by their
// JSON first, and that finds the same.
func TestStoredLikeInMemory(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{"plain words", "ESC \x1b[31mred\x1b[0m", "tag <b> & 'quotes' \"double\"", "umläut größe", "C:\\dir\\file", "tab\tand\nline", "Плохо", "a"} {
		w.turn(t, "w")
		_, err := w.session.Append(t.Context(), session.UserText(text), session.AssistantText(text, session.ToolCall{ID: "z", Name: "run", Arguments: `{"cmd":"\u001b[31m<b> größe"}`}),
			session.ToolText("z", text))
		require.NoError(t, err)
	}
	_, err := w.session.Record(t.Context(), session.Rewind{To: session.NoSeq})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "s.jsonl")
	store, err := filestore.Open(path, nil)
	require.NoError(t, err)
	var events []*session.Event
	for ev := range w.session.View().Events(0) {
		events = append(events, ev)
	}
	require.NoError(t, store.Append(t.Context(), 0, events))
	require.NoError(t, store.Close())
	for _, q := range []string{"plain", "WORDS", "x1b", "\x1b[31mred", "31m", "<b>", "b> & '", `"double"`, "größe", "GRÖSSE", "dir\\file", "tab\tand", "and\nline", "Плохо", "a", "ed", "recalled"} {
		for _, nocase := range []bool{false, true} {
			store, err := filestore.Open(path, &filestore.Options{ReadOnly: true})
			require.NoError(t, err)
			s, err := session.Open(t.Context(), store, nil)
			require.NoError(t, err)
			query := recall.Query{Text: q, IgnoreCase: nocase, Limit: 100}
			want, err := recall.Search(w.session.View(), query)
			require.NoError(t, err)
			got, err := recall.Search(s.View(), query)
			require.NoError(t, err)
			require.Equal(t, want, got, "%q", q)
			require.NoError(t, s.Close())
		}
	}
}

// TestEscapedByOthers: letters that another program escaped are letters.
func TestEscapedByOthers(t *testing.T) {
	w := newWorld(t)
	_, err := w.session.Append(t.Context(), session.UserText("a needle"))
	require.NoError(t, err)
	_, err = w.session.Record(t.Context(), session.Rewind{To: session.NoSeq})
	require.NoError(t, err)
	store := session.NewMemoryStore()
	for ev := range w.session.View().Events(0) {
		line, err := session.AppendEvent(nil, ev)
		require.NoError(t, err)
		ev, err := session.ParseEvent([]byte(strings.Replace(string(line), "needle", `n\u0065edle`, 1)))
		require.NoError(t, err)
		require.NoError(t, store.Append(t.Context(), ev.Seq, []*session.Event{ev}))
	}
	s, err := session.Open(t.Context(), store, nil)
	require.NoError(t, err)
	f, err := recall.Search(s.View(), recall.Query{Text: "needle"})
	require.NoError(t, err)
	require.Equal(t, 1, f.Matched)
}

// TestExpressionsLikeAScan: what is told from the JSON of a payload, before it is
// decoded, changes no answer.
func TestExpressionsLikeAScan(t *testing.T) {
	texts := []string{"open the Door", "open", "the window \u212a", "read_file twice", "a\nb open", "door door", `say "the"`, "opeN thE", "ab 12 abab"}
	path := filepath.Join(t.TempDir(), "s.jsonl")
	store, err := filestore.Open(path, nil)
	require.NoError(t, err)
	s, err := session.Open(t.Context(), store, nil)
	require.NoError(t, err)
	for _, x := range texts {
		_, err := s.Append(t.Context(), session.UserText(x))
		require.NoError(t, err)
	}
	_, err = s.Append(t.Context(), session.AssistantText("", session.ToolCall{ID: "1", Name: "bash", Arguments: `{"cmd":1}`}))
	require.NoError(t, err)
	_, err = s.Record(t.Context(), session.Rewind{To: session.NoSeq})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	search := func(q recall.Query) *recall.Found { // each in a log of which nothing is decoded yet
		store, err := filestore.Open(path, &filestore.Options{ReadOnly: true})
		require.NoError(t, err)
		s, err := session.Open(t.Context(), store, nil)
		require.NoError(t, err)
		defer s.Close()
		f, err := recall.Search(s.View(), q)
		require.NoError(t, err)
		return f
	}
	require.Equal(t, 1, search(recall.Query{Text: "bash {"}).Matched, "from the name of a tool into its arguments")
	require.Equal(t, 1, search(recall.Query{Regexp: "bash {.cmd"}).Matched)
	for _, expr := range []string{`open`, `op(en) the`, `(?i)open`, `op|do`, `(door ?)+`, `(door ?){2}`, `(?:door)*`, `o(?:pe)?n`, `the.*Door`, `"the"`, `b open`,
		`^read_\w+ twice$`, `[a-b]{4}`, `(ab){2}`, `x*`, `\bthe\b`, `12 ab`, `(?i:K)`, `(open|open) the`, `ope[nN]`, `zulu`, `\u0222`, `(?s)a.b`} {
		for _, fold := range []bool{false, true} {
			src := expr
			if fold {
				src = "(?i:" + expr + ")"
			}
			re, err := regexp.Compile(src)
			if err != nil {
				continue
			}
			want := 0
			if re.MatchString("") || re.MatchString(`bash {"cmd":1}`) {
				want++ // the call
			}
			for _, x := range texts {
				if re.MatchString(x) {
					want++
				}
			}
			f := search(recall.Query{Regexp: expr, IgnoreCase: fold})
			require.Equal(t, want, f.Matched, "%s", src)
			require.Equal(t, len(texts)+1, f.Scanned)
		}
	}
}
