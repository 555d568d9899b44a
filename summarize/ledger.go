package summarize

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/session"
)

// Ledger holds the facts of a span as data. It is carried from checkpoint to
// checkpoint, merged by code and never summarized. It is plain data: it can be
// stored as JSON, and the same span gives the same bytes. A nil Ledger is
// empty. A Ledger is not modified after it was made.
type Ledger struct {
	// User are the user's own words, oldest first, verbatim.
	User []Quote `json:"user,omitempty"`
	// Notes are what the host said about the present; those of the newest
	// compaction alone.
	Notes []string `json:"notes,omitempty"`
	// Plan is the last known todo list or plan; nil when there is none or all
	// of it is done.
	Plan *Plan `json:"plan,omitempty"`
	// Carried are the newest calls of the tools that the host named.
	Carried []Carried `json:"carried,omitempty"`
	// Files are the files that were read or touched, oldest first by their last
	// mention.
	Files []File `json:"files,omitempty"`
	// Failures are commands and calls that failed, oldest first.
	Failures []FailedCall `json:"failures,omitempty"`
	// Facts are quoted lines with identifiers, numbers, paths, URLs, versions
	// or hashes in them, the most useful first.
	Facts []Fact `json:"facts,omitempty"`
	// Dropped counts what was left out to keep the ledger bounded.
	Dropped int `json:"dropped,omitempty"`
}

// Quote is a text that the user wrote.
type Quote struct {
	Seq  session.Seq `json:"seq"`
	Text string      `json:"text"`
	// Rule marks a text that states a constraint, a decision or a correction.
	Rule bool `json:"rule,omitempty"`
	// Cut says that a middle part of a long text is left out; the seq leads to
	// it.
	Cut bool `json:"cut,omitempty"`
	// Ref says that Text is only the beginning, for storing: see
	// [Ledger.Stored].
	Ref bool `json:"ref,omitempty"`
}

// Plan is a todo list or plan as it was last written.
type Plan struct {
	Seq session.Seq `json:"seq"`
	// Tool is the tool that wrote it; empty for a list in text.
	Tool string `json:"tool,omitempty"`
	// Items are the entries in order.
	Items []PlanItem `json:"items"`
}

// PlanItem is one entry of a plan.
type PlanItem struct {
	Text string `json:"text"`
	// State is "done", "active", "open", "dropped" or the word of the tool.
	State string `json:"state"`
}

// Carried is the newest call of a tool whose arguments are state.
type Carried struct {
	Seq       session.Seq `json:"seq"`
	Tool      string      `json:"tool"`
	Arguments string      `json:"arguments"`
}

// File is a file and what was done to it last.
type File struct {
	Seq  session.Seq `json:"seq"`
	Path string      `json:"path"`
	// Did is "read", "created", "changed" or "deleted".
	Did string `json:"did"`
	// Times counts the calls that touched it.
	Times int `json:"times,omitempty"`
	// Carry marks a file that the host wants shown.
	Carry bool `json:"carry,omitempty"`
}

// FailedCall is a command or call that failed.
type FailedCall struct {
	Seq session.Seq `json:"seq"`
	// What is the command, or the tool with its main argument.
	What string `json:"what"`
	// Error is the line that says why, as it was printed.
	Error string `json:"error"`
	// Solved reports that the same command succeeded later.
	Solved bool `json:"solved,omitempty"`
}

// Fact is a quoted line, or the part of it around what matters.
type Fact struct {
	// Seq is the message that the line stands in.
	Seq session.Seq `json:"seq"`
	// Line is the quote.
	Line string `json:"line"`
	// By is who wrote it: user, assistant, call, tool or other.
	By string `json:"by,omitempty"`
	// Keys are the literals that the line is quoted for.
	Keys []Key `json:"keys,omitempty"`
}

// Key is a literal with what makes it useful.
type Key struct {
	Text string `json:"k"`
	// Count is how many messages mention it, Calls how many of them call a tool
	// with it, Times how often it is mentioned.
	Count int `json:"n,omitempty"`
	Calls int `json:"c,omitempty"`
	Times int `json:"t,omitempty"`
	// By are the kinds of authors that mention it, as bits: 1 user, 2
	// assistant, 4 call, 8 tool, 16 other.
	By int `json:"by,omitempty"`
	// Pos is how many tokens into the conversation it was mentioned last, by a
	// rough count.
	Pos int `json:"p,omitempty"`
	// Last is the newest message that mentions it.
	Last session.Seq `json:"last"`
}

// LedgerOptions are the optional settings of [Extract].
type LedgerOptions struct {
	// CarryTools names tools whose newest call is state: its arguments are
	// carried, unless all of its items are done.
	CarryTools []string
	// CarryPaths asks for every path in the arguments of calls, even where the
	// tool is not known to touch files.
	CarryPaths bool
	// LiveNotes are what the host says about the present. They replace those
	// of earlier compactions.
	LiveNotes []string
	// MaxBytes bounds the ledger as it is stored. 0 means six bytes for a
	// token of the span, from 192 KiB to 1 MiB. Composing takes as much of it as
	// the budget of a checkpoint has room for.
	MaxBytes int
}

// The bounds of what a ledger may have by default.
const (
	minLedgerBytes = 192 << 10
	maxLedgerBytes = 1 << 20
)

// Empty reports whether there are no facts.
func (l *Ledger) Empty() bool {
	return l == nil || len(l.User) == 0 && len(l.Notes) == 0 && l.Plan == nil && len(l.Carried) == 0 &&
		len(l.Files) == 0 && len(l.Failures) == 0 && len(l.Facts) == 0
}

// asked returns where the user's last words stand when nothing came after them,
// else NoSeq.
func (l *Ledger) asked() session.Seq {
	if !l.pending() {
		return session.NoSeq
	}
	return l.User[len(l.User)-1].Seq
}

// pending reports whether nothing came after the user's last words, as far as
// there are facts of it.
func (l *Ledger) pending() bool {
	if len(l.User) == 0 {
		return false
	}
	last := l.User[len(l.User)-1].Seq
	for _, f := range l.Facts {
		for _, k := range f.Keys {
			if k.Last > last {
				return false
			}
		}
		if f.Seq > last {
			return false
		}
	}
	return (len(l.Files) == 0 || l.Files[len(l.Files)-1].Seq <= last) && (len(l.Failures) == 0 || l.Failures[len(l.Failures)-1].Seq <= last)
}

// Merge joins the facts of two ledgers. Where both say something about the
// same thing the newer one wins; what only the older one says is kept. Neither
// is modified. Merging a ledger with itself changes nothing.
func Merge(old, newer *Ledger) *Ledger {
	return merge(old, newer, maxLedgerBytes)
}

func merge(old, newer *Ledger, limit int) *Ledger {
	if newer == nil {
		newer = &Ledger{}
	}
	if old == nil {
		old = &Ledger{}
	}
	l := &Ledger{Notes: slices.Clone(newer.Notes), Dropped: max(old.Dropped, newer.Dropped)}
	l.User = mergeQuotes(old.User, newer.User)
	l.Plan = newer.Plan
	if l.Plan == nil {
		l.Plan = old.Plan
	}
	l.Plan = openPlan(l.Plan)
	l.Carried = slices.DeleteFunc(mergeBy(old.Carried, newer.Carried, func(c Carried) string { return c.Tool }, nil), func(c Carried) bool {
		return allDone(c.Arguments)
	})
	l.Files = mergeBy(old.Files, newer.Files, func(f File) string { return f.Path }, joinFiles)
	l.Failures = mergeBy(old.Failures, newer.Failures, func(f FailedCall) string { return f.What + "\n" + f.Error }, nil)
	settle(l.Failures)
	l.Facts = mergeFacts(old.Facts, newer.Facts)
	sortBySeq(l)
	l.bound(limit)
	return l
}

// mergeBy appends newer to old; an entry of newer takes the place of the one
// of old with the same key.
func mergeBy[T any](old, newer []T, key func(T) string, join func(old, newer T) T) []T {
	out := make([]T, 0, len(old)+len(newer))
	at := make(map[string]int, len(old)+len(newer))
	for _, list := range [][]T{old, newer} {
		for _, v := range list {
			k := key(v)
			i, ok := at[k]
			switch {
			case !ok:
				at[k] = len(out)
				out = append(out, v)
			case join != nil:
				out[i] = join(out[i], v)
			default:
				out[i] = v
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func joinFiles(old, newer File) File {
	if newer.Seq == old.Seq && newer.Did == old.Did {
		return newer
	}
	newer.Times += old.Times
	newer.Carry = newer.Carry || old.Carry
	if newer.Did == "read" && old.Did != "deleted" {
		newer.Did = old.Did // a file that was changed and read again is a changed file
	}
	if newer.Did == "changed" && old.Did == "created" {
		newer.Did = "created"
	}
	return newer
}

// settle marks failures that a newer one of the same call overtook as solved
// where that one was.
func settle(list []FailedCall) {
	solved := map[string]bool{}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Solved {
			solved[list[i].What] = true
		} else if solved[list[i].What] {
			list[i].Solved = true
		}
	}
}

func sortBySeq(l *Ledger) {
	slices.SortStableFunc(l.User, func(a, b Quote) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortStableFunc(l.Files, func(a, b File) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortStableFunc(l.Failures, func(a, b FailedCall) int { return cmp.Compare(a.Seq, b.Seq) })
}

// mergeQuotes joins two lists of user texts; a text that is said again moves to
// its newest place, but the first one stays first.
func mergeQuotes(old, newer []Quote) []Quote {
	all := slices.Concat(old, newer)
	slices.SortStableFunc(all, func(a, b Quote) int { return cmp.Compare(a.Seq, b.Seq) })
	seen := make(map[string]int, len(all))
	var out []Quote
	for _, q := range all {
		k := squash(q.Text)
		if k == "" {
			continue
		}
		if i, ok := seen[k]; ok {
			if i == 0 || out[i].Seq == q.Seq {
				continue
			}
			out[i].Text = ""
		}
		seen[k] = len(out)
		out = append(out, q)
	}
	return slices.DeleteFunc(out, func(q Quote) bool { return q.Text == "" })
}

// squash normalizes white space, so that the same words compare equal.
func squash(s string) string {
	if squashed(s) {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}

// squashed reports whether all white space of a text is single blanks inside.
func squashed(s string) bool {
	blank := true
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ':
			if blank {
				return false
			}
			blank = true
		case c < ' ' || c >= utf8.RuneSelf:
			return squashedRunes(s)
		default:
			blank = false
		}
	}
	return !blank || s == ""
}

// squashedRunes is squashed for any text.
func squashedRunes(s string) bool {
	blank := true
	for _, r := range s {
		switch {
		case r == ' ' && !blank:
			blank = true
		case unicode.IsSpace(r):
			return false
		default:
			blank = false
		}
	}
	return !blank || s == ""
}
