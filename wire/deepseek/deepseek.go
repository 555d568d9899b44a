// Package deepseek reads and writes the session log of the DeepSeek harness:
// JSONL, a header and one event a line. It follows version 0 of the log.
//
// # Reading
//
// The conversation is the log's surface: events with the surface operation
// "append" in their order, and where an event replaces a range, that event in
// its place. Streaming copies and bookkeeping are passed over. The number of an
// event is its own seq, or else its place behind the header. Of an opened file
// ([Codec.Open]) only the surface is in memory, some 50 bytes a message.
//
// # Writing
//
// The file only grows. A checkpoint is what the harness writes: compaction/start,
// compaction/summary, a user message that replaces the range, compaction/end. A
// message that changed replaces itself. A surface that cannot be said this way
// (a pinned message behind the checkpoint) replaces the whole range by its first
// message and appends the others as copies.
//
// # Lost
//
// Usage of copies and of messages that changed. Attachments are kept outside of
// the log and are given by their id.
package deepseek

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format.
const Format = "deepseek"

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Opener = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

const (
	typeSession   = "session"
	typeUser      = "user/message"
	typeAssistant = "assistant/message"
	typeResult    = "tool/result"
	typeSystem    = "system/message"
	typeHeader    = "request/header"
	typeSummary   = "compaction/summary"
)

type event struct {
	Type string          `json:"type"`
	ID   string          `json:"id"`
	Seq  *int            `json:"seq"`
	Time json.RawMessage `json:"time"`
	Data json.RawMessage `json:"data"`
	Op   json.RawMessage `json:"surfaceOp"`

	raw json.RawMessage
	seq int
}

type message struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Source  struct {
		Kind       string `json:"kind"`
		Plugin     string `json:"plugin"`
		Form       string `json:"form"`
		Ref        string `json:"ref"`
		Compaction string `json:"compactionId"`
		Provider   string `json:"provider"`
		Model      string `json:"model"`
		CallID     string `json:"callId"`
	} `json:"source"`
}

type block struct {
	Type       string          `json:"type"`
	Text       *string         `json:"text"`
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments"`
	CallID     string          `json:"toolCallId"`
	Content    json.RawMessage `json:"content"`
	IsError    bool            `json:"isError"`
	Signature  string          `json:"signature"`
	Attachment *struct {
		ID        string `json:"attachmentId"`
		MediaType string `json:"mediaType"`
		Bytes     int    `json:"bytes"`
		Width     int    `json:"width"`
		Height    int    `json:"height"`
	} `json:"attachment"`
}

func parse(raw json.RawMessage) (event, bool) {
	e := event{raw: raw}
	return e, splice.Lenient(json.Unmarshal(raw, &e)) && e.Type != ""
}

// Detect implements [wire.Codec].
func (Codec) Detect(head []byte, _ bool) wire.Confidence {
	seen, n := wire.No, 0
	for v := range jsonl.Values(head) {
		if n++; n > 100 {
			break
		}
		if !v.IsObject() {
			if n == 1 {
				return wire.No
			}
			continue
		}
		var h struct {
			Created json.RawMessage `json:"createdAt"`
		}
		e, ok := parse(v.Raw)
		switch {
		case n == 1 && (!ok || e.Type != typeSession || e.ID == "" || json.Unmarshal(v.Raw, &h) != nil || h.Created == nil):
			return wire.No
		case n == 1:
			seen = wire.Likely
		case ok && strings.Contains(e.Type, "/") && e.Data != nil:
			return wire.Certain
		}
	}
	return seen
}

// file is a log with its surface.
type file struct {
	text    *jsonl.File
	next    int // seq of the next event
	surface []placed
	conv    *wire.Conversation
	side    int
	ids     []string        // compaction ids, as many as checkpoints
	live    []placed        // of the conversation's entries
	silent  int             // entries with a smaller seq report no usage
	turn    json.RawMessage // of the last event that has one
}

// placed is a message on the surface. What it says is read again when it is
// needed.
type placed struct {
	ref  jsonl.Ref
	seq  int
	role session.Role
	// checkpoint is the compaction that it is the checkpoint of; nil for most.
	checkpoint *string
}

// roles are those of the messages of events.
var roles = map[string]session.Role{
	typeUser: session.RoleUser, typeAssistant: session.RoleAssistant, typeResult: session.RoleTool, typeSystem: session.RoleSystem,
}

// Read implements [wire.Codec].
func (Codec) Read(ctx context.Context, data []byte) (*wire.File, error) {
	return wire.Hold(open(ctx, jsonl.Bytes(data)))
}

// Open implements [wire.Opener].
func (Codec) Open(ctx context.Context, r io.ReaderAt, size int64) (*wire.File, error) {
	return open(ctx, jsonl.Stored(r, size))
}

func open(ctx context.Context, text *jsonl.File) (*wire.File, error) {
	f := &file{text: text, conv: &wire.Conversation{}}
	header := false
	notes, err := logfile.Scan(ctx, Format, text, `a header {"type":"session",…} and one event a line with "type" and "data"`, func(v jsonl.Value) bool {
		raw := json.RawMessage(v.Raw)
		e, ok := parse(raw)
		if !ok {
			return false
		}
		if !header {
			header = e.Type == typeSession
			return header && e.ID != ""
		}
		if e.seq = f.next; e.Seq != nil {
			e.seq = *e.Seq
		}
		f.next = e.seq + 1
		f.event(&e, text.Ref(v))
		return false
	})
	if err != nil {
		return nil, err
	}
	if err := f.build(); err != nil {
		return nil, err
	}
	return &wire.File{Format: Format, Container: "DeepSeek harness log", Conversations: []*wire.Conversation{f.conv}, Notes: notes,
		Writer: &logfile.Writer{Format: Format, Text: text, Entries: len(f.live), Tail: f.tail}}, nil
}

// event takes in one event, which stands at ref.
func (f *file) event(e *event, ref jsonl.Ref) {
	var d struct {
		Turn   json.RawMessage `json:"turn"`
		Header struct {
			Config struct {
				Provider string `json:"provider"`
				Model    string `json:"model"`
			} `json:"config"`
			System json.RawMessage `json:"system"`
		} `json:"header"`
	}
	if rawjson.Kind(e.Data) == '{' && splice.Lenient(json.Unmarshal(e.Data, &d)) && d.Turn != nil {
		f.turn = d.Turn
	}
	switch e.Type {
	case typeUser, typeAssistant, typeResult, typeSystem:
		if m, ok := e.message(); ok {
			p := placed{ref: ref, seq: e.seq, role: roles[e.Type]}
			if compact.IsCheckpointSource(m.Source) {
				p.checkpoint = &m.Source.Ref
			}
			f.place(e, p)
		}
	case typeHeader:
		env := &f.conv.Envelope
		env.Provider, env.Model, env.System = d.Header.Config.Provider, d.Header.Config.Model, nil
		if s, ok := rawjson.String(d.Header.System); ok && s != "" {
			env.System = []session.Message{{Role: session.RoleSystem, Parts: []session.Part{session.Text{Text: s}},
				Source: session.Source{Kind: session.SourcePlugin, Plugin: Format}}}
		}
	case typeSummary:
		var s struct {
			ID      string `json:"compactionId"`
			Shadows []int  `json:"shadowedSeqs"`
			Tokens  int    `json:"shadowedTokenCount"`
		}
		if splice.Lenient(json.Unmarshal(e.Data, &s)) {
			f.ids = append(f.ids, s.ID)
			f.conv.Checkpoints = append(f.conv.Checkpoints, f.checkpoint(s.ID, len(s.Shadows), s.Tokens, e))
		}
	}
}

// own are our additions to a summary event.
type own struct {
	Mark struct {
		ID     string    `json:"id"`
		Auto   bool      `json:"auto"`
		Tokens int       `json:"tokens_before"`
		Time   time.Time `json:"time"`
	} `json:"agentcompact"`
}

func (f *file) checkpoint(id string, hides, tokens int, e *event) wire.Checkpoint {
	cp := wire.Checkpoint{Entry: -1, Hides: hides, TokensBefore: tokens, Time: e.time()}
	var o own
	if json.Unmarshal(e.Data, &o) == nil && o.Mark.ID == id && id != "" {
		cp.TokensBefore, cp.Time = o.Mark.Tokens, o.Mark.Time
		if cp.Trigger = "manual"; o.Mark.Auto {
			cp.Trigger = "auto"
		}
	}
	return cp
}

func (e *event) time() time.Time {
	var ms int64
	if json.Unmarshal(e.Time, &ms) != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// place puts an event on the surface.
func (f *file) place(e *event, p placed) {
	var op struct {
		Op       string `json:"op"`
		Start    *int   `json:"start"`
		End      *int   `json:"end"`
		StartSeq *int   `json:"startSeq"`
		EndSeq   *int   `json:"endSeq"`
	}
	if rawjson.Kind(e.Op) != '{' || !splice.Lenient(json.Unmarshal(e.Op, &op)) || op.Op != "replace" {
		f.surface = append(f.surface, p)
		return
	}
	if op.Start == nil {
		op.Start, op.End = op.StartSeq, op.EndSeq
	}
	if op.Start == nil || op.End == nil {
		f.surface = append(f.surface, p)
		return
	}
	at := func(seq int) int { return slices.IndexFunc(f.surface, func(s placed) bool { return s.seq == seq }) }
	from, to := at(*op.Start), at(*op.End)
	if from < 0 || to < from {
		f.surface = append(f.surface, p)
		return
	}
	f.side += to - from + 1
	f.surface = append(f.surface[:from:from], append([]placed{p}, f.surface[to+1:]...)...)
}

// rawMessage returns the message of an event, byte for byte.
func (e *event) rawMessage() json.RawMessage {
	if e.Type == typeUser {
		return e.Data
	}
	o, err := rawjson.Parse(e.Data)
	if err != nil {
		return nil
	}
	return o.Get("message")
}

// message decodes the message of an event.
func (e *event) message() (session.Message, bool) {
	var m message
	raw := e.rawMessage()
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &m)) || m.Content == nil {
		return session.Message{}, false
	}
	out := session.Message{ID: m.ID, Origin: &session.Origin{Format: Format, Raw: e.raw}}
	parts := blocks(m.Content)
	switch e.Type {
	case typeUser, typeSystem:
		if out.Role = session.RoleUser; e.Type == typeSystem {
			out.Role = session.RoleSystem
		}
		for i, p := range parts {
			parts[i] = keep(p, false, false, m.Content, i)
		}
	case typeAssistant:
		out.Role = session.RoleAssistant
		for i, p := range parts {
			parts[i] = keep(p, true, false, m.Content, i)
		}
	case typeResult:
		out.Role = session.RoleTool
		results := 0
		for i, p := range parts {
			parts[i] = keep(p, false, true, m.Content, i)
			if r, ok := p.(session.ToolResult); ok {
				if results++; r.CallID == "" {
					r.CallID = m.Source.CallID
					parts[i] = r
				}
			}
		}
		if results == 0 {
			parts = []session.Part{session.ToolResult{CallID: m.Source.CallID, Parts: inner(m.Content)}}
		}
	}
	out.Parts = parts
	out.Source = m.source(out.Role)
	if out.Validate() != nil {
		out.Source = derived(out.Role)
	}
	return out, out.Validate() == nil
}

func derived(r session.Role) session.Source {
	switch r {
	case session.RoleAssistant:
		return session.Source{Kind: session.SourceModel}
	case session.RoleTool:
		return session.Source{Kind: session.SourceTool}
	}
	return session.Source{Kind: session.SourceUser}
}

func (m *message) source(role session.Role) session.Source {
	s := session.Source{Kind: session.SourceKind(m.Source.Kind), Plugin: m.Source.Plugin, Ref: m.Source.Ref, Form: m.Source.Form}
	switch s.Kind {
	case session.SourceModel:
		s.Provider, s.Model = m.Source.Provider, m.Source.Model
	case session.SourcePlugin:
		if m.Source.Compaction != "" {
			s.Ref = m.Source.Compaction
		}
	case session.SourceUser, session.SourceTool:
	default:
		return derived(role)
	}
	return s
}

// keep makes an opaque part of one that the message cannot hold.
func keep(p session.Part, calls, results bool, content json.RawMessage, i int) session.Part {
	kind := ""
	switch p.(type) {
	case session.ToolCall:
		if !calls {
			kind = "tool-call"
		}
	case session.ToolResult:
		if !results {
			kind = "tool-result"
		}
	}
	if kind == "" {
		return p
	}
	list, ok := rawjson.Elements(content)
	if !ok || i >= len(list) {
		return session.Text{} // unreachable: such parts come from a list
	}
	return session.Opaque{Kind: kind, Raw: list[i]}
}

func blocks(content json.RawMessage) []session.Part {
	if s, ok := rawjson.String(content); ok {
		return []session.Part{session.Text{Text: s}}
	}
	list, _ := rawjson.Elements(content)
	parts := make([]session.Part, 0, len(list))
	for _, raw := range list {
		parts = append(parts, decode(raw))
	}
	return parts
}

// inner are the parts of a result.
func inner(content json.RawMessage) []session.Part {
	parts := blocks(content)
	list, _ := rawjson.Elements(content)
	for i, p := range parts {
		switch p.(type) {
		case session.Text, session.Image, session.File, session.Opaque:
		default:
			parts[i] = session.Opaque{Kind: "invalid", Raw: list[i]}
		}
	}
	return parts
}

func decode(raw json.RawMessage) session.Part {
	var b block
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &b)) {
		return session.Opaque{Kind: "invalid", Raw: raw}
	}
	switch b.Type {
	case "text":
		if b.Text != nil {
			return session.Text{Text: *b.Text}
		}
	case "reasoning":
		if b.Text != nil {
			return session.Reasoning{Text: *b.Text, Signature: b.Signature, Raw: raw}
		}
	case "tool-call":
		args := string(b.Arguments)
		if s, ok := rawjson.String(b.Arguments); ok {
			args = s
		}
		return session.ToolCall{ID: b.ID, Name: b.Name, Arguments: args, Raw: raw}
	case "tool-result":
		return session.ToolResult{CallID: b.CallID, Parts: inner(b.Content), IsError: b.IsError}
	case "image":
		if a := b.Attachment; a != nil {
			return session.Image{URL: a.ID, MediaType: a.MediaType, Width: a.Width, Height: a.Height, Raw: raw}
		}
	}
	if b.Type == "" {
		b.Type = "invalid"
	}
	return session.Opaque{Kind: b.Type, Raw: raw}
}

// build makes the conversation of the surface.
func (f *file) build() error {
	c := f.conv
	c.Side = f.side
	lead := 0
	for lead < len(f.surface) && f.surface[lead].role == session.RoleSystem {
		_, m, err := f.load(f.surface[lead])
		if err != nil {
			return err
		}
		c.Envelope.System = append(c.Envelope.System, m)
		lead++
	}
	f.live = f.surface[lead:]
	f.silent = -1
	for i, p := range f.live {
		if p.checkpoint == nil {
			continue
		}
		f.silent = max(f.silent, p.seq) // figures before it are of the longer conversation
		for k := range c.Checkpoints {
			if f.summaryID(k) == *p.checkpoint {
				c.Checkpoints[k].Entry = i
			}
		}
	}
	c.Leave(len(f.live), f.entry)
	c.Locate(func(i int) int64 { return f.live[i].ref.Offset() })
	return nil
}

// load reads an event again.
func (f *file) load(p placed) (event, session.Message, error) {
	raw, err := f.text.Load(p.ref)
	if err != nil {
		return event{}, session.Message{}, &wire.Error{Format: Format, Offset: p.ref.Offset(), Detail: "the event could not be read again", Err: err}
	}
	e, _ := parse(raw) // it was read before
	m, _ := e.message()
	return e, m, nil
}

// entry reads the i-th live message.
func (f *file) entry(i int) (wire.Entry, error) {
	e, m, err := f.load(f.live[i])
	if err != nil {
		return wire.Entry{}, err
	}
	out := wire.Entry{Message: m, Time: e.time()}
	if e.Type == typeAssistant && f.live[i].seq >= f.silent {
		out.Usage = e.usage(m.Source)
	}
	return out, nil
}
