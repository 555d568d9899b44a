package summarize

import (
	"regexp"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// markInvented marks literals of a narrative that neither the span nor what the
// summarizer was told has. A path counts as known when its end is; a literal
// that is put together from known parts does not.
func markInvented(text string, req *Request, v *Verdict) string {
	want := map[string]bool{}
	for a, b := nextLiteral(text, 0); a >= 0; a, b = nextLiteral(text, b) {
		want[text[a:b]] = false
	}
	v.Literals = len(want)
	missing := len(want)
	if missing == 0 {
		return text
	}
	// whole tokens first, in one pass; then whatever is part of a longer one
	eachSource(req, func(s string) {
		for a, b := nextLiteral(s, 0); a >= 0 && missing > 0; a, b = nextLiteral(s, b) {
			if found, ok := want[s[a:b]]; ok && !found {
				want[s[a:b]] = true
				missing--
			}
		}
	})
	if missing > 0 {
		var left []string
		for lit, found := range want {
			if !found {
				left = append(left, lit)
			}
		}
		eachSource(req, func(s string) {
			for i := 0; i < len(left); i++ {
				if has(s, left[i]) {
					want[left[i]] = true
					left[i] = left[len(left)-1]
					left = left[:len(left)-1]
					i--
				}
			}
		})
	}
	// The mark stands at the end of the line: inside it would tear what the
	// line says. It names the literals only where the line has others, too:
	// what is named stands there twice.
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		var bad []string
		mixed := false
		for a, b := nextLiteral(line, 0); a >= 0; a, b = nextLiteral(line, b) {
			if lit := line[a:b]; want[lit] {
				mixed = true
			} else if !slices.Contains(bad, lit) {
				bad = append(bad, lit)
			}
		}
		for _, lit := range bad {
			if !slices.Contains(v.Invented, lit) {
				v.Invented = append(v.Invented, lit)
			}
		}
		if len(bad) > 0 && !strings.Contains(line, unverified) {
			mark := unverified
			if mixed {
				mark += ": " + strings.Join(bad, ", ")
			}
			lines[n] = line + " (" + mark + ")"
		}
	}
	return strings.Join(lines, "\n")
}

// has reports whether a text has a literal, or for an absolute path the end of
// it.
func has(s, lit string) bool {
	if strings.Contains(s, lit) {
		return true
	}
	if i := strings.IndexByte(lit, ':'); i > 3 && strings.Contains(lit[:i], ".") && strings.Trim(lit[i:], ":0123456789-") == "" {
		return strings.Contains(s, lit[:i]) // a place in a file
	}
	if strings.HasPrefix(lit, "./") {
		return strings.Contains(s, lit[2:])
	}
	return false
}

// eachSource calls f for every text that a narrative can have its facts from.
func eachSource(req *Request, f func(string)) {
	for i := range req.Items {
		it := &req.Items[i]
		if it.Checkpoint {
			f(it.Narrative)
		}
		if it.Message != nil {
			for _, p := range it.Message.Parts {
				if c, ok := p.(session.ToolCall); ok {
					f(c.Name)
				}
			}
		}
		eachText(it.Message, func(by, s string) {
			f(s)
			if by == "call" && strings.IndexByte(s, '\\') >= 0 {
				jsonStrings(s, func(_, v string) bool { f(v); return true })
			}
		})
	}
	f(req.Instructions)
	if l := req.Prior; l != nil {
		for _, q := range l.User {
			f(q.Text)
		}
		for _, n := range l.Notes {
			f(n)
		}
		if l.Plan != nil {
			for _, it := range l.Plan.Items {
				f(it.Text)
			}
		}
		for _, c := range l.Carried {
			f(c.Arguments)
		}
		for _, x := range l.Files {
			f(x.Path)
		}
		for _, x := range l.Failures {
			f(x.What)
			f(x.Error)
		}
		for _, x := range l.Facts {
			f(x.Line)
		}
	}
	if e := req.Envelope; e != nil {
		for i := range e.System {
			f(e.System[i].Text())
		}
		for _, t := range e.Tools {
			f(t.Name)
		}
	}
}

// callStart matches the markup of tool calls at the start of a text.
var callStart = regexp.MustCompile(`(?i)^(?:<[|]?(?:antml:)?(?:tool_calls?|function_calls?|invoke|tool_use|function=|tool|parameter)|\[(?:tool_calls?|assistant calls|calls?|tool_use)[ \]:]|\{"(?:tool_calls|tool|function|function_call)"|\{"name"\s*:\s*"[^"]*"\s*,\s*"(?:arguments|parameters|input)"|<\|(?:tool|python_tag|plugin)|functions\.[a-z_]+[:(])`)

// callMarkup names the tool call markup that a text starts with, or consists of
// for the greater part.
func callMarkup(s string) string {
	t := strings.TrimSpace(strings.ReplaceAll(s, zwsp, ""))
	t = strings.TrimSpace(strings.TrimPrefix(t, "Summary:"))
	t = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(t, "```json"), "```"))
	if m := callStart.FindString(t); m != "" {
		return strings.TrimLeft(head(m, 24), "<[{")
	}
	if i := strings.Index(t, "<invoke name"); i >= 0 && i < len(t)/2 {
		return "invoke"
	}
	return ""
}

// trailer matches the line with which a call or thoughts in markup begin; Clean has
// broken the tags of thoughts.
var trailer = regexp.MustCompile(`(?mi)^[ \t]*<\x{200b}?(tool_calls?|function_calls?|invoke|tool_use|thinking|think|thought)(?:[ \t][^<>\n]*)?>`)

// withoutTrailer takes off what a model wrote behind a summary that is no text:
// calls and thoughts in markup that end with it.
func withoutTrailer(s string) string {
	for {
		cut := -1
		for _, m := range trailer.FindAllStringSubmatchIndex(s, -1) {
			end := "/" + strings.ToLower(s[m[2]:m[3]]) + ">"
			if rest := strings.ToLower(s[m[1]:]); strings.HasSuffix(rest, "<"+end) || strings.HasSuffix(rest, "<"+zwsp+end) {
				cut = m[0]
			}
		}
		if cut <= 0 { // nothing, or all of the text: that is told apart later
			return s
		}
		s = strings.TrimSpace(s[:cut])
	}
}

// echoOf names what a text only repeats; empty when it says something of its
// own.
func echoOf(s string, req *Request) string {
	text := squash(s)
	if len(text) < 80 {
		return ""
	}
	if in := squash(req.Instructions); in != "" && strings.Contains(in, text) {
		return "the instructions"
	}
	for i := range req.Items {
		it := &req.Items[i]
		if it.Message == nil || it.Checkpoint {
			continue
		}
		whole := false
		eachText(it.Message, func(_, t string) {
			if !whole && len(t) >= len(text) && len(t) < len(text)*2+200 && squash(t) == text {
				whole = true
			}
		})
		if whole && len(req.Items) > 2 {
			return "one message"
		}
	}
	return ""
}
