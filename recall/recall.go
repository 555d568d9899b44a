// Package recall makes everything reachable that a session hides: it lists
// checkpoints with what they shadow, and lists, searches and reads back the
// shadowed messages, for a person or for an agent through tools.
//
//	for _, c := range recall.List(v) { ... }
//	page, err := recall.Read(v, recall.Checkpoint(c.ID), nil)
//
// Everything here reads views; nothing is written.
package recall

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// ErrNotFound is wrapped by the errors for a checkpoint or an event that is
// not there.
var ErrNotFound = errors.New("not found")

// Entry is one compaction of a session.
type Entry struct {
	// ID is the compaction id; for a pruned result that of the pruning, which
	// several results may share.
	ID string `json:"id"`
	// Seq is the message that stands, or stood, for what is hidden.
	Seq session.Seq `json:"seq"`
	// Live reports whether it is on the surface now. HiddenBy is the
	// replacement that hides it, [session.NoSeq] when none does: then it was
	// undone or rewound.
	Live     bool        `json:"live"`
	HiddenBy session.Seq `json:"hidden_by"`
	// Pruned marks a tool result that was shortened without a summary.
	Pruned     bool            `json:"pruned,omitempty"`
	Trigger    compact.Trigger `json:"trigger,omitempty"`
	Time       time.Time       `json:"time"`
	Summarizer string          `json:"summarizer,omitempty"`
	// Seqs are the hidden messages in surface order.
	Seqs compact.SeqSet `json:"seqs"`
	// Before and After are the tokens of what is hidden and of what stands for
	// it; zero where the log does not say it for this entry alone, which is so
	// when several results were pruned at once.
	Before int `json:"before"`
	After  int `json:"after"`
	// Text is the narrative.
	Text string `json:"text,omitempty"`
}

// List returns all compactions and prunings in the log, oldest first: live ones,
// superseded ones and undone ones. A compaction that was undone and put back is
// one entry, with the place that it has now.
func List(v session.View) []Entry {
	h := compact.HistoryAt(v)
	prunes := prunings(v)
	var out []Entry
	known := make(map[string]int) // checkpoints by id
	for _, seq := range v.Replacements() {
		ev, m, err := message(v, seq)
		if err != nil || !ours(m) {
			continue
		}
		run, kept, err := v.Run(seq)
		if err != nil {
			continue
		}
		e := Entry{ID: m.Source.Ref, Seq: seq, Time: ev.Time, HiddenBy: session.NoSeq, Pruned: m.Source.Form == compact.FormPruned}
		for _, q := range run {
			if !slices.Contains(kept, q) {
				e.Seqs = append(e.Seqs, q)
			}
		}
		if _, err := v.Position(seq); err == nil {
			e.Live = true
		} else {
			e.HiddenBy = v.ShadowedBy(seq)
		}
		if e.Pruned {
			p := prunes[seq]
			if e.ID = p.ID; len(p.Nodes) == 1 {
				e.Before, e.After = p.Before, p.After
			}
			out = append(out, e)
			continue
		}
		if a := h.Find(e.ID); a != nil {
			e.Trigger = a.Start.Trigger
			if sev, err := v.Event(a.Summary); err == nil {
				if p, err := compact.Decode(sev); err == nil {
					s := p.(compact.SummaryEvent)
					e.Summarizer, e.Before, e.After, e.Text = s.Summarizer, s.Before, s.After, s.Text
				}
			}
		}
		if i, ok := known[e.ID]; ok && e.ID != "" {
			if old := out[i]; !old.Live {
				e.Time = old.Time
				out[i] = e
			}
			continue
		}
		known[e.ID] = len(out)
		out = append(out, e)
	}
	return out
}

// prunings returns the pruning that each shortened result belongs to.
func prunings(v session.View) map[session.Seq]compact.PruneEvent {
	var cur compact.PruneEvent
	out := make(map[session.Seq]compact.PruneEvent)
	for ev := range v.Events(0) {
		switch ev.Type {
		case compact.TypePrune:
			if p, err := compact.Decode(ev); err == nil {
				cur = p.(compact.PruneEvent)
			}
		case session.TypeReplace:
			if run, _, err := v.Run(ev.Seq); err == nil && len(run) == 1 && slices.Contains(cur.Nodes, run[0]) {
				out[ev.Seq] = cur
			}
		}
	}
	return out
}

// ours reports whether compaction wrote the message in the place of others.
func ours(m *session.Message) bool {
	return compact.IsCheckpointSource(m.Source) || m.Source.Plugin == compact.Plugin && m.Source.Form == compact.FormPruned
}

// message returns an event with the message that it puts on the surface.
func message(v session.View, seq session.Seq) (*session.Event, *session.Message, error) {
	ev, err := v.Event(seq)
	if err != nil {
		return nil, nil, err
	}
	m, err := ev.Message()
	return ev, m, err
}

// Scope says which events are asked for: those of a compaction, a range of
// seqs, or all that are hidden.
type Scope struct {
	id       string
	from, to session.Seq
	set      byte
}

const (
	scopeID byte = iota + 1
	scopeRange
	scopeHidden
)

// Checkpoint is the scope of what one compaction or pruning hides, nested
// checkpoints unfolded, whether it is live, superseded or undone.
func Checkpoint(id string) Scope { return Scope{id: id, set: scopeID} }

// Events is the scope of the messages from one seq to another, both included,
// whether they are hidden or not. Checkpoints are among them.
func Events(from, to session.Seq) Scope { return Scope{from: from, to: to, set: scopeRange} }

// Hidden is the scope of every message that is not on the surface, whatever
// took it away: a checkpoint, also a superseded one, pruning, a rewind. Our own
// checkpoints are not in it; what they stand for is, and [List] has their text.
func Hidden() Scope { return Scope{set: scopeHidden} }

// seqs returns the messages of the scope in log order.
func (s Scope) seqs(v session.View) ([]session.Seq, error) {
	var out []session.Seq
	switch s.set {
	case scopeID:
		found := false
		prunes := prunings(v)
		for _, seq := range v.Replacements() {
			_, m, err := message(v, seq)
			if err != nil {
				return nil, err
			}
			checkpoint := compact.IsCheckpointSource(m.Source) && m.Source.Ref == s.id
			if s.id == "" || !checkpoint && !(m.Source.Form == compact.FormPruned && prunes[seq].ID == s.id) {
				continue
			}
			found = true
			if out, err = unfold(v, seq, out); err != nil {
				return nil, err
			}
		}
		if !found {
			return nil, fmt.Errorf("compaction %q: %w", s.id, ErrNotFound)
		}
		slices.Sort(out)
		return slices.Compact(out), nil
	case scopeHidden:
		visible := make([]bool, v.Next())
		for i := range v.Len() {
			visible[v.Node(i).Seq] = true
		}
		for ev := range v.Events(0) {
			if visible[ev.Seq] || ev.Type != session.TypeMessage && ev.Type != session.TypeReplace {
				continue
			}
			if ev.Type == session.TypeReplace {
				if m, err := ev.Message(); err != nil {
					return nil, err
				} else if ours(m) {
					continue
				}
			}
			out = append(out, ev.Seq)
		}
		return out, nil
	case scopeRange:
		if s.from < 0 || s.to < s.from || s.from >= v.Next() {
			return nil, fmt.Errorf("events %d to %d of a log of %d: %w", s.from, s.to, v.Next(), ErrNotFound)
		}
		for q := s.from; q <= min(s.to, v.Next()-1); q++ {
			ev, err := v.Event(q)
			if err != nil {
				return nil, err
			}
			if ev.Type == session.TypeMessage || ev.Type == session.TypeReplace {
				out = append(out, q)
			}
		}
		return out, nil
	}
	return nil, errors.New("empty scope")
}

// Recorded returns the seqs of the messages of a conversation in log order, as
// if nothing of it had been compacted: what a checkpoint or pruning stands for is
// in its place. Summaries that somebody else put in are messages like any other.
// What was rewound is not among them.
func Recorded(v session.View) ([]session.Seq, error) {
	var out []session.Seq
	for i := range v.Len() {
		q := v.Node(i).Seq
		ev, m, err := message(v, q)
		if err != nil {
			return nil, err
		}
		if ev.Type != session.TypeReplace || !ours(m) {
			out = append(out, q)
		}
		if ev.Type == session.TypeReplace {
			if out, err = unfold(v, q, out); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// unfold appends the messages behind a replacement. One that somebody else made
// is a message of its own, and what it replaced is one as well.
func unfold(v session.View, seq session.Seq, out []session.Seq) ([]session.Seq, error) {
	run, kept, err := v.Run(seq)
	if err != nil {
		return nil, err
	}
	for _, q := range run {
		if slices.Contains(kept, q) {
			continue
		}
		ev, err := v.Event(q)
		if err != nil {
			return nil, err
		}
		if ev.Type == session.TypeReplace {
			m, err := ev.Message()
			if err != nil {
				return nil, err
			}
			if !ours(m) {
				out = append(out, q)
			}
			if out, err = unfold(v, q, out); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, q)
	}
	return out, nil
}
