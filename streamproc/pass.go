package streamproc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

// work is one call of an Apply function.
type work[T any] struct {
	p Processor[T]
	a Adapter[T]
	s summarize.Summarizer
	o *Options
}

// read takes a snapshot; without the ability it is made from the views that the
// target needs.
func (w *work[T]) read(ctx context.Context, t target.Target) (Snapshot[T], error) {
	bad := func(err error) (Snapshot[T], error) {
		e := &Error{Kind: ViewFailed, Target: t, Err: err}
		if k := kindOf(err); k == Unsupported {
			e.Kind, e.Deterministic = k, true
		}
		return Snapshot[T]{}, ended(ctx, e)
	}
	if err := cancelled(ctx, t); err != nil {
		return Snapshot[T]{}, err
	}
	var snap Snapshot[T]
	var err error
	if s, ok := w.p.(Snapshotter[T]); ok {
		if snap, err = s.Snapshot(ctx); err != nil {
			return bad(err)
		}
		return snap, nil
	}
	if all, ok := w.p.(AllViewer[T]); ok && t == target.FullReplace && w.o.InputBudget == 0 {
		if snap.Steps, err = all.All(ctx); err != nil {
			return bad(err)
		}
		return snap, nil // nothing asks where the history ends
	}
	// For the steps the history only says at which number they begin.
	if snap.History, err = History(ctx, w.p); err != nil && t != target.Steps {
		return bad(err)
	}
	if t != target.History {
		if snap.Steps, err = w.p.AccumulatedSteps(ctx); err != nil {
			return bad(err)
		}
	}
	return snap, nil
}

// record finds what is known of a checkpoint.
func (w *work[T]) record(it T, m *session.Message) (Record, bool) {
	if k, ok := w.p.(Keeper[T]); ok {
		if r, ok := k.Record(it); ok {
			return r, true
		}
	}
	return w.o.Memory.Find(m.Text())
}

func (w *work[T]) entries(items []T, first session.Seq) ([]entry, error) {
	list, err := w.a.entries(items, first, w.o.price, w.record)
	if err != nil {
		return nil, &Error{Kind: ViewFailed, Deterministic: true, Err: err}
	}
	return list, nil
}

// pass makes one pass over one target.
func (w *work[T]) pass(ctx context.Context, t target.Target) (*Pass, error) {
	began := w.o.Now()
	snap, err := w.read(ctx, t)
	if err != nil {
		return nil, err
	}
	view := snap.view(t)
	if len(view) == 0 {
		return nil, fail(NothingToCompact, t, "the view is empty")
	}
	first := session.Seq(0)
	if t == target.Steps && w.a.Seq == nil {
		first = w.a.behind(snap.History, w.record)
	}
	list, err := w.entries(view, first)
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			own.Target = t
		}
		return nil, err
	}
	items := planItems(list)
	n, before, ok := choose(items, t, w.o)
	if !ok {
		return nil, fail(NothingToCompact, t, "no whole units with at least %d new tokens stand before what is kept", w.o.Policy.MinTokens)
	}
	digest, err := w.a.Digest(view[:n]) // now: items may be pointers
	if err != nil {
		return nil, &Error{Kind: ViewFailed, Target: t, Err: err}
	}
	pass := &Pass{ID: w.o.NewID(), Version: w.o.Policy.Version, Target: t, Items: n, View: len(view), Before: before}
	req, all, ferr := w.request(pass, list, items, n, len(snap.History))
	if ferr != nil {
		return nil, ferr
	}
	v := w.watch(ctx, pass, req, digest, began)
	err = w.finish(ctx, v, snap, pass, digest, req, all, list[n:])
	v.ended(ctx, pass, err)
	if err != nil {
		return nil, err
	}
	w.o.Memory.Add(pass.Text, pass.Record)
	pass.Elapsed = w.o.Now().Sub(began)
	return pass, nil
}

// finish has the checkpoint written and hands it to the host.
func (w *work[T]) finish(ctx context.Context, v *witness, snap Snapshot[T], pass *Pass, digest string, req *summarize.Request, all []summarize.Item, rest []entry) error {
	msg, err := w.write(ctx, v, pass, req, all, rest)
	if err != nil {
		return err
	}
	item, err := w.a.From(*msg)
	if err != nil {
		return &Error{Kind: ApplyFailed, Target: pass.Target, Deterministic: true, Detail: "the adapter made no item of the checkpoint", Err: err, Calls: pass.Record.Calls}
	}
	return w.commit(ctx, snap, pass, digest, item)
}

// request makes what the summarizer is asked, fitted into its input, and all
// replaced messages as the ledger should see them. No secrets are in either.
func (w *work[T]) request(pass *Pass, list []entry, items []plan.Item, n, history int) (*summarize.Request, []summarize.Item, *Error) {
	o := w.o
	all := make([]summarize.Item, n)
	read := make([]summarize.Item, n)
	var prior *summarize.Ledger
	for i := range all {
		e := &list[i]
		m, hits := o.Redactor.Message(e.msg)
		pass.Redacted += hits
		it := summarize.Item{Seq: e.seq, Message: m, Tokens: e.tokens, Checkpoint: e.ckpt}
		if e.ckpt {
			it.Narrative = e.rec.Narrative
			if it.Narrative == "" {
				it.Narrative = m.Text()
			}
			it.Narrative, _ = o.Redactor.Redact(it.Narrative)
			prior = summarize.Merge(prior, e.rec.Ledger)
		}
		read[i] = it
		it.Message = quotable(m, o.queryChars(pass.Target))
		all[i] = it
	}
	if o.InputBudget > 0 {
		var err *Error
		if read, err = w.fit(pass, read, list[:n], items, history); err != nil {
			return nil, nil, err
		}
	}
	return &summarize.Request{
		ID: pass.ID, Provider: o.Provider, Model: o.Model, Items: read, Prior: prior, Target: pass.Target,
		Instructions: o.Instructions, Language: o.Language, Count: o.counter(), Progress: o.Progress,
		MaxTokens: max(o.budget(pass.Before)/2, 1),
	}, all, nil
}

// fit brings the items within the input budget.
func (w *work[T]) fit(pass *Pass, read []summarize.Item, list []entry, items []plan.Item, history int) ([]summarize.Item, *Error) {
	in := make([]FitItem, len(list))
	for i := range list {
		m := list[i].msg
		in[i] = FitItem{Tokens: list[i].tokens, Joined: i > 0 && !items[i].Cut, Result: m.Role == session.RoleTool,
			Human: m.Role == session.RoleUser && m.Source.Kind == session.SourceUser}
	}
	switch pass.Target {
	case target.Steps:
		history = 0
	case target.History:
		history = len(in)
	}
	p := Fit(in, history, w.o.InputBudget)
	if p.Rung == Verbatim {
		return read, nil
	}
	out := make([]summarize.Item, 0, len(p.Keep))
	keep, allowed := p.Keep[:0], p.Allowed[:0]
	p.Tokens = 0
	for k, i := range p.Keep {
		it := read[i]
		if p.Allowed[k] < it.Tokens {
			if it.Message = clipMessage(it.Message, p.Allowed[k], w.o.price); it.Message == nil {
				continue
			}
			it.Tokens = w.o.price(it.Message)
		}
		keep, allowed = append(keep, i), append(allowed, it.Tokens)
		p.Tokens += it.Tokens
		out = append(out, it)
	}
	p.Keep, p.Allowed = keep, allowed
	p = p.omitted(history, len(in))
	pass.Fit = &p
	if p.Tokens == 0 || p.Tokens > w.o.InputBudget {
		return nil, fail(NothingToCompact, pass.Target, "nothing of it fits an input of %d tokens", w.o.InputBudget)
	}
	return out, nil
}

// write has the checkpoint written, composes it and judges its size.
func (w *work[T]) write(ctx context.Context, v *witness, pass *Pass, req *summarize.Request, all []summarize.Item, rest []entry) (*session.Message, error) {
	o, t := w.o, pass.Target
	opened := false
	ro := o.Run
	ro.Opened = func(string, int) { opened = true }
	if ro.Now == nil {
		ro.Now = o.Now
	}
	if err := v.before(ctx, t, req, &ro); err != nil {
		return nil, err
	}
	written, err := summarize.Run(ctx, atLeast(w.s, o.Policy.MinSummaryChars), req, &ro)
	if err != nil {
		e := summaryError(ctx, t, err, opened)
		if e.Kind == InsufficientReduction {
			e.Before = pass.Before
		}
		if written != nil {
			e.Calls = written.Calls
		}
		return nil, e
	}
	calls := written.Calls
	facts := *req
	facts.Items = all
	lo := o.Ledger
	if len(lo.LiveNotes) > 0 {
		notes := make([]string, len(lo.LiveNotes))
		for i, note := range lo.LiveNotes {
			notes[i], _ = o.Redactor.Redact(note)
		}
		lo.LiveNotes = notes
	}
	narrative, hits := o.Redactor.Redact(written.Text)
	pass.Redacted += hits
	pass.Verdict = written.Verdict
	pass.Record = Record{ID: pass.ID, Narrative: narrative, Ledger: summarize.Extract(&facts, &lo), Before: pass.Before,
		Summarizer: written.Summarizer, Calls: calls}
	pass.Record.Start, pass.Record.End, pass.Record.Count = extent(all)
	budget := o.budget(pass.Before)
	if o.Reminder != "" {
		budget = max(1, budget-o.counter()(o.Reminder))
	}
	tail := texts(rest)
	compose := func(r Record) string {
		p := compact.Pointer{Start: r.Start, End: r.End, Count: r.Count}
		short := p.String()
		p.Compaction = pass.ID
		text := summarize.Compose(summarize.Composition{
			Narrative: r.Narrative, Ledger: r.Ledger, Budget: budget, Count: o.counter(), Tail: tail, Pointer: p.String(), Short: short,
		})
		if o.Reminder != "" {
			text += "\n\n" + o.Reminder
		}
		return text
	}
	if err := v.release(ctx, pass, compose); err != nil {
		return nil, err
	}
	text := compose(pass.Record)
	msg := session.UserText(text)
	msg.Source = compact.CheckpointSource(pass.ID)
	pass.Text, pass.After = text, o.price(&msg)
	pass.Record.After = pass.After
	if most := o.most(pass.Before); pass.After > most {
		e := fail(InsufficientReduction, t, "the checkpoint has %d tokens in place of %d, at most %d would be worth it", pass.After, pass.Before, most)
		e.Before, e.After, e.Calls = pass.Before, pass.After, calls
		return nil, e
	}
	return &msg, nil
}

func extent(items []summarize.Item) (start, end session.Seq, n int) {
	start, end = items[0].Seq, items[0].Seq
	for _, it := range items {
		start, end = min(start, it.Seq), max(end, it.Seq)
	}
	return start, end, len(items)
}

func texts(list []entry) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].msg.Text())
		b.WriteByte('\n')
	}
	return b.String()
}

// commit hands the item to the host.
func (w *work[T]) commit(ctx context.Context, snap Snapshot[T], pass *Pass, digest string, item T) error {
	t := pass.Target
	if err := cancelled(ctx, t); err != nil {
		err.Calls = pass.Record.Calls
		return err
	}
	n := pass.Items
	var err error
	if s, ok := w.p.(Snapshotter[T]); ok {
		err = s.Commit(ctx, Commit[T]{Target: t, Revision: snap.Revision, N: n, Digest: digest, Item: item, Record: pass.Record})
	} else if err = w.unchanged(ctx, t, n, digest); err == nil {
		err = w.p.ReplaceWithCompaction(ctx, t, n, item)
	}
	if err == nil {
		return nil
	}
	e := &Error{Kind: kindOf(err), Target: t, Err: err, Calls: pass.Record.Calls}
	e.Deterministic = e.Kind == Unsupported
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		e.Kind = Cancelled
	}
	return e
}

// unchanged reads the view of a host without snapshots once more and compares
// what is about to be replaced.
func (w *work[T]) unchanged(ctx context.Context, t target.Target, n int, digest string) error {
	snap, err := w.read(ctx, t)
	if err != nil {
		return err
	}
	view := snap.view(t)
	if len(view) < n {
		return ErrConflict{t, fmt.Sprintf("%d items are left of %d", len(view), n)}
	}
	now, err := w.a.Digest(view[:n])
	if err != nil {
		return err
	}
	if now != digest {
		return ErrConflict{t, "the items to be replaced are others"}
	}
	return nil
}

// atLeast returns a summarizer that refuses texts below so many characters, so
// that they are asked for again.
func atLeast(s summarize.Summarizer, chars int) summarize.Summarizer {
	if chars <= 0 {
		return s
	}
	if w, ok := s.(summarize.Windowed); ok {
		return flooredWindow{floored{s, chars}, w}
	}
	return floored{s, chars}
}

type floored struct {
	summarize.Summarizer
	chars int
}

type flooredWindow struct {
	floored
	summarize.Windowed
}

// Open implements [summarize.Summarizer].
func (f floored) Open(ctx context.Context, req *summarize.Request) (summarize.Pending, error) {
	p, err := f.Summarizer.Open(ctx, req)
	if err != nil {
		return nil, err
	}
	return flooredPending{p, f.chars}, nil
}

type flooredPending struct {
	summarize.Pending
	chars int
}

// Collect implements [summarize.Pending].
func (f flooredPending) Collect(ctx context.Context) (*summarize.Summary, error) {
	sum, err := f.Pending.Collect(ctx)
	if err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(summarize.Clean(sum.Text)); n < f.chars {
		class := summarize.Degenerate
		if n == 0 {
			class = summarize.Empty
		}
		if k := len(sum.Calls); k > 0 {
			sum.Calls[k-1].Outcome = string(class)
		}
		return nil, &summarize.Failure{Class: class, Detail: fmt.Sprintf("%d characters, at least %d are wanted", n, f.chars), Calls: sum.Calls}
	}
	return sum, nil
}
