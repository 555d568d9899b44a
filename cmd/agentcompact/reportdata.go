package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/tokencount/models"
)

// pageData is what the report shows. It is JSON too, without the messages.
type pageData struct {
	Name          string           `json:"name"`
	Format        string           `json:"format"`
	Container     string           `json:"container,omitempty"`
	Model         string           `json:"model,omitempty"`
	Window        int              `json:"window,omitempty"`
	Conversation  int              `json:"conversation"`
	Conversations int              `json:"conversations"`
	Messages      int              `json:"messages"`
	Hidden        int              `json:"hidden"`
	Tokens        int              `json:"tokens"`
	Peak          int              `json:"peak"`
	From          time.Time        `json:"from,omitzero"`
	To            time.Time        `json:"to,omitzero"`
	Marks         []*checkpointRow `json:"checkpoints"`
	// Foreign counts checkpoints of another program, which are not among them.
	Foreign  int       `json:"foreign"`
	ByRole   []share   `json:"by_role"`
	ByTool   []share   `json:"by_tool"`
	ByFile   []share   `json:"by_file"`
	Problems []problem `json:"problems"`
	Cost     *spent    `json:"cost"`
	Notes    []string  `json:"notes,omitempty"`

	Chart  chart     `json:"-"`
	Items  []*item   `json:"-"` // the surface, in order
	Undone []*item   `json:"-"` // checkpoints that were undone
	Left   int       `json:"-"` // messages whose text was left out
	Made   time.Time `json:"-"`
}

// share is a part of what the window holds.
type share struct {
	Name   string  `json:"name"`
	Tokens int     `json:"tokens"`
	Share  float64 `json:"share"` // of the window's content, in percent
	Class  string  `json:"-"`
}

// checkpointRow is one checkpoint in the list under the chart.
type checkpointRow struct {
	Number     int         `json:"number"`
	ID         string      `json:"id"`
	Seq        session.Seq `json:"seq"`
	State      string      `json:"state"`
	Trigger    string      `json:"trigger,omitempty"`
	Summarizer string      `json:"summarizer,omitempty"`
	Time       time.Time   `json:"time,omitzero"`
	Hides      int         `json:"hides"`
	Before     int         `json:"before,omitempty"`
	After      int         `json:"after,omitempty"`
}

// item is a message of the timeline, or a checkpoint with what it hides.
type item struct {
	Seq    session.Seq
	Role   string
	Tokens int
	Head   string // its beginning on one line
	Text   string
	Cut    int // bytes of the text that are left out
	Pinned bool
	Pruned bool
	Failed bool
	Check  *checkpointItem
}

type checkpointItem struct {
	checkpointRow
	Narrative string
	Ledger    *summarize.Ledger
	Hidden    []*item
}

// spent is what the session has cost, as far as it is recorded.
type spent struct {
	Requests   int `json:"requests"`
	Prompt     int `json:"prompt"`
	Completion int `json:"completion"`
	CacheRead  int `json:"cache_read"`
	// Dollars is 0 when the model has no known price.
	Dollars float64 `json:"dollars,omitempty"`
	// Calls are the summarizer's.
	Calls        int     `json:"summarizer_calls"`
	CallTokens   int     `json:"summarizer_tokens"`
	CallDollars  float64 `json:"summarizer_dollars,omitempty"`
	NextRequest  float64 `json:"next_request,omitempty"`
	WithoutThem  float64 `json:"without_checkpoints,omitempty"`
	HiddenTokens int     `json:"hidden_tokens"`
}

// The bounds of what the page shows of texts, without --full.
const pageMessage = 4 << 10

// pageTotal is a variable for tests only.
var pageTotal = 6 << 20

// pageMaker collects the data of a report.
type pageMaker struct {
	in     *input
	v      session.View
	h      compact.History
	full   bool
	bytes  int
	price  map[session.Seq]int
	names  map[string]string // tool of a call id, the newest
	rows   map[session.Seq]*checkpointRow
	data   *pageData
	pricer session.Pricer
}

func makePage(in *input, window int, full bool) (*pageData, error) {
	v := in.session.View()
	p := &pageMaker{in: in, v: v, h: compact.HistoryAt(v), full: full, price: map[session.Seq]int{}, names: map[string]string{},
		rows: map[session.Seq]*checkpointRow{}, pricer: in.session.Pricer()}
	_, model := compact.Agent{Session: in.session}.Route()
	d := &pageData{Name: filepath.Base(in.path), Format: in.format(), Model: model, Window: window, Conversation: in.index + 1,
		Conversations: in.conversations(), Messages: v.Len(), Tokens: counted(v), Problems: problems(in.session), Notes: in.notes, Made: time.Now(),
		Marks: []*checkpointRow{}}
	p.data = d
	if d.Foreign = foreign(in, v); d.Foreign > 0 {
		d.Notes = append(slices.Clone(d.Notes), foreignWords(d.Foreign))
	}
	if in.file != nil {
		d.Container = in.file.Container
	}
	if m, ok := models.Embedded().Lookup(model); ok && window == 0 {
		d.Window = m.Window
	}
	for _, e := range recall.List(v) {
		if e.Pruned {
			continue
		}
		r := &checkpointRow{Number: len(d.Marks) + 1, ID: e.ID, Seq: e.Seq, State: stateOf(e), Trigger: string(e.Trigger), Summarizer: e.Summarizer,
			Time: e.Time, Hides: len(e.Seqs), Before: e.Before, After: e.After}
		d.Marks = append(d.Marks, r)
		p.rows[e.Seq] = r
	}
	if err := p.priceAll(); err != nil {
		return nil, err
	}
	if err := p.course(); err != nil {
		return nil, err
	}
	if err := p.occupancy(); err != nil {
		return nil, err
	}
	p.costs()
	for i := range v.Len() {
		d.Items = append(d.Items, p.item(v.Node(i).Seq))
	}
	for _, r := range d.Marks {
		if r.State == "undone" {
			d.Undone = append(d.Undone, p.item(r.Seq))
		}
	}
	return d, nil
}

// priceAll prices every message in the log and learns which tool a call is of.
func (p *pageMaker) priceAll() error {
	for ev := range p.v.Events(0) {
		if ev.Type != session.TypeMessage && ev.Type != session.TypeReplace {
			continue
		}
		m, err := ev.Message()
		if err != nil {
			return err
		}
		p.price[ev.Seq] = p.pricer.Price(m)
		for _, part := range m.Parts {
			if c, ok := part.(session.ToolCall); ok {
				p.names[c.ID] = c.Name
			}
		}
		t := ev.Time
		if p.in.conv != nil { // the log beside a file knows only when it was imported
			if t = (time.Time{}); ev.Type == session.TypeMessage && !p.in.restored {
				if i, ok := p.in.entries.of(ev.Seq); ok {
					if e, err := p.in.conv.At(i); err == nil {
						t = e.Time
					}
				}
			}
		}
		if t.IsZero() {
			continue
		}
		if p.data.From.IsZero() || t.Before(p.data.From) {
			p.data.From = t
		}
		if t.After(p.data.To) {
			p.data.To = t
		}
	}
	return nil
}

var pathLike = regexp.MustCompile(`(?:[\w.@~-]*/)+[\w.@-]*\w|[\w@-]+\.(?:go|py|js|ts|tsx|jsx|rs|c|h|cc|cpp|java|rb|md|json|yaml|yml|toml|txt|html|css|sh|sql)\b`)

// fileOf returns the file that a call is about; empty when it names none.
func fileOf(args string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &fields) == nil {
		for _, k := range []string{"path", "file_path", "filePath", "filename", "file", "notebook_path"} {
			var s string
			if json.Unmarshal(fields[k], &s) == nil && s != "" {
				return s
			}
		}
		for _, k := range []string{"command", "cmd"} {
			var s string
			if json.Unmarshal(fields[k], &s) == nil {
				args = s
			}
		}
	}
	for _, m := range pathLike.FindAllString(args, 8) {
		if strings.Contains(filepath.Base(m), ".") { // no folder
			return m
		}
	}
	return ""
}

// occupancy says what the window holds now.
func (p *pageMaker) occupancy() error {
	role, tool, file := map[string]int{}, map[string]int{}, map[string]int{}
	if t := p.v.EnvelopeTokens(); t > 0 {
		role["system"] += t
	}
	about := map[string]string{} // file of a call id
	for i := range p.v.Len() {
		n := p.v.Node(i)
		m, err := p.v.Message(i)
		if err != nil {
			return err
		}
		name := string(n.Role())
		if compact.IsCheckpointSource(n.Source()) {
			name = "checkpoint"
		}
		role[name] += int(n.Tokens)
		calls := m.Calls()
		for _, part := range m.Parts {
			switch part := part.(type) {
			case session.ToolCall:
				about[part.ID] = fileOf(part.Arguments)
				tool[part.Name] += int(n.Tokens) / len(calls)
				if f := about[part.ID]; f != "" {
					file[f] += int(n.Tokens) / len(calls)
				}
			case session.ToolResult:
				t := int(n.Tokens) / max(len(m.Results()), 1)
				tool[cmp.Or(part.Name, p.names[part.CallID], "unknown tool")] += t
				if f := about[part.CallID]; f != "" {
					file[f] += t
				}
			}
		}
	}
	total := max(p.data.Tokens, 1)
	p.data.ByRole, p.data.ByTool, p.data.ByFile = shares(role, total, 8), shares(tool, total, 10), shares(file, total, 12)
	for i := range p.data.ByRole {
		p.data.ByRole[i].Class = p.data.ByRole[i].Name
	}
	return nil
}

// shares sorts parts by size; what does not fit in n rows is one row.
func shares(parts map[string]int, total, n int) []share {
	out := []share{}
	for name, t := range parts {
		out = append(out, share{Name: name, Tokens: t, Share: 100 * float64(t) / float64(total)})
	}
	slices.SortFunc(out, func(a, b share) int { return cmp.Or(b.Tokens-a.Tokens, strings.Compare(a.Name, b.Name)) })
	if len(out) > n {
		rest := share{Name: fmt.Sprintf("%d more", len(out)-n)}
		for _, s := range out[n:] {
			rest.Tokens += s.Tokens
			rest.Share += s.Share
		}
		out = append(out[:n:n], rest)
	}
	return out
}

// costs adds up what is recorded.
func (p *pageMaker) costs() {
	c := &spent{}
	p.data.Cost = c
	add := func(u session.Usage) {
		c.Requests++
		c.Prompt += u.Prompt
		c.Completion += u.Completion
		c.CacheRead += u.CacheRead
		if m, ok := models.Embedded().Lookup(cmp.Or(u.Model, p.data.Model)); ok {
			c.Dollars += dollars(m, u.Prompt, u.Completion, u.CacheRead)
		}
	}
	for ev := range p.v.Events(0) {
		if ev.Type != session.TypeUsage {
			continue
		}
		if b, err := ev.Body(); err == nil {
			add(*b.(*session.Usage))
		}
	}
	if p.in.conv != nil {
		for i := range p.in.conv.Len() {
			if e, err := p.in.conv.At(i); err == nil && e.Usage != nil {
				add(*e.Usage)
			}
		}
	}
	for _, a := range p.h.Attempts {
		if a.End == nil {
			continue
		}
		for _, call := range a.End.Calls {
			c.Calls++
			c.CallTokens += call.Prompt + call.Completion
			if m, ok := models.Embedded().Lookup(call.Model); ok {
				c.CallDollars += dollars(m, call.Prompt, call.Completion, call.CacheRead)
			}
		}
	}
	visible := map[session.Seq]bool{}
	for i := range p.v.Len() {
		visible[p.v.Node(i).Seq] = true
	}
	for ev := range p.v.Events(0) {
		if ev.Type == session.TypeMessage && !visible[ev.Seq] {
			p.data.Hidden++
			c.HiddenTokens += p.price[ev.Seq]
		}
	}
	if m, ok := models.Embedded().Lookup(p.data.Model); ok {
		c.NextRequest = dollars(m, p.data.Tokens, 0, 0)
		c.WithoutThem = dollars(m, p.data.Tokens+c.HiddenTokens, 0, 0)
	}
}

func dollars(m models.Model, prompt, completion, cached int) float64 {
	read := m.Price.CacheRead
	if read == 0 {
		read = m.Price.Input
	}
	return (float64(max(prompt-cached, 0))*m.Price.Input + float64(cached)*read + float64(completion)*m.Price.Output) / 1e6
}

// item makes the entry of a message, with what it hides if it is a checkpoint.
func (p *pageMaker) item(seq session.Seq) *item {
	it := &item{Seq: seq, Tokens: p.price[seq], Pinned: p.v.Pinned(seq)}
	ev, err := p.v.Event(seq)
	if err != nil {
		return it
	}
	m, err := ev.Message()
	if err != nil {
		it.Role, it.Head = "error", err.Error()
		return it
	}
	it.Role, it.Pruned = string(m.Role), m.Source.Form == compact.FormPruned
	for _, part := range m.Parts {
		if r, ok := part.(session.ToolResult); ok && r.IsError {
			it.Failed = true
		}
	}
	text, err := recall.Transcript(p.v, seq)
	if err != nil {
		text = err.Error()
	}
	_, text, _ = strings.Cut(text, "\n")
	text = strings.ToValidUTF8(text, "\uFFFD")
	it.Head = short(visible(text[:min(len(text), 600)]), 140)
	limit := len(text)
	if !p.full {
		if limit = min(limit, pageMessage); p.bytes+limit > pageTotal {
			limit = 0
			p.data.Left++
		}
	}
	it.Text = visible(strings.ToValidUTF8(text[:limit], ""))
	it.Cut = len(text) - limit
	p.bytes += limit
	if row := p.rows[seq]; row != nil {
		it.Check = p.checkpoint(row, seq)
	}
	return it
}

func (p *pageMaker) checkpoint(row *checkpointRow, seq session.Seq) *checkpointItem {
	c := &checkpointItem{checkpointRow: *row}
	if a := p.h.Find(row.ID); a != nil {
		if ev, err := p.v.Event(a.Summary); err == nil {
			if payload, err := compact.Decode(ev); err == nil {
				s := payload.(compact.SummaryEvent)
				c.Narrative = visible(s.Text)
				l := new(summarize.Ledger)
				if json.Unmarshal(s.Ledger, l) == nil && !l.Empty() {
					c.Ledger = l
				}
			}
		}
	}
	run, kept, err := p.v.Run(seq)
	if err != nil {
		return c
	}
	for _, q := range run {
		if !slices.Contains(kept, q) {
			c.Hidden = append(c.Hidden, p.item(q))
		}
	}
	return c
}
