package opencode

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// fresh is a message that is added.
type fresh struct {
	id    string
	info  rawjson.Object
	parts []rawjson.Object
}

// edit is what a surface changes in a session.
type edit struct {
	parts map[[2]int]rawjson.Object // of message and part
	gone  map[int]bool              // messages that are taken away
	added []fresh
}

// editor makes an edit.
type editor struct {
	f     *file
	ids   *marks.IDs
	at    int64 // milliseconds of the next message
	out   edit
	reply string // the user message that is answered
	// What the agent wants in every message: of the newest one that has it.
	agent, mode string
	where       json.RawMessage
}

// habits finds out how the session's messages are written.
func (e *editor) habits() {
	e.agent, e.mode = "build", "build"
	e.where = rawjson.Marshal(map[string]string{"cwd": e.f.dir, "root": e.f.dir})
	for i := range e.f.msgs {
		o, err := rawjson.Parse(e.f.msgs[i].raw)
		if err != nil {
			continue
		}
		said := e.f.msgs[i].info.Role == "assistant"
		if s, ok := rawjson.String(o.Get("agent")); ok && !said {
			e.agent = s
		}
		if s, ok := rawjson.String(o.Get("mode")); ok && said && s != compactionMode {
			e.mode = s
		}
		if raw := o.Get("path"); said && rawjson.Kind(raw) == '{' {
			e.where = raw
		}
	}
}

// compactionMode is the mode and the agent of a summary.
const compactionMode = "compaction"

// noTokens is the usage of a message that no model was asked for.
var noTokens = json.RawMessage(`{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}`)

func refuse(format string, args ...any) error {
	return &wire.Error{Format: Format, Detail: fmt.Sprintf(format, args...)}
}

// edit says what must change for the items to be the surface.
func (f *file) edit(items []wire.Item) (*edit, error) {
	if err := splice.Check(Format, len(f.chat.conv.Entries), items); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, refuse("a conversation without messages cannot be written; leave at least a checkpoint")
	}
	e := &editor{f: f, ids: marks.NewIDs(items, []byte(f.id), nil), out: edit{parts: map[[2]int]rawjson.Object{}, gone: map[int]bool{}}}
	e.habits()
	last := time.UnixMilli(0)
	for i := range f.msgs {
		if t := f.msgs[i].info.time(); t.After(last) {
			last = t
		}
	}
	e.at = max(marks.Time(items, last).UnixMilli(), last.UnixMilli()+1)
	for i, it := range items {
		switch m := it.Message; {
		case m == nil:
		case m.Role == session.RoleDeveloper || m.Role == session.RoleSystem:
			return nil, refuse("item %d is a %s message, which the format does not have; make it a user message", i, m.Role)
		}
	}
	rest := items
	if it := items[0]; it.Compaction != nil && it.Entry < 0 {
		if f.known(it) {
			if ok, err := e.restore(items); ok {
				return &e.out, err
			}
		}
		rest = items[1:]
		tail, n := f.tail(rest)
		e.compaction(it, tail)
		if err := e.inPlace(rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	} else {
		n := 0
		for n < len(items) && items[n].Entry == n {
			n++
		}
		if n < len(f.chat.from) {
			if ok, err := e.restore(items); ok {
				return &e.out, err
			}
			return nil, refuse("messages are left out, and the surface begins neither with a new checkpoint nor with what the model saw before one of the file; the format holds a summary at the beginning only")
		}
		if err := e.inPlace(items[:n]); err != nil {
			return nil, err
		}
		rest = items[n:]
	}
	return &e.out, e.add(rest)
}

// tail is how many items, at the beginning, are the end of the conversation, and
// the message that it begins with.
func (f *file) tail(items []wire.Item) (id string, n int) {
	for n < len(items) && items[n].Entry >= 0 && items[n].Entry == items[0].Entry+n {
		n++
	}
	if n == 0 || items[0].Entry+n != len(f.chat.from) || !f.chat.from[items[0].Entry].first {
		return "", 0
	}
	first := f.chat.from[items[0].Entry].msg
	at := first
	for k := 0; k < n; k++ {
		w := f.chat.from[items[k].Entry].msg
		if w < at { // out of order: a tail before a summary
			return "", 0
		}
		at = w
	}
	for _, c := range f.compactions() {
		if c.summary >= first { // it would come into the context again
			return "", 0
		}
	}
	id = f.msgs[first].info.ID
	if k := slices.IndexFunc(f.msgs, func(m msg) bool { return m.info.ID == id }); id == "" || k != first {
		return "", 0 // it cannot be named
	}
	return id, n
}

// inPlace changes the parts of messages that stay where they are.
func (e *editor) inPlace(items []wire.Item) error {
	for _, it := range items {
		if it.Message == nil {
			continue
		}
		if err := e.change(e.f.chat.from[it.Entry], &e.f.chat.conv.Entries[it.Entry].Message, it.Message); err != nil {
			return err
		}
	}
	return nil
}

// change makes a message that is stored at w say what m says.
func (e *editor) change(w from, was, m *session.Message) error {
	stored := &e.f.msgs[w.msg]
	if m.Role != was.Role || len(m.Parts) != len(was.Parts) || len(w.parts) != len(was.Parts) {
		return refuse("message %s has other parts than before; the format cannot change it in its place", stored.info.ID)
	}
	for k, p := range m.Parts {
		old := &stored.parts[w.parts[k]]
		key := [2]int{w.msg, w.parts[k]}
		o := e.out.parts[key]
		if o == nil {
			o, _ = rawjson.Parse(old.raw) // it was read
		}
		switch p := p.(type) {
		case session.Text:
			if old.body.Type != "text" {
				continue
			}
			o.Set("text", p.Text)
		case session.ToolResult:
			state, _ := rawjson.Parse(o.Get("state"))
			setResult(&state, p)
			o.Set("state", state)
			o.Delete(marks.Field)
			if own := marks.Of(m, nil, session.Source{Kind: session.SourceTool}); own.Source != nil {
				o.Set(marks.Field, marks.Mark{Results: own.Source})
			}
		default:
			continue
		}
		e.out.parts[key] = o
	}
	return nil
}

func setResult(state *rawjson.Object, r session.ToolResult) {
	status, key, other := "completed", "output", "error"
	if r.IsError {
		status, key, other = "error", other, key
	}
	state.Set("status", status)
	state.Delete(other)
	state.Set(key, session.TextOf(r.Parts))
	var files []rawjson.Object
	for _, p := range r.Parts {
		f := rawjson.Object{}
		f.Set("type", "file")
		switch p := p.(type) {
		case session.Image:
			f.Set("mime", orImage(p.MediaType))
			f.Set("url", p.URL)
		case session.File:
			f.Set("mime", p.MediaType)
			f.Set("filename", p.Name)
			f.Set("url", p.URL)
		default:
			continue
		}
		files = append(files, f)
	}
	if state.Delete("attachments"); files != nil {
		state.Set("attachments", files)
	}
	if when, err := rawjson.Parse(state.Get("time")); err == nil {
		when.Delete("compacted")
		state.Set("time", when)
	}
}

// id makes an id that sorts by time, as the agent does.
func (e *editor) id(prefix string) string {
	return fmt.Sprintf("%s_%012x%s", prefix, uint64(e.at)*0x1000&0xffffffffffff, e.ids.Hex(7))
}

// message begins a new message.
func (e *editor) message(role string) *fresh {
	m := fresh{id: e.id("msg")}
	m.info.Set("id", m.id)
	m.info.Set("sessionID", e.f.id)
	m.info.Set("role", role)
	m.info.Set("time", map[string]int64{"created": e.at, "completed": e.at})
	provider, model := e.f.chat.conv.Envelope.Provider, e.f.chat.conv.Envelope.Model
	if role == "user" {
		created := map[string]int64{"created": e.at}
		m.info.Set("time", created)
		m.info.Set("agent", e.agent)
		m.info.Set("model", map[string]string{"providerID": provider, "modelID": model})
		e.reply = m.id
	} else {
		m.info.Set("parentID", e.reply)
		m.info.Set("providerID", provider)
		m.info.Set("modelID", model)
		m.info.Set("mode", e.mode)
		m.info.Set("agent", e.agent)
		m.info.Set("path", e.where)
		m.info.Set("cost", 0)
		m.info.Set("tokens", noTokens)
	}
	e.at++
	e.out.added = append(e.out.added, m)
	return &e.out.added[len(e.out.added)-1]
}

func (e *editor) part(m *fresh, kind string, fields ...any) {
	o := rawjson.Object{}
	o.Set("id", e.id("prt")+fmt.Sprintf("%04d", len(m.parts)))
	o.Set("sessionID", e.f.id)
	o.Set("messageID", m.id)
	o.Set("type", kind)
	for i := 0; i < len(fields); i += 2 {
		o.Set(fields[i].(string), fields[i+1])
	}
	m.parts = append(m.parts, o)
}

// compaction writes the request and the summary of a checkpoint.
func (e *editor) compaction(it wire.Item, tail string) {
	m := e.message("user")
	if tail != "" {
		e.part(m, "compaction", "auto", it.Compaction.Auto, "tail_start_id", tail)
	} else {
		e.part(m, "compaction", "auto", it.Compaction.Auto)
	}
	m = e.message("assistant")
	m.info.Set("mode", compactionMode)
	m.info.Set("agent", compactionMode)
	m.info.Set("summary", true)
	m.info.Set("finish", "stop")
	m.info.Set(marks.Field, marks.Of(it.Message, it.Compaction, it.Message.Source))
	e.part(m, "text", "text", it.Message.Text())
}

// add writes items as new messages.
func (e *editor) add(items []wire.Item) error {
	for i := 0; i < len(items); i++ {
		m := e.of(items[i])
		if items[i].Compaction != nil {
			return refuse("a checkpoint stands behind other messages; the format holds a summary at the beginning only")
		}
		switch m.Role {
		case session.RoleAssistant:
			var results *session.Message
			if i+1 < len(items) && e.of(items[i+1]).Role == session.RoleTool {
				results = e.of(items[i+1])
				i++
			}
			if err := e.said(m, results); err != nil {
				return err
			}
		case session.RoleTool:
			return refuse("a tool result stands without its call, which the format cannot hold")
		default:
			n := e.message("user")
			if own := marks.Of(m, nil, session.Source{Kind: session.SourceUser}); !own.IsZero() {
				n.info.Set(marks.Field, own)
			}
			e.parts(n, m)
		}
	}
	return nil
}

func (e *editor) of(it wire.Item) *session.Message {
	if it.Message != nil {
		return it.Message
	}
	return &e.f.chat.conv.Entries[it.Entry].Message
}

func (e *editor) parts(n *fresh, m *session.Message) {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Text:
			if m.Source.Kind == session.SourcePlugin && m.Role == session.RoleUser {
				e.part(n, "text", "text", p.Text, "synthetic", true)
				continue
			}
			e.part(n, "text", "text", p.Text)
		case session.Reasoning:
			e.part(n, "reasoning", "text", p.Text, "time", e.span())
		case session.Image:
			e.part(n, "file", "mime", orImage(p.MediaType), "url", p.URL)
		case session.File:
			e.part(n, "file", "mime", p.MediaType, "filename", p.Name, "url", p.URL)
		}
	}
}

// span is when something was done that took no time.
func (e *editor) span() map[string]int64 { return map[string]int64{"start": e.at, "end": e.at} }

func orImage(mediaType string) string {
	if mediaType == "" {
		return "image/png"
	}
	return mediaType
}

// said writes a message of the model with the results of its calls.
func (e *editor) said(m, results *session.Message) error {
	n := e.message("assistant")
	n.info.Set("finish", "stop")
	if own := marks.Of(m, nil, session.Source{Kind: session.SourceModel}); !own.IsZero() {
		n.info.Set(marks.Field, own)
	}
	byID := map[string]session.ToolResult{}
	var own marks.Mark
	if results != nil {
		if s := marks.Of(results, nil, session.Source{Kind: session.SourceTool}); s.Source != nil {
			own.Results = s.Source
		}
		for _, p := range results.Parts {
			r, ok := p.(session.ToolResult)
			if !ok || !slices.Contains(m.Calls(), r.CallID) {
				return refuse("a tool message answers another message than the one before it, which the format cannot hold")
			}
			byID[r.CallID] = r
		}
	}
	for _, p := range m.Parts {
		c, ok := p.(session.ToolCall)
		if !ok {
			e.parts(n, &session.Message{Role: m.Role, Parts: []session.Part{p}})
			continue
		}
		state := rawjson.Object{}
		state.Set("status", "pending")
		state.Set("input", splice.Arguments(c.Arguments))
		if r, ok := byID[c.ID]; ok {
			setResult(&state, r)
			if !r.IsError {
				state.Set("title", "")
			}
			state.Set("metadata", rawjson.Object{})
			state.Set("time", e.span())
		} else {
			state.Set("raw", c.Arguments)
		}
		fields := []any{"callID", c.ID, "tool", c.Name, "state", state}
		if !own.IsZero() {
			fields = append(fields, marks.Field, own)
		}
		e.part(n, "tool", fields...)
	}
	return nil
}

type treeWriter struct{ files []*file }

// WriteTree implements [wire.TreeWriter].
func (w *treeWriter) WriteTree(ctx context.Context, conversation int, items []wire.Item) ([]wire.Change, error) {
	if conversation < 0 || conversation >= len(w.files) {
		return nil, refuse("there is no conversation %d; the folder has %d", conversation, len(w.files))
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f := w.files[conversation]
	if items == nil || splice.Unchanged(len(f.chat.from), items) {
		return nil, nil
	}
	ed, err := f.edit(items)
	if err != nil {
		return nil, err
	}
	var out []wire.Change
	for i := range f.msgs {
		for k := range f.msgs[i].parts {
			name := f.msgs[i].parts[k].path
			if ed.gone[i] {
				out = append(out, wire.Change{Path: name})
			} else if o := ed.parts[[2]int{i, k}]; o != nil {
				out = append(out, wire.Change{Path: name, Data: o.Bytes()})
			}
		}
		if ed.gone[i] {
			out = append(out, wire.Change{Path: f.msgs[i].path})
		}
	}
	for _, m := range ed.added {
		out = append(out, wire.Change{Path: path.Join("message", f.id, m.id+".json"), Data: m.info.Bytes()})
		for _, p := range m.parts {
			id, _ := rawjson.String(p.Get("id"))
			out = append(out, wire.Change{Path: path.Join("part", m.id, id+".json"), Data: p.Bytes()})
		}
	}
	return out, nil
}

type exportWriter struct{ f *file }

// Write implements [wire.Writer].
func (w *exportWriter) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	f := w.f
	if conversation != 0 {
		return refuse("there is no conversation %d; an export has one", conversation)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	chunks := [][]byte{f.data}
	if items != nil && !splice.Unchanged(len(f.chat.from), items) {
		ed, err := f.edit(items)
		if err != nil {
			return err
		}
		var plan []splice.Out
		for i := range f.msgs {
			if ed.gone[i] {
				continue
			}
			o := splice.Out{Record: i}
			for k := range f.msgs[i].parts {
				if ed.parts[[2]int{i, k}] != nil {
					o = splice.Out{Record: -1, Raw: f.record(i, ed)}
				}
			}
			plan = append(plan, o)
		}
		for _, m := range ed.added {
			o := rawjson.Object{}
			o.Set("info", m.info)
			o.Set("parts", m.parts)
			plan = append(plan, splice.Out{Record: -1, Raw: o.Bytes()})
		}
		chunks = [][]byte{f.data[:f.list.Start], f.list.Print(f.data, plan), f.data[f.list.End:]}
	}
	for _, b := range chunks {
		if _, err := out.Write(b); err != nil {
			return fmt.Errorf("write %s: %w", Format, err)
		}
	}
	return nil
}

// record is a message of an export with changed parts.
func (f *file) record(i int, ed *edit) json.RawMessage {
	o, _ := rawjson.Parse(f.list.Records[i].Of(f.data)) // it was read
	parts := []json.RawMessage{}
	for k := range f.msgs[i].parts {
		raw := f.msgs[i].parts[k].raw
		if c := ed.parts[[2]int{i, k}]; c != nil {
			raw = c.Bytes()
		}
		parts = append(parts, raw)
	}
	o.Set("parts", parts)
	return o.Bytes()
}
