package codex

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
)

// userBudget is how many tokens of user messages the agent keeps when it makes
// a history without replacement, and bytesPerToken how it counts.
const (
	userBudget    = 20_000
	bytesPerToken = 4
)

// mark is our own field in the payload of a compacted record.
type mark struct {
	// ID is the compaction id, empty when messages were only changed. Hides is
	// how many messages it replaced.
	ID    string `json:"id,omitempty"`
	Hides int    `json:"hides"`
	Auto  bool   `json:"auto"`
	// TokensBefore is that of the conversation.
	TokensBefore int `json:"tokens_before,omitempty"`
	// Messages says where messages begin in the replacement history.
	Messages []markedMessage `json:"messages"`
}

// markedMessage is one message of a replacement history.
type markedMessage struct {
	At int `json:"at"`
	// Ref is set on a checkpoint, Source on what is not as the items say.
	Ref    string          `json:"ref,omitempty"`
	Source *session.Source `json:"source,omitempty"`
}

// compacted takes in a compaction: the history is what it says from here on.
func (f *file) compacted(l *line) {
	var p struct {
		Message     string            `json:"message"`
		Replacement []json.RawMessage `json:"replacement_history"`
		Window      string            `json:"window_id"`
		Mark        *mark             `json:"agentcompact"`
	}
	if !lenient(json.Unmarshal(l.Payload, &p)) {
		return
	}
	_, before := f.group()
	f.fresh = true
	ref := p.Window
	if ref == "" || slices.Contains(f.refs, ref) {
		ref = fmt.Sprintf("%s/%d", Format, l.num)
	}
	cp := wire.Checkpoint{Entry: -1, Time: l.time()}
	if p.Mark != nil {
		ref, cp.TokensBefore = p.Mark.ID, p.Mark.TokensBefore
		if cp.Trigger = "manual"; p.Mark.Auto {
			cp.Trigger = "auto"
		}
	}
	if p.Replacement != nil {
		f.replace(p.Replacement, p.Mark, p.Message, ref, l)
	} else {
		f.rebuild(p.Message, ref, l)
	}
	if p.Mark != nil {
		cp.Hides = p.Mark.Hides
	} else {
		_, after := f.group()
		cp.Hides = hidden(before, after)
	}
	f.side += cp.Hides
	if p.Mark == nil || p.Mark.ID != "" {
		f.checkpoints, f.refs = append(f.checkpoints, cp), append(f.refs, ref)
	}
}

// replace makes a replacement history the history.
func (f *file) replace(list []json.RawMessage, m *mark, text, ref string, l *line) {
	f.history = nil
	at := make([]int, len(list)) // where the items are in the history
	for i, raw := range list {
		at[i] = len(f.history)
		if it, ok := responses.Decode(raw); ok {
			f.history = append(f.history, step{item: it, time: l.time(), model: f.model})
		}
	}
	if m != nil {
		for _, mm := range m.Messages {
			if mm.At < 0 || mm.At >= len(at) || at[mm.At] >= len(f.history) {
				continue
			}
			s := &f.history[at[mm.At]]
			s.begins, s.source, s.ref = true, mm.Source, mm.Ref
		}
		return
	}
	// The file's own marks: the item that only the server can read, or the
	// message that says what the record says.
	for i := len(f.history) - 1; i >= 0; i-- {
		s := &f.history[i]
		if s.item.Type == responses.TypeCompaction {
			s.ref = ref
			return
		}
	}
	for i := len(f.history) - 1; i >= 0; i-- {
		s := &f.history[i]
		if text != "" && s.item.Type == responses.TypeMessage && s.item.Role == session.RoleUser && session.TextOf(s.item.Parts) == text {
			s.ref = ref
			return
		}
	}
}

// rebuild makes the history that the agent makes without a replacement.
func (f *file) rebuild(text, ref string, l *line) {
	var kept []step
	n := 0
	for n < len(f.history) && !f.history[n].isPrompt() {
		if s := f.history[n]; s.usage == nil && s.ref == "" && s.item.Type == responses.TypeMessage && s.item.Role != session.RoleAssistant {
			kept = append(kept, s)
		}
		n++
	}
	budget := userBudget
	var users []step
	for i := len(f.history) - 1; i >= n && budget > 0; i-- {
		s := f.history[i]
		if !s.isPrompt() {
			continue
		}
		said := session.TextOf(s.item.Parts)
		tokens := (len(said) + bytesPerToken - 1) / bytesPerToken
		if tokens > budget {
			s = userStep(cut(said, budget), s)
		}
		budget -= tokens
		users = append(users, s)
	}
	slices.Reverse(users)
	if text == "" {
		text = "(no summary available)"
	}
	sum := userStep(text, step{time: l.time()})
	sum.ref = ref
	f.history = append(append(kept, users...), sum)
}

// cut shortens a text to about the given tokens, keeping both ends.
func cut(s string, tokens int) string {
	half := tokens * bytesPerToken / 2
	return s[:half] + fmt.Sprintf("…%d tokens truncated…", (len(s)-2*half)/bytesPerToken) + s[len(s)-half:]
}

func userStep(text string, like step) step {
	m := session.UserText(text)
	it, _ := responses.Decode(responses.Encode(&m, nil)[0])
	return step{item: it, time: like.time}
}

// hidden is how many messages of before are not in after.
func hidden(before, after []message) int {
	key := func(m *message) string {
		return string(m.Message.Role) + "\x00" + string(rawjson.Marshal(m.items))
	}
	left := map[string]int{}
	for i := range after {
		left[key(&after[i])]++
	}
	n := 0
	for i := range before {
		if k := key(&before[i]); left[k] > 0 {
			left[k]--
		} else {
			n++
		}
	}
	return n
}
