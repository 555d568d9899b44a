package compact

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentcompact/agentcompact/session"
)

// CheckLog checks the events of this package in the log of a view: their
// brackets, their ids, what they say against what follows them, and their
// numbers. It returns all violations, each with its event; nil when there are
// none. It costs O(n).
//
// An attempt without an end is no violation, wherever it stands: its process
// may have died. It may be followed by another start, and nothing may come from
// it any more after that.
func CheckLog(v session.View) error {
	c := logCheck{v: v, ids: make(map[string]bool), runs: make(map[string]bool), done: make(map[string]bool), follows: make(map[session.Seq]bool)}
	for e := range v.Events(0) {
		c.event(e)
	}
	return errors.Join(c.found...)
}

type logCheck struct {
	v       session.View
	found   []error
	ids     map[string]bool // compaction ids that were used
	runs    map[string]bool // runs of holders
	done    map[string]bool // ids with a summary
	open    string          // id of the open attempt
	start   session.Seq     // its start, NoSeq when none is open
	began   bool
	summary session.Seq          // its summary, NoSeq when it has none
	pruned  session.Seq          // the last event of its last pruning, NoSeq when it has none
	follows map[session.Seq]bool // replacements that belong to an event before
}

func (c *logCheck) event(e *session.Event) {
	bad := func(format string, args ...any) {
		c.found = append(c.found, fmt.Errorf("event %d (%s): %s", e.Seq, e.Type, fmt.Sprintf(format, args...)))
	}
	if e.Type == session.TypeReplace {
		c.replacement(e, bad)
		return
	}
	if !KnownType(e.Type) {
		return
	}
	payload, err := Decode(e)
	if err != nil {
		c.found = append(c.found, err)
		return
	}
	switch p := payload.(type) {
	case StartEvent:
		c.fresh(p.ID, bad)
		if run := p.Holder.Run; run != "" {
			if c.runs[run] {
				bad("run %s started before", run)
			}
			c.runs[run] = true
		}
		if p.Tokens < 0 {
			bad("negative count of tokens")
		}
		if p.Span.Start < 0 || p.Span.End < 0 || p.Span.Start >= e.Seq || p.Span.End >= e.Seq {
			bad("span %d to %d names no earlier events", p.Span.Start, p.Span.End)
		}
		c.began, c.open, c.start, c.summary, c.pruned = true, p.ID, e.Seq, session.NoSeq, session.NoSeq
	case SummaryEvent:
		c.summaryEvent(e, p, bad)
	case EndEvent:
		if !c.began || c.open != p.ID {
			bad("no open attempt with id %q", p.ID)
			return
		}
		switch {
		case p.Code == "" && c.summary == session.NoSeq && c.pruned == session.NoSeq:
			bad("attempt %s is committed without a summary", p.ID)
		case p.Code == "" && c.summary == session.NoSeq:
			if e.Seq != c.pruned+1 {
				bad("the last pruning and the end of attempt %s do not stand in a row", p.ID)
			}
		case p.Code == "" && e.Seq != c.summary+2:
			bad("summary, replacement and end of attempt %s do not stand in a row", p.ID)
		case p.Code != "" && c.summary != session.NoSeq:
			bad("attempt %s has a summary and ends with %q", p.ID, string(p.Code))
		}
		if p.Before < 0 || p.After < 0 {
			bad("negative count of tokens")
		}
		for _, call := range p.Calls {
			if call.Prompt < 0 || call.Completion < 0 || call.CacheRead < 0 {
				bad("negative usage of a call")
			}
		}
		c.began = false
	case PruneEvent:
		c.prune(e, p, bad)
	case WindowEvent:
		if p.Window <= 0 {
			bad("window of %d tokens", p.Window)
		}
	}
}

// fresh takes note of an id that must be new.
func (c *logCheck) fresh(id string, bad func(string, ...any)) {
	switch {
	case id == "":
		bad("no id")
	case c.ids[id]:
		bad("id %s was used before", id)
	}
	c.ids[id] = true
}

func (c *logCheck) summaryEvent(e *session.Event, p SummaryEvent, bad func(string, ...any)) {
	switch {
	case !c.began || c.open != p.ID:
		bad("no open attempt with id %q", p.ID)
		return
	case c.summary != session.NoSeq:
		bad("second summary of attempt %s", p.ID)
		return
	}
	c.summary = e.Seq
	c.done[p.ID] = true
	if p.Before < 0 || p.After < 0 {
		bad("negative count of tokens")
	} else if p.After >= p.Before {
		bad("%d tokens stand for %d", p.After, p.Before)
	}
	seen := make(map[session.Seq]bool, len(p.Seqs))
	for _, q := range p.Seqs {
		if q >= e.Seq || seen[q] {
			bad("event %d cannot be shadowed", q)
		}
		seen[q] = true
	}
	if len(p.Seqs) == 0 {
		bad("nothing is shadowed")
	}
	r, ok := c.replace(e.Seq + 1)
	if !ok {
		bad("no replacement follows")
		return
	}
	c.follows[e.Seq+1] = true
	if r.Message.Source != CheckpointSource(p.ID) {
		bad("the replacement is not the checkpoint of %s", p.ID)
	}
	if r.Start != p.Span.Start || r.End != p.Span.End {
		bad("span %d to %d, but %d to %d is replaced", p.Span.Start, p.Span.End, r.Start, r.End)
	}
	run, kept, err := c.v.Run(e.Seq + 1)
	if err != nil {
		bad("%v", err)
		return
	}
	stays := make(map[session.Seq]bool, len(kept))
	for _, q := range kept {
		stays[q] = true
	}
	gone := slices.DeleteFunc(slices.Clone(run), func(q session.Seq) bool { return stays[q] })
	if !slices.Equal(gone, []session.Seq(p.Seqs)) {
		bad("the shadowed events are %v, but %v are replaced", p.Seqs, gone)
	}
}

func (c *logCheck) prune(e *session.Event, p PruneEvent, bad func(string, ...any)) {
	c.fresh(p.ID, bad)
	if p.Before < 0 || p.After < 0 {
		bad("negative count of tokens")
	} else if p.After >= p.Before {
		bad("%d tokens stand for %d", p.After, p.Before)
	}
	if len(p.Nodes) == 0 {
		bad("nothing is shortened")
	}
	for i, q := range p.Nodes {
		at := e.Seq + 1 + session.Seq(i)
		r, ok := c.replace(at)
		if !ok || r.Start != q || r.End != q || r.Message.Source.Plugin != Plugin || r.Message.Source.Form != FormPruned {
			bad("event %d is not the short form of event %d", at, q)
			return
		}
		c.follows[at] = true
	}
	switch {
	case p.Attempt == "":
		// Whoever held the lease is dead: nothing may come from it any more.
		c.began = false
	case !c.began || c.open != p.Attempt:
		bad("no open attempt with id %q", p.Attempt)
	case c.summary != session.NoSeq:
		bad("attempt %s prunes after its summary", p.Attempt)
	default:
		c.pruned = e.Seq + session.Seq(len(p.Nodes))
	}
}

// replacement checks that no replacement claims to be ours on its own. An
// earlier checkpoint or short form may be put back.
func (c *logCheck) replacement(e *session.Event, bad func(string, ...any)) {
	r, ok := c.replace(e.Seq)
	if !ok {
		bad("its payload cannot be read")
		return
	}
	src := r.Message.Source
	if c.follows[e.Seq] || src.Plugin != Plugin {
		return
	}
	if IsCheckpointSource(src) && !c.done[src.Ref] {
		bad("a checkpoint of compaction %q, of which there is no summary", src.Ref)
	}
}

func (c *logCheck) replace(seq session.Seq) (*session.Replace, bool) {
	e, err := c.v.Event(seq)
	if err != nil || e.Type != session.TypeReplace {
		return nil, false
	}
	body, err := e.Body()
	if err != nil {
		return nil, false
	}
	r, ok := body.(*session.Replace)
	return r, ok
}
