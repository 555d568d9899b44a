package casetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// chatCall is a tool call in chat-completions shape.
type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function *struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Custom *struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
}

func (c chatCall) name() string {
	switch {
	case c.Function != nil:
		return c.Function.Name
	case c.Custom != nil:
		return c.Custom.Name
	}
	return ""
}

func (c chatCall) arguments() string {
	switch {
	case c.Function != nil:
		return c.Function.Arguments
	case c.Custom != nil:
		return c.Custom.Input
	}
	return ""
}

// chatMessage is a message in chat-completions shape.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCalls  []chatCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`

	ReasoningContent json.RawMessage `json:"reasoning_content"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ID               string          `json:"id"`

	raw json.RawMessage
}

// chatRequest is the body of a chat-completions request.
type chatRequest struct {
	Messages            []chatMessage     `json:"-"`
	Tools               []json.RawMessage `json:"tools"`
	MaxTokens           *int              `json:"max_tokens"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`

	body []byte
}

func parseRequest(body []byte) (*chatRequest, error) {
	r := &chatRequest{body: body}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, err
	}
	var list struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	for i, raw := range list.Messages {
		m, err := parseChat(raw)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		r.Messages = append(r.Messages, m)
	}
	return r, nil
}

func parseChat(raw json.RawMessage) (chatMessage, error) {
	m := chatMessage{raw: raw}
	err := json.Unmarshal(raw, &m)
	return m, err
}

// checkMessage refuses fields of a message that the language does not have.
func checkMessage(raw json.RawMessage) error {
	var m chatMessage
	if err := strict(raw, &m); err != nil {
		return err
	}
	for _, c := range m.ToolCalls {
		if c.ID == "" || (c.Type == "function") != (c.Function != nil) || (c.Type == "custom") != (c.Custom != nil) || c.name() == "" {
			return fmt.Errorf("a tool call has no id, no type or no name")
		}
	}
	switch m.Role {
	case "system", "developer", "user", "assistant", "tool":
	default:
		return fmt.Errorf("unknown role %q", m.Role)
	}
	if m.Content == nil && !bytes.Contains(raw, []byte(`"content"`)) {
		return fmt.Errorf("a message has no content")
	}
	if (m.Role == "tool") != (m.ToolCallID != "") {
		return fmt.Errorf("tool_call_id does not fit a %s message", m.Role)
	}
	var parts []struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		ImageURL *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if bytes.HasPrefix(m.Content, []byte("[")) {
		if err := strict(m.Content, &parts); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if (p.Type == "text") != (p.Text != nil) || (p.Type == "image_url") != (p.ImageURL != nil) || p.Text == nil && p.ImageURL == nil {
			return fmt.Errorf("a content part is neither text nor image_url")
		}
	}
	return nil
}

// part is one content part.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL *struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

// content returns the texts of the content and what else is in it.
func (m *chatMessage) content() (texts []string, others []part) {
	c := bytes.TrimSpace(m.Content)
	if len(c) == 0 || string(c) == "null" {
		return nil, nil
	}
	var s string
	if json.Unmarshal(c, &s) == nil {
		return []string{s}, nil
	}
	var parts []part
	if json.Unmarshal(c, &parts) != nil {
		return nil, nil
	}
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		} else {
			others = append(others, p)
		}
	}
	return texts, others
}

// texts returns everything that counts as text of the message: content,
// reasoning, names and arguments of calls.
func (m *chatMessage) texts() []string {
	out, _ := m.content()
	for _, raw := range []json.RawMessage{m.ReasoningContent, m.ReasoningDetails, m.Reasoning} {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			out = append(out, leaves(v, "")...)
		}
	}
	for _, c := range m.ToolCalls {
		out = append(out, c.name(), c.arguments())
	}
	return out
}

// leaves returns the strings in a JSON value that are content: not types, ids
// and the like.
func leaves(v any, key string) []string {
	var out []string
	switch v := v.(type) {
	case string:
		switch key {
		case "", "text", "summary", "thinking", "data", "encrypted", "content":
			out = append(out, v)
		}
	case []any:
		for _, x := range v {
			out = append(out, leaves(x, key)...)
		}
	case map[string]any:
		for k, x := range v {
			out = append(out, leaves(x, k)...)
		}
	}
	return out
}

const pictureTokens = 1500

// tokens is the reference estimate of one message: a token for four bytes of
// text, rounded up, and 1,500 for a picture.
func (m *chatMessage) tokens() int {
	n := 0
	for _, s := range m.texts() {
		n += len(s)
	}
	_, others := m.content()
	pictures := 0
	for _, p := range others {
		if p.Type == "image_url" {
			pictures++
		}
	}
	return (n+3)/4 + pictures*pictureTokens
}

// tokens is the reference estimate of a request.
func (r *chatRequest) tokens() int {
	n := 0
	for i := range r.Messages {
		n += r.Messages[i].tokens()
	}
	for _, t := range r.Tools {
		n += (len(t) + 3) / 4
	}
	return n
}

// text is the text of a request, decoded from JSON.
func (r *chatRequest) text() string {
	var out []string
	for i := range r.Messages {
		out = append(out, r.Messages[i].texts()...)
	}
	return strings.Join(out, "\n")
}

// roleTexts is the text of the messages of a request that have one of the
// roles.
func (r *chatRequest) roleTexts(roles ...string) string {
	var out []string
	for i := range r.Messages {
		for _, role := range roles {
			if r.Messages[i].Role == role {
				out = append(out, r.Messages[i].texts()...)
			}
		}
	}
	return strings.Join(out, "\n")
}

// key identifies a message by role, content, calls and extra fields, whatever
// the form of its JSON.
func (m *chatMessage) key() string {
	k := struct {
		Role, ID, Call string
		Texts          []string
		Others         []part
		Calls          [][3]string
		Reasoning      []any
	}{Role: m.Role, Call: m.ToolCallID}
	k.Texts, k.Others = m.content()
	for _, c := range m.ToolCalls {
		k.Calls = append(k.Calls, [3]string{c.ID, c.name(), c.arguments()})
	}
	for _, raw := range []json.RawMessage{m.ReasoningContent, m.ReasoningDetails, m.Reasoning} {
		var v any
		_ = json.Unmarshal(raw, &v)
		k.Reasoning = append(k.Reasoning, v)
	}
	b, _ := json.Marshal(k)
	return string(b)
}

// limit is the reply limit that a request asks for; ok is false when there is
// none.
func (r *chatRequest) limit() (n int, ok bool) {
	switch {
	case r.MaxTokens != nil:
		return *r.MaxTokens, true
	case r.MaxCompletionTokens != nil:
		return *r.MaxCompletionTokens, true
	}
	return 0, false
}
