package streamproc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// SessionItem is a message on the surface of a session.
type SessionItem struct {
	// Seq is its event; [session.NoSeq] for a checkpoint that is to be committed.
	Seq session.Seq
	// Message is shared and must not be modified.
	Message *session.Message
	// Running reports that a call of it still runs.
	Running bool
}

// SessionAdapter adapts the items of [Session].
func SessionAdapter() Adapter[SessionItem] {
	return Adapter[SessionItem]{
		To: func(it SessionItem) (session.Message, error) { return *it.Message, nil },
		From: func(m session.Message) (SessionItem, error) {
			return SessionItem{Seq: session.NoSeq, Message: &m}, nil
		},
		Seq:     func(it SessionItem) session.Seq { return it.Seq },
		Running: func(it SessionItem) bool { return it.Running },
	}
}

// Session is a [Processor] over a session, with all optional abilities. The
// newest prompt and pinned units are in none of the views and stay. A commit is
// one store write that records an attempt of package compact and replaces the
// messages by a checkpoint with a typed source, so that it can be listed, read
// back and undone like one of the engine's. While another compaction of the
// session is under way it is a conflict. It is safe for concurrent use.
type Session struct {
	s       *session.Session
	now     func() time.Time
	adapter Adapter[SessionItem]
}

// NewSession returns a processor over s. now is the clock; nil means time.Now.
func NewSession(s *session.Session, now func() time.Time) *Session {
	if now == nil {
		now = time.Now
	}
	return &Session{s: s, now: now, adapter: SessionAdapter()}
}

// AccumulatedSteps implements [Processor].
func (p *Session) AccumulatedSteps(ctx context.Context) ([]SessionItem, error) {
	s, err := p.Snapshot(ctx)
	return s.Steps, err
}

// History implements [HistoryViewer].
func (p *Session) History(ctx context.Context) ([]SessionItem, error) {
	s, err := p.Snapshot(ctx)
	return s.History, err
}

// Snapshot implements [Snapshotter]. The revision is the length of the log.
func (p *Session) Snapshot(ctx context.Context) (Snapshot[SessionItem], error) {
	if err := context.Cause(ctx); err != nil {
		return Snapshot[SessionItem]{}, err
	}
	return p.snapshot(p.s.View())
}

func (p *Session) snapshot(v session.View) (Snapshot[SessionItem], error) {
	out := Snapshot[SessionItem]{Revision: uint64(v.Next())}
	x := toolpairing.Of(v)
	steps := v.Len()
	human := func(i int) bool {
		n := v.Node(i)
		return n.Role() == session.RoleUser && n.Source().Kind == session.SourceUser
	}
	for steps > 0 && !human(steps-1) {
		steps--
	}
	prompt := steps // the newest prompt is the run up to steps
	for prompt > 0 && human(prompt-1) {
		prompt--
	}
	for i := range v.Len() {
		if i >= prompt && i < steps || v.Pinned(v.Node(i).Seq) {
			continue
		}
		m, err := v.Message(i)
		if err != nil {
			return out, fmt.Errorf("event %d: %w", v.Node(i).Seq, err)
		}
		it := SessionItem{Seq: v.Node(i).Seq, Message: m}
		for k := range v.Node(i).Calls() {
			it.Running = it.Running || x.Running(i, k)
		}
		if i < prompt {
			out.History = append(out.History, it)
		} else {
			out.Steps = append(out.Steps, it)
		}
	}
	return out, nil
}

// ReplaceWithCompaction implements [Processor].
func (p *Session) ReplaceWithCompaction(ctx context.Context, t target.Target, n int, item SessionItem) error {
	return p.commit(ctx, Commit[SessionItem]{Target: t, N: n, Item: item}, false)
}

// Commit implements [Snapshotter].
func (p *Session) Commit(ctx context.Context, c Commit[SessionItem]) error {
	return p.commit(ctx, c, true)
}

func (p *Session) commit(ctx context.Context, c Commit[SessionItem], compare bool) error {
	switch c.Target {
	case target.Steps, target.History, target.FullReplace:
	default:
		return ErrUnsupported
	}
	_, err := p.s.Update(ctx, func(v session.View) ([]session.Body, error) {
		snap, err := p.snapshot(v)
		if err != nil {
			return nil, err
		}
		view := snap.view(c.Target)
		if compare && c.Revision != snap.Revision {
			if err := stillThere(p.adapter, view, c); err != nil {
				return nil, err
			}
		}
		if c.N < 1 || c.N > len(view) {
			return nil, ErrInvalidSplit{Requested: c.N, Available: len(view)}
		}
		h := compact.HistoryOf(p.s)
		if open := h.Open(); open != nil && open.Start.Holder.Until.After(p.now()) {
			return nil, ErrConflict{c.Target, "another compaction of the session is under way"}
		}
		return p.bodies(v, view[:c.N], c)
	})
	return err
}

// bodies are the events of a commit.
func (p *Session) bodies(v session.View, gone []SessionItem, c Commit[SessionItem]) ([]session.Body, error) {
	msg := c.Item.Message.Clone()
	rec := c.Record
	if rec.ID == "" {
		if rec.ID = msg.Source.Ref; rec.ID == "" || !compact.IsCheckpointSource(msg.Source) {
			rec.ID = randomID()
		}
		rec.Narrative = msg.Text()
	}
	msg.Source = compact.CheckpointSource(rec.ID)
	seqs := make([]session.Seq, len(gone))
	going := make(map[session.Seq]bool, len(gone))
	from, to := v.Len(), 0
	before := 0
	for i, it := range gone {
		at, err := v.Position(it.Seq)
		if err != nil {
			return nil, err
		}
		seqs[i], going[it.Seq] = it.Seq, true
		from, to = min(from, at), max(to, at)
		before += int(v.Node(at).Tokens)
	}
	var keep []session.Seq
	for i := from; i <= to; i++ {
		if q := v.Node(i).Seq; !going[q] {
			keep = append(keep, q)
		}
	}
	ledger, err := json.Marshal(rec.Ledger)
	if err != nil {
		return nil, fmt.Errorf("encode ledger: %w", err)
	}
	span := compact.Span{Start: v.Node(from).Seq, End: v.Node(to).Seq}
	total := v.EnvelopeTokens() + v.SurfaceTokens()
	pricer, now := p.s.Pricer(), p.now()
	after := pricer.Price(msg)
	return []session.Body{
		compact.Event(compact.StartEvent{ID: rec.ID, Trigger: compact.Now, Target: c.Target.String(), Span: span, Tokens: total,
			Pricer: pricer.ID(), Holder: compact.Holder{Run: rec.ID, Since: now, Until: now}}),
		compact.Event(compact.SummaryEvent{ID: rec.ID, Summarizer: rec.Summarizer, Text: rec.Narrative, Ledger: ledger, Span: span,
			Seqs: seqs, Before: before, After: after, Pricer: pricer.ID(), Trigger: compact.Now}),
		session.Replace{Start: span.Start, End: span.End, Keep: keep, Message: *msg},
		compact.Event(compact.EndEvent{ID: rec.ID, Before: total, After: total - before + after, Calls: calls(rec.Calls)}),
	}, nil
}

func calls(in []summarize.Call) []compact.Call {
	out := make([]compact.Call, len(in))
	for i, c := range in {
		out[i] = compact.Call{Provider: c.Provider, Model: c.Model, Purpose: c.Purpose, Prompt: c.Prompt, Completion: c.Completion,
			CacheRead: c.CacheRead, Outcome: c.Outcome, Duration: c.Duration}
	}
	return out
}

// Record implements [Keeper]: it reads the log.
func (p *Session) Record(it SessionItem) (Record, bool) {
	if !compact.IsCheckpointSource(it.Message.Source) {
		return Record{}, false
	}
	r := Record{ID: it.Message.Source.Ref, Narrative: it.Message.Text()}
	h := compact.HistoryOf(p.s)
	a := h.Find(r.ID)
	if a == nil || a.Summary == session.NoSeq {
		return r, true
	}
	ev, err := p.s.View().Event(a.Summary)
	if err != nil {
		return r, true
	}
	payload, err := compact.Decode(ev)
	sum, ok := payload.(compact.SummaryEvent)
	if err != nil || !ok {
		return r, true
	}
	r.Narrative, r.Summarizer, r.Before, r.After = sum.Text, sum.Summarizer, sum.Before, sum.After
	if len(sum.Seqs) > 0 {
		r.Start, r.End, r.Count = slices.Min(sum.Seqs), slices.Max(sum.Seqs), len(sum.Seqs)
	}
	var l summarize.Ledger
	if len(sum.Ledger) > 0 && json.Unmarshal(sum.Ledger, &l) == nil {
		r.Ledger = &l
	}
	return r, true
}
