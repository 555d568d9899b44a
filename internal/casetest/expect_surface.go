package casetest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

func (c *checks) onSurface() {
	e := c.e
	c.keep()
	c.gone()
	c.has("keep_text", e.KeepText, c.last.text(), true, "the final request")
	c.has("contains", e.Contains, c.text, true, "the surface")
	c.has("not_contains", e.NotContains, c.text, false, "the surface")
	before, place := "", -1
	for _, t := range e.Order {
		first := strings.Index(c.text, t)
		if first < 0 {
			continue
		}
		if place >= 0 && place > first {
			c.bad("order", "%q stands before the last %q", t, before)
		}
		before, place = t, strings.LastIndex(c.text, t)
	}
	for t, most := range e.CountMax {
		if n := strings.Count(c.text, t); n > most {
			c.bad("count_max", "%q at most %d times, the surface has it %d times", t, most, n)
		}
	}
	if e.SurfaceUnchanged {
		if s := differ(c.unchanged(), c.surface); s != "" {
			c.bad("surface_unchanged", "%s", s)
		}
	}
	n := len(c.surface)
	if c.w.c.Given.StrictAlternation {
		n = len(c.last.Messages)
	}
	c.atMost("surface_len_max", e.SurfaceLenMax, n, "the surface has")
	if e.LastIndex != nil {
		want := newEntry(&c.w.messages[*e.LastIndex])
		if n := len(c.surface); n == 0 || !bytes.Equal(c.surface[n-1].bytes, want.bytes) {
			c.bad("last_index", "want message %d (%s), the last entry is %s", *e.LastIndex, want.short(), c.lastShort())
		}
	}
	if e.OpenCallsAfter != nil {
		got, want := slices.Sorted(slices.Values(c.w.seen.open)), slices.Sorted(slices.Values(*e.OpenCallsAfter))
		if !slices.Equal(got, want) {
			c.bad("open_calls_after", "want %q, open are %q", want, got)
		}
	}
}

func (c *checks) lastShort() string {
	if len(c.surface) == 0 {
		return "none"
	}
	return c.surface[len(c.surface)-1].short()
}

// keep finds each message on the surface, one entry for each.
func (c *checks) keep() {
	used := make(map[int]bool)
	for _, i := range c.e.Keep {
		want := newEntry(&c.w.messages[i])
		found := false
		for k, e := range c.surface {
			if !used[k] && bytes.Equal(e.bytes, want.bytes) {
				used[k], found = true, true
				break
			}
		}
		if !found {
			c.bad("keep", "message %d (%s) is not on the surface as it was", i, want.short())
		}
	}
}

// gone looks for the messages in the final request. A message that is the same
// as one that may stay is found once more for that.
func (c *checks) gone() {
	if len(c.e.Gone) == 0 {
		return
	}
	there := map[string]int{}
	for i := range c.last.Messages {
		there[c.last.Messages[i].key()]++
	}
	key := func(i int) string {
		m, err := parseChat(openaichat.EncodeMessage(&c.w.messages[i])[0])
		if err != nil {
			return ""
		}
		return m.key()
	}
	stay := map[string]int{}
	for i := range c.w.messages {
		if !slices.Contains(c.e.Gone, i) {
			stay[key(i)]++
		}
	}
	for _, i := range c.e.Gone {
		if k := key(i); there[k] > stay[k] {
			c.bad("gone", "message %d (%s) is in the final request", i, newEntry(&c.w.messages[i]).short())
		}
	}
}

// unchanged is the surface of before the first compaction op with what was
// appended since.
func (c *checks) unchanged() []entry {
	if !c.w.seen.started {
		return c.surface
	}
	want := slices.Clone(c.w.seen.first)
	v := c.w.sess.View()
	for e := range v.Events(c.w.seen.firstSeq) {
		if e.Type != session.TypeMessage {
			continue
		}
		if m, err := e.Message(); err == nil {
			want = append(want, newEntry(m))
		}
	}
	return want
}

// contentPresent checks that every message of a request has content, and that
// it is what it was.
func (c *checks) contentPresent(n int, r *chatRequest) {
	for i := range r.Messages {
		if !bytes.Contains(r.Messages[i].raw, []byte(`"content":`)) || r.Messages[i].Content == nil && !nullContent(r.Messages[i].raw) {
			c.bad("wire_content_present", "message %d of request %d has no content", i, n)
		}
	}
	for _, e := range c.surface {
		if e.checkpoint {
			continue
		}
		m, err := parseChat(openaichat.EncodeMessage(e.message)[0])
		if err != nil {
			continue
		}
		found, same := false, false
		for i := range r.Messages {
			o := &r.Messages[i]
			if o.key() == m.key() {
				found = true
				same = same || string(o.Content) == string(m.Content)
			}
		}
		if found && !same {
			c.bad("wire_content_present", "the content of %s is another one in request %d", e.short(), n)
		}
	}
}

// nullContent reports whether a message has a content that is null, which
// decodes like none.
func nullContent(raw []byte) bool {
	m, ok := decodeJSON(raw).(map[string]any)
	if !ok {
		return false
	}
	_, has := m["content"]
	return has
}

func (c *checks) summaries() {
	e := c.e
	list := checkpoints(c.surface)
	if e.SummaryCount != nil && len(list) != *e.SummaryCount {
		c.bad("summary_count", "want %d, the surface has %d", *e.SummaryCount, len(list))
	}
	if e.SummaryRole != "" {
		if len(list) == 0 {
			c.bad("summary_role", "there is no summary")
		}
		for _, s := range list {
			for i := range c.last.Messages {
				if m := &c.last.Messages[i]; strings.Contains(strings.Join(m.texts(), "\n"), s.message.Text()) && m.Role != e.SummaryRole {
					c.bad("summary_role", "want %s, it is %s", e.SummaryRole, m.Role)
				}
			}
			if !strings.Contains(c.last.text(), s.message.Text()) {
				c.bad("summary_role", "the summary is not in the final request")
			}
		}
	}
	if e.SummaryFramed {
		if len(list) == 0 {
			c.bad("summary_framed", "there is no summary")
		}
		for _, s := range list {
			if !c.framed(s.message.Text()) {
				c.bad("summary_framed", "no line outside of the scripted text says what it is: %s", clip(s.message.Text(), 200))
			}
		}
	}
}

// framed reports whether a line outside of the scripted texts says that the
// message is a generated record.
func (c *checks) framed(text string) bool {
	for _, s := range c.w.srv.texts {
		for _, part := range []string{s, summarize.Clean(s)} {
			if part != "" {
				text = strings.ReplaceAll(text, part, "\n")
			}
		}
	}
	for line := range strings.Lines(strings.ToLower(text)) {
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r < 'a' || r > 'z' }) {
			switch word {
			case "summary", "summarized", "generated", "compacted", "compaction", "checkpoint", "record":
				return true
			}
		}
	}
	return false
}

// calls checks the made-up results of the final request: those that no message
// of the surface is.
func (c *checks) calls() {
	if c.e.SyntheticResults == nil {
		return
	}
	// Results on the surface, by the id they had there.
	real := map[[2]string]int{}
	var names []string // ids of the calls on the surface, in order
	for _, e := range c.surface {
		for _, p := range e.message.Parts {
			switch p := p.(type) {
			case session.ToolCall:
				names = append(names, p.ID)
			case session.ToolResult:
				real[[2]string{p.CallID, strings.Join(partTexts(p.Parts), "")}]++
			}
		}
	}
	var got []string
	n := 0
	ids := map[string]string{} // on the wire to those on the surface
	for i := range c.last.Messages {
		m := &c.last.Messages[i]
		for _, call := range m.ToolCalls {
			if n < len(names) {
				ids[call.ID] = names[n]
			}
			n++
		}
		if m.Role != "tool" {
			continue
		}
		id := ids[m.ToolCallID]
		texts, _ := m.content()
		k := [2]string{id, strings.Join(texts, "")}
		if real[k] > 0 {
			real[k]--
			continue
		}
		got = append(got, id)
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(*c.e.SyntheticResults)); !slices.Equal(got, want) {
		c.bad("synthetic_results", "want %q, made up are %q", want, got)
	}
}
