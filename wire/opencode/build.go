package opencode

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// part is a stored part.
type part struct {
	path string
	raw  json.RawMessage
	body partBody
	mark marks.Mark
}

type partBody struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	Synthetic bool            `json:"synthetic"`
	Ignored   bool            `json:"ignored"`
	CallID    string          `json:"callID"`
	Tool      string          `json:"tool"`
	Mime      string          `json:"mime"`
	Filename  string          `json:"filename"`
	URL       string          `json:"url"`
	Auto      bool            `json:"auto"`
	Tail      string          `json:"tail_start_id"`
	Mark      json.RawMessage `json:"agentcompact"`
	State     *struct {
		Status string            `json:"status"`
		Input  json.RawMessage   `json:"input"`
		Output *string           `json:"output"`
		Error  *string           `json:"error"`
		Files  []json.RawMessage `json:"attachments"`
		Time   struct {
			Compacted float64 `json:"compacted"`
		} `json:"time"`
	} `json:"state"`
}

func parsePart(raw json.RawMessage, name string) part {
	p := part{path: name, raw: raw}
	if rawjson.Kind(raw) == '{' {
		_ = splice.Lenient(json.Unmarshal(raw, &p.body)) // what does not fit is empty
	}
	p.mark = marks.Parse(p.body.Mark)
	return p
}

const clearedText = "[Old tool result content cleared]"

// from says where an entry comes from: the parts of one message.
type from struct {
	msg   int
	parts []int
	first bool // it begins its message
}

// chat is a session as a conversation.
type chat struct {
	conv *wire.Conversation
	from []from
}

// compaction is a compaction of the session: the request and its summary.
type compaction struct {
	request, summary int
	tail             string
	auto             bool
}

// compactions finds the requests that were answered by a summary.
func (f *file) compactions() []compaction {
	asked := map[string]compaction{}
	var out []compaction
	for i := range f.msgs {
		m := &f.msgs[i]
		if m.info.Role == "user" {
			for _, p := range m.parts {
				if p.body.Type == "compaction" {
					asked[m.info.ID] = compaction{request: i, tail: p.body.Tail, auto: p.body.Auto}
				}
			}
			continue
		}
		c, ok := asked[m.info.Parent]
		failed := rawjson.Kind(m.info.Error) != 0 && rawjson.Kind(m.info.Error) != 'n'
		if ok && string(m.info.Summary) == "true" && m.info.Finish != "" && !failed {
			c.summary = i
			out = append(out, c)
		}
	}
	return out
}

// build makes the conversation.
func (f *file) build() {
	c := &wire.Conversation{Title: f.title}
	f.chat = chat{conv: c}
	total := 0
	skip := map[int]bool{}
	list := f.compactions()
	for _, k := range list {
		skip[k.request], skip[k.summary] = true, true
	}
	order := []int{}
	if len(list) > 0 {
		k := list[len(list)-1]
		for i := range f.msgs {
			if f.msgs[i].info.ID == k.tail && i < k.request && k.tail != "" {
				for n := i; n < k.request; n++ {
					order = append(order, n)
				}
				break
			}
		}
		for n := k.request + 1; n < len(f.msgs); n++ {
			order = append(order, n)
		}
	} else {
		for n := range f.msgs {
			order = append(order, n)
		}
	}
	for i := range f.msgs {
		if !skip[i] {
			total += len(f.split(i))
		}
	}
	for n, k := range list {
		s := &f.msgs[k.summary]
		mark := marks.Parse(s.info.Mark)
		cp := wire.Checkpoint{Entry: -1, Hides: -1, Time: s.info.time(), Trigger: "manual"}
		if k.auto {
			cp.Trigger = "auto"
		}
		ref := s.ref()
		if mark.ID != "" {
			cp = mark.Checkpoint()
		}
		if n == len(list)-1 {
			cp.Entry = 0
			text := ""
			var parts []int
			for i, p := range s.parts {
				if p.body.Type == "text" && p.body.Text != nil {
					text += *p.body.Text
					parts = append(parts, i)
				}
			}
			m := session.Message{ID: s.info.ID, Role: session.RoleUser, Parts: []session.Part{session.Text{Text: text}}, Source: compact.CheckpointSource(ref)}
			f.add(wire.Entry{Message: m, Time: s.info.time()}, from{k.summary, parts, true})
		}
		c.Checkpoints = append(c.Checkpoints, cp)
	}
	for _, i := range order {
		if skip[i] {
			continue
		}
		for _, e := range f.split(i) {
			f.add(e.entry, e.from)
		}
	}
	live := len(c.Entries)
	if len(list) > 0 {
		live--
	}
	c.Side = total - live
	marks.DropUsage(c)
	for i := range f.msgs {
		if p, m := f.msgs[i].info.route(); m != "" {
			c.Envelope.Provider, c.Envelope.Model = p, m
		}
	}
}

func (f *file) add(e wire.Entry, where from) {
	f.chat.conv.Entries = append(f.chat.conv.Entries, e)
	f.chat.from = append(f.chat.from, where)
}

type located struct {
	entry wire.Entry
	from  from
}

// split makes the entries of one message.
func (f *file) split(i int) []located {
	m := &f.msgs[i]
	var out []located
	emit := func(msg session.Message, parts []int) {
		if len(msg.Parts) == 0 {
			return
		}
		msg.ID = m.info.ID
		if msg.Validate() != nil {
			return
		}
		out = append(out, located{wire.Entry{Message: msg, Time: m.info.time()}, from{i, parts, len(out) == 0}})
	}
	if m.info.Role != "assistant" {
		u := session.Message{Role: session.RoleUser, Source: session.Source{Kind: session.SourceUser}}
		var at []int
		typed := false
		for k := range m.parts {
			p := &m.parts[k]
			if q := p.plain(); q != nil {
				u.Parts, at = append(u.Parts, q), append(at, k)
				typed = typed || !p.body.Synthetic
			}
		}
		if !typed {
			u.Source = session.Source{Kind: session.SourcePlugin, Plugin: Format, Form: FormSynthetic}
		}
		marks.Parse(m.info.Mark).Apply(&u)
		emit(u, at)
		return out
	}
	provider, model := m.info.route()
	begin := func() (session.Message, session.Message) {
		return session.Message{Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel, Provider: provider, Model: model}},
			session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool}}
	}
	said, done := begin()
	var saidAt, doneAt []int
	flush := func() {
		marks.Parse(m.info.Mark).Apply(&said)
		emit(said, saidAt)
		emit(done, doneAt)
		said, done = begin()
		saidAt, doneAt = nil, nil
	}
	for k := range m.parts {
		p := &m.parts[k]
		switch p.body.Type {
		case "step-start":
			flush()
		case "tool":
			call, res, ok := p.tool()
			said.Parts, saidAt = append(said.Parts, call), append(saidAt, k)
			if ok {
				done.Parts, doneAt = append(done.Parts, res), append(doneAt, k)
			}
			switch {
			case p.mark.Results != nil:
				done.Source = *p.mark.Results
			case p.body.State != nil && p.body.State.Time.Compacted > 0:
				done.Source = session.Source{Kind: session.SourcePlugin, Plugin: Format, Form: FormCleared}
			}
		default:
			if q := p.plain(); q != nil {
				said.Parts, saidAt = append(said.Parts, q), append(saidAt, k)
			}
		}
	}
	flush()
	if t := m.info.Tokens; t != nil && len(out) > 0 && t.Input+t.Output+t.Cache.Read > 0 {
		for k := len(out) - 1; k >= 0; k-- { // the count is that of the last step
			if out[k].entry.Message.Role == session.RoleAssistant {
				out[k].entry.Usage = &session.Usage{Node: session.NoSeq, Prompt: t.Input + t.Cache.Read + t.Cache.Write, Completion: t.Output + t.Reasoning,
					CacheRead: t.Cache.Read, CacheWrite: t.Cache.Write, Reasoning: t.Reasoning, Provider: provider, Model: model}
				break
			}
		}
	}
	return out
}

// plain decodes a part that is no call; nil when it is not sent.
func (p *part) plain() session.Part {
	b := &p.body
	switch b.Type {
	case "text":
		if b.Text != nil && !b.Ignored {
			return session.Text{Text: *b.Text}
		}
	case "reasoning":
		if b.Text != nil {
			return session.Reasoning{Text: *b.Text, Raw: p.raw}
		}
	case "file":
		if strings.HasPrefix(b.Mime, "image/") {
			return session.Image{URL: b.URL, MediaType: b.Mime, Raw: p.raw}
		}
		return session.File{Name: b.Filename, URL: b.URL, MediaType: b.Mime, Raw: p.raw}
	}
	return nil
}

// tool decodes a call and its result.
func (p *part) tool() (session.ToolCall, session.ToolResult, bool) {
	// A call whose input nobody noted has none: that is how it would be written.
	call := session.ToolCall{ID: p.body.CallID, Name: p.body.Tool, Arguments: "{}"}
	if call.ID == "" {
		call.ID = fmt.Sprintf("%s:%s", p.body.Tool, p.body.ID)
	}
	res := session.ToolResult{CallID: call.ID, Name: p.body.Tool}
	s := p.body.State
	if s == nil {
		return call, res, false
	}
	if len(s.Input) > 0 {
		call.Arguments = string(s.Input)
	}
	text := func(t *string) []session.Part {
		if t == nil {
			return nil
		}
		return []session.Part{session.Text{Text: *t}}
	}
	switch s.Status {
	case "completed":
		if s.Time.Compacted > 0 {
			res.Parts = []session.Part{session.Text{Text: clearedText}}
			return call, res, true
		}
		res.Parts = text(s.Output)
		for _, raw := range s.Files {
			f := parsePart(raw, "")
			switch q := f.plain().(type) {
			case session.Image, session.File:
				res.Parts = append(res.Parts, q)
			}
		}
		return call, res, true
	case "error":
		res.Parts, res.IsError = text(s.Error), true
		return call, res, true
	}
	return call, res, false
}
