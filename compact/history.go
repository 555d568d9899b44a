package compact

import (
	"fmt"
	"slices"
	"sync"

	"github.com/agentcompact/agentcompact/session"
)

// Attempt is one run from compact/start to compact/end as the log tells it.
type Attempt struct {
	Start    StartEvent
	StartSeq session.Seq
	// Summary and Checkpoint are the events of a committed attempt, [session.NoSeq]
	// otherwise.
	Summary, Checkpoint session.Seq
	// Pruned are the compact/prune events under its lease.
	Pruned []session.Seq
	// End is nil while the attempt is open.
	End    *EndEvent
	EndSeq session.Seq
}

// Committed reports whether the attempt put a checkpoint on the surface.
func (a *Attempt) Committed() bool {
	return a != nil && a.End != nil && a.End.Code == "" && a.Checkpoint != session.NoSeq
}

// PruneOnly reports whether the attempt shortened tool results, and that was
// enough.
func (a *Attempt) PruneOnly() bool {
	return a != nil && a.End != nil && a.End.Code == "" && a.Checkpoint == session.NoSeq && len(a.Pruned) > 0
}

// History is what the log of a session says about its compactions. It is a
// value; its slices are shared and must not be modified.
type History struct {
	// Attempts are all of them, oldest first.
	Attempts []Attempt
	// Windows are the window corrections, oldest first.
	Windows []WindowEvent

	open     int // index of the newest attempt without an end, -1 when none
	failures int
	next     session.Seq
	err      error
}

// Open returns the attempt that has the lease: the newest one, as long as it has
// no end and no pruning by itself came after it. It may be stale: its process may
// be dead.
func (h *History) Open() *Attempt {
	if h.open < 0 {
		return nil
	}
	return &h.Attempts[h.open]
}

// Last returns the newest attempt that has ended, nil when there is none.
func (h *History) Last() *Attempt {
	for i := len(h.Attempts) - 1; i >= 0; i-- {
		if h.Attempts[i].End != nil {
			return &h.Attempts[i]
		}
	}
	return nil
}

// LastCommitted returns the newest committed attempt, nil when there is none.
func (h *History) LastCommitted() *Attempt {
	for i := len(h.Attempts) - 1; i >= 0; i-- {
		if h.Attempts[i].Committed() {
			return &h.Attempts[i]
		}
	}
	return nil
}

// Failures counts the automatic attempts that failed in a row up to now.
// Canceled and vetoed ones, and those for which pruning was enough, neither count
// nor end the row; a committed one ends it.
func (h *History) Failures() int { return h.failures }

// Find returns the attempt with the given compaction id, nil when there is
// none.
func (h *History) Find(id string) *Attempt {
	for i := len(h.Attempts) - 1; i >= 0; i-- {
		if h.Attempts[i].Start.ID == id {
			return &h.Attempts[i]
		}
	}
	return nil
}

// Err returns what was wrong with the order of compaction events in the log;
// nil when nothing was. A log with a wrong order is still usable.
func (h *History) Err() error { return h.err }

func newHistory() History { return History{open: -1} }

// extend reads the events of v that h has not seen. A copy of h that was made
// before stays what it is.
func (h *History) extend(v session.View) {
	for e := range v.Events(h.next) {
		h.next = e.Seq + 1
		if !KnownType(e.Type) {
			continue
		}
		if err := h.add(v, e); err != nil && h.err == nil {
			h.err = err
		}
	}
}

func (h *History) add(v session.View, e *session.Event) error {
	payload, err := Decode(e)
	if err != nil {
		return err
	}
	out := func(format string, args ...any) error {
		return fmt.Errorf("event %d (%s): %s", e.Seq, e.Type, fmt.Sprintf(format, args...))
	}
	switch p := payload.(type) {
	case WindowEvent:
		h.Windows = append(slices.Clip(h.Windows), p)
	case PruneEvent:
		if p.Attempt == "" {
			h.open = -1 // who held the lease was dead, and has lost it now
			return nil
		}
		if a := h.Open(); a == nil || a.Start.ID != p.Attempt {
			return out("no open attempt with id %q", p.Attempt)
		}
		h.own()
		a := h.Open()
		a.Pruned = append(slices.Clip(a.Pruned), e.Seq)
	case StartEvent:
		var bad error
		switch {
		case p.ID == "":
			bad = out("no id")
		case h.Find(p.ID) != nil:
			bad = out("id %s was used before", p.ID)
		}
		h.Attempts = append(slices.Clip(h.Attempts), Attempt{Start: p, StartSeq: e.Seq, Summary: session.NoSeq, Checkpoint: session.NoSeq, EndSeq: session.NoSeq})
		h.open = len(h.Attempts) - 1
		return bad
	case SummaryEvent:
		a := h.Open()
		if a == nil || a.Start.ID != p.ID {
			return out("no open attempt with id %q", p.ID)
		}
		if a.Summary != session.NoSeq {
			return out("second summary of attempt %s", p.ID)
		}
		if len(p.Seqs) == 0 {
			return out("no shadowed events")
		}
		next, err := v.Event(e.Seq + 1)
		if err != nil || next.Type != session.TypeReplace {
			return out("no replacement follows")
		}
		h.own()
		a = h.Open()
		a.Summary, a.Checkpoint = e.Seq, e.Seq+1
	case EndEvent:
		a := h.Open()
		if a == nil || a.Start.ID != p.ID {
			return out("no open attempt with id %q", p.ID)
		}
		var bad error
		if p.Code == "" && a.Summary == session.NoSeq && len(a.Pruned) == 0 {
			bad = out("committed without a summary")
		}
		h.own()
		a = h.Open()
		a.End, a.EndSeq = &p, e.Seq
		h.open = -1
		switch {
		case a.Committed():
			h.failures = 0
		case p.Code == "":
		case a.Start.Trigger.Auto() && p.Code != Cancelled && p.Code != Vetoed:
			h.failures++
		}
		return bad
	}
	return nil
}

// own copies the attempts before one of them is changed.
func (h *History) own() { h.Attempts = slices.Clone(h.Attempts) }

type historyKey struct{}

type historyCache struct {
	mu sync.Mutex
	h  History
}

// HistoryOf returns what the log of s says about its compactions, up to the
// newest view or a little further. It reads only what was appended since the
// last call.
func HistoryOf(s *session.Session) History {
	c := session.Derived(s, historyKey{}, func() *historyCache { return &historyCache{h: newHistory()} })
	v := s.View()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.h.next < v.Next() {
		c.h.extend(v)
	}
	return c.h
}

// HistoryAt returns what the log of a view says about its compactions. It
// costs O(n).
func HistoryAt(v session.View) History {
	h := newHistory()
	h.extend(v)
	return h
}
