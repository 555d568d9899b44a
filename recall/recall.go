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
	"strconv"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// ErrNotFound is wrapped by the errors for a checkpoint or an event that is
// not there.
var ErrNotFound = errors.New("not found")

// Entry is one compaction of a session.
type Entry struct {
	// ID is the compaction id; for a pruned result that of the pruning.
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
	// it.
	Before int `json:"before"`
	After  int `json:"after"`
	// Text is the narrative.
	Text string `json:"text,omitempty"`
}

// List returns all compactions and prunings in the log, oldest first, the live
// and the superseded ones.
func List(v session.View) []Entry {
	h := compact.HistoryAt(v)
	byCheckpoint := make(map[session.Seq]*compact.Attempt)
	for i := range h.Attempts {
		if a := &h.Attempts[i]; a.Checkpoint != session.NoSeq {
			byCheckpoint[a.Checkpoint] = a
		}
	}
	var out []Entry
	for _, seq := range v.Replacements() {
		run, kept, err := v.Run(seq)
		if err != nil {
			continue
		}
		ev, err := v.Event(seq)
		if err != nil {
			continue
		}
		m, err := ev.Message()
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
		if a := byCheckpoint[seq]; a != nil {
			e.Trigger = a.Start.Trigger
			if sev, err := v.Event(a.Summary); err == nil {
				if p, err := compact.Decode(sev); err == nil {
					s := p.(compact.SummaryEvent)
					e.Summarizer, e.Before, e.After, e.Text = s.Summarizer, s.Before, s.After, s.Text
				}
			}
		}
		out = append(out, e)
	}
	return out
}

// Scope says which events are asked for: those of a checkpoint, a range of
// seqs, or all that are hidden.
type Scope struct {
	id       string
	from, to session.Seq
	hidden   bool
}

// Checkpoint is the scope of what one compaction hides, nested checkpoints
// unfolded.
func Checkpoint(id string) Scope { return Scope{id: id} }

// Events is the scope of the events from one seq to another, both included,
// whether they are hidden or not.
func Events(from, to session.Seq) Scope { return Scope{from: from, to: to} }

// Hidden is the scope of every message that is not on the surface.
func Hidden() Scope { return Scope{hidden: true} }

// seqs returns the messages of the scope in log order, our own checkpoints and
// shortened results not included: what they stand for is.
func (s Scope) seqs(v session.View) ([]session.Seq, error) {
	var out []session.Seq
	add := func(q session.Seq) error {
		ev, err := v.Event(q)
		if err != nil {
			return err
		}
		if ev.Type != session.TypeMessage {
			return nil
		}
		out = append(out, q)
		return nil
	}
	switch {
	case s.id != "":
		found := false
		for _, seq := range v.Replacements() {
			ev, err := v.Event(seq)
			if err != nil {
				return nil, err
			}
			m, err := ev.Message()
			if err != nil {
				return nil, err
			}
			if m.Source.Ref != s.id {
				continue
			}
			found = true
			all, err := unfold(v, seq)
			if err != nil {
				return nil, err
			}
			out = append(out, all...)
			break
		}
		if !found {
			return nil, fmt.Errorf("compaction %q: %w", s.id, ErrNotFound)
		}
		slices.Sort(out)
		return slices.Compact(out), nil
	case s.hidden:
		for ev := range v.Events(0) {
			if ev.Type != session.TypeMessage {
				continue
			}
			if _, err := v.Position(ev.Seq); err != nil {
				out = append(out, ev.Seq)
			}
		}
		return out, nil
	}
	if s.from < 0 || s.to < s.from || s.from >= v.Next() {
		return nil, fmt.Errorf("events %d to %d of a log of %d: %w", s.from, s.to, v.Next(), ErrNotFound)
	}
	for q := s.from; q <= min(s.to, v.Next()-1); q++ {
		if err := add(q); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// unfold returns the original messages behind a replacement.
func unfold(v session.View, seq session.Seq) ([]session.Seq, error) {
	run, kept, err := v.Run(seq)
	if err != nil {
		return nil, err
	}
	var out []session.Seq
	for _, q := range run {
		if slices.Contains(kept, q) {
			continue
		}
		ev, err := v.Event(q)
		if err != nil {
			return nil, err
		}
		if ev.Type == session.TypeReplace {
			inner, err := unfold(v, q)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
			continue
		}
		out = append(out, q)
	}
	return out, nil
}

// ReadOptions are the optional settings of [Read].
type ReadOptions struct {
	// Cursor continues where a page ended; empty starts at the beginning.
	Cursor string
	// MaxTokens bounds the page, counted by Count; default 4000. At least a
	// part of one message is returned.
	MaxTokens int
	// Count prices a text; nil means a token for four bytes.
	Count func(string) int
}

// Page is a part of a transcript.
type Page struct {
	// Text is the transcript: each message under a line with its seq and role.
	Text string `json:"text"`
	// From and To are the first and last event on the page.
	From session.Seq `json:"from"`
	To   session.Seq `json:"to"`
	// Messages counts those on the page, Total those of the scope.
	Messages int `json:"messages"`
	Total    int `json:"total"`
	// Next is the cursor of the next page; empty on the last one.
	Next string `json:"next,omitempty"`
}

// Read returns the messages of a scope as a transcript, page by page.
func Read(v session.View, scope Scope, opts *ReadOptions) (*Page, error) {
	var o ReadOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = 4000
	}
	if o.Count == nil {
		o.Count = func(s string) int { return (len(s) + 3) / 4 }
	}
	seqs, err := scope.seqs(v)
	if err != nil {
		return nil, err
	}
	at, off, err := parseCursor(o.Cursor)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(seqs, func(q session.Seq) bool { return q >= at })
	p := &Page{From: session.NoSeq, To: session.NoSeq, Total: len(seqs)}
	if i < 0 {
		return p, nil
	}
	var b strings.Builder
	left := o.MaxTokens
	for ; i < len(seqs); i++ {
		text, err := Transcript(v, seqs[i])
		if err != nil {
			return nil, err
		}
		if seqs[i] == at && off > 0 {
			text = "(continued)\n" + text[min(off, len(text)):]
		} else {
			off = 0
		}
		cost := o.Count(text)
		if cost > left {
			if b.Len() > 0 {
				p.Next = cursor(seqs[i], off)
				break
			}
			cut := fitPrefix(text, left, o.Count)
			b.WriteString(text[:cut])
			p.From, p.To, p.Messages = seqs[i], seqs[i], 1
			if off > 0 {
				cut -= len("(continued)\n")
			}
			p.Next = cursor(seqs[i], off+cut)
			break
		}
		b.WriteString(text)
		left -= cost
		if p.From == session.NoSeq {
			p.From = seqs[i]
		}
		p.To = seqs[i]
		p.Messages++
	}
	p.Text = b.String()
	return p, nil
}

// fitPrefix returns how many bytes of a text, at a line or a character, have at
// most n tokens; at least one character.
func fitPrefix(text string, n int, count func(string) int) int {
	lo, hi := 0, len(text)
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if count(text[:mid]) <= n {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if i := strings.LastIndexByte(text[:lo], '\n'); i > lo/2 {
		return i + 1
	}
	for lo > 0 && lo < len(text) && text[lo]&0xc0 == 0x80 {
		lo--
	}
	if lo == 0 {
		for lo = 1; lo < len(text) && text[lo]&0xc0 == 0x80; lo++ {
		}
	}
	return lo
}

func cursor(seq session.Seq, off int) string {
	return strconv.FormatInt(int64(seq), 10) + ":" + strconv.Itoa(off)
}

func parseCursor(c string) (session.Seq, int, error) {
	if c == "" {
		return 0, 0, nil
	}
	a, b, ok := strings.Cut(c, ":")
	seq, err1 := strconv.ParseInt(a, 10, 64)
	off, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || seq < 0 || off < 0 {
		return 0, 0, fmt.Errorf("cursor %q: want one that a page returned", c)
	}
	return session.Seq(seq), off, nil
}

// Transcript returns one message as text for reading: a line with seq and role,
// then its text, calls and results. Pictures and files are named, reasoning is
// left out.
func Transcript(v session.View, seq session.Seq) (string, error) {
	ev, err := v.Event(seq)
	if err != nil {
		return "", err
	}
	m, err := ev.Message()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s\n", seq, m.Role)
	writeParts(&b, m.Parts)
	return b.String(), nil
}

func writeParts(b *strings.Builder, parts []session.Part) {
	line := func(s string) {
		if s != "" {
			b.WriteString(s)
			b.WriteByte('\n')
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case session.Text:
			line(p.Text)
		case session.ToolCall:
			line("call " + p.Name + " " + p.Arguments)
		case session.ToolResult:
			if p.IsError {
				line("error result")
			}
			writeParts(b, p.Parts)
		case session.Image:
			line("[image " + p.MediaType + "]")
		case session.File:
			line("[file " + p.Name + "]")
		case session.Opaque:
			line("[" + p.Kind + "]")
		}
	}
}
