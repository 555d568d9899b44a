package summarize

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// Who mentions a literal, as bits of [Key.By].
const (
	byUser = 1 << iota
	byAssistant
	byCall
	byTool
	byOther
)

// mention is what is known of a literal while a span is read.
type mention struct {
	n, calls, occ int32 // messages, messages that call with it, occurrences
	by            uint8
	covered       bool  // a fact has it
	item          int32 // the newest item that has it, from 1
	pos           int32 // where it was mentioned last, in bytes / 4
	call          int32 // the newest item that calls with it
	names         int32 // occurrences as the name of an argument
	rank          int32 // from 1 when chosen
	fact          int32 // the best snippet, from 1
	value         float32
	odds          float64 // of value
	best          float64 // of the quote that fact has
}

// usefulness estimates, as a log odds, that the agent will need a literal
// again. What the agent itself named in calls and text comes back most often,
// then what is new, and what is said again and again; a token that one tool
// printed once comes back least, and names come back more often than numbers.
// age is how many tokens of conversation came after it.
func usefulness(n, calls, occ int, by uint8, age int, lit string) float64 {
	digits, name := 0, false
	for i := range len(lit) {
		switch c := lit[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '/' || c == '_':
			name = true
		}
	}
	z := -2 + 0.3*math.Log(float64(n)) + 0.3*math.Log(float64(occ)/float64(n))
	if by&byCall != 0 {
		z += 0.9 + 0.5*math.Log(float64(1+calls))
	}
	if by&byAssistant != 0 {
		z += 0.9
	}
	if by&byUser != 0 {
		z += 0.2
	}
	if by == byTool && n == 1 {
		z -= 0.3
	}
	if name {
		z += 0.4
		if numbered(lit) {
			z -= 1
		}
	}
	z -= 0.9 * float64(digits) / float64(len(lit))
	z -= 0.25 * math.Log(1+float64(max(age, 0))/200)
	return z + 0.01*math.Min(float64(len(lit)), 60)
}

// numbered reports whether a path ends in the number of a line beside a match, as
// searches write it: nobody asks for that line.
func numbered(lit string) bool {
	lit = strings.TrimRight(lit, "/-") // what the line begins with
	s := strings.TrimRight(lit, "0123456789")
	return len(s) < len(lit) && strings.HasSuffix(s, "-") && strings.Contains(s, ".")
}

// usefulAsked is what it adds that a literal stands in what the user asked last
// and the agent has not begun with.
const usefulAsked = 1.5

func odds(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// snippet is a candidate for a fact: a line, or the part of it that matters.
type snippet struct {
	line string
	item int32
	by   uint8
}

const (
	// snippetPad is how much of a line beside a literal may be kept.
	snippetPad = 100
	// lineMax is how much of a line is searched for literals: more is data.
	lineMax = 256 << 10
)

// literalAt is where a literal stands in a line. The name of a tool in its own
// call is no mention: its id is noMention.
type literalAt struct{ a, b, id int32 }

const noMention = -1

// literalLine is a line that has literals.
type literalLine struct {
	text   string
	places []literalAt
	item   int32 // from 1
	by     uint8
}

// reading is one pass over the texts of a span. It grows in pieces, so that
// nothing of a long span is copied.
type reading struct {
	ids      map[string]int32 // literals to mentions
	mentions [][]mention
	count    int32 // of mentions
	lines    [][]literalLine
	places   []literalAt // what is left of the last piece
	buf      []literalAt
	bytes    int
}

// mentionPiece and linePiece are the sizes of pieces but for the first ones,
// which are smaller, placePiece that of all for places.
const (
	mentionPiece = 4096
	linePiece    = 2048
	placePiece   = 8192
)

// at returns the mention of an id.
func (r *reading) at(id int32) *mention { return &r.mentions[id/mentionPiece][id%mentionPiece] }

// known returns the mention of a literal, nil when there is none.
func (r *reading) known(lit string) *mention {
	if id, ok := r.ids[lit]; ok {
		return r.at(id)
	}
	return nil
}

// id returns the id of a literal, a new one the first time.
func (r *reading) id(lit string) int32 {
	id, ok := r.ids[lit]
	if !ok {
		id = r.count
		r.count++
		r.ids[lit] = id
		r.mentions = appendPiece(r.mentions, mention{}, mentionPiece)
	}
	return id
}

// appendPiece appends to the last of pieces, or to a new one when it has size
// elements. Only the first one is ever copied.
func appendPiece[T any](pieces [][]T, v T, size int) [][]T {
	n := len(pieces)
	switch {
	case n == 0:
		pieces = append(pieces, nil)
		n++
	case len(pieces[n-1]) == size:
		pieces = append(pieces, make([]T, 0, size))
		n++
	}
	pieces[n-1] = append(pieces[n-1], v)
	return pieces
}

// line notes the literals of a line.
func (r *reading) line(line string, item int32, by uint8) {
	r.bytes += len(line) + 1
	r.buf = r.buf[:0]
	for a, b := nextLiteral(line, 0); a >= 0; a, b = nextLiteral(line, b) {
		if by == byCall && a == 0 {
			r.buf = append(r.buf, literalAt{0, int32(b), noMention})
			continue
		}
		id := r.id(line[a:b])
		r.buf = append(r.buf, literalAt{int32(a), int32(b), id})
		m := r.at(id)
		m.occ++
		m.pos = int32((r.bytes - len(line) + b) / 4)
		if by == byCall && line[a-1] == '"' && strings.HasPrefix(line[b:], `":`) {
			m.names++
		}
		m.by |= by
		if m.item != item {
			m.item = item
			m.n++
		}
		if by == byCall && m.call != item {
			m.call = item
			m.calls++
		}
	}
	if n := len(r.buf); n > 0 {
		if n > len(r.places) {
			size := placePiece
			if r.lines == nil {
				size = 256
			}
			r.places = make([]literalAt, max(n, size))
		}
		places := r.places[:n:n]
		r.places = r.places[n:]
		copy(places, r.buf)
		r.lines = appendPiece(r.lines, literalLine{line, places, item, by}, linePiece)
	}
}

// collectFacts reads the texts of a span and quotes a line for each literal,
// the most useful first, within limit bytes. base is the position at which the
// span begins. Calls of tools in carry are passed over: the newest of each is in
// the ledger anyway, and what the others say holds no longer.
func collectFacts(items []Item, base, limit int, carry []string) []Fact {
	r := reading{ids: make(map[string]int32, min(4*len(items), 1024))}
	for i := range items {
		it := &items[i]
		if skipped(it) {
			continue
		}
		factTexts(withoutCalls(it.Message, carry), func(by uint8, text string) {
			eachLine(text, func(line string) { r.line(unboxed(line, by), int32(i+1), by) })
		})
	}
	asked := int32(0) // what the user says at the end
	for i := len(items); i > 0 && asked == 0; i-- {
		if m := items[i-1].Message; !skipped(&items[i-1]) {
			if m.Role != session.RoleUser || m.Source.Kind != session.SourceUser {
				break
			}
			asked = int32(i)
		}
	}
	// the most useful literals
	type ranked struct {
		lit string
		m   *mention
	}
	all := make([]ranked, 0, len(r.ids))
	for lit, id := range r.ids {
		m := r.at(id)
		m.value = float32(usefulness(int(m.n), int(m.calls), int(m.occ), m.by, r.bytes/4-int(m.pos), lit))
		if m.names == m.occ && m.calls < 3 {
			m.value -= 3 // known from the tool's definition
		}
		if asked > 0 && m.item == asked {
			m.value += usefulAsked
		}
		all = append(all, ranked{lit, m})
	}
	byValue := func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.m.value, a.m.value), cmp.Compare(b.m.item, a.m.item), cmp.Compare(a.lit, b.lit))
	}
	if most := max(limit/32, 64); len(all) > most {
		// only the best are sorted: those above the value of the last one taken
		vals := make([]float32, len(all))
		for i, x := range all {
			vals[i] = x.m.value
		}
		slices.Sort(vals)
		least := vals[len(vals)-most]
		all = slices.DeleteFunc(all, func(x ranked) bool { return x.m.value < least })
	}
	slices.SortFunc(all, byValue)
	for i, x := range all {
		x.m.rank, x.m.odds = int32(i+1), odds(float64(x.m.value))
	}
	// the best line of each
	snips := make([]snippet, 0, len(all))
	var found []seen
	for _, piece := range r.lines {
		for i := range piece {
			snips, found = r.bestSnippets(snips, found[:0], &piece[i])
		}
	}
	var facts []Fact
	for _, x := range all {
		if x.m.covered || x.m.fact == 0 {
			continue
		}
		s := snips[x.m.fact-1]
		f := Fact{Seq: items[s.item-1].Seq, Line: s.line, By: byName(s.by)}
		size := len(f.Line) + 48
		found = found[:0]
		for a, b := nextLiteral(s.line, 0); a >= 0; a, b = nextLiteral(s.line, b) {
			if m := r.known(s.line[a:b]); m != nil && m.rank > 0 {
				found = append(found, seen{a, b, m})
			}
		}
		for i, y := range found {
			lit, m := s.line[y.a:y.b], y.m
			if m.covered || m.fact != x.m.fact && tight(s.line, found, i) < worthOwn*m.best {
				continue // another line shows it better
			}
			m.covered = true
			f.Keys = append(f.Keys, Key{Text: lit, Count: int(m.n), Calls: int(m.calls), Times: int(m.occ), By: int(m.by), Pos: base + int(m.pos), Last: items[m.item-1].Seq})
			size += len(lit) + 40
		}
		if limit -= size; limit < 0 {
			break
		}
		facts = append(facts, f)
	}
	return facts
}

func skipped(it *Item) bool {
	return it.Message == nil || it.Checkpoint && !it.Foreign || it.Recalled
}

// eachLine calls f for each line of a text, without its end.
func eachLine(text string, f func(line string)) {
	for len(text) > 0 {
		line := text
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		if len(line) > lineMax {
			line = head(line, lineMax)
		}
		if len(line) > 0 {
			f(line)
		}
	}
}

// factTexts calls f for the texts of a message that facts are taken from.
func factTexts(m *session.Message, f func(by uint8, text string)) {
	by := uint8(byAssistant)
	switch {
	case m.Role == session.RoleUser && m.Source.Kind == session.SourceUser:
		by = byUser
	case m.Role != session.RoleAssistant:
		by = byOther
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.Text:
			f(by, p.Text)
		case session.ToolCall:
			f(byCall, callLine(p))
		case session.ToolResult:
			for _, q := range p.Parts {
				if t, ok := q.(session.Text); ok {
					f(byTool, t.Text)
				}
			}
		}
	}
}

func byName(by uint8) string {
	switch by {
	case byUser:
		return "user"
	case byAssistant:
		return "assistant"
	case byCall:
		return "call"
	case byTool:
		return "tool"
	}
	return "other"
}

// callLine is a call as one text: the tool and its arguments as they were
// written.
func callLine(c session.ToolCall) string { return c.Name + " " + c.Arguments }

// withoutCalls returns m without calls of the tools; m itself when it has none.
func withoutCalls(m *session.Message, tools []string) *session.Message {
	of := func(p session.Part) bool {
		c, ok := p.(session.ToolCall)
		return ok && slices.Contains(tools, c.Name)
	}
	if len(tools) == 0 || m == nil || !slices.ContainsFunc(m.Parts, of) {
		return m
	}
	c := *m
	c.Parts = slices.DeleteFunc(slices.Clone(m.Parts), of)
	return &c
}
