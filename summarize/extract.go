package summarize

import (
	"context"
	"fmt"
	"strings"
)

// ExtractiveOptions are the optional settings of [NewExtractive].
type ExtractiveOptions struct {
	// MaxTurns bounds the turns that are told one by one; the others are left to
	// the ledger. 0 means as many as the budget has room for.
	MaxTurns int
}

// NewExtractive returns the embedded summarizer: it works without a model and
// without a network, tells the conversation in its own words and language, and
// writes the same text for the same span. What it writes has our sections and is
// never longer than the budget of the request. A nil opts is the default.
func NewExtractive(opts *ExtractiveOptions) Summarizer {
	e := &extractive{}
	if opts != nil {
		e.opts = *opts
	}
	return e
}

type extractive struct{ opts ExtractiveOptions }

// ExtractiveVersion names the method in [Summary.Prompt].
const ExtractiveVersion = "extractive/1"

// Name implements [Summarizer].
func (*extractive) Name() string { return "extractive" }

// NarrativeShare implements [Sharing]: what this summarizer can tell in few
// words it tells, and quotes say more than further sentences of it.
func (*extractive) NarrativeShare() float64 { return 0.06 }

// Open implements [Summarizer].
func (e *extractive) Open(ctx context.Context, req *Request) (Pending, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	switch {
	case req.Count == nil:
		return nil, &Failure{Class: Invalid, Detail: "the request has no counter"}
	case len(req.Items) == 0:
		return nil, &Failure{Class: Invalid, Detail: "the request has no messages"}
	}
	return extract{e, req}, nil
}

type extract struct {
	e   *extractive
	req *Request
}

// Cancel implements [Pending].
func (extract) Cancel() {}

// Collect implements [Pending].
func (x extract) Collect(ctx context.Context) (*Summary, error) {
	report := func(stage string, done int) {
		if x.req.Progress != nil {
			x.req.Progress(Progress{Stage: stage, Done: done, Total: len(x.req.Items)})
		}
	}
	report("read", 0)
	s, err := readStory(ctx, x.req.Items)
	if err != nil {
		return nil, err
	}
	report("rank", len(x.req.Items))
	text := s.write(x.req, x.e.opts.MaxTurns)
	if missing := missingSections(text); len(missing) > 0 && x.req.MaxTokens > 0 {
		return nil, &Failure{Class: Inflated, Detail: fmt.Sprintf("the sections of a summary do not fit into %d tokens", x.req.MaxTokens)}
	}
	return &Summary{Text: text, Prompt: ExtractiveVersion}, nil
}

// sectionShares say what part of the budget a section may use at first, in the
// order in which they are filled. What one leaves goes to the next.
var sectionShares = []struct {
	name  string
	share float64
}{
	{"Goal", 0.22}, {"State", 0.24}, {"Next", 0.12}, {"Failures", 0.16}, {"Decisions", 0.16}, {"Done", 1},
}

// write tells the story within the budget of a request.
func (s *story) write(req *Request, turns int) string {
	count := pieces(req.Count)
	empty := make(map[string][]string)
	most := req.MaxTokens
	if most <= 0 {
		most = 1 << 30
	}
	render := func(parts map[string][]string) string {
		var b strings.Builder
		for _, h := range RequiredSections {
			b.WriteString("## " + h + "\n")
			if len(parts[h]) == 0 {
				b.WriteString(noneText + "\n")
				continue
			}
			for _, line := range parts[h] {
				b.WriteString(line + "\n")
			}
		}
		return strings.TrimSpace(b.String())
	}
	left := most - req.Count(render(empty)) - 2
	if left <= 0 { // no room for sections: how it stands, as far as it goes
		text := ""
		for _, line := range append(s.state(), s.goal()...) {
			next := strings.TrimSpace(text + "\n" + line)
			if req.Count(next) <= most {
				text = next
			}
		}
		return text
	}
	all := make(map[string][]chosenLine, len(sectionShares))
	for _, sec := range sectionShares {
		all[sec.name] = s.section(sec.name, turns, min(left, 1<<24)*8)
	}
	for {
		parts := make(map[string][]string)
		budget := left
		said := map[string]bool{}
		for _, sec := range sectionShares {
			share := min(budget, int(sec.share*float64(left)))
			var kept []chosenLine
			for _, l := range all[sec.name] {
				if share <= 0 {
					break
				}
				key := squash(strings.ToLower(l.text))
				if said[key] && sec.name != "Next" {
					continue
				}
				cost := count(l.text) + 1
				if cost > share {
					if l.text = clipWords(l.text, share-1, count); l.text == "" || len(kept) > 0 {
						continue
					}
					cost = count(l.text) + 1
				}
				said[key] = true
				share -= cost
				budget -= cost
				kept = append(kept, l)
			}
			parts[sec.name] = inOrder(kept)
		}
		text := defuseBlock(render(parts))
		over := req.Count(text) - most
		if over <= 0 {
			return text
		}
		if left -= over + 2; left <= 0 {
			return fitText(text, most, req.Count)
		}
	}
}

// clipLeast is how much of a sentence must be left, in bytes: less says nothing.
const clipLeast = 40

// clipWords returns the start of a line that has at most n tokens, cut between
// words where there are some.
func clipWords(s string, n int, count func(string) int) string {
	if n < 6 {
		return ""
	}
	lo, hi := 0, len(s)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if count(head(s, mid)+" …") <= n {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	cut := head(s, lo)
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)*2/3 {
		cut = cut[:i]
	}
	if len(cut) < clipLeast {
		return ""
	}
	return strings.TrimSpace(cut) + " …"
}
