package compact_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
)

// log writes events of compaction by hand.
type log struct {
	t *testing.T
	s *session.Session
}

func newLog(t *testing.T) log {
	s := sessiontest.Open(t, session.NewMemoryStore(), nil)
	l := log{t, s}
	l.talk(4)
	return l
}

// talk appends n messages of 100 tokens each; the first ones have the seqs 0 to
// n-1.
func (l log) talk(n int) {
	l.t.Helper()
	for range n {
		l.write(session.Append{Message: session.UserText(strings.Repeat("word", 100))})
	}
}

func (l log) write(bodies ...session.Body) session.Seq {
	l.t.Helper()
	seqs, err := l.s.Record(context.Background(), bodies...)
	require.NoError(l.t, err)
	return seqs[0]
}

func start(id string) session.Body {
	return compact.Event(compact.StartEvent{ID: id, Trigger: compact.Pressure, Holder: compact.Holder{Run: "run of " + id}, Span: compact.Span{Start: 0, End: 1}, Tokens: 400})
}

func end(id string, code compact.Code) session.Body {
	return compact.Event(compact.EndEvent{ID: id, Code: code, Before: 400, After: 400})
}

func replacement(id string) session.Body {
	return session.Replace{Start: 0, End: 1, Message: session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: "Short."}}, Source: compact.CheckpointSource(id)}}
}

func summary(id string, change func(*compact.SummaryEvent)) session.Body {
	p := compact.SummaryEvent{ID: id, Text: "Short.", Span: compact.Span{Start: 0, End: 1}, Seqs: compact.SeqSet{0, 1}, Before: 200, After: 10, Trigger: compact.Pressure}
	if change != nil {
		change(&p)
	}
	return compact.Event(p)
}

func prune(change func(*compact.PruneEvent)) session.Body {
	p := compact.PruneEvent{ID: "p", Nodes: []session.Seq{1}, Before: 100, After: 10}
	if change != nil {
		change(&p)
	}
	return compact.Event(p)
}

func pruned(seq session.Seq) session.Body {
	return session.Replace{Start: seq, End: seq, Message: session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: "[gone]"}},
		Source: session.Source{Kind: session.SourceUser, Plugin: compact.Plugin, Form: compact.FormPruned}}}
}

// of says under whose lease a pruning is made.
func of(attempt string) func(*compact.PruneEvent) {
	return func(p *compact.PruneEvent) { p.Attempt = attempt }
}

// shortened is the summary of a span whose second message was pruned.
func shortened(p *compact.SummaryEvent) {
	p.Span.End, p.Seqs = 6, compact.SeqSet{0, 6}
}

func shortReplacement(id string, end session.Seq) session.Body {
	r := replacement(id).(session.Replace)
	r.End = end
	return r
}

// TestCheckLog has the rows on the order of events, in the words of our log. A
// row without a wanted text is a log without fault.
func TestCheckLog(t *testing.T) {
	turn, turnEnd := session.TurnStart{}, session.TurnEnd{Reason: "completed"}
	for _, c := range []struct {
		row    string
		events []session.Body
		want   string // in the error; empty: no error
	}{
		{"IV-01", []session.Body{turn, start("a"), summary("a", nil), replacement("a"), end("a", ""), start("b"), end("b", compact.SummaryFailed), turnEnd}, ""},
		{"IV-02", []session.Body{start("a"), summary("a", nil), replacement("a"), end("a", ""), start("b"), end("b", compact.SummaryFailed)}, ""},
		{"IV-03", []session.Body{start("dead"), start("a"), end("a", compact.Cancelled)}, ""},
		{"IV-04", []session.Body{turn, start("dead"), turnEnd}, ""},
		{"IV-05", []session.Body{start("dead"), turn, turnEnd, start("a"), end("a", compact.Cancelled), turn, turnEnd}, ""},
		{"IV-06", []session.Body{start("a"), turn, turnEnd, end("a", compact.Cancelled)}, ""}, // a compaction may run across turns
		{"IV-07", []session.Body{turn, start("a")}, ""},
		{"IV-08", nil, ""},
		{"IV-11", []session.Body{start("a"), start("b"), end("a", compact.Cancelled)}, `no open attempt with id "a"`},
		{"IV-14", []session.Body{start("a"), summary("a", nil), replacement("b")}, "is not the checkpoint of a"},
		{"IV-15", []session.Body{replacement("a")}, `a checkpoint of compaction "a", of which there is no summary`},
		{"IV-16", []session.Body{start("")}, "no id"},
		{"IV-18", []session.Body{summary("a", nil), replacement("a")}, `no open attempt with id "a"`},
		{"IV-19", []session.Body{start("a"), start("a")}, "id a was used before"},
		{"IV-20", []session.Body{start("a"), summary("a", nil), replacement("a"), summary("a", nil)}, "second summary of attempt a"},
		{"IV-21", []session.Body{start("a"), summary("b", nil), replacement("b")}, `no open attempt with id "b"`},
		{"IV-23", []session.Body{start("a"), summary("a", func(p *compact.SummaryEvent) { p.Seqs = nil }), replacement("a")}, "nothing is shadowed"},
		{"IV-24", []session.Body{start("a"), summary("a", func(p *compact.SummaryEvent) { p.Span.End = 2 }), replacement("a")}, "span 0 to 2, but 0 to 1 is replaced"},
		{"IV-24 set", []session.Body{start("a"), summary("a", func(p *compact.SummaryEvent) { p.Seqs = compact.SeqSet{0} }), replacement("a")}, "the shadowed events are [0], but [0 1] are replaced"},
		{"IV-25", []session.Body{start("a"), summary("a", func(p *compact.SummaryEvent) { p.After = -1 }), replacement("a")}, "negative count of tokens"},
		{"IV-25 start", []session.Body{compact.Event(compact.StartEvent{ID: "a", Tokens: -1})}, "negative count of tokens"},
		{"IV-25 end", []session.Body{start("a"), compact.Event(compact.EndEvent{ID: "a", Code: compact.Cancelled, Before: -1})}, "negative count of tokens"},
		{"IV-25 call", []session.Body{start("a"), compact.Event(compact.EndEvent{ID: "a", Code: compact.Cancelled, Calls: []compact.Call{{Prompt: -1}}})}, "negative usage of a call"},
		{"IV-26", []session.Body{end("a", compact.Cancelled)}, `no open attempt with id "a"`},
		{"IV-27", []session.Body{start("a"), end("a", compact.Cancelled), end("a", compact.Cancelled)}, `no open attempt with id "a"`},
		{"IV-28", []session.Body{start("a"), end("b", compact.Cancelled)}, `no open attempt with id "b"`},
		{"IV-31", []session.Body{start("a"), end("a", "")}, "attempt a is committed without a summary"},

		{"failure with summary", []session.Body{start("a"), summary("a", nil), replacement("a"), end("a", compact.CommitFailed)}, `attempt a has a summary and ends with "commit"`},
		{"not in a row", []session.Body{start("a"), summary("a", nil), replacement("a"), turn, end("a", "")}, "do not stand in a row"},
		{"no replacement", []session.Body{start("a"), summary("a", nil), turn}, "no replacement follows"},
		{"not smaller", []session.Body{start("a"), summary("a", func(p *compact.SummaryEvent) { p.After = 200 }), replacement("a")}, "200 tokens stand for 200"},
		{"future span", []session.Body{compact.Event(compact.StartEvent{ID: "a", Span: compact.Span{Start: 0, End: 99}})}, "names no earlier events"},
		{"same run", []session.Body{start("a"), end("a", compact.Cancelled), compact.Event(compact.StartEvent{ID: "b", Holder: compact.Holder{Run: "run of a"}})}, "run run of a started before"},
		{"put back", []session.Body{start("a"), summary("a", nil), replacement("a"), end("a", ""), session.Restore{Node: 6}, replacement("a")}, ""},
		{"prune", []session.Body{prune(nil), pruned(1)}, ""},
		{"prune nothing", []session.Body{prune(func(p *compact.PruneEvent) { p.Nodes = nil })}, "nothing is shortened"},
		{"prune alone", []session.Body{prune(nil), turn}, "is not the short form of event 1"},
		{"prune another", []session.Body{prune(nil), pruned(2)}, "event 5 is not the short form of event 1"},
		{"prune longer", []session.Body{prune(func(p *compact.PruneEvent) { p.After = 100 }), pruned(1)}, "100 tokens stand for 100"},
		{"prune in a bracket", []session.Body{start("a"), prune(nil), pruned(1), end("a", compact.Cancelled)}, `no open attempt with id "a"`},
		{"prune under a lease", []session.Body{start("a"), prune(of("a")), pruned(1), summary("a", shortened), shortReplacement("a", 6), end("a", "")}, ""},
		{"prune under a lease, failure", []session.Body{start("a"), prune(of("a")), pruned(1), end("a", compact.SummaryFailed)}, ""},
		{"prune under a lease is enough", []session.Body{start("a"), prune(of("a")), pruned(1), end("a", "")}, ""},
		{"prune under a lease, late end", []session.Body{start("a"), prune(of("a")), pruned(1), turn, end("a", "")}, "the last pruning and the end of attempt a do not stand in a row"},
		{"prune under a lease of nobody", []session.Body{prune(of("a")), pruned(1)}, `no open attempt with id "a"`},
		{"prune under a lease of another", []session.Body{start("a"), prune(of("b")), pruned(1)}, `no open attempt with id "b"`},
		{"prune after the summary", []session.Body{start("a"), summary("a", nil), replacement("a"), prune(func(p *compact.PruneEvent) { p.Attempt, p.Nodes = "a", []session.Seq{2} }), pruned(2)}, "attempt a prunes after its summary"},
		{"crash after the pruning", []session.Body{start("a"), prune(of("a")), pruned(1), start("b"), end("b", compact.Cancelled)}, ""},
		{"crash, and a late end", []session.Body{start("a"), prune(of("a")), pruned(1), start("b"), end("a", "")}, `no open attempt with id "a"`},
		{"window", []session.Body{compact.Event(compact.WindowEvent{Model: "m"})}, "window of 0 tokens"},
	} {
		t.Run(c.row, func(t *testing.T) {
			l := newLog(t)
			for _, b := range c.events {
				l.write(b)
			}
			err := compact.CheckLog(l.s.View())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("all are told", func(t *testing.T) {
		l := newLog(t)
		l.write(start(""), end("x", compact.Cancelled), compact.Event(compact.WindowEvent{}))
		err := compact.CheckLog(l.s.View())
		for _, want := range []string{"event 4 (compact/start)", "event 5 (compact/end)", "event 6 (compact/window)"} {
			assert.ErrorContains(t, err, want)
		}
	})
	t.Run("not JSON of ours", func(t *testing.T) {
		l := newLog(t)
		l.write(session.Raw{Type: compact.TypeStart, Data: json.RawMessage(`[]`)})
		require.ErrorContains(t, compact.CheckLog(l.s.View()), "event 4")
		h := compact.HistoryAt(l.s.View())
		require.Error(t, h.Err())
	})
}

// A pruning is written only when whoever held the lease is dead, so it ends its
// hold.
func TestPruningTakesTheLeaseOver(t *testing.T) {
	l := newLog(t)
	l.write(start("a"))
	h := compact.HistoryOf(l.s)
	require.NotNil(t, h.Open())
	l.write(prune(nil), pruned(1))
	h = compact.HistoryOf(l.s)
	assert.Nil(t, h.Open())
	assert.Nil(t, h.Last(), "it has no end either")
}

// A pruning under a lease belongs to the attempt: it ends no hold, is no failure
// and no commit, and leaves the row of failures as it is.
func TestPruningUnderALease(t *testing.T) {
	l := newLog(t)
	l.write(start("f"), end("f", compact.SummaryFailed))
	l.write(start("a"))
	at := l.write(prune(of("a")), pruned(1))
	h := compact.HistoryOf(l.s)
	require.NotNil(t, h.Open())
	assert.Equal(t, "a", h.Open().Start.ID)
	assert.Equal(t, []session.Seq{at}, h.Open().Pruned)
	assert.False(t, h.Open().PruneOnly(), "it has not ended")
	l.write(end("a", ""))
	h = compact.HistoryOf(l.s)
	require.NoError(t, h.Err())
	assert.Nil(t, h.Open())
	assert.True(t, h.Last().PruneOnly())
	assert.False(t, h.Last().Committed())
	assert.Nil(t, h.LastCommitted())
	assert.Equal(t, 1, h.Failures())
	assert.Equal(t, compact.HistoryAt(l.s.View()).Attempts, h.Attempts)
}

// The history that is kept is that of the whole log, at any time.
func TestHistoryIsIncremental(t *testing.T) {
	l := newLog(t)
	var kept []compact.History
	for i, events := range [][]session.Body{
		{start("a")}, {summary("a", nil), replacement("a"), end("a", "")}, {start("b")}, {end("b", compact.SummaryFailed)},
		{compact.Event(compact.WindowEvent{Model: "m", Window: 5})}, {start("c"), end("c", compact.Cancelled)}, {start("dead")}, {start("d")}, {end("d", compact.NotSmaller)},
	} {
		l.write(events...)
		kept = append(kept, compact.HistoryOf(l.s))
		whole := compact.HistoryAt(l.s.View())
		assert.Equal(t, whole.Attempts, kept[i].Attempts)
		assert.Equal(t, whole.Failures(), kept[i].Failures())
		assert.Equal(t, whole.Open(), kept[i].Open())
		require.NoError(t, kept[i].Err())
	}
	assert.NotNil(t, kept[0].Open(), "an earlier history stays what it was")
	assert.Nil(t, kept[0].Attempts[0].End)
	last := kept[len(kept)-1]
	assert.Equal(t, 2, last.Failures())
	assert.Equal(t, "d", last.Last().Start.ID)
	assert.Equal(t, "a", last.LastCommitted().Start.ID)
	assert.Equal(t, "b", last.Find("b").Start.ID)
	assert.Nil(t, last.Find("x"))
}

func TestErrorsAnswer(t *testing.T) {
	codes := []compact.Code{compact.Busy, compact.Cancelled, compact.Changed, compact.NotFound, compact.Reversed, compact.Unbalanced, compact.IsPinned,
		compact.NoWindow, compact.SummaryFailed, compact.NotSmaller, compact.Unfaithful, compact.OverBudget, compact.BreakerOpen, compact.NoProgress,
		compact.Floor, compact.CommitFailed, compact.PersistenceFailed, compact.Vetoed, compact.BelowThreshold, compact.NothingToCompact, compact.AutoOff}
	useful := map[compact.Code]bool{compact.Busy: true, compact.Changed: true, compact.SummaryFailed: true, compact.Unfaithful: true, compact.NotSmaller: true,
		compact.CommitFailed: true, compact.PersistenceFailed: true, compact.BreakerOpen: true}
	for _, c := range codes {
		assert.NotEmpty(t, c.Advice(), "%s", c)
		assert.Equal(t, useful[c], c.RetryUseful(), "%s", c)
		err := fmt.Errorf("while working: %w", &compact.Error{Code: c, Err: context.DeadlineExceeded})
		assert.ErrorIs(t, err, c)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, compact.Code("other"))
		assert.ErrorContains(t, err, string(c))
	}
	assert.Empty(t, compact.Code("of tomorrow").Advice())
	e := &compact.Error{Code: compact.Busy, Edge: "start", Detail: "why", Holder: &compact.Holder{Host: "h", PID: 7, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	assert.Equal(t, "compaction: busy at start: why: held by process 7 on h since 03:04:05", e.Error())
	assert.Equal(t, "run r", compact.Holder{Run: "r"}.String())
}

func TestSeqSet(t *testing.T) {
	for in, want := range map[string]string{`[[1,3],[7,7]]`: "", `[]`: "", `[[3,1]]`: "seq range", `[[-1,2]]`: "seq range", `[[0,999999999999]]`: "more than"} {
		var s compact.SeqSet
		err := json.Unmarshal([]byte(in), &s)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		out, err := json.Marshal(s)
		require.NoError(t, err)
		assert.Equal(t, in, string(out))
	}
}

func TestPointer(t *testing.T) {
	for _, p := range []compact.Pointer{{Start: 3, End: 88, Count: 42, Compaction: "c7f3"}, {Start: 5, End: 5, Count: 1}, {Start: 0, End: 9, Count: 10}} {
		assert.Equal(t, []compact.Pointer{p}, compact.ParsePointers("a "+p.String()+" b"))
	}
	assert.Equal(t, []compact.Pointer{{Start: 5, End: 5, Count: 1}}, compact.ParsePointers("head\n[12 bytes left out; history: 1 message, event 5]\ntail"))
	assert.Empty(t, compact.ParsePointers("[history: 2 messages, events 9-3] [history: 99999999999999999999 messages, events 1-2]"))
}
