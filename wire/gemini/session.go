package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/names"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Sessions is the codec of the session files of Gemini CLI. The zero value is
// ready.
type Sessions struct{}

var _ wire.Opener = Sessions{}

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
	text *jsonl.File
	data []byte      // of a file in memory
	list splice.List // of a JSON file
	ids  names.Table
	recs []live
	byID map[names.ID]int32 // of recs; nil when not known
	side int
	// entries are the messages that the records make.
	entries []entry
	dropped func(entry int, at time.Time) bool // see marks.Dropped
	notes   []string
	conv    *wire.Conversation
	splice  *splice.Conversation
}

// live is a live record. What it says is read again when it is needed.
type live struct {
	ref       jsonl.Ref
	id, model names.ID
	count     int32 // of the messages that it makes
	speaks    bool
	user      bool
	timed     bool // it says when it was written
	mark      *marks.Mark
}

// entry is one of the one or two messages of a record.
type entry struct {
	rec    int32
	second bool
}

func (f *sessionFile) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// Read implements [wire.Codec].
func (Sessions) Read(ctx context.Context, data []byte) (*wire.File, error) {
	return wire.Hold(readSession(ctx, data))
}

// Open implements [wire.Opener]. A log whose first record takes several lines is
// read whole, like a session that is one document.
func (Sessions) Open(ctx context.Context, r io.ReaderAt, size int64) (*wire.File, error) {
	text := jsonl.Stored(r, size)
	unreadable := func(err error) error {
		return &wire.Error{Format: SessionFormat, Detail: "the file could not be read", Err: err}
	}
	for v, err := range text.Values() {
		if err != nil {
			return nil, unreadable(err)
		}
		if !v.IsObject() || v.Last {
			break
		}
		f := &sessionFile{text: text, conv: &wire.Conversation{}}
		file := &wire.File{Format: SessionFormat, Container: sessionLines}
		return f.finish(file, f.lines(ctx, nil, 0))
	}
	var b bytes.Buffer
	if err := text.CopyRange(ctx, &b, 0, size); err != nil {
		return nil, unreadable(err)
	}
	return Sessions{}.Read(ctx, b.Bytes())
}

// finish makes a log of the records that were read.
func (f *sessionFile) finish(file *wire.File, err error) (*wire.File, error) {
	if err != nil {
		return nil, err
	}
	f.build()
	file.Writer = &lineWriter{f}
	file.Conversations, file.Notes = []*wire.Conversation{f.conv}, f.notes
	return file, nil
}

// readSession reads a file in memory.
func readSession(ctx context.Context, data []byte) (*wire.File, error) {
	f := &sessionFile{text: jsonl.Bytes(data), data: data, conv: &wire.Conversation{}}
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
			f.recs = append(f.recs, f.live(&r, jsonl.At(s.Start, s.End-s.Start)))
		}
		f.build()
		f.splice.List = f.list
		file.Writer = &splice.Writer{Format: SessionFormat, Data: data, Lists: []*splice.Conversation{f.splice}}
		file.Conversations, file.Notes = []*wire.Conversation{f.conv}, f.notes
		return file, nil
	}
	if file.Container = sessionLines; one && top["sessionId"].IsZero() {
		file.Container = oneRecord
	}
	// The first record may stand on several lines.
	if first := doc.Of(data); doc.Kind(data) == '{' && (doc.Whole || doc.End == len(data)) && json.Valid(first) {
		return f.finish(file, f.lines(ctx, &jsonl.Value{Offset: doc.Start, Raw: first}, doc.End))
	}
	return f.finish(file, f.lines(ctx, nil, 0))
}

// live keeps of a record what links it to others.
func (f *sessionFile) live(r *record, ref jsonl.Ref) live {
	l := live{ref: ref, id: f.ids.Add(r.ID), model: f.ids.Add(r.Model), speaks: r.speaks(), user: r.Type == typeUser, timed: !r.time().IsZero()}
	if l.speaks {
		l.count = int32(len(r.entries()))
	}
	if !r.mark.IsZero() {
		l.mark = &r.mark
	}
	return l
}

// load reads a record again.
func (f *sessionFile) load(i int) (*record, error) {
	raw, err := f.text.Load(f.recs[i].ref)
	if err != nil {
		return nil, &wire.Error{Format: SessionFormat, Offset: f.recs[i].ref.Offset(), Detail: "the record could not be read again", Err: err}
	}
	if f.list.Records == nil {
		raw = oneLine(raw)
	}
	r, _ := parse(raw) // it was parsed before
	return &r, nil
}

// values are those of the file from an offset on.
func (f *sessionFile) values(from int) iter.Seq2[jsonl.Value, error] {
	if from == 0 {
		return f.text.Values()
	}
	return func(yield func(jsonl.Value, error) bool) {
		for v := range jsonl.Values(f.data[from:]) {
			if v.Offset += from; !yield(v, nil) {
				return
			}
		}
	}
}

// lines folds the records of a log into the list that is live: first, unless it
// is nil, and what stands from an offset on.
func (f *sessionFile) lines(ctx context.Context, first *jsonl.Value, from int) error {
	known, bad, firstBad := false, 0, 0
	if first != nil {
		known = f.take(*first)
	}
	n := 0
	for v, err := range f.values(from) {
		if err != nil {
			return &wire.Error{Format: SessionFormat, Detail: "the file could not be read", Err: err}
		}
		if n++; n%512 == 0 && ctx.Err() != nil {
			return &wire.Error{Format: SessionFormat, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		switch {
		case v.Torn():
			f.note("at byte %d: the last record is cut short and was passed over", v.Offset)
		case v.Err != nil:
			if bad++; bad == 1 {
				firstBad = v.Offset
			}
		default:
			known = f.take(v) || known
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

// take takes in one record of a log and reports whether it is one of the format.
func (f *sessionFile) take(v jsonl.Value) bool {
	var change struct {
		Rewind *string         `json:"$rewindTo"`
		Set    json.RawMessage `json:"$set"`
	}
	_ = splice.Lenient(json.Unmarshal(v.Raw, &change)) // what does not fit is absent
	switch {
	case change.Rewind != nil:
		f.rewind(*change.Rewind)
		return true
	case rawjson.Kind(change.Set) == '{':
		set, err := rawjson.Parse(change.Set)
		if list, ok := rawjson.Elements(set.Get("messages")); err == nil && ok {
			f.replace(v, list)
		}
		return true
	}
	r, ok := parse(oneLine(v.Raw))
	switch {
	case !ok:
		return false
	case r.ID != "" && r.Type != "":
		f.upsert(f.live(&r, f.text.Ref(v)))
		return r.Type == typeGemini || r.Time != ""
	}
	var meta struct {
		Session string `json:"sessionId"`
		Project string `json:"projectHash"`
	}
	return json.Unmarshal(v.Raw, &meta) == nil && meta.Session != "" && meta.Project != ""
}

func (f *sessionFile) upsert(r live) {
	if f.byID == nil {
		f.byID = make(map[names.ID]int32, len(f.recs))
		for i := range f.recs {
			f.byID[f.recs[i].id] = int32(i)
		}
	}
	if i, ok := f.byID[r.id]; ok {
		f.recs[i] = r
		return
	}
	f.byID[r.id] = int32(len(f.recs))
	f.recs = append(f.recs, r)
}

func (f *sessionFile) rewind(id string) {
	cut := 0 // everything, if the id is unknown
	if n, ok := f.ids.Find(id); ok {
		for i := range f.recs {
			if f.recs[i].id == n {
				cut = i
			}
		}
	}
	for _, r := range f.recs[cut:] {
		if r.speaks {
			f.side++
		}
	}
	f.recs, f.byID = f.recs[:cut], nil
}

// replace makes the list in a record that sets it the live one.
func (f *sessionFile) replace(v jsonl.Value, list []json.RawMessage) {
	kept := map[names.ID]bool{}
	old := f.recs
	f.recs, f.byID = nil, nil
	pos := 0 // in the record
	for _, raw := range list {
		// Where the same bytes stand before is as good.
		pos += max(bytes.Index(v.Raw[pos:], raw), 0)
		ref := f.text.Ref(jsonl.Value{Offset: v.Offset + pos, Raw: raw})
		pos += len(raw)
		if r, ok := parse(oneLine(raw)); ok {
			f.recs = append(f.recs, f.live(&r, ref))
			kept[f.recs[len(f.recs)-1].id] = true
		}
	}
	for _, r := range old {
		if r.speaks && !kept[r.id] {
			f.side++
		}
	}
}

// build makes the conversation of the live records.
func (f *sessionFile) build() {
	c := f.conv
	c.Side = f.side
	c.Envelope.Provider = gemini.Provider
	f.splice = &splice.Conversation{Left: c, Encode: f.encode}
	f.splice.List.Records = make([]splice.Span, len(f.recs))
	model := names.ID(0)
	for i := range f.recs {
		r := &f.recs[i]
		if !r.speaks {
			continue
		}
		count := int(r.count)
		f.splice.Groups = append(f.splice.Groups, splice.Group{From: i, To: i + 1, Entry: len(f.entries), Count: count})
		for k := range count {
			f.entries = append(f.entries, entry{int32(i), k > 0})
		}
		if r.mark != nil && r.mark.ID != "" && r.user {
			cp := r.mark.Checkpoint()
			cp.Entry = len(f.entries) - 1
			c.Checkpoints = append(c.Checkpoints, cp)
		}
		if r.model != 0 {
			model = r.model
		}
	}
	c.Envelope.Model = f.ids.Text(model)
	f.dropped = marks.Dropped(c)
	c.Leave(len(f.entries), f.entry)
	c.Locate(func(i int) int64 { return f.recs[f.entries[i].rec].ref.Offset() })
}

// entry reads the i-th live message.
func (f *sessionFile) entry(i int) (wire.Entry, error) {
	r, err := f.load(int(f.entries[i].rec))
	if err != nil {
		return wire.Entry{}, err
	}
	k := 0
	if f.entries[i].second {
		k = 1
	}
	e := r.entries()[k]
	if f.dropped(i, e.Time) {
		e.Usage = nil
	}
	return e, nil
}
