package anthropicmessages

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// Checks adds rules that do not hold for every request.
type Checks struct {
	// ModelCall: the last message is the user's.
	ModelCall bool
	// Alternation: neighbors have different roles. The provider merges those
	// that have not.
	Alternation bool
}

// Validate checks a request body for what the provider refuses: shape, the
// first message, the pairing of calls with the results in the next message and
// first in it, ids and names, empty content, results of failed calls without
// text, thinking without a signature or missing where the request has it
// enabled, results of server tools apart from their call, UTF-8. It is nil for a valid one, takes any bytes, and reports in order.
func Validate(body []byte) []wire.Violation { return ValidateWith(body, Checks{}) }

// ValidateWith checks as [Validate] does, and what checks adds.
func ValidateWith(body []byte, checks Checks) []wire.Violation {
	c := &checker{Checker: turns.NewChecker()}
	o, list, ok := c.Body(body, "messages")
	if !ok {
		return c.Out
	}
	c.head(o)
	before := ""
	for i, raw := range list {
		c.At = i
		c.first = ""
		role := c.message(raw, i == len(list)-1)
		if role == "assistant" {
			c.begins, c.model = c.first, i
		}
		if i == 0 && role != "user" {
			c.Bad(wire.RuleOrder, "", "the first message is of role %q; it must be the user's", role)
		}
		if checks.Alternation && role == before {
			c.Bad(wire.RuleOrder, "", "two messages of role %s in a row", role)
		}
		before = role
	}
	if len(list) > 0 {
		c.At = len(list)
		c.settle(nil)
		// Behind results the model goes on with the turn that it thought in.
		if c.thinks && c.answered && c.begins != "thinking" && c.begins != "redacted_thinking" {
			c.At = c.model
			c.Bad(wire.RuleReasoning, "", "thinking is enabled, but the message whose calls are answered at the end begins with %s", c.begins)
		}
		if c.At = len(list) - 1; checks.ModelCall && before != "user" {
			c.Bad(wire.RuleOrder, "", "the last message is of role %s", before)
		}
	}
	return c.Out
}

type checker struct {
	*turns.Checker
	open []string // calls of the message before
	// thinks: the request enables thinking. first is the type of the first block
	// of the message, begins that of the model's last message, which is number
	// model. answered: the last message holds results.
	thinks        bool
	first, begins string
	model         int
	answered      bool
}

func (c *checker) head(o rawjson.Object) {
	for _, f := range o {
		if f.Name != "messages" {
			c.UTF8(f.Value)
		}
	}
	if s, ok := rawjson.String(o.Get("model")); o.Get("model") != nil && (!ok || s == "") {
		c.Bad(wire.RuleShape, "", "model is not the name of one")
	}
	if rawjson.Kind(o.Get("max_tokens")) != '0' {
		c.Bad(wire.RuleShape, "", "max_tokens is missing")
	}
	var thinking struct {
		Type   string `json:"type"`
		Budget *int   `json:"budget_tokens"`
	}
	_ = json.Unmarshal(o.Get("thinking"), &thinking) // what does not fit is off
	c.thinks = thinking.Type == "enabled"
	if limit := 0; c.thinks && thinking.Budget != nil && json.Unmarshal(o.Get("max_tokens"), &limit) == nil && (*thinking.Budget < 1024 || *thinking.Budget >= limit) {
		c.Bad(wire.RuleShape, "", "the budget for thinking is %d tokens; it must be at least 1024 and less than max_tokens", *thinking.Budget)
	}
	if sys := o.Get("system"); sys != nil {
		list, isList := rawjson.Elements(sys)
		if _, ok := rawjson.String(sys); !ok && !isList {
			c.Bad(wire.RuleShape, "", "system is %s; expected a string or a list of text blocks", splice.TypeName(sys))
		}
		for _, b := range list {
			var t struct{ Type, Text string }
			if json.Unmarshal(b, &t) != nil || t.Type != "text" || strings.TrimSpace(t.Text) == "" {
				c.Bad(wire.RuleEmpty, "", "a system block has no text")
			}
		}
	}
	names := map[string]bool{}
	tools, _ := rawjson.Elements(o.Get("tools"))
	for _, raw := range tools {
		t, _ := rawjson.Parse(raw)
		name, _ := rawjson.String(t.Get("name"))
		typ, _ := rawjson.String(t.Get("type"))
		switch {
		case !validName(name) || len(name) > maxName:
			c.Bad(wire.RuleName, "", "the tool name %q is not of 1 to %d letters, digits, _ and -", splice.Clip(name, 40), maxName)
		case names[name]:
			c.Bad(wire.RuleName, "", "two tools have the name %q", name)
		}
		if names[name] = true; (typ == "" || typ == "custom") && rawjson.Kind(t.Get("input_schema")) != '{' {
			c.Bad(wire.RuleShape, "", "the tool %q has no input_schema", splice.Clip(name, 40))
		}
	}
}

// settle compares the results of a user message with the open calls.
func (c *checker) settle(results []string) {
	for _, id := range c.open {
		if !slices.Contains(results, id) {
			c.Bad(wire.RulePairing, id, "the call has no result in the message behind it")
		}
	}
	seen := map[string]bool{}
	for _, id := range results {
		switch {
		case !slices.Contains(c.open, id):
			c.Bad(wire.RulePairing, id, "no call of the message before it has this id")
		case seen[id]:
			c.Bad(wire.RulePairing, id, "the call has two results")
		}
		seen[id] = true
	}
	c.open = nil
}

func (c *checker) message(raw json.RawMessage, last bool) string {
	c.UTF8(raw)
	o, err := rawjson.Parse(raw)
	if err != nil {
		c.settle(nil)
		c.Bad(wire.RuleShape, "", "the message is no object")
		return ""
	}
	role, _ := rawjson.String(o.Get("role"))
	if role != "user" && role != "assistant" {
		c.Bad(wire.RuleOrder, "", "the role is %q; expected user or assistant (system text goes beside the messages)", splice.Clip(role, 40))
	}
	content := o.Get("content")
	c.answered = false
	if s, ok := rawjson.String(content); ok {
		c.settle(nil)
		c.first = "text"
		if strings.TrimSpace(s) == "" && !(last && role == "assistant") {
			c.Bad(wire.RuleEmpty, "", "the content is empty")
		}
		return role
	}
	list, ok := rawjson.Elements(content)
	if !ok {
		c.settle(nil)
		c.Bad(wire.RuleShape, "", "the content is %s; expected a string or a list of blocks", splice.TypeName(content))
		return role
	}
	if len(list) == 0 {
		c.Bad(wire.RuleEmpty, "", "the message has no block")
	}
	var results, calls, server []string
	other := false
	for i, b := range list {
		kind, id := c.block(b, role, i)
		if i == 0 {
			c.first = kind
		}
		switch {
		case kind == "server_tool_use" || kind == "mcp_tool_use":
			server = append(server, id)
		case strings.HasSuffix(kind, "_tool_result"):
			if k := slices.Index(server, id); k >= 0 {
				server = slices.Delete(server, k, k+1)
			} else {
				c.Bad(wire.RulePairing, id, "%s answers no call of a server tool before it in the message", kind)
			}
		}
		switch kind {
		case "tool_result":
			if other {
				c.Bad(wire.RulePairing, id, "a result stands behind other blocks; results come first")
			}
			results = append(results, id)
		case "tool_use":
			calls = append(calls, id)
		default:
			other = other || role == "user"
		}
	}
	for _, id := range server {
		if !last {
			c.Bad(wire.RulePairing, id, "the call of a server tool has no result in its message")
		}
	}
	c.settle(results)
	c.open, c.answered = calls, len(results) > 0
	return role
}

type checkedBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	ID        *string         `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID *string         `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	Thinking  *string         `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	IsError   bool            `json:"is_error"`
}

// block checks one block of a message and returns its type and call id.
func (c *checker) block(raw json.RawMessage, role string, i int) (kind, id string) {
	var b checkedBlock
	if rawjson.Kind(raw) != '{' || json.Unmarshal(raw, &b) != nil || b.Type == "" {
		c.Bad(wire.RuleShape, "", "block %d has no type, or fields of other types", i)
		return "", ""
	}
	belongs := func(to string) {
		if role != to {
			c.Bad(wire.RuleOrder, "", "block %d is %s in a message of role %s", i, b.Type, role)
		}
	}
	switch b.Type {
	case "text":
		if b.Text == nil || strings.TrimSpace(*b.Text) == "" {
			c.Bad(wire.RuleEmpty, "", "block %d has no text", i)
		}
	case "image", "document":
		belongs("user")
		if !validSource(raw) {
			c.Bad(wire.RuleShape, "", "block %d has no source that the provider takes", i)
		}
	case "thinking":
		belongs("assistant")
		if b.Thinking == nil || b.Signature == "" {
			c.Bad(wire.RuleReasoning, "", "block %d is thinking without its signature", i)
		}
	case "redacted_thinking":
		belongs("assistant")
		if b.Data == "" {
			c.Bad(wire.RuleReasoning, "", "block %d is redacted thinking without its data", i)
		}
	case "tool_use":
		belongs("assistant")
		if b.ID != nil {
			id = *b.ID
		}
		c.Call(id, validID(id))
		if !validName(b.Name) || len(b.Name) > maxName {
			c.Bad(wire.RuleName, id, "the tool name %q is not of 1 to %d letters, digits, _ and -", splice.Clip(b.Name, 40), maxName)
		}
		if rawjson.Kind(b.Input) != '{' {
			c.Bad(wire.RuleShape, id, "the input is %s; expected an object", splice.TypeName(b.Input))
		}
	case "server_tool_use", "mcp_tool_use":
		belongs("assistant")
		if b.ID != nil {
			id = *b.ID
		}
	case "tool_result":
		belongs("user")
		if b.ToolUseID != nil {
			id = *b.ToolUseID
		}
		list, isList := rawjson.Elements(b.Content)
		text, isText := rawjson.String(b.Content)
		if b.IsError && strings.TrimSpace(text) == "" && len(list) == 0 {
			c.Bad(wire.RuleEmpty, id, "the result of a failed call has no content")
		}
		if ok := isText; b.Content != nil && !ok && !isList {
			c.Bad(wire.RuleShape, id, "the content of a result is %s; expected a string or a list of blocks", splice.TypeName(b.Content))
		}
		for _, sub := range list {
			var s checkedBlock
			_ = json.Unmarshal(sub, &s) // checked below
			if b.IsError && s.Type != "text" {
				c.Bad(wire.RuleShape, id, "the result of a failed call holds %q; expected text only", splice.Clip(s.Type, 40))
			}
			switch s.Type {
			case "text":
				if s.Text == nil || *s.Text == "" {
					c.Bad(wire.RuleEmpty, id, "a result has a text block without text")
				}
			case "image", "document":
				if !validSource(sub) {
					c.Bad(wire.RuleShape, id, "a result has an image without a source that the provider takes")
				}
			case "search_result", "tool_reference":
			default:
				c.Bad(wire.RuleShape, id, "a result holds %q", splice.Clip(s.Type, 40))
			}
		}
	}
	if strings.HasSuffix(b.Type, "_tool_result") && b.ToolUseID != nil {
		id = *b.ToolUseID
	}
	return b.Type, id
}

// validSource reports whether an image or document has a source that the
// provider takes.
func validSource(raw json.RawMessage) bool {
	var b struct {
		Type   string `json:"type"`
		Source struct {
			Type      string          `json:"type"`
			MediaType string          `json:"media_type"`
			Data      string          `json:"data"`
			URL       string          `json:"url"`
			FileID    string          `json:"file_id"`
			Content   json.RawMessage `json:"content"`
		} `json:"source"`
	}
	if json.Unmarshal(raw, &b) != nil {
		return false
	}
	s := b.Source
	switch s.Type {
	case "base64":
		if b.Type == "image" && !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, s.MediaType) {
			return false
		}
		return s.MediaType != "" && s.Data != "" && (b.Type == "image" || s.MediaType == "application/pdf")
	case "text":
		return b.Type == "document" && s.Data != ""
	case "url":
		return strings.HasPrefix(s.URL, "https://") || strings.HasPrefix(s.URL, "http://")
	case "file":
		return s.FileID != ""
	case "content":
		return b.Type == "document" && s.Content != nil
	}
	return false
}
