// Package gemini turns parts of the Gemini API into parts of session messages
// and back.
//
// Not kept in session parts, and so lost when a message is written from them:
// thoughtSignature on plain text, partMetadata, and members of a function
// response other than its output.
package gemini

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Provider is the provider name of messages in this form.
const Provider = "google"

type part struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string            `json:"id"`
		Name     string            `json:"name"`
		Response json.RawMessage   `json:"response"`
		Parts    []json.RawMessage `json:"parts"`
	} `json:"functionResponse"`
	Inline *struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
		Name     string `json:"displayName"`
	} `json:"inlineData"`
	File *struct {
		MimeType string `json:"mimeType"`
		URI      string `json:"fileUri"`
		Name     string `json:"displayName"`
	} `json:"fileData"`
}

// Part decodes one part. A string is a text.
func Part(raw json.RawMessage) session.Part {
	if s, ok := rawjson.String(raw); ok {
		return session.Text{Text: s}
	}
	var p part
	if rawjson.Kind(raw) != '{' || !splice.Lenient(json.Unmarshal(raw, &p)) {
		return session.Opaque{Kind: "invalid", Raw: raw}
	}
	switch {
	case p.Call != nil:
		c := session.ToolCall{ID: p.Call.ID, Name: p.Call.Name, Arguments: string(p.Call.Args), Raw: raw}
		return c
	case p.Response != nil:
		r := session.ToolResult{CallID: p.Response.ID, Name: p.Response.Name}
		r.Parts, r.IsError = output(p.Response.Response)
		for _, sub := range p.Response.Parts {
			r.Parts = append(r.Parts, inResult(Part(sub), sub))
		}
		return r
	case p.Text != nil && p.Thought:
		return session.Reasoning{Text: *p.Text, Signature: p.Signature, Raw: raw}
	case p.Text != nil:
		return session.Text{Text: *p.Text}
	case p.Inline != nil:
		url := "data:" + p.Inline.MimeType + ";base64," + p.Inline.Data
		if strings.HasPrefix(p.Inline.MimeType, "image/") {
			return session.Image{URL: url, MediaType: p.Inline.MimeType, Raw: raw}
		}
		return session.File{Name: p.Inline.Name, URL: url, MediaType: p.Inline.MimeType, Bytes: len(p.Inline.Data) / 4 * 3, Raw: raw}
	case p.File != nil:
		if strings.HasPrefix(p.File.MimeType, "image/") {
			return session.Image{URL: p.File.URI, MediaType: p.File.MimeType, Raw: raw}
		}
		return session.File{Name: p.File.Name, URL: p.File.URI, MediaType: p.File.MimeType, Raw: raw}
	}
	kind := "invalid"
	if o, err := rawjson.Parse(raw); err == nil {
		for _, f := range o {
			if f.Name != "thoughtSignature" && f.Name != "thought" {
				kind = f.Name
				break
			}
		}
	}
	return session.Opaque{Kind: kind, Raw: raw}
}

// inResult makes a part one that a result can hold.
func inResult(p session.Part, raw json.RawMessage) session.Part {
	switch p.(type) {
	case session.Text, session.Image, session.File, session.Opaque:
		return p
	}
	return session.Opaque{Kind: "invalid", Raw: raw}
}

// output reads the response of a function: its one text, or else all of it as
// JSON.
func output(raw json.RawMessage) (parts []session.Part, failed bool) {
	if k := rawjson.Kind(raw); k == 0 || k == 'n' {
		return nil, false
	}
	o, err := rawjson.Parse(raw)
	if err == nil && len(o) == 0 {
		return nil, false
	}
	if err == nil && len(o) == 1 {
		s, ok := rawjson.String(o[0].Value)
		switch o[0].Name {
		case "output", "result":
			if ok {
				return []session.Part{session.Text{Text: s}}, false
			}
		case "error":
			if ok {
				return []session.Part{session.Text{Text: s}}, true
			}
		}
	}
	return []session.Part{session.Text{Text: string(raw)}}, err == nil && o.Get("error") != nil
}

// Parts decodes a list of parts, or one part, or a string. It is false when the
// content is none of them.
func Parts(content json.RawMessage) ([]session.Part, bool) {
	switch rawjson.Kind(content) {
	case '"', '{':
		if s, ok := rawjson.String(content); ok && s == "" {
			return nil, true
		}
		return []session.Part{Part(content)}, true
	case '[':
		list, _ := rawjson.Elements(content)
		parts := make([]session.Part, 0, len(list))
		for _, raw := range list {
			parts = append(parts, Part(raw))
		}
		return parts, true
	}
	return nil, false
}

// Encode encodes one part; nil when the format cannot hold it. Reasoning of
// another provider is left out.
func Encode(p session.Part) json.RawMessage {
	switch p := p.(type) {
	case session.Text:
		return member("text", p.Text)
	case session.Reasoning:
		if q, ok := Part(p.Raw).(session.Reasoning); ok && p.Raw != nil && q.Text == p.Text && q.Signature == p.Signature {
			return p.Raw
		}
		if p.Raw != nil || p.Encrypted != "" {
			return nil
		}
		o := rawjson.Object{}
		o.Set("text", p.Text)
		o.Set("thought", true)
		if p.Signature != "" {
			o.Set("thoughtSignature", p.Signature)
		}
		return o.Bytes()
	case session.ToolCall:
		if q, ok := Part(p.Raw).(session.ToolCall); ok && p.Raw != nil && (q.ID == p.ID || q.ID == "") && q.Name == p.Name && q.Arguments == p.Arguments {
			return p.Raw
		}
		o := rawjson.Object{}
		o.Set("name", p.Name)
		o.Set("args", Args(p.Arguments))
		if p.ID != "" {
			o.Set("id", p.ID)
		}
		return member("functionCall", o)
	case session.ToolResult:
		return member("functionResponse", Response(p))
	case session.Image:
		if q, ok := Part(p.Raw).(session.Image); ok && p.Raw != nil && q.URL == p.URL {
			return p.Raw
		}
		return media(p.URL, p.MediaType, "")
	case session.File:
		if q, ok := Part(p.Raw).(session.File); ok && p.Raw != nil && q.URL == p.URL {
			return p.Raw
		}
		return media(p.URL, p.MediaType, p.Name)
	case session.Opaque:
		return p.Raw
	}
	return nil
}

// Response makes the function response of a result.
func Response(r session.ToolResult) rawjson.Object {
	o := rawjson.Object{}
	if r.CallID != "" {
		o.Set("id", r.CallID)
	}
	o.Set("name", r.Name)
	key := "output"
	if r.IsError {
		key = "error"
	}
	resp := rawjson.Object{}
	resp.Set(key, session.TextOf(r.Parts))
	var other []json.RawMessage
	texts := 0
	for _, p := range r.Parts {
		if _, ok := p.(session.Text); ok {
			texts++
			continue
		}
		if raw := Encode(p); raw != nil {
			other = append(other, raw)
		}
	}
	// A response without any text, and one of several texts, keep their parts.
	if texts != 1 {
		resp = rawjson.Object{}
		other = nil
		for _, p := range r.Parts {
			if raw := Encode(p); raw != nil {
				other = append(other, raw)
			}
		}
	}
	o.Set("response", resp)
	if other != nil {
		o.Set("parts", other)
	}
	return o
}

func member(name string, value any) json.RawMessage {
	o := rawjson.Object{}
	o.Set(name, value)
	return o.Bytes()
}

func media(url, mediaType, name string) json.RawMessage {
	head, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	o := rawjson.Object{}
	if ok && strings.HasPrefix(url, "data:") {
		if head != "" {
			mediaType = head
		}
		o.Set("mimeType", mediaType)
		o.Set("data", data)
		return member("inlineData", named(o, name))
	}
	o.Set("mimeType", mediaType)
	o.Set("fileUri", url)
	return member("fileData", named(o, name))
}

func named(o rawjson.Object, name string) rawjson.Object {
	if name != "" {
		o.Set("displayName", name)
	}
	return o
}

// Args makes the arguments of a call an object, as the provider wants them.
func Args(arguments string) json.RawMessage {
	if raw := json.RawMessage(arguments); json.Valid(raw) && rawjson.Kind(raw) == '{' {
		return raw
	}
	if strings.TrimSpace(arguments) == "" {
		return json.RawMessage("{}")
	}
	return rawjson.Marshal(map[string]string{"input": arguments})
}

// Split parts a user message as the agent sees it: results and the rest.
func Split(parts []session.Part) (results, rest []session.Part) {
	for _, p := range parts {
		if _, ok := p.(session.ToolResult); ok {
			results = append(results, p)
		} else {
			rest = append(rest, p)
		}
	}
	return results, rest
}

// Pair gives the calls of a message of the model and the results that follow it
// ids where they have none: by name and order. A call takes the id of its
// result, or else its name and number; the ids do not depend on what stands
// around the two.
func Pair(model []session.Part, results [][]session.Part) {
	type slot struct{ list, i int }
	open := map[string][]slot{} // results by name
	taken := map[slot]bool{}
	byID := map[string]bool{}
	for l, list := range results {
		for i, p := range list {
			if r, ok := p.(session.ToolResult); ok {
				open[r.Name] = append(open[r.Name], slot{l, i})
				if r.CallID != "" {
					byID[r.CallID] = true
				}
			}
		}
	}
	take := func(c session.ToolCall) (slot, bool) {
		for _, s := range open[c.Name] {
			r := results[s.list][s.i].(session.ToolResult)
			if !taken[s] && (r.CallID == "" || c.ID == "" || r.CallID == c.ID) {
				taken[s] = true
				return s, true
			}
		}
		return slot{}, false
	}
	used := map[string]bool{}
	for _, p := range model {
		if c, ok := p.(session.ToolCall); ok && c.ID != "" {
			used[c.ID] = true
		}
	}
	number := map[string]int{}
	for i, p := range model {
		c, ok := p.(session.ToolCall)
		if !ok {
			continue
		}
		if c.ID != "" && byID[c.ID] {
			take(c)
			continue
		}
		s, ok := take(c)
		if ok {
			r := results[s.list][s.i].(session.ToolResult)
			if c.ID == "" && r.CallID != "" && !used[r.CallID] {
				c.ID = r.CallID
			}
		}
		for c.ID == "" {
			id := fmt.Sprintf("%s:%d", c.Name, number[c.Name])
			if number[c.Name]++; !used[id] {
				c.ID = id
			}
		}
		used[c.ID] = true
		model[i] = c
		if ok {
			r := results[s.list][s.i].(session.ToolResult)
			if r.CallID == "" {
				r.CallID = c.ID
				results[s.list][s.i] = r
			}
		}
	}
	Unpaired(results)
}

// Unpaired gives results that are left without an id one of their own.
func Unpaired(results [][]session.Part) {
	number := map[string]int{}
	for _, list := range results {
		for i, p := range list {
			if r, ok := p.(session.ToolResult); ok && r.CallID == "" {
				r.CallID = fmt.Sprintf("%s:%d", r.Name, number[r.Name])
				number[r.Name]++
				list[i] = r
			}
		}
	}
}
