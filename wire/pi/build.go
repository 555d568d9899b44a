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
		if e := &f.entries[i]; e.Type == typeCompaction || e.mark.ID != "" {
			cp := e.checkpoint()
			if e.mark.ID == "" {
				cp.Hides = 0
				for p := range f.keptFrom(k) {
					if _, ok := f.entries[f.path[p]].message(); ok {
						cp.Hides++
					}
				}
			}
			refs[e.ref()] = len(c.Checkpoints)
			c.Checkpoints = append(c.Checkpoints, cp)
		}
	}
	if f.compacted >= 0 {
		f.add(f.path[f.compacted])
		for _, i := range f.path[f.keptFrom(f.compacted):f.compacted] {
			if f.entries[i].Type != typeCompaction {
				f.add(i)
			}
		}
		start = f.compacted + 1
		f.head = len(f.live)
	}
	for _, i := range f.path[start:] {
		f.add(i)
	}
	for i := range c.Entries {
		if n, ok := refs[c.Entries[i].Message.Source.Ref]; ok && compact.IsCheckpointSource(c.Entries[i].Message.Source) {
			c.Checkpoints[n].Entry = i
		}
	}
	marks.DropUsage(c)
	for i := range f.entries {
		if _, ok := f.entries[i].message(); ok && f.entries[i].Type == typeMessage {
			c.Side++
		}
	}
	for _, i := range f.live {
		if f.entries[i].Type == typeMessage {
			c.Side--
		}
	}
}

// route takes provider and model from the header, from changes, and from the
// replies on the path.
func (f *file) route() {
	e := &f.conv.Envelope
	e.Provider, e.Model = f.entries[0].Provider, f.entries[0].ModelID
	for _, i := range f.path {
		switch n := &f.entries[i]; {
		case n.Type == typeModel && n.ModelID != "":
			e.Provider, e.Model = n.Provider, n.ModelID
		case n.Type == typeMessage && n.Message != nil && n.Message.Role == roleAssistant && n.Message.Model != "":
			e.Provider, e.Model = n.Message.Provider, n.Message.Model
		}
	}
}

func (f *file) add(i int) {
	e := &f.entries[i]
	m, ok := e.message()
	if !ok {
		return
	}
	out := wire.Entry{Message: m, Time: e.time()}
	if e.Message != nil && e.Message.Role == roleAssistant {
		out.Usage = e.Message.Usage.session(e.Message)
	}
	f.conv.Entries = append(f.conv.Entries, out)
	f.live = append(f.live, i)
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

// message makes the message of an entry; false when it is not sent.
func (e *entry) message() (session.Message, bool) {
	m := session.Message{ID: e.ID, Role: session.RoleUser, Source: session.Source{Kind: session.SourceUser},
		Origin: &session.Origin{Format: Format, Raw: e.raw}}
	plugin := func(form string) {
		m.Source = session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: form}
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
		if e.Message == nil {
			return m, false
		}
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
			if b.Excluded {
				return m, false
			}
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
		default:
			return m, false
		}
	default:
		return m, false
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
