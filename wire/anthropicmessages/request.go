package anthropicmessages

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/anthropic"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// RequestOptions are the optional settings of a request. Nil means defaults.
type RequestOptions struct {
	// Model goes into the request in place of the envelope's.
	Model string
	// MaxTokens is used when the envelope does not say; 0 means 8192.
	MaxTokens int
	// ModelCall says that the request is about to be sent: when it would end
	// with a message of the model, a marked user message closes it.
	ModelCall bool
}

const defaultMaxTokens = 8192

// Request is a request that the provider takes, as [Validate] checks.
type Request struct {
	// Messages are the messages of the body, in order.
	Messages []json.RawMessage
	// Body is the JSON body.
	Body []byte
	// Report says where it differs from the surface.
	Report wire.RequestReport
}

const (
	maxID   = 64
	maxName = 128
)

func validID(s string) bool   { return len(s) <= maxID && turns.Alphabet(s, "_-") }
func validName(s string) bool { return turns.Alphabet(s, "_-") }

// BuildRequest builds the request of the surface: valid whatever the surface
// is, the same bytes for the same view. User and assistant come in turns; all
// results of a message's calls are in the next message, first in it. Thinking
// goes out unchanged with its signature, or not at all: that of other providers
// and without a signature is left out. Blocks that were read from this format
// keep their fields. The error says which message could not be read.
func BuildRequest(v session.View, opts *RequestOptions) (*Request, error) {
	if opts == nil {
		opts = &RequestOptions{}
	}
	topts := turns.Options{Format: Format, ModelCall: opts.ModelCall, Merge: true, ValidID: validID, MaxID: maxID,
		ValidName: validName, MaxName: maxName, Send: send, Split: split}
	list, report, err := turns.Build(v, topts)
	if err != nil {
		return nil, err
	}
	r := &Request{}
	for _, t := range list {
		o := rawjson.Object{}
		o.Set("role", t.Role)
		blocks := []json.RawMessage{}
		if t.Role == session.RoleAssistant {
			if whole := paired(t.Parts); len(whole) < len(t.Parts) {
				report.Unsent = append(report.Unsent, wire.PartAt{Position: t.At, Kind: "server_tool_use"})
				if t.Parts = whole; len(whole) == 0 {
					t.Parts = []turns.Part{{Part: session.Text{Text: unsentText}}}
				}
			}
		}
		for _, p := range t.Parts {
			switch {
			case p.Raw != nil:
				blocks = append(blocks, p.Raw)
			default:
				if r, ok := p.Part.(session.ToolResult); ok && r.IsError {
					p.Part = failed(r)
				} else if ok && session.TextOf(r.Parts) == "" && len(r.Parts) == 1 {
					if _, text := r.Parts[0].(session.Text); text {
						r.Parts = nil // an empty text would be refused where SDKs make a block of it
						p.Part = r
					}
				}
				blocks = append(blocks, anthropic.Block(p.Part))
			}
		}
		if text, ok := onlyText(t.Plain()); ok && len(blocks) == 1 && t.Parts[0].Raw == nil {
			o.Set("content", text)
		} else {
			o.Set("content", blocks)
		}
		r.Messages = append(r.Messages, turns.Repair(o.Bytes()))
	}
	env, _ := v.Envelope()
	if env == nil {
		env = &session.Envelope{}
	}
	r.Body = body(env, opts, r.Messages, &topts, report)
	r.Report = *report
	return r, nil
}

const unsentText = "[A call of a tool of the provider that did not finish, left out.]"

const failedText = "[The tool failed and said nothing.]"

// failed makes the result of a failed call text that is not empty, as the
// provider wants it.
func failed(r session.ToolResult) session.ToolResult {
	var parts []session.Part
	for _, p := range r.Parts {
		switch q := p.(type) {
		case session.Text:
			if strings.TrimSpace(q.Text) != "" {
				parts = append(parts, q)
			}
		default:
			parts = append(parts, session.Text{Text: "[attachment left out: the call failed]"})
		}
	}
	if parts == nil {
		parts = []session.Part{session.Text{Text: failedText}}
	}
	r.Parts = parts
	return r
}

// paired leaves out calls of server tools without their result in the message,
// and such results without their call.
func paired(parts []turns.Part) []turns.Part {
	calls, results := map[string]bool{}, map[string]bool{}
	id := func(p turns.Part) (call, result string) {
		o, ok := p.Part.(session.Opaque)
		if !ok {
			return "", ""
		}
		var b checkedBlock
		_ = json.Unmarshal(o.Raw, &b) // what does not fit has no id
		switch {
		case b.ID != nil && (b.Type == "server_tool_use" || b.Type == "mcp_tool_use"):
			return *b.ID, ""
		case b.ToolUseID != nil:
			return "", *b.ToolUseID
		}
		return "", ""
	}
	for _, p := range parts {
		call, result := id(p)
		calls[call] = true
		results[result] = results[result] || calls[result]
	}
	return slices.DeleteFunc(slices.Clone(parts), func(p turns.Part) bool {
		call, result := id(p)
		return call != "" && !results[call] || result != "" && !calls[result]
	})
}

// split takes the blocks of a record apart.
func split(m *session.Message) []json.RawMessage {
	o, err := rawjson.Parse(m.Origin.Raw)
	if err != nil {
		return nil
	}
	list, _ := rawjson.Elements(o.Get("content"))
	return list
}

// send says what of a part may be sent.
func send(role session.Role, m *session.Message, p session.Part) (session.Part, bool) {
	switch p := p.(type) {
	case session.Text:
		return p, true
	case session.Image, session.File:
		if role == session.RoleAssistant {
			return session.Text{Text: "[attachment of the model, not shown]"}, false
		}
		return attachment(p)
	case session.Reasoning:
		own := m.Source.Provider == anthropic.Provider || m.Source.Provider == "" && p.Raw != nil && anthropic.Block(p) != nil
		if role != session.RoleAssistant || !own || p.Signature == "" && p.Encrypted == "" || anthropic.Block(p) == nil {
			return nil, false
		}
		return p, true
	case session.Opaque:
		if text, ok := turns.Refusal(p); ok && role == session.RoleAssistant {
			return session.Text{Text: text}, true // there is no other form of it
		}
		// Blocks of server tools and others of this provider's.
		if role == session.RoleAssistant && m.Source.Provider == anthropic.Provider && sendable(p.Kind) {
			return p, true
		}
		return nil, false
	}
	return nil, false
}

// sendable knows the blocks of the model that go back as they are.
func sendable(kind string) bool {
	switch kind {
	case "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
		"bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "mcp_tool_use", "mcp_tool_result", "container_upload", "compaction":
		return true
	}
	return false
}

// attachment returns an image or file in a form that the provider takes, or a
// text in its place.
func attachment(p session.Part) (session.Part, bool) {
	url, name := "", ""
	switch p := p.(type) {
	case session.Image:
		url = p.URL
	case session.File:
		url, name = p.URL, p.Name
	}
	if raw := anthropic.Block(p); raw != nil && validSource(raw) {
		return p, true
	}
	return session.Text{Text: "[attachment left out: " + splice.Clip(name+" "+url, 100) + "]"}, false
}

func body(env *session.Envelope, opts *RequestOptions, messages []json.RawMessage, topts *turns.Options, report *wire.RequestReport) []byte {
	o := rawjson.Object{}
	if model := cmp.Or(opts.Model, env.Model); model != "" {
		o.Set("model", model)
	}
	var think struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	}
	_ = json.Unmarshal(env.Extra["thinking"], &think) // what does not fit is off
	limit := env.Extra["max_tokens"]
	if rawjson.Kind(limit) != '0' {
		n := opts.MaxTokens
		if n <= 0 {
			n = defaultMaxTokens
		}
		if think.Type == "enabled" && n <= think.Budget {
			n += think.Budget // the budget is a part of the limit
		}
		limit = rawjson.Marshal(n)
	}
	o.Set("max_tokens", limit)
	if sys := system(env); sys != nil {
		o.Set("system", sys)
	}
	o.Set("messages", messages)
	tools := topts.Tools(env, report, isTool, func(name string, t session.Tool) rawjson.Object {
		o := rawjson.Object{}
		o.Set("name", name)
		if t.Description != "" {
			o.Set("description", t.Description)
		}
		o.Set("input_schema", t.Schema)
		return o
	})
	if tools != nil {
		o.Set("tools", tools)
	}
	for _, k := range slices.Sorted(maps.Keys(env.Extra)) {
		switch k {
		case "thinking":
			// The model cannot think on in a turn that it did not think in: one
			// of another model, or from before thinking was on.
			if think.Type == "enabled" && unthought(messages) {
				report.Settings = append(report.Settings, k)
				continue
			}
		case "metadata", "stop_sequences", "stream", "temperature", "top_k", "top_p", "service_tier", "container", "context_management":
		case "tool_choice":
			if tools == nil {
				continue
			}
			if rawjson.Kind(env.Extra[k]) != '{' {
				continue
			}
		default:
			continue // a setting of another provider's
		}
		o.Set(k, env.Extra[k])
	}
	return turns.Repair(o.Bytes())
}

// unthought reports whether the messages end with results of calls of a message
// that does not begin with thinking.
func unthought(messages []json.RawMessage) bool {
	body := rawjson.Object{}
	body.Set("max_tokens", 1<<30)
	body.Set("thinking", map[string]any{"type": "enabled"})
	body.Set("messages", messages)
	return slices.ContainsFunc(Validate(body.Bytes()), func(v wire.Violation) bool { return v.Rule == wire.RuleReasoning })
}

func system(env *session.Envelope) json.RawMessage {
	if len(env.System) == 1 {
		if og := env.System[0].Origin; og != nil && og.Format == Format && json.Valid(og.Raw) && rawjson.Kind(og.Raw) != '{' && !slices.ContainsFunc(env.System[0].Parts, blank) {
			return og.Raw
		}
	}
	var blocks []json.RawMessage
	for i := range env.System {
		for _, p := range env.System[i].Parts {
			if t, ok := turns.Clean(p).(session.Text); ok && strings.TrimSpace(t.Text) != "" {
				blocks = append(blocks, anthropic.Block(t))
			}
		}
	}
	if blocks == nil {
		return nil
	}
	return rawjson.Marshal(blocks)
}

func blank(p session.Part) bool {
	t, ok := p.(session.Text)
	return ok && strings.TrimSpace(t.Text) == ""
}

// isTool reports whether a tool is in the form of this provider.
func isTool(o rawjson.Object) bool {
	return o.Get("input_schema") != nil || o.Get("type") != nil && o.Get("function") == nil && o.Get("parameters") == nil && o.Get("name") != nil
}
