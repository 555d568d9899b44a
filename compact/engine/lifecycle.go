package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
	"github.com/agentcompact/agentcompact/tokencount"
)

// The rules that the events of our compactions name.
const (
	RuleRegion      = "agent.compact_region.v1"
	RuleSteps       = "agent.compact_steps.v1"
	RuleHistory     = "agent.compact_history.v1"
	RuleFullReplace = "agent.full_replace.v1"
)

// watch is what observers and preservers have to do with an attempt.
type watch struct {
	run        *lifecycle.Run[lifecycle.Call, lifecycle.Checkpoint]
	call       lifecycle.Call
	checkpoint lifecycle.Checkpoint
}

func ruleOf(t target.Target) string {
	switch t {
	case target.Steps:
		return RuleSteps
	case target.History:
		return RuleHistory
	case target.FullReplace:
		return RuleFullReplace
	}
	return RuleRegion
}

type branchKey struct{}

// correlate says what the attempt belongs to.
func (a *attempt) correlate(ctx context.Context) lifecycle.Correlation {
	c := lifecycle.CorrelationOf(ctx)
	if c.SessionID == "" {
		c.SessionID = *session.Derived(a.agent.Session, branchKey{}, func() *string {
			id := "session-" + randomID()
			return &id
		})
	}
	if c.Branch == "" {
		c.Branch = c.SessionID
	}
	if c.TraceID == "" {
		c.TraceID = a.id
	}
	return c
}

// identity is a hash of texts that tells every list of them from every other.
func identity(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// beforeRequest tells preservers what will be summarized and lets them add to
// the instructions; run tells everybody when the request is open.
func (a *attempt) beforeRequest(ctx context.Context, req *summarize.Request, run *summarize.RunOptions) error {
	if a.e.opts.Lifecycle == nil {
		return nil
	}
	c, rule := a.correlate(ctx), ruleOf(a.target)
	provider, model := a.agent.Route()
	messages := make([]*session.Message, len(req.Items))
	for i := range req.Items {
		messages[i] = req.Items[i].Message
	}
	w := &watch{call: lifecycle.Call{
		ID: a.id, Trigger: string(a.trigger), Target: label(a.target), Provider: provider, Model: model,
		Region: lifecycle.NewRegion(messages, a.span.tokens), Instructions: req.Instructions, Language: req.Language,
	}}
	w.run = a.e.opts.Lifecycle.Begin(lifecycle.RunInfo{
		Meta: lifecycle.PreservationMeta{
			TraceID: c.TraceID, SessionID: c.SessionID, ALegID: c.Branch, AttemptSeq: 1,
			TransactionID: identity("transaction", c.Branch, rule, a.id), RuleID: rule, Evidence: lifecycle.EvidenceProtocolStrict,
		},
		Boundary: identity("boundary", c.Branch, rule, a.span.fingerprint()),
		Detail: lifecycle.Detail{
			Trigger: string(a.trigger), Target: label(a.target), Provider: provider, Model: model,
			TokensBefore: total(a.view), SpanBefore: a.span.tokens, Messages: len(a.span.gone()),
		},
		State: lifecycle.SessionState(a.agent.Session),
		Began: a.began,
	})
	a.watch = w
	if err := w.run.BeforeRequest(ctx, &w.call, nil); err != nil {
		return vetoed(err)
	}
	if err := cancelled(ctx); err != nil {
		return err
	}
	if w.call.Instructions != req.Instructions {
		req.Instructions, _ = a.e.opts.Redactor.Redact(w.call.Instructions)
	}
	req.Language = w.call.Language
	then := run.Opened
	run.Opened = func(name string, attempt int) {
		if then != nil {
			then(name, attempt)
		}
		w.run.RequestOpened(ctx, w.call, identity("leg", a.id, name), attempt)
	}
	return nil
}

// vetoed turns a veto into an error of ours.
func vetoed(err error) error {
	var v *lifecycle.VetoError
	if errors.As(err, &v) {
		return fail(compact.Vetoed, "preserver %q called it off", v.ID)
	}
	return err
}

// beforeRelease lets preservers add to the checkpoint. What they make of it
// counts only if compose shows all that they added and the checkpoint is still
// worth it.
func (a *attempt) beforeRelease(ctx context.Context, c *checkpoint, compose func(narrative string, l *summarize.Ledger) string) error {
	w := a.watch
	if w == nil {
		return nil
	}
	var own []string
	if c.ledger != nil {
		own = c.ledger.Notes
	}
	check := func(k lifecycle.Checkpoint) error {
		narrative, ledger, _ := a.preserved(c, k)
		text := compose(narrative, ledger)
		for _, note := range ledger.Notes[min(len(own), len(ledger.Notes)):] {
			if !strings.Contains(text, summarize.Defuse(note)) {
				return errors.New("there is no room for a note")
			}
		}
		m := a.message(text)
		return a.worthwhile(a.agent.Session.Pricer().Price(&m))
	}
	k := lifecycle.Checkpoint{
		ID: a.id, Trigger: string(a.trigger), Region: w.call.Region, Narrative: c.written.Summary.Text,
		Notes: lifecycle.AddNotes(slices.Clone(own), w.call.Notes...),
	}
	if len(k.Notes) > len(own) && check(k) != nil {
		a.e.opts.Logger.Warn("notes of preservers were left out", "id", a.id, "notes", len(k.Notes)-len(own))
		k.Notes = slices.Clone(own)
	}
	if err := w.run.BeforeRelease(ctx, &k, check); err != nil {
		return vetoed(err)
	}
	if k.Narrative != c.written.Summary.Text || !slices.Equal(k.Notes, own) {
		narrative, ledger, hits := a.preserved(c, k)
		c.written.Summary.Text, c.ledger = narrative, ledger
		c.redacted += hits
		k.Narrative, k.Notes = narrative, ledger.Notes
	}
	w.checkpoint = k
	return cancelled(ctx)
}

// preserved returns narrative and ledger with what preservers made of them,
// without secrets.
func (a *attempt) preserved(c *checkpoint, k lifecycle.Checkpoint) (string, *summarize.Ledger, int) {
	narrative, hits := a.e.opts.Redactor.Redact(k.Narrative)
	var l summarize.Ledger
	if c.ledger != nil {
		l = *c.ledger
	}
	l.Notes = slices.Clone(k.Notes)
	for i, note := range l.Notes {
		var n int
		l.Notes[i], n = a.e.opts.Redactor.Redact(note)
		hits += n
	}
	return narrative, &l, hits
}

// committed tells of a commit.
func (a *attempt) committed(ctx context.Context, r *compact.Result) {
	if a.watch == nil {
		return
	}
	a.watch.run.Committed(ctx, a.watch.checkpoint, func(d *lifecycle.Detail) {
		d.Summarizer, d.Duration = r.Summarizer, r.Duration
		d.TokensBefore, d.TokensAfter, d.SpanBefore, d.SpanAfter = r.Before, r.After, r.SpanBefore, r.SpanAfter
		a.spent(d)
	})
}

// closed tells of an attempt that failed.
func (a *attempt) closed(ctx context.Context, code compact.Code) {
	if a.watch == nil {
		return
	}
	a.watch.run.Close(ctx, string(code), func(d *lifecycle.Detail) {
		d.TokensAfter = d.TokensBefore
		a.spent(d)
	})
}

func (a *attempt) spent(d *lifecycle.Detail) {
	d.Calls = len(a.calls)
	for _, c := range a.calls {
		d.PromptTokens += c.Prompt
		d.CompletionTokens += c.Completion
		d.CacheReadTokens += c.CacheRead
	}
}

// Auxiliary returns the function with which a [lifecycle.Background] asks the
// model of a summarizer. Secrets are replaced before it reads the text.
func Auxiliary(s summarize.Summarizer, r *summarize.Redactor) (lifecycle.AuxFunc, error) {
	if s == nil {
		return nil, errors.New("auxiliary requests: a summarizer is required")
	}
	if r == nil {
		var err error
		if r, err = summarize.NewRedactor(); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, q lifecycle.AuxRequest) (lifecycle.AuxResult, error) {
		text, _ := r.Redact(q.Text)
		instructions, _ := r.Redact(q.Instructions)
		m := session.UserText(text)
		count := tokencount.TextPricer(session.BytePricer{})
		p, err := s.Open(ctx, &summarize.Request{
			ID: q.Key, Items: []summarize.Item{{Message: &m, Tokens: count(text)}}, Instructions: instructions,
			MaxTokens: max(q.MaxTokens, 0), Count: count,
		})
		if err != nil {
			return lifecycle.AuxResult{}, err
		}
		sum, err := p.Collect(ctx)
		if err != nil {
			return lifecycle.AuxResult{}, err
		}
		out := lifecycle.AuxResult{Text: sum.Text}
		for _, c := range sum.Calls {
			out.PromptTokens += c.Prompt
			out.CompletionTokens += c.Completion
		}
		return out, nil
	}, nil
}
