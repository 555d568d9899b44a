package anthropicmessages

import (
	"encoding/json"
	"maps"
	"slices"

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
		for _, p := range t.Parts {
			switch {
			case p.Raw != nil:
				blocks = append(blocks, p.Raw)
			default:
				if r, ok := p.Part.(session.ToolResult); ok && session.TextOf(r.Parts) == "" && len(r.Parts) == 1 {
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
	model := env.Model
	if opts.Model != "" {
		model = opts.Model
	}
	if model != "" {
		o.Set("model", model)
	}
	limit := env.Extra["max_tokens"]
	if rawjson.Kind(limit) != '0' {
		n := opts.MaxTokens
		if n <= 0 {
			n = defaultMaxTokens
		}
		limit = rawjson.Marshal(n)
	}
	o.Set("max_tokens", limit)
	if sys := system(env); sys != nil {
		o.Set("system", sys)
	}
	o.Set("messages", messages)
	var tools []json.RawMessage
	for _, t := range env.Tools {
		if raw := tool(t, topts, report); raw != nil {
			tools = append(tools, raw)
		}
	}
	if tools != nil {
		o.Set("tools", tools)
	}
	for _, k := range slices.Sorted(maps.Keys(env.Extra)) {
		switch k {
		case "metadata", "stop_sequences", "stream", "temperature", "thinking", "top_k", "top_p", "service_tier", "container", "context_management":
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

func system(env *session.Envelope) json.RawMessage {
	if len(env.System) == 1 {
		if og := env.System[0].Origin; og != nil && og.Format == Format && json.Valid(og.Raw) && rawjson.Kind(og.Raw) != '{' {
			return og.Raw
		}
	}
	var blocks []json.RawMessage
	for i := range env.System {
		for _, p := range env.System[i].Parts {
			if t, ok := turns.Clean(p).(session.Text); ok && t.Text != "" {
				blocks = append(blocks, anthropic.Block(t))
			}
		}
	}
	if blocks == nil {
		return nil
	}
	return rawjson.Marshal(blocks)
}

func tool(t session.Tool, topts *turns.Options, report *wire.RequestReport) json.RawMessage {
	if o, err := rawjson.Parse(t.Raw); err == nil && (o.Get("input_schema") != nil || o.Get("type") != nil && o.Get("function") == nil && o.Get("parameters") == nil && o.Get("name") != nil) {
		return t.Raw
	}
	if t.Name == "" {
		report.Tools = append(report.Tools, "(without a name)")
		return nil
	}
	o := rawjson.Object{}
	name := topts.Name(t.Name)
	if name != t.Name {
		report.Tools = append(report.Tools, t.Name)
	}
	o.Set("name", name)
	if t.Description != "" {
		o.Set("description", t.Description)
	}
	schema := t.Schema
	if rawjson.Kind(schema) != '{' || !json.Valid(schema) {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	o.Set("input_schema", schema)
	return o.Bytes()
}
