package recall_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
)

func TestListSaysWhatWhenWhyAndByWhom(t *testing.T) {
	w := newWorld(t)
	a, b := w.turn(t, "alpha"), w.turn(t, "bravo")
	c := w.turn(t, "charlie")
	first := w.compact(t, a[0], a[3])
	short := w.prune(t, b[2])
	second := w.compact(t, first.Checkpoint, b[3])
	require.Empty(t, recall.List(session.View{}))

	list := recall.List(w.session.View())
	require.Len(t, list, 3)
	require.Equal(t, first.ID, list[0].ID)
	require.Equal(t, compact.SeqSet(a), list[0].Seqs)
	require.False(t, list[0].Live)
	require.Equal(t, second.Checkpoint, list[0].HiddenBy)
	require.Equal(t, compact.Region, list[0].Trigger)
	require.Equal(t, first.Summarizer, list[0].Summarizer)
	require.Equal(t, first.SpanBefore, list[0].Before)
	require.Equal(t, first.SpanAfter, list[0].After)
	require.Equal(t, first.Text, list[0].Text)
	require.False(t, list[0].Time.IsZero())

	require.Equal(t, recall.Entry{ID: "p1", Seq: short, HiddenBy: second.Checkpoint, Pruned: true, Time: list[1].Time,
		Seqs: compact.SeqSet{b[2]}, Before: 700, After: 20}, list[1])

	require.Equal(t, second.Checkpoint, list[2].Seq)
	require.True(t, list[2].Live)
	require.Equal(t, session.NoSeq, list[2].HiddenBy)
	require.Equal(t, compact.SeqSet{first.Checkpoint, b[0], b[1], short, b[3]}, list[2].Seqs)
	require.NotContains(t, list[2].Seqs, c[0])
}

func TestUndoneAndPutBackIsOneEntry(t *testing.T) {
	w := newWorld(t)
	a := w.turn(t, "alpha")
	w.turn(t, "bravo")
	r := w.compact(t, a[0], a[3])
	agent := compact.Agent{Session: w.session}
	_, err := w.engine.Undo(t.Context(), agent, session.NoSeq)
	require.NoError(t, err)

	list := recall.List(w.session.View())
	require.Len(t, list, 1)
	require.False(t, list[0].Live)
	require.Equal(t, session.NoSeq, list[0].HiddenBy, "nothing hides what was undone")
	page, err := recall.Read(w.session.View(), recall.Checkpoint(r.ID), nil)
	require.NoError(t, err, "what an undone one had hidden is still named by it")
	require.Equal(t, 4, page.Total)

	seq, err := w.engine.Redo(t.Context(), agent)
	require.NoError(t, err)
	list = recall.List(w.session.View())
	require.Len(t, list, 1)
	require.True(t, list[0].Live)
	_, err = w.session.View().Position(list[0].Seq)
	require.NoError(t, err, "event %d, redo %d", list[0].Seq, seq)
	require.Equal(t, r.Summarizer, list[0].Summarizer)
	require.Equal(t, r.SpanBefore, list[0].Before)
}

func TestReadUnfoldsNestedAndPruned(t *testing.T) {
	w := newWorld(t)
	a, b := w.turn(t, "alpha"), w.turn(t, "bravo")
	w.turn(t, "charlie")
	first := w.compact(t, a[0], a[3])
	w.prune(t, b[2])
	second := w.compact(t, first.Checkpoint, b[3])
	v := w.session.View()

	p, err := recall.Read(v, recall.Checkpoint(second.ID), nil)
	require.NoError(t, err)
	require.Equal(t, 8, p.Total)
	require.Equal(t, 8, p.Messages)
	require.Equal(t, a[0], p.From)
	require.Equal(t, b[3], p.To)
	require.Empty(t, p.Next)
	require.Contains(t, p.Text, "#0 user\nplease look at alpha\n")
	require.Contains(t, p.Text, `call read_file {"path":"src/alpha.go"`)
	require.Equal(t, 60, strings.Count(p.Text, "result bravo"), "the pruned result as it was")
	require.NotContains(t, p.Text, "[history:", "our own stand-ins are not in it")

	p, err = recall.Read(v, recall.Checkpoint(first.ID), nil)
	require.NoError(t, err, "superseded")
	require.Equal(t, 4, p.Total)
	p, err = recall.Read(v, recall.Checkpoint("p1"), nil)
	require.NoError(t, err, "pruned")
	require.Equal(t, 1, p.Total)
	p, err = recall.Read(v, recall.Events(second.Checkpoint, second.Checkpoint), nil)
	require.NoError(t, err, "a checkpoint itself")
	require.Contains(t, p.Text, "[history:")

	for _, s := range []recall.Scope{recall.Checkpoint("nowhere"), recall.Checkpoint(""), recall.Events(3, 2), recall.Events(-1, 2), recall.Events(1e6, 1e6)} {
		_, err = recall.Read(v, s, nil)
		require.ErrorIs(t, err, recall.ErrNotFound)
	}
	_, err = recall.Read(v, recall.Scope{}, nil)
	require.Error(t, err)
}

// TestForeignReplacement: what another program put in the place of a message is
// a message of its own, and so is what it replaced.
func TestForeignReplacement(t *testing.T) {
	w := newWorld(t)
	a := w.turn(t, "alpha")
	w.turn(t, "bravo")
	edited := session.UserText("please look at the edited text")
	edited.Source = session.Source{Kind: session.SourcePlugin, Plugin: "editor"}
	seqs, err := w.session.Record(t.Context(), session.Replace{Start: a[0], End: a[0], Message: edited})
	require.NoError(t, err)
	r := w.compact(t, seqs[0], a[3])
	require.Len(t, recall.List(w.session.View()), 1, "it is no compaction")
	for _, scope := range []recall.Scope{recall.Hidden(), recall.Checkpoint(r.ID)} {
		f, err := recall.Search(w.session.View(), recall.Query{Text: "please look at", Scope: scope})
		require.NoError(t, err)
		require.Len(t, f.Hits, 2)
		require.Equal(t, seqs[0], f.Hits[0].Seq)
		require.Equal(t, a[0], f.Hits[1].Seq)
	}
}

func TestPagesAreTheWhole(t *testing.T) {
	w := newWorld(t)
	var last []session.Seq
	for _, word := range []string{"alpha", "bravo", "чарли", "デルタ"} {
		last = w.turn(t, word)
	}
	w.turn(t, "echo")
	w.compact(t, 0, last[3])
	v := w.session.View()
	whole, err := recall.Read(v, recall.Hidden(), &recall.ReadOptions{MaxTokens: 1 << 20})
	require.NoError(t, err)
	require.Empty(t, whole.Next)
	for _, size := range []int{1, 2, 3, 7, 50, 400, 5000} {
		o := &recall.ReadOptions{MaxTokens: size}
		var text strings.Builder
		pages := 0
		for {
			p, err := recall.Read(v, recall.Hidden(), o)
			require.NoError(t, err)
			require.LessOrEqual(t, (len(p.Text)+3)/4, max(size, 1), "page of %d tokens", size)
			text.WriteString(p.Text)
			if pages++; p.Next == "" {
				break
			}
			require.NotEqual(t, o.Cursor, p.Next, "no progress")
			o.Cursor = p.Next
		}
		require.Equal(t, whole.Text, text.String(), "pages of %d tokens", size)
		if size < 1000 {
			require.Greater(t, pages, 2)
		}
	}
	p, err := recall.Read(v, recall.Hidden(), &recall.ReadOptions{Cursor: "999999:0"})
	require.NoError(t, err)
	require.Zero(t, p.Messages)
	require.Equal(t, session.NoSeq, p.From)
	for _, bad := range []string{"x", "1", "1:x", "-1:0", "1:-1", "1:2:3"} {
		_, err := recall.Read(v, recall.Hidden(), &recall.ReadOptions{Cursor: bad})
		require.ErrorContains(t, err, "cursor", bad)
	}
}

// TestWhateverIsHiddenIsFound runs random operations. Every message stands on
// the surface or is found and read, by its own word.
func TestWhateverIsHiddenIsFound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		agent := compact.Agent{Session: w.session}
		words := 0
		for range rapid.IntRange(3, 14).Draw(r, "operations") {
			v := w.session.View()
			switch op := rapid.SampledFrom([]string{"turn", "turn", "turn", "compact", "compact", "prune", "undo", "redo", "rewind"}).Draw(r, "operation"); op {
			case "turn":
				w.turn(t, fmt.Sprintf("word%dx", words))
				words++
			case "compact":
				if v.Len() < 2 {
					continue
				}
				a := rapid.IntRange(0, v.Len()-2).Draw(r, "start")
				b := rapid.IntRange(a, v.Len()-1).Draw(r, "end")
				_, _ = w.engine.CompactRegion(t.Context(), agent, v.Node(a).Seq, v.Node(b).Seq) // may refuse
			case "prune":
				for i := range v.Len() {
					if n := v.Node(i); len(n.Results()) > 0 && !n.IsReplacement() {
						w.prune(t, n.Seq)
						break
					}
				}
			case "undo":
				_, _ = w.engine.Undo(t.Context(), agent, session.NoSeq)
			case "redo":
				_, _ = w.engine.Redo(t.Context(), agent)
			case "rewind":
				to := session.Seq(rapid.IntRange(-1, int(v.Next())-1).Draw(r, "to"))
				_, _ = w.session.Record(t.Context(), session.Rewind{To: to})
			}
		}
		v := w.session.View()
		hidden := 0
		for ev := range v.Events(0) {
			if ev.Type != session.TypeMessage {
				continue
			}
			if _, err := v.Position(ev.Seq); err == nil {
				continue
			}
			hidden++
			m, err := ev.Message()
			require.NoError(r, err)
			word := m.Text()
			f, err := recall.Search(v, recall.Query{Text: word, From: ev.Seq, To: ev.Seq})
			require.NoError(r, err)
			require.Len(r, f.Hits, 1, "event %d is hidden and is not found", ev.Seq)
			p, err := recall.Read(v, recall.Events(ev.Seq, ev.Seq), &recall.ReadOptions{MaxTokens: 1 << 20})
			require.NoError(r, err)
			require.Contains(r, p.Text, word)
		}
		p, err := recall.Read(v, recall.Hidden(), &recall.ReadOptions{MaxTokens: 1 << 20})
		require.NoError(r, err)
		require.Equal(r, hidden, p.Messages)
		// What a live checkpoint hides is what the surface has lost through it.
		for _, e := range recall.List(v) {
			if e.ID == "" {
				continue
			}
			_, err := recall.Read(v, recall.Checkpoint(e.ID), nil)
			require.NoError(r, err, "compaction %s", e.ID)
		}
	})
}

// Recorded unfolds what our checkpoints stand for and leaves out what was rewound.
func TestRecorded(t *testing.T) {
	ctx := t.Context()
	s, err := session.Open(ctx, session.NewMemoryStore(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.Append(ctx, session.UserText("a"), session.UserText("b"), session.UserText("c"))
	require.NoError(t, err)
	cp := session.UserText("checkpoint")
	cp.Source = compact.CheckpointSource("c1")
	_, err = s.Update(ctx, func(session.View) ([]session.Body, error) {
		return []session.Body{session.Replace{Start: 0, End: 1, Message: cp}}, nil
	})
	require.NoError(t, err)
	_, err = s.Append(ctx, session.UserText("undone"))
	require.NoError(t, err)
	_, err = s.Update(ctx, func(session.View) ([]session.Body, error) { return []session.Body{session.Rewind{To: 3}}, nil })
	require.NoError(t, err)
	seqs, err := recall.Recorded(s.View())
	require.NoError(t, err)
	require.Equal(t, []session.Seq{0, 1, 2}, seqs)
	foreign := session.UserText("summary")
	foreign.Source = session.Source{Kind: session.SourcePlugin, Plugin: "other", Form: "summary"}
	_, err = s.Update(ctx, func(session.View) ([]session.Body, error) {
		return []session.Body{session.Replace{Start: 3, End: 2, Message: foreign}}, nil
	})
	require.NoError(t, err)
	seqs, err = recall.Recorded(s.View())
	require.NoError(t, err)
	require.Equal(t, []session.Seq{0, 1, 2, 6}, seqs, "what somebody else put in is a message")
}
