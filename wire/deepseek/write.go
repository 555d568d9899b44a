package deepseek

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

func (e *event) usage(src session.Source) *session.Usage {
	var d struct {
		Usage *struct {
			Input     int `json:"inputTokens"`
			Output    int `json:"outputTokens"`
			CacheRead int `json:"cacheReadTokens"`
			Reasoning int `json:"reasoningTokens"`
		} `json:"usage"`
	}
	if !splice.Lenient(json.Unmarshal(e.Data, &d)) || d.Usage == nil || d.Usage.Input == 0 && d.Usage.Output == 0 {
		return nil
	}
	u := d.Usage
	return &session.Usage{Node: session.NoSeq, Prompt: u.Input + u.CacheRead, Completion: u.Output, CacheRead: u.CacheRead, Reasoning: u.Reasoning,
		Provider: src.Provider, Model: src.Model}
}

// summaryID is the compaction id of the k-th checkpoint.
func (f *file) summaryID(k int) string { return f.ids[k] }

// op is one change of the surface: a message that replaces the entries from to
// to-1, or is appended when there are none.
type op struct {
	item     wire.Item
	from, to int
}

// plan says the items in operations; false when only a full replacement can.
func (f *file) plan(items []wire.Item) ([]op, bool) {
	var ops []op
	var pending []wire.Item
	next := 0
	gap := func(until int) bool {
		switch {
		case until == next && len(pending) == 0:
			return true
		case until > next && len(pending) == 1:
			ops = append(ops, op{pending[0], next, until})
			pending = nil
			return true
		}
		return false
	}
	for _, it := range items {
		if it.Entry < 0 {
			pending = append(pending, it)
			continue
		}
		if !gap(it.Entry) {
			return nil, false
		}
		if next = it.Entry + 1; it.Message != nil {
			if it.Message.Role != f.live[it.Entry].role {
				return nil, false
			}
			ops = append(ops, op{it, it.Entry, next})
		}
	}
	if next < len(f.live) {
		if len(pending) == 0 {
			return nil, false
		}
		ops = append(ops, op{pending[0], next, len(f.live)})
		pending = pending[1:]
	}
	for _, it := range pending {
		ops = append(ops, op{item: it})
	}
	return ops, true
}

// tail makes the events that say what the surface is.
func (f *file) tail(ctx context.Context, items []wire.Item) ([]rawjson.Object, error) {
	ops, ok := f.plan(items)
	if !ok {
		ops = []op{{items[0], 0, len(f.live)}}
		for _, it := range items[1:] {
			ops = append(ops, op{item: it})
		}
	}
	ids, err := marks.NewFileIDs(ctx, items, f.text, nil)
	if err != nil {
		return nil, err
	}
	t := &tailer{f: f, ids: ids, next: f.next}
	for _, o := range ops {
		if err := t.op(o); err != nil {
			return nil, err
		}
	}
	return t.out, nil
}

type tailer struct {
	f    *file
	ids  *marks.IDs
	next int
	out  []rawjson.Object
}

func (t *tailer) event(kind string, data any, more ...rawjson.Field) {
	o := rawjson.Object{}
	o.Set("type", kind)
	o.Set("data", data)
	o = append(o, more...)
	t.out = append(t.out, o)
	t.next++
}

func (t *tailer) op(o op) error {
	f := t.f
	var seqs []int
	for _, e := range f.live[o.from:o.to] {
		seqs = append(seqs, e.seq)
	}
	surface := rawjson.Field{Name: "surfaceOp", Value: rawjson.Marshal("append")}
	var more []rawjson.Field
	if len(seqs) > 0 {
		r := rawjson.Object{}
		r.Set("op", "replace")
		r.Set("start", seqs[0])
		r.Set("end", seqs[len(seqs)-1])
		surface.Value = r.Bytes()
		more = append(more, rawjson.Field{Name: "sourceEventSeqs", Value: rawjson.Marshal(seqs)})
	}
	more = append([]rawjson.Field{surface}, more...)
	kind, data, err := t.message(o.item)
	if err != nil {
		return err
	}
	c := o.item.Compaction
	if c == nil {
		t.event(kind, data, more...)
		return nil
	}
	start := rawjson.Object{}
	start.Set("compactionId", c.ID)
	if f.turn != nil {
		start.Set("turn", f.turn)
	}
	t.event("compaction/start", start)
	sum := rawjson.Object{}
	sum.Set("compactionId", c.ID)
	text := c.Narrative
	if text == "" {
		text = o.item.Message.Text()
	}
	sum.Set("summary", []json.RawMessage{encode(session.Text{Text: text})})
	if len(seqs) > 0 {
		sum.Set("shadowedRange", map[string]int{"start": seqs[0], "end": seqs[len(seqs)-1]})
	}
	shadowed := []int{}
	for _, e := range c.Shadowed {
		if e >= 0 && e < len(f.live) {
			shadowed = append(shadowed, f.live[e].seq)
		}
	}
	sum.Set("shadowedSeqs", shadowed)
	sum.Set("shadowedTokenCount", max(c.TokensBefore-c.TokensAfter, 0))
	sum.Set(marks.Field, marks.Of(o.item.Message, c, compact.CheckpointSource(c.ID)))
	t.event(typeSummary, sum)
	t.event(kind, data, more...)
	end := rawjson.Object{}
	end.Set("compactionId", c.ID)
	t.event("compaction/end", end)
	return nil
}

// message makes the type and data of the event of a message.
func (t *tailer) message(it wire.Item) (string, rawjson.Object, error) {
	f, m := t.f, it.Message
	var msg rawjson.Object
	if it.Entry >= 0 {
		e, was, err := f.load(f.live[it.Entry])
		if err != nil {
			return "", nil, err
		}
		msg, _ = rawjson.Parse(e.rawMessage()) // it was read
		if m == nil {
			m = &was
		} else if m.Role == was.Role {
			msg.Set("content", content(m.Parts))
			msg.Set("source", source(m))
		} else {
			msg = nil
		}
	}
	if msg == nil {
		if m.Role == session.RoleTool && len(m.Results()) != len(m.Parts) {
			return "", nil, &wire.Error{Format: Format, Detail: "a tool message holds more than results, which the format cannot hold; make the rest a user message"}
		}
		role := "user"
		if m.Role == session.RoleAssistant {
			role = "assistant"
		}
		msg.Set("role", role)
		msg.Set("content", content(m.Parts))
		msg.Set("source", source(m))
		msg.Set("id", t.ids.UUID())
	}
	wrapped := rawjson.Object{}
	if f.turn != nil {
		wrapped.Set("turn", f.turn)
	}
	wrapped.Set("message", msg)
	switch m.Role {
	case session.RoleAssistant:
		return typeAssistant, wrapped, nil
	case session.RoleTool:
		return typeResult, wrapped, nil
	case session.RoleUser:
		return typeUser, msg, nil
	}
	return "", nil, &wire.Error{Format: Format, Detail: fmt.Sprintf("a %s message cannot be written; make it a user message", m.Role)}
}

func source(m *session.Message) rawjson.Object {
	s := m.Source
	o := rawjson.Object{}
	o.Set("kind", s.Kind)
	set := func(name, v string) {
		if v != "" {
			o.Set(name, v)
		}
	}
	set("plugin", s.Plugin)
	if compact.IsCheckpointSource(s) {
		set("compactionId", s.Ref)
	} else {
		set("ref", s.Ref)
	}
	set("form", s.Form)
	set("provider", s.Provider)
	set("model", s.Model)
	if ids := m.Results(); len(ids) == 1 {
		set("callId", ids[0])
	}
	return o
}

func content(parts []session.Part) []json.RawMessage {
	list := []json.RawMessage{}
	for _, p := range parts {
		list = append(list, encode(p))
	}
	return list
}

func encode(p session.Part) json.RawMessage {
	o := rawjson.Object{}
	switch p := p.(type) {
	case session.Text:
		o.Set("type", "text")
		o.Set("text", p.Text)
	case session.Reasoning:
		if q, ok := decode(p.Raw).(session.Reasoning); ok && q.Text == p.Text && q.Signature == p.Signature {
			return p.Raw
		}
		o.Set("type", "reasoning")
		o.Set("text", p.Text)
		if p.Signature != "" {
			o.Set("signature", p.Signature)
		}
	case session.ToolCall:
		if q, ok := decode(p.Raw).(session.ToolCall); ok && q.ID == p.ID && q.Name == p.Name && q.Arguments == p.Arguments {
			return p.Raw
		}
		o.Set("type", "tool-call")
		o.Set("id", p.ID)
		o.Set("name", p.Name)
		o.Set("arguments", p.Arguments)
	case session.ToolResult:
		o.Set("type", "tool-result")
		o.Set("toolCallId", p.CallID)
		o.Set("content", content(p.Parts))
		o.Set("isError", p.IsError)
	case session.Image:
		if q, ok := decode(p.Raw).(session.Image); ok && q.URL == p.URL {
			return p.Raw
		}
		o.Set("type", "text")
		o.Set("text", "[image: "+splice.Clip(p.URL, 200)+"]")
	case session.File:
		o.Set("type", "text")
		o.Set("text", "[file: "+splice.Clip(p.Name+" "+p.MediaType, 200)+"]")
	case session.Opaque:
		return p.Raw
	}
	return o.Bytes()
}
