package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

// FormCheckpoint: a checkpoint whose span is missing, as a plain message.
const FormCheckpoint = "checkpoint"

// RepairSession repairs a session of our own format by the least change that a
// log takes: it appends, and nothing of the log changes. Where one message takes
// the place of another, that is a replacement. Where results are to stand
// between messages, the calling message and what follows it give way to the same
// messages, in order and with the results; their originals can be restored like
// anything else that is hidden. What is pinned, running, or a checkpoint is not
// laid anew like that; a repair that would have to is left. Give it a copy where
// the log itself is to stay as it is. now decides which open attempts are stale.
//
// An error leaves the session with the repairs that were made before it.
func RepairSession(ctx context.Context, s *session.Session, now time.Time, opts *Options) (*Repaired, error) {
	if opts == nil {
		opts = &Options{}
	}
	o := &surgeon{ctx: ctx, s: s, opts: opts, now: now, out: &Repaired{}}
	for _, step := range []func() error{o.text, o.checkpoints, o.pairs, o.attempts} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("repair session: %w", err)
		}
	}
	list, err := DiagnoseSession(ctx, s.View(), now)
	if err != nil {
		return nil, err
	}
	o.out.left(list)
	return o.out, nil
}

// surgeon repairs a session.
type surgeon struct {
	ctx  context.Context
	s    *session.Session
	opts *Options
	now  time.Time
	out  *Repaired
}

// put puts a message in the place of an event of the surface.
func (o *surgeon) put(seq session.Seq, m *session.Message) error {
	_, err := o.s.Record(o.ctx, session.Replace{Start: seq, End: seq, Message: *m})
	return err
}

func note(text string) *session.Message {
	return &session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: text}},
		Source: session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: FormNote}}
}

// text replaces bytes that are not UTF-8.
func (o *surgeon) text() error {
	c, seqs := surface(o.s.View())
	for i := range c.Len() {
		e, err := c.At(i)
		if err != nil {
			return err
		}
		if validUTF8(&e.Message) {
			continue
		}
		m := e.Message.Clone()
		m.Origin = nil
		for k, p := range m.Parts {
			if t, ok := p.(session.Text); ok {
				t.Text = strings.ToValidUTF8(t.Text, "\uFFFD")
				m.Parts[k] = t
			}
		}
		if err := o.put(seqs[i], m); err != nil {
			return err
		}
		o.did(InvalidUTF8, i, seqs[i], "", "replaced by U+FFFD: bytes that are not UTF-8")
	}
	return nil
}

func (o *surgeon) did(kind Kind, i int, seq session.Seq, id, format string, args ...any) {
	o.out.Changes = append(o.out.Changes, Change{Kind: kind, Conversation: 1, Message: i + 1, CallID: id,
		Detail: fmt.Sprintf(format, args...) + fmt.Sprintf(" (seq %d)", seq)})
}

// checkpoints makes those without their span plain messages.
func (o *surgeon) checkpoints() error {
	if !o.opts.PlainCheckpoints {
		return nil
	}
	v := o.s.View()
	for i := range v.Len() {
		n := v.Node(i)
		if !compact.IsCheckpointSource(n.Source()) || n.IsReplacement() {
			continue
		}
		m, err := v.Message(i)
		if err != nil {
			return err
		}
		m = m.Clone()
		m.Source = session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: FormCheckpoint, Ref: n.Source().Ref}
		if err := o.put(n.Seq, m); err != nil {
			return err
		}
		o.did(SpanMissing, i, n.Seq, "", "the checkpoint is a plain message now, with the same text")
	}
	return nil
}

// pairs repairs ids and the pairing of calls and results.
func (o *surgeon) pairs() error {
	v := o.s.View()
	c, seqs := surface(v)
	p := &patient{c: c, opts: o.opts, format: ownFormat}
	items, err := p.surface(v)
	if err != nil || len(p.changes) == 0 {
		return err
	}
	bodies, err := o.lay(v, c, seqs, items)
	if err != nil || bodies == nil {
		return err // without events, it is among what is left
	}
	if _, err := o.s.Record(o.ctx, bodies...); err != nil {
		if errors.Is(err, session.ErrPinned) || errors.Is(err, session.ErrRunning) {
			return nil
		}
		return err
	}
	for _, ch := range p.changes {
		ch.Detail += fmt.Sprintf(" (seq %d)", seqs[ch.Message-1])
		o.out.Changes = append(o.out.Changes, ch)
	}
	return nil
}

// lay returns the events that make the surface what items say; none when no
// events do.
func (o *surgeon) lay(v session.View, c *wire.Conversation, seqs []session.Seq, items []wire.Item) ([]session.Body, error) {
	var failed error
	message := func(it wire.Item) session.Message {
		if it.Message != nil {
			return *it.Message
		}
		e, err := c.At(it.Entry)
		failed = cmp.Or(failed, err)
		return e.Message
	}
	role := func(it wire.Item) session.Role {
		if it.Message != nil {
			return it.Message.Role
		}
		return v.Node(it.Entry).Role()
	}
	from, replaced, simple := len(seqs), []session.Body(nil), len(items) >= len(seqs)
	for i := range seqs {
		if i < len(items) && items[i].Entry == i && items[i].Message == nil {
			continue
		}
		from = min(from, i)
		if simple = simple && (items[i].Entry == i || items[i].Entry < 0) && role(items[i]) != session.RoleTool; simple {
			replaced = append(replaced, session.Replace{Start: seqs[i], End: seqs[i], Message: message(items[i])})
		}
	}
	if simple { // one message in the place of another, and more at the end
		for _, it := range items[len(seqs):] {
			replaced = append(replaced, session.Append{Message: message(it)})
		}
		return replaced, failed
	}
	for from > 0 && (from >= len(items) || role(items[from]) == session.RoleTool) {
		from-- // a result takes no other message's place
	}
	for i := from; i < len(seqs); i++ {
		if n := v.Node(i); compact.IsCheckpointSource(n.Source()) {
			return nil, failed
		}
	}
	bodies := []session.Body{session.Replace{Start: seqs[from], End: seqs[len(seqs)-1], Message: message(items[from])}}
	for _, it := range items[from+1:] {
		bodies = append(bodies, session.Append{Message: message(it)})
	}
	return bodies, failed
}

// attempts ends compactions whose process died.
func (o *surgeon) attempts() error {
	h := compact.HistoryAt(o.s.View())
	a := h.Open()
	if a == nil {
		return nil
	}
	kind := leaseKind(a, o.now)
	if kind == OpenAttempt && !o.opts.CloseRunning {
		return nil
	}
	data, err := json.Marshal(compact.EndEvent{ID: a.Start.ID, Code: compact.Cancelled, Error: "it never ended; closed by " + Plugin})
	if err != nil {
		return err
	}
	_, err = o.s.Update(o.ctx, func(v session.View) ([]session.Body, error) {
		h := compact.HistoryAt(v)
		if b := h.Open(); b == nil || b.Start.ID != a.Start.ID {
			return nil, errors.New("another compaction began meanwhile")
		}
		return []session.Body{session.Raw{Type: compact.TypeEnd, Data: data, Ignorable: true}}, nil
	})
	if err == nil {
		o.out.Changes = append(o.out.Changes, Change{Kind: kind, Conversation: 1,
			Detail: fmt.Sprintf("the compaction %s was ended as canceled (seq %d)", a.Start.ID, a.StartSeq)})
	}
	return err
}

// leaseKind says whether an attempt that has no end is stale.
func leaseKind(a *compact.Attempt, now time.Time) Kind {
	if u := a.Start.Holder.Until; !u.IsZero() && now.After(u) {
		return StaleLease
	}
	return OpenAttempt
}
