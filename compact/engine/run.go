package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

// job is one compaction to be made.
type job struct {
	trigger      compact.Trigger
	target       target.Target
	instructions string
	policy       string // signature of what a compaction by hand keeps
	// choose selects the span in the newest view.
	choose func(session.View) (span, error)
	// limit is what envelope and surface must be below afterwards; 0 for none.
	limit int
	// idleOK lets the job run although nothing was added since the last
	// compaction.
	idleOK bool
}

// attempt is a compaction under way.
type attempt struct {
	e     *Engine
	agent compact.Agent
	job
	id      string
	began   time.Time
	release func()
	start   session.Seq
	span    span
	view    session.View // that the span stands in
	pruned  int          // what was saved by pruning under its lease
	calls   []compact.Call
	secrets int    // that were taken out of the span
	short   int    // secrets in messages that were shortened before
	watch   *watch // nil without a lifecycle
}

// attempt makes one compaction from the lease to the commit.
func (e *Engine) attempt(ctx context.Context, agent compact.Agent, j job) (*compact.Result, error) {
	a, err := e.begin(ctx, agent, j)
	if err != nil {
		return nil, err
	}
	defer a.release()
	return a.finish(ctx)
}

// finish makes the checkpoint and commits it.
func (a *attempt) finish(ctx context.Context) (*compact.Result, error) {
	c, err := a.write(ctx)
	if err != nil {
		return nil, a.end(ctx, err)
	}
	r, err := a.commit(ctx, c)
	if err != nil {
		return nil, a.end(ctx, err)
	}
	return r, nil
}

// begin validates the span and takes the lease, in one store write.
func (e *Engine) begin(ctx context.Context, agent compact.Agent, j job) (*attempt, error) {
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	if err := e.settled(ctx, agent.Session); err != nil {
		return nil, err
	}
	a := &attempt{e: e, agent: agent, job: j, id: e.opts.NewID(), began: e.opts.Now()}
	holder, release := hold(a.began, e.opts.LeaseTTL)
	seqs, err := agent.Session.Update(ctx, func(v session.View) ([]session.Body, error) {
		var err error
		if a.span, err = j.choose(v); err != nil {
			return nil, err
		}
		if err := e.free(agent.Session); err != nil {
			return nil, err
		}
		if j.trigger == compact.Now && !j.idleOK {
			if err := idle(agent.Session, v, j.policy); err != nil {
				return nil, err
			}
		}
		a.view = v
		return []session.Body{compact.Event(compact.StartEvent{
			ID: a.id, Trigger: j.trigger, Target: label(j.target), Holder: holder, Span: a.span.edges(),
			Policy: j.policy, Tokens: total(v), Pricer: agent.Session.Pricer().ID(),
		})}, nil
	})
	if err != nil {
		release()
		return nil, storeError(ctx, compact.PersistenceFailed, err)
	}
	a.release, a.start = release, seqs[0]
	return a, nil
}

func label(t target.Target) string {
	if t == 0 {
		return ""
	}
	return t.String()
}

func total(v session.View) int { return v.EnvelopeTokens() + v.SurfaceTokens() }

// idle says that a compaction by hand would only repeat the last one.
func idle(s *session.Session, v session.View, policy string) error {
	h := compact.HistoryOf(s)
	last := h.LastCommitted()
	if last == nil || last.Start.Policy != policy {
		return nil
	}
	for ev := range v.Events(last.EndSeq + 1) {
		switch ev.Type {
		case session.TypeMessage, session.TypeReplace, session.TypeRestore, session.TypeRewind, session.TypePin:
			return nil
		}
	}
	return fail(compact.NothingToCompact, "nothing was added since the last compaction")
}

// storeError turns an error of a session write into one of ours; those of the
// surface and the context keep their meaning.
func storeError(ctx context.Context, code compact.Code, err error) error {
	var own *compact.Error
	if errors.As(err, &own) {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		return &compact.Error{Code: compact.Cancelled, Node: session.NoSeq, Err: cause}
	}
	return &compact.Error{Code: code, Node: session.NoSeq, Err: err}
}

// checkpoint is what a compaction is about to put on the surface.
type checkpoint struct {
	message  session.Message
	tokens   int
	written  *summarize.Written
	ledger   *summarize.Ledger
	redacted int
}

// budget is what the checkpoint may take.
func (a *attempt) budget() int {
	p := a.e.opts.policy(a.agent.Route())
	return plan.Checkpoint(a.span.tokens, p.CheckpointRatio, p.MinCheckpointTokens, a.bounds(p)...)
}

// room is what it may take where the summary is a text of the host's own form.
func (a *attempt) room() int {
	return plan.Checkpoint(a.span.tokens, 1, 1, a.bounds(a.e.opts.policy(a.agent.Route()))...)
}

// bounds are what it may have at most, whatever its share.
func (a *attempt) bounds(p Policy) []int {
	bounds := make([]int, 0, 5)
	bounds = append(bounds, p.CheckpointTokens, int((1-p.MinGain)*float64(a.span.tokens)))
	if p.MaxSummaryTokens > 0 {
		bounds = append(bounds, p.MaxSummaryTokens)
	}
	if p.TotalRatio > 0 && a.trigger == compact.Now {
		surface := a.view.SurfaceTokens()
		bounds = append(bounds, int(p.TotalRatio*float64(surface))-(surface-a.span.tokens))
	}
	if a.limit > 0 {
		bounds = append(bounds, a.limit-1-(total(a.view)-a.span.tokens))
	}
	return bounds
}

// write makes the checkpoint; it writes nothing.
func (a *attempt) write(ctx context.Context) (*checkpoint, error) {
	e := a.e
	req, originals, err := a.request(ctx)
	if err != nil {
		return nil, err
	}
	run := e.opts.Run
	if run.Now == nil {
		run.Now = e.opts.Now
	}
	if h := compact.HistoryOf(a.agent.Session); a.trigger.Auto() && h.Failures() > 0 {
		run.Attempts = 1 // it is a probe
	}
	if err := a.beforeRequest(ctx, req, &run); err != nil {
		return nil, err
	}
	w, err := summarize.Run(ctx, e.summarizer, req, &run)
	if w != nil {
		a.calls = callsOf(w.Calls)
	}
	if err != nil {
		return nil, a.summaryError(ctx, err)
	}
	c := &checkpoint{written: w}
	// The facts come from the messages as they were before anything was pruned.
	facts := *req
	facts.Items = originals
	lo := e.opts.Ledger
	if e.opts.LiveNotes != nil {
		lo.LiveNotes = append(lo.LiveNotes[:len(lo.LiveNotes):len(lo.LiveNotes)], e.opts.LiveNotes(ctx, a.agent)...)
	}
	found := summarize.Extract(&facts, &lo)
	if found.Plan != nil || len(found.Carried) > 0 {
		found.Supersede(a.later())
	}
	ledger, n := e.opts.Redactor.Ledger(found)
	c.ledger, c.redacted = ledger, a.secrets+w.Summary.Redacted
	if a.secrets == 0 { // else what the facts quote is counted already
		c.redacted += n + a.short
	}
	narrative, n := e.opts.Redactor.Redact(w.Summary.Text)
	c.redacted += n
	w.Summary.Text = narrative
	gone := a.span.gone()
	p := compact.Pointer{Start: minSeq(gone), End: maxSeq(gone), Count: len(gone)}
	short := p.String()
	p.Compaction = a.id
	pointer := p.String()
	if e.opts.Offload != nil {
		if name := a.offload(ctx); name != "" {
			pointer += "\nFull text: " + name
			short += "\nFull text: " + name
		}
	}
	tail, said := a.tailText(), a.said()
	compose := func(narrative string, ledger *summarize.Ledger) string {
		return summarize.Compose(summarize.Composition{
			Narrative: narrative, Ledger: ledger, Pointer: pointer, Short: short, Budget: a.budget(), Room: a.room(), Count: req.Count, Tail: tail, Said: said,
		})
	}
	if err := a.beforeRelease(ctx, c, compose); err != nil {
		return nil, err
	}
	c.message = a.message(compose(w.Summary.Text, c.ledger))
	c.tokens = a.agent.Session.Pricer().Price(&c.message)
	return c, a.worthwhile(c.tokens)
}

// message is the checkpoint with that text.
func (a *attempt) message(text string) session.Message {
	return session.Message{
		Role:   session.RoleUser,
		Parts:  []session.Part{session.Text{Text: text}},
		Source: compact.CheckpointSource(a.id),
	}
}

// saves says when a checkpoint of that size is too little gain.
func (a *attempt) saves(tokens int) error {
	p := a.e.opts.policy(a.agent.Route())
	if most := int((1 - p.MinGain) * float64(a.span.tokens)); tokens > most || tokens >= a.span.tokens {
		return fail(compact.NotSmaller, "the checkpoint has %d tokens, what it replaces has %d, and at most %d would be worth it", tokens, a.span.tokens, min(most, a.span.tokens-1))
	}
	return nil
}

// worthwhile says when a checkpoint of that size must not be committed.
func (a *attempt) worthwhile(tokens int) error {
	if err := a.saves(tokens); err != nil {
		return err
	}
	p := a.e.opts.policy(a.agent.Route())
	if p.MaxSummaryTokens > 0 && tokens > p.MaxSummaryTokens {
		return fail(compact.SummaryFailed, "the checkpoint has %d tokens, at most %d are allowed", tokens, p.MaxSummaryTokens)
	}
	if after := total(a.view) - a.span.tokens + tokens; a.limit > 0 && after >= a.limit {
		return fail(compact.NoProgress, "%d tokens would remain, which is not below the threshold of %d", after, a.limit)
	}
	return nil
}

// commit revalidates the span and appends summary, replacement and end as one
// store write.
func (a *attempt) commit(ctx context.Context, c *checkpoint) (*compact.Result, error) {
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	s := a.agent.Session
	ledger, err := json.Marshal(c.ledger.Stored())
	if err != nil {
		return nil, fail(compact.CommitFailed, "encode ledger: %v", err)
	}
	verdict, err := json.Marshal(c.written.Verdict)
	if err != nil {
		return nil, fail(compact.CommitFailed, "encode verdict: %v", err)
	}
	gone := a.span.gone()
	var before, after int
	var gen uint64
	seqs, err := s.Update(ctx, func(v session.View) ([]session.Body, error) {
		if err := a.holds(); err != nil {
			return nil, err
		}
		if err := a.span.same(s, v); err != nil {
			return nil, err
		}
		before, gen = total(v), v.Generation()
		after = before - a.span.tokens + c.tokens
		return []session.Body{
			compact.Event(compact.SummaryEvent{
				ID: a.id, Summarizer: c.written.Summarizer, Text: c.written.Summary.Text, Ledger: ledger, Verdict: verdict,
				Span: a.span.edges(), Seqs: gone, Before: a.span.tokens, After: c.tokens, Pricer: s.Pricer().ID(),
				Trigger: a.trigger,
			}),
			session.Replace{Start: a.span.seqs[0], End: a.span.seqs[len(a.span.seqs)-1], Keep: a.span.keep, Message: c.message},
			compact.Event(compact.EndEvent{ID: a.id, Before: before, After: after, Calls: a.calls}),
		}, nil
	})
	if err != nil {
		return nil, storeError(ctx, compact.CommitFailed, err)
	}
	r := &compact.Result{
		ID: a.id, Trigger: a.trigger, Target: a.target, Start: a.start, Summary: seqs[0], Checkpoint: seqs[1], End: seqs[2],
		Text: c.written.Summary.Text, Shadowed: a.span.edges(), Seqs: gone, Kept: a.span.keep, Before: before, After: after,
		SpanBefore: a.span.tokens, SpanAfter: c.tokens, Pricer: s.Pricer().ID(), Summarizer: c.written.Summarizer,
		Calls: a.calls, Redacted: c.redacted, CacheLost: c.written.CacheLost, GenerationBefore: gen, GenerationAfter: gen + 1, Duration: a.e.opts.Now().Sub(a.began),
	}
	a.committed(ctx, r)
	a.e.opts.Logger.Info("compacted", "id", a.id, "trigger", a.trigger, "messages", len(gone), "before", before, "after", after)
	return r, nil
}

// holds reports, as an error with code Changed, that the attempt has lost the
// lease.
func (a *attempt) holds() error {
	h := compact.HistoryOf(a.agent.Session)
	if open := h.Open(); open == nil || open.Start.ID != a.id {
		return fail(compact.Changed, "another process ended or took over the attempt")
	}
	return nil
}

// end records a failed attempt. The record is written even when ctx is over;
// err comes back with what is known of the attempt.
func (a *attempt) end(ctx context.Context, err error) error {
	var own *compact.Error
	if !errors.As(err, &own) {
		own = &compact.Error{Code: compact.SummaryFailed, Node: session.NoSeq, Err: err}
	}
	own.Written = true
	own.Calls = a.calls
	text, _ := a.e.opts.Redactor.Redact(own.Error()) // providers repeat the key that they refuse
	_, endErr := a.agent.Session.Update(context.WithoutCancel(ctx), func(v session.View) ([]session.Body, error) {
		if a.holds() != nil {
			return nil, nil // somebody else closed it
		}
		return []session.Body{compact.Event(compact.EndEvent{
			ID: a.id, Code: own.Code, Error: text, Before: total(v) + a.pruned, After: total(v), Calls: a.calls,
		})}, nil
	})
	if endErr != nil {
		own.Err = errors.Join(own.Err, endErr)
	}
	a.closed(ctx, own.Code)
	a.e.opts.Logger.Warn("compaction failed", "id", a.id, "trigger", a.trigger, "code", own.Code, "error", text)
	return own
}

// summaryError turns a failure of the summarizer into one of ours.
func (a *attempt) summaryError(ctx context.Context, err error) error {
	var f *summarize.Failure
	if errors.As(err, &f) {
		a.calls = callsOf(f.Calls)
	}
	if cause := context.Cause(ctx); cause != nil {
		return &compact.Error{Code: compact.Cancelled, Node: session.NoSeq, Err: cause}
	}
	code := compact.SummaryFailed
	if f != nil {
		switch f.Class {
		case summarize.Invented:
			code = compact.Unfaithful
		case summarize.Inflated:
			// One that saves enough and is only above what the host allows is no
			// usable one.
			most := a.e.opts.policy(a.agent.Route()).MaxSummaryTokens
			if most == 0 || f.Actual <= most || a.saves(f.Actual) != nil {
				code = compact.NotSmaller
			}
		case summarize.Budget:
			code = compact.OverBudget
		}
	}
	return &compact.Error{Code: code, Node: session.NoSeq, Err: err}
}

func callsOf(in []summarize.Call) []compact.Call {
	out := make([]compact.Call, len(in))
	for i, c := range in {
		out[i] = compact.Call{Provider: c.Provider, Model: c.Model, Purpose: c.Purpose, Prompt: c.Prompt, Completion: c.Completion,
			CacheRead: c.CacheRead, Outcome: c.Outcome, Duration: c.Duration}
	}
	return out
}

func minSeq(list []session.Seq) session.Seq {
	m := list[0]
	for _, q := range list {
		m = min(m, q)
	}
	return m
}

func maxSeq(list []session.Seq) session.Seq {
	m := list[0]
	for _, q := range list {
		m = max(m, q)
	}
	return m
}
