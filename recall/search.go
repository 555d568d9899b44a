package recall

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/session"
)

// Query says what is searched for. At least one of Text and Regexp, or a
// filter, must be set.
type Query struct {
	// Text is looked for literally, Regexp as a regular expression (RE2).
	Text   string
	Regexp string
	// IgnoreCase ignores case.
	IgnoreCase bool
	// Role and Tool limit the search to messages of a role, and to calls and
	// results of a tool. Path limits it to messages that mention it.
	Role session.Role
	Tool string
	Path string
	// From and To limit it to a range of events; To 0 means the end.
	From, To session.Seq
	// Scope limits it; the zero scope is [Hidden].
	Scope Scope
	// Limit is the most hits that are returned; default 20.
	Limit int
	// Context is how many bytes of snippet surround a match; default 80.
	Context int
}

// Hit is one message that matches.
type Hit struct {
	Seq     session.Seq  `json:"seq"`
	Role    session.Role `json:"role"`
	Snippet string       `json:"snippet"`
	// Matches counts the matches in the message.
	Matches int `json:"matches"`
}

// Found is the answer of [Search].
type Found struct {
	Hits []Hit `json:"hits"`
	// Scanned counts the messages that were looked at, Matched those that
	// match. Truncated says that there are more hits than the limit.
	Scanned   int  `json:"scanned"`
	Matched   int  `json:"matched"`
	Truncated bool `json:"truncated"`
}

// Search looks through the messages of a scope, newest first.
func Search(v session.View, q Query) (*Found, error) {
	if q.Text == "" && q.Regexp == "" && q.Role == "" && q.Tool == "" && q.Path == "" {
		return nil, errors.New("search: nothing to look for")
	}
	if q.Text != "" && q.Regexp != "" {
		return nil, errors.New("search: give a text or a regular expression, not both")
	}
	if q.Scope == (Scope{}) {
		q.Scope = Hidden()
	}
	if q.Limit <= 0 {
		q.Limit = 20
	}
	if q.Context <= 0 {
		q.Context = 80
	}
	find, err := q.finder()
	if err != nil {
		return nil, err
	}
	seqs, err := q.Scope.seqs(v)
	if err != nil {
		return nil, err
	}
	tools, err := q.toolNames(v, seqs)
	if err != nil {
		return nil, err
	}
	f := &Found{Hits: []Hit{}}
	for _, seq := range slices.Backward(seqs) {
		if seq < q.From || q.To > 0 && seq > q.To {
			continue
		}
		ev, err := v.Event(seq)
		if err != nil {
			return nil, err
		}
		m, err := ev.Message()
		if err != nil {
			return nil, err
		}
		f.Scanned++
		if q.Role != "" && m.Role != q.Role || q.Tool != "" && !tools[seq] {
			continue
		}
		hit := Hit{Seq: seq, Role: m.Role}
		mentions := q.Path == ""
		texts(m.Parts, func(s string) {
			mentions = mentions || strings.Contains(s, q.Path)
			if find == nil {
				if hit.Snippet == "" {
					hit.Snippet = snippet(s, 0, 0, q.Context)
				}
				return
			}
			for at := 0; at <= len(s); {
				from, to := find(s[at:])
				if from < 0 {
					break
				}
				if hit.Matches == 0 {
					hit.Snippet = snippet(s, at+from, at+to, q.Context)
				}
				hit.Matches++
				at += max(to, from+1)
			}
		})
		if !mentions || find != nil && hit.Matches == 0 {
			continue
		}
		f.Matched++
		if len(f.Hits) == q.Limit {
			f.Truncated = true
			continue
		}
		f.Hits = append(f.Hits, hit)
	}
	return f, nil
}

// finder returns a function that finds the first match in a text; nil when any
// text matches.
func (q Query) finder() (func(string) (from, to int), error) {
	pattern := q.Regexp
	switch {
	case q.Text != "" && !q.IgnoreCase:
		return func(s string) (int, int) {
			i := strings.Index(s, q.Text)
			return i, i + len(q.Text)
		}, nil
	case q.Text != "":
		pattern = regexp.QuoteMeta(q.Text)
	case pattern == "":
		return nil, nil
	}
	if q.IgnoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return func(s string) (int, int) {
		if m := re.FindStringIndex(s); m != nil {
			return m[0], m[1]
		}
		return -1, -1
	}, nil
}

// toolNames marks the messages that call the asked tool or hold its results.
func (q Query) toolNames(v session.View, seqs []session.Seq) (map[session.Seq]bool, error) {
	if q.Tool == "" {
		return nil, nil
	}
	found := make(map[session.Seq]bool)
	open := make(map[string]string) // newest tool name by call id
	for _, seq := range seqs {
		ev, err := v.Event(seq)
		if err != nil {
			return nil, err
		}
		m, err := ev.Message()
		if err != nil {
			return nil, err
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case session.ToolCall:
				open[p.ID] = p.Name
				found[seq] = found[seq] || p.Name == q.Tool
			case session.ToolResult:
				found[seq] = found[seq] || p.Name == q.Tool || open[p.CallID] == q.Tool
			}
		}
	}
	return found, nil
}

// texts calls fn with every text of a message that is searched.
func texts(parts []session.Part, fn func(string)) {
	for _, p := range parts {
		switch p := p.(type) {
		case session.Text:
			fn(p.Text)
		case session.ToolCall:
			fn(p.Name + " " + p.Arguments)
		case session.ToolResult:
			texts(p.Parts, fn)
		case session.File:
			fn(p.Name)
		}
	}
}

// snippet returns the match with some context on one line, cut at characters.
func snippet(s string, from, to, context int) string {
	a, b := max(from-context, 0), min(to+context, len(s))
	for a > 0 && !utf8.RuneStart(s[a]) {
		a--
	}
	for b < len(s) && !utf8.RuneStart(s[b]) {
		b++
	}
	out := strings.Join(strings.Fields(s[a:b]), " ")
	if a > 0 {
		out = "…" + out
	}
	if b < len(s) {
		out += "…"
	}
	return out
}
