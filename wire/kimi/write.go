package kimi

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// isSummary tells a checkpoint that a compaction record can stand for.
func isSummary(it wire.Item) bool {
	if it.Compaction == nil || it.Message == nil || it.Entry >= 0 || it.Message.Role != session.RoleUser || len(it.Message.Parts) != 1 {
		return false
	}
	t, ok := it.Message.Parts[0].(session.Text)
	return ok && t.Text != ""
}

// tail makes the records that say what the context is from here on.
func (f *file) tail(_ context.Context, items []wire.Item) ([]rawjson.Object, error) {
	at := marks.Time(items, timeOf(f.last)).UnixMilli()
	var out []rawjson.Object
	add := func(kind string, fields ...any) {
		o := rawjson.Object{}
		o.Set("type", kind)
		for i := 0; i < len(fields); i += 2 {
			o.Set(fields[i].(string), fields[i+1])
		}
		if at > 0 {
			o.Set("time", at)
		}
		out = append(out, o)
	}
	rest := items
	switch n := f.stays(items); {
	case n == len(f.live):
		rest = items[n:]
	case isSummary(items[0]):
		it, c := items[0], items[0].Compaction
		source := "manual"
		if c.Auto {
			source = "auto"
		}
		rest = items[1:]
		kept := f.kept(rest)
		count := len(f.nodes)
		if kept > 0 {
			count = int(f.live[rest[0].Entry])
		}
		rest = rest[kept:]
		add(typeBegin, "source", source)
		add(typeApply, "summary", it.Message.Text(), "compactedCount", count, "tokensBefore", c.TokensBefore, "tokensAfter", c.TokensAfter,
			marks.Field, marks.Of(it.Message, c, compact.CheckpointSource(c.ID)))
		add(typeEnd)
	default:
		add(typeClear)
	}
	for _, it := range rest {
		m := it.Message
		if m == nil {
			e, err := f.entry(it.Entry)
			if err != nil {
				return nil, err
			}
			m = &e.Message
		}
		list, err := encode(m)
		if err != nil {
			return nil, err
		}
		for _, msg := range list {
			own := marks.Of(m, it.Compaction, derived(m))
			if it.Entry >= 0 && it.Message == nil && compact.IsCheckpointSource(m.Source) {
				own = f.again(it.Entry, m)
			}
			if own.IsZero() {
				add(typeMessage, "message", msg)
				continue
			}
			add(typeMessage, "message", msg, marks.Field, own)
		}
	}
	return out, nil
}

// again is the mark of a checkpoint that the file has already.
func (f *file) again(entry int, m *session.Message) marks.Mark {
	for _, cp := range f.conv.Checkpoints {
		if cp.Entry == entry {
			own := marks.Mark{ID: m.Source.Ref, Hides: cp.Hides, Auto: cp.Trigger == "auto", TokensBefore: cp.TokensBefore}
			if !cp.Time.IsZero() {
				own.Time = cp.Time.Format("2006-01-02T15:04:05.999999999Z07:00")
			}
			return own
		}
	}
	return marks.Of(m, nil, derived(m))
}

// stays is how many entries stand unchanged at the beginning.
func (f *file) stays(items []wire.Item) int {
	n := 0
	for n < len(items) && n < len(f.live) && items[n].Entry == n && items[n].Message == nil {
		n++
	}
	return n
}

// kept is how many items, at the beginning, are the unchanged end of the
// context.
func (f *file) kept(items []wire.Item) int {
	k := 0
	for k < len(items) && items[k].Entry >= 0 && items[k].Message == nil && items[k].Entry == items[0].Entry+k {
		k++
	}
	if k == 0 || items[0].Entry+k != len(f.live) {
		return 0
	}
	return k
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

// encode makes the messages of a message: one for each result.
func encode(m *session.Message) ([]rawjson.Object, error) {
	var out []rawjson.Object
	one := func(role string, parts []session.Part, calls []json.RawMessage) rawjson.Object {
		o := rawjson.Object{}
		o.Set("role", role)
		o.Set("content", content(parts))
		o.Set("toolCalls", calls)
		return o
	}
	none := []json.RawMessage{}
	switch m.Role {
	case session.RoleTool:
		for _, p := range m.Parts {
			r, ok := p.(session.ToolResult)
			if !ok {
				return nil, &wire.Error{Format: Format, Detail: "a tool message holds more than results, which the format cannot hold; make the rest a user message"}
			}
			o := one("tool", r.Parts, none)
			o.Set("toolCallId", r.CallID)
			if r.IsError {
				o.Set("isError", true)
			}
			out = append(out, o)
		}
		return out, nil
	case session.RoleAssistant:
		calls := none
		for _, p := range m.Parts {
			if c, ok := p.(session.ToolCall); ok {
				o := rawjson.Object{}
				o.Set("type", "function")
				o.Set("id", c.ID)
				o.Set("name", c.Name)
				o.Set("arguments", c.Arguments)
				calls = append(calls, o.Bytes())
			}
		}
		return append(out, one("assistant", m.Parts, calls)), nil
	}
	o := one("user", m.Parts, none)
	origin := map[string]string{"kind": "user"}
	switch {
	case compact.IsCheckpointSource(m.Source):
		origin["kind"] = "compaction_summary"
	case m.Source.Kind == session.SourcePlugin && m.Source.Plugin == Format:
		kind, variant, _ := strings.Cut(m.Source.Form, "/")
		if origin["kind"] = kind; variant != "" {
			origin["variant"] = variant
		}
	case m.Source.Kind != session.SourceUser:
		origin["kind"] = "injection"
	}
	o.Set("origin", origin)
	return append(out, o), nil
}

func content(parts []session.Part) []json.RawMessage {
	list := []json.RawMessage{}
	for _, p := range parts {
		o := rawjson.Object{}
		switch p := p.(type) {
		case session.Text:
			o.Set("type", "text")
			o.Set("text", p.Text)
		case session.Reasoning:
			if q, ok := part(p.Raw).(session.Reasoning); ok && q.Text == p.Text && q.Encrypted == p.Encrypted {
				list = append(list, p.Raw)
				continue
			}
			o.Set("type", "think")
			o.Set("think", p.Text)
		case session.Image:
			o.Set("type", "image_url")
			o.Set("imageUrl", map[string]string{"url": p.URL})
		case session.File:
			o.Set("type", "text")
			o.Set("text", "[file: "+splice.Clip(p.Name+" "+p.MediaType, 200)+"]")
		case session.Opaque:
			list = append(list, p.Raw)
			continue
		default:
			continue
		}
		list = append(list, o.Bytes())
	}
	return list
}
