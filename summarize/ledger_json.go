package summarize

import (
	"encoding/json"
	"strings"
)

func looksJSON(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) > 1 && (s[0] == '{' && s[len(s)-1] == '}' || s[0] == '[' && s[len(s)-1] == ']')
}

// jsonStrings calls f for every string value of a JSON text with the key that
// it stands under, in order, until f returns false. It reads what it can of
// invalid JSON and never fails.
func jsonStrings(s string, f func(key, value string) bool) {
	key := ""
	for i := 0; i < len(s); {
		if s[i] != '"' {
			i++
			continue
		}
		j, escaped := i+1, false
		for j < len(s) && s[j] != '"' {
			if s[j] == '\\' {
				escaped = true
				j++
			}
			j++
		}
		if j >= len(s) {
			return
		}
		v := s[i+1 : j]
		if escaped {
			var u string
			if json.Unmarshal([]byte(s[i:j+1]), &u) == nil {
				v = u
			}
		}
		i = j + 1
		k := i
		for k < len(s) && (s[k] == ' ' || s[k] == '\n' || s[k] == '\t' || s[k] == '\r') {
			k++
		}
		if k < len(s) && s[k] == ':' {
			key = v
			i = k + 1
			continue
		}
		if !f(key, v) {
			return
		}
	}
}
