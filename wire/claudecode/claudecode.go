// Package claudecode reads and writes the session files of Claude Code: JSONL,
// one record a line, records linked by parentUuid. It follows the format as
// versions 1.0 to 2.1 write it.
//
// # Reading
//
// The conversation is what the agent would send next: what the last record
// reaches through its parents back to the last compaction, with the messages
// which that compaction preserved right after its anchor. Fragments of one
// response are one message, its results follow it directly, also those of
// parallel calls that the chain of parents misses. Branches that a rewind left
// are not live. A record whose parent is not in the file continues the record
// before it; a file without any link is taken in its order. Subagents that
// stand in the file are conversations of their own after the main one.
//
// Text that the client wrote (isMeta, interruptions, output of local commands)
// has source plugin "claude-code", as has an assistant message of the model
// "<synthetic>". API errors are not sent to the model and are left out. Results
// that a micro-compaction cleared read "[Old tool result content cleared]", as
// the agent sends them. A user record that holds results and text becomes two
// messages, so that what a person said with a result is a prompt.
//
// Origin is the record where one record is one message, and nil otherwise:
// merged fragments and split records. The writer works on the file's own
// records, so nothing depends on it. Of an opened file ([Codec.Open]) only what
// links the records is in memory, some 200 bytes a record.
//
// # Writing
//
// The file only grows. A changed surface is written as a compact_boundary
// record and what follows it: the checkpoint as isCompactSummary record,
// messages that changed or moved as copies with new ids, and the unchanged end
// of the conversation by name, in preservedSegment and preservedMessages. In a
// session of a version before 2.1.80 the end is copied as well: agents of that
// time may not know the names. What the format has no field for (our compaction
// id, a typed source) stands in a field "agentcompact" of the record, which the
// agent passes over.
//
// # Lost
//
// The system prompt and the tools are not in the file. Attachments other than
// queued prompts are sent in a form that depends on the agent's version and are
// left out, unless they carry the rendered text. Usage of preserved and copied
// messages is not reported again, since it says nothing of the shorter
// conversation; the agent does the same. Copies carry the time of the
// compaction.
package claudecode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/names"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

// Format is the name of the format.
const Format = "claude-code"

// Plugin is the plugin name in the source of messages that the agent's client
// wrote, not a person and not the model.
const Plugin = "claude-code"

// The forms of such messages, in the source's Form.
const (
	// FormMeta: a record that is marked isMeta, such as the text of a skill.
	FormMeta = "meta"
	// FormInterrupt: the note that the user interrupted.
	FormInterrupt = "interrupt"
	// FormCommand: output and caveats of local commands.
	FormCommand = "command"
	// FormAttachment: the rendered text of an attachment.
	FormAttachment = "attachment"
	// FormNotification: a queued message that no person typed.
	FormNotification = "notification"
	// FormSynthetic: an assistant message that the client made up.
	FormSynthetic = "synthetic"
	// FormCleared: a tool result that a micro-compaction cleared.
	FormCleared = "cleared"
)

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Opener = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

// detectValues is how many values of a file Detect looks at.
const detectValues = 300

// Detect implements [wire.Codec]. Qwen Code uses the same envelope around
// Gemini messages and is another format.
func (Codec) Detect(head []byte, whole bool) wire.Confidence {
	seen := wire.No
	n := 0
	for v := range jsonl.Values(head) {
		if n++; n > detectValues {
			break
		}
		if v.Torn() && !whole && seen == wire.No && likely(v.Raw) {
			seen = wire.Likely
		}
		if !v.IsObject() {
			continue
		}
		var r struct {
			Type     string          `json:"type"`
			UUID     string          `json:"uuid"`
			Parent   json.RawMessage `json:"parentUuid"`
			Leaf     string          `json:"leafUuid"`
			Session  string          `json:"sessionId"`
			Snapshot json.RawMessage `json:"snapshot"`
			Message  message         `json:"message"`
			Payload  json.RawMessage `json:"systemPayload"`
		}
		if !lenient(json.Unmarshal(v.Raw, &r)) {
			continue
		}
		switch {
		case bool(r.Message.Parts), r.Payload != nil:
			return wire.No
		case r.UUID != "" && r.Parent != nil && (r.Type == typeUser || r.Type == typeAssistant) && r.Message.hasContent():
			return wire.Certain
		case r.UUID != "" && r.Parent != nil && knownTypes[r.Type],
			r.Type == "summary" && r.Leaf != "",
			r.Type == "file-history-snapshot" && r.Snapshot != nil,
			r.Type == "queue-operation" && r.Session != "":
			seen = wire.Likely
		case seen == wire.No && r.Session != "" && (r.Type == typeUser || r.Type == typeAssistant) && r.Message.hasContent():
			seen = wire.Maybe
		}
	}
	return seen
}

// likely judges the beginning of a record.
func likely(torn []byte) bool {
	for _, name := range []string{`"parentUuid":`, `"isSidechain":`, `"sessionId":`} {
		if !bytes.Contains(torn, []byte(name)) {
			return false
		}
	}
	return !bytes.Contains(torn, []byte(`"parts":[`))
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
	f := &file{text: text}
	if err := f.scan(ctx); err != nil {
		return nil, err
	}
	out := &wire.File{Format: Format, Container: "Claude Code session"}
	if err := f.build(ctx, out); err != nil {
		return nil, err
	}
	out.Notes = f.notes
	out.Writer = &writer{f}
	return out, nil
}

// file is a session file with its records.
type file struct {
	text  *jsonl.File
	recs  []record
	ids   names.Table
	links []names.ID // see file.linked
	chats []*chat
	notes []string
}

func (f *file) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// scan reads the records of the file.
func (f *file) scan(ctx context.Context) error {
	known, odd, bad := false, 0, 0
	first := 0
	s := &scanner{f: f, responses: map[response]int32{}}
	for v, err := range f.text.Values() {
		if err != nil {
			return &wire.Error{Format: Format, Detail: "the file could not be read", Err: err}
		}
		if len(f.recs)%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case v.Torn():
			f.note("line %d: the last record is cut short and was passed over", v.Line)
			continue
		case v.Err != nil:
			if bad++; bad == 1 {
				first = v.Line
			}
			continue
		case !v.IsObject():
			odd++
			continue
		}
		l, ok := parse(v.Raw)
		if !ok {
			bad++
			continue
		}
		known = known || knownTypes[l.Type] && (l.UUID != "" || l.Side || l.Message != nil)
		r := s.record(&l)
		r.ref, r.line = f.text.Ref(v), int32(v.Line)
		f.recs = append(f.recs, r)
	}
	if !known {
		line := max(first, 1)
		return &wire.Error{Format: Format, Line: line,
			Detail: `no record of a session found; expected one JSON object a line with "type", "uuid" and "parentUuid"`}
	}
	if bad > 0 {
		f.note("%d lines are not JSON and were passed over, the first is line %d", bad, first)
	}
	if odd > 0 {
		f.note("%d values are not objects and were passed over", odd)
	}
	return nil
}

// load reads a record of the file again.
func (f *file) load(r *record) (line, json.RawMessage, error) {
	raw, err := f.text.Load(r.ref)
	if err != nil {
		return line{}, nil, &wire.Error{Format: Format, Line: int(r.line), Detail: "the record could not be read again", Err: err}
	}
	l, _ := parse(raw) // it was parsed before
	return l, raw, nil
}

// object returns a record as an object that can be changed.
func (f *file) object(r *record) (rawjson.Object, error) {
	_, raw, err := f.load(r)
	if err != nil {
		return nil, err
	}
	o, _ := rawjson.Parse(raw) // it was parsed before
	return o, nil
}
