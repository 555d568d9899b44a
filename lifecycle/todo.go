package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// Todo is one entry of a list of what is to be done.
type Todo struct {
	Text string `json:"text"`
	// State is "open", "active", "done" or "dropped".
	State string `json:"state"`
}

// TodoOptions configure [NewTodos]. Nil means all defaults.
type TodoOptions struct {
	// Current returns the list as the host has it now, and false when it has
	// none; then it is read from the conversation. Nil means that it is always
	// read.
	Current func(ctx context.Context, meta PreservationMeta) ([]Todo, bool)
	// Max bounds the entries that a checkpoint shows; the rest is counted. 0
	// means 40.
	Max int
}

// Todos is a preserver that carries the open entries of the agent's todo list
// or plan into every checkpoint. A list that was read from the conversation is
// kept in the session's state, so that it outlives the call that wrote it. It
// is safe for concurrent use.
//
// Read are the newest calls of the tools that are known to write such lists:
// arguments with a list under todos, plan, task_progress, tasks or items,
// whose entries have a text and a status.
type Todos struct{ o TodoOptions }

var _ Preserver[Call, Checkpoint] = (*Todos)(nil)

// NewTodos returns the preserver.
func NewTodos(opts *TodoOptions) *Todos {
	t := new(Todos)
	if opts != nil {
		t.o = *opts
	}
	if t.o.Max <= 0 {
		t.o.Max = 40
	}
	return t
}

// ID implements [Preserver].
func (t *Todos) ID() string { return "todos" }

// BeforeRequest implements [Preserver]; it changes nothing.
func (t *Todos) BeforeRequest(context.Context, *Call, RequestPreview, PreservationMeta, Services) error {
	return nil
}

// RequestOpened implements [Preserver]; it does nothing.
func (t *Todos) RequestOpened(context.Context, Call, []Event, PreservationMeta, Services) error {
	return nil
}

const todosKey = "list"

// BeforeResponseRelease implements [Preserver]: it adds the open entries.
func (t *Todos) BeforeResponseRelease(ctx context.Context, c *Checkpoint, _ ResponsePreview, m PreservationMeta, s Services) error {
	list, err := t.list(ctx, c.Region, m, s.State)
	if err != nil {
		return err
	}
	done, left := 0, 0
	var notes []string
	for _, e := range list {
		switch mark := marks[e.State]; {
		case mark == "":
			done++
		case len(notes) >= t.o.Max:
			left++
		default:
			notes = append(notes, "todo "+mark+" "+e.Text)
		}
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("todo: %d more are open", left))
	}
	if len(notes) > 0 && done > 0 {
		notes = append(notes, fmt.Sprintf("todo: %d are done", done))
	}
	c.Notes = AddNotes(c.Notes, notes...)
	return nil
}

// marks shows the states that are not over.
var marks = map[string]string{"open": "[ ]", "active": "[~]"}

func (t *Todos) list(ctx context.Context, r Region, m PreservationMeta, s State) ([]Todo, error) {
	if t.o.Current != nil {
		if list, ok := t.o.Current(ctx, m); ok {
			return list, nil
		}
	}
	for i := r.Len() - 1; i >= 0; i-- {
		list, ok := todosOf(r.messages[i])
		if !ok {
			continue
		}
		if s == nil {
			return list, nil
		}
		b, err := json.Marshal(list)
		if err != nil {
			return nil, fmt.Errorf("store todo list: %w", err)
		}
		return list, s.Put(ctx, todosKey, b)
	}
	if s == nil {
		return nil, nil
	}
	b, ok, err := s.Get(ctx, todosKey)
	if err != nil || !ok {
		return nil, err
	}
	var list []Todo
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("read todo list: %w", err)
	}
	return list, nil
}

// todoTools are the tools that write lists, in lower case without separators.
var todoTools = map[string]bool{
	"todowrite": true, "updateplan": true, "taskprogress": true, "updatetodolist": true, "writetodos": true,
	"todo": true, "todolist": true, "settodolist": true, "plan": true,
}

// todosOf returns the list that a message writes.
func todosOf(m *session.Message) ([]Todo, bool) {
	for i := len(m.Parts) - 1; i >= 0; i-- {
		call, ok := m.Parts[i].(session.ToolCall)
		if !ok || !todoTools[plainWord.Replace(strings.ToLower(call.Name))] {
			continue
		}
		var args map[string]json.RawMessage
		if json.Unmarshal([]byte(call.Arguments), &args) != nil {
			continue
		}
		for _, key := range []string{"todos", "plan", "task_progress", "tasks", "items"} {
			if list, ok := parseTodos(args[key]); ok {
				return list, true
			}
		}
	}
	return nil, false
}

var plainWord = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

func parseTodos(raw json.RawMessage) ([]Todo, bool) {
	var in []map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &in) != nil || in == nil {
		return nil, false
	}
	first := func(e map[string]any, keys ...string) string {
		for _, k := range keys {
			if s, ok := e[k].(string); ok && strings.TrimSpace(s) != "" {
				return s
			}
		}
		return ""
	}
	out := make([]Todo, 0, len(in))
	for _, e := range in {
		text := first(e, "content", "step", "text", "title", "description", "task")
		if text == "" {
			return nil, false
		}
		out = append(out, Todo{Text: text, State: stateOf(first(e, "status", "state"))})
	}
	return out, true
}

// stateOf brings the words of tools together; an unknown one is open, so that
// nothing is lost.
func stateOf(s string) string {
	switch plainWord.Replace(strings.ToLower(s)) {
	case "done", "complete", "completed", "finished":
		return "done"
	case "active", "inprogress", "doing", "running":
		return "active"
	case "dropped", "cancelled", "canceled", "skipped":
		return "dropped"
	}
	return "open"
}
