// Package responses turns items of the OpenAI Responses API into session
// messages and back.
//
// Items are siblings in a flat list. The items of one response (reasoning,
// text, calls) become one assistant message; each output is a tool message.
// Calls of hosted tools, which have no output item, and items of a type that is
// not known here become [session.Opaque] parts of the assistant message.
//
// Not kept in parts, and so lost when a message is written from its parts:
// ids, status and phase of items, and annotations of text.
package responses

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

// The item types that callers treat specially.
const (
	TypeMessage      = "message"
	TypeReasoning    = "reasoning"
	TypeCompaction   = "compaction"
	TypeAgentMessage = "agent_message"
	// TypeSnapshot is a git snapshot in Codex files; it is never sent.
	TypeSnapshot = "ghost_snapshot"
)

// Item is a decoded item.
type Item struct {
	// Type is the item's type; "message" for one that has a role only.
	Type string
	// Role is who speaks.
	Role session.Role
	// ID is the item's id; may be empty.
	ID string
	// Parts hold the content.
	Parts []session.Part
	// Raw is the item.
	Raw json.RawMessage
}

type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Message   json.RawMessage `json:"message"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Input     string          `json:"input"`
	Action    json.RawMessage `json:"action"`
	Function  struct {
		Name string `json:"name"`
	} `json:"function"`
	Output    json.RawMessage `json:"output"`
	Result    json.RawMessage `json:"result"`
	Tools     json.RawMessage `json:"tools"`
	Summary   []summary       `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
	Author    string          `json:"author"`
}

type summary struct {
	Text string `json:"text"`
}

type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"`
	FileID   string          `json:"file_id"`
	Detail   string          `json:"detail"`
	Filename string          `json:"filename"`
	FileURL  string          `json:"file_url"`
	FileData string          `json:"file_data"`
}

// Decode decodes an item. It is false for what is no object or has neither a
// type nor a role.
func Decode(raw json.RawMessage) (Item, bool) {
	var j item
	if err := json.Unmarshal(raw, &j); !lenient(err) || rawjson.Kind(raw) != '{' {
		return Item{}, false
	}
	it := Item{Type: j.Type, ID: j.ID, Role: session.RoleAssistant, Raw: raw}
	switch {
	case j.Type == TypeMessage || j.Type == "" && j.Role != "":
		it.Type = TypeMessage
		it.Role = role(j.Role)
		content := j.Content
		if content == nil {
			content = j.Message // very old files
		}
		it.Parts = contentParts(content, it.Role == session.RoleAssistant)
	case j.Type == "":
		return Item{}, false
	case j.Type == TypeReasoning:
		r := session.Reasoning{ID: j.ID, Encrypted: j.Encrypted, Raw: raw}
		texts := make([]string, 0, len(j.Summary))
		for _, s := range j.Summary {
			texts = append(texts, s.Text)
		}
		if r.Text = strings.Join(texts, "\n\n"); r.Text == "" {
			r.Text = session.TextOf(contentParts(j.Content, true))
		}
		it.Parts = []session.Part{r}
	case isOutput(j.Type):
		it.Role = session.RoleTool
		it.Parts = []session.Part{output(&j)}
	case isCall(j.Type, j.CallID):
		it.Parts = []session.Part{call(&j, raw)}
	case j.Type == TypeCompaction:
		it.Role = session.RoleUser
		it.Parts = []session.Part{session.Opaque{Kind: j.Type, Raw: raw}}
	case j.Type == TypeAgentMessage:
		it.Role = session.RoleUser
		if it.Parts = contentParts(j.Content, false); len(it.Parts) == 0 {
			it.Parts = []session.Part{session.Opaque{Kind: j.Type, Raw: raw}}
		}
	default:
		it.Parts = []session.Part{session.Opaque{Kind: j.Type, Raw: raw}}
	}
	return it, true
}

func role(s string) session.Role {
	for _, r := range []session.Role{session.RoleAssistant, session.RoleDeveloper, session.RoleSystem} {
		if string(r) == s {
			return r // not s, so that nothing of the item is kept
		}
	}
	return session.RoleUser
}

// isOutput tells the items that answer a call. tool_result and function_result
// occur in old files.
func isOutput(kind string) bool {
	return strings.HasSuffix(kind, "_call_output") || kind == "tool_search_output" || kind == "function_result" || kind == "tool_result"
}

// isCall tells the items that wait for an output; calls of hosted tools do not.
func isCall(kind, callID string) bool {
	switch kind {
	case "function_call", "custom_tool_call", "tool_call", "local_shell_call":
		return true
	case "tool_search_call", "computer_call", "shell_call", "apply_patch_call":
		return callID != ""
	}
	return false
}

func call(j *item, raw json.RawMessage) session.ToolCall {
	c := session.ToolCall{ID: j.CallID, Name: j.Name, Raw: raw}
	if c.ID == "" && j.Type == "local_shell_call" {
		c.ID = j.ID
	}
	if c.Name == "" {
		c.Name = j.Function.Name
	}
	if c.Name == "" {
		c.Name = strings.TrimSuffix(j.Type, "_call")
	}
	switch {
	case j.Type == "custom_tool_call":
		c.Arguments, c.Custom = j.Input, true
	case j.Arguments != nil:
		if s, ok := rawjson.String(j.Arguments); ok {
			c.Arguments = s
		} else {
			c.Arguments = string(j.Arguments)
		}
	default:
		c.Arguments = string(j.Action)
	}
	return c
}

func output(j *item) session.ToolResult {
	r := session.ToolResult{CallID: j.CallID, Name: j.Name}
	value := j.Output
	switch {
	case value != nil:
	case j.Result != nil:
		value = j.Result
	case j.Tools != nil:
		r.Parts = []session.Part{session.Opaque{Kind: "tools", Raw: j.Tools}}
		return r
	}
	if s, ok := rawjson.String(value); ok {
		r.Parts = []session.Part{session.Text{Text: s}}
		r.IsError = failed(s)
		return r
	}
	if rawjson.Kind(value) == '{' {
		var o struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
			Success *bool           `json:"success"`
		}
		if !lenient(json.Unmarshal(value, &o)) || o.Type == "" && o.Content == nil {
			r.Parts = []session.Part{session.Text{Text: string(value)}}
			return r
		}
		r.IsError = o.Success != nil && !*o.Success
		if o.Content != nil {
			value = o.Content
		} else {
			value = append(append(json.RawMessage{'['}, value...), ']')
		}
	}
	r.Parts = contentParts(value, false)
	return r
}

// failed reports whether the text of an output is that of a command which
// failed: JSON with an exit code.
func failed(s string) bool {
	if !strings.HasPrefix(s, "{") || !strings.Contains(s, `"exit_code"`) {
		return false
	}
	var o struct {
		Metadata struct {
			ExitCode int `json:"exit_code"`
		} `json:"metadata"`
	}
	return json.Unmarshal([]byte(s), &o) == nil && o.Metadata.ExitCode != 0
}

// contentParts decodes a string or a list of content parts.
func contentParts(content json.RawMessage, fromModel bool) []session.Part {
	if s, ok := rawjson.String(content); ok {
		return []session.Part{session.Text{Text: s}}
	}
	list, _ := rawjson.Elements(content)
	parts := make([]session.Part, 0, len(list))
	for _, raw := range list {
		parts = append(parts, contentPart(raw, fromModel))
	}
	return parts
}

func contentPart(raw json.RawMessage, fromModel bool) session.Part {
	var p part
	if !lenient(json.Unmarshal(raw, &p)) || rawjson.Kind(raw) != '{' {
		return session.Opaque{Kind: "invalid", Raw: raw}
	}
	switch p.Type {
	case "input_text", "output_text", "text", "reasoning_text", "summary_text":
		return session.Text{Text: p.Text}
	case "input_image":
		url, ok := rawjson.String(p.ImageURL)
		if !ok {
			url = p.FileID
		}
		return session.Image{URL: url, MediaType: mediaType(url), Detail: p.Detail, Raw: raw}
	case "input_file":
		f := session.File{Name: p.Filename, URL: p.FileURL, MediaType: mediaType(p.FileData), Raw: raw}
		if f.URL == "" {
			f.URL = p.FileID
		}
		if _, data, ok := strings.Cut(p.FileData, ";base64,"); ok {
			f.URL, f.Bytes = p.FileData, len(data)/4*3
		}
		return f
	}
	kind := p.Type
	if kind == "" {
		kind = "invalid"
	}
	return session.Opaque{Kind: kind, Raw: raw}
}

// mediaType is that of a data URL; empty for another one.
func mediaType(url string) string {
	head, _, ok := strings.Cut(url, ";base64,")
	media, isData := strings.CutPrefix(head, "data:")
	if !ok || !isData {
		return ""
	}
	return media
}

func lenient(err error) bool {
	var wrong *json.UnmarshalTypeError
	return err == nil || errors.As(err, &wrong)
}
