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
		o.MaxBytes = min(max(6*tokens, minLedgerBytes), maxLedgerBytes)
	}
	x := extraction{opts: o, calls: map[string]*call{}, carried: map[string]Carried{}, files: map[string]int{}, failed: map[string][]int{},
		well: map[string]bool{}, ledger: &Ledger{Notes: cleanNotes(o.LiveNotes)}}
	if req.Prior != nil {
		x.prior = req.Prior.Plan
	}
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
		for _, c := range x.order { // nobody knows how these ended
			x.touched(c)
		}
		x.ledger.Failures = settled(x.ledger.Failures, nil)
		plain = collectPlain(req.Items)
	})
	base := 0
	if req.Prior != nil {
		base = newestKey(req.Prior.Facts)
	}
	facts := collectFacts(req.Items, base, o.MaxBytes*2/3, o.CarryTools)
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
	prior := req.Prior
	if prior != nil && len(prior.Failures) > 0 && len(x.well) > 0 {
		p := *prior
		p.Failures = settled(slices.Clone(prior.Failures), x.well)
		prior = &p
	}
	return merge(prior, x.ledger, o.MaxBytes)
}

// Supersede takes out the plan and the state that what stays visible has set
// anew: later are calls, and without a tool texts of the agent. It changes l.
func (l *Ledger) Supersede(later []Carried) {
	for _, c := range later {
		if c.Tool == "" {
			if l.Plan != nil && l.Plan.Tool == "" && l.Plan.Seq < c.Seq && checklist(c.Arguments) != nil {
				l.Plan = nil
			}
			continue
		}
		if p := planOf(c.Arguments); p != nil && l.Plan != nil && l.Plan.Seq < c.Seq && (l.Plan.Tool == c.Tool || len(p.Items) > 0) {
			l.Plan = nil
		}
		l.Carried = slices.DeleteFunc(l.Carried, func(old Carried) bool { return old.Tool == c.Tool && old.Seq < c.Seq })
	}
}

// settled marks the failures of calls that went well later as solved. Those that
// were only stopped are taken out.
func settled(list []FailedCall, well map[string]bool) []FailedCall {
	for i := range list {
		list[i].Solved = list[i].Solved || well[list[i].What]
	}
	return slices.DeleteFunc(list, func(f FailedCall) bool { return f.Solved && interrupted.MatchString(f.Error) })
}

// call is a call whose result has not come yet.
type call struct {
	title string
	files []File
	shell bool // what it did to files it may have done before it failed
}

type extraction struct {
	opts   LedgerOptions
	ledger *Ledger
	calls  map[string]*call // by id, the newest
	order  []*call          // the open ones among them, and others
	well   map[string]bool  // titles of calls that went well
	// carried are the newest calls of the tools to carry, files and failed the
	// places of paths and titles in the ledger.
	carried map[string]Carried
	files   map[string]int
	failed  map[string][]int
	listed  *Plan // the last checklist in the agent's text
	prior   *Plan // that of earlier checkpoints
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
				textFiles(p.Text, func(path, did string) {
					x.touched(&call{files: []File{{Seq: it.Seq, Path: path, Did: did, Times: 1, Carry: x.opts.CarryPaths}}})
				})
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
	k := &call{title: title}
	x.calls[c.ID] = k
	if p := planOf(c.Arguments); p != nil && (len(p.Items) > 0 || x.planTool() == c.Name || x.planTool() == "" && strings.Contains(c.Arguments, `"todos"`)) {
		p.Seq, p.Tool = seq, c.Name
		x.ledger.Plan = p
	}
	if slices.Contains(x.opts.CarryTools, c.Name) {
		x.carried[c.Name] = Carried{seq, c.Name, c.Arguments}
	}
	fileCalls(c, x.opts.CarryPaths, func(path, did string) {
		k.files = append(k.files, File{Seq: seq, Path: path, Did: did, Times: 1, Carry: x.opts.CarryPaths})
	})
	k.shell = didOf(c.Name) == ""
	if len(k.files) > 0 {
		x.order = append(x.order, k)
	}
}

// planTool returns the tool that wrote the present plan; empty when there is none,
// or it stood in a text.
func (x *extraction) planTool() string {
	for _, p := range []*Plan{x.ledger.Plan, x.prior} {
		if p != nil {
			return p.Tool
		}
	}
	return ""
}

// touched takes down what a call did to files, once.
func (x *extraction) touched(c *call) {
	for _, f := range c.files {
		if i, ok := x.files[f.Path]; ok {
			x.ledger.Files[i] = joinFiles(x.ledger.Files[i], f)
			continue
		}
		x.files[f.Path] = len(x.ledger.Files)
		x.ledger.Files = append(x.ledger.Files, f)
	}
	c.files = nil
}

func (x *extraction) result(seq session.Seq, r session.ToolResult) {
	c, ok := x.calls[r.CallID]
	if !ok {
		return
	}
	line, bad := failure(r, c.title)
	switch {
	case !bad:
		if len(c.files) == 1 && c.files[0].Did == "changed" && saysCreated(r) {
			c.files[0].Did = "created"
		}
		x.touched(c)
	case c.shell || x.opts.CarryPaths:
		x.touched(c)
	default:
		c.files = nil // an edit that failed changed nothing
	}
	if !bad {
		x.well[c.title] = true
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
