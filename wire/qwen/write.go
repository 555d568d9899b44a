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
			n := f.contents[o.Record]
			history, list = append(history, n.raw), append(list, n.mark)
			continue
		}
		var m marked
		if err := json.Unmarshal(o.Raw, &m); err != nil {
			return nil, &wire.Error{Format: Format, Detail: "a message cannot be written", Err: err}
		}
		history, list = append(history, m.Content), append(list, m.Mark)
	}
	used := map[string]bool{}
	last := &record{}
	for i := range f.recs {
		used[f.recs[i].UUID] = true
		if f.recs[i].UUID != "" {
			last = &f.recs[i]
		}
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
	o.Set("uuid", marks.NewIDs(items, f.data, func(id string) bool { return used[id] }).UUID())
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
		parts := f.parts(p)
		own := f.mark(p, marks.Mark{})
		if i+1 < len(pieces) && p.Group >= 0 && pieces[i+1].Group == p.Group && pieces[i+1].Entry == p.Entry+1 {
			parts = append(parts, f.parts(pieces[i+1])...)
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
	if p.Group >= 0 && m.ID == "" && f.contents[f.splice.Groups[p.Group].From].mark.ID != "" {
		m = f.contents[f.splice.Groups[p.Group].From].mark // it stays the same checkpoint
	}
	m.Results = own.Results
	return m
}

// parts are the parts of a piece: those of its content when it did not change.
func (f *file) parts(p splice.Piece) []json.RawMessage {
	out := []json.RawMessage{}
	if p.Changed || p.Group < 0 {
		for _, part := range p.Message.Parts {
			if raw := gemini.Encode(part); raw != nil {
				out = append(out, raw)
			}
		}
		return out
	}
	o, _ := rawjson.Parse(f.contents[f.splice.Groups[p.Group].From].raw)
	list, _ := rawjson.Elements(o.Get("parts"))
	for _, raw := range list {
		_, result := gemini.Part(raw).(session.ToolResult)
		if p.Message.Role == session.RoleAssistant || result == (p.Message.Role == session.RoleTool) {
			out = append(out, raw)
		}
	}
	return out
}
