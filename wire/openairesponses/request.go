package openairesponses

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// RequestOptions are the optional settings of a request. Nil means defaults.
type RequestOptions struct {
	// Model goes into the request in place of the envelope's.
	Model string
	// ModelCall says that the request is about to be sent: when it would end
	// with an item of the model, a marked user message closes it.
	ModelCall bool
}

// Request is a request that the provider takes, as [Validate] checks.
type Request struct {
	// Input are the items of the body, in order.
	Input []json.RawMessage
	// Body is the JSON body.
	Body []byte
	// Report says where it differs from the surface.
	Report wire.RequestReport
}

const (
	maxID   = 64
	maxName = 64
)

func validID(s string) bool   { return len(s) <= maxID && turns.Alphabet(s, "_-.:|/+=") }
func validName(s string) bool { return turns.Alphabet(s, "_-") }

// BuildRequest builds the request of the surface: valid whatever the surface
// is, the same bytes for the same view. A reasoning item goes out with the item
// behind it or not at all; that of other providers is left out. The system text
// of the envelope is instructions. The error says which message could not be
// read.
func BuildRequest(v session.View, opts *RequestOptions) (*Request, error) {
	if opts == nil {
		opts = &RequestOptions{}
	}
	topts := turns.Options{Format: Format, ModelCall: opts.ModelCall, ValidID: validID, MaxID: maxID, ValidName: validName, MaxName: maxName, Send: send}
	list, report, err := turns.Build(v, topts)
	if err != nil {
		return nil, err
	}
	custom, items := map[string]bool{}, map[string]bool{}
	r := &Request{}
	for _, t := range list {
		parts := t.Plain()
		for len(parts) > 0 { // reasoning needs the item behind it
			if _, ok := parts[len(parts)-1].(session.Reasoning); !ok {
				break
			}
			report.Unsent = append(report.Unsent, wire.PartAt{Position: t.At, Kind: "reasoning"})
			parts = parts[:len(parts)-1]
		}
		for _, p := range parts {
			if c, ok := p.(session.ToolCall); ok {
				custom[c.ID] = c.Custom
			}
		}
		m := &session.Message{Role: t.Role, Parts: parts}
		// Without its reasoning an item must not be recognized by its id.
		apart := slices.Contains(report.Unsent, wire.PartAt{Position: t.At, Kind: "reasoning"})
		for _, raw := range responses.Encode(m, func(id string) bool { return custom[id] }) {
			raw, ok := identified(accepted(raw), items, apart)
			if apart = apart || !ok; !ok {
				report.Unsent = append(report.Unsent, wire.PartAt{Position: t.At, Kind: "reasoning"})
				continue
			}
			r.Input = append(r.Input, turns.Repair(raw))
		}
	}
	env, _ := v.Envelope()
	if env == nil {
		env = &session.Envelope{}
	}
	r.Body = body(env, opts, r.Input, &topts, report)
	r.Report = *report
	return r, nil
}

// accepted takes fields out of an item that the provider would refuse.
func accepted(raw json.RawMessage) json.RawMessage {
	it, _ := responses.Decode(raw) // made here, or looked at before
	gone := unknownFields(it.Type, raw)
	if gone == nil {
		return raw
	}
	o, _ := rawjson.Parse(raw)
	out := rawjson.Object{}
	for _, f := range o {
		if !slices.Contains(gone, f.Name) {
			out = append(out, f)
		}
	}
	return out.Bytes()
}

// identified takes the id of an item out that the provider would refuse, or of
// one that is to be apart. Items need none, but reasoning without its encrypted
// content is nothing without one: false. The ids of calls are other ones.
func identified(raw json.RawMessage, used map[string]bool, apart bool) (json.RawMessage, bool) {
	o, err := rawjson.Parse(raw)
	id, ok := rawjson.String(o.Get("id"))
	if err != nil || o.Get("id") == nil {
		return raw, true
	}
	it, known := responses.Decode(raw)
	if ok && known && !apart && validItemID(it.Type, id) && turns.Unique(used, id) {
		return raw, true
	}
	if secret, _ := rawjson.String(o.Get("encrypted_content")); known && it.Type == responses.TypeReasoning && secret == "" {
		return nil, false
	}
	out := rawjson.Object{}
	for _, f := range o {
		if f.Name != "id" {
			out = append(out, f)
		}
	}
	return out.Bytes(), true
}

// send says what of a part may be sent.
func send(role session.Role, m *session.Message, p session.Part) (session.Part, bool) {
	switch p := p.(type) {
	case session.Text:
		return p, true
	case session.Image:
		if role == session.RoleAssistant || p.URL == "" {
			return session.Text{Text: "[image left out: " + splice.Clip(p.URL, 100) + "]"}, false
		}
		return p, true
	case session.File:
		if role == session.RoleAssistant || p.URL == "" {
			return session.Text{Text: "[file left out: " + splice.Clip(p.Name+" "+p.URL, 100) + "]"}, false
		}
		return p, true
	case session.Reasoning:
		it, ok := responses.Decode(p.Raw)
		if role != session.RoleAssistant || !ok || it.Type != responses.TypeReasoning || p.Encrypted == "" && p.ID == "" {
			return nil, false
		}
		return p, true
	case session.Opaque:
		if text, ok := turns.Refusal(p); ok && role == session.RoleAssistant {
			o := rawjson.Object{}
			o.Set("type", p.Kind)
			o.Set("refusal", text)
			p.Raw = o.Bytes()
			return p, true
		}
		it, ok := responses.Decode(p.Raw)
		if ok && it.Type == p.Kind && (isItem(p.Kind) || p.Kind == responses.TypeCompaction) && role != session.RoleTool {
			return p, true
		}
		return nil, false
	}
	return nil, false
}

func body(env *session.Envelope, opts *RequestOptions, input []json.RawMessage, topts *turns.Options, report *wire.RequestReport) []byte {
	o := rawjson.Object{}
	if model := cmp.Or(opts.Model, env.Model); model != "" {
		o.Set("model", model)
	}
	text := ""
	for i := range env.System {
		t, _ := turns.Clean(session.Text{Text: env.System[i].Text()}).(session.Text)
		if t.Text != "" && text != "" {
			text += "\n\n"
		}
		text += t.Text
	}
	if text != "" {
		o.Set("instructions", text)
	}
	o.Set("input", input)
	tools := topts.Tools(env, report, isTool, func(name string, t session.Tool) rawjson.Object {
		o := rawjson.Object{}
		o.Set("type", "function")
		o.Set("name", name)
		if t.Description != "" {
			o.Set("description", t.Description)
		}
		o.Set("parameters", t.Schema)
		return o
	})
	if tools != nil {
		o.Set("tools", tools)
	}
	for _, k := range slices.Sorted(maps.Keys(env.Extra)) {
		switch k {
		case "background", "conversation", "include", "max_output_tokens", "max_tool_calls", "metadata", "prompt_cache_key", "reasoning",
			"service_tier", "store", "stream", "temperature", "text", "top_p", "truncation", "user":
			o.Set(k, env.Extra[k])
		case "parallel_tool_calls", "tool_choice":
			if tools != nil {
				o.Set(k, env.Extra[k])
			}
		}
	}
	return turns.Repair(o.Bytes())
}

// isTool reports whether a tool is in the form of this provider.
func isTool(o rawjson.Object) bool {
	return o.Get("type") != nil && o.Get("function") == nil && o.Get("input_schema") == nil
}
