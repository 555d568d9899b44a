package summarize

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// Extract collects the facts of a span: of req.Items, merged with req.Prior.
// Checkpoints and recalled texts of the span are passed over; what they know is
// in Prior or in the log. It takes linear time and never fails: what it cannot
// parse it reads as text. A nil opts is the default.
func Extract(req *Request, opts *LedgerOptions) *Ledger {
	var o LedgerOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxBytes <= 0 {
		tokens := 0
		for i := range req.Items {
			tokens += req.Items[i].Tokens
		}
		o.MaxBytes = min(max(3*tokens, minLedgerBytes), maxLedgerBytes)
	}
	x := extraction{opts: o, calls: map[string]call{}, ledger: &Ledger{Notes: cleanNotes(o.LiveNotes)}}
	for i := range req.Items {
		it := &req.Items[i]
		if it.Message == nil || it.Checkpoint || it.Recalled {
			continue
		}
		x.message(it)
	}
	x.ledger.Facts = append(collectFacts(req.Items, o.MaxBytes*2/3), collectPlain(req.Items)...)
	return merge(req.Prior, x.ledger, o.MaxBytes)
}

type call struct {
	name, args string
	seq        session.Seq
}

type extraction struct {
	opts   LedgerOptions
	ledger *Ledger
	calls  map[string]call // by id, the newest
}

func cleanNotes(notes []string) []string {
	var out []string
	for _, n := range notes {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

func (x *extraction) message(it *Item) {
	m := it.Message
	if m.Role == session.RoleUser && m.Source.Kind == session.SourceUser {
		if t := strings.TrimSpace(m.Text()); t != "" {
			x.ledger.User = append(x.ledger.User, quoteUser(it.Seq, t))
		}
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.ToolCall:
			x.call(it.Seq, p)
		case session.ToolResult:
			x.result(it.Seq, p)
		}
	}
}

const quoteMax = 6000

func quoteUser(seq session.Seq, t string) Quote {
	q := Quote{Seq: seq, Text: t, Rule: isRule(t)}
	if len(t) > quoteMax {
		q.Text, q.Cut = head(t, quoteMax*2/3)+"\n…\n"+tail(t, quoteMax/3), true
	}
	return q
}

// head and tail cut a text at rune boundaries.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	i := len(s) - n
	for i < len(s) && s[i]&0xC0 == 0x80 {
		i++
	}
	return s[i:]
}

func (x *extraction) call(seq session.Seq, c session.ToolCall) {
	x.calls[c.ID] = call{c.Name, c.Arguments, seq}
	var args map[string]any
	_ = json.Unmarshal([]byte(c.Arguments), &args)
	if p := planOf(args); p != nil {
		p.Seq, p.Tool = seq, c.Name
		x.ledger.Plan = p
	}
	if slices.Contains(x.opts.CarryTools, c.Name) {
		x.ledger.Carried = slices.DeleteFunc(x.ledger.Carried, func(o Carried) bool { return o.Tool == c.Name })
		x.ledger.Carried = append(x.ledger.Carried, Carried{seq, c.Name, c.Arguments})
	}
	for _, key := range []string{"file_path", "path", "filePath", "filename", "file"} {
		if p, ok := args[key].(string); ok && p != "" && len(p) < 400 {
			f := File{Seq: seq, Path: p, Did: didOf(c.Name), Times: 1}
			x.ledger.Files = mergeBy(x.ledger.Files, []File{f}, func(f File) string { return f.Path }, joinFiles)
		}
	}
}

func didOf(tool string) string {
	t := strings.ToLower(tool)
	switch {
	case strings.Contains(t, "delete") || strings.Contains(t, "remove"):
		return "deleted"
	case strings.Contains(t, "create"):
		return "created"
	case strings.Contains(t, "write") || strings.Contains(t, "edit") || strings.Contains(t, "replace") || strings.Contains(t, "patch"):
		return "changed"
	}
	return "read"
}

func (x *extraction) result(seq session.Seq, r session.ToolResult) {
	c, ok := x.calls[r.CallID]
	if !ok || !r.IsError {
		return
	}
	line := ""
	for l := range strings.Lines(session.TextOf(r.Parts)) {
		if line = strings.TrimSpace(l); line != "" {
			break
		}
	}
	x.ledger.Failures = append(x.ledger.Failures, FailedCall{Seq: seq, What: head(c.name+" "+squash(c.args), 200), Error: head(line, 300)})
}

// planOf reads a list of todo items out of a call's arguments; nil when there
// is none.
func planOf(args map[string]any) *Plan {
	for _, key := range []string{"todos", "plan", "items", "tasks"} {
		list, ok := args[key].([]any)
		if !ok || len(list) == 0 {
			continue
		}
		p := &Plan{}
		for _, v := range list {
			it := PlanItem{State: "open"}
			switch v := v.(type) {
			case string:
				it.Text = strings.TrimSpace(v)
				if len(it.Text) > 3 && it.Text[0] == '[' && it.Text[2] == ']' {
					it.State = boxState(it.Text[1])
					it.Text = strings.TrimSpace(it.Text[3:])
				}
			case map[string]any:
				for _, k := range []string{"content", "step", "text", "title", "task", "description"} {
					if s, ok := v[k].(string); ok {
						it.Text = s
						break
					}
				}
				if s, ok := v["status"].(string); ok {
					it.State = planState(s)
				}
			}
			if it.Text == "" {
				return nil
			}
			p.Items = append(p.Items, it)
		}
		return p
	}
	return nil
}

func boxState(c byte) string {
	switch c {
	case 'x', 'X':
		return "done"
	case ' ':
		return "open"
	case '-', '~':
		return "active"
	}
	return "open"
}

func planState(s string) string {
	switch strings.ToLower(s) {
	case "completed", "complete", "done":
		return "done"
	case "in_progress", "in-progress", "active", "doing":
		return "active"
	case "pending", "todo", "open", "not_started":
		return "open"
	case "cancelled", "canceled", "dropped":
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

// bound drops the least useful facts until the text of the ledger is within
// limit bytes.
func (l *Ledger) bound(limit int) {
	left := limit
	left -= l.boundUser(limit / 3)
	for i := len(l.Files) - 1; i >= 0; i-- {
		left -= len(l.Files[i].Path) + 8
		if left < limit/4 {
			l.Dropped += i
			l.Files = slices.Clone(l.Files[i:])
			break
		}
	}
	for i := len(l.Failures) - 1; i >= 0; i-- {
		left -= len(l.Failures[i].What) + len(l.Failures[i].Error)
		if left < limit/6 {
			l.Dropped += i
			l.Failures = slices.Clone(l.Failures[i:])
			break
		}
	}
	for i, f := range l.Facts {
		left -= len(f.Line) + 48 + 48*len(f.Keys)
		if left < 0 {
			l.Dropped += len(l.Facts) - i
			l.Facts = slices.Clone(l.Facts[:i])
			break
		}
	}
}

// boundUser drops user texts from the middle: the first, the rules and the
// newest stay longest. It returns the bytes that are left.
func (l *Ledger) boundUser(limit int) int {
	total := 0
	for _, q := range l.User {
		total += len(q.Text)
	}
	for pass := 0; pass < 2 && total > limit; pass++ {
		for i := 1; i < len(l.User)-3 && total > limit; {
			if pass == 0 && l.User[i].Rule {
				i++
				continue
			}
			total -= len(l.User[i].Text)
			l.Dropped++
			l.User = slices.Delete(l.User, i, i+1)
		}
	}
	return total
}
