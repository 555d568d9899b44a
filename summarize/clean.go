package summarize

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const zwsp = "\u200b"

// controlTag matches a tag that steers a summarizer.
var controlTag = regexp.MustCompile(`(?i)<[ \t]*(/?)[ \t]*(summary|analysis|summary_request|thinking|(?:seed:)?think|thought|reasoning|scratchpad)[ \t]*>`)

type tagAt struct {
	start, end int
	close      bool
	name       string
}

func controlTags(s string) []tagAt {
	var out []tagAt
	for _, m := range controlTag.FindAllStringSubmatchIndex(s, -1) {
		t := tagAt{start: m[0], end: m[1], close: m[3] > m[2], name: strings.ToLower(s[m[4]:m[5]])}
		switch t.name {
		case "thinking", "think", "seed:think", "thought", "reasoning", "scratchpad":
			t.name = "analysis"
		}
		out = append(out, t)
	}
	return out
}

// Clean takes what a model wrote around a summary off it: leading scratchpads,
// the summary wrapper, which becomes a heading, and fences around the whole.
// Control tags that are left are quotes and are defused. Text without any of
// that comes back as it is, but for runs of empty lines and space at its ends.
// Cleaning twice is cleaning once. It is empty when there is only a scratchpad.
func Clean(text string) string {
	s := strings.ToValidUTF8(lineEnd.ReplaceAllString(text, "\n"), "\uFFFD")
	s = stripFence(strings.TrimSpace(s))
	s = stripAnalysis(s)
	s = stripFence(strings.TrimSpace(unwrapSummary(s))) // a fence that the wrapper hid
	s = controlTag.ReplaceAllStringFunc(s, func(t string) string { return "<" + zwsp + t[1:] })
	return strings.TrimSpace(collapseBlank(s))
}

// lineEnd is the end of a line of Windows, with every carriage return of it.
var lineEnd = regexp.MustCompile(`\r+\n`)

// stripAnalysis removes scratchpads that lead: before any summary, directly
// after its opening tag, or at the start of a text without one.
func stripAnalysis(s string) string {
	for {
		tags := controlTags(s)
		if len(tags) == 0 {
			return s
		}
		open, close, summary := -1, -1, -1
		for i, t := range tags {
			if t.name == "summary" && !t.close && summary < 0 && open < 0 {
				summary = i
				continue
			}
			if t.name == "analysis" && !t.close && open < 0 {
				open = i
			}
		}
		if open < 0 {
			return s
		}
		lead := s[:tags[open].start]
		switch {
		case summary >= 0 && strings.TrimSpace(s[tags[summary].end:tags[open].start]) == "":
		case summary < 0 && (strings.TrimSpace(lead) == "" || hasSummaryOpen(tags[open:])):
		default:
			return s
		}
		close = closing(s, tags, open)
		if close < 0 { // never closed: up to the summary, else all
			for _, t := range tags[open+1:] {
				if t.name == "summary" && !t.close {
					return lead + s[t.start:]
				}
			}
			return strings.TrimSpace(lead)
		}
		s = lead + s[tags[close].end:]
	}
}

func hasSummaryOpen(tags []tagAt) bool {
	for _, t := range tags {
		if t.name == "summary" && !t.close {
			return true
		}
	}
	return false
}

// closing finds the tag that ends the scratchpad opened by tags[open]: the
// last one before the summary that follows it, or, where the scratchpad talks
// about tags, the last one before the numbered body.
func closing(s string, tags []tagAt, open int) int {
	first, last := -1, -1
	for i := open + 1; i < len(tags); i++ {
		t := tags[i]
		if t.name != "analysis" || !t.close {
			if t.name == "summary" && !t.close && last >= 0 && strings.TrimSpace(s[tags[last].end:t.start]) == "" {
				return last
			}
			continue
		}
		if first < 0 {
			first = i
		} else if bodyBetween(s[tags[first].end:t.start]) {
			break
		}
		last = i
	}
	return last
}

var bodyLine = regexp.MustCompile(`(?m)^[#*\- >\t]*1[.)]`)

// bodyBetween reports whether the numbered body of a summary starts in s.
func bodyBetween(s string) bool { return bodyLine.MatchString(s) }

func unwrapSummary(s string) string {
	tags := controlTags(s)
	open, close := -1, -1
	for i, t := range tags {
		if t.name != "summary" {
			continue
		}
		if !t.close && open < 0 {
			open = i
		}
		if t.close && open >= 0 {
			close = i
		}
	}
	if open < 0 || close < 0 {
		return s
	}
	inner := s[tags[open].end:tags[close].start]
	if !startsNumbered(inner) {
		// a scratchpad without its opening tag inside the wrapper
		for _, t := range controlTags(inner) {
			if t.name == "analysis" && t.close && !bodyBetween(inner[:t.start]) {
				return unwrapSummary(s[:tags[open].end] + inner[t.end:] + s[tags[close].start:])
			}
		}
		if it := controlTags(inner); len(it) > 0 && it[0].name == "summary" && !it[0].close && strings.TrimSpace(inner[:it[0].start]) == "" {
			inner = inner[it[0].end:]
			if end := it[len(it)-1]; end.name == "summary" && end.close && strings.TrimSpace(s[tags[open].end+end.end:tags[close].start]) == "" {
				inner = strings.TrimSpace(inner)
				inner = inner[:len(inner)-(end.end-end.start)]
			}
		}
	}
	before, after := strings.TrimSpace(s[:tags[open].start]), strings.TrimSpace(s[tags[close].end:])
	// a scratchpad headed in Markdown instead of a tag
	if i := lastClose(before); i >= 0 {
		before = strings.TrimSpace(before[i:])
	}
	if onlyTags(after) {
		after = ""
	}
	if onlyTags(before) {
		before = ""
	}
	out := "Summary:\n" + strings.TrimSpace(inner)
	if before != "" {
		out = before + "\n\n" + out
	}
	if after != "" {
		out += "\n\n" + after
	}
	return out
}

var anyTag = regexp.MustCompile(`</?[A-Za-z][^<>]*>`)

// onlyTags reports whether nothing is left of a text without its tags.
func onlyTags(s string) bool { return strings.TrimSpace(anyTag.ReplaceAllString(s, "")) == "" }

func lastClose(s string) int {
	at := -1
	for _, t := range controlTags(s) {
		if t.name == "analysis" && t.close {
			at = t.end
		}
	}
	return at
}

func startsNumbered(s string) bool {
	s = strings.TrimLeft(s, "#*-> \t\r\n")
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsDigit(r)
}

// stripFence takes off a Markdown fence around the whole text.
func stripFence(s string) string {
	if !strings.HasPrefix(s, "```") || !strings.HasSuffix(s, "\n```") {
		return s
	}
	nl := strings.IndexByte(s, '\n')
	if nl < 0 || nl+1 > len(s)-4 {
		return s
	}
	lang := strings.TrimSpace(s[3:nl])
	if lang != "" && lang != "markdown" && lang != "md" && lang != "text" && lang != "xml" {
		return s
	}
	inner := s[nl+1 : len(s)-4]
	if strings.Contains(inner, "```") {
		return s
	}
	return strings.TrimSpace(inner)
}

var blankRun = regexp.MustCompile(`\n[ \t]*\n(?:[ \t]*\n)+`)

func collapseBlank(s string) string {
	if !strings.Contains(s, "\n") {
		return s
	}
	return blankRun.ReplaceAllString(s, "\n\n")
}
