package gemini

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// RequestOptions are the optional settings of a request. Nil means defaults.
type RequestOptions struct {
	// ModelCall says that the request is about to be sent: when it would end
	// with a content of the model, a marked user content closes it.
	ModelCall bool
	// Model decides what is wanted of the signatures of thoughts, in place of
	// the envelope's.
	Model string
}

// Request is a request that the provider takes, as [Validate] checks.
type Request struct {
	// Contents are the contents of the body, in order.
	Contents []json.RawMessage
	// Body is the JSON body. The model is in the URL, not in it.
	Body []byte
	// Report says where it differs from the surface.
	Report wire.RequestReport
}

const (
	maxID   = 64
	maxName = 64
)

func validID(s string) bool { return len(s) <= maxID && turns.Alphabet(s, "_-.:|/+=") }

func validName(s string) bool {
	return turns.Alphabet(s, "_-.:") && s[0] != '-' && s[0] != '.' && s[0] != ':' && (s[0] < '0' || s[0] > '9')
}

// BuildRequest builds the request of the surface: valid whatever the surface
// is, the same bytes for the same view. User and model come in turns; a content
// with calls is answered by as many responses in the next one, in the order of
// the calls. thoughtSignatures stay on their parts, and calls of the running turn
// that have none get the placeholder that Gemini 3 and later models ask for;
// thoughts of other providers are left out. The error says which message could not be read.
func BuildRequest(v session.View, opts *RequestOptions) (*Request, error) {
	if opts == nil {
		opts = &RequestOptions{}
	}
	topts := turns.Options{Format: Format, ModelCall: opts.ModelCall, Merge: true, ValidID: validID, MaxID: maxID, ValidName: validName, MaxName: maxName,
		Send: send, Split: split}
	list, report, err := turns.Build(v, topts)
	if err != nil {
		return nil, err
	}
	r := &Request{}
	for _, t := range list {
		o := rawjson.Object{}
		o.Set("role", role(t.Role))
		parts := []json.RawMessage{}
		for _, p := range t.Parts {
			raw := p.Raw
			switch q := p.Part.(type) {
			case session.ToolResult:
				raw = response(q)
			case session.ToolCall:
				raw = call(q)
			default:
				if raw == nil {
					raw = gemini.Encode(p.Part)
				}
			}
			parts = append(parts, raw)
		}
		o.Set("parts", parts)
		r.Contents = append(r.Contents, turns.Repair(o.Bytes()))
	}
	env, _ := v.Envelope()
	if env == nil {
		env = &session.Envelope{}
	}
	model := env.Model
	if opts.Model != "" {
		model = opts.Model
	}
	if signs(model) {
		sign(r.Contents)
	}
	r.Body = body(env, r.Contents, &topts, report)
	r.Report = *report
	return r, nil
}

// anySignature is what the provider takes in place of the signature of a thought
// that it did not have: of another model, or from before a compaction.
const anySignature = "skip_thought_signature_validator"

// signs reports whether a model wants the signatures of its thoughts: those of
// Gemini 3 and later.
func signs(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	rest, ok := strings.CutPrefix(model, "gemini-")
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	n, err := strconv.Atoi(digits)
	return ok && err == nil && n >= 3
}

// sign gives the calls behind the last prompt the signature that the model
// wants.
func sign(contents []json.RawMessage) {
	for i := prompted(contents); i < len(contents); i++ {
		n, ok := unsigned(contents[i])
		if !ok {
			continue
		}
		o, _ := rawjson.Parse(contents[i]) // made here
		parts, _ := rawjson.Elements(o.Get("parts"))
		p, _ := rawjson.Parse(parts[n])
		p.Set("thoughtSignature", anySignature)
		parts[n] = p.Bytes()
		o.Set("parts", parts)
		contents[i] = o.Bytes()
	}
}

// split takes the parts of a record apart.
func split(m *session.Message) []json.RawMessage {
	o, err := rawjson.Parse(m.Origin.Raw)
	if err != nil {
		return nil
	}
	list, _ := rawjson.Elements(o.Get("parts"))
	return list
}

// call makes the part of a call; its signature stays.
func call(c session.ToolCall) json.RawMessage {
	o, err := rawjson.Parse(c.Raw)
	fn, err2 := rawjson.Parse(o.Get("functionCall"))
	if err != nil || err2 != nil {
		o, fn = rawjson.Object{}, rawjson.Object{}
	}
	fn.Set("name", c.Name)
	fn.Set("args", gemini.Args(c.Arguments))
	fn.Set("id", c.ID)
	o.Set("functionCall", fn)
	return o.Bytes()
}

// response makes the part of a result, with an object as its response.
func response(r session.ToolResult) json.RawMessage {
	text := session.TextOf(r.Parts)
	key := "output"
	if r.IsError {
		key = "error"
	}
	fn := rawjson.Object{}
	fn.Set("id", r.CallID)
	fn.Set("name", r.Name)
	resp := rawjson.Object{}
	resp.Set(key, text)
	fn.Set("response", resp)
	var media []json.RawMessage
	for _, p := range r.Parts {
		switch p.(type) {
		case session.Image, session.File:
			media = append(media, gemini.Encode(p))
		}
	}
	if media != nil {
		fn.Set("parts", media)
	}
	o := rawjson.Object{}
	o.Set("functionResponse", fn)
	return o.Bytes()
}

// send says what of a part may be sent.
func send(role session.Role, m *session.Message, p session.Part) (session.Part, bool) {
	switch p := p.(type) {
	case session.Text:
		return p, true
	case session.Image:
		if p.URL == "" || p.MediaType == "" {
			return session.Text{Text: "[image left out: " + splice.Clip(p.URL, 100) + "]"}, false
		}
		return p, true
	case session.File:
		if p.URL == "" || p.MediaType == "" {
			return session.Text{Text: "[file left out: " + splice.Clip(p.Name+" "+p.URL, 100) + "]"}, false
		}
		return p, true
	case session.Reasoning:
		q, ok := gemini.Part(p.Raw).(session.Reasoning)
		if role != session.RoleAssistant || p.Raw == nil || !ok || q.Text != p.Text || q.Text == "" {
			return nil, false
		}
		return p, true
	case session.Opaque:
		if p.Kind == "executableCode" || p.Kind == "codeExecutionResult" {
			if role == session.RoleAssistant {
				return p, true
			}
		}
		return nil, false
	}
	return nil, false
}

func body(env *session.Envelope, contents []json.RawMessage, topts *turns.Options, report *wire.RequestReport) []byte {
	o := rawjson.Object{}
	var sys []json.RawMessage
	for i := range env.System {
		for _, p := range env.System[i].Parts {
			if t, ok := turns.Clean(p).(session.Text); ok && t.Text != "" {
				sys = append(sys, gemini.Encode(t))
			}
		}
	}
	if sys != nil {
		s := rawjson.Object{}
		s.Set("parts", sys)
		o.Set("systemInstruction", s)
	}
	o.Set("contents", contents)
	var functions, other []json.RawMessage
	used := map[string]bool{}
	for _, t := range env.Tools {
		if t.Name != "" && !turns.Unique(used, topts.Name(t.Name)) {
			report.Tools = append(report.Tools, t.Name)
			continue
		}
		switch raw := tool(t, topts, report); {
		case raw == nil:
		case t.Name == "":
			other = append(other, raw)
		default:
			functions = append(functions, raw)
		}
	}
	if functions != nil {
		g := rawjson.Object{}
		g.Set("functionDeclarations", functions)
		other = append([]json.RawMessage{g.Bytes()}, other...)
	}
	if other != nil {
		o.Set("tools", other)
	}
	for _, k := range slices.Sorted(maps.Keys(env.Extra)) {
		switch k {
		case "generationConfig", "safetySettings", "cachedContent", "labels":
			o.Set(k, env.Extra[k])
		case "toolConfig":
			if other != nil {
				o.Set(k, env.Extra[k])
			}
		}
	}
	return turns.Repair(o.Bytes())
}

func tool(t session.Tool, topts *turns.Options, report *wire.RequestReport) json.RawMessage {
	o, err := rawjson.Parse(t.Raw)
	foreign := err == nil && (o.Get("type") != nil || o.Get("input_schema") != nil || o.Get("function") != nil)
	switch {
	case err == nil && !foreign && t.Name != "" && validName(t.Name) && len(t.Name) <= maxName:
		return t.Raw
	case err == nil && !foreign && t.Name == "" && len(o) > 0:
		return t.Raw // search and the like
	case t.Name == "":
		report.Tools = append(report.Tools, "(without a name)")
		return nil
	}
	name := topts.Name(t.Name)
	if name != t.Name {
		report.Tools = append(report.Tools, t.Name)
	}
	f := rawjson.Object{}
	f.Set("name", name)
	if t.Description != "" {
		f.Set("description", t.Description)
	}
	if rawjson.Kind(t.Schema) == '{' && json.Valid(t.Schema) {
		f.Set("parametersJsonSchema", t.Schema)
	}
	return f.Bytes()
}
