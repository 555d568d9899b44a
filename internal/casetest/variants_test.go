package casetest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// variants are changes to a case after which it must still hold. Each works on
// the text of the file; it returns "" where it changes nothing.
var variants = map[string]func(c *Case, text string) string{
	// The same messages one by one.
	"appended": func(c *Case, text string) string {
		for _, u := range c.Given.Usage {
			if u.At == nil {
				return "" // booked at the end of a load
			}
		}
		first := c.ops[0]
		if first.name != "load" {
			return ""
		}
		from, to := first.a, first.b
		if first.all {
			from, to = 0, len(c.Given.Messages)-1
		}
		var ops []string
		for i := from; i <= to; i++ {
			ops = append(ops, fmt.Sprintf(`"append %d"`, i))
		}
		return strings.Replace(text, fmt.Sprintf("%q", first.text), strings.Join(ops, ", "), 1)
	},
	// On a file, and the file must hold what is visible.
	"stored": func(c *Case, text string) string {
		if c.Expect.ReloadEqual {
			return ""
		}
		return strings.Replace(text, `"expect": {`, `"expect": {"reload_equal": true, `, 1)
	},
	// Other filler of the same length, with lines; not in the script, where a
	// text that repeats its lines is none.
	"filled": func(_ *Case, text string) string {
		text, rest, _ := strings.Cut(text, `"context_window"`)
		out := placeholderPattern.ReplaceAllStringFunc(text, func(p string) string {
			if !strings.HasPrefix(p, "{{fill:") || strings.Count(p, ":") > 1 {
				return p
			}
			return strings.TrimSuffix(p, "}}") + `:Wind from the west at 7 knots, sea calm. See page 12.\n}}`
		})
		if out == text {
			return ""
		}
		return out + `"context_window"` + rest
	},
	// Developer messages in place of system messages.
	"developer": func(_ *Case, text string) string {
		out := strings.ReplaceAll(text, `"role": "system"`, `"role": "developer"`)
		if out == text {
			return ""
		}
		return out
	},
	// Free-text tools in place of functions.
	"custom calls": func(_ *Case, text string) string {
		if strings.Contains(text, `"todo_write"`) || strings.Contains(text, "carry_paths") {
			return "" // arguments of a custom call are no JSON
		}
		out := strings.ReplaceAll(text, `"type": "function", "function": {"name"`, `"type": "custom", "custom": {"name"`)
		out = strings.ReplaceAll(out, `, "arguments":`, `, "input":`)
		if out == text || strings.Contains(text, `"tools":`) {
			return ""
		}
		return out
	},
}

// TestVariants runs every case in other forms. It takes a minute and runs only
// with AGENTCOMPACT_FULL=1.
func TestVariants(t *testing.T) {
	if os.Getenv("AGENTCOMPACT_FULL") == "" {
		t.Skip("AGENTCOMPACT_FULL is not set")
	}
	if otherFolder() {
		t.Skip("another folder is run")
	}
	cases, err := Load(*casesDir)
	require.NoError(t, err)
	list := knownFailures(t)
	for name, change := range variants {
		var changed []*Case
		for _, c := range cases {
			text := change(c, c.text)
			if text == "" {
				continue
			}
			v, err := Parse([]byte(text))
			if err != nil {
				t.Errorf("%s, %s: %v", c.ID, name, err)
				continue
			}
			changed = append(changed, v)
		}
		for _, r := range runAll(t, changed) {
			if _, known := list[r.ID]; !known && r.Verdict != Pass {
				t.Errorf("%s, %s: %s %s", r.ID, name, r.Verdict, r.First())
			}
		}
		t.Logf("%s: %d cases", name, len(changed))
	}
}
