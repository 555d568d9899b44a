package recall

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// Query says what is searched for. One of Text and Regexp, or a filter, must
// be set.
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
	// Matches counts the matches in the message, up to 1000; 0 when only
	// filters were asked for.
	Matches int `json:"matches"`
	// Compaction is the id of the checkpoint that hides it; empty when it is
	// visible, pruned, or was taken away by something else.
	Compaction string `json:"compaction,omitempty"`
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

// errNothing answers an empty query.
var errNothing = errors.New("search: nothing to look for: give a text, a regular expression or a filter")

// maxMatches bounds what is counted in one message.
const maxMatches = 1000

// Search looks through the messages of a scope and returns hits, newest first.
// Arguments of calls are searched as the model wrote them and with their JSON
// escapes undone. Text that was recalled is left out: it is a copy.
func Search(v session.View, q Query) (*Found, error) {
	if q.Text == "" && q.Regexp == "" && q.Role == "" && q.Tool == "" && q.Path == "" {
		return nil, errNothing
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
	kept := seqs[:0]
	for _, seq := range seqs {
		if seq >= q.From && (q.To <= 0 || seq <= q.To) {
			kept = append(kept, seq)
		}
	}
	tools, err := q.toolNames(v, kept)
	if err != nil {
		return nil, err
	}
	f := &Found{Hits: []Hit{}}
	for _, p := range q.scan(v, kept, tools, find) {
		if p.err != nil {
			return nil, p.err
		}
		f.Scanned += p.scanned
		f.Matched += p.matched
		f.Hits = append(f.Hits, p.hits...)
	}
	if len(f.Hits) > q.Limit {
		f.Hits = f.Hits[:q.Limit]
	}
	f.Truncated = f.Matched > len(f.Hits)
	for i := range f.Hits {
		f.Hits[i].Compaction = hiddenBy(v, f.Hits[i].Seq)
	}
	return f, nil
}

// hiddenBy returns the id of the checkpoint that hides a message.
func hiddenBy(v session.View, seq session.Seq) string {
	by := v.ShadowedBy(seq)
	if by == session.NoSeq {
		return ""
	}
	_, m, err := message(v, by)
	if err != nil || !compact.IsCheckpointSource(m.Source) {
		return ""
	}
	return m.Source.Ref
}

// part is what was found in some messages.
type part struct {
	hits             []Hit
	scanned, matched int
	err              error
}

// partSize is how many messages are looked at together.
const partSize = 512

// scan looks at the messages on all processors. Payloads are read from the
// store one after the other, which stores do best, and judged in parallel. The
// parts come newest first.
func (q *Query) scan(v session.View, seqs []session.Seq, tools map[session.Seq]bool, find finder) []part {
	parts := make([]part, (len(seqs)+partSize-1)/partSize)
	pass := q.sieve()
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		wg.Go(func() {
			for {
				mu.Lock()
				k := next
				if next++; k >= len(parts) {
					mu.Unlock()
					return
				}
				some := seqs[k*partSize : min((k+1)*partSize, len(seqs))]
				var raws [][]byte
				if pass != nil {
					raws = encoded(v, some)
				}
				mu.Unlock()
				parts[len(parts)-1-k] = q.scanPart(v, some, raws, pass, tools, find)
			}
		})
	}
	wg.Wait()
	return parts
}

// encoded returns the payloads as far as they are not in memory.
func encoded(v session.View, seqs []session.Seq) [][]byte {
	out := make([][]byte, len(seqs))
	for i, seq := range seqs {
		if ev, err := v.Event(seq); err == nil {
			out[i], _, _ = ev.Encoded() // what cannot be read fails when it is decoded
		}
	}
	return out
}

// sieve returns a function that tells, from the JSON of a message, that it
// cannot match; nil when nothing can be told.
func (q *Query) sieve() func(raw []byte) bool {
	text := q.Text
	if q.Regexp != "" {
		re, err := syntax.Parse(q.Regexp, syntax.Perl)
		if err != nil || q.IgnoreCase { // which folds more than ASCII
			return nil
		}
		text = required(re.Simplify())
	}
	run := plainRun(text)
	if len(run) < 2 || q.IgnoreCase && !ascii(text) {
		return nil
	}
	absent := func(raw []byte) bool { return !bytes.Contains(raw, []byte(run)) }
	if q.IgnoreCase {
		f := newFold(run)
		absent = func(raw []byte) bool { return f.index(string(raw)) < 0 }
	}
	phrase := strings.Contains(run, " ")
	return func(raw []byte) bool {
		// Escaped letters, the form of recalled text, and a phrase that may go from
		// the name of a tool into its arguments, are for those who decode.
		return absent(raw) && !bytes.Contains(raw, []byte(`\u00`)) && !bytes.Contains(raw, []byte(`"`+compact.FormRecalled+`"`)) &&
			!(phrase && bytes.Contains(raw, []byte(`"tool_call"`)))
	}
}

// required returns a text that stands in everything that an expression matches;
// empty when there is none, or none that is written with one case.
func required(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if s := required(sub); len(plainRun(s)) > len(plainRun(best)) {
				best = s
			}
		}
		return best
	}
	return ""
}

// plainRun returns the longest piece of a text that stands in JSON as it is.
func plainRun(s string) string {
	best, start := "", 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] >= '0' && s[i] <= '9' || strings.IndexByte(" ._-:,;=()[]{}@#+*", s[i]) >= 0) {
			continue
		}
		if i-start > len(best) {
			best = s[start:i]
		}
		start = i + 1
	}
	return best
}

func (q *Query) scanPart(v session.View, seqs []session.Seq, raws [][]byte, pass func([]byte) bool, tools map[session.Seq]bool, find finder) (p part) {
	for i := len(seqs) - 1; i >= 0; i-- {
		seq := seqs[i]
		if raws != nil && raws[i] != nil && pass(raws[i]) {
			p.scanned++
			continue
		}
		_, m, err := message(v, seq)
		if err != nil {
			p.err = err
			return p
		}
		if m.Source.Form == compact.FormRecalled {
			continue
		}
		p.scanned++
		if q.Role != "" && m.Role != q.Role || q.Tool != "" && !tools[seq] {
			continue
		}
		hit := Hit{Seq: seq, Role: m.Role}
		if !q.match(m, find, &hit) {
			continue
		}
		p.matched++
		if len(p.hits) < q.Limit {
			p.hits = append(p.hits, hit)
		}
	}
	return p
}

// match looks at one message and fills in the hit.
func (q *Query) match(m *session.Message, find finder, hit *Hit) bool {
	mentions := q.Path == ""
	first := "" // snippet for a query of filters
	texts(m.Parts, func(s, plain string) {
		if q.Path != "" && !mentions {
			for _, t := range [...]string{s, plain} {
				if i := strings.Index(t, q.Path); i >= 0 {
					mentions = true
					first = snippet(t, i, i+len(q.Path), q.Context)
					break
				}
			}
		}
		if find == nil {
			if first == "" {
				first = snippet(s, 0, 0, 2*q.Context)
			}
			return
		}
		n, from, to := find(s)
		if n == 0 && plain != "" {
			s = plain
			n, from, to = find(s)
		}
		if n > 0 && hit.Matches == 0 {
			hit.Snippet = snippet(s, from, to, q.Context)
		}
		hit.Matches = min(hit.Matches+n, maxMatches)
	})
	if find == nil {
		hit.Snippet = first
	}
	return mentions && (find == nil || hit.Matches > 0)
}

// finder counts the matches in a text and says where the first one is.
type finder func(s string) (n, from, to int)

// finder returns nil when any text matches.
func (q *Query) finder() (finder, error) {
	pattern := q.Regexp
	switch {
	case q.Text != "" && !q.IgnoreCase:
		return indexFinder(len(q.Text), func(s string) int { return strings.Index(s, q.Text) }), nil
	case q.Text != "" && ascii(q.Text):
		f := newFold(q.Text)
		return indexFinder(len(q.Text), f.index), nil
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
	return func(s string) (int, int, int) {
		if !re.MatchString(s) {
			return 0, 0, 0
		}
		all := re.FindAllStringIndex(s, maxMatches)
		return len(all), all[0][0], all[0][1]
	}, nil
}

func indexFinder(size int, index func(string) int) finder {
	return func(s string) (n, from, to int) {
		for at := 0; at <= len(s) && n < maxMatches; n++ {
			i := index(s[at:])
			if i < 0 {
				break
			}
			if n == 0 {
				from, to = at+i, at+i+size
			}
			at += i + size
		}
		return n, from, to
	}
}

// toolNames marks those messages that call the asked tool or hold its results.
func (q *Query) toolNames(v session.View, seqs []session.Seq) (map[session.Seq]bool, error) {
	if q.Tool == "" || len(seqs) == 0 {
		return nil, nil
	}
	found := make(map[session.Seq]bool)
	open := make(map[string]string) // newest tool name by call id
	for ev := range v.Events(0) {
		if ev.Seq > seqs[len(seqs)-1] {
			break
		}
		if ev.Type != session.TypeMessage && ev.Type != session.TypeReplace {
			continue
		}
		m, err := ev.Message()
		if err != nil {
			return nil, err
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case session.ToolCall:
				open[p.ID] = p.Name
				found[ev.Seq] = found[ev.Seq] || p.Name == q.Tool
			case session.ToolResult:
				found[ev.Seq] = found[ev.Seq] || p.Name == q.Tool || open[p.CallID] == q.Tool
			}
		}
	}
	return found, nil
}

// texts calls fn with every text of a message that is searched. plain is the
// same text without JSON escapes; empty when it has none.
func texts(parts []session.Part, fn func(s, plain string)) {
	for _, p := range parts {
		switch p := p.(type) {
		case session.Text:
			fn(p.Text, "")
		case session.ToolCall:
			s := p.Name + " " + p.Arguments
			plain := ""
			if !p.Custom && strings.IndexByte(s, '\\') >= 0 {
				plain = unescape(s)
			}
			fn(s, plain)
		case session.ToolResult:
			texts(p.Parts, fn)
		case session.File:
			fn(p.Name, "")
		}
	}
}

// unescape undoes the common escapes of JSON strings.
func unescape(s string) string {
	return jsonEscapes.Replace(s)
}

var jsonEscapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\/`, `/`, `\n`, "\n", `\t`, "\t", `\r`, "\r",
	`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u0027`, "'")

// snippet returns the match with some context on one line, cut at characters.
func snippet(s string, from, to, context int) string {
	to = min(to, from+4*context) // a match may be as long as the text
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
