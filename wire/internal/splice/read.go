package splice

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

// Document checks that data is one JSON document and returns it. The error says
// where it is not.
func Document(format string, data []byte, expected string) (Span, error) {
	start := Begin(data)
	if start >= len(data) {
		return Span{}, &wire.Error{Format: format, Detail: "the file is empty; expected " + expected}
	}
	if body := data[start:]; !json.Valid(body) {
		e := &wire.Error{Format: format, Offset: int64(start), Detail: "this is not valid JSON; expected " + expected}
		var s *json.SyntaxError
		if err := json.Unmarshal(body, new(struct{})); errors.As(err, &s) {
			e.Offset += s.Offset
			if int(s.Offset) >= len(bytes.TrimRight(body, " \r\n\t")) {
				e.Detail = "the JSON ends too early: the file is cut short or still being written; get a whole copy of it"
			} else {
				e.Err = err
			}
		}
		return Span{}, e
	}
	v := At(data, start)
	v.Whole = true
	return v, nil
}

// TypeName names the type of a raw value in words.
func TypeName(v []byte) string {
	if len(v) == 0 {
		return "missing"
	}
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Clip shortens s to about n bytes, at a rune.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return strings.ToValidUTF8(s[:n], "\uFFFD") + "…"
}

// Lenient reports whether an error of json.Unmarshal leaves what fits decoded.
func Lenient(err error) bool {
	var wrong *json.UnmarshalTypeError
	return err == nil || errors.As(err, &wrong)
}

// NoNotes refuses system and developer messages, for formats that have none.
func NoNotes(format string, pieces []Piece) error {
	for _, p := range pieces {
		if r := p.Message.Role; r == session.RoleDeveloper || r == session.RoleSystem {
			return &wire.Error{Format: format, Detail: "a " + string(r) + " message in mid-conversation cannot be written, the format has none; make it a user message"}
		}
	}
	return nil
}

// Arguments makes the arguments of a call an object, for formats that want one.
func Arguments(text string) json.RawMessage {
	if raw := json.RawMessage(text); json.Valid(raw) && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return raw
	}
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("{}")
	}
	quoted, _ := json.Marshal(map[string]string{"input": text}) // strings always encode
	return quoted
}
