package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Envelope is what accompanies the surface in a request but is not on it. The
// host records it in the session; it is never compacted.
type Envelope struct {
	// Provider and Model are the route of the next request; empty when nothing
	// has been routed yet.
	Provider string
	Model    string
	// System holds the leading system and developer messages, in order.
	System []Message
	// Tools are the definitions that the model is offered, in order.
	Tools []Tool
	// Extra holds other request settings of the provider's, by name.
	Extra map[string]json.RawMessage
}

// Tool is a tool definition.
type Tool struct {
	Name        string
	Description string
	// Schema is the JSON schema of the arguments; may be nil.
	Schema json.RawMessage
	// Raw is the provider's own form of the definition, when it has one.
	Raw json.RawMessage
}

// Equal reports whether both envelopes make the same request head: route,
// system messages, tools in order, and settings. Absent and empty are equal.
func (e *Envelope) Equal(o *Envelope) bool {
	return bytes.Equal(appendEnvelope(nil, e), appendEnvelope(nil, o))
}

// Clone returns a deep copy. Strings are shared.
func (e *Envelope) Clone() *Envelope {
	c := *e
	c.System = make([]Message, len(e.System))
	for i := range e.System {
		c.System[i] = *e.System[i].Clone()
	}
	c.Tools = slices.Clone(e.Tools)
	for i := range c.Tools {
		c.Tools[i].Schema = slices.Clone(c.Tools[i].Schema)
		c.Tools[i].Raw = slices.Clone(c.Tools[i].Raw)
	}
	c.Extra = maps.Clone(e.Extra)
	return &c
}

func appendEnvelope(dst []byte, e *Envelope) []byte {
	dst = append(dst, '{')
	dst = field(dst, "provider", e.Provider)
	dst = field(dst, "model", e.Model)
	if len(e.System) > 0 {
		dst = append(key(dst, "system"), '[')
		for i := range e.System {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendMessage(dst, &e.System[i])
		}
		dst = append(dst, ']')
	}
	if len(e.Tools) > 0 {
		dst = append(key(dst, "tools"), '[')
		for i, t := range e.Tools {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '{')
			dst = field(dst, "name", t.Name)
			dst = field(dst, "description", t.Description)
			dst = rawField(dst, "schema", t.Schema)
			dst = rawField(dst, "raw", t.Raw)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	if len(e.Extra) > 0 {
		dst = appendRawMap(key(dst, "extra"), e.Extra)
	}
	return append(dst, '}')
}

func decodeEnvelope(data []byte) (*Envelope, error) {
	var j struct {
		Provider exact     `json:"provider"`
		Model    exact     `json:"model"`
		System   []Message `json:"system"`
		Tools    []struct {
			Name        exact  `json:"name"`
			Description exact  `json:"description"`
			Schema      *exact `json:"schema"`
			Raw         *exact `json:"raw"`
		} `json:"tools"`
		Extra map[string]exact `json:"extra"`
	}
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, err
	}
	e := &Envelope{Provider: string(j.Provider), Model: string(j.Model), System: j.System, Extra: rawMap(j.Extra)}
	for _, t := range j.Tools {
		e.Tools = append(e.Tools, Tool{Name: string(t.Name), Description: string(t.Description), Schema: t.Schema.raw(), Raw: t.Raw.raw()})
	}
	return e, nil
}
