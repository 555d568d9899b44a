package openairesponses

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// Checks adds rules that do not hold for every request.
type Checks struct {
	// ModelCall: the last item is a message of the user or an output.
	ModelCall bool
	// UserFirst: the first item behind system and developer messages is a
	// message of the user. The provider does not ask for it.
	UserFirst bool
}

// Validate checks a request body for what the provider refuses: shape, calls
// without an output and outputs without a call, ids of calls and of items,
// names, empty content, reasoning without the item that it belongs to, UTF-8.
// Outputs may stand anywhere behind their call. It is nil for a valid one, takes
// any bytes, and reports in order.
func Validate(body []byte) []wire.Violation { return ValidateWith(body, Checks{}) }

// ValidateWith checks as [Validate] does, and what checks adds.
func ValidateWith(body []byte, checks Checks) []wire.Violation {
	c := &checker{Checker: turns.NewChecker(), open: map[string]int{}, done: map[string]bool{}, items: map[string]bool{}}
	o, list, ok := c.Body(withList(body), "input")
	if !ok {
		return c.Out
	}
	c.stored = o.Get("previous_response_id") != nil || o.Get("conversation") != nil
	c.head(o)
	lead := true
	last := ""
	for i, raw := range list {
		c.At = i
		last = c.item(raw)
		if lead && last != "lead" {
			if lead = false; checks.UserFirst && last != "user" {
				c.Bad(wire.RuleOrder, "", "the first item is not a message of the user")
			}
		}
	}
	c.reasoning("")
	for _, id := range c.order {
		if at, ok := c.open[id]; ok {
			c.At = at
			c.Bad(wire.RulePairing, id, "the call has no output")
		}
	}
	if c.At = len(list) - 1; checks.ModelCall && last != "user" && last != "output" {
		c.Bad(wire.RuleOrder, "", "the last item is the model's")
	}
	return c.Out
}

// withList makes the one item of an input that is a text.
func withList(body []byte) []byte {
	o, err := rawjson.Parse(body)
	if err != nil {
		return body
	}
	if rawjson.Kind(o.Get("input")) == '"' {
		m := rawjson.Object{}
		m.Set("role", "user")
		m.Set("content", o.Get("input"))
		o.Set("input", []rawjson.Object{m})
		return o.Bytes()
	}
	return body
}

type checker struct {
	*turns.Checker
	open    map[string]int // calls without an output, with their index
	order   []string
	done    map[string]bool
	pending int             // index of reasoning without its item, from 1; 0 for none
	items   map[string]bool // ids of items
	stored  bool
}

func (c *checker) head(o rawjson.Object) {
	for _, f := range o {
		if f.Name != "input" {
			c.UTF8(f.Value)
		}
	}
	if s, ok := rawjson.String(o.Get("model")); o.Get("model") != nil && (!ok || s == "") {
		c.Bad(wire.RuleShape, "", "model is not the name of one")
	}
	tools, _ := rawjson.Elements(o.Get("tools"))
	for i, raw := range tools {
		var t struct{ Type, Name string }
		if json.Unmarshal(raw, &t) != nil || t.Type == "" {
			c.Bad(wire.RuleShape, "", "tool %d has no type", i)
		} else if (t.Type == "function" || t.Type == "custom") && (!validName(t.Name) || len(t.Name) > maxName) {
			c.Bad(wire.RuleName, "", "the tool name %q is not of 1 to %d letters, digits, _ and -", splice.Clip(t.Name, 40), maxName)
		}
	}
}

// reasoning closes reasoning that waits for its item; by is the kind of item
// that comes.
func (c *checker) reasoning(by string) {
	if c.pending > 0 && by != "assistant" && by != "call" && by != "reasoning" {
		at := c.At
		c.At = c.pending - 1
		c.Bad(wire.RuleReasoning, "", "the reasoning stands without the item that it belongs to")
		c.At = at
	}
	c.pending = 0
}

// item checks one item and returns what it is: user, assistant, lead (system
// and developer), call, output, reasoning, other.
func (c *checker) item(raw json.RawMessage) string {
	c.UTF8(raw)
	it, ok := responses.Decode(raw)
	if !ok {
		c.Bad(wire.RuleShape, "", "the item is no object, or has neither type nor role")
		return "other"
	}
	var j struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		CallID    *string         `json:"call_id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Input     json.RawMessage `json:"input"`
		Output    json.RawMessage `json:"output"`
		ID        string          `json:"id"`
		Encrypted string          `json:"encrypted_content"`
		Summary   json.RawMessage `json:"summary"`
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		c.Bad(wire.RuleShape, "", "a field has another type than it should: %v", err)
	}
	id := ""
	if j.CallID != nil {
		id = *j.CallID
	}
	if j.ID != "" {
		if !validItemID(it.Type, j.ID) {
			c.Bad(wire.RuleCallID, j.ID, "the provider does not take this as the id of an item of type %s", it.Type)
		}
		if c.items[j.ID] {
			c.Bad(wire.RuleUniqueID, j.ID, "two items have this id")
		}
		c.items[j.ID] = true
	}
	for _, f := range unknownFields(it.Type, raw) {
		c.Bad(wire.RuleShape, id, "an item of type %s has no field %q", it.Type, splice.Clip(f, 40))
	}
	kind := ""
	switch it.Type {
	case responses.TypeMessage:
		switch kind = j.Role; j.Role {
		case "user", "assistant":
		case "system", "developer":
			kind = "lead"
		default:
			c.Bad(wire.RuleOrder, "", "unknown role %q", splice.Clip(j.Role, 40))
		}
		c.reasoning(kind)
		c.content(j.Content, j.Role)
		return kind
	case responses.TypeReasoning:
		c.reasoning("reasoning")
		c.pending = c.At + 1
		if j.Encrypted == "" && j.ID == "" {
			c.Bad(wire.RuleReasoning, "", "the reasoning has neither an id nor its encrypted content")
		}
		if rawjson.Kind(j.Summary) != '[' {
			c.Bad(wire.RuleShape, "", "the reasoning has no summary list")
		}
		return "reasoning"
	case "function_call", "custom_tool_call":
		c.reasoning("call")
		c.Call(id, validID(id))
		if !validName(j.Name) || len(j.Name) > 128 {
			c.Bad(wire.RuleName, id, "the tool name %q is not of letters, digits, _ and -", splice.Clip(j.Name, 40))
		}
		args := j.Arguments
		if it.Type == "custom_tool_call" {
			args = j.Input
		}
		if _, ok := rawjson.String(args); !ok {
			c.Bad(wire.RuleShape, id, "the arguments are %s; expected a string", splice.TypeName(args))
		}
		c.open[id] = c.At
		c.order = append(c.order, id)
		return "call"
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "computer_call_output", "shell_call_output", "apply_patch_call_output":
		c.reasoning("output")
		_, open := c.open[id]
		switch {
		case c.done[id] && !open:
			c.Bad(wire.RulePairing, id, "the call has an output already")
		case !open && !c.stored:
			c.Bad(wire.RulePairing, id, "no call before it has this id")
		}
		delete(c.open, id)
		if c.done[id] = true; j.Output == nil {
			c.Bad(wire.RuleShape, id, "the output is missing")
		}
		return "output"
	}
	for _, p := range it.Parts { // other calls that wait for an output
		if _, ok := rawCall(p); ok && id != "" {
			c.Call(id, validID(id))
			c.open[id] = c.At
			c.order = append(c.order, id)
		}
	}
	c.reasoning("call")
	return "other"
}

// itemFields are the fields of items whose other fields the provider refuses.
var itemFields = map[string][]string{
	responses.TypeReasoning:   {"type", "id", "summary", "content", "encrypted_content"},
	"function_call_output":    {"type", "id", "call_id", "output", "status"},
	"custom_tool_call_output": {"type", "id", "call_id", "output"},
}

// unknownFields are those that the provider refuses in an item of the type.
func unknownFields(kind string, raw json.RawMessage) (out []string) {
	known := itemFields[kind]
	o, _ := rawjson.Parse(raw) // looked at before
	for _, f := range o {
		if known != nil && !slices.Contains(known, f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// itemPrefixes begin the ids of items of these types.
var itemPrefixes = map[string]string{responses.TypeMessage: "msg", responses.TypeReasoning: "rs", "function_call": "fc", "custom_tool_call": "ctc",
	"function_call_output": "fc", "custom_tool_call_output": "ctc"}

// validItemID reports whether an item of the type may have the id.
func validItemID(kind, id string) bool {
	return len(id) <= maxID && turns.Alphabet(id, "_-") && strings.HasPrefix(id, itemPrefixes[kind])
}

func (c *checker) content(raw json.RawMessage, role string) {
	if s, ok := rawjson.String(raw); ok {
		if s == "" {
			c.Bad(wire.RuleEmpty, "", "the message is empty")
		}
		return
	}
	list, ok := rawjson.Elements(raw)
	if !ok || len(list) == 0 {
		c.Bad(wire.RuleEmpty, "", "the message has no content")
		return
	}
	for i, p := range list {
		var b struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		_ = json.Unmarshal(p, &b) // what does not fit has no type
		switch b.Type {
		case "input_text", "input_image", "input_file", "input_audio":
			if role == "assistant" {
				c.Bad(wire.RuleShape, "", "part %d is %s in a message of the model", i, b.Type)
			}
		case "output_text", "refusal":
			if role != "assistant" {
				c.Bad(wire.RuleShape, "", "part %d is %s in a message of role %s", i, b.Type, role)
			}
		default:
			c.Bad(wire.RuleShape, "", "part %d is of type %q", i, splice.Clip(b.Type, 40))
		}
		if (b.Type == "input_text" || b.Type == "output_text") && b.Text == nil {
			c.Bad(wire.RuleShape, "", "part %d has no text", i)
		}
	}
}

func rawCall(p any) (json.RawMessage, bool) {
	call, ok := p.(session.ToolCall)
	return call.Raw, ok
}
