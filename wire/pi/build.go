package pi

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

// message is the message of an entry.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Provider   string          `json:"provider"`
	Model      string          `json:"model"`
	Usage      *usage          `json:"usage"`
	StopReason string          `json:"stopReason"`
	CallID     string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	IsError    bool            `json:"isError"`
	Command    string          `json:"command"`
	Output     string          `json:"output"`
	ExitCode   *int            `json:"exitCode"`
	Cancelled  bool            `json:"cancelled"`
	Excluded   bool            `json:"excludeFromContext"`
	CustomType string          `json:"customType"`
	Summary    string          `json:"summary"`
}

type usage struct {
	Input      int `json:"input"`
	Output     int `json:"output"`
	CacheRead  int `json:"cacheRead"`
	CacheWrite int `json:"cacheWrite"`
	Reasoning  int `json:"reasoning"`
}

// The roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleResult    = "toolResult"
	roleBash      = "bashExecution"
	roleHook      = "hookMessage" // before version 3
	roleCustom    = "custom"
	roleBranch    = "branchSummary"
	roleSummary   = "compactionSummary"
)

// build makes the conversation.
func (f *file) build() {
	c := &wire.Conversation{}
	f.conv = c
	f.route()
	start := 0
	refs := map[string]int{} // checkpoint by identity
	for k, i := range f.path {
		r := f.recs[i].rare
		if r == nil || f.recs[i].typ != typeCompaction && r.mark.ID == "" {
			continue
		}
		cp := r.checkpoint
		if r.mark.ID == "" {
			cp.Hides = 0
			for p := range f.keptFrom(k) {
				if f.recs[f.path[p]].sent {
					cp.Hides++
				}
			}
		}
		refs[r.ref] = len(c.Checkpoints)
		c.Checkpoints = append(c.Checkpoints, cp)
	}
	add := func(i int) {
		if f.recs[i].sent {
			f.live = append(f.live, i)
		}
	}
	if f.compacted >= 0 {
		add(f.path[f.compacted])
		for _, i := range f.path[f.keptFrom(f.compacted):f.compacted] {
			if f.recs[i].typ != typeCompaction {
				add(i)
			}
		}
		start = f.compacted + 1
		f.head = len(f.live)
	}
	for _, i := range f.path[start:] {
		add(i)
	}
	for i, at := range f.live {
		if f.recs[at].rare == nil {
			continue
		}
		src := f.source(at)
		if n, ok := refs[src.Ref]; ok && compact.IsCheckpointSource(src) {
			c.Checkpoints[n].Entry = i
		}
	}
	f.dropped = marks.Dropped(c)
	for i := range f.recs {
		if r := &f.recs[i]; r.sent && r.typ == typeMessage {
			c.Side++
		}
	}
	for _, i := range f.live {
		if f.recs[i].typ == typeMessage {
			c.Side--
		}
	}
	c.Leave(len(f.live), f.entry)
	c.Locate(func(i int) int64 { return f.recs[f.live[i]].ref.Offset() })
}

// source is that of the message of an entry. It is none when the entry cannot be
// read again, which who asks for the message is told.
func (f *file) source(i int) session.Source {
	e, err := f.load(i)
	if err != nil {
		return session.Source{}
	}
	m, _ := e.message()
	return m.Source
}

// route takes provider and model from the header, from changes, and from the
// replies on the path.
func (f *file) route() {
	e := &f.conv.Envelope
	e.Provider, e.Model = f.recs[0].route.provider, f.recs[0].route.model
	for _, i := range f.path {
		if r := f.recs[i].route; r != nil && f.recs[i].typ != typeSession {
			e.Provider, e.Model = r.provider, r.model
		}
	}
}

// entry reads the i-th live message.
func (f *file) entry(i int) (wire.Entry, error) {
	e, err := f.load(f.live[i])
	if err != nil {
		return wire.Entry{}, err
	}
	m, _ := e.message()
	out := wire.Entry{Message: m, Time: e.time()}
	if e.Message != nil && e.Message.Role == roleAssistant && !f.dropped(i, out.Time) {
		out.Usage = e.Message.Usage.session(e.Message)
	}
	return out, nil
}

// ref is the identity of a compaction.
func (e *entry) ref() string {
	if e.mark.ID != "" {
		return e.mark.ID
	}
	if e.ID != "" {
		return e.ID
	}
	return fmt.Sprintf("%s/%d", Format, e.line)
}

func (e *entry) checkpoint() wire.Checkpoint {
	if e.mark.ID != "" {
		return e.mark.Checkpoint()
	}
	return wire.Checkpoint{Entry: -1, TokensBefore: e.Tokens, Hides: -1, Time: e.time()}
}

// sent reports whether the agent sends the entry.
func (e *entry) sent() bool {
	switch e.Type {
	case typeCompaction, typeBranch, typeCustom:
		return true
	case typeMessage:
		if e.Message == nil {
			return false
		}
		switch e.Message.Role {
		case roleUser, roleAssistant, roleResult, roleHook, roleCustom, roleBranch, roleSummary:
			return true
		case roleBash:
			return !e.Message.Excluded
		}
	}
	return false
}

// message makes the message of an entry; false when it is not sent.
func (e *entry) message() (session.Message, bool) {
	m := session.Message{ID: e.ID, Role: session.RoleUser, Source: session.Source{Kind: session.SourceUser},
		Origin: &session.Origin{Format: Format, Raw: e.raw}}
	plugin := func(form string) {
		m.Source = session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: form}
	}
	if !e.sent() {
		return m, false
	}
	switch e.Type {
	case typeCompaction:
		m.Parts = text(e.Summary)
		m.Source = compact.CheckpointSource(e.ref())
	case typeBranch:
		m.Parts = text(e.Summary)
		plugin(FormBranch)
	case typeCustom:
		m.Parts = blocks(e.Content, false)
		plugin(FormCustom)
		m.Source.Ref = e.CustomType
	case typeMessage:
		switch b := e.Message; b.Role {
		case roleUser:
			m.Parts = blocks(b.Content, false)
		case roleAssistant:
			m.Role = session.RoleAssistant
			m.Parts = blocks(b.Content, true)
			m.Source = session.Source{Kind: session.SourceModel, Provider: b.Provider, Model: b.Model}
		case roleResult:
			m.Role = session.RoleTool
			m.Parts = []session.Part{session.ToolResult{CallID: b.CallID, Name: b.ToolName, Parts: blocks(b.Content, false), IsError: b.IsError}}
			m.Source = session.Source{Kind: session.SourceTool}
		case roleBash:
			m.Parts = text(b.shell())
			plugin(FormBash)
		case roleHook, roleCustom:
			m.Parts = blocks(b.Content, false)
			plugin(FormCustom)
			m.Source.Ref = b.CustomType
		case roleBranch:
			m.Parts = text(b.Summary)
			plugin(FormBranch)
		case roleSummary:
			m.Parts = text(b.Summary)
			plugin(FormSummary)
		}
	}
	e.mark.Apply(&m)
	return m, true
}

func text(s string) []session.Part { return []session.Part{session.Text{Text: s}} }

// shell words a command of the user as the agent does.
func (m *message) shell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Ran `%s`\n", m.Command)
	if m.Output != "" {
		fmt.Fprintf(&b, "```\n%s\n```", m.Output)
	} else {
		b.WriteString("(no output)")
	}
	switch {
	case m.Cancelled:
		b.WriteString("\n\n(command cancelled)")
	case m.ExitCode != nil && *m.ExitCode != 0:
		fmt.Fprintf(&b, "\n\nCommand exited with code %d", *m.ExitCode)
	}
	return b.String()
}

type block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"thinkingSignature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Data      string          `json:"data"`
	MimeType  string          `json:"mimeType"`
}

// blocks decodes content: a string or a list of blocks.
func blocks(content json.RawMessage, fromModel bool) []session.Part {
	if s, ok := rawjson.String(content); ok {
		return text(s)
	}
	list, _ := rawjson.Elements(content)
	parts := make([]session.Part, 0, len(list))
	for _, raw := range list {
		parts = append(parts, decode(raw, fromModel))
	}
	return parts
}

func decode(raw json.RawMessage, fromModel bool) session.Part {
	var b block
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &b)) {
		return session.Opaque{Kind: "invalid", Raw: raw}
	}
	switch b.Type {
	case "text":
		if b.Text != nil {
			return session.Text{Text: *b.Text}
		}
	case "image":
		return session.Image{URL: "data:" + b.MimeType + ";base64," + b.Data, MediaType: b.MimeType, Raw: raw}
	case "thinking":
		if fromModel {
			return session.Reasoning{Text: b.Thinking, Signature: b.Signature, Raw: raw}
		}
	case "toolCall":
		if fromModel {
			return session.ToolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Arguments), Raw: raw}
		}
	}
	if b.Type == "" {
		b.Type = "invalid"
	}
	return session.Opaque{Kind: b.Type, Raw: raw}
}

func (u *usage) session(m *message) *session.Usage {
	if u == nil || *u == (usage{}) {
		return nil
	}
	return &session.Usage{Node: session.NoSeq, Prompt: u.Input + u.CacheRead + u.CacheWrite, Completion: u.Output, CacheRead: u.CacheRead,
		CacheWrite: u.CacheWrite, Reasoning: u.Reasoning, Provider: m.Provider, Model: m.Model}
}
