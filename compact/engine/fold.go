package engine

import (
	"context"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// heldBytes is how much of a span is held at once where the options do not say:
// about four million tokens, more than any model reads.
const heldBytes = 16 << 20

// leastFolded is what the older part of a span may be told in, at least.
const leastFolded = 1500

// cuttable reports whether no call before a position of the view is answered
// behind it.
func (a *attempt) cuttable(pos int) (ok bool) {
	indexed(a.agent.Session, a.view, func(x *toolpairing.Index) { ok = x.Passes(pos) })
	return ok
}

// fold lets go of the items that were read so far, the older part of a large
// span: what the embedded summarizer tells of them takes their place like an
// earlier checkpoint, and their facts join Prior. It returns the item that is to
// stand for them.
func (a *attempt) fold(ctx context.Context, req *summarize.Request, originals []summarize.Item) (summarize.Item, error) {
	facts := *req
	facts.Items = originals
	req.Prior, _ = a.e.opts.Redactor.Ledger(summarize.Extract(&facts, &a.e.opts.Ledger))
	part := *req
	part.MaxTokens, part.Progress = max(req.MaxTokens, leastFolded), nil
	told, err := summarize.NewExtractive(nil).Open(ctx, &part)
	if err != nil {
		return summarize.Item{}, a.summaryError(ctx, err)
	}
	sum, err := told.Collect(ctx)
	if err != nil {
		return summarize.Item{}, a.summaryError(ctx, err)
	}
	text, _ := a.e.opts.Redactor.Redact(sum.Text)
	m := session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: text}}, Source: compact.CheckpointSource(a.id)}
	last := req.Items[len(req.Items)-1].Seq
	return summarize.Item{Seq: last, Message: &m, Tokens: req.Count(text), Checkpoint: true, Narrative: text}, nil
}
