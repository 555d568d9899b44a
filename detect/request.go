package detect

import (
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/session"
)

// verdict is what a request says about its branch.
type verdict struct {
	// start is set when the request has a summary written: by rule, or by the
	// protocol when rule is nil.
	start bool
	rule  *Signature
	// done is set when the request shows that a compaction was installed; by
	// ruleID, with that evidence. closes is set if it is the one under way.
	done     bool
	doneRule string
	evidence lifecycle.Evidence
	closes   bool
	told     uint64 // hash of the installed summary, 0 for none
	item     string // identity of the protocol item, "" for none
	// quits says why the one under way is over without being installed.
	quits string
	// side marks a request beside the conversation, which says nothing of it.
	side bool
	// settled: what a response brought is in the history now.
	settled bool

	print print
	all   []uint64
}

// read fingerprints a request and says whether it has a summary written. It
// looks at nothing else.
func (d *Detector) read(q *Request) (v verdict) {
	v.print, v.all = printOf(q.Messages)
	if v.start = q.Compact; v.start {
		return v
	}
	for i := range d.o.Signatures {
		if s := &d.o.Signatures[i]; s.asks(q) {
			v.start, v.rule = true, s
			break
		}
	}
	return v
}

// judge says what a request that was read means for its branch. It changes
// nothing.
func (d *Detector) judge(q *Request, b *branch, v verdict) verdict {
	if v.start {
		return v
	}
	grown := b.base.set && b.base.extendedBy(v.all)
	switch {
	case grown:
	case d.found(q, b, &v):
		return v
	case d.beside(b, &v):
		v.side = true
		return v
	}
	switch x := b.active; {
	case slices.Contains(b.items, pendingItem):
		v.settled = !grown // the response told of it already
	case x == nil:
		if d.shrunk(q, b, &v) {
			v.done, v.doneRule, v.evidence = true, RuleHeuristic, lifecycle.EvidenceHistoryHeuristic
		}
	case grown:
		v.quits = ReasonNotInstalled
	case x.marked() && v.print.tokens < max(b.base.tokens, x.tokens)*9/10 && b.base.renewed(v.all):
		// The summary has no mark of its own, but the history is a new and
		// smaller one right after it was written.
		v.done, v.closes, v.doneRule, v.evidence = true, true, x.ruleID(), lifecycle.EvidenceHistoryHeuristic
	default:
		v.quits = ReasonNotInstalled
	}
	return v
}

// found looks for an installed summary that was not reported yet.
func (d *Detector) found(q *Request, b *branch, v *verdict) bool {
	if i, raw := item(q.Messages); i >= 0 {
		id := identity(8, string(raw))
		if h := v.all[i]; !slices.Contains(b.items, id) && !slices.Contains(b.told, h) {
			v.told, v.item = h, id
			// What the response had brought is known already.
			v.done = !slices.Contains(b.items, pendingItem)
			v.doneRule, v.evidence = RuleProtocol, lifecycle.EvidenceProtocolStrict
			v.closes = b.active != nil && b.active.rule == nil
			return true
		}
	}
	take := func(s *Signature) bool {
		i := s.installed(q.Messages)
		if i < 0 || slices.Contains(b.told, v.all[i]) || slices.Contains(b.base.head, v.all[i]) {
			return false
		}
		v.done, v.doneRule, v.evidence, v.told = true, s.ID, lifecycle.EvidenceSignatureStrict, v.all[i]
		return true
	}
	if x := b.active; x != nil && x.rule != nil && take(x.rule) {
		v.closes = true
		return true
	}
	for i := range d.o.Signatures {
		s := &d.o.Signatures[i]
		if s.Shared || s.Rewrite && !b.base.set {
			continue
		}
		if take(s) {
			return true
		}
	}
	return false
}

// beside reports whether a request has nothing to do with the conversation, as
// those that find a title or judge a command: it is small and shares nothing.
func (d *Detector) beside(b *branch, v *verdict) bool {
	if x := b.active; x != nil && (x.rule == nil || len(x.rule.Next) == 0) {
		return false // it could be the summary with the next prompt
	}
	return b.base.set && v.print.items <= 2 && b.base.tokens >= d.o.MinTokens && v.print.tokens < b.base.tokens/4 && !overlap(&b.base, v.all)
}

// renewed reports whether one of the items was not there before. A history that
// was only cut, as by going back to an earlier prompt, has none.
func (p *print) renewed(all []uint64) bool {
	return slices.ContainsFunc(all, func(h uint64) bool { return !slices.Contains(p.head, h) && !slices.Contains(p.tail, h) })
}

// overlap reports whether the items share one with the print's ends.
func overlap(p *print, all []uint64) bool {
	return slices.ContainsFunc(all, func(h uint64) bool { return slices.Contains(p.head, h) || slices.Contains(p.tail, h) })
}

// shrunk is the heuristic: the history is much smaller than it was and has
// fewer items, its last items stand there as before, and something that was
// not there stands before them.
func (d *Detector) shrunk(q *Request, b *branch, v *verdict) bool {
	if d.o.NoHeuristic || !b.base.set || b.base.tokens < d.o.MinTokens || v.print.items >= b.base.items {
		return false
	}
	lost := b.base.tokens - v.print.tokens
	if lost < d.o.MinTokens || float64(lost) < d.o.MinShare*float64(b.base.tokens) {
		return false
	}
	at := b.base.survivor(v.all)
	if at < 1 {
		return false
	}
	for i, h := range v.all[:at] {
		if slices.Contains(b.base.head, h) {
			continue
		}
		// Our own checkpoint is no news, and a result that was shortened is no
		// summary.
		m := q.Messages[i]
		if m.Source.Kind == session.SourcePlugin {
			return false
		}
		if m.Role != session.RoleTool {
			return true
		}
	}
	return false
}

// PreviewRequest says what [Detector.RequestOpened] would find. It changes
// nothing.
func (d *Detector) PreviewRequest(q Request) lifecycle.RequestPreview {
	none := lifecycle.RequestPreview{Kind: lifecycle.PreviewNone}
	if d == nil || q.Branch == "" {
		return none
	}
	v := d.read(&q)
	d.mu.Lock()
	defer d.mu.Unlock()
	b, _ := d.lookup(q.Branch, d.o.Now())
	v = d.judge(&q, b, v)
	switch {
	case v.start:
		p := lifecycle.RequestPreview{Evidence: lifecycle.EvidenceSignatureStrict, RuleID: RuleProtocol, Kind: lifecycle.PreviewStartCandidate}
		if v.rule == nil {
			p.Evidence = lifecycle.EvidenceProtocolStrict
		} else {
			p.RuleID = v.rule.ID
		}
		p.BoundaryFingerprint = boundary(q.Branch, p.RuleID, v.all)
		if b.active != nil && b.active.ruleID() == p.RuleID && (b.active.boundary == p.BoundaryFingerprint || v.rule != nil && v.rule.Series) {
			p.TransactionID = b.active.started.TransactionID
		}
		return p
	case v.done:
		p := lifecycle.RequestPreview{Evidence: v.evidence, RuleID: v.doneRule, Kind: lifecycle.PreviewCompletionCandidate}
		if v.closes {
			p.TransactionID = b.active.started.TransactionID
		} else {
			p.BoundaryFingerprint = boundary(q.Branch, v.doneRule, v.all)
		}
		return p
	}
	return none
}

// RequestOpened takes note of a request that the provider has accepted, and
// returns what it shows: what ended comes before what starts. The same request
// again, as clients make it, shows nothing new. A request that was not accepted
// is not told to the detector.
func (d *Detector) RequestOpened(q Request) (out []lifecycle.Transition) {
	if d == nil || q.Branch == "" {
		return nil
	}
	v := d.read(&q)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Now()
	b := d.touch(q.Branch, now, &out)
	v = d.judge(&q, b, v)
	switch {
	case v.start:
		d.begin(&q, b, &v, now, &out)
		return out
	case v.side:
		return out
	case v.done:
		d.complete(&q, b, &v, now, &out)
	case v.quits != "":
		b.abort(v.quits, now, &out)
	}
	if v.told != 0 {
		b.told = keepLast(append(b.told, v.told))
	}
	if v.item != "" || v.settled {
		b.items = slices.DeleteFunc(b.items, func(s string) bool { return s == pendingItem })
	}
	if v.item != "" {
		b.items = keepLast(append(b.items, v.item))
	}
	b.base = v.print
	return out
}

func keepLast[T any](s []T) []T {
	if n := len(s) - maxTold; n > 0 {
		s = slices.Delete(s, 0, n)
	}
	return s
}

// begin starts a transaction, unless the request belongs to the one under way.
func (d *Detector) begin(q *Request, b *branch, v *verdict, now time.Time, out *[]lifecycle.Transition) {
	rule, ev := RuleProtocol, lifecycle.EvidenceProtocolStrict
	if v.rule != nil {
		rule, ev = v.rule.ID, lifecycle.EvidenceSignatureStrict
	}
	bound := boundary(q.Branch, rule, v.all)
	if x := b.active; x != nil && x.ruleID() == rule && (x.boundary == bound || v.rule != nil && v.rule.Series) {
		x.trace, x.window, x.marks, x.text = q.Trace, "", 0, false
		return
	}
	b.abort(ReasonSuperseded, now, out)
	e := event(lifecycle.PhaseStarted, ev, rule, b.transactionID(rule, q.Trace, bound), q.Meta, now)
	b.count++
	b.active = &transaction{started: e, trace: q.Trace, rule: v.rule, boundary: bound, tokens: v.print.tokens, at: now}
	*out = append(*out, lifecycle.Transition{Event: e, Detail: lifecycle.Detail{
		Outcome: lifecycle.OutcomeStarted, TokensBefore: v.print.tokens, Messages: v.print.items,
	}})
}

// complete ends a transaction: the one under way, or one that is seen only now.
func (d *Detector) complete(q *Request, b *branch, v *verdict, now time.Time, out *[]lifecycle.Transition) {
	detail := lifecycle.Detail{Outcome: lifecycle.OutcomeCompleted, TokensBefore: b.base.tokens, TokensAfter: v.print.tokens, Messages: b.base.items}
	var id string
	if v.closes {
		x := b.active
		id, detail.Duration = x.started.TransactionID, now.Sub(x.at)
		b.active = nil
	} else {
		b.abort(ReasonSuperseded, now, out)
		id = b.transactionID(v.doneRule, q.Trace, boundary(q.Branch, v.doneRule, v.all))
		b.count++
	}
	*out = append(*out, lifecycle.Transition{Event: event(lifecycle.PhaseCompleted, v.evidence, v.doneRule, id, q.Meta, now), Detail: detail})
}
