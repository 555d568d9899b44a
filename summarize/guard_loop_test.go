package summarize

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/stretchr/testify/require"
)

// loopRow is a text that is a loop, or looks like one.
type loopRow struct {
	Name, Before, Unit, After string
	Times                     int
	Span, User, Arguments     string
	Loop                      bool
}

func (r loopRow) text() string { return r.Before + strings.Repeat(r.Unit, r.Times) + r.After }

func loopRows(t testing.TB) (rows []loopRow) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "summarize", "loops.json"))
	require.NoError(t, err)
	var f struct{ Rows []loopRow }
	require.NoError(t, json.Unmarshal(b, &f))
	n := map[bool]int{}
	for _, r := range f.Rows {
		n[r.Loop]++
	}
	require.GreaterOrEqual(t, min(n[true], n[false]), 20)
	return f.Rows
}

// longSpan is a conversation that any summary is shorter than.
func longSpan(messages ...session.Message) *Request {
	req := &Request{Count: tokencount.EstimateText}
	for i := range messages {
		req.Items = append(req.Items, Item{Seq: session.Seq(i), Message: &messages[i], Tokens: 1_000_000})
	}
	return req
}

func TestGuardRefusesLoops(t *testing.T) {
	for _, r := range loopRows(t) {
		t.Run(r.Name, func(t *testing.T) {
			req := longSpan(session.UserText("go on: "+r.User), session.AssistantText(r.Span, session.ToolCall{ID: "1", Name: "write", Arguments: r.Arguments}), session.ToolText("1", "ok"))
			_, v, err := Guard(r.text(), req, loose)
			if !r.Loop {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "repeats itself")
			require.Equal(t, Degenerate, v.Class)
			// the embedded summarizer does not fall into loops: it quotes one
			embedded := *loose
			embedded.embedded = true
			_, _, err = Guard(r.text(), req, &embedded)
			require.NoError(t, err)
		})
	}
}

// TestAThirdOfATextIsTooMuch, of which the first time that a phrase is said is no part.
func TestAThirdOfATextIsTooMuch(t *testing.T) {
	const phrase, times = "the tests pass and ", 16
	var rest strings.Builder
	for i := range 200 {
		fmt.Fprintf(&rest, "w%d ", i)
	}
	most := 3*(times-1)*len(phrase) - times*len(phrase)
	none := func(func(string)) {}
	for more, want := range map[int]bool{0: true, 1: false} {
		before := rest.String()[:most+more-1] + "."
		require.Equal(t, want, looped(before+" "+strings.Repeat(phrase, times), none), "%d bytes more", more)
	}
}

// TestRealSummariesAreNoLoops: what agents and summarizers wrote is accepted, though
// the conversation that it came from is not at hand to excuse it.
func TestRealSummariesAreNoLoops(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	none := func(func(string)) {}
	summaries, answers, embedded := 0, 0, 0
	for _, s := range sessions {
		if s.Files != nil || strings.Contains(s.Path, "record-type-zoo") {
			continue // folders; and all texts of the zoo are the same
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		f, err := formats.Read(t.Context(), data)
		if err != nil {
			continue // not all of them can be read alone
		}
		for _, c := range f.Conversations {
			var messages []session.Message
			for i := range c.Entries {
				m := c.Entries[i].Message
				messages = append(messages, m)
				text := m.Text()
				switch {
				case m.Source.Plugin == "compact":
					summaries++
				case m.Role == session.RoleAssistant && len(text) >= 300:
					answers++
				default:
					continue
				}
				require.False(t, looped(text, none), "%s: message %d: %.300q", s.Path, i, text)
			}
			if len(messages) < 6 {
				continue
			}
			req := requestOf(messages...)
			p, err := NewExtractive(nil).Open(t.Context(), req)
			require.NoError(t, err)
			sum, err := p.Collect(t.Context())
			require.NoError(t, err)
			if len(sum.Text) >= 300 {
				embedded++
				require.False(t, looped(sum.Text, func(f func(string)) { eachSource(req, f) }), "%s: %s", s.Path, sum.Text)
			}
		}
	}
	t.Log(summaries, answers, embedded)
	require.GreaterOrEqual(t, summaries, 5)
	require.GreaterOrEqual(t, answers, 100)
	require.GreaterOrEqual(t, embedded, 20)
}

// FuzzLooped: a loop is one wherever in a text it stands, and texts of which no
// part stands twice are none.
func FuzzLooped(f *testing.F) {
	for _, r := range loopRows(f) {
		f.Add(r.Before, r.Unit, r.After)
	}
	f.Fuzz(func(t *testing.T, before, unit, after string) {
		none := func(func(string)) {}
		unit = folded(unit) + " "
		if len(unit) > 1 {
			times := max(8, (len(before)+len(after)+loopBytes)/len(unit)*2)
			require.True(t, looped(before+" "+strings.Repeat(unit, times)+after, none))
		}
		s := folded(before + unit + after)
		last := 0
		for _, r := range repeats(s) {
			require.GreaterOrEqual(t, r.start, last)
			require.Equal(t, s[r.start:r.end-r.period], s[r.start+r.period:r.end])
			require.GreaterOrEqual(t, r.end-r.start, max(loopBytes, loopTimes*r.period))
			last = r.end
		}
	})
}

// TestNumbersHideNoLoop: a loop that counts is one.
func TestNumbersHideNoLoop(t *testing.T) {
	for line, loop := range map[string]bool{"%d. I will now run the tests again.": true, "%d) run the tests of the pump": true, "%d. step %[1]d of the plan is done": false, "%d": false, "8.%d is supported": false} {
		var b strings.Builder
		for i := range 30 {
			fmt.Fprintf(&b, line+"\n", i+1)
		}
		_, _, err := Guard("## Goal\nMake the parser accept trailing commas.\n"+b.String(), longSpan(session.UserText("go on")), loose)
		require.Equal(t, loop, err != nil && strings.Contains(err.Error(), "repeats itself"), "%s: %v", line, err)
	}
}
