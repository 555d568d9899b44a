package streamproc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

// The rules that the events of passes name.
var rules = map[target.Target]string{
	target.Steps: "agent.compact_steps.v1", target.History: "agent.compact_history.v1", target.FullReplace: "agent.full_replace.v1",
}

// witness is what observers and preservers have to do with a pass; nil without a
// lifecycle.
type witness struct {
	o          *Options
	run        *lifecycle.Run[lifecycle.Call, lifecycle.Checkpoint]
	call       lifecycle.Call
	checkpoint lifecycle.Checkpoint
}

func identity(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

func (w *work[T]) watch(ctx context.Context, pass *Pass, req *summarize.Request, digest string, began time.Time) *witness {
	o := w.o
	if o.Lifecycle == nil {
		return nil
	}
	c, rule := lifecycle.CorrelationOf(ctx), rules[pass.Target]
	if c.Branch == "" {
		c.Branch = c.SessionID
	}
	if c.TraceID == "" {
		c.TraceID = pass.ID
	}
	messages := make([]*session.Message, len(req.Items))
	for i := range req.Items {
		messages[i] = req.Items[i].Message
	}
	v := &witness{o: o, call: lifecycle.Call{
		ID: pass.ID, Trigger: string(o.Policy.Mode), Target: pass.Target.String(), Provider: o.Provider, Model: o.Model,
		Region: lifecycle.NewRegion(messages, pass.Before), Instructions: req.Instructions, Language: req.Language,
	}}
	v.run = o.Lifecycle.Begin(lifecycle.RunInfo{
		Meta: lifecycle.PreservationMeta{
			TraceID: c.TraceID, SessionID: c.SessionID, ALegID: c.Branch, AttemptSeq: 1,
			TransactionID: identity("transaction", c.Branch, rule, pass.ID), RuleID: rule, Evidence: lifecycle.EvidenceProtocolStrict,
		},
		Boundary: identity("boundary", c.Branch, rule, digest),
		Detail: lifecycle.Detail{
			Trigger: string(o.Policy.Mode), Target: pass.Target.String(), Provider: o.Provider, Model: o.Model,
			SpanBefore: pass.Before, Messages: pass.Items,
		},
		State: o.LifecycleState, Began: began,
	})
	return v
}

// before lets preservers add to the instructions; run tells everybody when the
// request is open.
func (v *witness) before(ctx context.Context, t target.Target, req *summarize.Request, run *summarize.RunOptions) error {
	if v == nil {
		return nil
	}
	if err := v.run.BeforeRequest(ctx, &v.call, nil); err != nil {
		return vetoed(t, err, nil)
	}
	if err := cancelled(ctx, t); err != nil {
		return err
	}
	if v.call.Instructions != req.Instructions {
		req.Instructions, _ = v.o.Redactor.Redact(v.call.Instructions)
	}
	req.Language = v.call.Language
	then := run.Opened
	run.Opened = func(name string, attempt int) {
		if then != nil {
			then(name, attempt)
		}
		v.run.RequestOpened(ctx, v.call, identity("leg", v.call.ID, name), attempt)
	}
	return nil
}

func vetoed(t target.Target, err error, calls []summarize.Call) error {
	var veto *lifecycle.VetoError
	if !errors.As(err, &veto) {
		return err
	}
	e := fail(Vetoed, t, "preserver %q called it off", veto.ID)
	e.Deterministic, e.Calls = true, calls
	return e
}

// release lets preservers add to the checkpoint. What they make of it counts
// only if compose shows all of it and the checkpoint is still worth it.
func (v *witness) release(ctx context.Context, pass *Pass, compose func(Record) string) error {
	if v == nil {
		return nil
	}
	var own []string
	if pass.Record.Ledger != nil {
		own = pass.Record.Ledger.Notes
	}
	preserved := func(k lifecycle.Checkpoint) (Record, int) {
		r := pass.Record
		var hits int
		r.Narrative, hits = v.o.Redactor.Redact(k.Narrative)
		var l summarize.Ledger
		if r.Ledger != nil {
			l = *r.Ledger
		}
		l.Notes = slices.Clone(k.Notes)
		for i, note := range l.Notes {
			var n int
			l.Notes[i], n = v.o.Redactor.Redact(note)
			hits += n
		}
		r.Ledger = &l
		return r, hits
	}
	check := func(k lifecycle.Checkpoint) error {
		r, _ := preserved(k)
		text := compose(r)
		for _, note := range r.Ledger.Notes[len(own):] {
			if !strings.Contains(text, summarize.Defuse(note)) {
				return errors.New("there is no room for a note")
			}
		}
		if m := session.UserText(text); v.o.price(&m) > v.o.most(pass.Before) {
			return errors.New("the checkpoint would be too large")
		}
		return nil
	}
	k := lifecycle.Checkpoint{
		ID: pass.ID, Trigger: v.call.Trigger, Region: v.call.Region, Narrative: pass.Record.Narrative,
		Notes: lifecycle.AddNotes(slices.Clone(own), v.call.Notes...),
	}
	if len(k.Notes) > len(own) && check(k) != nil {
		k.Notes = slices.Clone(own)
	}
	if err := v.run.BeforeRelease(ctx, &k, check); err != nil {
		return vetoed(pass.Target, err, pass.Record.Calls)
	}
	if k.Narrative != pass.Record.Narrative || !slices.Equal(k.Notes, own) {
		r, hits := preserved(k)
		pass.Record = r
		pass.Redacted += hits
		k.Narrative, k.Notes = r.Narrative, r.Ledger.Notes
	}
	v.checkpoint = k
	return nil
}

// ended tells how the pass ended.
func (v *witness) ended(ctx context.Context, pass *Pass, err error) {
	if v == nil {
		return
	}
	calls := pass.Record.Calls
	var own *Error
	if errors.As(err, &own) && own.Calls != nil {
		calls = own.Calls
	}
	fill := func(d *lifecycle.Detail) {
		d.Summarizer, d.SpanAfter, d.Calls = pass.Record.Summarizer, pass.After, len(calls)
		for _, c := range calls {
			d.PromptTokens += c.Prompt
			d.CompletionTokens += c.Completion
			d.CacheReadTokens += c.CacheRead
		}
	}
	switch {
	case err == nil:
		v.run.Committed(ctx, v.checkpoint, fill)
	case own != nil:
		v.run.Close(ctx, string(own.Kind), fill)
	default:
		v.run.Close(ctx, string(kindOf(err)), fill)
	}
}
