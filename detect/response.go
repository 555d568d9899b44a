package detect

import (
	"slices"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/lifecycle"
)

// pendingItem stands in a branch's items for one that a response brought and
// no request has shown yet.
const pendingItem = "pending"

// succeeded reports whether a response ended well. An explicit status decides;
// without one, the reason to stop does. What is not known counts as failed.
func succeeded(r *Response) bool {
	if r.Failed {
		return false
	}
	status, finish := strings.ToLower(strings.TrimSpace(r.Status)), strings.ToLower(strings.TrimSpace(r.Finish))
	if status != "" {
		return status == "completed"
	}
	return finish == "stop" || finish == "end_turn"
}

// outcome is what a piece of a response means.
type outcome struct {
	done   bool   // a protocol compaction is complete
	quits  string // the one under way is over
	key    string // of the item
	closes bool   // it is the one under way
}

func (d *Detector) judgeResponse(r *Response, b *branch) (o outcome) {
	x := b.active
	mine := x != nil && x.trace == r.Trace
	if itemKinds[r.Item] {
		o.key = "item " + identity(8, r.Trace, r.ItemID)
		o.closes = x != nil && x.rule == nil
		o.done = !slices.Contains(b.items, o.key)
		return o
	}
	if !mine {
		return o
	}
	switch {
	case r.Failed:
		o.quits = ReasonResponse
	case r.ToolCall && x.rule != nil:
		o.quits = ReasonNoSummary
	case r.Done && !succeeded(r):
		o.quits = ReasonResponse
	case r.Done && x.rule == nil:
		o.done, o.closes = true, true
		o.key = "item " + identity(8, r.Trace, r.ItemID)
	case r.Done && !x.text && strings.TrimSpace(r.Text) == "":
		o.quits = ReasonNoSummary
	}
	return o
}

// PreviewResponse says what [Detector.ResponseReleased] would find. It changes
// nothing. With a summary that is being written, its end is a candidate: it
// may be installed.
func (d *Detector) PreviewResponse(r Response) lifecycle.ResponsePreview {
	none := lifecycle.ResponsePreview{Kind: lifecycle.PreviewNone}
	if d == nil || r.Branch == "" {
		return none
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b, _ := d.lookup(r.Branch, d.o.Now())
	o := d.judgeResponse(&r, b)
	p := lifecycle.ResponsePreview{Kind: lifecycle.PreviewCompletionCandidate, Evidence: lifecycle.EvidenceProtocolStrict, RuleID: RuleProtocol}
	switch {
	case o.done && o.closes:
		p.TransactionID = b.active.started.TransactionID
	case o.done:
		p.TransactionID = b.transactionID(RuleProtocol, r.Trace, o.key)
	case o.quits == "" && r.Done && b.active != nil && b.active.rule != nil && b.active.trace == r.Trace:
		p.Evidence, p.RuleID, p.TransactionID = lifecycle.EvidenceSignatureStrict, b.active.rule.ID, b.active.started.TransactionID
	default:
		return none
	}
	return p
}

// ResponseReleased takes note of a piece of a response that is handed to the
// client, and returns what it shows. A summary that was written is not
// installed by that: only what the protocol says completes here. What a model
// writes in an ordinary response, a summary's marks included, means nothing.
func (d *Detector) ResponseReleased(r Response) (out []lifecycle.Transition) {
	if d == nil || r.Branch == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Now()
	b, known := d.lookup(r.Branch, now)
	o := d.judgeResponse(&r, b)
	if !known && !o.done {
		return nil
	}
	b = d.touch(r.Branch, now, &out)
	switch {
	case o.quits != "":
		b.abort(o.quits, now, &out)
	case o.done:
		d.released(&r, b, o, now, &out)
	case b.active != nil && b.active.rule != nil && b.active.trace == r.Trace:
		b.active.take(&r, d.longest)
	}
	return out
}

// take looks for the marks of a summary in a piece of it.
func (x *transaction) take(r *Response, longest int) {
	x.text = x.text || strings.TrimSpace(r.Text) != ""
	if !x.marked() && r.Text != "" {
		s := x.window + r.Text
		for i, mark := range x.rule.Response {
			if strings.Contains(s, mark) {
				x.marks |= 1 << i
			}
		}
		x.window = strings.Clone(s[max(len(s)-longest+1, 0):])
	}
	if r.Done {
		x.window = ""
	}
}

func (d *Detector) released(r *Response, b *branch, o outcome, now time.Time, out *[]lifecycle.Transition) {
	detail := lifecycle.Detail{Outcome: lifecycle.OutcomeCompleted, TokensBefore: b.base.tokens, Messages: b.base.items}
	var id string
	if o.closes {
		x := b.active
		id, detail.Duration, detail.TokensBefore = x.started.TransactionID, now.Sub(x.at), x.tokens
		b.active = nil
	} else {
		b.abort(ReasonSuperseded, now, out)
		id = b.transactionID(RuleProtocol, r.Trace, o.key)
		b.count++
	}
	b.items = keepLast(append(slices.DeleteFunc(b.items, func(s string) bool { return s == pendingItem }), o.key, pendingItem))
	*out = append(*out, lifecycle.Transition{Event: event(lifecycle.PhaseCompleted, lifecycle.EvidenceProtocolStrict, RuleProtocol, id, r.Meta, now), Detail: detail})
}
