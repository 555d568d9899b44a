package summarize

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/agentcompact/agentcompact/session"
)

// GuardOptions are the optional settings of [Guard].
type GuardOptions struct {
	// NoSections leaves the check for sections out: for prompts that are not
	// ours.
	NoSections bool
	// NoFloor accepts a summary however short it is.
	NoFloor bool
	// MaxTokens is the most that a narrative may have; 0 means that of the
	// request.
	MaxTokens int
	// MinGain is the least share of the span that has to be saved, 0 to 1.
	MinGain float64
	// KeepInvented leaves literals that the span does not have unmarked.
	KeepInvented bool
	// embedded says that the text was put together by code: what repeats itself
	// in it is the conversation.
	embedded bool
}

// Verdict is what a guard found. It is stored with the checkpoint.
type Verdict struct {
	// Tokens are those of the accepted narrative, Span those of what it
	// replaces.
	Tokens int `json:"tokens"`
	Span   int `json:"span"`
	// Cleaned reports that something was taken off what the model wrote.
	Cleaned bool `json:"cleaned,omitempty"`
	// Defused reports that something in it could have been taken for framing.
	Defused bool `json:"defused,omitempty"`
	// Literals counts the exact tokens that were looked up in the span.
	Literals int `json:"literals,omitempty"`
	// Invented are those that the span does not have; they are marked in the
	// text.
	Invented []string `json:"invented,omitempty"`
	// Class is empty when the summary was accepted.
	Class Class `json:"class,omitempty"`
}

// unverified marks a literal that the span does not have.
const unverified = "not in the record"

// Guard judges a summary without a model: it is cleaned and defused, and must
// be complete, of the asked form, no loop, no longer than allowed, smaller than what it
// replaces and faithful: literals that the span does not have are marked. The
// error is a [*Failure] that says what to do next; the verdict is filled in
// either way.
func Guard(text string, req *Request, opts *GuardOptions) (string, Verdict, error) {
	var o GuardOptions
	if opts != nil {
		o = *opts
	}
	var v Verdict
	for _, it := range req.Items {
		v.Span += it.Tokens
	}
	fail := func(c Class, format string, args ...any) (string, Verdict, error) {
		v.Class = c
		return "", v, &Failure{Class: c, Detail: fmt.Sprintf(format, args...)}
	}
	if strings.TrimSpace(text) == "" {
		return fail(Empty, "no text")
	}
	clean := Clean(text)
	v.Cleaned = clean != text
	if blank(clean) {
		return fail(Empty, "nothing is left after cleaning")
	}
	if what := callMarkup(clean); what != "" {
		return fail(ToolCalled, "the text is a tool call (%s)", what)
	}
	if text := withoutTrailer(clean); text != clean {
		clean, v.Cleaned = text, true
	}
	if !o.NoSections {
		if missing := missingSections(clean); len(missing) > 0 {
			return fail(Sections, "missing: %s", strings.Join(missing, ", "))
		}
	}
	if !o.NoFloor {
		if floor := floorTokens(v.Span); count(req, clean) < floor {
			return fail(Degenerate, "shorter than %d tokens", floor)
		}
	}
	if !o.KeepInvented {
		if clean = markInvented(clean, req, &v); v.Literals >= 8 && len(v.Invented)*2 > v.Literals {
			return fail(Invented, "%d of %d names and numbers are not in the conversation", len(v.Invented), v.Literals)
		}
	}
	if what := echoOf(clean, req); what != "" {
		return fail(Degenerate, "the text repeats %s", what)
	}
	d := defuseBlock(clean)
	v.Defused = d != clean
	clean = d
	v.Tokens = count(req, clean)
	most := o.MaxTokens
	if most == 0 {
		most = req.MaxTokens
	}
	if most > 0 && v.Tokens > most {
		v.Class = Inflated
		return "", v, &Failure{Class: v.Class, Detail: fmt.Sprintf("%d tokens, at most %d", v.Tokens, most), Limit: most, Actual: v.Tokens}
	}
	if v.Span > 0 && float64(v.Tokens) > float64(v.Span)*(1-o.MinGain) {
		return fail(Inflated, "%d tokens in place of %d", v.Tokens, v.Span)
	}
	if sources := func(f func(string)) { eachSource(req, f) }; !o.embedded && (sameLines(clean, sources) || looped(clean, sources)) {
		return fail(Degenerate, "the text repeats itself")
	}
	return clean, v, nil
}

func count(req *Request, s string) int {
	if req.Count == nil {
		return (len(s) + 3) / 4
	}
	return req.Count(s)
}

// blank reports whether a text shows nothing.
func blank(s string) bool {
	for _, r := range strings.TrimPrefix(strings.TrimSpace(s), "Summary:") {
		if !unicode.IsSpace(r) && !invisible(r) && !smuggled(r) {
			return false
		}
	}
	return true
}

// floorTokens is the least that a summary of a span can have to be one.
func floorTokens(span int) int { return min(40, span/50) }

func missingSections(s string) []string {
	have := make(map[string]bool)
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			have[strings.ToLower(strings.Trim(line, "#* :0123456789.)"))] = true
		}
	}
	var missing []string
	for _, h := range RequiredSections {
		if !have[strings.ToLower(h)] {
			missing = append(missing, h)
		}
	}
	return missing
}

// eachText calls f for every text of a message with who wrote it: user,
// assistant, call, tool or other.
func eachText(m *session.Message, f func(by, text string)) {
	if m == nil {
		return
	}
	by := "assistant"
	switch m.Role {
	case session.RoleUser:
		by = "user"
		if m.Source.Kind != session.SourceUser {
			by = "other"
		}
	case session.RoleSystem, session.RoleDeveloper:
		by = "other"
	case session.RoleTool:
		by = "tool"
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Text:
			f(by, p.Text)
		case session.ToolCall:
			f("call", p.Arguments)
		case session.ToolResult:
			for _, q := range p.Parts {
				if t, ok := q.(session.Text); ok {
					f("tool", t.Text)
				}
			}
		}
	}
}
