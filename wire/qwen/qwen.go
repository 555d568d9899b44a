// Package qwen reads and writes the session files of Qwen Code: JSONL, records
// linked by parentUuid around messages in the form of Gemini. It follows
// version 0.21 of the agent.
//
// # Reading
//
// The conversation is what the last record reaches through its parents, back to
// the last chat_compression record, whose compressedHistory stands for all
// before it. A record whose parent is not in the file begins the conversation,
// as in the agent. Other system records are not conversation. Of an opened file
// ([Codec.Open]) only what links the records is in memory, some 100 bytes a record.
//
// # Writing
//
// The file only grows, by one chat_compression record whose compressedHistory is
// the new surface: contents that did not change are in it byte for byte. Our
// compaction id and typed sources stand in a field "agentcompact" of the record,
// which the agent passes over.
//
// # Lost
//
// The system prompt and the tools are not in the file. Usage and times of
// messages that a compressed history holds; a text part of a message that
// changed loses its thoughtSignature.
package qwen

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/names"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format.
const Format = "qwen"

// provider is the provider name of its messages.
const provider = "qwen"

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Opener = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

const (
	typeUser        = "user"
	typeAssistant   = "assistant"
	typeResult      = "tool_result"
	typeSystem      = "system"
	compressionType = "chat_compression"
)

type record struct {
	UUID    string `json:"uuid"`
	Parent  string `json:"parentUuid"`
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Time    string `json:"timestamp"`
	Session string `json:"sessionId"`
	Model   string `json:"model"`
	Usage   *struct {
		Prompt   int `json:"promptTokenCount"`
		Output   int `json:"candidatesTokenCount"`
		Thoughts int `json:"thoughtsTokenCount"`
		Cached   int `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
	Payload struct {
		Info struct {
			Before  int    `json:"originalTokenCount"`
			Trigger string `json:"triggerReason"`
		} `json:"info"`
		History []json.RawMessage `json:"compressedHistory"`
	} `json:"systemPayload"`
	Mark struct {
		Messages []marks.Mark `json:"messages"`
	} `json:"agentcompact"`

	// raw is the record, message the content in it, byte for byte. Members are
	// found by their exact names, as they are when the content is written again.
	raw, message json.RawMessage
	parts        bool // the content has some
}

func parse(raw json.RawMessage) (record, bool) {
	r := record{raw: raw}
	ok := splice.Lenient(json.Unmarshal(raw, &r))
	if o, err := rawjson.Parse(raw); err == nil {
		r.message = o.Get("message")
		if m, err := rawjson.Parse(r.message); err == nil {
			r.parts = m.Get("parts") != nil
		}
	}
	return r, ok
}

func (r *record) speaks() bool {
	return r.parts && (r.Type == typeUser || r.Type == typeAssistant || r.Type == typeResult)
}

func (r *record) compression() bool {
	return r.Type == typeSystem && r.Subtype == compressionType && r.Payload.History != nil
}

func (r *record) time() time.Time {
	t, _ := time.Parse(time.RFC3339, r.Time)
	return t
}

// Detect implements [wire.Codec].
func (Codec) Detect(head []byte, _ bool) wire.Confidence {
	n := 0
	for v := range jsonl.Values(head) {
		if n++; n > 100 {
			break
		}
		if !v.IsObject() {
			continue
		}
		if r, ok := parse(v.Raw); ok && r.UUID != "" && (r.speaks() || r.compression()) {
			return wire.Certain
		}
	}
	return wire.No
}

// file is a session file.
type file struct {
	text *jsonl.File
	ids  names.Table
	recs []linked
	conv *wire.Conversation
	// contents are the live contents; entries are the messages that they make.
	contents []content
	entries  []entry
	splice   *splice.Conversation
	// round is the one whose contents were paired last.
	round struct {
		sync.Mutex
		from  int
		parts [][]session.Part
	}
}

// linked is what links a record to others. What it says is read again when it is
// needed.
type linked struct {
	ref                 jsonl.Ref
	uuid, parent, model names.ID
	shape               shape
	speaks, compression bool
}

// shape is what a content holds.
type shape struct {
	model         bool // it is the model's
	results, rest bool // a user's content has some
	loose         bool // a call or a result has no id: it gets one from its round
}

// content is a live content and where it comes from.
type content struct {
	rec   int32
	old   bool      // out of a compressed history
	ref   jsonl.Ref // of the content in a compressed history
	shape shape
	mark  *marks.Mark // nil for most
}

var none marks.Mark

// own is the mark of a content.
func (n *content) own() marks.Mark {
	if n.mark == nil {
		return none
	}
	return *n.mark
}

// entry is one of the one or two messages of a content.
type entry struct {
	content int32
	second  bool
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
	notes, err := logfile.Scan(ctx, Format, text, `records one a line with "uuid", "parentUuid" and a message with parts`, func(v jsonl.Value) bool {
		r, ok := parse(v.Raw)
		if !ok {
			return false
		}
		l := linked{ref: text.Ref(v), uuid: f.ids.Add(r.UUID), parent: f.ids.Add(r.Parent), model: f.ids.Add(r.Model),
			speaks: r.speaks(), compression: r.compression()}
		if l.speaks {
			l.shape, _ = decode(r.message)
		}
		f.recs = append(f.recs, l)
		return r.UUID != "" && (l.speaks || l.compression)
	})
	if err != nil {
		return nil, err
	}
	if err := f.build(); err != nil {
		return nil, err
	}
	return &wire.File{Format: Format, Container: "Qwen Code session", Conversations: []*wire.Conversation{f.conv}, Notes: notes,
		Writer: &logfile.Writer{Format: Format, Text: text, Entries: len(f.entries), Tail: f.tail}}, nil
}

// load reads a record again.
func (f *file) load(i int) (record, error) {
	raw, err := f.text.Load(f.recs[i].ref)
	if err != nil {
		return record{}, &wire.Error{Format: Format, Offset: f.recs[i].ref.Offset(), Detail: "the record could not be read again", Err: err}
	}
	r, _ := parse(raw) // it was parsed before
	return r, nil
}

// raw reads a content again, byte for byte, with its record unless it is out of
// a compressed history.
func (f *file) raw(n *content) (json.RawMessage, record, error) {
	if !n.old {
		r, err := f.load(int(n.rec))
		return r.message, r, err
	}
	raw, err := f.text.Load(n.ref)
	if err != nil {
		err = &wire.Error{Format: Format, Offset: n.ref.Offset(), Detail: "the content could not be read again", Err: err}
	}
	return raw, record{}, err
}

// path returns the records from the first to the last, through the parents.
func (f *file) path() []int {
	byID := make([]int32, f.ids.Len()+1) // one more than the record
	parent := make([]int32, len(f.recs))
	last := int32(-1)
	for i := range f.recs {
		r := &f.recs[i]
		parent[i] = -1
		if r.uuid == 0 {
			continue
		}
		if r.parent != 0 {
			parent[i] = byID[r.parent] - 1
		}
		last = int32(i)
		byID[r.uuid] = last + 1
	}
	var out []int
	for i := last; i >= 0; i = parent[i] {
		out = append(out, int(i))
	}
	slices.Reverse(out)
	return out
}

func (f *file) build() error {
	c := f.conv
	c.Envelope.Provider = provider
	model := names.ID(0)
	for _, i := range f.path() {
		r := &f.recs[i]
		if r.model != 0 {
			model = r.model
		}
		switch {
		case r.compression:
			if err := f.compressed(i); err != nil {
				return err
			}
		case r.speaks:
			f.contents = append(f.contents, content{rec: int32(i), shape: r.shape})
		}
	}
	c.Envelope.Model = f.ids.Text(model)
	f.splice = &splice.Conversation{Left: c, Encode: f.encode}
	live := 0
	for i := range f.contents {
		n := &f.contents[i]
		g := splice.Group{From: i, To: i + 1, Entry: len(f.entries), Count: 1}
		f.entries = append(f.entries, entry{content: int32(i)})
		if n.shape.results && n.shape.rest {
			g.Count = 2
			f.entries = append(f.entries, entry{int32(i), true})
		}
		f.splice.Groups = append(f.splice.Groups, g)
		if own := n.own(); own.ID != "" && !n.shape.model && (n.shape.rest || !n.shape.results) {
			for k := range c.Checkpoints {
				if c.Checkpoints[k] == own.Checkpoint() {
					c.Checkpoints[k].Entry = len(f.entries) - 1
				}
			}
		}
		if !n.old {
			live++
		}
	}
	for i := range f.recs {
		if f.recs[i].speaks {
			c.Side++
		}
	}
	c.Side -= live
	f.splice.List.Records = make([]splice.Span, len(f.contents))
	f.round.from = -1
	c.Leave(len(f.entries), f.entry)
	c.Locate(func(i int) int64 { return f.contents[f.entries[i].content].ref.Offset() })
	return nil
}

// entry reads the i-th live message.
func (f *file) entry(i int) (wire.Entry, error) {
	at := f.entries[i]
	n := &f.contents[at.content]
	raw, r, err := f.raw(n)
	if err != nil {
		return wire.Entry{}, err
	}
	_, parts := decode(raw)
	if n.shape.loose {
		if parts, err = f.paired(int(at.content)); err != nil {
			return wire.Entry{}, err
		}
	}
	model := f.ids.Text(f.recs[n.rec].model)
	msgs := n.messages(parts, &r, model)
	k := 0
	if at.second {
		k = 1
	}
	e := wire.Entry{Message: msgs[k]}
	if !n.old {
		e.Time = r.time()
	}
	if u := r.Usage; u != nil && !n.old && n.shape.model && u.Prompt != 0 {
		e.Usage = &session.Usage{Node: session.NoSeq, Prompt: u.Prompt, Completion: u.Output + u.Thoughts, CacheRead: u.Cached,
			Reasoning: u.Thoughts, Provider: provider, Model: model}
	}
	return e, nil
}

// paired returns the parts of a content with ids for the calls and results of its
// round that have none.
func (f *file) paired(i int) ([]session.Part, error) {
	from := i
	for from > 0 && !f.contents[from].shape.model {
		from--
	}
	f.round.Lock()
	defer f.round.Unlock()
	if f.round.from != from {
		var list [][]session.Part
		for k := from; k < len(f.contents) && (k == from || !f.contents[k].shape.model); k++ {
			raw, _, err := f.raw(&f.contents[k])
			if err != nil {
				return nil, err
			}
			_, parts := decode(raw)
			list = append(list, parts)
		}
		if f.contents[from].shape.model {
			gemini.Pair(list[0], list[1:])
		} else {
			gemini.Pair(nil, list)
		}
		f.round.from, f.round.parts = from, list
	}
	return slices.Clone(f.round.parts[i-from]), nil
}

// compressed makes the compressed history of a record the history.
func (f *file) compressed(rec int) error {
	r, err := f.load(rec)
	if err != nil {
		return err
	}
	hides := len(f.contents)
	f.contents = nil
	own := false
	pos := 0 // in the record
	for i, raw := range r.Payload.History {
		n := content{rec: int32(rec), old: true}
		n.shape, _ = decode(raw)
		// Where the same bytes stand before is as good.
		pos += max(bytes.Index(r.raw[pos:], raw), 0)
		n.ref = f.text.Ref(jsonl.Value{Offset: int(f.recs[rec].ref.Offset()) + pos, Raw: raw})
		pos += len(raw)
		if i < len(r.Mark.Messages) {
			if m := r.Mark.Messages[i]; !m.IsZero() {
				n.mark = &m
			}
			if own := n.own(); own.ID != "" {
				f.conv.Checkpoints = append(f.conv.Checkpoints, own.Checkpoint())
			}
		}
		own = own || n.own().ID != ""
		f.contents = append(f.contents, n)
	}
	if !own && len(r.Mark.Messages) == 0 {
		m := marks.Mark{ID: r.UUID, Auto: r.Payload.Info.Trigger != "manual", TokensBefore: r.Payload.Info.Before, Hides: hides, Time: r.Time}
		f.conv.Checkpoints = append(f.conv.Checkpoints, m.Checkpoint())
		if len(f.contents) > 0 && !f.contents[0].shape.model {
			f.contents[0].mark = &m
		}
	}
	return nil
}

// decode decodes a content.
func decode(raw json.RawMessage) (shape, []session.Part) {
	o, _ := rawjson.Parse(raw) // what does not fit is empty
	var role string
	_ = json.Unmarshal(o.Get("role"), &role)
	s := shape{model: role == "model"}
	list, ok := rawjson.Elements(o.Get("parts"))
	if !ok {
		return s, nil
	}
	parts, _ := gemini.Parts(o.Get("parts"))
	for i, p := range parts {
		call, isCall := p.(session.ToolCall)
		result, isResult := p.(session.ToolResult)
		switch { // only the model calls, and never answers itself
		case isCall && !s.model:
			parts[i] = session.Opaque{Kind: "functionCall", Raw: list[i]}
			s.rest = true
		case isResult && s.model:
			parts[i] = session.Opaque{Kind: "functionResponse", Raw: list[i]}
		case isCall:
			s.loose = s.loose || call.ID == ""
		case isResult:
			s.results = true
			s.loose = s.loose || result.CallID == ""
		default:
			s.rest = true
		}
	}
	s.results, s.rest = s.results && !s.model, s.rest && !s.model
	return s, parts
}

// messages makes the one or two messages of a content with the given parts; r is
// its record unless it is out of a compressed history.
func (n *content) messages(parts []session.Part, r *record, model string) []session.Message {
	id := r.UUID
	var origin *session.Origin
	if !n.old {
		origin = &session.Origin{Format: Format, Raw: r.raw}
	}
	own := n.own()
	if n.shape.model {
		m := session.Message{ID: id, Role: session.RoleAssistant, Parts: parts,
			Source: session.Source{Kind: session.SourceModel, Provider: provider, Model: model}}
		own.Apply(&m)
		m.Origin = origin
		return []session.Message{m}
	}
	var msgs []session.Message
	results, rest := gemini.Split(parts)
	if len(results) > 0 {
		m := session.Message{ID: id, Role: session.RoleTool, Parts: results, Source: session.Source{Kind: session.SourceTool}}
		if src := own.Results; src != nil {
			if m.Source = *src; m.Validate() != nil {
				m.Source = session.Source{Kind: session.SourceTool}
			}
		}
		msgs = append(msgs, m)
	}
	if len(rest) > 0 || len(results) == 0 {
		m := session.Message{ID: id, Role: session.RoleUser, Parts: rest, Source: session.Source{Kind: session.SourceUser}}
		own.Apply(&m)
		msgs = append(msgs, m)
	}
	if len(msgs) == 1 {
		msgs[0].Origin = origin
	}
	return msgs
}
