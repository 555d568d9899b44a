// Package qwen reads and writes the session files of Qwen Code: JSONL, records
// linked by parentUuid around messages in the form of Gemini. It follows
// version 0.21 of the agent.
//
// # Reading
//
// The conversation is what the last record reaches through its parents, back to
// the last chat_compression record, whose compressedHistory stands for all
// before it. A record whose parent is not in the file begins the conversation,
// as in the agent. Other system records are not conversation.
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
	"context"
	"encoding/json"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format.
const Format = "qwen"

// provider is the provider name of its messages.
const provider = "qwen"

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Codec = Codec{}

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
	data []byte
	recs []record
	conv *wire.Conversation
	// contents are the live contents, groups which entries they make.
	contents []content
	splice   *splice.Conversation
}

// content is a live content and where it comes from.
type content struct {
	raw   json.RawMessage
	parts []session.Part
	model bool
	rec   *record
	mark  marks.Mark
	old   bool // out of a compressed history
}

// Read implements [wire.Codec].
func (Codec) Read(ctx context.Context, data []byte) (*wire.File, error) {
	f := &file{data: data, conv: &wire.Conversation{}}
	text := jsonl.Bytes(data)
	notes, err := logfile.Scan(ctx, Format, text, `records one a line with "uuid", "parentUuid" and a message with parts`, func(v jsonl.Value) bool {
		raw := json.RawMessage(v.Raw)
		r, ok := parse(raw)
		if !ok {
			return false
		}
		f.recs = append(f.recs, r)
		return r.UUID != "" && (r.speaks() || r.compression())
	})
	if err != nil {
		return nil, err
	}
	f.build()
	return &wire.File{Format: Format, Container: "Qwen Code session", Conversations: []*wire.Conversation{f.conv}, Notes: notes,
		Writer: &logfile.Writer{Format: Format, Text: text, Entries: len(f.conv.Entries), Tail: f.tail}}, nil
}

// path returns the records from the first to the last, through the parents.
func (f *file) path() []*record {
	byID := map[string]int{}
	parent := make([]int, len(f.recs))
	last := -1
	for i := range f.recs {
		parent[i] = -1
		if f.recs[i].UUID == "" {
			continue
		}
		if p, ok := byID[f.recs[i].Parent]; ok {
			parent[i] = p
		}
		byID[f.recs[i].UUID] = i
		last = i
	}
	var out []*record
	for i := last; i >= 0; i = parent[i] {
		out = append(out, &f.recs[i])
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func (f *file) build() {
	c := f.conv
	c.Envelope.Provider = provider
	for _, r := range f.path() {
		if r.Model != "" {
			c.Envelope.Model = r.Model
		}
		switch {
		case r.compression():
			f.compressed(r)
		case r.speaks():
			f.contents = append(f.contents, decode(r.message, r))
		}
	}
	f.pair()
	f.splice = &splice.Conversation{}
	live := 0
	for i, n := range f.contents {
		msgs := n.messages()
		f.splice.Groups = append(f.splice.Groups, splice.Group{From: i, To: i + 1, Entry: len(c.Entries), Count: len(msgs)})
		for _, m := range msgs {
			e := wire.Entry{Message: m}
			if !n.old {
				e.Time = n.rec.time()
			}
			if u := n.rec.Usage; u != nil && !n.old && n.model && u.Prompt > 0 {
				e.Usage = &session.Usage{Node: session.NoSeq, Prompt: u.Prompt, Completion: u.Output + u.Thoughts, CacheRead: u.Cached,
					Reasoning: u.Thoughts, Provider: provider, Model: n.rec.Model}
			}
			if n.mark.ID != "" && m.Role == session.RoleUser {
				for k := range c.Checkpoints {
					if c.Checkpoints[k] == n.mark.Checkpoint() {
						c.Checkpoints[k].Entry = len(c.Entries)
					}
				}
			}
			c.Entries = append(c.Entries, e)
		}
		if !n.old {
			live++
		}
	}
	for i := range f.recs {
		if f.recs[i].speaks() {
			c.Side++
		}
	}
	c.Side -= live
	f.splice.List.Records = make([]splice.Span, len(f.contents))
	f.splice.Entries = c.Entries
	f.splice.Encode = f.encode
}

// compressed makes a compressed history the history.
func (f *file) compressed(r *record) {
	hides := len(f.contents)
	f.contents = nil
	own := false
	for i, raw := range r.Payload.History {
		n := decode(raw, r)
		n.old = true
		if i < len(r.Mark.Messages) {
			n.mark = r.Mark.Messages[i]
			if n.mark.ID != "" {
				own = true
				f.conv.Checkpoints = append(f.conv.Checkpoints, n.mark.Checkpoint())
			}
		}
		f.contents = append(f.contents, n)
	}
	if !own && len(r.Mark.Messages) == 0 {
		m := marks.Mark{ID: r.UUID, Auto: r.Payload.Info.Trigger != "manual", TokensBefore: r.Payload.Info.Before, Hides: hides, Time: r.Time}
		f.conv.Checkpoints = append(f.conv.Checkpoints, m.Checkpoint())
		if len(f.contents) > 0 && !f.contents[0].model {
			f.contents[0].mark = m
		}
	}
}

func decode(raw json.RawMessage, r *record) content {
	o, _ := rawjson.Parse(raw) // what does not fit is empty
	var role string
	_ = json.Unmarshal(o.Get("role"), &role)
	c := content{raw: raw, rec: r, model: role == "model"}
	list, ok := rawjson.Elements(o.Get("parts"))
	if !ok {
		return c
	}
	c.parts, _ = gemini.Parts(o.Get("parts"))
	for i, p := range c.parts {
		_, call := p.(session.ToolCall)
		_, result := p.(session.ToolResult)
		switch { // only the model calls, and never answers itself
		case call && !c.model:
			c.parts[i] = session.Opaque{Kind: "functionCall", Raw: list[i]}
		case result && c.model:
			c.parts[i] = session.Opaque{Kind: "functionResponse", Raw: list[i]}
		}
	}
	return c
}

// pair gives calls and results without ids theirs.
func (f *file) pair() {
	var model []session.Part
	from := 0
	for i := 0; i <= len(f.contents); i++ {
		if i < len(f.contents) && !f.contents[i].model {
			continue
		}
		var results [][]session.Part
		for _, c := range f.contents[from:i] {
			results = append(results, c.parts)
		}
		gemini.Pair(model, results)
		if i < len(f.contents) {
			model, from = f.contents[i].parts, i+1
		}
	}
}

// messages makes the one or two messages of a content.
func (n *content) messages() []session.Message {
	id := n.rec.UUID
	if n.old {
		id = ""
	}
	if n.model {
		m := session.Message{ID: id, Role: session.RoleAssistant, Parts: n.parts,
			Source: session.Source{Kind: session.SourceModel, Provider: provider, Model: n.rec.Model}}
		n.mark.Apply(&m)
		m.Origin = n.origin()
		return []session.Message{m}
	}
	var msgs []session.Message
	results, rest := gemini.Split(n.parts)
	if len(results) > 0 {
		m := session.Message{ID: id, Role: session.RoleTool, Parts: results, Source: session.Source{Kind: session.SourceTool}}
		if src := n.mark.Results; src != nil {
			if m.Source = *src; m.Validate() != nil {
				m.Source = session.Source{Kind: session.SourceTool}
			}
		}
		msgs = append(msgs, m)
	}
	if len(rest) > 0 || len(results) == 0 {
		m := session.Message{ID: id, Role: session.RoleUser, Parts: rest, Source: session.Source{Kind: session.SourceUser}}
		n.mark.Apply(&m)
		msgs = append(msgs, m)
	}
	if len(msgs) == 1 {
		msgs[0].Origin = n.origin()
	}
	return msgs
}

func (n *content) origin() *session.Origin {
	if n.old {
		return nil
	}
	return &session.Origin{Format: Format, Raw: n.rec.raw}
}
