// Package codex reads and writes the rollout files of Codex: JSONL, one record
// a line with timestamp, type and payload. It follows the format as versions
// 0.40 to 0.110 write it, and reads the bare items of the first versions.
//
// # Reading
//
// The conversation is the history that the agent rebuilds when it resumes: the
// replacement history of the last compaction and the response items after it,
// less turns that were rolled back. An older compaction without replacement
// history is rebuilt the way the agent does: the injected messages at the
// beginning, the newest 20,000 tokens of what the user typed, the summary. Of
// the events only token counts and rollbacks are looked at. In particular
// turn_aborted says nothing, since it can stand before the items of the turn
// that was aborted.
//
// The items of one response are one message: what lies between two outputs,
// user messages or token counts. Developer messages at the very beginning and
// base instructions are in the envelope. Messages that the agent injected
// (environment, AGENTS.md) have source plugin "codex". A compaction item, which
// only the server can read, is a checkpoint with one opaque part and goes back
// as it is. Git snapshots are not conversation.
//
// Origin is the record where one record is one message, and nil for messages of
// several items or out of a replacement history. The writer works on the items
// of the file, so nothing depends on it. [Codec.Open] leaves the messages in the
// file, so that rollouts of any size are read in bounded memory.
//
// # Writing
//
// The file only grows: by one compacted record whose replacement history is the
// new surface, and for a compaction by the event context_compacted that the agent
// writes with it. Items that did not change are in it byte for byte. Where messages
// begin, the compaction id and typed sources stand in a field "agentcompact" of
// its payload, which the agent passes over.
//
// # Lost
//
// Usage and times of messages that a replacement history holds; a user message
// that the budget of an older compaction cuts is cut a little differently than
// by the agent. A changed message loses ids, status and phase of its items and
// annotations of its text. Window numbers of newer files are not continued.
package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
)

// Format is the name of the format.
const Format = "codex"

// Plugin is the plugin name in the source of messages that the agent injected.
const Plugin = "codex"

// The forms of such messages, in the source's Form.
const (
	// FormContext: environment, instructions and the like.
	FormContext = "context"
	// FormDeveloper: a developer or system message in mid-conversation.
	FormDeveloper = "developer"
	// FormAgent: a message of another agent.
	FormAgent = "agent_message"
)

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Opener = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

// The types of records.
const (
	typeMeta      = "session_meta"
	typeContext   = "turn_context"
	typeItem      = "response_item"
	typeEvent     = "event_msg"
	typeCompacted = "compacted"
)

var knownTypes = map[string]bool{
	typeMeta: true, typeContext: true, typeItem: true, typeEvent: true, typeCompacted: true,
	"world_state": true, "inter_agent_communication_metadata": true,
}

// detectValues is how many values of a file Detect looks at.
const detectValues = 100

// Detect implements [wire.Codec].
func (Codec) Detect(head []byte, whole bool) wire.Confidence {
	n, bare, items := 0, false, 0
	for v := range jsonl.Values(head) {
		if n++; n > detectValues {
			break
		}
		if n == 1 && v.Torn() && !whole && bytes.HasPrefix(v.Raw, []byte(`{"timestamp":`)) &&
			bytes.Contains(v.Raw, []byte(`"type":"session_meta"`)) && bytes.Contains(v.Raw, []byte(`"payload":{`)) {
			return wire.Likely
		}
		l, ok := parse(v)
		if !ok {
			continue
		}
		if knownTypes[l.Type] && rawjson.Kind(l.Payload) == '{' {
			return wire.Certain
		}
		if n == 1 {
			bare = l.isBareMeta()
		} else if l.isBareItem() && l.Type != "" {
			items++
		}
	}
	if bare && items > 0 {
		return wire.Likely
	}
	return wire.No
}

// line is one record.
type line struct {
	Type      string          `json:"type"`
	Timestamp string          `json:"timestamp"`
	Created   string          `json:"created_at"`
	Ordinal   *int64          `json:"ordinal"`
	Payload   json.RawMessage `json:"payload"`

	// Of the first versions, without payload.
	ID           string          `json:"id"`
	Role         string          `json:"role"`
	Instructions json.RawMessage `json:"instructions"`

	at jsonl.Value // where it stands
}

func parse(v jsonl.Value) (line, bool) {
	var l line
	if !v.IsObject() || !lenient(json.Unmarshal(v.Raw, &l)) {
		return line{}, false
	}
	l.at = v
	return l, true
}

// item is the item that a record is or holds.
func (l *line) item() json.RawMessage {
	if l.isBareItem() {
		return l.at.Raw
	}
	return l.Payload
}

func lenient(err error) bool {
	var wrong *json.UnmarshalTypeError
	return err == nil || errors.As(err, &wrong)
}

func (l *line) time() time.Time {
	s := l.Timestamp
	if s == "" {
		s = l.Created
	}
	t, _ := time.Parse(time.RFC3339, s)
	return t
}

// isBareMeta tells the first line of the first versions.
func (l *line) isBareMeta() bool {
	return l.Payload == nil && l.Type == "" && l.Role == "" && l.ID != "" && l.Timestamp != "" && l.Instructions != nil
}

// isBareItem tells the items of the first versions.
func (l *line) isBareItem() bool {
	if l.Payload != nil {
		return false
	}
	switch l.Type {
	case "":
		return l.Role != ""
	case responses.TypeMessage, responses.TypeReasoning, "function_result":
		return true
	}
	return strings.HasSuffix(l.Type, "_call") || strings.HasSuffix(l.Type, "_call_output")
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
	f := &file{text: text, models: []string{""}}
	conv, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	return &wire.File{
		Format: Format, Container: "Codex rollout", Conversations: []*wire.Conversation{conv},
		Notes: f.notes, Writer: &writer{f},
	}, nil
}

// injected are the beginnings of user messages that the agent makes up.
var injected = []string{
	"<environment_context>", "<user_instructions>", "# agents.md instructions", "<turn_aborted>",
	"<user_shell_command>", "<skill>", "<subagent_notification>", "<permissions instructions>",
}

// source tells who wrote a message that is not the model's or a tool's.
func source(it responses.Item) session.Source {
	form := ""
	switch {
	case it.Type == responses.TypeAgentMessage:
		form = FormAgent
	case it.Role == session.RoleDeveloper || it.Role == session.RoleSystem:
		form = FormDeveloper
	case len(it.Parts) > 0:
		t, _ := it.Parts[0].(session.Text)
		text := strings.TrimSpace(t.Text)
		for _, p := range injected {
			if len(text) >= len(p) && strings.EqualFold(text[:len(p)], p) {
				form = FormContext
			}
		}
	}
	if form == "" {
		return session.Source{Kind: session.SourceUser}
	}
	return session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Form: form}
}
