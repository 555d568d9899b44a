package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
)

// file is a rollout file.
type file struct {
	data  []byte
	notes []string

	history     []step // what the agent would send
	checkpoints []wire.Checkpoint
	refs        []string // compaction ids, as many as checkpoints
	side        int
	provider    string
	model       string
	base        string // base instructions
	meta        bool   // session_meta was seen
	fresh       bool   // the next item begins a message
	last        line   // the last record
	items       int    // message, call and output items of the file
	calls       int
	outputs     int
	total       json.RawMessage // the last token count

	lead    []json.RawMessage // developer messages in the envelope
	entries []entry
	msgs    []session.Message
}

// entry is a live message: the items that it consists of.
type entry []json.RawMessage

// step is one item of the history, or a mark in it.
type step struct {
	item responses.Item
	time time.Time
	rec  []byte // the record, when the item is all of it
	// model is the one in force when the item was written.
	model string

	usage  *session.Usage  // a token count
	begins bool            // a message begins here, whatever stands before
	source *session.Source // what our mark says
	ref    string          // the compaction that it is the checkpoint of
}

func (f *file) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *file) read(ctx context.Context) (*wire.Conversation, error) {
	known, bad, first, odd := false, 0, 0, 0
	for v := range jsonl.Values(f.data) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l, ok := parse(v)
		switch {
		case v.Torn():
			f.note("line %d: the last record is cut short and was passed over", v.Line)
			continue
		case v.Err == nil && !v.IsObject():
			odd++
			continue
		case !ok:
			if bad++; bad == 1 {
				first = v.Line
			}
			continue
		}
		known = f.record(&l) || known
		f.last = l
	}
	if !known {
		return nil, &wire.Error{Format: Format, Line: max(first, 1),
			Detail: `no record of a rollout found; expected one JSON object a line with "timestamp", "type" and "payload"`}
	}
	if bad > 0 {
		f.note("%d lines are not JSON and were passed over, the first is line %d", bad, first)
	}
	if odd > 0 {
		f.note("%d values are not objects and were passed over", odd)
	}
	return f.conversation(), nil
}

// record takes in one record and reports whether it is one of the format.
func (f *file) record(l *line) bool {
	switch {
	case l.Payload == nil && l.isBareMeta():
	case l.isBareItem():
		f.item(l.raw, l)
	case !knownTypes[l.Type] || l.Payload == nil:
		return false
	case l.Type == typeItem:
		f.item(l.Payload, l)
	case l.Type == typeCompacted:
		f.compacted(l)
	case l.Type == typeEvent:
		f.event(l)
	case l.Type == typeMeta && !f.meta:
		f.meta = true
		var p struct {
			Provider string          `json:"model_provider"`
			Base     json.RawMessage `json:"base_instructions"`
		}
		if lenient(json.Unmarshal(l.Payload, &p)) {
			f.provider = p.Provider
			var base struct {
				Text string `json:"text"`
			}
			if json.Unmarshal(p.Base, &f.base) != nil && json.Unmarshal(p.Base, &base) == nil {
				f.base = base.Text
			}
		}
	case l.Type == typeContext:
		var p struct {
			Model string `json:"model"`
		}
		if lenient(json.Unmarshal(l.Payload, &p)) && p.Model != "" {
			f.model = p.Model
		}
	}
	return true
}

func (f *file) item(raw json.RawMessage, l *line) {
	it, ok := responses.Decode(raw)
	if !ok {
		f.note("line %d: an item without type was passed over", l.num)
		return
	}
	for _, p := range it.Parts {
		switch p.(type) {
		case session.ToolCall:
			f.items, f.calls = f.items+1, f.calls+1
		case session.ToolResult:
			f.items, f.outputs = f.items+1, f.outputs+1
		}
	}
	if it.Type == responses.TypeMessage {
		f.items++
	}
	f.history = append(f.history, step{item: it, time: l.time(), rec: l.raw, model: f.model, begins: f.fresh})
	f.fresh = false
}

// event looks at the events that say something of the conversation.
func (f *file) event(l *line) {
	var p struct {
		Type string `json:"type"`
		Info struct {
			Total json.RawMessage `json:"total_token_usage"`
			Last  *struct {
				Input     int `json:"input_tokens"`
				Cached    int `json:"cached_input_tokens"`
				Write     int `json:"cache_write_input_tokens"`
				Output    int `json:"output_tokens"`
				Reasoning int `json:"reasoning_output_tokens"`
			} `json:"last_token_usage"`
		} `json:"info"`
		Turns int `json:"num_turns"`
	}
	if !lenient(json.Unmarshal(l.Payload, &p)) {
		return
	}
	switch p.Type {
	case "token_count":
		u := p.Info.Last
		// The event is repeated when only the rate limits changed.
		if u == nil || p.Info.Total != nil && string(p.Info.Total) == string(f.total) {
			return
		}
		f.total = p.Info.Total
		f.history = append(f.history, step{usage: &session.Usage{
			Node: session.NoSeq, Prompt: u.Input, Completion: u.Output, CacheRead: u.Cached, CacheWrite: u.Write, Reasoning: u.Reasoning,
			Provider: f.route(), Model: f.model,
		}})
	case "thread_rolled_back":
		f.rollBack(p.Turns)
	}
}

func (f *file) route() string {
	if f.provider == "" {
		return "openai"
	}
	return f.provider
}

// rollBack drops the last n turns.
func (f *file) rollBack(n int) {
	cut := len(f.history)
	for i := len(f.history) - 1; i >= 0 && n > 0; i-- {
		if f.history[i].isPrompt() {
			cut = i
			n--
		}
	}
	f.side += count(f.history[cut:])
	f.history = f.history[:cut]
}

// isPrompt reports whether a user typed the item.
func (s *step) isPrompt() bool {
	if s.usage != nil || s.ref != "" || s.item.Role != session.RoleUser || len(s.item.Parts) == 0 {
		return false
	}
	if s.source != nil {
		return s.source.Kind == session.SourceUser
	}
	return s.item.Type == responses.TypeMessage && source(s.item).Kind == session.SourceUser
}

// count is how many messages the steps make.
func count(steps []step) int {
	var b responses.Builder
	for n, s := range steps {
		switch {
		case s.usage != nil:
			b.End()
		case s.item.Type != responses.TypeSnapshot && len(s.item.Parts) > 0:
			b.Add(s.item, n)
		}
	}
	return len(b.Messages)
}

// message is a live message with what the file says of it.
type message struct {
	wire.Entry
	items []json.RawMessage
	ref   string
}

// group makes messages of the history. lead are the developer messages at its
// beginning.
func (f *file) group() (lead []step, live []message) {
	h := f.history
	for len(h) > 0 && (h[0].item.Type == responses.TypeSnapshot || h[0].usage == nil && h[0].source == nil &&
		(h[0].item.Role == session.RoleDeveloper || h[0].item.Role == session.RoleSystem)) {
		if h[0].item.Type != responses.TypeSnapshot {
			lead = append(lead, h[0])
		}
		h = h[1:]
	}
	var b responses.Builder
	var pending *session.Usage
	usage := map[int]*session.Usage{}
	first := map[int]*step{}
	for n := range h {
		s := &h[n]
		if s.usage != nil {
			// The count stands before the items of its response in old files and
			// after them in new ones.
			k := len(b.Messages) - 1
			if b.Open() != nil && usage[k] == nil {
				usage[k] = s.usage
			} else {
				pending = s.usage
			}
			b.End()
			continue
		}
		if s.item.Type == responses.TypeSnapshot || len(s.item.Parts) == 0 {
			continue
		}
		if s.begins {
			b.End()
		}
		if _, began := b.Add(s.item, n); began {
			k := len(b.Messages) - 1
			first[k] = s
			switch s.item.Role {
			case session.RoleAssistant:
				usage[k], pending = pending, nil
			case session.RoleTool:
			default:
				pending = nil
			}
		}
	}
	for k, g := range b.Messages {
		s := first[k]
		m := message{Entry: wire.Entry{Message: g.Message, Time: s.time, Usage: usage[k]}, ref: s.ref}
		for _, n := range g.Items {
			m.items = append(m.items, h[n].item.Raw)
		}
		if len(g.Items) == 1 && s.rec != nil {
			m.Message.Origin = &session.Origin{Format: Format, Raw: s.rec}
		}
		src := &m.Message.Source
		switch {
		case s.ref != "":
			*src = compact.CheckpointSource(s.ref)
		case m.Message.Role == session.RoleUser, m.Message.Role == session.RoleDeveloper, m.Message.Role == session.RoleSystem:
			*src = source(s.item)
		case m.Message.Role == session.RoleAssistant:
			src.Provider, src.Model = f.route(), s.model
		}
		if s.source != nil {
			derived := *src
			if *src = *s.source; m.Message.Validate() != nil {
				*src = derived
			}
		}
		live = append(live, m)
	}
	return lead, live
}

func (f *file) conversation() *wire.Conversation {
	lead, live := f.group()
	conv := &wire.Conversation{Side: f.side}
	conv.Envelope.Provider, conv.Envelope.Model = f.route(), f.model
	system := func(role session.Role, parts []session.Part, src session.Source) {
		conv.Envelope.System = append(conv.Envelope.System, session.Message{Role: role, Parts: parts, Source: src})
	}
	if f.base != "" {
		system(session.RoleSystem, []session.Part{session.Text{Text: f.base}}, session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: FormContext})
	}
	for _, s := range lead {
		system(s.item.Role, s.item.Parts, source(s.item))
		f.lead = append(f.lead, s.item.Raw)
	}
	for _, m := range live {
		conv.Entries = append(conv.Entries, m.Entry)
		f.entries = append(f.entries, m.items)
		f.msgs = append(f.msgs, m.Message)
		for k, ref := range f.refs {
			if m.ref != "" && m.ref == ref {
				f.checkpoints[k].Entry = len(conv.Entries) - 1
			}
		}
	}
	conv.Checkpoints = f.checkpoints
	return conv
}
