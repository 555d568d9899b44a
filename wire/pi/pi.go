// Package pi reads and writes the session files of the pi coding agent: JSONL,
// a header and one entry a line. It follows versions 1 to 3 of the format.
//
// # Reading
//
// The conversation is what the agent would send next: the entries from the last
// one up through its parents (in file order in version 1, which has no links),
// and when a compaction stands among them, its summary, the entries from the
// first kept one up to it, and what comes after. An index or id that names
// nothing before the compaction keeps nothing, as in the agent. Summaries of
// compactions and of left branches are given without the words that the agent
// puts around them when it sends them. Commands that a user ran in the shell
// are user messages in the agent's words, unless they are excluded from the
// context. Replies that were aborted or failed are messages; the agent leaves
// them out when it sends them.
//
// # Writing
//
// The file only grows. A checkpoint at the beginning of the surface is a
// compaction entry; the unchanged end of the conversation is named by its
// firstKeptEntryId (firstKeptEntryIndex in version 1). A surface that changed
// elsewhere is a branch: what stays is reached through the parents, a checkpoint
// in the middle is a branch_summary, changed messages and what follows them are
// copies with new ids. Version 1 has no branches, so for this a file of version
// 1 is upgraded, in memory, as the agent does when it opens it: every entry gets
// an id and a parent, and nothing else changes. What the format has no field for stands in a
// field "agentcompact" of the entry, which the agent passes over.
//
// # Lost
//
// The system prompt and the tools are not in the file. Copies report no usage,
// since theirs is that of the longer conversation; a changed message loses
// details and signatures of its text blocks.
package pi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format.
const Format = "pi"

// Plugin is the plugin name in the source of messages that neither a person nor
// the model wrote.
const Plugin = "pi"

// The forms of such messages, in the source's Form.
const (
	// FormBash: a command that the user ran in the shell.
	FormBash = "bash"
	// FormBranch: the summary of a branch that was left.
	FormBranch = "branch_summary"
	// FormSummary: a summary that stands as a message.
	FormSummary = "compaction_summary"
	// FormCustom: a message of an extension.
	FormCustom = "custom"
)

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var _ wire.Opener = Codec{}

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

// The types of entries.
const (
	typeSession    = "session"
	typeMessage    = "message"
	typeModel      = "model_change"
	typeCompaction = "compaction"
	typeBranch     = "branch_summary"
	typeCustom     = "custom_message"
)

// entry is one value of the file.
type entry struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Parent     string          `json:"parentId"`
	Version    int             `json:"version"`
	Timestamp  string          `json:"timestamp"`
	CreatedAt  json.RawMessage `json:"createdAt"`
	Provider   string          `json:"provider"`
	ModelID    string          `json:"modelId"`
	Summary    string          `json:"summary"`
	FirstKept  *string         `json:"firstKeptEntryId"`
	FirstIndex *int            `json:"firstKeptEntryIndex"`
	Tokens     int             `json:"tokensBefore"`
	CustomType string          `json:"customType"`
	Content    json.RawMessage `json:"content"`
	Message    *message        `json:"message"`
	Mark       json.RawMessage `json:"agentcompact"`

	raw  []byte
	line int
	mark marks.Mark
}

func parse(v jsonl.Value) (entry, bool) {
	var e entry
	if !v.IsObject() || !splice.Lenient(json.Unmarshal(v.Raw, &e)) {
		return entry{}, false
	}
	e.raw, e.line, e.mark = v.Raw, v.Line, marks.Parse(e.Mark)
	return e, true
}

// record is what links one entry to others. What the entry says is read again
// when it is needed.
type record struct {
	ref    jsonl.Ref
	line   int32
	parent int32 // of the file's entries; -1 for none
	typ    string
	id, up string // up is the parent's id
	// sent tells that the entry is a message of the conversation, where it is
	// live.
	sent bool
	// route, of an entry that tells it; nil for none.
	route *route
	// rare is what compactions and entries with our mark have; nil for others.
	rare *rare
}

// route is whose model answers.
type route struct{ provider, model string }

type rare struct {
	firstKept  *string
	firstIndex *int
	mark       marks.Mark
	ref        string
	checkpoint wire.Checkpoint
}

// interner keeps one copy of what comes again.
type interner struct {
	strings map[string]string
	routes  map[route]*route
}

func (in *interner) string(s string) string {
	have, ok := in.strings[s]
	if !ok {
		have = s
		in.strings[s] = s
	}
	return have
}

func (in *interner) route(r route) *route {
	have := in.routes[r]
	if have == nil {
		have = &r
		in.routes[r] = have
	}
	return have
}

// record keeps what links the entry to others.
func (in *interner) record(e *entry, ref jsonl.Ref) record {
	r := record{ref: ref, line: int32(e.line), typ: in.string(e.Type), id: in.string(e.ID), up: in.string(e.Parent), sent: e.sent()}
	switch {
	case e.Type == typeSession:
		r.route = in.route(route{e.Provider, e.ModelID})
	case e.Type == typeModel && e.ModelID != "":
		r.route = in.route(route{e.Provider, e.ModelID})
	case e.Type == typeMessage && e.Message != nil && e.Message.Role == roleAssistant && e.Message.Model != "":
		r.route = in.route(route{e.Message.Provider, e.Message.Model})
	}
	if e.Type == typeCompaction || !e.mark.IsZero() {
		r.rare = &rare{firstKept: e.FirstKept, firstIndex: e.FirstIndex, mark: e.mark, ref: e.ref(), checkpoint: e.checkpoint()}
	}
	return r
}

func (e *entry) time() time.Time {
	t, _ := time.Parse(time.RFC3339, e.Timestamp)
	return t
}

// Detect implements [wire.Codec]. The log of the DeepSeek harness begins alike
// and has types with a slash.
func (Codec) Detect(head []byte, whole bool) wire.Confidence {
	seen := wire.No
	n := 0
	for v := range jsonl.Values(head) {
		if n++; n > 200 {
			break
		}
		e, ok := parse(v)
		switch {
		case !ok && n == 1:
			return wire.No
		case !ok:
		case n == 1:
			if e.Type != typeSession || e.ID == "" || e.Timestamp == "" || e.CreatedAt != nil {
				return wire.No
			}
			seen = wire.Likely
		case strings.Contains(e.Type, "/"):
			return wire.No
		case e.Type == typeMessage && e.Message != nil && e.Message.Role != "":
			return wire.Certain
		}
	}
	return seen
}

// file is a session file.
type file struct {
	text    *jsonl.File
	version int
	recs    []record // the header is the first
	byID    map[string]int
	notes   []string
	last    time.Time // of the last entry

	conv *wire.Conversation
	// live are the entries of the file that the conversation's entries are, path
	// the way to the last entry, and compacted the position in path of the
	// compaction in force; -1 for none.
	live      []int
	path      []int
	compacted int
	// head is how many live entries come from the compaction: the summary and
	// what it keeps.
	head int
	// dropped tells of which entries the usage says nothing.
	dropped func(i int, at time.Time) bool
}

func (f *file) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
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
	if err := f.read(ctx); err != nil {
		return nil, err
	}
	return &wire.File{Format: Format, Container: fmt.Sprintf("pi session, version %d", f.version),
		Conversations: []*wire.Conversation{f.conv}, Notes: f.notes, Writer: &writer{f}}, nil
}

func (f *file) read(ctx context.Context) error {
	if err := f.scan(ctx); err != nil {
		return err
	}
	f.link()
	f.build()
	return nil
}

func (f *file) scan(ctx context.Context) error {
	bad, odd, first, n := 0, 0, 0, 0
	in := &interner{strings: map[string]string{}, routes: map[route]*route{}}
	for v, err := range f.text.Values() {
		if err != nil {
			return &wire.Error{Format: Format, Detail: "the file could not be read", Err: err}
		}
		if n++; n%512 == 0 && ctx.Err() != nil {
			return &wire.Error{Format: Format, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		e, ok := parse(v)
		switch {
		case v.Torn():
			f.note("line %d: the last entry is cut short and was passed over", v.Line)
			continue
		case v.Err == nil && !v.IsObject():
			odd++
		case !ok:
			if bad++; bad == 1 {
				first = v.Line
			}
		}
		if len(f.recs) == 0 && (!ok || e.Type != typeSession) {
			break
		}
		if len(f.recs) == 0 {
			f.version = max(e.Version, 1)
		}
		if v.Err != nil {
			continue // the agent does not count it
		}
		f.recs = append(f.recs, in.record(&e, f.text.Ref(v))) // also what is no entry: version 1 counts it
		f.last = e.time()
	}
	if len(f.recs) == 0 {
		return &wire.Error{Format: Format, Line: max(first, 1), Detail: `the first line is no header; expected {"type":"session",…} and one entry a line after it`}
	}
	if bad > 0 {
		f.note("%d lines are not JSON and were passed over, the first is line %d", bad, first)
	}
	if odd > 0 {
		f.note("%d values are not objects and were passed over", odd)
	}
	return nil
}

// load reads an entry of the file again.
func (f *file) load(i int) (entry, error) {
	r := &f.recs[i]
	raw, err := f.text.Load(r.ref)
	if err != nil {
		return entry{}, &wire.Error{Format: Format, Line: int(r.line), Detail: "the entry could not be read again", Err: err}
	}
	e, _ := parse(jsonl.Value{Line: int(r.line), Raw: raw}) // it was parsed before
	return e, nil
}

// linked reports whether the entries form a tree.
func (f *file) linked() bool { return f.version > 1 }

// link finds the parents and the way to the last entry.
func (f *file) link() {
	f.byID = map[string]int{}
	last, lost := 0, 0
	for i := range f.recs {
		r := &f.recs[i]
		r.parent = -1
		if i == 0 || r.typ == "" {
			continue
		}
		switch {
		case !f.linked() || r.id == "":
			r.parent = int32(last)
		case r.up != "":
			p, ok := f.byID[r.up]
			if ok {
				r.parent = int32(p)
			} else {
				lost++
			}
		}
		if r.id != "" && f.linked() {
			f.byID[r.id] = i
		}
		last = i
	}
	if lost > 0 {
		f.note("%d entries name a parent that does not stand before them; the agent takes them for the beginning", lost)
	}
	seen := 0
	for i := last; i > 0 && seen <= len(f.recs); i = int(f.recs[i].parent) {
		f.path = append(f.path, i)
		seen++
	}
	slices.Reverse(f.path)
	f.compacted = -1
	for k, i := range f.path {
		if f.recs[i].typ == typeCompaction {
			f.compacted = k
		}
	}
}

// keptFrom returns the position in path of the first entry that the compaction
// at position k keeps; k when it keeps none.
func (f *file) keptFrom(k int) int {
	c := f.recs[f.path[k]].rare
	if c == nil {
		return k
	}
	for p, i := range f.path[:k] {
		switch {
		case c.firstKept != nil && f.linked():
			if f.recs[i].id == *c.firstKept {
				return p
			}
		case c.firstIndex != nil:
			if i >= *c.firstIndex {
				return p
			}
		}
	}
	return k
}
