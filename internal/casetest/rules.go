package casetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// breach returns the first of the rules R1 to R8 that a request does not keep,
// in words, and "" when it keeps them all. It is written apart from the
// validator of wire/openaichat, so that each checks the other.
func breach(r *chatRequest, modelCall bool) string {
	if s := breachText(r); s != "" {
		return s
	}
	lead := 0
	for lead < len(r.Messages) && isSystem(r.Messages[lead].Role) {
		lead++
	}
	if lead == len(r.Messages) || r.Messages[lead].Role != "user" {
		return fmt.Sprintf("R5: message %d is not of the user", lead)
	}
	for i := lead; i < len(r.Messages); i++ {
		if isSystem(r.Messages[i].Role) {
			return fmt.Sprintf("R4: message %d is of the system and not in the leading run", i)
		}
	}
	if s := breachCalls(r.Messages); s != "" {
		return s
	}
	if last := r.Messages[len(r.Messages)-1].Role; modelCall && last != "user" && last != "tool" {
		return "R6: the last message is of role " + last
	}
	for i := range r.Messages {
		if r.Messages[i].empty() {
			return fmt.Sprintf("R7: message %d (%s) is empty", i, r.Messages[i].Role)
		}
	}
	return ""
}

func isSystem(role string) bool { return role == "system" || role == "developer" }

// empty reports whether a message has no text, no parts and no calls; an empty
// tool result is none.
func (m *chatMessage) empty() bool {
	if m.Role == "tool" || len(m.ToolCalls) > 0 {
		return false
	}
	texts, others := m.content()
	for _, s := range texts {
		if s != "" {
			return false
		}
	}
	return len(others) == 0
}

// breachCalls checks R1, R2 and R3.
func breachCalls(list []chatMessage) string {
	var open, closed map[string]bool
	flush := func(i int) string {
		for id := range open {
			return fmt.Sprintf("R2: call %q has no result before message %d", id, i)
		}
		return ""
	}
	for i := range list {
		m := &list[i]
		if m.Role == "tool" {
			switch {
			case open[m.ToolCallID]:
				delete(open, m.ToolCallID)
				closed[m.ToolCallID] = true
			case closed[m.ToolCallID]:
				return fmt.Sprintf("R2: message %d is a second result of call %q", i, m.ToolCallID)
			default:
				return fmt.Sprintf("R1: message %d answers call %q, which the assistant message before it has not", i, m.ToolCallID)
			}
			continue
		}
		if s := flush(i); s != "" {
			return s
		}
		open, closed = map[string]bool{}, map[string]bool{}
		for _, c := range m.ToolCalls {
			if open[c.ID] {
				return fmt.Sprintf("R3: message %d has call %q twice", i, c.ID)
			}
			open[c.ID] = true
		}
	}
	return flush(len(list))
}

// breachText checks R8: bytes, and escapes of half a character.
func breachText(r *chatRequest) string {
	if !utf8.Valid(r.body) {
		return "R8: the body is no valid UTF-8"
	}
	// A lone surrogate decodes to U+FFFD that is not in the source.
	var v any
	d := json.NewDecoder(bytes.NewReader(r.body))
	if err := d.Decode(&v); err != nil {
		return "R8: the body is no JSON: " + err.Error()
	}
	source := bytes.Count(r.body, []byte("\uFFFD")) + bytes.Count(bytes.ToLower(r.body), []byte(`\ufffd`))
	decoded := 0
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			decoded += countRune(v, utf8.RuneError)
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for k, x := range v {
				walk(k)
				walk(x)
			}
		}
	}
	walk(v)
	if decoded > source {
		return "R8: the body has an escape of half a character"
	}
	return ""
}

func countRune(s string, r rune) (n int) {
	for _, c := range s {
		if c == r {
			n++
		}
	}
	return n
}

// breachIDs checks that all calls of a request have different ids, and that
// each result has its call's.
func breachIDs(r *chatRequest) string {
	seen := map[string]bool{}
	for i := range r.Messages {
		for _, c := range r.Messages[i].ToolCalls {
			if seen[c.ID] {
				return fmt.Sprintf("call id %q is used twice", c.ID)
			}
			seen[c.ID] = true
		}
		if m := &r.Messages[i]; m.Role == "tool" && !seen[m.ToolCallID] {
			return fmt.Sprintf("message %d has the id %q of no call", i, m.ToolCallID)
		}
	}
	return ""
}
