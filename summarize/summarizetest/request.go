package summarizetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Request is one recorded request. It is a copy: the caller may change it.
type Request struct {
	// Index counts arrivals from 0. A request arrives when its body has been read.
	Index int
	// At is the time of arrival.
	At time.Time
	// Method, Path, Query and Header are as sent.
	Method, Path, Query string
	Header              http.Header
	// Body is the raw body.
	Body []byte
	// BodyErr is set if the body could not be read to its end; Body is then what came.
	BodyErr error
	// Reply is the index in the script of the reply that answers it. It is -1 for a request that uses
	// none: over the window, a list of models, an unknown path, a body that broke off.
	Reply int
	// OverWindow is set if the request was refused for its size.
	OverWindow bool
}

// Chat is the part of a chat-completion request that tests look at. Decode into a type of your own for
// the rest.
type Chat struct {
	Model               string            `json:"model"`
	Messages            []Message         `json:"messages"`
	Tools               []json.RawMessage `json:"tools"`
	Stream              bool              `json:"stream"`
	StreamOptions       *StreamOptions    `json:"stream_options"`
	MaxTokens           int               `json:"max_tokens"`
	MaxCompletionTokens int               `json:"max_completion_tokens"`
}

// StreamOptions is the stream_options of a request.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Message is one message of a request.
type Message struct {
	Role string
	// Text is the content: the string, or the text parts one after another.
	Text string
	// Content is the content as sent: a string, an array of parts, null or nothing.
	Content json.RawMessage
	// Name, ToolCallID and ToolCalls are as sent.
	Name, ToolCallID string
	ToolCalls        []ToolCall
}

// UnmarshalJSON reads the message of a request.
func (m *Message) UnmarshalJSON(data []byte) error {
	var raw struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		Name       string          `json:"name"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*m = Message{Role: raw.Role, Content: raw.Content, Name: raw.Name, ToolCallID: raw.ToolCallID}
	for _, c := range raw.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{c.ID, c.Function.Name, c.Function.Arguments})
	}
	content := bytes.TrimSpace(raw.Content)
	switch {
	case len(content) == 0 || string(content) == "null":
		return nil
	case content[0] == '"':
		return json.Unmarshal(content, &m.Text)
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return fmt.Errorf("read content of %s message: %w", raw.Role, err)
	}
	var text strings.Builder
	for _, p := range parts {
		text.WriteString(p.Text)
	}
	m.Text = text.String()
	return nil
}

// Decode unmarshals the body into v.
func (r Request) Decode(v any) error {
	if err := json.Unmarshal(r.Body, v); err != nil {
		return fmt.Errorf("decode body of request %d: %w", r.Index, err)
	}
	return nil
}

// Chat decodes the body as a chat-completion request.
func (r Request) Chat() (Chat, error) {
	var c Chat
	err := r.Decode(&c)
	return c, err
}

func (r Request) clone() Request {
	r.Header = r.Header.Clone()
	r.Body = bytes.Clone(r.Body)
	return r
}
