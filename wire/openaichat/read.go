package openaichat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Codec reads and writes the format. The zero value is ready.
type Codec struct{}

var _ wire.Opener = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

// Read implements [wire.Codec].
func (Codec) Read(ctx context.Context, data []byte) (*wire.File, error) {
	return wire.Hold(openFile(ctx, jsonl.Bytes(data), data))
}

// headSize is how much of a stored file tells whether it has one value a line.
const headSize = 1 << 20

// Open implements [wire.Opener]. A file that does not have a second line within
// its first MB is read whole.
func (c Codec) Open(ctx context.Context, r io.ReaderAt, size int64) (*wire.File, error) {
	text := jsonl.Stored(r, size)
	var b bytes.Buffer
	if err := text.CopyRange(ctx, &b, 0, min(size, headSize)); err != nil {
		return nil, &wire.Error{Format: Format, Detail: "the file could not be read", Err: err}
	}
	if linewise(b.Bytes()) {
		// A document may have a message a line, too.
		shape, err := text.Shape()
		if err != nil {
			return nil, &wire.Error{Format: Format, Detail: "the file could not be read", Err: err}
		}
		if shape == jsonl.Lines {
			return openFile(ctx, text, nil)
		}
	}
	if size > headSize {
		if err := text.CopyRange(ctx, &b, headSize, size); err != nil {
			return nil, &wire.Error{Format: Format, Detail: "the file could not be read", Err: err}
		}
	}
	return c.Read(ctx, b.Bytes())
}

// openFile reads a file. data is nil when it is one of lines and stays where it is.
func openFile(ctx context.Context, text *jsonl.File, data []byte) (*wire.File, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, &wire.Error{Format: Format, Detail: "reading was stopped", Err: err}
	}
	r := &reader{ctx: ctx, text: text, data: data, file: &wire.File{Format: Format}, w: &writer{text: text}}
	r.file.Writer = r.w
	start := splice.Begin(data)
	var err error
	switch {
	case data == nil && text.Size() > 0:
		err = r.lines()
	case start == len(data):
		err = fault(0, "the file is empty")
	case json.Valid(data[start:]):
		err = r.document(start)
	case linewise(data) && !cutShort(text):
		err = r.lines()
	default:
		err = syntax(data[start:], start)
	}
	if err != nil {
		return nil, err
	}
	return r.file, nil
}

func fault(off int, format string, args ...any) *wire.Error {
	return &wire.Error{Format: Format, Offset: int64(off), Detail: fmt.Sprintf(format, args...)}
}

// syntax explains why data is not valid JSON.
func syntax(data []byte, base int) *wire.Error {
	err := json.Unmarshal(data, new(struct{}))
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		if int(s.Offset) >= len(bytes.TrimRight(data, " \r\n\t")) {
			return fault(base+int(s.Offset), "the JSON ends too early: the file is cut short or still being written; get a whole copy of it")
		}
		e := fault(base+int(s.Offset), "this is not valid JSON; expected chat messages as one JSON document or one JSON object a line")
		e.Err = err
		return e
	}
	return fault(base, "this is not valid JSON; expected chat messages as one JSON document or one JSON object a line")
}

type reader struct {
	ctx    context.Context
	text   *jsonl.File
	data   []byte // of a document
	file   *wire.File
	w      *writer
	bodies bodyCache
}

// document reads one JSON document.
func (r *reader) document(start int) error {
	l := layoutOf(r.data, start)
	if l.container == lineMessages { // one message, on one line or more
		b := &builder{r: r, c: &wire.Conversation{}, container: lineMessages}
		if err := b.addSpan(splice.At(r.data, start), "the message"); err != nil {
			return err
		}
		if b.messages == 0 {
			return fault(start, "the file has no messages")
		}
		r.file.Container = lineMessages
		r.finish(b, 0, int64(len(r.data)), true)
		return nil
	}
	if l.lists == nil {
		return fault(start, "no list of chat messages found; expected an array of messages, an object with messages, history or request.messages, or an array of runs with traj")
	}
	r.file.Container = l.container
	for _, s := range l.lists {
		if err := r.list(s, l); err != nil {
			return err
		}
	}
	return nil
}

// list reads one array of messages into a conversation.
func (r *reader) list(s listSpan, l layout) error {
	if s.Kind(r.data) != '[' {
		return fault(s.Start, "%s is %s; expected a list of messages", s.name, splice.TypeName(r.data[s.Start:]))
	}
	c := &wire.Conversation{Title: s.title}
	b := &builder{r: r, c: c, container: l.container}
	var err error
	i := 0
	splice.Elements(r.data, s.Span, func(v splice.Span) bool {
		err = b.addSpan(v, fmt.Sprintf("%s[%d]", s.name, i))
		i++
		return err == nil
	})
	if err != nil {
		return err
	}
	if b.messages == 0 {
		return fault(s.Start, "%s has no messages", cmp.Or(s.name, "the array"))
	}
	envelopeOf(&c.Envelope, r.data, l.container, s)
	r.finish(b, int64(s.Start+1), int64(s.End-1), false)
	return nil
}

func (r *reader) finish(b *builder, start, end int64, lines bool) {
	if lines {
		text, refs := r.text, b.live()
		b.c.Leave(len(refs), func(i int) (wire.Entry, error) { return entryOf(text, refs[i]) })
	}
	r.file.Conversations = append(r.file.Conversations, b.c)
	r.w.lists = append(r.w.lists, list{start: start, end: end, lines: lines, records: b.records, shape: b.shape(), entries: b.c.Len()})
	for _, role := range slices.Sorted(maps.Keys(b.others)) {
		n := b.others[role]
		r.file.Notes = append(r.file.Notes, fmt.Sprintf("%d record(s) with the role %s are not part of the conversation and stay in the file", n, quote(splice.Clip(role, 40))))
	}
}

// builder collects the records of one conversation.
type builder struct {
	r         *reader
	c         *wire.Conversation
	container string
	records   []record
	messages  int
	entries   int
	others    map[string]int
	started   bool // a message that is not leading was seen
	replied   bool // an assistant message was seen
	lists     int  // messages whose content is a list
	strings   int
	tools     int
	named     int
	sweAgent  bool
	agent     json.RawMessage
}

func (b *builder) shape() shape {
	return shape{lists: b.lists > 0 && b.strings == 0, sweAgent: b.sweAgent, agent: b.agent, names: b.tools > 0 && b.named == b.tools}
}

// addSpan reads one record of a document.
func (b *builder) addSpan(v splice.Span, where string) error {
	return b.add(jsonl.At(v.Start, v.End-v.Start), v.Of(b.r.data), where, 0)
}

// add reads one record; line is 0 when there are none. The messages of lines are
// not kept: see entryOf.
func (b *builder) add(ref jsonl.Ref, raw json.RawMessage, where string, line int) error {
	if len(b.records)%256 == 0 && b.r.ctx != nil {
		if err := context.Cause(b.r.ctx); err != nil {
			return &wire.Error{Format: Format, Detail: "reading was stopped", Err: err}
		}
	}
	at := func(detail string) error {
		e := fault(int(ref.Offset()), "%s: %s", where, detail)
		e.Line = line
		return e
	}
	o, ok := parseObject(raw)
	if !ok {
		return at("it is " + splice.TypeName(raw) + "; expected a message object")
	}
	if role, ok := o.str("role"); ok && !conversational(role) {
		if b.others == nil {
			b.others = make(map[string]int)
		}
		b.others[role]++
		b.records = append(b.records, record{Ref: ref, entry: -1})
		return nil
	}
	m, err := decode(o, raw)
	if err != nil {
		return at(err.Error())
	}
	b.messages++
	b.look(o, &m)
	if !b.started && (m.Role == session.RoleSystem || m.Role == session.RoleDeveloper) {
		b.c.Envelope.System = append(b.c.Envelope.System, *m.Clone())
		b.records = append(b.records, record{Ref: ref, entry: -1})
		return nil
	}
	b.started = true
	b.records = append(b.records, record{Ref: ref, entry: int32(b.entries)})
	b.entries++
	if line > 0 {
		return nil
	}
	b.c.Entries = append(b.c.Entries, wire.Entry{Message: m})
	b.enrich(o, &b.c.Entries[len(b.c.Entries)-1])
	return nil
}

// live returns where the messages of the conversation stand.
func (b *builder) live() []jsonl.Ref {
	refs := make([]jsonl.Ref, 0, b.entries)
	for _, r := range b.records {
		if r.entry >= 0 {
			refs = append(refs, r.Ref)
		}
	}
	return refs
}

// entryOf reads a message that stands on a line.
func entryOf(text *jsonl.File, ref jsonl.Ref) (wire.Entry, error) {
	raw, err := text.Load(ref)
	if err == nil {
		var m session.Message
		if o, ok := parseObject(raw); ok {
			if m, err = decode(o, raw); err == nil {
				return wire.Entry{Message: m}, nil
			}
		}
	}
	return wire.Entry{}, &wire.Error{Format: Format, Offset: ref.Offset(), Detail: "the message could not be read again", Err: err}
}

// look learns the shape of the container's messages.
func (b *builder) look(o object, m *session.Message) {
	switch c := o.get("content"); {
	case len(c) > 0 && c[0] == '[':
		b.lists++
	case len(c) > 0 && c[0] == '"':
		b.strings++
	}
	if m.Role == session.RoleTool {
		b.tools++
		if o.get("name") != nil {
			b.named++
		}
	}
	if b.container == sweAgent && o.get("message_type") != nil {
		b.sweAgent = true
		if b.agent == nil {
			b.agent = o.get("agent")
		}
	}
}

// enrich takes source, time and usage from what agents write beside messages.
func (b *builder) enrich(o object, e *wire.Entry) {
	m := &e.Message
	if kind, _ := o.str("message_type"); b.sweAgent && kind == "observation" && m.Role == session.RoleUser && b.replied {
		m.Source.Kind = session.SourceTool // output of a command, not a person
	}
	if m.Role == session.RoleAssistant {
		b.replied = true
	}
	if b.container != miniSWE {
		return
	}
	var x struct {
		Timestamp float64 `json:"timestamp"`
		Response  *struct {
			Model string      `json:"model"`
			Usage *usageJSON  `json:"usage"`
			Made  json.Number `json:"created"`
		} `json:"response"`
	}
	if json.Unmarshal(o.get("extra"), &x) != nil {
		return
	}
	if x.Timestamp > 0 && x.Timestamp < 1e11 {
		e.Time = time.UnixMilli(int64(x.Timestamp * 1000)).UTC()
	}
	if x.Response == nil || m.Role != session.RoleAssistant {
		return
	}
	m.Source.Model = x.Response.Model
	if x.Response.Usage != nil {
		e.Usage = x.Response.Usage.usage(x.Response.Model)
	}
}

type usageJSON struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails *struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit int `json:"prompt_cache_hit_tokens"`
}

func (u *usageJSON) usage(model string) *session.Usage {
	if u.Prompt <= 0 && u.Completion <= 0 {
		return nil
	}
	out := &session.Usage{Prompt: u.Prompt, Completion: u.Completion, CacheRead: u.CacheHit, Model: model}
	if u.Details != nil && u.Details.Cached > 0 {
		out.CacheRead = u.Details.Cached
	}
	if u.CompletionDetails != nil {
		out.Reasoning = u.CompletionDetails.Reasoning
	}
	return out
}

// envelopeOf fills in what stands beside the messages.
func envelopeOf(e *session.Envelope, data []byte, container string, s listSpan) {
	doc, ok := parseObject(s.doc.Of(data))
	if !ok {
		return
	}
	switch container {
	case miniSWE:
		var x struct {
			Config struct {
				Model struct {
					Name string `json:"model_name"`
				} `json:"model"`
			} `json:"config"`
		}
		if json.Unmarshal(doc.get("info"), &x) == nil {
			e.Model = x.Config.Model.Name
		}
	case openHands:
		resp, _ := parseObject(doc.get("response"))
		e.Model, _ = resp.str("model")
		e.Tools = tools(doc.get("tools"))
	case requestBody, lineBodies, requestLog:
		e.Model, _ = doc.str("model")
		e.Tools = tools(doc.get("tools"))
		for _, m := range doc {
			if m.key == "messages" || m.key == "model" && e.Model != "" || m.key == "tools" && e.Tools != nil {
				continue
			}
			if container == requestLog && !requestSetting(m.key) {
				continue
			}
			if e.Extra == nil {
				e.Extra = make(map[string]json.RawMessage)
			}
			e.Extra[m.key] = m.val
		}
	}
}

// requestSetting reports whether a field is one that requests of this shape
// have.
func requestSetting(key string) bool {
	switch key {
	case "temperature", "top_p", "max_tokens", "max_completion_tokens", "tool_choice", "parallel_tool_calls",
		"response_format", "reasoning_effort", "stop", "seed", "stream", "stream_options", "functions", "function_call":
		return true
	}
	return false
}

func tools(v json.RawMessage) []session.Tool {
	list, _ := elements(v)
	var out []session.Tool
	for _, raw := range list {
		t := session.Tool{Raw: raw}
		o, _ := parseObject(raw)
		for _, k := range []string{"function", "custom"} {
			if f, ok := parseObject(o.get(k)); ok {
				t.Name, _ = f.str("name")
				t.Description, _ = f.str("description")
				t.Schema = f.get("parameters")
			}
		}
		out = append(out, t)
	}
	return out
}
