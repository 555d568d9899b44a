package gemini

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// record is one message of a session, or what changes it.
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
