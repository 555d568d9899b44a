package wire

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// Neutral returns the surface as messages that any format can hold: parts
// without their provider's own form, the results of a message's calls in one
// message right behind it, a made-up result for a call that has none, a note in
// place of a result without a call, and no system messages. The report says
// where it differs from the surface. The error says which message could not be
// read.
func Neutral(v session.View) ([]*session.Message, *RequestReport, error) {
	messages, err := v.Messages()
	if err != nil {
		return nil, nil, err
	}
	n := &neutral{v: v, messages: messages, x: toolpairing.Of(v), report: &RequestReport{}, orphans: map[[2]int]bool{}}
	for _, p := range n.x.Diagnose() {
		switch p.Kind {
		case toolpairing.OrphanResult, toolpairing.DuplicateResult, toolpairing.ResultBeforeCall:
			n.orphans[[2]int{p.Position, p.Index}] = true
		}
	}
	for i, m := range messages {
		n.message(i, m)
	}
	return n.out, n.report, nil
}

// compactJSON takes the spaces between tokens out, since some formats have a
// record a line.
func compactJSON(s string) string {
	var b bytes.Buffer
	if !strings.ContainsAny(s, "\r\n") || json.Compact(&b, []byte(s)) != nil {
		return s
	}
	return b.String()
}

type neutral struct {
	v        session.View
	messages []*session.Message
	x        *toolpairing.Index
	orphans  map[[2]int]bool
	out      []*session.Message
	report   *RequestReport
}

const neutralAbandoned = "[No result: this call was interrupted before it finished.]"

func (n *neutral) message(i int, m *session.Message) {
	c := &session.Message{Role: m.Role, Source: m.Source, Parts: n.parts(i, m.Parts)}
	switch m.Role {
	case session.RoleTool:
		n.tool(i, m, c)
		return
	case session.RoleDeveloper, session.RoleSystem:
		c.Role = session.RoleUser
		n.report.Notes = append(n.report.Notes, i)
	}
	if len(c.Parts) == 0 || c.IsEmpty() {
		n.report.Dropped = append(n.report.Dropped, i)
	} else {
		n.out = append(n.out, c)
	}
	if len(m.Calls()) > 0 {
		n.results(i, m)
	}
}

// parts are the parts that any format can hold.
func (n *neutral) parts(at int, parts []session.Part) []session.Part {
	var out []session.Part
	used := map[string]bool{}
	for _, p := range parts {
		switch p := p.(type) {
		case session.Text:
			if p.Text != "" {
				out = append(out, p)
			}
		case session.Image:
			p.Raw = nil
			out = append(out, p)
		case session.File:
			p.Raw = nil
			out = append(out, p)
		case session.ToolCall:
			if used[p.ID] || p.ID == "" {
				n.report.Renamed = append(n.report.Renamed, CallAt{Position: at, CallID: p.ID})
			}
			used[p.ID] = true
			p.Raw = nil
			if !p.Custom {
				p.Arguments = compactJSON(p.Arguments)
			}
			out = append(out, p)
		case session.Reasoning:
			n.report.Unsent = append(n.report.Unsent, PartAt{at, "reasoning"})
		case session.Opaque:
			n.report.Unsent = append(n.report.Unsent, PartAt{at, p.Kind})
		}
	}
	return out
}

// results puts the results of a message's calls behind it.
func (n *neutral) results(i int, m *session.Message) {
	out := &session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool}}
	for k, id := range m.Calls() {
		r := session.ToolResult{CallID: id, IsError: true, Parts: []session.Part{session.Text{Text: neutralAbandoned}}}
		pos, ok := n.x.Answered(i, k)
		if !ok {
			n.report.Synthetic = append(n.report.Synthetic, CallAt{Position: i, CallID: id, WireID: id})
		} else {
			r = n.result(pos, i, k)
			for q := i + 1; q < pos; q++ {
				if n.messages[q].Role != session.RoleTool {
					n.report.Moved = append(n.report.Moved, pos)
					break
				}
			}
			if src := n.messages[pos].Source; src.Kind == session.SourcePlugin {
				out.Source = src
			}
		}
		nth := 0
		for _, p := range m.Parts {
			if c, isCall := p.(session.ToolCall); isCall {
				if nth == k {
					r.Name = c.Name
				}
				nth++
			}
		}
		out.Parts = append(out.Parts, r)
	}
	n.out = append(n.out, out)
}

func (n *neutral) result(pos, call, index int) session.ToolResult {
	nth := 0
	for _, p := range n.messages[pos].Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			continue
		}
		if q, k, ok := n.x.CallOf(pos, nth); ok && q == call && k == index {
			if r.Parts = n.parts(pos, r.Parts); r.Parts == nil {
				r.Parts = []session.Part{session.Text{}}
			}
			return r
		}
		nth++
	}
	return session.ToolResult{}
}

// tool adds what of a tool message belongs to no call.
func (n *neutral) tool(i int, m, c *session.Message) {
	nth := 0
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			continue
		}
		if n.orphans[[2]int{i, nth}] {
			n.report.Quoted = append(n.report.Quoted, CallAt{Position: i, CallID: r.CallID})
			n.out = append(n.out, &session.Message{Role: session.RoleUser, Source: session.Source{Kind: session.SourcePlugin, Plugin: "agentcompact", Form: "note"},
				Parts: []session.Part{session.Text{Text: "[Result of a tool whose call does not stand before it, quoted as data:]\n" + session.TextOf(r.Parts)}}})
		}
		nth++
	}
	if len(c.Parts) > 0 { // results are no parts of it
		c.Role, c.Source = session.RoleUser, session.Source{Kind: session.SourceUser}
		n.out = append(n.out, c)
	}
}
