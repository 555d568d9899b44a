package gemini

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Sessions is the codec of the session files of Gemini CLI. The zero value is
// ready.
type Sessions struct{}

var _ wire.Codec = Sessions{}

// Name implements [wire.Codec].
func (Sessions) Name() string { return SessionFormat }

// The containers, as they are named for people.
const (
	sessionJSON  = "Gemini CLI session"
	sessionLines = "Gemini CLI session log"
	oneRecord    = "one record of a Gemini CLI session"
)

const expectedSession = `a session of Gemini CLI: an object with "sessionId" and "messages", or records one a line`

// The types of records.
const (
	typeUser   = "user"
	typeGemini = "gemini"
	typeModel  = "model" // drifted files
)

type record struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	Time     string            `json:"timestamp"`
	Content  json.RawMessage   `json:"content"`
	Parts    json.RawMessage   `json:"parts"`
	Model    string            `json:"model"`
	Thoughts []json.RawMessage `json:"thoughts"`
	Tokens   *tokens           `json:"tokens"`
	Calls    []toolCall        `json:"toolCalls"`
	Mark     json.RawMessage   `json:"agentcompact"`

	raw  json.RawMessage
	mark marks.Mark
}

type tokens struct {
	Input    int `json:"input"`
	Output   int `json:"output"`
	Cached   int `json:"cached"`
	Thoughts int `json:"thoughts"`
	Tool     int `json:"tool"`
}

type toolCall struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Status string          `json:"status"`
	Result json.RawMessage `json:"result"`
}

func parse(raw json.RawMessage) (record, bool) {
	var r record
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &r)) {
		return record{}, false
	}
	r.raw, r.mark = raw, marks.Parse(r.Mark)
	return r, true
}

// speaks reports whether the record is part of the conversation.
func (r *record) speaks() bool {
	return r.Type == typeUser || r.Type == typeGemini || r.Type == typeModel
}

func (r *record) time() time.Time {
	t, _ := time.Parse(time.RFC3339, r.Time)
	return t
}

// Detect implements [wire.Codec].
func (Sessions) Detect(head []byte, whole bool) wire.Confidence {
	doc := splice.At(head, splice.Begin(head))
	if doc.Kind(head) != '{' {
		return wire.No
	}
	top := splice.Top(head, doc)
	text := func(name string) string { return splice.Text(head, top[name]) }
	switch {
	case !top["uuid"].IsZero(), !top["parentUuid"].IsZero(), !top["payload"].IsZero():
		return wire.No
	case text("sessionId") != "" && text("projectHash") != "":
		return wire.Certain
	case text("type") == typeGemini && text("id") != "" && !top["content"].IsZero(),
		!top["$set"].IsZero() && top["$set"].Kind(head) == '{', text("$rewindTo") != "":
		return wire.Likely
	case text("sessionId") != "" && text("startTime") != "" && top["messages"].Kind(head) == '[':
		return wire.Likely
	case text("type") == typeUser && text("id") != "" && text("timestamp") != "" && !top["content"].IsZero():
		// A log without its first line: a later record tells.
		n := 0
		for v := range jsonl.Values(head) {
			if r, ok := parse(v.Raw); ok && v.Err == nil && r.Type == typeGemini && r.ID != "" {
				return wire.Likely
			}
			if n++; n > 50 {
				break
			}
		}
	}
	return wire.No
}

// sessionFile is a session with its live records.
type sessionFile struct {
	data   []byte
	list   splice.List // of a JSON file
	recs   []record
	byID   map[string]int // of recs; nil when not known
	side   int
	notes  []string
	conv   *wire.Conversation
	splice *splice.Conversation
}

func (f *sessionFile) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// Read implements [wire.Codec].
func (Sessions) Read(ctx context.Context, data []byte) (*wire.File, error) {
	f := &sessionFile{data: data, conv: &wire.Conversation{}}
	file := &wire.File{Format: SessionFormat, Container: sessionJSON}
	doc := splice.At(data, splice.Begin(data))
	one := doc.Kind(data) == '{' && splice.Space(data, doc.End) >= len(data)
	top := map[string]splice.Span{}
	if one {
		var err error
		if doc, err = splice.Document(SessionFormat, data, expectedSession); err != nil {
			return nil, err
		}
		top = splice.Top(data, doc)
	}
	if list := top["messages"]; list.Kind(data) == '[' {
		f.list = splice.ListOf(data, list)
		for i, s := range f.list.Records {
			if i%512 == 0 && ctx.Err() != nil {
				return nil, &wire.Error{Format: SessionFormat, Detail: "reading was stopped", Err: context.Cause(ctx)}
			}
			r, ok := parse(s.Of(data))
			if !ok {
				f.note("messages[%d] is no record and was passed over; it stays in the file", i)
			}
			f.recs = append(f.recs, r)
		}
		f.build()
		f.splice.List = f.list
		file.Writer = &splice.Writer{Format: SessionFormat, Data: data, Lists: []*splice.Conversation{f.splice}}
	} else {
		if file.Container = sessionLines; one && top["sessionId"].IsZero() {
			file.Container = oneRecord
		}
		if err := f.lines(ctx, doc); err != nil {
			return nil, err
		}
		f.build()
		file.Writer = &lineWriter{f}
	}
	file.Conversations, file.Notes = []*wire.Conversation{f.conv}, f.notes
	return file, nil
}

// lines folds the records of a log into the list that is live.
func (f *sessionFile) lines(ctx context.Context, first splice.Span) error {
	known, bad, firstBad := false, 0, 0
	take := func(raw json.RawMessage) {
		raw = oneLine(raw)
		var change struct {
			Set    *rawjson.Object `json:"-"`
			Rewind *string         `json:"$rewindTo"`
			Raw    json.RawMessage `json:"$set"`
		}
		_ = splice.Lenient(json.Unmarshal(raw, &change)) // what does not fit is absent
		switch {
		case change.Rewind != nil:
			known = true
			f.rewind(*change.Rewind)
		case rawjson.Kind(change.Raw) == '{':
			known = true
			set, err := rawjson.Parse(change.Raw)
			if list, ok := rawjson.Elements(set.Get("messages")); err == nil && ok {
				f.replace(list)
			}
		default:
			r, ok := parse(raw)
			switch {
			case !ok:
			case r.ID != "" && r.Type != "":
				known = known || r.Type == typeGemini || r.Time != ""
				f.upsert(r)
			default:
				var meta struct {
					Session string `json:"sessionId"`
					Project string `json:"projectHash"`
				}
				known = json.Unmarshal(raw, &meta) == nil && meta.Session != "" && meta.Project != "" || known
			}
		}
	}
	rest, offset := f.data, 0
	if v := first; v.Kind(f.data) == '{' && v.Whole && json.Valid(v.Of(f.data)) {
		take(v.Of(f.data)) // may stand on several lines
		rest, offset = f.data[v.End:], v.End
	} else if v.Kind(f.data) == '{' && v.End == len(f.data) && json.Valid(v.Of(f.data)) {
		take(v.Of(f.data))
		rest, offset = nil, v.End
	}
	n := 0
	for v := range jsonl.Values(rest) {
		if n++; n%512 == 0 && ctx.Err() != nil {
			return &wire.Error{Format: SessionFormat, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		switch {
		case v.Torn():
			f.note("at byte %d: the last record is cut short and was passed over", offset+v.Offset)
		case v.Err != nil:
			if bad++; bad == 1 {
				firstBad = offset + v.Offset
			}
		default:
			take(v.Raw)
		}
	}
	if !known {
		return &wire.Error{Format: SessionFormat, Offset: int64(firstBad), Detail: "no record of a session found; expected " + expectedSession}
	}
	if bad > 0 {
		f.note("%d lines are not JSON and were passed over, the first is at byte %d", bad, firstBad)
	}
	return nil
}

func (f *sessionFile) upsert(r record) {
	if f.byID == nil {
		f.byID = make(map[string]int, len(f.recs))
		for i := range f.recs {
			f.byID[f.recs[i].ID] = i
		}
	}
	if i, ok := f.byID[r.ID]; ok {
		f.recs[i] = r
		return
	}
	f.byID[r.ID] = len(f.recs)
	f.recs = append(f.recs, r)
}

func (f *sessionFile) rewind(id string) {
	cut := 0 // everything, if the id is unknown
	for i := range f.recs {
		if f.recs[i].ID == id {
			cut = i
		}
	}
	for _, r := range f.recs[cut:] {
		if r.speaks() {
			f.side++
		}
	}
	f.recs, f.byID = f.recs[:cut], nil
}

func (f *sessionFile) replace(list []json.RawMessage) {
	kept := map[string]bool{}
	old := f.recs
	f.recs, f.byID = nil, nil
	for _, raw := range list {
		if r, ok := parse(raw); ok {
			f.recs = append(f.recs, r)
			kept[r.ID] = true
		}
	}
	for _, r := range old {
		if r.speaks() && !kept[r.ID] {
			f.side++
		}
	}
}

// build makes the conversation of the live records.
func (f *sessionFile) build() {
	c := f.conv
	c.Side = f.side
	c.Envelope.Provider = gemini.Provider
	f.splice = &splice.Conversation{}
	for i := range f.recs {
		r := &f.recs[i]
		f.splice.List.Records = append(f.splice.List.Records, splice.Span{})
		if !r.speaks() {
			continue
		}
		entries := r.entries()
		f.splice.Groups = append(f.splice.Groups, splice.Group{From: i, To: i + 1, Entry: len(c.Entries), Count: len(entries)})
		if r.mark.ID != "" && r.Type == typeUser {
			cp := r.mark.Checkpoint()
			cp.Entry = len(c.Entries) + len(entries) - 1
			c.Checkpoints = append(c.Checkpoints, cp)
		}
		c.Entries = append(c.Entries, entries...)
		if r.Model != "" {
			c.Envelope.Model = r.Model
		}
	}
	marks.DropUsage(c)
	f.splice.Entries = c.Entries
	f.splice.Encode = f.encode
}

// entries makes the messages of a record: one, or two when it holds results.
func (r *record) entries() []wire.Entry {
	content := r.Content
	if content == nil {
		content = r.Parts
	}
	parts, _ := gemini.Parts(content)
	raws, ok := rawjson.Elements(content)
	if !ok {
		raws = []json.RawMessage{content}
	}
	if r.Type == typeUser {
		return r.user(parts, raws)
	}
	for i, p := range parts {
		if _, ok := p.(session.ToolResult); ok { // the model never answers itself
			parts[i] = session.Opaque{Kind: "functionResponse", Raw: raws[i]}
		}
	}
	m := session.Message{ID: r.ID, Role: session.RoleAssistant,
		Source: session.Source{Kind: session.SourceModel, Provider: gemini.Provider, Model: r.Model}}
	for _, raw := range r.Thoughts {
		m.Parts = append(m.Parts, thought(raw))
	}
	m.Parts = append(m.Parts, parts...)
	gemini.Pair(m.Parts, nil) // calls in the content, which have no result here
	var results []session.Part
	for i, id := range r.callIDs() {
		t := &r.Calls[i]
		m.Parts = append(m.Parts, session.ToolCall{ID: id, Name: t.Name, Arguments: string(t.Args)})
		if k := rawjson.Kind(t.Result); k == 0 || k == 'n' {
			continue
		}
		results = append(results, t.result(id))
	}
	r.mark.Apply(&m)
	e := wire.Entry{Message: m, Time: r.time(), Usage: r.Tokens.usage(r.Model)}
	if len(results) == 0 {
		e.Message.Origin = &session.Origin{Format: SessionFormat, Raw: r.raw}
		return []wire.Entry{e}
	}
	t := session.Message{ID: r.ID, Role: session.RoleTool, Parts: results, Source: session.Source{Kind: session.SourceTool}}
	if src := r.mark.Results; src != nil {
		if t.Source = *src; t.Validate() != nil {
			t.Source = session.Source{Kind: session.SourceTool}
		}
	}
	return []wire.Entry{e, {Message: t, Time: e.Time}}
}

// callIDs are the ids of the calls; those without one are named by their tool.
func (r *record) callIDs() []string {
	var ids []string
	number := map[string]int{}
	for _, t := range r.Calls {
		id := t.ID
		if id == "" {
			id = fmt.Sprintf("%s:%d", t.Name, number[t.Name])
			number[t.Name]++
		}
		ids = append(ids, id)
	}
	return ids
}

func (t *toolCall) result(id string) session.ToolResult {
	out := session.ToolResult{CallID: id, Name: t.Name, IsError: t.Status == "error" || t.Status == "cancelled"}
	parts, ok := gemini.Parts(t.Result)
	if !ok {
		out.Parts = []session.Part{session.Opaque{Kind: "invalid", Raw: t.Result}}
		return out
	}
	raws, isList := rawjson.Elements(t.Result)
	if !isList {
		raws = []json.RawMessage{t.Result}
	}
	for i, p := range parts {
		switch p := p.(type) {
		case session.ToolResult:
			out.Parts = append(out.Parts, p.Parts...)
			out.IsError = out.IsError || p.IsError
		case session.Text, session.Image, session.File, session.Opaque:
			out.Parts = append(out.Parts, p)
		default:
			out.Parts = append(out.Parts, session.Opaque{Kind: "invalid", Raw: raws[i]})
		}
	}
	return out
}

// user makes the messages of a user's record.
func (r *record) user(parts []session.Part, raws []json.RawMessage) []wire.Entry {
	for i, p := range parts {
		if _, ok := p.(session.ToolCall); ok { // only the model calls
			parts[i] = session.Opaque{Kind: "functionCall", Raw: raws[i]}
		}
	}
	gemini.Unpaired([][]session.Part{parts})
	results, rest := gemini.Split(parts)
	var out []wire.Entry
	add := func(role session.Role, parts []session.Part, kind session.SourceKind) {
		m := session.Message{ID: r.ID, Role: role, Parts: parts, Source: session.Source{Kind: kind}}
		if role == session.RoleTool && r.mark.Results != nil {
			if m.Source = *r.mark.Results; m.Validate() != nil {
				m.Source = session.Source{Kind: kind}
			}
		} else if role != session.RoleTool {
			r.mark.Apply(&m)
		}
		out = append(out, wire.Entry{Message: m, Time: r.time()})
	}
	if len(results) > 0 {
		add(session.RoleTool, results, session.SourceTool)
	}
	if len(rest) > 0 || len(results) == 0 {
		add(session.RoleUser, rest, session.SourceUser)
	}
	if len(out) == 1 {
		out[0].Message.Origin = &session.Origin{Format: SessionFormat, Raw: r.raw}
	}
	return out
}

func thought(raw json.RawMessage) session.Part {
	var t struct {
		Subject     string `json:"subject"`
		Description string `json:"description"`
	}
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &t)) {
		return session.Opaque{Kind: "thought", Raw: raw}
	}
	text := t.Description
	if t.Subject != "" {
		text = t.Subject + "\n" + t.Description
	}
	return session.Reasoning{Text: text, Raw: raw}
}

func (t *tokens) usage(model string) *session.Usage {
	if t == nil || *t == (tokens{}) {
		return nil
	}
	return &session.Usage{Node: session.NoSeq, Prompt: t.Input + t.Tool, Completion: t.Output + t.Thoughts, CacheRead: t.Cached,
		Reasoning: t.Thoughts, Provider: gemini.Provider, Model: model}
}
