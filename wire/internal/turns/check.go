package turns

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

// Checker collects violations and knows what all providers have in common.
type Checker struct {
	Out []wire.Violation
	// At is the message that is looked at.
	At int
	// Used are the ids of calls so far.
	Used map[string]bool
}

// NewChecker returns a checker at the body.
func NewChecker() *Checker { return &Checker{At: -1, Used: map[string]bool{}} }

// Bad notes a violation.
func (c *Checker) Bad(rule wire.Rule, id, format string, args ...any) {
	c.Out = append(c.Out, wire.Violation{Rule: rule, Message: c.At, CallID: id, Detail: fmt.Sprintf(format, args...)})
}

// Body checks that the body is an object whose field is a list, and returns it
// with the body.
func (c *Checker) Body(body []byte, field string) (rawjson.Object, []json.RawMessage, bool) {
	if !json.Valid(body) {
		c.Bad(wire.RuleShape, "", "the body is not valid JSON")
		return nil, nil, false
	}
	o, err := rawjson.Parse(body)
	if err != nil {
		c.Bad(wire.RuleShape, "", "the body is no object")
		return nil, nil, false
	}
	list, ok := rawjson.Elements(o.Get(field))
	if !ok {
		c.Bad(wire.RuleShape, "", "%s is no list", field)
		return o, nil, false
	}
	if len(list) == 0 {
		c.Bad(wire.RuleEmpty, "", "%s is empty", field)
	}
	return o, list, true
}

// UTF8 checks the strings of a value.
func (c *Checker) UTF8(raw []byte) {
	if !utf8.Valid(raw) {
		c.Bad(wire.RuleUTF8, "", "there are bytes that are not UTF-8")
	}
	if loneSurrogate(raw) {
		c.Bad(wire.RuleUTF8, "", "there is an escape of half a surrogate pair")
	}
}

// loneSurrogate finds an escape \ud800 to \udfff that is not half of a pair.
func loneSurrogate(b []byte) bool { return len(LoneSurrogates(b)) > 0 }

// LoneSurrogates returns where such escapes begin.
func LoneSurrogates(b []byte) (at []int) {
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		high := surrogate(b, i)
		switch {
		case high == 0:
			i++ // another escape, a backslash too
		case high < 0xdc00 && surrogate(b, i+6) >= 0xdc00:
			i += 11
		default:
			at = append(at, i)
			i += 5
		}
	}
	return at
}

// Repair replaces bytes that are not UTF-8 and escapes of half a surrogate pair
// by U+FFFD.
func Repair(raw json.RawMessage) json.RawMessage {
	if !utf8.Valid(raw) {
		raw = []byte(strings.ToValidUTF8(string(raw), "\uFFFD"))
	}
	lone := LoneSurrogates(raw)
	if lone == nil {
		return raw
	}
	out := append(json.RawMessage(nil), raw...)
	for _, i := range lone {
		copy(out[i+2:], "fffd")
	}
	return out
}

// surrogate returns the surrogate whose escape begins at i; 0 for none.
func surrogate(b []byte, i int) int {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return 0
	}
	n := 0
	for _, c := range b[i+2 : i+6] {
		k := strings.IndexByte("0123456789abcdef", c|0x20)
		if c >= '0' && c <= '9' {
			k = int(c - '0')
		}
		if k < 0 {
			return 0
		}
		n = n<<4 | k
	}
	if n < 0xd800 || n > 0xdfff {
		return 0
	}
	return n
}

// Call checks the id of a call and takes it.
func (c *Checker) Call(id string, valid bool) {
	if !valid {
		c.Bad(wire.RuleCallID, id, "the provider does not take this id")
	}
	if c.Used[id] {
		c.Bad(wire.RuleUniqueID, id, "the id is used before")
	}
	c.Used[id] = true
}
