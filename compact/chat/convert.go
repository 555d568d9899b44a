package chat

import (
	"context"
	"encoding/json"
	"fmt"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/streamproc"
)

// conversation is the messages of one call as a session.
type conversation struct {
	in   []openai.ChatCompletionMessage
	o    *Options
	s    *session.Session
	lead int // leading system messages
	// at is the position in the input of a message of the session.
	at         map[session.Seq]int
	generation uint64 // when it was opened
}

// hidden is an event that stands for a message which an earlier call replaced,
// so that the numbers of messages go on from call to call.
const hidden session.Type = "chat/hidden"

// maxHidden bounds the events that stand for replaced messages.
const maxHidden = 1 << 20

// open makes a session of the messages, in memory.
func (c *conversation) open(ctx context.Context) error {
	env := session.Envelope{Provider: c.o.Provider, Model: c.o.Model, Tools: envelopeTools(c.o.Tools)}
	for c.lead < len(c.in) && isSystem(c.in[c.lead]) {
		env.System = append(env.System, openaiconv.Read(c.in[c.lead]))
		c.lead++
	}
	bodies := make([]session.Body, 1, len(c.in)+1)
	bodies[0] = session.SetEnvelope{Envelope: env}
	for i := c.lead; i < len(c.in); i++ {
		m := openaiconv.Read(c.in[i])
		if m.Role == session.RoleUser && c.o.Memory != nil {
			if r, ok := c.o.Memory.Find(m.Text()); ok {
				bodies = known(bodies, m, r)
				c.at[session.Seq(len(bodies)-2)] = i
				continue
			}
		}
		c.at[session.Seq(len(bodies))] = i
		bodies = append(bodies, session.Append{Message: m})
	}
	s, err := session.Open(ctx, session.NewMemoryStore(), &session.Options{Pricer: c.o.Pricer, Now: c.o.Engine.Now})
	if err != nil {
		return fmt.Errorf("compact messages: %w", err)
	}
	if _, err := s.Record(ctx, bodies...); err != nil {
		return fmt.Errorf("compact messages: %w", err)
	}
	c.s, c.generation = s, s.View().Generation()
	return nil
}

// known appends the events of a checkpoint that an earlier call made. The one
// before the last puts it on the surface.
func known(bodies []session.Body, m session.Message, r streamproc.Record) []session.Body {
	if r.End-session.Seq(len(bodies)) > maxHidden {
		r.End = 0 // no memory of ours says that
	}
	for session.Seq(len(bodies)) < r.End {
		bodies = append(bodies, session.Raw{Type: hidden, Ignorable: true, Data: json.RawMessage("{}")})
	}
	at := session.Seq(len(bodies))
	span := compact.Span{Start: at, End: at}
	ledger, err := json.Marshal(r.Ledger)
	if err != nil || r.Ledger == nil {
		ledger = nil
	}
	id := r.ID
	m.Source = compact.CheckpointSource(id)
	return append(bodies,
		session.Append{Message: session.UserText("hidden")},
		compact.Event(compact.StartEvent{ID: id, Trigger: compact.Now, Span: span, Holder: compact.Holder{Run: id}}),
		compact.Event(compact.SummaryEvent{ID: id, Summarizer: r.Summarizer, Text: r.Narrative, Ledger: ledger, Span: span,
			Seqs: compact.SeqSet{at}, Before: r.Before, After: r.After, Trigger: compact.Now}),
		session.Replace{Start: at, End: at, Message: m},
		compact.Event(compact.EndEvent{ID: id, Before: r.Before, After: r.After}))
}

// remember keeps what is known of the new checkpoint.
func (c *conversation) remember(text string, r *compact.Result) {
	if c.o.Memory == nil {
		return
	}
	rec := streamproc.Record{ID: r.ID, Narrative: r.Text, Start: r.Seqs[0], End: r.Checkpoint, Count: len(r.Seqs),
		Before: r.SpanBefore, After: r.SpanAfter, Summarizer: r.Summarizer}
	for _, q := range r.Seqs {
		rec.Start = min(rec.Start, q)
	}
	if ev, err := c.s.View().Event(r.Summary); err == nil {
		if p, err := compact.Decode(ev); err == nil {
			if sum, ok := p.(compact.SummaryEvent); ok && len(sum.Ledger) > 0 {
				_ = json.Unmarshal(sum.Ledger, &rec.Ledger) // a checkpoint without a ledger still stands
			}
		}
	}
	c.o.Memory.Add(text, rec)
}

func isSystem(m openai.ChatCompletionMessage) bool {
	return m.Role == openai.ChatMessageRoleSystem || m.Role == openai.ChatMessageRoleDeveloper
}

// envelopeTools returns the tools as an envelope has them.
func envelopeTools(in []openai.Tool) []session.Tool {
	var out []session.Tool
	for _, t := range in {
		raw, err := json.Marshal(t)
		if err != nil {
			continue // it could not be sent either
		}
		s := session.Tool{Raw: raw}
		if t.Function != nil {
			s.Name, s.Description = t.Function.Name, t.Function.Description
			if schema, err := json.Marshal(t.Function.Parameters); err == nil {
				s.Schema = schema
			}
		}
		out = append(out, s)
	}
	return out
}
