package qwen

import (
	"context"
	"encoding/json"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// marked is a content with its mark, as encode gives it to tail.
type marked struct {
	Content json.RawMessage `json:"content"`
	Mark    marks.Mark      `json:"mark"`
}

// tail makes the record that says what the history is from here on.
func (f *file) tail(ctx context.Context, items []wire.Item) ([]rawjson.Object, error) {
	plan, err := splice.Plan(Format, f.splice, items)
	if err != nil {
		return nil, err
	}
	history := []json.RawMessage{}
	list := []marks.Mark{}
	for _, o := range plan {
		if o.Record >= 0 {
			n := &f.contents[o.Record]
			raw, _, err := f.raw(n)
			if err != nil {
				return nil, err
			}
			history, list = append(history, raw), append(list, n.own())
			continue
		}
		var m marked
		if err := json.Unmarshal(o.Raw, &m); err != nil {
			return nil, &wire.Error{Format: Format, Detail: "a message cannot be written", Err: err}
		}
		history, list = append(history, m.Content), append(list, m.Mark)
	}
	last := record{}
	for i := len(f.recs) - 1; i >= 0; i-- {
		if f.recs[i].uuid == 0 {
			continue
		}
		if last, err = f.load(i); err != nil {
			return nil, err
		}
		break
	}
	ids, err := marks.NewFileIDs(ctx, items, f.text, func(id string) bool {
		_, ok := f.ids.Find(id)
		return ok
	})
	if err != nil {
		return nil, err
	}
	info := rawjson.Object{}
	trigger := "manual"
	for _, it := range items {
		if c := it.Compaction; c != nil {
			info.Set("originalTokenCount", c.TokensBefore)
			info.Set("newTokenCount", c.TokensAfter)
			if c.Auto {
				trigger = "auto"
			}
		}
	}
	info.Set("compressionStatus", 1)
	info.Set("triggerReason", trigger)
	payload := rawjson.Object{}
	payload.Set("info", info)
	payload.Set("compressedHistory", history)
	o := rawjson.Object{}
	o.Set("uuid", ids.UUID())
	o.Set("parentUuid", last.UUID)
	was, _ := rawjson.Parse(last.raw) // it was read
	for _, name := range []string{"sessionId", "cwd", "version", "gitBranch"} {
		if v := was.Get(name); v != nil {
			o.Set(name, v)
		}
	}
	o.Set("timestamp", marks.Stamp(marks.Time(items, last.time())))
	o.Set("type", typeSystem)
	o.Set("provenance", "system")
	o.Set("subtype", compressionType)
	o.Set("systemPayload", payload)
	o.Set(marks.Field, map[string]any{"messages": list})
	return []rawjson.Object{o}, nil
}

// encode makes contents, with their marks, of messages that are new or changed.
func (f *file) encode(pieces []splice.Piece) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for i := 0; i < len(pieces); i++ {
		p := pieces[i]
		parts, err := f.parts(p)
		if err != nil {
			return nil, err
		}
		own := f.mark(p, marks.Mark{})
		if i+1 < len(pieces) && p.Group >= 0 && pieces[i+1].Group == p.Group && pieces[i+1].Entry == p.Entry+1 {
			more, err := f.parts(pieces[i+1])
			if err != nil {
				return nil, err
			}
			parts = append(parts, more...)
			own = f.mark(pieces[i+1], own)
			i++
		}
		o := rawjson.Object{}
		role := "user"
		if p.Message.Role == session.RoleAssistant {
			role = "model"
		}
		o.Set("role", role)
		o.Set("parts", parts)
		m := rawjson.Object{}
		m.Set("content", o)
		m.Set("mark", own)
		out = append(out, m.Bytes())
	}
	return out, nil
}

func (f *file) mark(p splice.Piece, own marks.Mark) marks.Mark {
	switch p.Message.Role {
	case session.RoleTool:
		if m := marks.Of(p.Message, nil, session.Source{Kind: session.SourceTool}); m.Source != nil {
			own.Results = m.Source
		}
		return own
	case session.RoleAssistant:
		return marks.Of(p.Message, nil, session.Source{Kind: session.SourceModel})
	}
	m := marks.Of(p.Message, p.Compaction, session.Source{Kind: session.SourceUser})
	if p.Group >= 0 && m.ID == "" {
		if was := f.contents[f.splice.Groups[p.Group].From].own(); was.ID != "" {
			m = was // it stays the same checkpoint
		}
	}
	m.Results = own.Results
	return m
}

// parts are the parts of a piece: those of its content when it did not change.
func (f *file) parts(p splice.Piece) ([]json.RawMessage, error) {
	out := []json.RawMessage{}
	if p.Changed || p.Group < 0 {
		for _, part := range p.Message.Parts {
			if raw := gemini.Encode(part); raw != nil {
				out = append(out, raw)
			}
		}
		return out, nil
	}
	content, _, err := f.raw(&f.contents[f.splice.Groups[p.Group].From])
	if err != nil {
		return nil, err
	}
	o, _ := rawjson.Parse(content)
	list, _ := rawjson.Elements(o.Get("parts"))
	for _, raw := range list {
		_, result := gemini.Part(raw).(session.ToolResult)
		if p.Message.Role == session.RoleAssistant || result == (p.Message.Role == session.RoleTool) {
			out = append(out, raw)
		}
	}
	return out, nil
}
