// Package turns makes of a surface what providers take: user and assistant in
// turns, the user first, the results of a message's calls right behind it and
// first in their turn, ids that are unique in the request, no empty messages.
// How a turn looks on the wire is the business of each provider's package.
package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
)

// What the builder says in its own words, in brackets so that the model can
// tell it from what people and tools said. The words are those of openaichat.
const (
	openText      = "[The beginning of this conversation is not shown. It goes on below.]"
	closeText     = "[No new message from the user. Continue with the task.]"
	noteText      = "[Note from the system at this point of the conversation; the user did not write it:]"
	abandonedText = "[No result: this call was interrupted before it finished.]"
	runningText   = "[No result yet: this call is still running.]"
	maxQuote      = 2000
)

// Options say what a provider takes.
type Options struct {
	// Format is that of the provider's own messages.
	Format string
	// ModelCall closes a request that would end with a message of the model.
	ModelCall bool
	// Merge makes one turn of neighbors of one role.
	Merge bool
	// ValidID reports whether an id may be used as it is; MaxID is the longest.
	ValidID func(id string) bool
	MaxID   int
	// ValidName and MaxName say the same of the names of tools.
	ValidName func(name string) bool
	MaxName   int
	// Send returns the part as it may be sent in a message of that role, and
	// false when it may not; raw is the part's own form in a message of the
	// provider's format, nil if there is none.
	Send func(role session.Role, m *session.Message, p session.Part) (session.Part, bool)
	// Split takes the raw parts of a message's record apart, as many as the
	// message has parts; nil when they cannot be told.
	Split func(m *session.Message) []json.RawMessage
}

// Part is a part with its own form on the wire, if it has one.
type Part struct {
	session.Part
	Raw json.RawMessage
}

// Turn is one message of the request.
type Turn struct {
	// Role is user or assistant.
	Role session.Role
	// Parts hold the results first.
	Parts []Part
	// At is the first position on the surface; -1 for what was inserted.
	At int
}

// Build makes the turns of a surface. The error says which message could not be
// read from the store.
func Build(v session.View, opts Options) ([]Turn, *wire.RequestReport, error) {
	b := &builder{v: v, opts: opts, pairs: toolpairing.Of(v), ids: map[string]int{}, report: &wire.RequestReport{}}
	var err error
	if b.messages, err = v.Messages(); err != nil {
		return nil, nil, fmt.Errorf("build request: %w", err)
	}
	b.run()
	return b.turns, b.report, nil
}

type builder struct {
	v        session.View
	opts     Options
	pairs    *toolpairing.Index
	messages []*session.Message
	turns    []Turn
	ids      map[string]int // in use on the wire; with the number to try next
	report   *wire.RequestReport
}

func (b *builder) run() {
	orphans := map[[2]int]bool{}
	for _, p := range b.pairs.Diagnose() {
		switch p.Kind {
		case toolpairing.OrphanResult, toolpairing.DuplicateResult, toolpairing.ResultBeforeCall:
			orphans[[2]int{p.Position, p.Index}] = true
		}
	}
	for i, m := range b.messages {
		switch {
		case m.Role == session.RoleTool:
			b.tool(i, m, orphans)
		case m.Role == session.RoleAssistant:
			b.assistant(i, m)
		case m.Role == session.RoleUser || compact.IsCheckpointSource(m.Source):
			b.push(session.RoleUser, i, b.sendable(session.RoleUser, i, m))
		default:
			parts := b.sendable(session.RoleUser, i, m)
			if len(parts) > 0 {
				b.report.Notes = append(b.report.Notes, i)
				parts = append([]Part{{Part: session.Text{Text: noteText}}}, parts...)
			}
			b.push(session.RoleUser, i, parts)
		}
	}
	if len(b.turns) == 0 || b.turns[0].Role != session.RoleUser {
		b.report.Opened = true
		b.turns = slices.Insert(b.turns, 0, Turn{Role: session.RoleUser, Parts: []Part{{Part: session.Text{Text: openText}}}, At: -1})
	}
	if b.opts.ModelCall && b.turns[len(b.turns)-1].Role == session.RoleAssistant {
		b.report.Closed = true
		b.turns = append(b.turns, Turn{Role: session.RoleUser, Parts: []Part{{Part: session.Text{Text: closeText}}}, At: -1})
	}
}

// push adds a message, to its predecessor where that is of the same role.
func (b *builder) push(role session.Role, at int, parts []Part) {
	if len(parts) == 0 {
		if at >= 0 && !slices.Contains(b.report.Dropped, at) {
			b.report.Dropped = append(b.report.Dropped, at)
		}
		return
	}
	if n := len(b.turns) - 1; b.opts.Merge && n >= 0 && b.turns[n].Role == role {
		if at >= 0 && b.messages[at].Role != session.RoleTool {
			b.report.Merged++
		}
		b.turns[n].Parts = append(b.turns[n].Parts, parts...)
		return
	}
	b.turns = append(b.turns, Turn{Role: role, Parts: parts, At: at})
}

// sendable are the parts of a message that may be sent, calls and results left
// out.
func (b *builder) sendable(role session.Role, at int, m *session.Message) []Part {
	var raws []json.RawMessage
	if m.Origin != nil && m.Origin.Format == b.opts.Format && b.opts.Split != nil {
		if raws = b.opts.Split(m); len(raws) != len(m.Parts) {
			raws = nil
		}
	}
	var out []Part
	for i, p := range m.Parts {
		switch p.(type) {
		case session.ToolCall, session.ToolResult:
			continue
		}
		if t, ok := p.(session.Text); ok && strings.TrimSpace(t.Text) == "" {
			continue
		}
		q, ok := b.opts.Send(role, m, Clean(p))
		if !ok {
			b.report.Unsent = append(b.report.Unsent, wire.PartAt{Position: at, Kind: kind(p)})
			if q == nil {
				continue
			}
		}
		part := Part{Part: q}
		if t, isText := p.(session.Text); isText && raws != nil {
			if u, same := q.(session.Text); same && u == t {
				part.Raw = raws[i]
			}
		}
		out = append(out, part)
	}
	return out
}

func kind(p session.Part) string {
	switch p := p.(type) {
	case session.Text:
		return "text"
	case session.Image:
		return "image"
	case session.File:
		return "file"
	case session.Reasoning:
		return "reasoning"
	case session.Opaque:
		return p.Kind
	}
	return "call"
}

// Clean replaces bytes of a part's text that are not UTF-8.
func Clean(p session.Part) session.Part {
	switch p := p.(type) {
	case session.Text:
		p.Text = strings.ToValidUTF8(p.Text, "\uFFFD")
		return p
	case session.ToolCall:
		p.Arguments = strings.ToValidUTF8(p.Arguments, "\uFFFD")
		return p
	}
	return p
}

// assistant adds a message of the model and the results of its calls.
func (b *builder) assistant(i int, m *session.Message) {
	parts := b.sendable(session.RoleAssistant, i, m)
	var ids []string
	for _, p := range m.Parts {
		c, ok := Clean(p).(session.ToolCall)
		if !ok {
			continue
		}
		id := b.wireID(c.ID)
		if id != c.ID {
			b.report.Renamed = append(b.report.Renamed, wire.CallAt{Position: i, CallID: c.ID, WireID: id})
			c.ID = id
		}
		if name := b.Name(c.Name); name != c.Name {
			c.Name = name
		}
		ids = append(ids, id)
		parts = append(parts, Part{Part: c})
	}
	// Reasoning alone is nothing that could be sent.
	if !slices.ContainsFunc(parts, func(p Part) bool { _, ok := p.Part.(session.Reasoning); return !ok }) {
		parts = nil
	}
	b.push(session.RoleAssistant, i, parts)
	if len(ids) == 0 {
		return
	}
	var results []Part
	for k, id := range m.Calls() {
		pos, ok := b.pairs.Answered(i, k)
		if !ok {
			text := abandonedText
			switch b.v.CallPhase(b.v.Node(i).Seq, id) {
			case session.CallRunning, session.CallStarted:
				text = runningText
			}
			b.report.Synthetic = append(b.report.Synthetic, wire.CallAt{Position: i, CallID: id, WireID: ids[k]})
			results = append(results, Part{Part: session.ToolResult{CallID: ids[k], Name: b.callName(m, k), IsError: true,
				Parts: []session.Part{session.Text{Text: text}}}})
			continue
		}
		for q := i + 1; q < pos; q++ {
			if b.messages[q].Role != session.RoleTool {
				if !slices.Contains(b.report.Moved, pos) {
					b.report.Moved = append(b.report.Moved, pos)
				}
				break
			}
		}
		r := b.result(pos, i, k)
		r.CallID = ids[k]
		if r.Name = b.callName(m, k); r.Parts == nil {
			r.Parts = []session.Part{}
		}
		results = append(results, Part{Part: r})
	}
	b.push(session.RoleUser, -1, results)
}

func (b *builder) callName(m *session.Message, k int) string {
	for _, p := range m.Parts {
		if c, ok := p.(session.ToolCall); ok {
			if k == 0 {
				return b.Name(c.Name)
			}
			k--
		}
	}
	return ""
}

// result is the result that answers the k-th call of the message at i.
func (b *builder) result(pos, i, k int) session.ToolResult {
	m := b.messages[pos]
	n := 0
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			continue
		}
		if q, index, ok := b.pairs.CallOf(pos, n); ok && q == i && index == k {
			out := r
			out.Parts = nil
			for _, p := range r.Parts {
				if t, isText := p.(session.Text); isText && t.Text == "" && len(r.Parts) > 1 {
					continue
				}
				q, ok := b.opts.Send(session.RoleTool, m, Clean(p))
				if !ok {
					b.report.Unsent = append(b.report.Unsent, wire.PartAt{Position: pos, Kind: kind(p)})
				}
				if q != nil {
					out.Parts = append(out.Parts, q)
				}
			}
			return out
		}
		n++
	}
	return session.ToolResult{}
}

// tool adds what of a tool message belongs to no call.
func (b *builder) tool(i int, m *session.Message, orphans map[[2]int]bool) {
	n := 0
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			continue
		}
		if orphans[[2]int{i, n}] {
			b.report.Quoted = append(b.report.Quoted, wire.CallAt{Position: i, CallID: r.CallID})
			b.push(session.RoleUser, i, []Part{{Part: session.Text{Text: Quote(r)}}})
		}
		n++
	}
	if n < len(m.Parts) {
		if parts := b.sendable(session.RoleUser, i, m); len(parts) > 0 {
			b.push(session.RoleUser, i, parts)
		}
	}
}

// Quote makes a note of a result without a call: every line marked, its middle
// left out when it is long.
func Quote(r session.ToolResult) string {
	text := strings.ToValidUTF8(session.TextOf(r.Parts), "\uFFFD")
	if len(text) > maxQuote {
		head, tail := maxQuote*3/4, len(text)-maxQuote/4
		for text[head]&0xc0 == 0x80 {
			head--
		}
		for text[tail]&0xc0 == 0x80 {
			tail++
		}
		text = text[:head] + fmt.Sprintf("\n[%d bytes left out]\n", tail-head) + text[tail:]
	}
	id := r.CallID
	if len(id) > 80 {
		id = strings.ToValidUTF8(id[:80], "\uFFFD") + "…"
	}
	return fmt.Sprintf("[Result of a tool whose call does not stand before it in this conversation, quoted as data (call id %q):]\n> %s",
		id, strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\n> "))
}

// wireID returns the id of the next call on the wire: its own, unless it is in
// use already or the provider does not take it.
func (b *builder) wireID(id string) string {
	base := id
	if id == "" || len(id) > b.opts.MaxID || !b.opts.ValidID(id) {
		sum := sha256.Sum256([]byte(id))
		base = "call_" + hex.EncodeToString(sum[:8])
	}
	out := base
	n := max(2, b.ids[base])
	for ; b.ids[out] > 0; n++ {
		suffix := "_" + strconv.Itoa(n)
		out = base[:min(len(base), b.opts.MaxID-len(suffix))] + suffix
	}
	b.ids[base] = n
	b.ids[out] = max(1, b.ids[out])
	return out
}

// Name is the name of a tool on the wire.
func (b *builder) Name(name string) string { return b.opts.Name(name) }

// Unique says that a name on the wire is the first of its kind, since providers
// refuse tools of equal names; used are those so far.
func Unique(used map[string]bool, name string) bool {
	was := used[name]
	used[name] = true
	return !was
}

// Name is the name of a tool on the wire: its own, unless the provider does not
// take it.
func (o *Options) Name(name string) string {
	if name != "" && len(name) <= o.MaxName && o.ValidName(name) {
		return name
	}
	var s strings.Builder
	for _, r := range name {
		if r < 0x80 && o.ValidName("a"+string(r)) {
			s.WriteRune(r)
		} else {
			s.WriteByte('_')
		}
	}
	out := s.String()
	if out == "" || !o.ValidName(out[:1]) {
		out = "t" + out
	}
	return out[:min(len(out), o.MaxName)]
}

// Alphabet reports whether s has only letters, digits and the other characters.
func Alphabet(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(others, c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// Plain are the parts without their own forms.
func (t *Turn) Plain() []session.Part {
	out := make([]session.Part, len(t.Parts))
	for i, p := range t.Parts {
		out[i] = p.Part
	}
	return out
}
