package casetest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// parse expands and decodes the messages and tools of the case.
func (w *world) parse() error {
	for i, raw := range w.c.Given.Messages {
		m, err := parseMessage(raw)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		w.messages = append(w.messages, m)
	}
	for i, raw := range w.c.Given.Tools {
		t, err := parseTool(raw)
		if err != nil {
			return fmt.Errorf("tool %d: %w", i, err)
		}
		w.tools = append(w.tools, t)
	}
	return nil
}

func parseMessage(raw json.RawMessage) (session.Message, error) {
	full, err := expandJSON(raw)
	if err != nil {
		return session.Message{}, err
	}
	return openaichat.ParseMessage(full)
}

// parseTool reads a tool definition; a bare string names a tool without
// parameters.
func parseTool(raw json.RawMessage) (session.Tool, error) {
	full, err := expandJSON(raw)
	if err != nil {
		return session.Tool{}, err
	}
	var name string
	if json.Unmarshal(full, &name) == nil {
		full = fmt.Appendf(nil, `{"type":"function","function":{"name":%s}}`, full)
		return session.Tool{Name: name, Raw: full}, nil
	}
	var t struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if err := strict(full, &t); err != nil {
		return session.Tool{}, err
	}
	f := t.Function
	return session.Tool{Name: f.Name, Description: f.Description, Schema: f.Parameters, Raw: full}, nil
}

// earlierSummary returns the text of a user message that stands for the summary
// of an earlier compaction.
func earlierSummary(m *session.Message) (string, bool) {
	text := m.Text()
	rest, ok := strings.CutPrefix(text, "<summary>")
	if m.Role != session.RoleUser || !ok {
		return "", false
	}
	if i := strings.LastIndex(rest, "</summary>"); i >= 0 {
		rest = rest[:i]
	}
	return rest, true
}

// batch is events that are appended as one unit.
type batch struct {
	w      *world
	next   session.Seq
	shown  int // messages on the surface
	bodies []session.Body
}

func (w *world) batch() *batch {
	v := w.sess.View()
	return &batch{w: w, next: v.Next(), shown: v.Len()}
}

func (b *batch) add(body session.Body) session.Seq {
	b.bodies = append(b.bodies, body)
	b.next++
	return b.next - 1
}

func (b *batch) commit() error {
	if len(b.bodies) == 0 {
		return nil
	}
	_, err := b.w.sess.Record(b.w.real, b.bodies...)
	return err
}

func (b *batch) envelope() session.Seq {
	return b.add(session.SetEnvelope{Envelope: session.Envelope{Model: b.w.model, System: slices.Clone(b.w.system), Tools: b.w.tools}})
}

// append puts messages of the case at the tail, with what belongs to them. Each
// is one record of the log.
func (w *world) append(indexes ...int) error {
	if err := w.hideFolded(); err != nil {
		return err
	}
	b := w.batch()
	if e, _ := w.sess.View().Envelope(); e == nil {
		b.envelope()
	}
	for k := 0; k < len(indexes); k++ {
		i := indexes[k]
		m := &w.messages[i]
		if isSystem(string(m.Role)) && b.shown == 0 {
			// Leading system messages belong to the envelope.
			w.system = append(w.system, *m)
			w.records = append(w.records, b.envelope())
			continue
		}
		seq := b.message(m)
		w.seqs[i] = seq
		if slices.Contains(w.c.Given.Policy.Pinned, i) {
			b.add(session.Pin{Nodes: []session.Seq{seq}})
		}
		b.usage(i, seq)
		w.records = append(w.records, b.next-1)
	}
	return b.commit()
}

// message appends a message; one that stands for an earlier summary is fed as a
// checkpoint, and m becomes what is on the surface.
func (b *batch) message(m *session.Message) session.Seq {
	b.shown++
	text, ok := earlierSummary(m)
	if !ok {
		return b.add(session.Append{Message: *m})
	}
	hidden := b.add(session.Append{Message: session.UserText("an earlier part of the conversation")})
	seq, checkpoint := b.checkpoint(text, []session.Seq{hidden}, nil, hidden, hidden)
	*m = checkpoint
	return seq
}

// checkpoint folds what is gone into a summary, as a compaction of an earlier
// process did.
func (b *batch) checkpoint(text string, gone, keep []session.Seq, start, end session.Seq) (session.Seq, session.Message) {
	id := fmt.Sprintf("earlier-%d", len(b.w.loaded)+1)
	b.w.loaded[id] = true
	m := session.Message{
		Role: session.RoleUser,
		Parts: []session.Part{session.Text{Text: summarize.Compose(summarize.Composition{
			Narrative: text,
			Pointer:   compact.Pointer{Compaction: id, Start: slices.Min(gone), End: slices.Max(gone), Count: len(gone)}.String(),
		})}},
		Source: compact.CheckpointSource(id),
	}
	span := compact.Span{Start: start, End: end}
	b.begin(id, span)
	b.add(compact.Event(compact.SummaryEvent{ID: id, Summarizer: "earlier", Text: text, Span: span, Seqs: gone,
		Pricer: b.w.sess.Pricer().ID(), Trigger: compact.Now}))
	seq := b.add(session.Replace{Start: start, End: end, Keep: keep, Message: m})
	b.add(compact.Event(compact.EndEvent{ID: id}))
	return seq, m
}

// begin opens an attempt of a process that is dead.
func (b *batch) begin(id string, span compact.Span) {
	host, _ := os.Hostname()
	now := b.w.clk.now()
	b.add(compact.Event(compact.StartEvent{ID: id, Trigger: compact.Now, Span: span, Pricer: b.w.sess.Pricer().ID(),
		Holder: compact.Holder{Host: host, PID: deadPID, Run: id, Since: now, Until: now}}))
}

// deadPID is the id of no process: above what systems give.
const deadPID = 1 << 30

// usage books the reports that belong to message i. With i below zero it books
// those that belong to no message.
func (b *batch) usage(i int, seq session.Seq) {
	for _, u := range b.w.c.Given.Usage {
		if u.At == nil && i >= 0 || u.At != nil && *u.At != i {
			continue
		}
		out := session.Usage{
			Node: seq, Prompt: u.Prompt + u.Input + u.CacheRead + u.CacheCreate, Completion: u.Completion + u.Output,
			CacheRead: u.PromptDetails.Cached + u.CacheRead, CacheWrite: u.CacheCreate, Aggregate: u.TurnTotal,
		}
		if out.Prompt == 0 && u.Total > out.Completion {
			out.Prompt = u.Total - out.Completion // a report of the total only
		}
		if u.Session != "" && u.Session != b.w.c.Given.Session {
			out.Node = session.NoSeq // of another session
		}
		if s := b.w.c.Given.ModelSwitch; s != nil && u.Window > 0 {
			switch u.Window {
			case s.From:
				out.Model = agentModel
			case s.To:
				out.Model = nextModel
			}
		}
		b.add(out)
	}
}

// appendOther puts a message at the tail that is none of the case's.
func (w *world) appendOther(m session.Message) error {
	b := w.batch()
	b.add(session.Append{Message: m})
	w.records = append(w.records, b.next-1)
	return b.commit()
}

// load loads messages in one go.
func (w *world) load(o op) error {
	from, to := o.a, o.b
	if o.all {
		from, to = 0, len(w.messages)-1
	}
	var list []int
	for i := from; i <= to; i++ {
		list = append(list, i)
	}
	if err := w.append(list...); err != nil {
		return err
	}
	return w.looseUsage()
}

func (w *world) looseUsage() error {
	b := w.batch()
	b.usage(-1, session.NoSeq)
	return b.commit()
}

// hideFolded writes the calls that an earlier compaction folded into a log that
// is empty. They are not on the surface: the case says itself what stands there.
func (w *world) hideFolded() error {
	ids := w.c.Given.LogFoldedCalls
	if len(ids) == 0 || w.sess.View().Next() > 0 {
		return nil
	}
	b := w.batch()
	b.envelope()
	var calls []session.ToolCall
	for _, id := range ids {
		calls = append(calls, session.ToolCall{ID: id, Name: "earlier", Arguments: "{}"})
	}
	seq := b.add(session.Append{Message: session.AssistantText("", calls...)})
	b.add(session.Rewind{To: seq - 1})
	return b.commit()
}

// tellCalls tells the session what the host knows of its calls: of those without
// a result the running ones run, and the others are abandoned. A call that runs
// on after an interim result has its round pinned for as long.
func (w *world) tellCalls() error {
	v := w.sess.View()
	bodies := w.interimPins(v)
	for i := range v.Len() {
		n := v.Node(i)
		for _, id := range openCalls(v, i) {
			phase := session.CallAbandoned
			if w.running[id] {
				phase = session.CallRunning
			}
			if v.CallPhase(n.Seq, id) != phase {
				bodies = append(bodies, session.CallState{Node: n.Seq, CallID: id, Phase: phase})
			}
		}
	}
	if len(bodies) == 0 {
		return nil
	}
	_, err := w.sess.Record(w.real, bodies...)
	return err
}

// interimPins pins the rounds of calls that run on after an interim result, and
// unpins those whose calls have ended.
func (w *world) interimPins(v session.View) []session.Body {
	var bodies []session.Body
	for i := range v.Len() {
		n := v.Node(i)
		open := openCalls(v, i)
		interim := slices.ContainsFunc(n.Calls(), func(id string) bool { return w.running[id] && !slices.Contains(open, id) })
		if interim && !v.Pinned(n.Seq) {
			w.interim[n.Seq] = true
			bodies = append(bodies, session.Pin{Nodes: []session.Seq{n.Seq}})
		}
		if !interim && w.interim[n.Seq] {
			delete(w.interim, n.Seq)
			bodies = append(bodies, session.Pin{Nodes: []session.Seq{n.Seq}, Off: true})
		}
	}
	return bodies
}

// openCalls returns the calls of the message at position i that no later
// message answers before the id is used again.
func openCalls(v session.View, i int) []string {
	var open []string
	for _, id := range v.Node(i).Calls() {
		answered := false
		for j := i + 1; j < v.Len() && !answered; j++ {
			n := v.Node(j)
			answered = slices.Contains(n.Results(), id)
			if slices.Contains(n.Calls(), id) {
				break
			}
		}
		if !answered {
			open = append(open, id)
		}
	}
	return open
}
