package gemini

import (
	"encoding/json"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/gemini"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// Checks adds rules that do not hold for every request.
type Checks struct {
	// ModelCall: the last content is the user's.
	ModelCall bool
	// Alternation: neighbors have different roles. The provider asks for it
	// around calls only, which is always checked.
	Alternation bool
	// Signatures: the model is a Gemini 3 or later one, which wants the
	// signature of its thoughts on the first call of each content behind the
	// last prompt.
	Signatures bool
}

// Validate checks a request body for what the provider refuses: shape, the
// first content, that a content with calls follows one of the user's and is
// answered by as many responses of the same names in the next content, that
// nothing else answers, names, empty parts, UTF-8. Ids are optional and checked where they are. It is nil
// for a valid one, takes any bytes, and reports in order.
func Validate(body []byte) []wire.Violation { return ValidateWith(body, Checks{}) }

// ValidateWith checks as [Validate] does, and what checks adds.
func ValidateWith(body []byte, checks Checks) []wire.Violation {
	c := &checker{Checker: turns.NewChecker()}
	o, list, ok := c.Body(body, "contents")
	if !ok {
		return c.Out
	}
	for _, f := range o {
		if f.Name != "contents" {
			c.UTF8(f.Value)
		}
	}
	c.tools(o.Get("tools"))
	if checks.Signatures {
		c.signatures(list)
	}
	before := ""
	for i, raw := range list {
		c.At = i
		role := c.content(raw)
		if i > 0 && len(c.open) > 0 && before != "user" {
			c.Bad(wire.RuleOrder, "", "a content with calls stands behind one of role %s; it must follow the user's", before)
		}
		if i == 0 && role != "user" {
			c.Bad(wire.RuleOrder, "", "the first content is of role %q; it must be the user's", role)
		}
		if checks.Alternation && role == before {
			c.Bad(wire.RuleOrder, "", "two contents of role %s in a row", role)
		}
		before = role
	}
	if len(list) > 0 {
		c.At = len(list)
		c.settle(nil)
		if c.At = len(list) - 1; checks.ModelCall && before != "user" {
			c.Bad(wire.RuleOrder, "", "the last content is the model's")
		}
	}
	return c.Out
}

type checker struct {
	*turns.Checker
	open []session.ToolCall // of the content before
}

func (c *checker) tools(raw json.RawMessage) {
	used := map[string]bool{}
	for _, t := range tools(raw) {
		if t.Name != "" && !turns.Unique(used, t.Name) {
			c.Bad(wire.RuleName, "", "two functions have the name %q", splice.Clip(t.Name, 40))
		}
		if t.Name != "" && (!validName(t.Name) || len(t.Name) > maxName) {
			c.Bad(wire.RuleName, "", "the function name %q is none that the provider takes", splice.Clip(t.Name, 40))
		}
	}
}

// signatures checks the signatures of the calls behind the last prompt.
func (c *checker) signatures(list []json.RawMessage) {
	for i := prompted(list); i < len(list); i++ {
		if n, ok := unsigned(list[i]); ok {
			c.At = i
			c.Bad(wire.RuleReasoning, "", "the call in part %d has no thoughtSignature", n)
		}
	}
	c.At = -1
}

// prompted is the index behind the last prompt: the last content of the user
// that is no response.
func prompted(contents []json.RawMessage) int {
	for i := len(contents) - 1; i >= 0; i-- {
		var j struct {
			Role  string `json:"role"`
			Parts []struct {
				Response json.RawMessage `json:"functionResponse"`
			} `json:"parts"`
		}
		if json.Unmarshal(contents[i], &j) != nil || j.Role == "model" {
			continue
		}
		prompt := true
		for _, p := range j.Parts {
			prompt = prompt && p.Response == nil
		}
		if prompt {
			return i + 1
		}
	}
	return 0
}

// unsigned returns the part with the first call of a content, when that has no
// signature.
func unsigned(content json.RawMessage) (part int, ok bool) {
	var j struct {
		Role  string `json:"role"`
		Parts []struct {
			Call      json.RawMessage `json:"functionCall"`
			Signature string          `json:"thoughtSignature"`
		} `json:"parts"`
	}
	if json.Unmarshal(content, &j) != nil || j.Role != "model" {
		return 0, false
	}
	for i, p := range j.Parts {
		if p.Call != nil {
			return i, p.Signature == ""
		}
	}
	return 0, false
}

// settle compares the responses of a content with the calls of the one before.
func (c *checker) settle(results []session.ToolResult) {
	taken := make([]bool, len(results))
	find := func(call session.ToolCall) bool {
		for i, r := range results {
			if !taken[i] && (call.ID == "" || r.CallID == "" || call.ID == r.CallID) && r.Name == call.Name {
				taken[i] = true
				return true
			}
		}
		return false
	}
	for _, call := range c.open {
		if !find(call) {
			c.Bad(wire.RulePairing, call.ID, "the call of %s has no response in the content behind it", splice.Clip(call.Name, 40))
		}
	}
	for i, r := range results {
		if !taken[i] {
			c.Bad(wire.RulePairing, r.CallID, "the response of %s answers no call of the content before it", splice.Clip(r.Name, 40))
		}
	}
	c.open = nil
}

func (c *checker) content(raw json.RawMessage) string {
	c.UTF8(raw)
	var j struct {
		Role  string          `json:"role"`
		Parts json.RawMessage `json:"parts"`
	}
	if rawjson.Kind(raw) != '{' || json.Unmarshal(raw, &j) != nil {
		c.settle(nil)
		c.Bad(wire.RuleShape, "", "the content is no object, or has fields of other types")
		return ""
	}
	switch j.Role {
	case "user", "model":
	case "function", "":
		j.Role = "user"
	default:
		c.Bad(wire.RuleOrder, "", "the role is %q; expected user or model (system text goes beside the contents)", splice.Clip(j.Role, 40))
	}
	list, ok := rawjson.Elements(j.Parts)
	if !ok || len(list) == 0 {
		c.settle(nil)
		c.Bad(wire.RuleEmpty, "", "the content has no parts")
		return j.Role
	}
	var results []session.ToolResult
	var calls []session.ToolCall
	for i, p := range list {
		if rawjson.Kind(p) != '{' {
			c.Bad(wire.RuleShape, "", "part %d is %s; expected an object", i, splice.TypeName(p))
			continue
		}
		switch q := gemini.Part(p).(type) {
		case session.Text:
			if q.Text == "" {
				c.Bad(wire.RuleEmpty, "", "part %d has no text", i)
			}
		case session.Reasoning:
			if j.Role != "model" {
				c.Bad(wire.RuleReasoning, "", "part %d is a thought of the user", i)
			}
		case session.ToolCall:
			if j.Role != "model" {
				c.Bad(wire.RuleOrder, q.ID, "part %d is a call of the user", i)
			}
			if q.ID != "" {
				c.Call(q.ID, validID(q.ID))
			}
			if q.Name == "" || !validName(q.Name) || len(q.Name) > maxName {
				c.Bad(wire.RuleName, q.ID, "the function name %q is none that the provider takes", splice.Clip(q.Name, 40))
			}
			if k := rawjson.Kind([]byte(q.Arguments)); k != 0 && k != '{' && k != 'n' {
				c.Bad(wire.RuleShape, q.ID, "the arguments are no object")
			}
			calls = append(calls, q)
		case session.ToolResult:
			if j.Role != "user" {
				c.Bad(wire.RuleOrder, q.CallID, "part %d is a response of the model", i)
			}
			c.response(p, q)
			results = append(results, q)
		case session.Opaque:
			if q.Kind == "invalid" {
				c.Bad(wire.RuleShape, "", "part %d holds nothing that the provider knows", i)
			}
		}
	}
	c.settle(results)
	c.open = calls
	return j.Role
}

func (c *checker) response(raw json.RawMessage, r session.ToolResult) {
	var p struct {
		R struct {
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	}
	_ = json.Unmarshal(raw, &p) // what does not fit has no response
	if rawjson.Kind(p.R.Response) != '{' {
		c.Bad(wire.RuleShape, r.CallID, "the response is no object")
	}
	if r.Name == "" || !validName(r.Name) || len(r.Name) > maxName {
		c.Bad(wire.RuleName, r.CallID, "the function name %q is none that the provider takes", splice.Clip(r.Name, 40))
	}
}
