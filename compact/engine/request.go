package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// request makes what the summarizer is asked, with secrets replaced, and the
// same items as they were before any pruning, for the ledger. Of a span that is
// too large to be held, the older part is folded, see [Options.HeldBytes].
func (a *attempt) request(ctx context.Context) (*summarize.Request, []summarize.Item, error) {
	v, s := a.view, a.agent.Session
	abandoned := a.abandoned()
	provider, model := a.agent.Route()
	envelope, _ := v.Envelope()
	req := &summarize.Request{
		ID: a.id, Provider: provider, Model: model, Envelope: envelope, Head: a.span.start == 0 && len(a.span.keep) == 0,
		Target: a.target, Instructions: a.instructions, Count: tokencount.TextPricer(s.Pricer()), Progress: progressOf(ctx),
	}
	keep, stay := setOf(a.span.keep), 0
	history := compact.HistoryOf(s)
	budget := a.budget()
	share, least := narrativeShare, leastNarrative
	if sh, ok := a.e.summarizer.(summarize.Sharing); ok {
		share, least = sh.NarrativeShare(), leastShared
	}
	req.MaxTokens = min(max(int(share*float64(budget)), least), budget)
	var originals []summarize.Item
	held, short := 0, 0
	between := a.span.start == 0 && len(a.span.keep) > 0 && !a.keepsRunning()
	for i := a.span.start; i < a.span.end; i++ {
		n := v.Node(i)
		if keep[n.Seq] && !between {
			continue
		}
		if err := cancelled(ctx); err != nil {
			return nil, nil, err
		}
		m, err := v.Message(i)
		if err != nil {
			return nil, nil, &compact.Error{Code: compact.SummaryFailed, Node: n.Seq, Detail: "read message", Err: err}
		}
		it := summarize.Item{Seq: n.Seq, Message: m, Tokens: int(n.Tokens), Recalled: n.Source().Form == compact.FormRecalled}
		if between {
			req.Surface = append(req.Surface, it)
		}
		if keep[n.Seq] {
			_, hits := a.e.opts.Redactor.Message(m)
			stay += hits
			continue
		}
		it.Abandoned = abandoned[n.Seq]
		if compact.IsCheckpointSource(n.Source()) {
			it.Checkpoint = true
			var ledger *summarize.Ledger
			it.Narrative, ledger = recorded(v, history, n, m)
			it.Foreign = history.Find(n.Source().Ref) == nil
			req.Prior = summarize.Merge(req.Prior, ledger)
		}
		redacted, hits := a.e.opts.Redactor.Message(m)
		if hits > 0 {
			it.Message = redacted
			req.Redacted += hits
		}
		it.Narrative, _ = a.e.opts.Redactor.Redact(it.Narrative)
		req.Items = append(req.Items, it)
		orig := it
		if _, whole := original(v, n, m); whole != m {
			orig.Message, hits = a.e.opts.Redactor.Message(whole)
			short += hits
		}
		originals = append(originals, orig)
		if held += orig.Message.Size(); held < a.e.opts.HeldBytes || i+1 == a.span.end || !a.cuttable(i+1) {
			continue
		}
		if req.Progress != nil {
			req.Progress(summarize.Progress{Stage: "read", Done: i - a.span.start, Total: a.span.end - a.span.start})
		}
		older, err := a.fold(ctx, req, originals)
		if err != nil {
			return nil, nil, err
		}
		req.Items, originals = []summarize.Item{older}, []summarize.Item{older}
		// No request of the agent begins like this.
		req.Head, req.Surface, between, held = false, nil, false, 0
	}
	a.secrets, a.short = req.Redacted, short
	req.Redacted += stay + a.e.opts.Redactor.Envelope(envelope)
	return req, originals, nil
}

// keepsRunning reports whether a call of the span still runs: no request can show
// it as it is.
func (a *attempt) keepsRunning() (runs bool) {
	indexed(a.agent.Session, a.view, func(x *toolpairing.Index) {
		for i := a.span.start; i < a.span.end; i++ {
			runs = runs || x.RunningAt(i)
		}
	})
	return runs
}

// abandoned returns the calls of the span that were never answered, by message.
func (a *attempt) abandoned() map[session.Seq][]string {
	out := make(map[session.Seq][]string)
	indexed(a.agent.Session, a.view, func(x *toolpairing.Index) {
		for i := a.span.start; i < a.span.end; i++ {
			n := a.view.Node(i)
			for k, id := range n.Calls() {
				if _, ok := x.Answered(i, k); !ok && !x.Running(i, k) {
					out[n.Seq] = append(out[n.Seq], id)
				}
			}
		}
	})
	return out
}

// narrativeShare is the part of a checkpoint's budget that the narrative may
// take where the summarizer does not say; the ledger has the rest. Less than
// leastNarrative tokens, or leastShared where it does say, tell nothing.
const (
	narrativeShare = 0.4
	leastNarrative = 120
	leastShared    = 80
)

// recorded returns narrative and ledger of an earlier checkpoint. One that we
// did not write has its text as narrative.
func recorded(v session.View, h compact.History, n session.Node, m *session.Message) (string, *summarize.Ledger) {
	a := h.Find(n.Source().Ref)
	if a == nil || a.Summary == session.NoSeq {
		return m.Text(), nil
	}
	ev, err := v.Event(a.Summary)
	if err != nil {
		return m.Text(), nil
	}
	payload, err := compact.Decode(ev)
	sum, ok := payload.(compact.SummaryEvent)
	if err != nil || !ok {
		return m.Text(), nil
	}
	var ledger summarize.Ledger
	if len(sum.Ledger) == 0 || json.Unmarshal(sum.Ledger, &ledger) != nil {
		return sum.Text, nil
	}
	return sum.Text, ledger.Filled(func(q session.Seq) *session.Message {
		ev, err := v.Event(q)
		if err != nil {
			return nil
		}
		m, err := ev.Message()
		if err != nil {
			return nil
		}
		return m
	})
}

// original returns the message that a pruned one stands for, with its seq; any
// other is its own.
func original(v session.View, n session.Node, m *session.Message) (session.Seq, *session.Message) {
	seq := n.Seq
	for m.Source.Form == compact.FormPruned {
		run, _, err := v.Run(seq)
		if err != nil || len(run) != 1 {
			break
		}
		ev, err := v.Event(run[0])
		if err != nil {
			break
		}
		orig, err := ev.Message()
		if err != nil {
			break
		}
		seq, m = run[0], orig
	}
	return seq, m
}

// tailBytes is how much of the newest text behind the span counts as what the
// agent sees anyway.
const tailBytes = 64 << 10

// tailText is what stays visible behind the span, its newest part.
func (a *attempt) tailText() string {
	var list []string
	for i, size := a.view.Len()-1, 0; i >= a.span.end && size < tailBytes; i-- {
		m, err := a.view.Message(i)
		if err != nil {
			continue
		}
		t := m.Text()
		for _, p := range m.Parts {
			if c, ok := p.(session.ToolCall); ok {
				t += "\n" + c.Name + " " + c.Arguments
			}
		}
		size += len(t)
		list = append(list, t)
	}
	slices.Reverse(list)
	return strings.Join(list, "\n")
}

// laterRead is how many messages at each end of what follows a span are looked at.
const laterRead = 200

// later returns the calls and the words of the agent that stay visible behind the
// beginning of the span: those that are kept, those next to it and the newest.
func (a *attempt) later() []summarize.Carried {
	var out []summarize.Carried
	add := func(i int) {
		n := a.view.Node(i)
		if n.Role() != session.RoleAssistant {
			return
		}
		m, err := a.view.Message(i)
		if err != nil {
			return
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case session.Text:
				out = append(out, summarize.Carried{Seq: n.Seq, Arguments: p.Text})
			case session.ToolCall:
				out = append(out, summarize.Carried{Seq: n.Seq, Tool: p.Name, Arguments: p.Arguments})
			}
		}
	}
	for _, q := range a.span.keep {
		if i, err := a.view.Position(q); err == nil {
			add(i)
		}
	}
	for i := a.span.end; i < a.view.Len(); i++ {
		if i == a.span.end+laterRead {
			i = max(i, a.view.Len()-laterRead)
		}
		add(i)
	}
	return out
}

// said returns the user's messages that stay visible as they are: those of the
// span that are kept, and those near it and at the tail.
func (a *attempt) said() []string {
	var out []string
	add := func(i int) {
		if n := a.view.Node(i); n.Role() == session.RoleUser && n.Source().Kind == session.SourceUser {
			if m, err := a.view.Message(i); err == nil {
				out = append(out, m.Text())
			}
		}
	}
	for _, q := range a.span.keep {
		if i, err := a.view.Position(q); err == nil {
			add(i)
		}
	}
	for i, size := a.span.start-1, 0; i >= 0 && size < tailBytes; i-- {
		add(i)
		size += 4 * int(a.view.Node(i).Tokens)
	}
	for i, size := a.view.Len()-1, 0; i >= a.span.end && size < tailBytes; i-- {
		add(i)
		size += 4 * int(a.view.Node(i).Tokens)
	}
	return out
}

// offload hands the folded text to the host and returns where it can be found,
// empty when it was not stored.
func (a *attempt) offload(ctx context.Context) string {
	var b strings.Builder
	keep := setOf(a.span.keep)
	for i := a.span.start; i < a.span.end; i++ {
		n := a.view.Node(i)
		if keep[n.Seq] {
			continue
		}
		m, err := a.view.Message(i)
		if err != nil {
			a.e.opts.Logger.Warn("folded text was not stored", "id", a.id, "error", err)
			return ""
		}
		_, m = original(a.view, n, m)
		writeTranscript(&b, n.Seq, m)
	}
	text, _ := a.e.opts.Redactor.Redact(b.String())
	name, err := a.e.opts.Offload(ctx, a.id, []byte(text))
	if err != nil {
		a.e.opts.Logger.Warn("folded text was not stored", "id", a.id, "error", err)
		return ""
	}
	return name
}

func writeTranscript(b *strings.Builder, seq session.Seq, m *session.Message) {
	b.WriteString("--- event " + seqText(seq) + " " + string(m.Role) + "\n")
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Text:
			b.WriteString(p.Text + "\n")
		case session.ToolCall:
			b.WriteString("call " + p.Name + " " + p.Arguments + "\n")
		case session.ToolResult:
			b.WriteString(session.TextOf(p.Parts) + "\n")
		case session.Image:
			b.WriteString("[image]\n")
		case session.File:
			b.WriteString("[file " + p.Name + "]\n")
		}
	}
}

type progressKey struct{}

// WithProgress returns a context in which a summarizer's progress is told to
// fn, which must return at once.
func WithProgress(ctx context.Context, fn func(summarize.Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, fn)
}

func progressOf(ctx context.Context) func(summarize.Progress) {
	fn, _ := ctx.Value(progressKey{}).(func(summarize.Progress))
	return fn
}
