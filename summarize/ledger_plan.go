package summarize

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// planKeys are the arguments under which agents keep a list of what to do.
var planKeys = []string{"todos", "plan", "items", "tasks", "todo_list", "todoList", "steps", "task_progress", "checklist"}

// planOf reads a todo list out of a call's arguments; nil when there is none, and
// without items when it was emptied.
func planOf(args string) *Plan {
	may := false
	for _, k := range planKeys {
		may = may || strings.Contains(args, `"`+k+`"`)
	}
	if !may {
		return nil
	}
	var m map[string]any
	if json.Unmarshal([]byte(args), &m) != nil {
		return nil
	}
	for _, k := range planKeys {
		v := m[k]
		if l, ok := v.([]any); ok && len(l) == 0 {
			return &Plan{} // the list was emptied
		}
		if p := planIn(v, 2); p != nil {
			return p
		}
	}
	return nil
}

// planIn reads a list out of an argument: items, a checklist of at least so many
// entries, or items in a string, as some models send them.
func planIn(v any, least int) *Plan {
	switch v := v.(type) {
	case string:
		if t := strings.TrimSpace(v); strings.HasPrefix(t, "[") {
			var list []any
			if json.Unmarshal([]byte(t), &list) == nil {
				return planItems(list)
			}
		}
		return checklistOf(v, least, true)
	case []any:
		return planItems(v)
	}
	return nil
}

// allDone reports whether the arguments of a call that is state have a list of
// which nothing is left to do, whatever its key is.
func allDone(args string) bool {
	if p := planOf(args); p != nil {
		return openPlan(p) == nil
	}
	var m map[string]any
	if json.Unmarshal([]byte(args), &m) != nil {
		p := planIn(args, 1)
		return p != nil && openPlan(p) == nil
	}
	lists := 0
	for _, v := range m {
		if p := planIn(v, 1); p != nil {
			if openPlan(p) != nil {
				return false
			}
			lists++
		}
	}
	return lists > 0
}

func planItems(list []any) *Plan {
	p := &Plan{}
	marked := false
	for _, v := range list {
		it := PlanItem{State: "open"}
		switch v := v.(type) {
		case string:
			var ok bool
			if it, ok = boxed(v, true); !ok {
				it = PlanItem{Text: strings.TrimSpace(v), State: "open"}
			}
			marked = marked || ok
		case map[string]any:
			for _, k := range []string{"content", "step", "text", "title", "task", "description", "name"} {
				if s, ok := v[k].(string); ok && strings.TrimSpace(s) != "" {
					it.Text = strings.TrimSpace(s)
					break
				}
			}
			switch s := firstOf(v, "status", "state").(type) {
			case string:
				it.State = planState(s)
				marked = true
			case nil:
				if b, ok := firstOf(v, "done", "completed", "checked").(bool); ok {
					marked = true
					if b {
						it.State = "done"
					}
				}
			}
		}
		if it.Text == "" {
			return nil
		}
		p.Items = append(p.Items, it)
	}
	if !marked {
		return nil // any list of texts
	}
	return p
}

func firstOf(m map[string]any, keys ...string) any {
	for _, k := range keys {
		if v, ok := m[k]; ok {
			return v
		}
	}
	return nil
}

// glyphs are signs that stand for a box.
var glyphs = map[rune]string{
	'☐': "open", '⬜': "open", '□': "open", '☑': "done", '☒': "done", '✅': "done", '✔': "done", '✓': "done",
}

// boxed reads one entry of a checklist: "- [x] text", or "☑ text" where signs
// count.
func boxed(line string, signs bool) (PlanItem, bool) {
	s := strings.TrimSpace(line)
	for _, bullet := range []string{"- ", "* ", "+ "} {
		s = strings.TrimPrefix(s, bullet)
	}
	if i := strings.IndexAny(s, ".)"); i > 0 && i < 4 && strings.Trim(s[:i], "0123456789") == "" {
		s = strings.TrimSpace(s[i+1:])
	}
	if r, n := utf8.DecodeRuneInString(s); signs && glyphs[r] != "" {
		text := strings.TrimSpace(strings.TrimPrefix(s[n:], "\uFE0F"))
		return PlanItem{Text: text, State: glyphs[r]}, text != ""
	}
	if len(s) < 4 || s[0] != '[' || s[2] != ']' || strings.IndexByte(" xX~->/", s[1]) < 0 {
		return PlanItem{}, false
	}
	text := strings.TrimSpace(s[3:])
	if text == "" || text[0] == '(' { // a link
		return PlanItem{}, false
	}
	state := "open"
	switch s[1] {
	case 'x', 'X':
		state = "done"
	case '~', '/', '>':
		state = "active"
	case '-':
		state = "dropped"
	}
	return PlanItem{Text: text, State: state}, true
}

// unboxed is a line of the agent without the box that it may begin with: how
// things stand is for the plan to say, which has the newest state only.
func unboxed(line string, by uint8) string {
	if by != byAssistant || !strings.Contains(line, "]") {
		return line
	}
	if it, ok := boxed(line, false); ok {
		return it.Text
	}
	return line
}

// checklist reads the last Markdown checklist of a text; nil when there are
// fewer than two entries.
func checklist(text string) *Plan { return checklistOf(text, 2, false) }

// checklistOf does the same for at least so many entries.
func checklistOf(text string, least int, signs bool) *Plan {
	if !strings.Contains(text, "[ ]") && !strings.Contains(text, "[x]") && !strings.Contains(text, "[X]") && !signs {
		return nil
	}
	var last, cur []PlanItem
	gap := 0
	for line := range strings.Lines(text) {
		if it, ok := boxed(line, signs); ok {
			if gap > 2 {
				cur = nil
			}
			gap = 0
			cur = append(cur, it)
			if len(cur) >= least {
				last = cur
			}
			continue
		}
		gap++
	}
	if last == nil {
		return nil
	}
	return &Plan{Items: last}
}

// planState maps the words of the agents to ours.
func planState(s string) string {
	switch strings.ToLower(strings.ReplaceAll(strings.TrimSpace(s), "-", "_")) {
	case "completed", "complete", "done", "finished":
		return "done"
	case "in_progress", "active", "doing", "current", "started":
		return "active"
	case "pending", "todo", "open", "not_started", "":
		return "open"
	case "cancelled", "canceled", "dropped", "skipped":
		return "dropped"
	}
	return s
}

// openPlan returns p, or nil when nothing of it is left to do.
func openPlan(p *Plan) *Plan {
	if p == nil {
		return nil
	}
	for _, it := range p.Items {
		if it.State != "done" && it.State != "dropped" {
			return p
		}
	}
	return nil
}
