package turns

import (
	"encoding/json"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

// Tools are the tools of an envelope, each under a name that the provider takes
// and that no other one has; report says which have another name or are left out.
// A tool whose own form is the provider's goes out as it is: that is for isOwn to
// say. The others are made anew, with a schema that is an object.
func (o *Options) Tools(env *session.Envelope, report *wire.RequestReport, isOwn func(rawjson.Object) bool, encode func(name string, t session.Tool) rawjson.Object) []json.RawMessage {
	var out []json.RawMessage
	used := map[string]bool{}
	for _, t := range env.Tools {
		name := o.Name(t.Name)
		if t.Name != "" && !Unique(used, name) {
			report.Tools = append(report.Tools, t.Name)
			continue
		}
		if own, err := rawjson.Parse(t.Raw); err == nil && name == t.Name && isOwn(own) {
			out = append(out, t.Raw)
			continue
		}
		if t.Name == "" {
			report.Tools = append(report.Tools, "(without a name)")
			continue
		}
		if name != t.Name {
			report.Tools = append(report.Tools, t.Name)
		}
		if rawjson.Kind(t.Schema) != '{' || !json.Valid(t.Schema) {
			t.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, encode(name, t).Bytes())
	}
	return out
}

// Refusal returns the text with which a model declined, in the forms of the
// providers that have one.
func Refusal(p session.Opaque) (string, bool) {
	if p.Kind != "refusal" {
		return "", false
	}
	o, err := rawjson.Parse(p.Raw)
	if err != nil {
		return "", false
	}
	text, _ := rawjson.String(o.Get("refusal"))
	text = strings.ToValidUTF8(text, "\uFFFD")
	return text, strings.TrimSpace(text) != ""
}
