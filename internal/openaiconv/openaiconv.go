// Package openaiconv converts [session.Message] to and from the chat types of
// go-openai.
//
// The types of go-openai have no place for everything: custom (free-text) tool
// calls, files, opaque items and provider extras are not among them. What
// cannot be said in them is an error that wraps [ErrUnsupported], never a
// silent loss; reasoning and pictures are left to [Options].
package openaiconv

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/session"
)

// ErrUnsupported is wrapped by the errors for what go-openai's types cannot
// carry.
var ErrUnsupported = errors.New("not representable in go-openai's chat types")

// Abandoned is the text of the result that a request gets for a call that was
// never answered.
const Abandoned = "[no result: the call was interrupted]"

// Options say what becomes of the things that can be said in more than one
// way. The zero value drops reasoning and sends pictures as they are.
type Options struct {
	// Reasoning sends the text of reasoning as reasoning_content.
	Reasoning bool
	// Picture, when not nil, is asked for each picture: the text that stands for
	// it, or "" to send the picture.
	Picture func(session.Image) string
	// EmptyResult stands for an empty tool result. go-openai leaves empty content
	// out, which providers refuse in a tool message.
	EmptyResult string
}

// Describe returns a short reference to a picture or a file, without its
// content.
func Describe(p session.Part) string {
	var kind, name, media, url string
	var size string
	switch p := p.(type) {
	case session.Image:
		kind, media, url = "image", p.MediaType, p.URL
		if p.Width > 0 && p.Height > 0 {
			size = fmt.Sprintf("%dx%d", p.Width, p.Height)
		}
	case session.File:
		kind, name, media, url = "file", p.Name, p.MediaType, p.URL
		if p.Bytes > 0 {
			size = fmt.Sprintf("%d bytes", p.Bytes)
		}
	default:
		return ""
	}
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		head, _, _ := strings.Cut(rest, ",")
		if head, _, _ = strings.Cut(head, ";"); media == "" {
			media = head
		}
		url = "inline"
	}
	if len(url) > 200 {
		url = strings.ToValidUTF8(url[:200], "") + "…"
	}
	words := []string{kind}
	for _, w := range []string{name, media, size, url} {
		if w != "" {
			words = append(words, w)
		}
	}
	return "[" + strings.Join(words, " ") + "]"
}

// To returns the chat messages of one message: one, or as many as a tool
// message has results. An empty slice means that nothing is left to send.
func To(m *session.Message, o Options) ([]openai.ChatCompletionMessage, error) {
	if m.Role == session.RoleTool {
		return toolMessages(m, o)
	}
	out := openai.ChatCompletionMessage{Role: string(m.Role), Name: m.Name}
	var parts []openai.ChatMessagePart
	pictures := false
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Text:
			if p.Text != "" {
				parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: p.Text})
			}
		case session.Image:
			part, isText := picture(p, o)
			if part.ImageURL != nil && part.ImageURL.URL == "" {
				return nil, fmt.Errorf("%w: a picture without a URL", ErrUnsupported)
			}
			parts, pictures = append(parts, part), pictures || !isText
		case session.Reasoning:
			if o.Reasoning {
				out.ReasoningContent += p.Text
			}
		case session.ToolCall:
			if p.Custom {
				return nil, fmt.Errorf("%w: custom tool call %q", ErrUnsupported, p.Name)
			}
			out.ToolCalls = append(out.ToolCalls, openai.ToolCall{
				ID: p.ID, Type: openai.ToolTypeFunction,
				Function: openai.FunctionCall{Name: p.Name, Arguments: p.Arguments},
			})
		default:
			return nil, fmt.Errorf("%w: %T in a %s message", ErrUnsupported, p, m.Role)
		}
	}
	switch {
	case len(parts) == 1 && !pictures:
		out.Content = parts[0].Text
	case len(parts) > 0:
		out.MultiContent = parts
	case len(out.ToolCalls) == 0 && out.ReasoningContent == "":
		return nil, nil
	}
	return []openai.ChatCompletionMessage{out}, nil
}

func picture(p session.Image, o Options) (part openai.ChatMessagePart, isText bool) {
	if o.Picture != nil {
		if s := o.Picture(p); s != "" {
			return openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: s}, true
		}
	}
	return openai.ChatMessagePart{Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{
		URL: p.URL, Detail: openai.ImageURLDetail(p.Detail),
	}}, false
}

func toolMessages(m *session.Message, o Options) ([]openai.ChatCompletionMessage, error) {
	var out []openai.ChatCompletionMessage
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			return nil, fmt.Errorf("%w: %T in a tool message", ErrUnsupported, p)
		}
		var texts []string
		for _, q := range r.Parts {
			switch q := q.(type) {
			case session.Text:
				texts = append(texts, q.Text)
			case session.Image:
				// A tool message of the chat API holds text only.
				s := ""
				if o.Picture != nil {
					s = o.Picture(q)
				}
				if s == "" {
					return nil, fmt.Errorf("%w: a picture in a tool result", ErrUnsupported)
				}
				texts = append(texts, s)
			default:
				return nil, fmt.Errorf("%w: %T in a tool result", ErrUnsupported, q)
			}
		}
		t := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, Name: m.Name, ToolCallID: r.CallID}
		switch t.Content = strings.Join(texts, "\n"); {
		case t.Content == "":
			t.Content = o.EmptyResult
		}
		out = append(out, t)
	}
	return out, nil
}

// From returns the message that a chat message means. The source follows from
// the role: user, model and tool; system and developer messages come from the
// plugin "host".
func From(m openai.ChatCompletionMessage) (session.Message, error) {
	out := session.Message{Role: session.Role(m.Role), Name: m.Name}
	switch out.Role {
	case session.RoleUser:
		out.Source.Kind = session.SourceUser
	case session.RoleAssistant:
		out.Source.Kind = session.SourceModel
	case session.RoleTool:
		out.Source.Kind = session.SourceTool
	case session.RoleSystem, session.RoleDeveloper:
		out.Source = session.Source{Kind: session.SourcePlugin, Plugin: "host"}
	default:
		return session.Message{}, fmt.Errorf("%w: role %q", ErrUnsupported, m.Role)
	}
	if m.FunctionCall != nil {
		return session.Message{}, fmt.Errorf("%w: function_call, which tool_calls replaced", ErrUnsupported)
	}
	if m.ReasoningContent != "" {
		out.Parts = append(out.Parts, session.Reasoning{Text: m.ReasoningContent})
	}
	var content []session.Part
	if m.Content != "" {
		content = append(content, session.Text{Text: m.Content})
	}
	for _, p := range m.MultiContent {
		switch {
		case p.Type == openai.ChatMessagePartTypeText:
			content = append(content, session.Text{Text: p.Text})
		case p.ImageURL != nil:
			content = append(content, session.Image{URL: p.ImageURL.URL, Detail: string(p.ImageURL.Detail)})
		default:
			return session.Message{}, fmt.Errorf("%w: content part %q", ErrUnsupported, p.Type)
		}
	}
	if out.Role == session.RoleTool {
		out.Parts = append(out.Parts, session.ToolResult{CallID: m.ToolCallID, Parts: content})
		return out, nil
	}
	out.Parts = append(out.Parts, content...)
	for _, c := range m.ToolCalls {
		if c.Type != openai.ToolTypeFunction && c.Type != "" {
			return session.Message{}, fmt.Errorf("%w: tool call of type %q", ErrUnsupported, c.Type)
		}
		out.Parts = append(out.Parts, session.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	if m.Refusal != "" {
		raw, err := json.Marshal(m.Refusal)
		if err != nil {
			return session.Message{}, err
		}
		out.Extra = map[string]json.RawMessage{"refusal": raw}
	}
	return out, nil
}

var noParameters = json.RawMessage(`{"type":"object","properties":{}}`)

// Tools returns the definitions of function tools.
func Tools(tools []session.Tool) ([]openai.Tool, error) {
	var out []openai.Tool
	for _, t := range tools {
		f := &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: noParameters}
		if len(t.Schema) > 0 {
			f.Parameters = t.Schema
		}
		if len(t.Raw) > 0 {
			var raw struct {
				Type     string `json:"type"`
				Function struct {
					Strict bool `json:"strict"`
				} `json:"function"`
			}
			if err := json.Unmarshal(t.Raw, &raw); err == nil {
				if raw.Type != "" && raw.Type != string(openai.ToolTypeFunction) {
					return nil, fmt.Errorf("%w: tool %q of type %q", ErrUnsupported, t.Name, raw.Type)
				}
				f.Strict = raw.Function.Strict
			}
		}
		if f.Name == "" {
			return nil, fmt.Errorf("%w: a tool without a name", ErrUnsupported)
		}
		out = append(out, openai.Tool{Type: openai.ToolTypeFunction, Function: f})
	}
	return out, nil
}
