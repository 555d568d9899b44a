package summarize

import (
	"encoding/json"
	"strings"
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
		switch v := m[k].(type) {
		case string:
			if p := checklist(v); p != nil {
				return p
			}
		case []any:
			if len(v) == 0 && k == "todos" {
				return &Plan{} // the list was emptied
			}
			if p := planItems(v); p != nil {
				return p
			}
		}
	}
	return nil
}

func planItems(list []any) *Plan {
	p := &Plan{}
	marked := false
	for _, v := range list {
		it := PlanItem{State: "open"}
		switch v := v.(type) {
		case string:
			var ok bool
			if it, ok = boxed(v); !ok {
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

// boxed reads one entry of a checklist: "- [x] text".
func boxed(line string) (PlanItem, bool) {
	s := strings.TrimSpace(line)
	for _, bullet := range []string{"- ", "* ", "+ "} {
		s = strings.TrimPrefix(s, bullet)
	}
	if i := strings.IndexAny(s, ".)"); i > 0 && i < 4 && strings.Trim(s[:i], "0123456789") == "" {
		s = strings.TrimSpace(s[i+1:])
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

// checklist reads the last Markdown checklist of a text; nil when there are
// fewer than two entries.
func checklist(text string) *Plan {
	if !strings.Contains(text, "[ ]") && !strings.Contains(text, "[x]") && !strings.Contains(text, "[X]") {
		return nil
	}
	var last, cur []PlanItem
	gap := 0
	for line := range strings.Lines(text) {
		if it, ok := boxed(line); ok {
			if gap > 2 {
				cur = nil
			}
			gap = 0
			cur = append(cur, it)
			if len(cur) >= 2 {
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
