package summarize

import (
	"slices"
	"strings"
	"sync"

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
	x := extraction{opts: o, calls: map[string]call{}, carried: map[string]Carried{}, files: map[string]int{}, failed: map[string][]int{},
		ledger: &Ledger{Notes: cleanNotes(o.LiveNotes)}}
	// Plain lines, and what messages say of files and failures, are read beside the
	// facts: none looks at what the others find.
	var plain []Fact
	var beside sync.WaitGroup
	beside.Go(func() {
		for i := range req.Items {
			it := &req.Items[i]
			if it.Message == nil || it.Checkpoint || it.Recalled {
				continue
			}
			x.message(it)
		}
		plain = collectPlain(req.Items)
	})
	base := 0
	if req.Prior != nil {
		base = newestKey(req.Prior.Facts)
	}
	facts := collectFacts(req.Items, base, o.MaxBytes*2/3)
	beside.Wait()
	x.ledger.Facts = append(facts, plain...)
	for _, name := range o.CarryTools {
		if c, ok := x.carried[name]; ok {
			x.ledger.Carried = append(x.ledger.Carried, c)
		}
	}
	if x.ledger.Plan == nil && (req.Prior == nil || req.Prior.Plan == nil || req.Prior.Plan.Tool == "") {
		x.ledger.Plan = x.listed
	}
	return merge(req.Prior, x.ledger, o.MaxBytes)
}

type call struct {
	title string
	seq   session.Seq
}

type extraction struct {
	opts   LedgerOptions
	ledger *Ledger
	calls  map[string]call // by id, the newest
	// carried are the newest calls of the tools to carry, files and failed the
	// places of paths and titles in the ledger.
	carried map[string]Carried
	files   map[string]int
	failed  map[string][]int
	listed  *Plan // the last checklist in the agent's text
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
		case session.Text:
			if m.Role == session.RoleAssistant {
				if l := checklist(p.Text); l != nil {
					l.Seq = it.Seq
					x.listed = l
				}
			}
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
	title := callTitle(c.Name, c.Arguments)
	x.calls[c.ID] = call{title, seq}
	if p := planOf(c.Arguments); p != nil {
		p.Seq, p.Tool = seq, c.Name
		x.ledger.Plan = p
	}
	if slices.Contains(x.opts.CarryTools, c.Name) {
		x.carried[c.Name] = Carried{seq, c.Name, c.Arguments}
	}
	fileCalls(c, x.opts.CarryPaths, func(path, did string) {
		f := File{Seq: seq, Path: path, Did: did, Times: 1, Carry: x.opts.CarryPaths}
		if i, ok := x.files[path]; ok {
			x.ledger.Files[i] = joinFiles(x.ledger.Files[i], f)
			return
		}
		x.files[path] = len(x.ledger.Files)
		x.ledger.Files = append(x.ledger.Files, f)
	})
}

func (x *extraction) result(seq session.Seq, r session.ToolResult) {
	c, ok := x.calls[r.CallID]
	if !ok {
		return
	}
	line, bad := failure(r)
	if !bad {
		for _, i := range x.failed[c.title] {
			x.ledger.Failures[i].Solved = true
		}
		return
	}
	f := FailedCall{Seq: seq, What: c.title, Error: line}
	for _, i := range x.failed[c.title] {
		if x.ledger.Failures[i].Error == line {
			x.ledger.Failures[i] = f // again
			return
		}
	}
	x.failed[c.title] = append(x.failed[c.title], len(x.ledger.Failures))
	x.ledger.Failures = append(x.ledger.Failures, f)
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
		end, kept := len(l.User)-3, 1
		for i := 1; i < len(l.User); i++ {
			if q := l.User[i]; i < end && total > limit && (pass == 1 || !q.Rule) {
				total -= len(q.Text)
				l.Dropped++
				continue
			}
			l.User[kept] = l.User[i]
			kept++
		}
		clear(l.User[min(kept, len(l.User)):])
		l.User = l.User[:min(kept, len(l.User))]
	}
	return total
}
