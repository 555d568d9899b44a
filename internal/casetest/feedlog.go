package casetest

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// loadLog writes the records of the case as a stored session and opens it.
func (w *world) loadLog() error {
	torn := int64(-1)
	for i := range w.c.Given.Log {
		r := &w.c.Given.Log[i]
		var before int64
		if r.Torn {
			var err error
			if before, err = w.logSize(); err != nil {
				return err
			}
		}
		if err := w.record(r); err != nil {
			return fmt.Errorf("log: record %d (%s): %w", r.Seq, r.Type, err)
		}
		if r.Torn {
			after, err := w.logSize()
			if err != nil {
				return err
			}
			torn = before + (after-before)/2
			w.records = w.records[:len(w.records)-1]
		}
	}
	if err := w.looseUsage(); err != nil {
		return err
	}
	if err := w.sess.Close(); err != nil {
		return err
	}
	if torn >= 0 {
		if err := os.Truncate(w.path, torn); err != nil {
			return err
		}
	}
	return w.open()
}

// record writes one record.
func (w *world) record(r *logRecord) error {
	switch r.Type {
	case "message":
		if i, ok := r.index(); ok {
			err := w.append(i)
			if seq, shown := w.seqs[i]; shown {
				w.folds[r.Seq] = seq
			}
			return err
		}
		m, err := parseMessage(r.Msg)
		if err != nil {
			return err
		}
		b := w.batch()
		w.folds[r.Seq] = b.message(&m)
		w.records = append(w.records, b.next-1)
		return b.commit()
	case "compaction", "compaction_begin":
		return w.fold(r)
	case "reset":
		b := w.batch()
		w.records = append(w.records, b.add(session.Rewind{To: session.NoSeq}))
		return b.commit()
	}
	b := w.batch()
	w.records = append(w.records, b.add(session.Raw{Type: session.Type("unknown/" + r.Type), Data: r.raw, Ignorable: true}))
	return b.commit()
}

// fold writes a compaction, or the beginning of one.
func (w *world) fold(r *logRecord) error {
	v := w.sess.View()
	first, last := v.Len(), -1
	gone := map[session.Seq]bool{}
	for _, f := range r.Folds {
		seq, ok := w.folds[f]
		if !ok {
			return fmt.Errorf("record %d put nothing on the surface that could be folded", f)
		}
		p, err := v.Position(seq)
		if err != nil {
			return err
		}
		gone[seq] = true
		first, last = min(first, p), max(last, p)
	}
	var seqs, keep []session.Seq
	for p := first; p <= last; p++ {
		if seq := v.Node(p).Seq; gone[seq] {
			seqs = append(seqs, seq)
		} else {
			keep = append(keep, seq)
		}
	}
	start, end := v.Node(first).Seq, v.Node(last).Seq
	b := w.batch()
	if r.Type == "compaction_begin" {
		id := fmt.Sprintf("earlier-%d", len(w.loaded)+1)
		w.loaded[id] = true
		b.begin(id, compact.Span{Start: start, End: end})
	} else {
		text, err := expand(r.Summary)
		if err != nil {
			return err
		}
		w.folds[r.Seq], _ = b.checkpoint(text, seqs, keep, start, end)
	}
	w.records = append(w.records, b.next-1)
	return b.commit()
}

// logSize is the size of the stored log; 0 for a memory store.
func (w *world) logSize() (int64, error) {
	if w.path == "" {
		return 0, nil
	}
	st, err := os.Stat(w.path)
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// copyLog copies the stored log, to be read beside the session.
func (w *world) copyLog() (string, error) {
	to := w.newPath()
	in, err := os.Open(w.path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return to, err
}

// stopsRunning says that a call has its result now.
func (w *world) stopsRunning(id string) { delete(w.running, id) }

// committed returns the attempts that put a checkpoint on the surface, those
// that the case brought along not among them.
func (w *world) attempts() []compact.Attempt {
	h := compact.HistoryAt(w.sess.View())
	return slices.DeleteFunc(slices.Clone(h.Attempts), func(a compact.Attempt) bool { return w.loaded[a.Start.ID] })
}

func (w *world) committed() []compact.Attempt {
	return slices.DeleteFunc(w.attempts(), func(a compact.Attempt) bool { return !a.Committed() })
}
