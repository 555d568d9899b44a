package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
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
	var before map[uint64]int
	if p.Mark == nil {
		before = f.hashes()
	}
	f.fresh = true
	ref := p.Window
	if ref == "" || slices.Contains(f.refs, ref) {
		ref = fmt.Sprintf("%s/%d", Format, l.at.Line)
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
		cp.Hides = hidden(before, f.hashes())
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
	summary := -1                // the message that says what the record says
	pos := 0                     // in the record
	for i, raw := range list {
		at[i] = len(f.history)
		it, ok := responses.Decode(raw)
		if !ok {
			continue
		}
		s := f.newStep(it)
		s.set(func(r *rare) { r.time = l.time() })
		// Where the same bytes stand before is as good.
		pos += max(bytes.Index(l.at.Raw[pos:], raw), 0)
		s.ref = f.text.Ref(jsonl.Value{Offset: l.at.Offset + pos, Raw: l.at.Raw[pos : pos+len(raw)]})
		pos += len(raw)
		if text != "" && s.kind == kindMessage && s.role == roleUser && session.TextOf(it.Parts) == text {
			summary = len(f.history)
		}
		f.history = append(f.history, s)
	}
	if m != nil {
		for _, mm := range m.Messages {
			if mm.At < 0 || mm.At >= len(at) || at[mm.At] >= len(f.history) {
				continue
			}
			s := &f.history[at[mm.At]]
			s.begins = true
			s.set(func(r *rare) { r.source, r.ref = mm.Source, mm.Ref })
		}
		return
	}
	// The file's own marks: the item that only the server can read, or the
	// message that says what the record says.
	for i := len(f.history) - 1; i >= 0; i-- {
		if f.history[i].kind == kindCompaction {
			summary = i
			break
		}
	}
	if summary >= 0 {
		f.history[summary].set(func(r *rare) { r.ref = ref })
	}
}

// rebuild makes the history that the agent makes without a replacement.
func (f *file) rebuild(text, ref string, l *line) {
	var kept []step
	n := 0
	for n < len(f.history) && !f.history[n].isPrompt() {
		if s := f.history[n]; s.more().ref == "" && s.kind == kindMessage && s.role != roleAssistant {
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
		tokens := (int(s.said) + bytesPerToken - 1) / bytesPerToken
		if tokens > budget {
			it, _, at, err := f.decode(&s)
			if err != nil {
				f.err = err
				return
			}
			s = f.userStep(cut(session.TextOf(it.Parts), budget), at)
		}
		budget -= tokens
		users = append(users, s)
	}
	slices.Reverse(users)
	if text == "" {
		text = "(no summary available)"
	}
	sum := f.userStep(text, l.time())
	sum.set(func(r *rare) { r.ref = ref })
	f.history = append(append(kept, users...), sum)
}

// cut shortens a text to about the given tokens, keeping both ends.
func cut(s string, tokens int) string {
	half := tokens * bytesPerToken / 2
	return s[:half] + fmt.Sprintf("…%d tokens truncated…", (len(s)-2*half)/bytesPerToken) + s[len(s)-half:]
}

// userStep makes a step that is not in the file.
func (f *file) userStep(text string, at time.Time) step {
	m := session.UserText(text)
	it, _ := responses.Decode(responses.Encode(&m, nil)[0])
	s := f.newStep(it)
	s.model = 0
	s.set(func(r *rare) { r.made, r.time = it.Raw, at })
	return s
}

// hashes counts the messages of the history by role and content.
func (f *file) hashes() map[uint64]int {
	_, live := f.group()
	out := make(map[uint64]int, len(live))
	for _, m := range live {
		var h maphash.Hash
		h.SetSeed(seed)
		_ = h.WriteByte(byte(f.history[m.first].role))
		for n := m.first; n < m.to; n++ {
			if s := &f.history[n]; s.speaks() {
				maphash.WriteComparable(&h, s.hash)
			}
		}
		out[h.Sum64()]++
	}
	return out
}

// hidden is how many messages of before are not in after.
func hidden(before, after map[uint64]int) int {
	n := 0
	for k, have := range before {
		n += max(have-after[k], 0)
	}
	return n
}
