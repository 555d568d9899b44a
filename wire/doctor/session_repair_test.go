package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// letters makes a session of a word: u and a are messages, C1 a call, D12 a
// call twice in one message, R1 a result, K a checkpoint without its span.
func letters(t require.TestingT, word string) *session.Session {
	s, err := session.Open(context.Background(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	for i, w := range strings.Fields(word) {
		var m session.Message
		call := func(id string) session.ToolCall { return session.ToolCall{ID: id, Name: "f", Arguments: "{}"} }
		switch w[0] {
		case 'u':
			m = session.UserText(fmt.Sprint("user ", i))
		case 'a':
			m = session.AssistantText(fmt.Sprint("model ", i))
		case 'C':
			m = session.AssistantText(fmt.Sprint("calls ", i))
			for _, id := range w[1:] {
				m.Parts = append(m.Parts, call(string(id)))
			}
		case 'R':
			m = session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool}}
			for _, id := range w[1:] {
				m.Parts = append(m.Parts, session.ToolResult{CallID: string(id), Parts: []session.Part{session.Text{Text: fmt.Sprint("result ", i, string(id))}}})
			}
		case 'K':
			m = session.UserText("a summary")
			m.Source = compact.CheckpointSource("gone")
		}
		_, err := s.Append(context.Background(), m)
		require.NoError(t, err)
	}
	return s
}

// word is what stands on the surface, in the letters of [letters]; n is a note.
func word(t require.TestingT, v session.View) string {
	var out []string
	for i := range v.Len() {
		m, err := v.Message(i)
		require.NoError(t, err)
		w := "u"
		switch {
		case m.Source.Plugin == Plugin && m.Source.Form == FormNote:
			w = "n"
		case m.Role == session.RoleTool:
			w = "R" + strings.Join(m.Results(), "")
		case len(m.Calls()) > 0:
			w = "C" + strings.Join(m.Calls(), "")
		case m.Role == session.RoleAssistant:
			w = "a"
		case compact.IsCheckpointSource(m.Source):
			w = "K"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

var sessionNow = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// checkRepaired checks what holds for every session after its repair: no
// makeshift is needed in a request, no text is lost, the log folds, and a second
// repair has nothing to do.
func checkRepaired(t require.TestingT, s *session.Session, before []string, r *Repaired) {
	v := s.View()
	require.NoError(t, compact.CheckLog(v))
	require.Empty(t, r.Left)
	req, err := openaichat.BuildRequest(v, &openaichat.RequestOptions{ModelCall: true})
	require.NoError(t, err)
	require.Empty(t, openaichat.ValidateWith(req.Body(), openaichat.Checks{ModelCall: true}))
	require.Empty(t, req.Report.Synthetic)
	require.Empty(t, req.Report.Quoted)
	require.Empty(t, req.Report.Moved)
	texts := spoken(t, v)
	for _, b := range before {
		require.Contains(t, texts, b)
	}
	require.NoError(t, sessiontest.Check(v, s.Pricer()))
	again, err := RepairSession(context.Background(), s, sessionNow, &Options{CloseRunning: true, UniqueIDs: true, PlainCheckpoints: true})
	require.NoError(t, err)
	require.Empty(t, again.Changes)
}

func spoken(t require.TestingT, v session.View) (out []string) {
	for i := range v.Len() {
		m, err := v.Message(i)
		require.NoError(t, err)
		if m.Role != session.RoleTool {
			out = append(out, m.Text())
		}
	}
	return out
}

func TestRepairSession(t *testing.T) {
	for before, c := range map[string]struct {
		opts    Options
		after   string
		changes int
	}{
		"u C1 R1 a":           {Options{}, "u C1 R1 a", 0},
		"u C1 u a":            {Options{}, "u C1 R1 u a", 1},
		"u C12 R1 u":          {Options{}, "u C12 R1 R2 u", 1},
		"u C1 C2 u":           {Options{}, "u C1 R1 C2 R2 u", 2},
		"u C1":                {Options{}, "u C1", 0},
		"u  C1":               {Options{CloseRunning: true}, "u C1 R1", 1},
		"u R9 a":              {Options{}, "u n a", 1},
		"u  R9 a":             {Options{DropOrphans: true}, "u a", 1},
		"R9 a":                {Options{DropOrphans: true}, "a", 1},
		"u C12 R1 R9 R2 a":    {Options{}, "u C12 R1 R2 n a", 1},
		"u C12 R9 R1 R8 u R2": {Options{}, "u C12 R1 R2 n n u", 3},
		"u C1 u a R1 a":       {Options{}, "u C1 R1 u a a", 1},
		"u C12 u R2 R1":       {Options{}, "u C12 R2 R1 u", 2},
		"u C11 R1 R1 a":       {Options{}, "u C11_2 R1 R1_2 a", 2},
		"u C1 R1 C1 R1":       {Options{}, "u C1 R1 C1 R1", 0},
		"u C1 R1  C1 R1":      {Options{UniqueIDs: true}, "u C1 R1 C1_2 R1_2", 2},
		"u C1 R19 a":          {Options{}, "u C1 R1 n a", 1},
		"K u a":               {Options{}, "K u a", 0},
		"K u  a":              {Options{PlainCheckpoints: true}, "u u a", 1},
		"u R1 C1 a":           {Options{}, "u n C1 R1 a", 2},
	} {
		t.Run(before, func(t *testing.T) {
			s := letters(t, before)
			said := spoken(t, s.View())
			r, err := RepairSession(context.Background(), s, sessionNow, &c.opts)
			require.NoError(t, err)
			require.Equal(t, c.after, word(t, s.View()))
			require.Len(t, r.Changes, c.changes)
			for _, ch := range r.Changes {
				require.Contains(t, ch.Detail, "(seq ")
			}
			for _, n := range r.Left {
				require.NotEmpty(t, Decides(n.Kind), n.Kind)
			}
			if len(r.Left) > 0 {
				return
			}
			checkRepaired(t, s, said, r)
		})
	}
}

// Whatever stands on a surface can be repaired, and the log stays sound.
func TestRepairAnySession(t *testing.T) {
	all := &Options{CloseRunning: true, UniqueIDs: true, PlainCheckpoints: true}
	rapid.Check(t, func(rt *rapid.T) {
		w := strings.Join(rapid.SliceOfN(rapid.SampledFrom(strings.Fields("u a C1 C2 C12 C11 C3 R1 R2 R3 R12 R11 R9 K")), 1, 24).Draw(rt, "word"), " ")
		drop := rapid.Bool().Draw(rt, "drop")
		s := letters(rt, w)
		defer s.Close()
		said := spoken(rt, s.View())
		opts := *all
		opts.DropOrphans = drop
		r, err := RepairSession(context.Background(), s, sessionNow, &opts)
		if err != nil {
			rt.Fatalf("%s: %v", w, err)
		}
		checkRepaired(rt, s, said, r)
	})
}

func TestRepairSessionAttempts(t *testing.T) {
	s := letters(t, "u a")
	start, err := json.Marshal(compact.StartEvent{ID: "c1", Trigger: "manual", Holder: compact.Holder{Host: "h", PID: 7, Run: "r",
		Since: sessionNow.Add(-time.Hour), Until: sessionNow.Add(-time.Minute)}})
	require.NoError(t, err)
	_, err = s.Record(context.Background(), session.Raw{Type: compact.TypeStart, Data: start, Ignorable: true})
	require.NoError(t, err)
	early := sessionNow.Add(-30 * time.Minute)
	r, err := RepairSession(context.Background(), s, early, nil)
	require.NoError(t, err)
	require.Empty(t, r.Changes)
	require.Equal(t, OpenAttempt, r.Left[0].Kind)
	r, err = RepairSession(context.Background(), s, sessionNow, nil)
	require.NoError(t, err)
	require.Equal(t, StaleLease, r.Changes[0].Kind)
	require.Empty(t, r.Left)
	h := compact.HistoryAt(s.View())
	require.Nil(t, h.Open())
	require.NoError(t, h.Err())
	require.NoError(t, compact.CheckLog(s.View()))
	require.Zero(t, h.Failures())
}

func TestRepairSessionText(t *testing.T) {
	s := letters(t, "u")
	_, err := s.Append(context.Background(), session.UserText("a\xffb"))
	require.NoError(t, err)
	r, err := RepairSession(context.Background(), s, sessionNow, nil)
	require.NoError(t, err)
	m, err := s.View().Message(1)
	require.NoError(t, err)
	require.Equal(t, "a\uFFFDb", m.Text())
	require.Len(t, r.Changes, 1)
}
