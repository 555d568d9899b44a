package claudecode

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/anthropic"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/names"
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

// record is what links one line to others. What the line says is read again
// when it is needed.
type record struct {
	ref  jsonl.Ref
	line int32
	kind kind

	root    bool // parentUuid is null or absent
	side    bool
	summary bool
	ends    bool // it is a user or assistant record
	left    bool // it is an attachment that does not tell what was sent

	blocks   int32 // of the content
	response int32 // the response that it is a fragment of; 0 for none

	uuid, parent, logical names.ID
	agent, model          names.ID
	// first is where the ids of its calls and then those of its results begin in
	// the file's links; calls and answers are how many they are.
	first          uint32
	calls, answers int32
	// rare is what few records have; nil for most.
	rare *rare
}

// rare is what few records have.
type rare struct {
	compact *compactMetadata
	time    time.Time // of a compaction
	micro   *microMetadata
	removes []names.ID // uuids that this record takes out of the conversation
	mark    *mark
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

// content is what the agent sends for the attachment; nil when the file does
// not tell.
func (a *attachment) content() json.RawMessage {
	if a.Type == "queued_command" {
		return a.Prompt
	}
	return a.Rendered
}

// message is an Anthropic message.
type message struct {
	ID      string           `json:"id"`
	Model   string           `json:"model"`
	Usage   *anthropic.Usage `json:"usage"`
	Content json.RawMessage  `json:"content"`
	Parts   present          `json:"parts"` // it is a Gemini message
}

// hasContent reports whether the content is a string or a list.
func (m *message) hasContent() bool {
	k := rawjson.Kind(m.Content)
	return k == '"' || k == '['
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

// parse decodes a record.
func parse(raw json.RawMessage) (line, bool) {
	var l line
	ok := lenient(json.Unmarshal(raw, &l))
	return l, ok
}

// scanner makes records of lines.
type scanner struct {
	f         *file
	ids       names.Table // of responses; nothing else names them
	responses map[response]int32
}

// response is what tells the response that a record is a fragment of.
type response struct{ id, request names.ID }

// linked returns the ids of the calls of a record, and those of the results.
func (f *file) linked(r *record) (calls, results []names.ID) {
	all := f.links[r.first:]
	return all[:r.calls], all[r.calls : r.calls+r.answers]
}

// record keeps what links the line to others.
func (s *scanner) record(l *line) record {
	ids := &s.f.ids
	r := record{
		uuid: ids.Add(l.UUID), parent: ids.Add(l.Parent), logical: ids.Add(l.Logical), root: l.Parent == "",
		side: l.Side, agent: ids.Add(l.Agent), summary: l.Summary, ends: l.Type == typeUser || l.Type == typeAssistant,
	}
	var content json.RawMessage
	switch l.Type {
	case typeSummary, typeUser, typeAssistant:
		if l.Message != nil {
			content = l.Message.Content
			r.model = ids.Add(l.Message.Model)
		}
	case typeAttachment:
		r.left = true
		if l.Attach != nil {
			content = l.Attach.content()
		}
	}
	blocks, _ := anthropic.Outlines(content)
	r.blocks = int32(len(blocks))
	r.first = uint32(len(s.f.links))
	r.calls = s.link(blocks, "tool_use")
	r.answers = s.link(blocks, "tool_result")
	extra := rare{mark: l.Mark}
	remove := func(uuids []string) {
		for _, u := range uuids {
			extra.removes = append(extra.removes, ids.Add(u))
		}
	}
	remove(l.Supersedes)
	remove(l.Retracted)
	switch {
	case l.Type == typeSummary:
		// A title has no message; an authored form of the compaction summary
		// has one.
		if r.blocks > 0 && r.uuid != 0 {
			r.kind, r.summary = kindUser, true
		}
	case l.Type == typeAttachment && r.blocks > 0:
		r.kind, r.left = kindAttachment, false
	case r.ends && l.Message != nil && l.APIError:
		r.kind = kindError
	case r.ends && r.blocks == 0:
	case l.Type == typeUser:
		r.kind = kindUser
	case l.Type == typeAssistant:
		r.kind = kindAssistant
		if l.Message.ID != "" {
			key := response{s.ids.Add(l.Message.ID), s.ids.Add(l.Request)}
			if s.responses[key] == 0 {
				s.responses[key] = int32(len(s.responses) + 1)
			}
			r.response = s.responses[key]
		}
	case l.Type == typeSystem:
		if l.Subtype == boundarySubtype {
			extra.compact = l.Compact
			if extra.compact == nil {
				extra.compact = new(compactMetadata)
			}
			extra.time, _ = time.Parse(time.RFC3339, l.Time)
		}
		extra.micro = l.Micro
		if l.Snip != nil {
			remove(l.Snip.Removed)
		}
	}
	if extra.compact != nil || extra.micro != nil || extra.removes != nil || extra.mark != nil {
		r.rare = &extra
	}
	return r
}

// link keeps the ids of the blocks of a type and returns how many they are.
func (s *scanner) link(blocks []anthropic.Outline, kind string) int32 {
	n := int32(0)
	for _, b := range blocks {
		if b.Type == kind {
			s.f.links = append(s.f.links, s.f.ids.Add(b.ID))
			n++
		}
	}
	return n
}

func (r *record) mark() *mark {
	if r.rare == nil {
		return nil
	}
	return r.rare.mark
}

// boundary reports whether the record is the mark of a compaction.
func (r *record) boundary() bool { return r.rare != nil && r.rare.compact != nil }

// isMessage reports whether the record is a message or a part of one.
func (r *record) isMessage() bool {
	return r.kind == kindUser || r.kind == kindAssistant || r.kind == kindAttachment
}

// canEnd reports whether the chain can end at the record.
func (r *record) canEnd() bool { return r.ends || r.kind != kindNone }

// split reports whether the record is of a user and holds results and something
// else.
func (r *record) split() bool { return r.answers > 0 && r.answers < r.blocks }

// count is how many messages of the session a record other than a fragment is.
func (r *record) count() int {
	if r.kind == kindUser && r.split() {
		return 2
	}
	return 1
}

// content is that of the message of a record of the given kind.
func (l *line) content(k kind) json.RawMessage {
	switch {
	case k == kindAttachment:
		return l.Attach.content()
	case l.Message == nil:
		return nil
	}
	return l.Message.Content
}

// commandTags begin text that the client wrote around a local command.
var commandTags = []string{
	"<local-command-caveat>", "<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>",
	"Caveat: The messages below were generated by the user while running local commands.",
}

// source tells who wrote a user record or attachment.
func (l *line) source(k kind, parts []session.Part) session.Source {
	plugin := func(form string) session.Source {
		return session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: form}
	}
	origin, meta := l.Origin.Kind, l.Meta
	if k == kindAttachment {
		meta = meta || l.Attach.Meta
		if origin == "" {
			origin = l.Attach.Origin.Kind
		}
	}
	switch {
	case k == kindAttachment && l.Attach.Type != "queued_command":
		return plugin(FormAttachment)
	case k == kindAttachment && l.Attach.Mode != "" && l.Attach.Mode != "prompt",
		origin == "task-notification" || origin == "coordinator":
		return plugin(FormNotification)
	case meta:
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
