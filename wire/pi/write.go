package pi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

type writer struct{ f *file }

// Write implements [wire.Writer].
func (w *writer) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	f := w.f
	if conversation != 0 {
		return &wire.Error{Format: Format, Detail: fmt.Sprintf("there is no conversation %d; a session has one", conversation)}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var tail []byte
	if items != nil && !splice.Unchanged(len(f.live), items) {
		if err := f.check(items); err != nil {
			return err
		}
		if !f.linked() && !f.plain(items) {
			var err error
			if f, err = f.upgrade(ctx); err != nil {
				return err
			}
		}
		ids, err := f.newIDs(ctx, items)
		if err != nil {
			return err
		}
		a := &appender{f: f, ids: ids, at: marks.Stamp(marks.Time(items, f.last))}
		if err := a.write(items); err != nil {
			return err
		}
		ends, err := f.text.EndsLine()
		if err != nil {
			return err
		}
		if tail = a.buf.Bytes(); !ends {
			tail = append([]byte{'\n'}, tail...)
		}
	}
	return logfile.Copy(ctx, Format, f.text, out, tail)
}

func (f *file) newIDs(ctx context.Context, items []wire.Item) (*marks.IDs, error) {
	return marks.NewFileIDs(ctx, items, f.text, func(id string) bool {
		_, ok := f.byID[id]
		return ok
	})
}

// check refuses items that the format cannot hold.
func (f *file) check(items []wire.Item) error {
	if err := splice.Check(Format, len(f.live), items); err != nil {
		return err
	}
	if len(items) == 0 {
		return &wire.Error{Format: Format, Detail: "a conversation without messages cannot be written; leave at least a checkpoint"}
	}
	for i, it := range items {
		if m := it.Message; m != nil && (m.Role == session.RoleDeveloper || m.Role == session.RoleSystem) {
			return &wire.Error{Format: Format, Detail: fmt.Sprintf("item %d is a %s message, which the format does not have; make it a user message", i, m.Role)}
		}
	}
	return nil
}

// isSummary tells a checkpoint that an entry of its own can stand for.
func isSummary(it wire.Item) bool {
	if it.Compaction == nil || it.Message == nil || it.Entry >= 0 || it.Message.Role != session.RoleUser || len(it.Message.Parts) != 1 {
		return false
	}
	_, ok := it.Message.Parts[0].(session.Text)
	return ok
}

// plain reports whether version 1 can say it: the surface begins with a new
// checkpoint, and there is no other, or it only grew.
func (f *file) plain(items []wire.Item) bool {
	first := isSummary(items[0])
	for i, it := range items {
		if i > 0 && it.Compaction != nil || it.Entry >= 0 && it.Message == nil && f.recs[f.live[it.Entry]].typ == typeCompaction && first {
			return false
		}
	}
	return first || f.stays(items) == len(f.live)
}

// stays is how many entries stand unchanged at the beginning of the surface and
// can be reached through the parents of what follows.
func (f *file) stays(items []wire.Item) int {
	n := 0
	for n < len(items) && n < len(f.live) && items[n].Entry == n && items[n].Message == nil {
		n++
	}
	if n < f.head || !f.linked() && n < len(f.live) {
		return 0
	}
	if n == 0 || !f.linked() {
		return n
	}
	if n == len(f.live) {
		if !f.named(f.path[len(f.path)-1]) {
			return 0
		}
	} else if !f.named(f.at(n)) {
		return 0
	}
	return n
}

// at is the entry that a branch behind the first n live entries hangs on.
func (f *file) at(n int) int {
	if n == f.head {
		return f.path[f.compacted]
	}
	return f.live[n-1]
}

// named reports whether an entry can be told from others by its id.
func (f *file) named(i int) bool {
	id := f.recs[i].id
	return id != "" && f.byID[id] == i
}

// upgrade gives every entry of a file of version 1 an id and a parent.
func (f *file) upgrade(ctx context.Context) (*file, error) {
	ids, err := marks.NewFileIDs(ctx, nil, f.text, nil)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(f.recs))
	for i := 1; i < len(names); i++ {
		names[i] = ids.Hex(4)
	}
	var b bytes.Buffer
	prev := any(nil)
	n := -1
	for v, err := range f.text.Values() {
		if err != nil {
			return nil, &wire.Error{Format: Format, Detail: "the file could not be read", Err: err}
		}
		if v.Torn() {
			continue
		}
		if v.Err == nil {
			n++
		}
		o, err := rawjson.Parse(v.Raw)
		e, ok := parse(v)
		switch {
		case err != nil || !ok || e.Type == "":
			b.Write(v.Raw)
		case n == 0:
			o.Set("version", 3)
			b.Write(o.Bytes())
		default:
			o.Set("id", names[n])
			o.Set("parentId", prev)
			if e.Type == typeCompaction {
				first := names[n]
				if k := e.FirstIndex; k != nil && *k < n {
					first = names[max(*k, 1)]
				}
				o.Delete("firstKeptEntryIndex")
				o.Set("firstKeptEntryId", first)
				if e.mark.ID == "" { // our name for it outlives the change
					m := marks.Mark{ID: e.ref(), TokensBefore: e.Tokens}
					o.Set(marks.Field, m)
				}
			} else if e.Message != nil && e.Message.Role == roleHook {
				msg, _ := rawjson.Parse(o.Get("message"))
				msg.Set("role", roleCustom)
				o.Set("message", msg)
			}
			prev = names[n]
			b.Write(o.Bytes())
		}
		b.WriteByte('\n')
	}
	g := &file{text: jsonl.Bytes(b.Bytes())}
	if err := g.read(ctx); err != nil {
		return nil, err
	}
	if len(g.live) != len(f.live) {
		return nil, &wire.Error{Format: Format, Detail: "the file of version 1 cannot be upgraded; open and close it in pi and try again"}
	}
	return g, nil
}

// appender makes the entries that are appended to the file.
type appender struct {
	f    *file
	ids  *marks.IDs
	at   string
	prev any    // id of the entry before; nil for none
	id   string // of the next entry, when it is decided already
	buf  bytes.Buffer
}

func (a *appender) write(items []wire.Item) error {
	f := a.f
	if n := len(f.path); n > 0 && f.linked() && f.named(f.path[n-1]) {
		a.prev = f.recs[f.path[n-1]].id
	}
	leaf := a.prev
	rest := items
	switch n := f.stays(items); {
	case n > 0:
		rest = items[n:]
		if !f.linked() || n == len(f.live) {
			break
		}
		a.prev = f.recs[f.at(n)].id
	case isSummary(items[0]):
		rest = items[1:]
		k := f.tail(rest)
		a.compaction(items[0], rest[:k])
		rest = rest[k:]
	default:
		a.prev = nil // a branch from the beginning
	}
	for _, it := range rest {
		if err := a.item(it, leaf); err != nil {
			return err
		}
	}
	return nil
}

// tail is how many items, at the beginning, are the unchanged end of the
// conversation in a form that a compaction can keep.
func (f *file) tail(items []wire.Item) int {
	k := 0
	for k < len(items) && items[k].Entry >= 0 && items[k].Message == nil && items[k].Entry == items[0].Entry+k {
		k++
	}
	if k == 0 || items[0].Entry+k != len(f.live) {
		return 0
	}
	// What the path holds from there on must be these entries.
	first := f.live[items[0].Entry]
	if f.linked() && (!f.named(first) || !f.named(f.path[len(f.path)-1])) {
		return 0
	}
	e := items[0].Entry
	from := -1
	for p, i := range f.path {
		if i == first && f.recs[i].typ != typeCompaction {
			from = p
		}
	}
	if from < 0 {
		return 0
	}
	for _, i := range f.path[from:] {
		if !f.recs[i].sent || f.recs[i].typ == typeCompaction {
			continue
		}
		if e >= len(f.live) || f.live[e] != i {
			return 0
		}
		e++
	}
	if e != len(f.live) {
		return 0
	}
	return k
}

// line appends an entry; own fields come behind type, id and parent.
func (a *appender) line(kind string, own rawjson.Object) {
	o := rawjson.Object{}
	o.Set("type", kind)
	if a.f.linked() {
		id := a.id
		if a.id = ""; id == "" {
			id = a.ids.Hex(4)
		}
		o.Set("id", id)
		o.Set("parentId", a.prev)
		a.prev = id
	}
	o.Set("timestamp", a.at)
	for _, f := range own {
		o.Set(f.Name, f.Value)
	}
	a.buf.Write(oneLine(o.Bytes()))
	a.buf.WriteByte('\n')
}

func oneLine(raw json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw // unreachable: it was made of valid values
	}
	return b.Bytes()
}

// compaction writes the entry of a checkpoint that begins the surface.
func (a *appender) compaction(it wire.Item, kept []wire.Item) {
	o := rawjson.Object{}
	o.Set("summary", it.Message.Text())
	switch f := a.f; {
	case f.linked() && len(kept) > 0:
		o.Set("firstKeptEntryId", f.recs[f.live[kept[0].Entry]].id)
	case f.linked():
		// Its own id stands nowhere before it: nothing is kept.
		a.id = a.ids.Hex(4)
		o.Set("firstKeptEntryId", a.id)
	case len(kept) > 0:
		o.Set("firstKeptEntryIndex", f.live[kept[0].Entry])
	default:
		o.Set("firstKeptEntryIndex", len(f.recs))
	}
	o.Set("tokensBefore", it.Compaction.TokensBefore)
	o.Set("fromHook", false)
	o.Set(marks.Field, marks.Of(it.Message, it.Compaction, compact.CheckpointSource(it.Compaction.ID)))
	a.line(typeCompaction, o)
}

// item writes one message behind the others.
func (a *appender) item(it wire.Item, leaf any) error {
	m := it.Message
	if m == nil {
		e, err := a.f.load(a.f.live[it.Entry])
		if err != nil {
			return err
		}
		o, _ := rawjson.Parse(e.raw) // it was read
		kind := e.Type
		if kind == typeCompaction {
			kind = typeBranch // a compaction works at the beginning only
			o = rawjson.Object{{Name: "fromId", Value: rawjson.Marshal(leaf)}, {Name: "summary", Value: rawjson.Marshal(e.Summary)}}
			own := e.mark
			if own.ID == "" {
				own = marks.Mark{ID: e.ref(), TokensBefore: e.Tokens}
			}
			o.Set(marks.Field, own)
		}
		for _, name := range []string{"type", "id", "parentId"} {
			o.Delete(name)
		}
		a.line(kind, withoutUsage(o))
		return nil
	}
	if isSummary(it) && a.f.linked() {
		o := rawjson.Object{}
		o.Set("fromId", leaf)
		o.Set("summary", m.Text())
		o.Set(marks.Field, marks.Of(m, it.Compaction, compact.CheckpointSource(it.Compaction.ID)))
		a.line(typeBranch, o)
		return nil
	}
	list, err := a.encode(m)
	if err != nil {
		return err
	}
	for _, msg := range list {
		o := rawjson.Object{}
		o.Set("message", msg)
		if own := marks.Of(m, it.Compaction, derived(m)); !own.IsZero() {
			o.Set(marks.Field, own)
		}
		a.line(typeMessage, o)
	}
	return nil
}

func derived(m *session.Message) session.Source {
	switch m.Role {
	case session.RoleAssistant:
		return session.Source{Kind: session.SourceModel}
	case session.RoleTool:
		return session.Source{Kind: session.SourceTool}
	}
	return session.Source{Kind: session.SourceUser}
}

var noUsage = json.RawMessage(`{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`)

// withoutUsage takes figures of the longer conversation out of a copy.
func withoutUsage(o rawjson.Object) rawjson.Object {
	msg, err := rawjson.Parse(o.Get("message"))
	if err == nil && msg.Get("usage") != nil {
		msg.Set("usage", noUsage)
		o.Set("message", msg)
	}
	return o
}

// encode makes the messages of a message: one for each result.
func (a *appender) encode(m *session.Message) ([]rawjson.Object, error) {
	at := int64(0)
	if t, err := time.Parse(time.RFC3339, a.at); err == nil {
		at = t.UnixMilli()
	}
	var out []rawjson.Object
	o := rawjson.Object{}
	switch m.Role {
	case session.RoleTool:
		for _, p := range m.Parts {
			r, ok := p.(session.ToolResult)
			if !ok {
				return nil, &wire.Error{Format: Format, Detail: "a tool message holds more than results, which the format cannot hold; make the rest a user message"}
			}
			o := rawjson.Object{}
			o.Set("role", roleResult)
			o.Set("toolCallId", r.CallID)
			o.Set("toolName", r.Name)
			o.Set("content", encodeParts(r.Parts))
			o.Set("isError", r.IsError)
			o.Set("timestamp", at)
			out = append(out, o)
		}
		return out, nil
	case session.RoleAssistant:
		o.Set("role", roleAssistant)
		o.Set("content", encodeParts(m.Parts))
		o.Set("provider", m.Source.Provider)
		o.Set("model", m.Source.Model)
		o.Set("usage", noUsage)
		stop := "stop"
		if len(m.Calls()) > 0 {
			stop = "toolUse"
		}
		o.Set("stopReason", stop)
	default:
		o.Set("role", roleUser)
		o.Set("content", encodeParts(m.Parts))
	}
	o.Set("timestamp", at)
	return append(out, o), nil
}

func encodeParts(parts []session.Part) []json.RawMessage {
	list := []json.RawMessage{}
	for _, p := range parts {
		if raw := encodePart(p); raw != nil {
			list = append(list, raw)
		}
	}
	return list
}

func encodePart(p session.Part) json.RawMessage {
	o := rawjson.Object{}
	switch p := p.(type) {
	case session.Text:
		o.Set("type", "text")
		o.Set("text", p.Text)
	case session.Image:
		if q, ok := decode(p.Raw, false).(session.Image); ok && q.URL == p.URL {
			return p.Raw
		}
		head, data, ok := strings.Cut(strings.TrimPrefix(p.URL, "data:"), ";base64,")
		if !ok {
			return encodePart(session.Text{Text: "[image: " + p.URL + "]"})
		}
		o.Set("type", "image")
		o.Set("data", data)
		o.Set("mimeType", head)
	case session.File:
		return encodePart(session.Text{Text: "[file: " + strings.TrimSpace(p.Name+" "+p.MediaType) + "]"})
	case session.Reasoning:
		if q, ok := decode(p.Raw, true).(session.Reasoning); ok && q.Text == p.Text && q.Signature == p.Signature {
			return p.Raw
		}
		o.Set("type", "thinking")
		o.Set("thinking", p.Text)
		if p.Signature != "" {
			o.Set("thinkingSignature", p.Signature)
		}
	case session.ToolCall:
		if q, ok := decode(p.Raw, true).(session.ToolCall); ok && q.ID == p.ID && q.Name == p.Name && q.Arguments == p.Arguments {
			return p.Raw
		}
		o.Set("type", "toolCall")
		o.Set("id", p.ID)
		o.Set("name", p.Name)
		o.Set("arguments", splice.Arguments(p.Arguments))
	case session.Opaque:
		return p.Raw
	}
	return o.Bytes()
}
