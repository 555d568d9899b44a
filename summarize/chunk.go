package summarize

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/session"
)

// balanced reports for each item whether the cut before it separates no call
// from its result.
func balanced(items []Item) []bool {
	cuts := make([]bool, len(items))
	open := map[string]int{} // calls that wait, by id
	// A result that never comes must not keep a unit open.
	last := map[string]int{}
	for i := range items {
		if m := items[i].Message; m != nil {
			for _, id := range m.Results() {
				last[id] = i
			}
		}
	}
	waiting := 0
	for i := range items {
		cuts[i] = waiting == 0
		m := items[i].Message
		if m == nil || items[i].piece || items[i].Checkpoint {
			continue
		}
		for _, id := range m.Results() {
			switch n := open[id]; {
			case n == 0:
			case last[id] == i: // calls of an id that is used again may be left over
				waiting -= n
				delete(open, id)
			default:
				open[id]--
				waiting--
			}
		}
		for _, id := range m.Calls() {
			if last[id] > i {
				open[id]++
				waiting++
			}
		}
	}
	return cuts
}

// split cuts a unit that does not fit into runs that do: first between its
// messages, then inside their texts, with a mark at each cut.
func (r *run) split(m *model, req *Request, items []Item, room int) [][]Item {
	var flat []Item
	t := &transcript{}
	for i := range items {
		it := items[i]
		if red, ok := m.Summarizer.(interface{ redactor() *Redactor }); ok {
			it = redacted(red.redactor(), it) // a secret must be seen whole
		}
		head, body := t.entry(&it)
		if req.Count(entryText(&transcript{names: t.names}, &it)) <= room {
			flat = append(flat, piecesOf(&it, head, []string{body})...)
			continue
		}
		flat = append(flat, piecesOf(&it, head, cutText(body, room-room/10-40, req.Count))...)
	}
	each, _ := sizes(req, flat)
	var out [][]Item
	for _, c := range plan.Chunks(each, func(int) bool { return true }, room) {
		out = append(out, flat[c[0]:c[1]])
	}
	return out
}

// piecesOf makes an item of each piece of the body of an entry.
func piecesOf(it *Item, head string, pieces []string) []Item {
	out := make([]Item, len(pieces))
	defer func() { out[0].hits = it.hits }()
	for i, s := range pieces {
		if len(pieces) > 1 {
			s = fmt.Sprintf("(piece %d of %d)\n%s", i+1, len(pieces), s)
		}
		out[i] = Item{
			Seq: it.Seq, Tokens: it.Tokens / len(pieces), Checkpoint: it.Checkpoint, Narrative: s,
			Message: &session.Message{
				Role: session.RoleUser, Parts: []session.Part{session.Text{Text: s}},
				Source: session.Source{Kind: session.SourcePlugin, Plugin: "compact", Form: "piece"},
			},
			label: head, piece: true,
		}
	}
	return out
}

// cutText cuts a text into pieces of at most so many tokens, at line ends
// where there are some, and never inside a rune.
func cutText(s string, tokens int, count func(string) int) []string {
	tokens = max(tokens, 16)
	var out []string
	for {
		total := count(s)
		if total <= tokens {
			return append(out, s)
		}
		// Even pieces, by bytes, then smaller until it fits.
		n := len(s) / ((total + tokens - 1) / tokens)
		for {
			n = max(n, 1)
			for n < len(s) && !utf8.RuneStart(s[n]) {
				n++
			}
			if i := strings.LastIndexByte(s[:n], '\n'); i > n*3/4 {
				n = i + 1
			}
			if n <= 4 || count(s[:n]) <= tokens {
				break
			}
			n = n * 7 / 8
		}
		out = append(out, s[:n])
		if s = s[n:]; s == "" {
			return out
		}
	}
}
