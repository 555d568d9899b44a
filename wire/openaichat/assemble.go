package openaichat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// item is one message of the request.
type item struct {
	o  object
	at int // position in the report; -1 for the envelope and what was inserted
}

func (it item) role() string { s, _ := it.o.str("role"); return s }

// assembler makes the messages of one request.
type assembler struct {
	v        session.View
	base     int
	messages []*session.Message
	pairs    *toolpairing.Index
	opts     RequestOptions
	ids      map[string]int // in use on the wire; with the number to try next
	items    []item
	report   Report
}

func (a *assembler) run(env *session.Envelope) {
	for i := range env.System {
		a.system(&env.System[i], -1)
	}
	i := 0
	for ; i < len(a.messages) && leading(a.messages[i]); i++ {
		a.system(a.messages[i], a.base+i)
	}
	lead := len(a.items)
	kinds := a.kinds()
	for ; i < len(a.messages); i++ {
		m := a.messages[i]
		switch {
		case m.Role == session.RoleTool:
			a.toolMessage(i, m, kinds)
		case compact.IsCheckpointSource(m.Source) || m.Role == session.RoleUser:
			a.user(i, m)
		case m.Role == session.RoleAssistant:
			a.assistant(i, m)
		default:
			a.systemNote(i, m)
		}
	}
	if len(a.items) == lead || a.items[lead].role() != "user" {
		a.report.Opened = true
		a.items = slices.Insert(a.items, lead, item{textMessage("user", openText), -1})
	}
	if a.opts.ModelCall && a.items[len(a.items)-1].role() == "assistant" {
		a.report.Closed = true
		a.items = append(a.items, item{textMessage("user", closeText), -1})
	}
	if a.opts.StrictAlternation {
		a.merge()
	}
}

type ref struct{ pos, index int }

// kinds says what is wrong with results, by position and index.
func (a *assembler) kinds() map[ref]toolpairing.Kind {
	var out map[ref]toolpairing.Kind
	for _, p := range a.pairs.Diagnose() {
		switch p.Kind {
		case toolpairing.OrphanResult, toolpairing.DuplicateResult, toolpairing.ResultBeforeCall:
			if out == nil {
				out = make(map[ref]toolpairing.Kind)
			}
			out[ref{p.Position, p.Index}] = p.Kind
		}
	}
	return out
}

func (a *assembler) push(o object, at int) { a.items = append(a.items, item{o, at}) }

func textMessage(role, text string) object {
	return object{{"role", quote(role)}, {"content", quote(text)}}
}

func (a *assembler) system(m *session.Message, at int) {
	o := a.plain(m, at)
	if emptyContent(o.get("content")) {
		if at >= 0 {
			a.report.Dropped = append(a.report.Dropped, at)
		}
		return
	}
	a.push(o, at)
}

func (a *assembler) user(i int, m *session.Message) {
	if m.Role != session.RoleUser {
		c := *m
		c.Role = session.RoleUser
		m = &c
	}
	o := a.plain(m, a.base+i)
	if emptyContent(o.get("content")) {
		a.report.Dropped = append(a.report.Dropped, a.base+i)
		return
	}
	a.push(o, a.base+i)
}

// systemNote puts a system message in mid-conversation into the user role.
func (a *assembler) systemNote(i int, m *session.Message) {
	at := a.base + i
	content := a.plain(m, at).get("content")
	if emptyContent(content) {
		a.report.Dropped = append(a.report.Dropped, at)
		return
	}
	a.report.Notes = append(a.report.Notes, at)
	content = joinContent(quote(noteText), content, "\n")
	a.push(object{{"role", quote("user")}, {"content", content}}, at)
}

// assistant adds a message of the model and the results of its calls.
func (a *assembler) assistant(i int, m *session.Message) {
	at := a.base + i
	o := a.plain(m, at)
	var calls []json.RawMessage
	var ids []string
	for _, p := range m.Parts {
		c, ok := p.(session.ToolCall)
		if !ok {
			continue
		}
		id := a.wireID(c.ID)
		if id != c.ID {
			a.report.Renamed = append(a.report.Renamed, Renamed{at, len(ids), c.ID, id})
		}
		ids = append(ids, id)
		if c.Name != "" {
			c.Name = toolNames.Name(c.Name)
		}
		calls = append(calls, wireCall(c, id))
	}
	if calls == nil {
		o.drop("tool_calls")
		spoken := !isNull(o.get("refusal")) || !isNull(o.get("audio"))
		if emptyContent(o.get("content")) && !spoken {
			a.report.Dropped = append(a.report.Dropped, at)
			return
		}
	} else {
		o.set("tool_calls", array(calls))
		if len(o.get("content")) > 0 && o.get("content")[0] == '[' && emptyContent(o.get("content")) {
			o.set("content", json.RawMessage("null"))
		}
	}
	a.push(o, at)
	a.results(i, m, ids)
}

// results adds one result for each call of the message at position i.
func (a *assembler) results(i int, m *session.Message, ids []string) {
	var attached []item
	for k, id := range m.Calls() {
		pos, ok := a.pairs.Answered(i, k)
		if !ok {
			phase := a.v.CallPhase(a.v.Node(i).Seq, id)
			running := phase == session.CallRunning || phase == session.CallStarted
			a.report.Synthetic = append(a.report.Synthetic, Synthetic{a.base + i, id, ids[k], running})
			text := abandonedText
			if running {
				text = runningText
			}
			a.push(object{{"role", quote("tool")}, {"tool_call_id", quote(ids[k])}, {"content", quote(text)}}, -1)
			continue
		}
		for q := i + 1; q < pos; q++ {
			if a.messages[q].Role != session.RoleTool {
				if at := a.base + pos; !slices.Contains(a.report.Moved, at) {
					a.report.Moved = append(a.report.Moved, at)
				}
				break
			}
		}
		a.push(a.result(pos, ref{i, k}, ids[k], &attached), a.base+pos)
	}
	a.items = append(a.items, attached...)
}

// result makes the tool message that answers a call. Pictures and files that a
// tool message cannot hold go to attached, as a user message.
func (a *assembler) result(pos int, call ref, id string, attached *[]item) object {
	m := a.messages[pos]
	n := 0
	var r session.ToolResult
	for _, p := range m.Parts {
		t, ok := p.(session.ToolResult)
		if !ok {
			continue
		}
		if p, k, ok := a.pairs.CallOf(pos, n); ok && p == call.pos && k == call.index {
			r = t
			break
		}
		n++
	}
	if raw := original(m); raw != nil && len(m.Results()) == 1 {
		o, _ := parseObject(raw)
		o = clean(o, session.RoleTool)
		o.set("tool_call_id", quote(id))
		if isNull(o.get("content")) || emptyContent(o.get("content")) {
			o.set("content", quote(""))
		}
		return o
	}
	var text, other []session.Part
	for _, p := range r.Parts {
		switch p := p.(type) {
		case session.Text:
			text = append(text, p)
		case session.Opaque:
			if !a.sendable(m, p) {
				a.report.Unsent = append(a.report.Unsent, Unsent{a.base + pos, p.Kind})
				continue
			}
			other = append(other, p)
		default:
			other = append(other, p)
		}
	}
	o := object{{"role", quote("tool")}, {"tool_call_id", quote(id)}}
	if r.Name != "" && validName(r.Name) {
		o = append(o, member{"name", quote(r.Name)})
	}
	o = append(o, member{"content", encodeContent(text, false, `""`)})
	if other != nil {
		content := joinContent(quote(attachedText(id)), encodeContent(other, true, "[]"), "\n")
		*attached = append(*attached, item{object{{"role", quote("user")}, {"content", content}}, a.base + pos})
	}
	return o
}

// toolMessage adds what of a tool message belongs to no call: results became
// notes, other parts a user message.
func (a *assembler) toolMessage(i int, m *session.Message, kinds map[ref]toolpairing.Kind) {
	at := a.base + i
	n := 0
	var rest []session.Part
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			rest = append(rest, p)
			continue
		}
		if kind, bad := kinds[ref{i, n}]; bad {
			text, omitted := quoted(kind, r, a.opts.MaxNote)
			a.report.Quoted = append(a.report.Quoted, Quoted{at, r.CallID, kind, omitted})
			a.push(textMessage("user", text), at)
		}
		n++
	}
	if rest != nil {
		u := session.Message{Role: session.RoleUser, Parts: rest, Source: m.Source, Origin: m.Origin}
		if o := a.typed(&u, at); !emptyContent(o.get("content")) {
			a.push(o, at)
		}
	}
}

// plain makes the request form of a message without its calls and results: its
// record, when it has one, without what only the container knows.
func (a *assembler) plain(m *session.Message, at int) object {
	var o object
	if raw := original(m); raw != nil {
		o, _ = parseObject(raw) // original takes objects only
	} else {
		o = a.typed(m, at)
	}
	return clean(o, m.Role)
}

// typed makes a record of the parts that a chat can hold.
func (a *assembler) typed(m *session.Message, at int) object {
	foreign := m.Origin != nil && m.Origin.Format != Format
	c := *m
	c.Origin = nil
	if foreign {
		c.ID, c.Extra = "", nil
	}
	c.Parts = nil
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Opaque:
			if !a.sendable(m, p) {
				a.report.Unsent = append(a.report.Unsent, Unsent{at, p.Kind})
				continue
			}
		case session.Reasoning:
			var o object
			if addReasoning(&o, p); o == nil || foreign {
				a.report.Unsent = append(a.report.Unsent, Unsent{at, "reasoning"})
				continue
			}
		case session.ToolResult, session.ToolCall:
			continue
		}
		c.Parts = append(c.Parts, p)
	}
	return encode(&c, shape{})[0]
}

// sendable reports whether an opaque part is one of chat requests.
func (a *assembler) sendable(m *session.Message, p session.Opaque) bool {
	if m.Origin != nil && m.Origin.Format != Format {
		return false
	}
	if p.Kind == "refusal" {
		return m.Role == session.RoleAssistant
	}
	return hasType(p.Raw, "image_url", "input_audio", "file", "video_url", "audio_url")
}

// containerFields are those that agents write beside a message for themselves.
var containerFields = []string{"extra", "agent", "message_type", "thought", "action", "tool_call_ids", "is_demo", "tags",
	"provider_specific_fields", "function_call", "timestamp"}

// fieldOwners names the roles that fields belong to.
var fieldOwners = map[string]session.Role{"tool_calls": session.RoleAssistant, "refusal": session.RoleAssistant,
	"audio": session.RoleAssistant, "tool_call_id": session.RoleTool}

// clean takes out of a record what is no field of a request, and gives it the
// role and the content that a request needs.
func clean(o object, role session.Role) object {
	out := make(object, 0, len(o)+1)
	for _, m := range o {
		owner, owned := fieldOwners[m.key]
		if slices.Contains(containerFields, m.key) || out.get(m.key) != nil || owned && owner != role {
			continue
		}
		out = append(out, member{m.key, o.get(m.key)}) // the last of equals
	}
	if s, ok := out.str("name"); out.get("name") != nil && (!ok || !validName(s)) {
		out.drop("name")
	}
	// The id of an item goes with the reasoning that it needs, or not at all.
	if !slices.ContainsFunc(reasoningFields, func(k string) bool { return !isNull(out.get(k)) }) {
		out.drop("id")
	}
	out.set("role", quote(string(role)))
	content := out.get("content")
	if list, ok := elements(content); ok {
		out.set("content", cleanParts(list))
	} else if _, ok := asString(content); !ok && !isNull(content) {
		out.set("content", quote(argumentText(content)))
	} else if content == nil {
		out.set("content", json.RawMessage("null"))
	}
	return out
}

// cleanParts makes texts of what is no content part.
func cleanParts(list []json.RawMessage) json.RawMessage {
	for i, p := range list {
		o, ok := parseObject(p)
		kind, typed := o.str("type")
		switch {
		case !ok || !typed || kind == "":
			list[i] = textPart(argumentText(p))
		case kind == "text":
			if _, ok := o.str("text"); !ok {
				list[i] = textPart(argumentText(o.get("text")))
			}
		case kind == "image_url":
			if p, ok := decodeImage(o, p); !ok || p.(session.Image).URL == "" {
				list[i] = textPart(placeholder(session.Image{}))
			}
		}
	}
	return array(list)
}

// validName reports whether a participant name is one that providers take.
func validName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsAny(s, " \t\r\n<|\\/>")
}

// toolNames are the names of tools that OpenAI takes.
var toolNames = turns.Options{MaxName: 64, ValidName: validToolName}

func validToolName(s string) bool { return turns.Alphabet(s, "_-") }

// emptyContent reports whether a content value has neither text nor parts.
func emptyContent(v json.RawMessage) bool {
	if isNull(v) || string(v) == `""` {
		return true
	}
	list, ok := elements(v)
	if !ok {
		return false
	}
	for _, p := range list {
		o, _ := parseObject(p)
		if t, ok := o.str("text"); !ok || t != "" {
			return false
		}
	}
	return true
}
