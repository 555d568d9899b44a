package recall_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/internal/requesttest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

// world is a session with the service that compacts it.
type world struct {
	session *session.Session
	engine  *engine.Engine
	seen    *summarize.Request // the newest request to the summarizer
}

// spy is the embedded summarizer with its requests kept.
type spy struct {
	summarize.Summarizer
	w *world
}

func (s spy) Open(ctx context.Context, r *summarize.Request) (summarize.Pending, error) {
	s.w.seen = r
	return s.Summarizer.Open(ctx, r)
}

func newWorld(t testing.TB) *world {
	t.Helper()
	clock := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	s, err := session.Open(t.Context(), session.NewMemoryStore(), &session.Options{Now: func() time.Time {
		clock = clock.Add(time.Second)
		return clock
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		requesttest.Session(t, s.View())
		_ = s.Close()
	})
	w := &world{session: s}
	ids := 0
	w.engine, err = engine.New(spy{summarize.NewExtractive(nil), w}, &engine.Options{
		Windows: engine.FixedWindow(1_000_000),
		NewID: func() string {
			ids++
			return fmt.Sprintf("c%d", ids)
		},
	})
	require.NoError(t, err)
	return w
}

// turn appends a prompt, a call with its result and a reply. The word marks all
// four messages; it returns their seqs.
func (w *world) turn(t testing.TB, word string) []session.Seq {
	t.Helper()
	id := "call_" + word
	result := session.ToolText(id, "Contents of "+word+".go:\n"+strings.Repeat("result "+word+" and more of the same line\n", 60))
	seqs, err := w.session.Append(t.Context(),
		session.UserText("please look at "+word),
		session.AssistantText("I will read it", session.ToolCall{ID: id, Name: "read_file", Arguments: `{"path":"src/` + word + `.go","why":"to \"see\" it"}`}),
		result,
		session.AssistantText("The file says "+word),
	)
	require.NoError(t, err)
	return seqs
}

func (w *world) compact(t testing.TB, from, to session.Seq) *compact.Result {
	t.Helper()
	r, err := w.engine.CompactRegion(t.Context(), compact.Agent{Session: w.session}, from, to)
	require.NoError(t, err)
	return r
}

// prune shortens a tool result as the engine does.
func (w *world) prune(t testing.TB, seq session.Seq) session.Seq {
	t.Helper()
	seqs, err := w.session.Update(t.Context(), func(v session.View) ([]session.Body, error) {
		ev, err := v.Event(seq)
		if err != nil {
			return nil, err
		}
		m, err := ev.Message()
		if err != nil {
			return nil, err
		}
		c := m.Clone()
		c.Source.Plugin, c.Source.Form = compact.Plugin, compact.FormPruned
		r := c.Parts[0].(session.ToolResult)
		r.Parts = []session.Part{session.Text{Text: compact.Pointer{Start: seq, End: seq, Count: 1}.String()}}
		c.Parts[0] = r
		return []session.Body{
			compact.Event(compact.PruneEvent{ID: "p1", Nodes: []session.Seq{seq}, Before: 700, After: 20}),
			session.Replace{Start: seq, End: seq, Message: *c},
		}, nil
	})
	require.NoError(t, err)
	return seqs[1]
}
