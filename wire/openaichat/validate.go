package openaichat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// Rule names what a request must keep to.
type Rule = wire.Rule

// The rules.
const (
	// R1: a tool message answers a call of the nearest earlier assistant
	// message with calls, with only tool messages between.
	R1 Rule = "R1"
	// R2: each call is answered exactly once before the next message that is
	// no tool message.
	R2 Rule = "R2"
	// R3: call ids are unique within one message.
	R3 Rule = "R3"
	// R4: system and developer messages stand in the leading run only.
	R4 Rule = "R4"
	// R5: the first message after it is a user message.
	R5 Rule = "R5"
	// R6: when a model call follows, the last message is user or tool.
	R6 Rule = "R6"
	// R7: no message is empty: without text, parts and calls. An empty tool
	// result is allowed.
	R7 Rule = "R7"
	// R8: all strings are valid UTF-8, escapes included.
	R8 Rule = "R8"
	// Shape: fields are there and have their types.
	Shape Rule = "shape"
	// CallIDs: ids have 1 to 40 characters of letters, digits and _-.:|/+=
	CallIDs Rule = "call_id"
	// UniqueIDs: ids are unique in the whole request.
	UniqueIDs Rule = "unique_ids"
	// Names: tools and calls of them have names of 1 to 64 letters, digits, _
	// and -, and no two tools have one name.
	Names Rule = "name"
	// Alternation: neighbors have different roles, tool messages aside.
	Alternation Rule = "alternation"
)

// Violation is one breach of a rule.
type Violation = wire.Violation

// Checks adds rules that do not hold for every request.
type Checks struct {
	// ModelCall checks R6.
	ModelCall bool
	// StrictAlternation checks Alternation.
	StrictAlternation bool
	// UniqueIDs checks UniqueIDs.
	UniqueIDs bool
}

// Validate checks a request body: shape, call ids, and R1 to R8 without R6,
// which holds for requests that are about to be sent; see [ValidateWith]. It is
// nil for a valid one, takes any bytes, and reports in order of messages.
func Validate(body []byte) []Violation { return ValidateWith(body, Checks{}) }

// ValidateWith checks a request body as [Validate] does, and what checks adds.
func ValidateWith(body []byte, checks Checks) []Violation {
	c := &checker{checks: checks, at: -1, used: make(map[string]bool)}
	c.body(body)
	return c.out
}

type checker struct {
	checks Checks
	out    []Violation
	at     int             // message
	open   []string        // calls without a result, of the message before
	closed []string        // those with one
	used   map[string]bool // ids of the whole request
}

func (c *checker) bad(rule Rule, id, format string, args ...any) {
	c.out = append(c.out, Violation{Rule: rule, Message: c.at, CallID: id, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) body(body []byte) {
	if !json.Valid(body) {
		c.bad(Shape, "", "the body is not valid JSON")
		return
	}
	o, ok := parseObject(body)
	if !ok {
		c.bad(Shape, "", "the body is %s; expected an object", splice.TypeName(body[splice.Space(body, 0):]))
		return
	}
	list, ok := elements(o.get("messages"))
	if !ok {
		c.bad(Shape, "", "messages is %s; expected a list", splice.TypeName(o.get("messages")))
		return
	}
	if v := o.get("model"); v != nil {
		if s, ok := asString(v); !ok || s == "" {
			c.bad(Shape, "", "model is not the name of one")
		}
	}
	c.tools(o.get("tools"))
	for _, k := range []string{"tool_choice", "parallel_tool_calls"} {
		if o.get("tools") == nil && !isNull(o.get(k)) {
			c.bad(Shape, "", "%s is there without tools", k)
		}
	}
	for _, m := range o {
		if m.key != "messages" {
			c.utf8(m.val)
		}
	}
	lead, before := true, ""
	for i, raw := range list {
		c.at = i
		role := c.message(raw)
		system := role == "system" || role == "developer"
		switch {
		case system && !lead:
			c.bad(R4, "", "a %s message stands behind the leading ones", role)
		case !system && lead:
			lead = false
			if role != "user" {
				c.bad(R5, "", "the first message after the system messages is of role %s", role)
			}
		}
		if c.checks.StrictAlternation && role == before && role != "tool" {
			c.bad(Alternation, "", "two messages of role %s in a row", role)
		}
		before = role
	}
	c.at = len(list)
	c.close()
	switch {
	case lead:
		c.bad(R5, "", "there is no user message")
	case c.checks.ModelCall && before != "user" && before != "tool":
		c.at = len(list) - 1
		c.bad(R6, "", "the last message is of role %s", before)
	}
}

// close reports the calls that are open when their round ends.
func (c *checker) close() {
	for _, id := range c.open {
		c.bad(R2, id, "the call has no result before this message")
	}
	c.open, c.closed = nil, nil
}

func (c *checker) utf8(raw []byte) {
	if !utf8.Valid(raw) {
		c.bad(R8, "", "there are bytes that are not UTF-8")
	}
	if len(loneSurrogates(raw)) > 0 {
		c.bad(R8, "", "there is an escape of half a surrogate pair")
	}
}

// message checks one message and returns its role.
func (c *checker) message(raw json.RawMessage) string {
	c.utf8(raw)
	o, ok := parseObject(raw)
	if !ok {
		c.close()
		c.bad(Shape, "", "the message is %s; expected an object", splice.TypeName(raw))
		return ""
	}
	role, ok := o.str("role")
	if role != "tool" {
		c.close()
	}
	if !ok {
		c.bad(Shape, "", "the role is %s; expected a string", splice.TypeName(o.get("role")))
		return ""
	}
	if v := o.get("name"); v != nil {
		if s, ok := asString(v); !ok || !validName(s) {
			c.bad(Shape, "", "the name is none that providers take")
		}
	}
	empty := c.content(role, o)
	for _, key := range slices.Sorted(maps.Keys(fieldOwners)) {
		if owner := fieldOwners[key]; !isNull(o.get(key)) && role != string(owner) {
			c.bad(Shape, "", "a %s message has %s", role, key)
		}
	}
	switch role {
	case "system", "developer", "user":
		if empty {
			c.bad(R7, "", "the %s message is empty", role)
		}
	case "assistant":
		calls := c.calls(o.get("tool_calls"))
		if empty && !calls && isNull(o.get("refusal")) && isNull(o.get("audio")) {
			c.bad(R7, "", "the assistant message has no text and no calls")
		}
	case "tool":
		c.result(o)
	default:
		c.bad(Shape, "", "unknown role %q", splice.Clip(role, 40))
	}
	return role
}

// content checks the content and reports whether it is empty.
func (c *checker) content(role string, o object) bool {
	v := o.get("content")
	if v == nil {
		c.bad(Shape, "", "the key content is missing")
		return true
	}
	if isNull(v) {
		if role != "assistant" {
			c.bad(Shape, "", "the content of a %s message is null", role)
		}
		return true
	}
	if _, ok := asString(v); ok {
		return emptyContent(v)
	}
	list, ok := elements(v)
	if !ok {
		c.bad(Shape, "", "the content is %s; expected a string, null or a list of parts", splice.TypeName(v))
		return false
	}
	for i, p := range list {
		po, _ := parseObject(p)
		kind, ok := po.str("type")
		switch {
		case !ok || kind == "":
			c.bad(Shape, "", "content part %d has no type", i)
		case kind == "text":
			if _, ok := po.str("text"); !ok {
				c.bad(Shape, "", "content part %d has no text", i)
			}
		case kind == "image_url":
			u, ok := po.str(kind)
			if f, isObj := parseObject(po.get(kind)); isObj {
				u, ok = f.str("url")
			}
			if !ok || u == "" {
				c.bad(Shape, "", "content part %d has no URL", i)
			}
		}
	}
	return emptyContent(v)
}

// calls checks the calls of a message and opens them.
func (c *checker) calls(v json.RawMessage) bool {
	if v == nil {
		return false
	}
	list, ok := elements(v)
	if !ok || len(list) == 0 {
		c.bad(Shape, "", "tool_calls is empty or no list")
		return false
	}
	for i, raw := range list {
		o, ok := parseObject(raw)
		if !ok {
			c.bad(Shape, "", "call %d is %s; expected an object", i, splice.TypeName(raw))
			continue
		}
		id, ok := o.str("id")
		switch {
		case !ok:
			c.bad(Shape, "", "call %d has no id", i)
		case !validID(id):
			c.bad(CallIDs, id, "providers do not take this id")
		}
		if slices.Contains(c.open, id) {
			c.bad(R3, id, "the id occurs twice in one message")
		} else if c.used[id] && c.checks.UniqueIDs {
			c.bad(UniqueIDs, id, "the id is used before")
		}
		c.used[id] = true
		c.open = append(c.open, id)
		c.callBody(o, id)
	}
	return true
}

func (c *checker) callBody(o object, id string) {
	kind, _ := o.str("type")
	arg := "arguments"
	switch kind {
	case "function":
	case "custom":
		arg = "input"
	default:
		c.bad(Shape, id, "the type of the call is %s; expected function or custom", splice.TypeName(o.get("type")))
		return
	}
	f, ok := parseObject(o.get(kind))
	if !ok {
		c.bad(Shape, id, "the call has no %s", kind)
		return
	}
	if s, ok := f.str("name"); !ok || s == "" {
		c.bad(Shape, id, "the call has no name")
	} else if !takenName(s) {
		c.bad(Names, id, "the name %q of a tool is none that the provider takes", splice.Clip(s, 40))
	}
	if _, ok := f.str(arg); !ok {
		c.bad(Shape, id, "%s is %s; expected a string", arg, splice.TypeName(f.get(arg)))
	}
}

func (c *checker) result(o object) {
	id, ok := o.str("tool_call_id")
	if !ok {
		c.bad(Shape, "", "the tool message has no tool_call_id")
		return
	}
	if i := slices.Index(c.open, id); i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
		c.closed = append(c.closed, id)
	} else if slices.Contains(c.closed, id) {
		c.bad(R2, id, "the call has a result already")
	} else {
		c.bad(R1, id, "no call of the assistant message before it has this id")
	}
}

func (c *checker) tools(v json.RawMessage) {
	if v == nil {
		return
	}
	list, ok := elements(v)
	if !ok {
		c.bad(Shape, "", "tools is %s; expected a list", splice.TypeName(v))
		return
	}
	if len(list) == 0 {
		c.bad(Shape, "", "tools is an empty list; leave it out")
	}
	used := map[string]bool{}
	for i, raw := range list {
		o, _ := parseObject(raw)
		kind, _ := o.str("type")
		f, ok := parseObject(o.get(kind))
		switch name, _ := f.str("name"); {
		case !ok || name == "":
			c.bad(Shape, "", "tool %d has no type or no name", i)
		case !takenName(name):
			c.bad(Names, "", "the name %q of tool %d is none that the provider takes", splice.Clip(name, 40), i)
		case !turns.Unique(used, name):
			c.bad(Names, "", "two tools have the name %q", name)
		}
	}
}

func takenName(s string) bool { return len(s) <= toolNames.MaxName && validToolName(s) }
