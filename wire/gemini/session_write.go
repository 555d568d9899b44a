package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// lineWriter writes a log: by one record that sets the whole list.
type lineWriter struct{ f *sessionFile }

// Write implements [wire.Writer].
func (w *lineWriter) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	f := w.f
	if conversation != 0 {
		return &wire.Error{Format: SessionFormat, Detail: fmt.Sprintf("there is no conversation %d; a session has one", conversation)}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var tail []byte
	if items != nil && !splice.Unchanged(len(f.entries), items) {
		plan, err := splice.Plan(SessionFormat, f.splice, items)
		if err != nil {
			return err
		}
		list := []json.RawMessage{}
		for _, o := range plan {
			raw := o.Raw
			if o.Record >= 0 {
				r, err := f.load(o.Record)
				if err != nil {
					return err
				}
				raw = r.raw
			}
			list = append(list, oneLine(raw))
		}
		last, err := f.lastTime()
		if err != nil {
			return err
		}
		set := rawjson.Object{}
		set.Set("messages", list)
		set.Set("lastUpdated", marks.Stamp(marks.Time(items, last)))
		line := rawjson.Object{}
		line.Set("$set", set)
		ends, err := f.text.EndsLine()
		if err != nil {
			return err
		}
		if !ends {
			tail = append(tail, '\n')
		}
		tail = append(append(tail, line.Bytes()...), '\n')
	}
	return logfile.Copy(ctx, SessionFormat, f.text, out, tail)
}

// oneLine takes line breaks between tokens out of a record.
func oneLine(raw json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw // unreachable: it was read
	}
	return b.Bytes()
}

func (f *sessionFile) lastTime() (time.Time, error) {
	for i := len(f.recs) - 1; i >= 0; i-- {
		if f.recs[i].timed {
			r, err := f.load(i)
			if err != nil {
				return time.Time{}, err
			}
			return r.time(), nil
		}
	}
	return time.Time{}, nil
}

// encode makes records of messages that are new or changed: results join the
// record of their call.
func (f *sessionFile) encode(pieces []splice.Piece) ([]json.RawMessage, error) {
	if err := splice.NoNotes(SessionFormat, pieces); err != nil {
		return nil, err
	}
	items := make([]wire.Item, len(pieces))
	for i, p := range pieces {
		items[i].Compaction = p.Compaction
	}
	last, err := f.lastTime()
	if err != nil {
		return nil, err
	}
	ids, err := marks.NewFileIDs(context.Background(), items, f.text, func(id string) bool {
		_, ok := f.ids.Find(id)
		return ok
	})
	if err != nil {
		return nil, err
	}
	e := &encoder{f: f, ids: ids, at: marks.Stamp(marks.Time(items, last))}
	var out []json.RawMessage
	for i := 0; i < len(pieces); i++ {
		p := pieces[i]
		if p.Message.Role == session.RoleAssistant {
			n := i + 1
			calls := p.Message.Calls()
			for n < len(pieces) && pieces[n].Message.Role == session.RoleTool && len(calls) > 0 && subset(pieces[n].Message, calls) {
				n++
			}
			out = append(out, e.model(p, pieces[i+1:n]).Bytes())
			i = n - 1
			continue
		}
		if i+1 < len(pieces) && p.Group >= 0 && pieces[i+1].Group == p.Group && pieces[i+1].Entry == p.Entry+1 {
			out = append(out, e.user(p, &pieces[i+1]).Bytes())
			i++
			continue
		}
		out = append(out, e.user(p, nil).Bytes())
	}
	return out, e.err
}

// subset reports whether a message holds nothing but results of the calls.
func subset(m *session.Message, calls []string) bool {
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok || !slices.Contains(calls, r.CallID) {
			return false
		}
	}
	return true
}

type encoder struct {
	f   *sessionFile
	ids *marks.IDs
	at  string
	err error // why a record could not be read again
}

// base is the record that a piece begins with: its own, or a new one.
func (e *encoder) base(p splice.Piece, kind string) (rawjson.Object, *record) {
	if p.Group >= 0 {
		i := e.f.splice.Groups[p.Group].From
		if e.f.recs[i].user == (kind == typeUser) {
			r, err := e.f.load(i)
			if err != nil {
				e.err = err
				return rawjson.Object{}, nil
			}
			o, _ := rawjson.Parse(r.raw) // it was read
			o.Delete(marks.Field)
			return o, r
		}
	}
	o := rawjson.Object{}
	o.Set("id", e.ids.UUID())
	o.Set("timestamp", e.at)
	o.Set("type", kind)
	return o, nil
}

// user makes the record of a user message or of results without a call; next is
// what else stood in its record.
func (e *encoder) user(p splice.Piece, next *splice.Piece) rawjson.Object {
	o, r := e.base(p, typeUser)
	parts := e.parts(p, r)
	own := marks.Mark{}
	take := func(p splice.Piece) {
		if p.Message.Role == session.RoleTool {
			if m := marks.Of(p.Message, nil, session.Source{Kind: session.SourceTool}); m.Source != nil {
				own.Results = m.Source
			}
			return
		}
		was := own.Results
		own = marks.Of(p.Message, p.Compaction, session.Source{Kind: session.SourceUser})
		own.Results = was
		if r != nil && r.mark.ID != "" && own.ID == "" {
			own = r.mark // it stays the same checkpoint
		}
	}
	take(p)
	if next != nil {
		parts = append(parts, e.parts(*next, r)...)
		take(*next)
	}
	o.Delete("displayContent")
	o.Delete("parts")
	if t, ok := onlyText(p.Message.Parts); ok && next == nil {
		o.Set("content", t)
	} else {
		o.Set("content", parts)
	}
	if !own.IsZero() {
		o.Set(marks.Field, own)
	}
	return o
}

// parts are the parts of a piece of a user's record.
func (e *encoder) parts(p splice.Piece, r *record) []json.RawMessage {
	out := []json.RawMessage{}
	if r == nil || p.Changed {
		for _, part := range p.Message.Parts {
			if raw := gemini.Encode(part); raw != nil {
				out = append(out, raw)
			}
		}
		return out
	}
	content := r.Content
	if content == nil {
		content = r.Parts
	}
	list, ok := rawjson.Elements(content)
	if !ok && rawjson.Kind(content) == '{' {
		list = []json.RawMessage{content}
	}
	for _, raw := range list {
		if _, result := gemini.Part(raw).(session.ToolResult); result == (p.Message.Role == session.RoleTool) {
			out = append(out, raw)
		}
	}
	return out
}

func onlyText(parts []session.Part) (string, bool) {
	if len(parts) != 1 {
		return "", false
	}
	t, ok := parts[0].(session.Text)
	return t.Text, ok && t.Text != ""
}

// model makes the record of a message of the model and of the results that
// follow it.
func (e *encoder) model(p splice.Piece, results []splice.Piece) rawjson.Object {
	o, r := e.base(p, typeGemini)
	if r == nil || p.Changed {
		e.said(&o, p.Message)
	}
	own := marks.Of(p.Message, nil, session.Source{Kind: session.SourceModel})
	answered := map[string]session.ToolResult{}
	kept := map[string]bool{} // results that stay as they are
	for _, t := range results {
		same := r != nil && !t.Changed && t.Group == p.Group
		for _, q := range t.Message.Parts {
			res := q.(session.ToolResult)
			if answered[res.CallID] = res; same {
				kept[res.CallID] = true
			}
		}
		if m := marks.Of(t.Message, nil, session.Source{Kind: session.SourceTool}); m.Source != nil {
			own.Results = m.Source
		}
	}
	if list := e.calls(p.Message, r, answered, kept); list != nil {
		o.Set("toolCalls", list)
	} else {
		o.Delete("toolCalls")
	}
	if !own.IsZero() {
		o.Set(marks.Field, own)
	}
	return o
}

// said sets what the model said and thought.
func (e *encoder) said(o *rawjson.Object, m *session.Message) {
	parts := []json.RawMessage{}
	thoughts := []json.RawMessage{}
	text, texts := "", 0
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.ToolCall:
		case session.Reasoning:
			if q, ok := thought(p.Raw).(session.Reasoning); ok && p.Raw != nil && q.Text == p.Text {
				thoughts = append(thoughts, p.Raw)
				continue
			}
			t := rawjson.Object{}
			t.Set("subject", "")
			t.Set("description", p.Text)
			t.Set("timestamp", e.at)
			thoughts = append(thoughts, t.Bytes())
		case session.Opaque:
			if p.Kind == "thought" {
				thoughts = append(thoughts, p.Raw)
				continue
			}
			parts = append(parts, p.Raw)
		case session.Text:
			text, texts = p.Text, texts+1
			parts = append(parts, gemini.Encode(p))
		default:
			parts = append(parts, gemini.Encode(p))
		}
	}
	o.Delete("parts")
	switch {
	case len(parts) == 0, texts == 1 && len(parts) == 1 && text != "":
		o.Set("content", text)
	default:
		o.Set("content", parts)
	}
	o.Set("thoughts", thoughts)
	if m.Source.Model != "" {
		o.Set("model", m.Source.Model)
	}
}

// calls makes the calls of a record with their results.
func (e *encoder) calls(m *session.Message, r *record, answered map[string]session.ToolResult, kept map[string]bool) []json.RawMessage {
	old := map[string]rawjson.Object{}
	if r != nil {
		o, _ := rawjson.Parse(r.raw)
		list, _ := rawjson.Elements(o.Get("toolCalls"))
		for i, id := range r.callIDs() {
			if i < len(list) {
				old[id], _ = rawjson.Parse(list[i])
			}
		}
	}
	inContent := map[string]bool{}
	if r != nil {
		content := r.Content
		if content == nil {
			content = r.Parts
		}
		parts, _ := gemini.Parts(content)
		gemini.Pair(parts, nil)
		for _, p := range parts {
			if c, ok := p.(session.ToolCall); ok {
				inContent[c.ID] = true
			}
		}
	}
	var list []json.RawMessage
	for _, p := range m.Parts {
		c, ok := p.(session.ToolCall)
		if !ok {
			continue
		}
		o, was := old[c.ID]
		if !was {
			if _, has := answered[c.ID]; inContent[c.ID] && !has {
				continue // it stands in the content
			}
			o.Set("id", c.ID)
			o.Set("name", c.Name)
			o.Set("args", gemini.Args(c.Arguments))
			o.Set("status", "success")
			o.Set("timestamp", e.at)
		} else if string(o.Get("args")) != c.Arguments {
			o.Set("args", gemini.Args(c.Arguments))
		}
		res, has := answered[c.ID]
		switch {
		case kept[c.ID]:
		case !has:
			if k := rawjson.Kind(o.Get("result")); k != 0 && k != 'n' || !was {
				o.Set("result", nil)
				o.Set("status", "cancelled")
			}
		default:
			if res.Name == "" {
				res.Name = c.Name
			}
			wrapped := rawjson.Object{}
			wrapped.Set("functionResponse", gemini.Response(res))
			o.Set("result", []rawjson.Object{wrapped})
			if o.Set("status", "success"); res.IsError {
				o.Set("status", "error")
			}
			o.Delete("resultDisplay")
		}
		list = append(list, o.Bytes())
	}
	return list
}
