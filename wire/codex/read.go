package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
)

// file is a rollout file.
type file struct {
	text  *jsonl.File
	notes []string
	err   error // why a part of the file could not be read again

	history     []step // what the agent would send
	checkpoints []wire.Checkpoint
	refs        []string // compaction ids, as many as checkpoints
	side        int
	provider    string
	models      []string // that were in force; the first is none
	model       int32    // the one in force, in models
	base        string   // base instructions
	meta        bool     // session_meta was seen
	fresh       bool     // the next item begins a message
	last        time.Time
	ordinal     *int64          // of the last record
	total       json.RawMessage // the last token count

	items, calls, outputs int // message, call and output items of the file

	lead []step    // developer messages in the envelope
	live []message // the conversation's entries
}

// step is one item of the history, or a mark in it. What the item says is read
// again when it is needed.
type step struct {
	// ref is where the item stands, or the record that it is all of.
	ref  jsonl.Ref
	hash uint64 // of the item's bytes
	// model is the one in force when the item was written, in the file's models.
	model int32
	said  int32 // how many bytes of text the item has
	role  role
	kind  kind
	// record tells that ref is that of the record.
	record bool
	empty  bool // it has no parts
	// typed tells that a user typed it, as far as the item tells.
	typed  bool
	begins bool // a message begins here, whatever stands before
	// rare is what few steps have; nil for most.
	rare *rare
}

// role is who speaks.
type role byte

const (
	roleUser role = iota
	roleAssistant
	roleTool
	roleDeveloper
	roleSystem
)

func roleOf(r session.Role) role {
	switch r {
	case session.RoleAssistant:
		return roleAssistant
	case session.RoleTool:
		return roleTool
	case session.RoleDeveloper:
		return roleDeveloper
	case session.RoleSystem:
		return roleSystem
	}
	return roleUser
}

// instructs reports whether the message is of a developer or the system.
func (r role) instructs() bool { return r == roleDeveloper || r == roleSystem }

// kind is what an item is to the conversation.
type kind byte

const (
	kindItem kind = iota
	kindMessage
	kindCompaction
	kindSnapshot
	kindUsage // a token count; ref is that of its record
)

// rare is what few steps have.
type rare struct {
	source *session.Source // what our mark says
	ref    string          // the compaction that it is the checkpoint of
	made   json.RawMessage // an item that is not in the file
	time   time.Time       // of an item without a record of its own
}

var none rare

// more is what few steps have, for reading.
func (s *step) more() *rare {
	if s.rare == nil {
		return &none
	}
	return s.rare
}

// set is what few steps have, for writing. Steps are copied, so the copy gets
// its own.
func (s *step) set(fn func(*rare)) {
	r := *s.more()
	fn(&r)
	s.rare = &r
}

func (f *file) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *file) read(ctx context.Context) (*wire.Conversation, error) {
	notes, err := logfile.Scan(ctx, Format, f.text, `one JSON object a line with "timestamp", "type" and "payload"`, func(v jsonl.Value) bool {
		l, _ := parse(v) // it is an object
		known := f.record(&l)
		f.last, f.ordinal = l.time(), l.Ordinal
		return known
	})
	if err != nil {
		return nil, err
	}
	f.notes = append(f.notes, notes...)
	conv, err := f.conversation()
	if err == nil {
		err = f.err
	}
	return conv, err
}

// record takes in one record and reports whether it is one of the format.
func (f *file) record(l *line) bool {
	switch {
	case l.Payload == nil && l.isBareMeta():
	case l.isBareItem():
		f.item(l)
	case !knownTypes[l.Type] || l.Payload == nil:
		return false
	case l.Type == typeItem:
		f.item(l)
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
			f.setModel(p.Model)
		}
	}
	return true
}

var seed = maphash.MakeSeed()

// newStep makes the step of an item. Where it stands is the caller's to set.
func (f *file) newStep(it responses.Item) step {
	s := step{hash: maphash.Bytes(seed, it.Raw), model: f.model, role: roleOf(it.Role), empty: len(it.Parts) == 0}
	switch it.Type {
	case responses.TypeMessage:
		s.kind = kindMessage
	case responses.TypeCompaction:
		s.kind = kindCompaction
	case responses.TypeSnapshot:
		s.kind = kindSnapshot
	}
	if s.role == roleUser && s.kind == kindMessage {
		s.typed, s.said = source(it).Kind == session.SourceUser, int32(len(session.TextOf(it.Parts)))
	}
	return s
}

func (f *file) item(l *line) {
	it, ok := responses.Decode(l.item())
	if !ok {
		f.note("line %d: an item without type was passed over", l.at.Line)
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
	s := f.newStep(it)
	s.ref, s.record, s.begins = f.text.Ref(l.at), true, f.fresh
	f.history = append(f.history, s)
	f.fresh = false
}

// setModel sets the model in force.
func (f *file) setModel(name string) {
	n := slices.Index(f.models, name)
	if n < 0 {
		n, f.models = len(f.models), append(f.models, name)
	}
	f.model = int32(n)
}

// report is an event that says something of the conversation.
type report struct {
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

func (f *file) event(l *line) {
	var p report
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
		f.history = append(f.history, step{kind: kindUsage, ref: f.text.Ref(l.at), model: f.model})
	case "thread_rolled_back":
		f.rollBack(p.Turns)
	}
}

// usage reads a token count again.
func (f *file) usage(s *step) (*session.Usage, error) {
	raw, err := f.text.Load(s.ref)
	if err != nil {
		return nil, &wire.Error{Format: Format, Offset: s.ref.Offset(), Detail: "the token count could not be read again", Err: err}
	}
	l, _ := parse(jsonl.Value{Raw: raw}) // it was parsed before
	var p report
	_ = json.Unmarshal(l.Payload, &p)
	u := p.Info.Last
	if u == nil {
		return nil, nil // unreachable: it was there before
	}
	return &session.Usage{
		Node: session.NoSeq, Prompt: u.Input, Completion: u.Output, CacheRead: u.Cached, CacheWrite: u.Write, Reasoning: u.Reasoning,
		Provider: f.route(), Model: f.models[s.model],
	}, nil
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
	r := s.more()
	if s.kind == kindUsage || r.ref != "" || s.role != roleUser || s.empty {
		return false
	}
	if r.source != nil {
		return r.source.Kind == session.SourceUser
	}
	return s.typed
}

// speaks reports whether the step is a part of a message.
func (s *step) speaks() bool { return s.kind != kindUsage && s.kind != kindSnapshot && !s.empty }

// count is how many messages the steps make.
func count(steps []step) int {
	n, open := 0, false
	for i := range steps {
		s := &steps[i]
		if s.speaks() {
			if !open || s.role != roleAssistant {
				n++
			}
			open = s.role == roleAssistant
		}
		open = open && s.kind != kindUsage
	}
	return n
}

// message is a live message: the steps of the history from the first to the one
// before to that speak.
type message struct {
	first, to int32
	usage     int32 // the step with its token count; -1 when there is none
}

// group makes messages of the history. lead are the developer messages at its
// beginning.
func (f *file) group() (lead []step, live []message) {
	n := 0
	for ; n < len(f.history); n++ {
		s := &f.history[n]
		if s.kind == kindSnapshot {
			continue
		}
		if s.kind == kindUsage || s.more().source != nil || !s.role.instructs() {
			break
		}
		lead = append(lead, *s)
	}
	pending := int32(-1)
	open := false // the last message is the model's, and may go on
	for ; n < len(f.history); n++ {
		s := &f.history[n]
		if s.kind == kindUsage {
			// The count stands before the items of its response in old files and
			// after them in new ones.
			if k := len(live) - 1; open && live[k].usage < 0 {
				live[k].usage = int32(n)
			} else {
				pending = int32(n)
			}
			open = false
			continue
		}
		if !s.speaks() {
			continue
		}
		model := s.role == roleAssistant
		if open && model && !s.begins {
			live[len(live)-1].to = int32(n + 1)
			continue
		}
		m := message{first: int32(n), to: int32(n + 1), usage: -1}
		switch {
		case model:
			m.usage, pending = pending, -1
		case s.role != roleTool:
			pending = -1
		}
		live = append(live, m)
		open = model
	}
	return lead, live
}

// decode reads the item of a step again, with the record and the time.
func (f *file) decode(s *step) (it responses.Item, record json.RawMessage, at time.Time, err error) {
	r := s.more()
	raw := r.made
	if raw == nil {
		if raw, err = f.text.Load(s.ref); err != nil {
			return it, nil, at, &wire.Error{Format: Format, Offset: s.ref.Offset(), Detail: "the item could not be read again", Err: err}
		}
	}
	if at = r.time; s.record {
		l, _ := parse(jsonl.Value{Raw: raw}) // it was parsed before
		record, raw, at = raw, l.item(), l.time()
	}
	it, _ = responses.Decode(raw)
	return it, record, at, nil
}

// raw reads the bytes of an item again.
func (f *file) raw(s *step) (json.RawMessage, error) {
	it, _, _, err := f.decode(s)
	return it.Raw, err
}

// entry reads the i-th live message.
func (f *file) entry(i int) (wire.Entry, error) {
	m := f.live[i]
	first := &f.history[m.first]
	var b responses.Builder
	var e wire.Entry
	var head responses.Item
	var record json.RawMessage
	for n := m.first; n < m.to; n++ {
		s := &f.history[n]
		if !s.speaks() {
			continue
		}
		it, rec, at, err := f.decode(s)
		if err != nil {
			return wire.Entry{}, err
		}
		if b.Add(it, int(n)); n == m.first {
			head, record, e.Time = it, rec, at
		}
	}
	e.Message = b.Messages[0].Message
	if m.usage >= 0 {
		var err error
		if e.Usage, err = f.usage(&f.history[m.usage]); err != nil {
			return wire.Entry{}, err
		}
	}
	if len(b.Messages[0].Items) == 1 && record != nil {
		e.Message.Origin = &session.Origin{Format: Format, Raw: record}
	}
	r, src := first.more(), &e.Message.Source
	switch {
	case r.ref != "":
		*src = compact.CheckpointSource(r.ref)
	case first.role == roleUser, first.role.instructs():
		*src = source(head)
	case first.role == roleAssistant:
		src.Provider, src.Model = f.route(), f.models[first.model]
	}
	if r.source != nil {
		derived := *src
		if *src = *r.source; e.Message.Validate() != nil {
			*src = derived
		}
	}
	return e, nil
}

// offset is where the first record of the i-th live message stands.
func (f *file) offset(i int) int64 {
	for n := f.live[i].first; n < f.live[i].to; n++ {
		if s := &f.history[n]; s.speaks() && s.more().made == nil {
			return s.ref.Offset()
		}
	}
	return -1
}

// itemsOf reads the items of a live message.
func (f *file) itemsOf(i int) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for n := f.live[i].first; n < f.live[i].to; n++ {
		if s := &f.history[n]; s.speaks() {
			raw, err := f.raw(s)
			if err != nil {
				return nil, err
			}
			out = append(out, raw)
		}
	}
	return out, nil
}

func (f *file) conversation() (*wire.Conversation, error) {
	f.lead, f.live = f.group()
	conv := &wire.Conversation{Side: f.side}
	conv.Envelope.Provider, conv.Envelope.Model = f.route(), f.models[f.model]
	system := func(role session.Role, parts []session.Part, src session.Source) {
		conv.Envelope.System = append(conv.Envelope.System, session.Message{Role: role, Parts: parts, Source: src})
	}
	if f.base != "" {
		system(session.RoleSystem, []session.Part{session.Text{Text: f.base}}, session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: FormContext})
	}
	for i := range f.lead {
		it, _, _, err := f.decode(&f.lead[i])
		if err != nil {
			return nil, err
		}
		system(it.Role, it.Parts, source(it))
	}
	for i, m := range f.live {
		ref := f.history[m.first].more().ref
		for k := range f.refs {
			if ref != "" && ref == f.refs[k] {
				f.checkpoints[k].Entry = i
			}
		}
	}
	conv.Checkpoints = f.checkpoints
	conv.Leave(len(f.live), f.entry)
	conv.Locate(f.offset)
	return conv, nil
}
