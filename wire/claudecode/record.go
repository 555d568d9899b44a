package claudecode

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/anthropic"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

const (
	typeUser       = "user"
	typeAssistant  = "assistant"
	typeSystem     = "system"
	typeAttachment = "attachment"
	typeSummary    = "summary"

	boundarySubtype = "compact_boundary"
	syntheticModel  = "<synthetic>"

	// clearedText is what the agent sends for a result that was cleared.
	clearedText = "[Old tool result content cleared]"
)

// knownTypes are the types of records that stand in the chain of parents.
var knownTypes = map[string]bool{typeUser: true, typeAssistant: true, typeSystem: true, typeAttachment: true, "progress": true}

// kind is what a record is to the conversation.
type kind byte

const (
	kindNone kind = iota
	kindUser
	kindAssistant
	kindAttachment
	// kindError: what the client shows for a failed request. It is not sent,
	// but can be the end of the chain.
	kindError
)

// record is one line, without the content of its message.
type record struct {
	raw  []byte
	line int
	kind kind

	typ, subtype          string
	uuid, parent, logical string
	root                  bool // parentUuid is null or absent
	side                  bool
	agent                 string
	request               string
	time                  time.Time
	meta, summary         bool
	origin                string // kind of origin: who sent a queued message

	msg        *message
	attachment *attachment
	compact    *compactMetadata
	micro      *microMetadata
	removes    []string // uuids that this record takes out of the conversation
	mark       *mark
}

// line is the JSON form of a record.
type line struct {
	Type     string           `json:"type"`
	Subtype  string           `json:"subtype"`
	UUID     string           `json:"uuid"`
	Parent   string           `json:"parentUuid"`
	Logical  string           `json:"logicalParentUuid"`
	Side     bool             `json:"isSidechain"`
	Agent    string           `json:"agentId"`
	Request  string           `json:"requestId"`
	Time     string           `json:"timestamp"`
	Meta     bool             `json:"isMeta"`
	Summary  bool             `json:"isCompactSummary"`
	APIError bool             `json:"isApiErrorMessage"`
	Message  *message         `json:"message"`
	Attach   *attachment      `json:"attachment"`
	Compact  *compactMetadata `json:"compactMetadata"`
	Micro    *microMetadata   `json:"microcompactMetadata"`
	Snip     *struct {
		Removed []string `json:"removedUuids"`
	} `json:"snipMetadata"`
	Supersedes []string `json:"supersedesUuids"`
	Retracted  []string `json:"retractedMessageUuids"`
	Origin     struct {
		Kind string `json:"kind"`
	} `json:"origin"`
	Mark *mark `json:"agentcompact"`
}

// mark is our own field in records that we wrote.
type mark struct {
	// ID is the compaction id of a checkpoint.
	ID string `json:"id,omitempty"`
	// Hides is how many messages it replaced.
	Hides *int `json:"hides,omitempty"`
	// Source is the typed source of the message.
	Source *session.Source `json:"source,omitempty"`
}

type compactMetadata struct {
	Trigger   string `json:"trigger"`
	PreTokens int    `json:"preTokens"`
	Segment   *struct {
		Head   string `json:"headUuid"`
		Anchor string `json:"anchorUuid"`
		Tail   string `json:"tailUuid"`
	} `json:"preservedSegment"`
	Messages *struct {
		Anchor string   `json:"anchorUuid"`
		UUIDs  []string `json:"uuids"`
		All    []string `json:"allUuids"`
	} `json:"preservedMessages"`
}

type microMetadata struct {
	Tools       []string `json:"compactedToolIds"`
	Attachments []string `json:"clearedAttachmentUUIDs"`
}

type attachment struct {
	Type     string          `json:"type"`
	Prompt   json.RawMessage `json:"prompt"`
	Mode     string          `json:"commandMode"`
	Rendered json.RawMessage `json:"rendered"`
	Meta     bool            `json:"isMeta"`
	Origin   struct {
		Kind string `json:"kind"`
	} `json:"origin"`
}

// text is the content that the agent sends for the attachment; nil when the
// file does not tell.
func (a *attachment) text() json.RawMessage {
	content := a.Rendered
	if a.Type == "queued_command" {
		content = a.Prompt
	}
	if parts, _ := anthropic.Parts(content); len(parts) == 0 {
		return nil
	}
	return content
}

// message is an Anthropic message without its content.
type message struct {
	id, model string
	usage     *anthropic.Usage
	content   content
	parts     bool // it is a Gemini message
}

// content says what blocks a message has.
type content struct {
	ok             bool // a string or a list
	blocks         int
	calls, results []string
}

// split reports whether a user record holds results and something else.
func (c *content) split() bool { return len(c.results) > 0 && len(c.results) < c.blocks }

func (m *message) UnmarshalJSON(b []byte) error {
	if rawjson.Kind(b) != '{' {
		return nil
	}
	var j struct {
		ID      string           `json:"id"`
		Model   string           `json:"model"`
		Usage   *anthropic.Usage `json:"usage"`
		Content content          `json:"content"`
		Parts   present          `json:"parts"`
	}
	if err := json.Unmarshal(b, &j); !lenient(err) {
		return err
	}
	*m = message{j.ID, j.Model, j.Usage, j.Content, bool(j.Parts)}
	return nil
}

func (c *content) UnmarshalJSON(b []byte) error {
	switch rawjson.Kind(b) {
	case '"':
		c.ok = true
		if len(b) > len(`""`) {
			c.blocks = 1
		}
	case '[':
		var list []lightBlock
		if err := json.Unmarshal(b, &list); !lenient(err) {
			return err
		}
		c.ok, c.blocks = true, len(list)
		for _, b := range list {
			switch b.Type {
			case "tool_use":
				c.calls = append(c.calls, b.ID)
			case "tool_result":
				c.results = append(c.results, b.ToolUseID)
			}
		}
	}
	return nil
}

type lightBlock struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	ToolUseID string `json:"tool_use_id"`
}

// present notes that a member exists.
type present bool

func (p *present) UnmarshalJSON([]byte) error { *p = true; return nil }

// lenient reports whether the value was decoded, if need be without members of
// an unexpected type.
func lenient(err error) bool {
	var wrong *json.UnmarshalTypeError
	return err == nil || errors.As(err, &wrong)
}

func parse(v jsonl.Value) (record, bool) {
	var l line
	if !lenient(json.Unmarshal(v.Raw, &l)) {
		return record{}, false
	}
	r := record{
		raw: v.Raw, line: v.Line, typ: l.Type, subtype: l.Subtype,
		uuid: l.UUID, parent: l.Parent, logical: l.Logical, root: l.Parent == "",
		side: l.Side, agent: l.Agent, request: l.Request, meta: l.Meta, summary: l.Summary, origin: l.Origin.Kind,
		msg: l.Message, mark: l.Mark,
	}
	r.time, _ = time.Parse(time.RFC3339, l.Time)
	switch l.Type {
	case typeSummary:
		// A title has no message; an authored form of the compaction summary
		// has one.
		if r.msg != nil && r.msg.content.blocks > 0 && r.uuid != "" {
			r.kind, r.summary = kindUser, true
		}
	case typeUser, typeAssistant:
		switch {
		case r.msg == nil:
		case l.APIError:
			r.kind = kindError
		case r.msg.content.blocks == 0:
		case l.Type == typeUser:
			r.kind = kindUser
		default:
			r.kind = kindAssistant
		}
	case typeAttachment:
		if l.Attach != nil && l.Attach.text() != nil {
			r.kind, r.attachment = kindAttachment, l.Attach
			r.meta = r.meta || l.Attach.Meta
			if r.origin == "" {
				r.origin = l.Attach.Origin.Kind
			}
		}
	case typeSystem:
		if l.Subtype == boundarySubtype {
			r.compact = l.Compact
			if r.compact == nil {
				r.compact = new(compactMetadata)
			}
		}
		r.micro = l.Micro
		if l.Snip != nil {
			r.removes = l.Snip.Removed
		}
	}
	r.removes = append(append(r.removes, l.Supersedes...), l.Retracted...)
	return r, true
}

// boundary reports whether the record is the mark of a compaction.
func (r *record) boundary() bool { return r.compact != nil }

// isMessage reports whether the record is a message or a part of one.
func (r *record) isMessage() bool {
	return r.kind == kindUser || r.kind == kindAssistant || r.kind == kindAttachment
}

// canEnd reports whether the chain can end at the record.
func (r *record) canEnd() bool {
	return r.typ == typeUser || r.typ == typeAssistant || r.kind != kindNone
}

// key identifies the response that an assistant record is a fragment of; empty
// when the record stands alone.
func (r *record) key() string {
	if r.kind != kindAssistant || r.msg.id == "" {
		return ""
	}
	return r.msg.id + "\x00" + r.request
}

// count is how many messages of the session a record other than a fragment is.
func (r *record) count() int {
	if r.kind == kindUser && r.msg.content.split() {
		return 2
	}
	return 1
}

// content decodes the content of the record's message.
func (r *record) content() json.RawMessage {
	if r.attachment != nil {
		return r.attachment.text()
	}
	var j struct {
		Message struct {
			Content json.RawMessage `json:"content"`
		} `json:"message"`
	}
	if !lenient(json.Unmarshal(r.raw, &j)) {
		return nil
	}
	return j.Message.Content
}

// commandTags begin text that the client wrote around a local command.
var commandTags = []string{
	"<local-command-caveat>", "<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>",
	"Caveat: The messages below were generated by the user while running local commands.",
}

// source tells who wrote a user record or attachment.
func (r *record) source(parts []session.Part) session.Source {
	plugin := func(form string) session.Source {
		return session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: form}
	}
	switch {
	case r.kind == kindAttachment && r.attachment.Type != "queued_command":
		return plugin(FormAttachment)
	case r.kind == kindAttachment && r.attachment.Mode != "" && r.attachment.Mode != "prompt",
		r.origin == "task-notification" || r.origin == "coordinator":
		return plugin(FormNotification)
	case r.meta:
		return plugin(FormMeta)
	}
	if len(parts) > 0 {
		if t, ok := parts[0].(session.Text); ok {
			if strings.HasPrefix(t.Text, "[Request interrupted by user") {
				return plugin(FormInterrupt)
			}
			for _, tag := range commandTags {
				if strings.HasPrefix(t.Text, tag) {
					return plugin(FormCommand)
				}
			}
		}
	}
	return session.Source{Kind: session.SourceUser}
}
