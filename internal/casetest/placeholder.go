package casetest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// filler is what {{fill:N}} repeats.
const filler = "line of invented log text; "

var placeholderPattern = regexp.MustCompile(`(?s)\{\{(fill|rep|b64|hex):(.*?)\}\}`)

// maxExpansion bounds one placeholder, in bytes.
const maxExpansion = 64 << 20

// expand replaces the placeholders of a string.
func expand(s string) (string, error) {
	if !strings.Contains(s, "{{") {
		return s, nil
	}
	var b strings.Builder
	last := 0
	for _, m := range placeholderPattern.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(s[last:m[0]])
		text, err := expandOne(s[m[2]:m[3]], s[m[4]:m[5]])
		if err != nil {
			return "", fmt.Errorf("placeholder %s: %w", s[m[0]:m[1]], err)
		}
		b.WriteString(text)
		last = m[1]
	}
	b.WriteString(s[last:])
	return b.String(), nil
}

func expandOne(kind, arg string) (string, error) {
	if kind == "hex" {
		raw, err := hex.DecodeString(arg)
		return string(raw), err
	}
	count, unit, has := strings.Cut(arg, ":")
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return "", fmt.Errorf("%q is no count", count)
	}
	switch {
	case kind == "rep" && (!has || unit == ""):
		return "", fmt.Errorf("what is repeated is missing")
	case kind == "b64" && has:
		return "", fmt.Errorf("too many parts")
	case n*max(len(unit), 4) > maxExpansion:
		return "", fmt.Errorf("it is too large")
	case kind == "rep":
		return strings.Repeat(unit, n), nil
	case kind == "b64":
		return strings.Repeat("A", n), nil
	}
	if !has {
		unit = filler
	}
	if unit == "" {
		return "", fmt.Errorf("what is repeated is empty")
	}
	return strings.Repeat(unit, 4*n/len(unit)+1)[:4*n], nil
}

// expandJSON expands the placeholders in every string of a JSON value. Bytes
// that are no UTF-8 stand in the result as they are.
func expandJSON(raw json.RawMessage) (json.RawMessage, error) {
	if !strings.Contains(string(raw), "{{") {
		return raw, nil
	}
	var out []byte
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			out = append(out, raw[i])
			i++
			continue
		}
		end := i + 1
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		end++
		var s string
		if end > len(raw) {
			return nil, fmt.Errorf("a string does not end")
		}
		if err := json.Unmarshal(raw[i:end], &s); err != nil {
			return nil, err
		}
		t, err := expand(s)
		if err != nil {
			return nil, err
		}
		if t == s {
			out = append(out, raw[i:end]...)
		} else {
			out = appendQuoted(out, t)
		}
		i = end
	}
	return out, nil
}

// appendQuoted writes a JSON string that keeps bytes which are no UTF-8.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
