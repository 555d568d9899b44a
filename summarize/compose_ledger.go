package summarize

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/session"
)

// layout writes a ledger within a budget.
type layout struct {
	*ledgerText
	count func(string) int
	// tail is text visible elsewhere, said the narrative.
	tail, said string
	// shown are the user's messages that stay as they are.
	shown map[string]bool
	// left is what is left of all, clip of how much the user's texts get a part
	// that do not stay whole.
	left, all, clip int
}

// ledgerText is what the texts of a ledger look like in a checkpoint, made when
// they are asked for and kept for the next layout of the same ledger.
type ledgerText struct {
	ledger *Ledger
	quotes []pricedText // of User
	userOrder
	paths  []pricedText // of Files
	failed []string     // of Failures; empty: not asked yet
}

// pricedText is a text as it is shown; cost is -1 until it is asked for.
type pricedText struct {
	text string
	cost int
}

func newLedgerText(l *Ledger) *ledgerText {
	t := &ledgerText{ledger: l}
	if l != nil {
		t.quotes, t.paths, t.failed = unpriced(len(l.User)), unpriced(len(l.Files)), make([]string, len(l.Failures))
		t.userOrder = orderUser(l.User)
	}
	return t
}

func unpriced(n int) []pricedText {
	out := make([]pricedText, n)
	for i := range out {
		out[i].cost = -1
	}
	return out
}

// quote returns a text of the user with its price.
func (l *layout) quote(i int) (string, int) {
	t := &l.quotes[i]
	if t.cost < 0 {
		q := &l.ledger.User[i]
		t.text = userLines(q.Seq, q.Text)
		t.cost = l.count(t.text) + 1
	}
	return t.text, t.cost
}

// path returns the path of a file with its price.
func (l *layout) path(i int) (string, int) {
	t := &l.paths[i]
	if t.cost < 0 {
		t.text = quoteLine(l.ledger.Files[i].Path)
		t.cost = l.count(" "+t.text) + 1
	}
	return t.text, t.cost
}

// The titles of the parts. Content cannot forge them: its lines have a mark in
// front. Quotes start with the number of the event that they stand in.
const (
	titleUser     = "User:"
	titleNotes    = "Present:"
	titlePlan     = "Todo:"
	titleCarried  = "Tools:"
	titleFailures = "Failed:"
	titleFiles    = "Files:"
	titleFacts    = "Quotes:"
)

func (l *layout) share(part float64) int { return int(part * float64(l.all)) }

// asked is the user's words before it is known what else there is room for.
func (l *layout) asked() []string {
	part := shareUser
	if l.ledger.pending() {
		part = sharePending
	}
	l.clip = max(l.share(part), min(l.left*3/5, leastUser), min(l.left, wordsUser))
	return l.user(max(l.clip, min(l.share(shareAsked), mostAsked), min(l.left/3, leastAsked)), false)
}

func (l *layout) write() string {
	state := l.state(l.share(shareState))
	l.spend(state...)
	user := l.asked()
	l.spend(user...)
	failures := l.failures(l.share(shareFailures))
	l.spend(failures...)
	files := l.files(l.share(shareFiles), false)
	l.spend(files...)
	quoted := joinLines(append(append(slices.Clone(user), failures...), state...)...)
	facts := l.facts(quoted, joinLines(files...))
	l.spend(facts...)
	// what the facts did not use goes to the rest
	if spare := l.left; spare > l.all/20 {
		grow := func(part []string, again func(int) []string) []string {
			had := l.price(part)
			l.left += had
			part = again(had + spare)
			l.spend(part...)
			spare = l.left
			return part
		}
		user = grow(user, func(n int) []string { l.clip = n; return l.user(n, false) })
		failures = grow(failures, l.failures)
		files = grow(files, func(n int) []string { return l.files(n, true) })
		user = grow(user, func(n int) []string { return l.user(n, true) })
	}
	return joinLines(slices.Concat(user, state, failures, files, facts)...)
}

func (l *layout) price(lines []string) int {
	n := 0
	for _, s := range lines {
		n += l.count(s) + 1
	}
	return n
}

func (l *layout) spend(lines ...string) { l.left -= l.price(lines) }

// part writes a title and as many lines as fit into budget, in order.
func (l *layout) part(title string, lines []string, budget int) []string {
	budget = min(budget, l.left) - l.count(title) - 1
	var out []string
	for _, s := range lines {
		if cost := l.count(s) + 1; cost <= budget {
			budget -= cost
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return append([]string{title}, out...)
}

// state writes what is true now: notes, plan, carried calls.
func (l *layout) state(budget int) []string {
	var notes, plan, carried []string
	for _, n := range l.ledger.Notes {
		notes = append(notes, "- "+quoteLine(n))
	}
	if p := l.ledger.Plan; p != nil {
		for _, it := range p.Items {
			plan = append(plan, "- "+quoteLine("["+box(it.State)+"] "+it.Text))
		}
	}
	for _, c := range l.ledger.Carried {
		if l.ledger.Plan != nil && l.ledger.Plan.Tool == c.Tool {
			continue // shown as the plan
		}
		carried = append(carried, seqPrefix(c.Seq)+quoteLine(c.Tool+" "+c.Arguments))
	}
	out := l.part(titleNotes, notes, budget)
	budget -= l.price(out)
	if fit := l.part(titlePlan, plan, budget); len(fit) == len(plan)+1 {
		out = append(out, fit...)
		budget -= l.price(fit)
	} else if len(plan) > 0 { // the open items first
		open := slices.DeleteFunc(slices.Clone(plan), func(s string) bool { return strings.HasPrefix(s, "- [x]") || strings.HasPrefix(s, "- [-]") })
		fit = l.part(titlePlan, open, budget)
		out = append(out, fit...)
		budget -= l.price(fit)
	}
	return append(out, l.part(titleCarried, carried, budget)...)
}

func box(state string) string {
	switch state {
	case "done":
		return "x"
	case "active":
		return "~"
	case "dropped":
		return "-"
	}
	return " "
}

// user writes the user's words: what was asked first, what was said last, and
// rules come before the rest. Texts that say again what a newer one says with
// other numbers are left out unless repeated is set.
func (l *layout) user(budget int, repeated bool) []string {
	quotes := l.ledger.User
	if len(quotes) == 0 {
		return nil
	}
	budget = min(budget, l.left) - l.count(titleUser) - 1
	whole, clip := budget, int(shareClip*float64(min(budget, l.clip)))
	chosen := make(map[int]string, len(quotes))
	order, first, last := l.order, l.first, l.last
	pending := l.ledger.pending()
	if pending { // it comes before everything else
		order = append([]int{last}, slices.DeleteFunc(slices.Clone(order), func(i int) bool { return i == last })...)
	}
	for n, i := range order {
		if n >= len(order)-l.later && !repeated {
			break
		}
		q := quotes[i]
		if l.shown[strings.TrimSpace(q.Text)] {
			continue
		}
		text, cost := l.quote(i)
		most := whole * 2 / 5
		switch {
		case len(quotes) == 1:
			most = whole
		case i == first || i == last || len(chosen) == 0:
			most = whole * 4 / 5
		}
		if cost > min(budget, most) && (i == first || i == last || q.Rule || len(chosen) == 0) {
			if !pending || i != last {
				most = min(most, clip)
			}
			text = l.clipQuote(q, min(budget, most))
			cost = l.count(text) + 1
		}
		if text == "" || cost > budget {
			continue
		}
		budget -= cost
		chosen[i] = text
	}
	out := []string{titleUser}
	for i := range quotes {
		if s, ok := chosen[i]; ok {
			out = append(out, s)
		}
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// userLines quotes a text line by line.
func userLines(seq session.Seq, text string) string {
	text = Defuse(strings.TrimSpace(text))
	return strconv.FormatInt(int64(seq), 10) + "> " + strings.ReplaceAll(text, "\n", "\n> ")
}

// clipQuote quotes as much of a text as fits: its start, the lines that state
// rules, and its end.
func (l *layout) clipQuote(q Quote, budget int) string {
	said := strings.TrimSpace(q.Text)
	asked := request(said)
	lines := strings.Split(asked, "\n")
	keep := make([]bool, len(lines))
	left := budget - l.count(userLines(q.Seq, "")) - 4
	take := func(i int) {
		if keep[i] || !hasLetters(lines[i]) {
			return
		}
		if cost := l.count("> "+lines[i]) + 2; cost <= left {
			left -= cost
			keep[i] = true
		}
	}
	first := left
	// The beginning says what is wanted: a first line that is too long is cut.
	if l.count("> "+lines[0])+2 > first*2/3 {
		if lines[0] = l.prefix(lines[0], first*2/3); lines[0] == "" {
			return ""
		}
	}
	for i := 0; i < len(lines) && left > first*2/3; i++ {
		take(i)
	}
	for i := range lines {
		if isRule(lines[i]) {
			take(i)
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		take(i)
	}
	if !slices.Contains(keep, true) {
		return ""
	}
	var out []string
	gap := asked != said
	for i, line := range lines {
		if !keep[i] {
			gap = gap || strings.TrimSpace(line) != ""
			continue
		}
		if gap {
			line = "… " + line
			gap = false
		}
		out = append(out, line)
	}
	text := strings.Join(out, "\n")
	if gap && !strings.HasSuffix(text, "…") {
		text += " …"
	}
	return userLines(q.Seq, text)
}

// prefix cuts a line at a word so that it has at most n tokens as a quote;
// empty when that is too little to say anything.
func (l *layout) prefix(line string, n int) string {
	lo, hi := 0, len(line)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if l.count("> "+head(line, mid)+" …")+2 <= n {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if lo < 12 {
		return ""
	}
	cut := head(line, lo)
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return cut + " …"
}

// userOrder is the order of the worth of quotes, by index: the first, the last,
// rules from new to old, then the others from new to old. Of texts that differ
// in numbers only, the newest counts: the others are among the last, which are
// said when all else is, as is what tools put before the user's words.
type userOrder struct {
	order       []int
	later       int // how many at the end of order
	first, last int // what was asked first and last
}

func orderUser(quotes []Quote) userOrder {
	newest := make(map[string]int, len(quotes))
	kinds := make([]string, len(quotes))
	context := make([]bool, len(quotes))
	u := userOrder{order: make([]int, len(quotes)), first: -1}
	for i := range quotes {
		kinds[i] = template(quotes[i].Text)
		newest[kinds[i]] = i
		if context[i] = onlyContext(quotes[i].Text); !context[i] {
			u.last = i
			if u.first < 0 {
				u.first = i
			}
		}
	}
	if u.first < 0 {
		u.first, u.last = 0, len(quotes)-1
	}
	rank := make([]int, len(quotes))
	for i, q := range quotes {
		u.order[i] = i
		switch {
		case i == u.first:
			rank[i] = 0
		case i == u.last:
			rank[i] = 1
		case context[i] || newest[kinds[i]] != i:
			rank[i] = 4
			u.later++
		case q.Rule:
			rank[i] = 2
		default:
			rank[i] = 3
		}
	}
	slices.SortStableFunc(u.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(b, a))
	})
	return u
}

// template is a text without its numbers: texts of one template say the same
// about other things.
func template(s string) string {
	return string(appendTemplate(make([]byte, 0, min(len(s), 400)), s))
}

// appendTemplate appends the template of a text.
func appendTemplate(out []byte, s string) []byte {
	s = squash(head(s, 400))
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			s = strings.ToLower(s)
			break
		}
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < '0' || c > '9' {
			out = append(out, lowerByte(c))
		} else if i == 0 || s[i-1] < '0' || s[i-1] > '9' {
			out = append(out, '0')
		}
	}
	return out
}

// failures writes what failed, the newest first chosen.
func (l *layout) failures(budget int) []string {
	var lines []string
	for i := len(l.ledger.Failures) - 1; i >= 0; i-- {
		f := l.ledger.Failures[i]
		if l.tail != "" && strings.Contains(l.tail, f.Error) || l.told(f) {
			continue
		}
		if l.failed[i] == "" {
			l.failed[i] = seqPrefix(f.Seq) + quoteLine(f.What) + ": " + quoteLine(f.Error)
			if f.Solved {
				l.failed[i] += " (solved later)"
			}
		}
		lines = append(lines, l.failed[i])
	}
	return reversePart(l.part(titleFailures, lines, budget))
}

// told reports whether the narrative tells of a failure already: of the call and
// of the line that says why, as far as it quotes them.
func (l *layout) told(f FailedCall) bool {
	const enough = 50
	return strings.Contains(l.said, head(quoteLine(f.What), enough)) && strings.Contains(l.said, head(quoteLine(f.Error), enough))
}

// files writes what was done to files, one line for each kind. Those that were
// only read come when reads is set: quotes of calls name most of them.
func (l *layout) files(budget int, reads bool) []string {
	budget = min(budget, l.left)
	kinds := []string{"created", "changed", "deleted", "read"}
	lists := map[string][]string{}
	budget -= l.count(titleFiles) + 1
	add := func(i int, must bool) {
		f := &l.ledger.Files[i]
		path, cost := l.path(i)
		if len(lists[f.Did]) == 0 {
			cost += 3
		}
		if cost > budget && !must || cost > l.left {
			return
		}
		budget -= cost
		lists[f.Did] = append(lists[f.Did], path)
	}
	for i := len(l.ledger.Files) - 1; i >= 0; i-- {
		if l.ledger.Files[i].Carry {
			add(i, true)
		}
	}
	for _, read := range []bool{false, true} {
		if read && !reads {
			break
		}
		for i := len(l.ledger.Files) - 1; i >= 0; i-- {
			if f := &l.ledger.Files[i]; !f.Carry && (f.Did == "read") == read {
				add(i, false)
			}
		}
	}
	out := []string{titleFiles}
	for _, k := range kinds {
		if len(lists[k]) > 0 {
			out = append(out, "- "+k+" "+strings.Join(lists[k], " "))
		}
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// facts quotes what the tail and the other parts do not quote.
func (l *layout) facts(quoted, named string) []string {
	budget := l.left - l.count(titleFacts) - 1
	lines := packFacts(l.ledger.Facts, l.ledger.asked(), []string{l.tail, quoted}, []string{l.said, named}, budget, l.count)
	if len(lines) == 0 {
		return nil
	}
	return append([]string{titleFacts}, lines...)
}

func reversePart(lines []string) []string {
	if len(lines) > 1 {
		slices.Reverse(lines[1:])
	}
	return lines
}

func seqPrefix(seq session.Seq) string { return strconv.FormatInt(int64(seq), 10) + ": " }

// quoteLine makes one harmless line of a text.
func quoteLine(s string) string { return Defuse(squash(s)) }
