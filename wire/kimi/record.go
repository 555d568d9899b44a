package kimi

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// record is one line of the log.
type record struct {
	Type     string          `json:"type"`
	Protocol string          `json:"protocol_version"`
	Time     int64           `json:"time"`
	Message  *message        `json:"message"`
	Event    json.RawMessage `json:"event"`
	System   *string         `json:"systemPrompt"`
	Model    string          `json:"modelAlias"`
	Summary  json.RawMessage `json:"summary"`
	Context  json.RawMessage `json:"contextSummary"`
	Count    int             `json:"compactedCount"`
	Undo     int             `json:"count"`
	Before   int             `json:"tokensBefore"`
	Kept     *int            `json:"keptUserMessageCount"`
	KeptHead int             `json:"keptHeadUserMessageCount"`
	Source   string          `json:"source"`
	Mark     json.RawMessage `json:"agentcompact"`

	raw  json.RawMessage
	ref  jsonl.Ref // of raw in the file
	line int
	mark marks.Mark
}

// parse decodes a record.
func parse(raw json.RawMessage) (record, bool) {
	r := record{raw: raw}
	ok := splice.Lenient(json.Unmarshal(raw, &r))
	r.mark = marks.Parse(r.Mark)
	return r, ok
}

// loop returns the event of a step that the record holds; false when it is none.
func (r *record) loop() (loopEvent, bool) {
	var e loopEvent
	ok := rawjson.Kind(r.Event) == '{' && splice.Lenient(json.Unmarshal(r.Event, &e))
	return e, ok
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Calls   []struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Function  struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"toolCalls"`
	CallID  string `json:"toolCallId"`
	IsError bool   `json:"isError"`
	Origin  struct {
		Kind    string `json:"kind"`
		Variant string `json:"variant"`
	} `json:"origin"`
}

type loopEvent struct {
	Type   string          `json:"type"`
	UUID   string          `json:"uuid"`
	Step   string          `json:"stepUuid"`
	Part   json.RawMessage `json:"part"`
	CallID string          `json:"toolCallId"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Result *struct {
		Output  json.RawMessage `json:"output"`
		IsError bool            `json:"isError"`
	} `json:"result"`
	Usage *struct {
		Other  int `json:"inputOther"`
		Output int `json:"output"`
		Read   int `json:"inputCacheRead"`
		Write  int `json:"inputCacheCreation"`
	} `json:"usage"`
}

func timeOf(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// message returns the message that the record appends, and whether a person typed
// it.
func (r *record) message() (out session.Message, user bool) {
	m := r.Message
	switch m.Role {
	case "assistant":
		out = session.Message{Role: session.RoleAssistant, Parts: parts(m.Content), Source: session.Source{Kind: session.SourceModel}}
		for _, c := range m.Calls {
			args := c.Arguments
			if c.Name == "" {
				c.Name = c.Function.Name
			}
			if args == nil {
				args = c.Function.Arguments
			}
			text, ok := rawjson.String(args)
			if !ok {
				text = string(args)
			}
			out.Parts = append(out.Parts, session.ToolCall{ID: c.ID, Name: c.Name, Arguments: text})
		}
	case "tool":
		out = session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool},
			Parts: []session.Part{session.ToolResult{CallID: m.CallID, Parts: inner(m.Content), IsError: m.IsError}}}
	default:
		user = m.Origin.Kind == "user" || m.Origin.Kind == ""
		out = session.Message{Role: session.RoleUser, Parts: parts(m.Content), Source: session.Source{Kind: session.SourceUser}}
		if !user {
			out.Source = session.Source{Kind: session.SourcePlugin, Plugin: Format, Form: strings.Trim(m.Origin.Kind+"/"+m.Origin.Variant, "/")}
		}
	}
	r.mark.Apply(&out)
	return out, user && out.Source.Kind == session.SourceUser
}

// part returns the part of a step that an event says.
func (e *loopEvent) part() session.Part {
	if e.Type == "tool.call" {
		return session.ToolCall{ID: e.CallID, Name: e.Name, Arguments: string(e.Args)}
	}
	return part(e.Part)
}

// summary is the text of a compaction.
func (r *record) summary() string {
	for _, raw := range []json.RawMessage{r.Context, r.Summary} {
		if s, ok := rawjson.String(raw); ok && s != "" {
			return s
		}
	}
	return ""
}

// parts decodes content: a string or a list of parts.
func parts(content json.RawMessage) []session.Part {
	if s, ok := rawjson.String(content); ok {
		return []session.Part{session.Text{Text: s}}
	}
	list, _ := rawjson.Elements(content)
	out := make([]session.Part, 0, len(list))
	for _, raw := range list {
		p := part(raw)
		out = append(out, p)
	}
	return out
}

// inner are the parts of a result.
func inner(content json.RawMessage) []session.Part {
	out := parts(content)
	list, _ := rawjson.Elements(content)
	for i, p := range out {
		if _, ok := p.(session.Reasoning); ok {
			out[i] = session.Opaque{Kind: "think", Raw: list[i]}
		}
	}
	return out
}

func part(raw json.RawMessage) session.Part {
	var p struct {
		Type      string  `json:"type"`
		Text      *string `json:"text"`
		Think     *string `json:"think"`
		Encrypted string  `json:"encrypted"`
		Image     *struct {
			URL string `json:"url"`
		} `json:"imageUrl"`
	}
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &p)) {
		return session.Opaque{Kind: "invalid", Raw: raw}
	}
	switch {
	case p.Type == "text" && p.Text != nil:
		return session.Text{Text: *p.Text}
	case p.Type == "think" && p.Think != nil:
		return session.Reasoning{Text: *p.Think, Encrypted: p.Encrypted, Raw: raw}
	case p.Type == "image_url" && p.Image != nil:
		return session.Image{URL: p.Image.URL} // its form looks like that of a chat and is another
	}
	if p.Type == "" {
		p.Type = "invalid"
	}
	return session.Opaque{Kind: p.Type, Raw: raw}
}
