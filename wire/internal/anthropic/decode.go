// Package anthropic turns content blocks of the Anthropic Messages API into
// parts of session messages and back.
//
// Not kept in parts, and so lost when a message is written from its parts:
// citations and cache_control on text blocks and tool results. Blocks of a type
// that is not known here become [session.Opaque].
package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Title     string          `json:"title"`
	Source    *source         `json:"source"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
	FileID    string `json:"file_id"`
}

// Outline says what a block is, without its content.
type Outline struct {
	// Type is the type of the block; "invalid" for one that cannot be decoded.
	Type string
	// ID is that of a call, or of the call that a result answers.
	ID string
}

// outline is a block with fields that are checked like those of block but not
// kept.
type outline struct {
	Type      string `json:"type"`
	Text      text   `json:"text"`
	Thinking  text   `json:"thinking"`
	Signature text   `json:"signature"`
	Data      text   `json:"data"`
	ID        string `json:"id"`
	Name      text   `json:"name"`
	ToolUseID string `json:"tool_use_id"`
	IsError   bool   `json:"is_error"`
	Title     text   `json:"title"`
	Source    *struct {
		Type      text `json:"type"`
		MediaType text `json:"media_type"`
		Data      text `json:"data"`
		URL       text `json:"url"`
		FileID    text `json:"file_id"`
	} `json:"source"`
}

// text is a string that is not kept.
type text struct{}

func (*text) UnmarshalJSON(b []byte) error {
	if b[0] != '"' && b[0] != 'n' {
		return errNoString
	}
	return nil
}

var errNoString = errors.New("not a string")

// Outlines returns what [Parts] would make parts of, and false where that is
// false. A text is one block without a type, or none when it is empty.
func Outlines(content json.RawMessage) ([]Outline, bool) {
	if rawjson.Kind(content) == '"' {
		if len(bytes.TrimSpace(content)) == len(`""`) {
			return nil, true
		}
		return []Outline{{}}, true
	}
	list, ok := rawjson.Elements(content)
	if !ok {
		return nil, false
	}
	out := make([]Outline, len(list))
	for i, raw := range list {
		var b outline
		if err := json.Unmarshal(raw, &b); err != nil || rawjson.Kind(raw) != '{' {
			out[i].Type = "invalid"
			continue
		}
		out[i] = Outline{Type: b.Type, ID: b.ID}
		if b.Type == "tool_result" {
			out[i].ID = b.ToolUseID
		}
	}
	return out, true
}

// Parts decodes the content of a message: a string or a list of blocks. It is
// false when the content is neither.
func Parts(content json.RawMessage) ([]session.Part, bool) {
	if s, ok := rawjson.String(content); ok {
		if s == "" {
			return nil, true
		}
		return []session.Part{session.Text{Text: s}}, true
	}
	list, ok := rawjson.Elements(content)
	if !ok {
		return nil, false
	}
	parts := make([]session.Part, 0, len(list))
	for _, raw := range list {
		parts = append(parts, part(raw, false))
	}
	return parts, true
}

// part decodes one block. Blocks inside a tool result cannot be calls, results
// or reasoning.
func part(raw json.RawMessage, inResult bool) session.Part {
	var b block
	if err := json.Unmarshal(raw, &b); err != nil || rawjson.Kind(raw) != '{' {
		return session.Opaque{Kind: "invalid", Raw: raw}
	}
	switch b.Type {
	case "text":
		return session.Text{Text: b.Text}
	case "image":
		if b.Source != nil {
			return session.Image{URL: b.Source.url(), MediaType: b.Source.MediaType, Raw: raw}
		}
	case "document":
		if b.Source != nil {
			f := session.File{Name: b.Title, URL: b.Source.url(), MediaType: b.Source.MediaType, Raw: raw}
			switch b.Source.Type {
			case "base64":
				f.Bytes = len(b.Source.Data) / 4 * 3
			case "text":
				f.Bytes = len(b.Source.Data)
			}
			return f
		}
	}
	if !inResult {
		switch b.Type {
		case "thinking":
			return session.Reasoning{Text: b.Thinking, Signature: b.Signature, Raw: raw}
		case "redacted_thinking":
			return session.Reasoning{Encrypted: b.Data, Raw: raw}
		case "tool_use":
			return session.ToolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input), Raw: raw}
		case "tool_result":
			return session.ToolResult{CallID: b.ToolUseID, Parts: resultParts(b.Content), IsError: b.IsError}
		}
	}
	if b.Type == "" {
		b.Type = "invalid"
	}
	return session.Opaque{Kind: b.Type, Raw: raw}
}

func resultParts(content json.RawMessage) []session.Part {
	if s, ok := rawjson.String(content); ok {
		return []session.Part{session.Text{Text: s}}
	}
	list, ok := rawjson.Elements(content)
	if !ok {
		if k := rawjson.Kind(content); k == 0 || k == 'n' {
			return nil
		}
		return []session.Part{session.Opaque{Kind: "invalid", Raw: content}}
	}
	parts := make([]session.Part, 0, len(list))
	for _, raw := range list {
		parts = append(parts, part(raw, true))
	}
	return parts
}

func (s *source) url() string {
	switch s.Type {
	case "base64":
		return "data:" + s.MediaType + ";base64," + s.Data
	case "url":
		return s.URL
	case "file":
		return s.FileID
	}
	return ""
}

// Split parts a user message as the agent sees it: the results that it holds
// and what the user said with them. Both keep their order.
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

// Usage is the usage object of a response.
type Usage struct {
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
}

// Session returns the usage as the session counts it: the prompt with what came
// from and went to the cache. It is nil when nothing was reported.
func (u *Usage) Session(model string) *session.Usage {
	if u == nil || *u == (Usage{}) {
		return nil
	}
	return &session.Usage{
		Node:       session.NoSeq,
		Prompt:     u.Input + u.CacheRead + u.CacheWrite,
		Completion: u.Output,
		CacheRead:  u.CacheRead,
		CacheWrite: u.CacheWrite,
		Provider:   Provider,
		Model:      model,
	}
}

// Provider is the provider name of messages in this form.
const Provider = "anthropic"

// dataURL takes a data URL with base64 apart.
func dataURL(url string) (mediaType, data string, ok bool) {
	head, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	return head, data, ok && strings.HasPrefix(url, "data:")
}
