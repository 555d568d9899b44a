package eval

import "github.com/agentcompact/agentcompact/session"

// Strategy makes a context of at most budget tokens from the messages before the
// cut. It reports false when it cannot.
type Strategy struct {
	// Name is agentcompact, tail, mask, full or another word.
	Name string
	Make func(messages []*session.Message, budget int) (Context, bool)
}

// Context is what a strategy leaves of the messages.
type Context struct {
	Text string
	// Reach reports whether a literal that Text lacks can be read back; nil when
	// nothing can.
	Reach func(literal string) bool
}

// Row is one line of a report.
type Row struct {
	Strategy    string  `json:"strategy"`
	Ratio       float64 `json:"ratio"`
	TokensAfter int     `json:"tokens_after"`
	Literal     float64 `json:"literal"`
	Quoted      float64 `json:"quoted"`
	Reachable   float64 `json:"reachable"`
}

// Report is what was measured on one session.
type Report struct {
	File string `json:"file"`
	// Cut is how many messages are before the cut, TokensBefore what they have.
	Cut          int   `json:"cut"`
	TokensBefore int   `json:"tokens_before"`
	Needed       int   `json:"needed"`
	Rows         []Row `json:"rows"`
}

// Run measures strategies on a session at the given ratios. A strategy that
// cannot make a context has no row.
func Run(file, envelope string, messages []*session.Message, count Count, ratios []float64, strategies []Strategy) Report {
	prices := Price(messages, count)
	cut := Cut(messages, prices, CutShare)
	needs := Needed(envelope, messages, cut)
	r := Report{File: file, Cut: cut, Needed: len(needs)}
	for _, p := range prices[:cut] {
		r.TokensBefore += p
	}
	for _, ratio := range ratios {
		for _, s := range strategies {
			c, ok := s.Make(messages[:cut], int(ratio*float64(r.TokensBefore)))
			if !ok {
				continue
			}
			m := Measure(needs, c.Text)
			row := Row{Strategy: s.Name, Ratio: ratio, TokensAfter: count(c.Text), Literal: m.Literal, Quoted: m.Quoted}
			row.Reachable = reachable(needs, c)
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

func reachable(needs []Need, c Context) float64 {
	if len(needs) == 0 {
		return 1
	}
	n := 0
	for _, need := range needs {
		if Measure([]Need{need}, c.Text).Literal == 1 || c.Reach != nil && c.Reach(need.Literal) {
			n++
		}
	}
	return float64(n) / float64(len(needs))
}

// Baselines are the strategies to compare with: tail, mask and full.
func Baselines(count Count) []Strategy {
	return []Strategy{
		{Name: "tail", Make: func(m []*session.Message, budget int) (Context, bool) {
			return Context{Text: Tail(m, count, budget)}, true
		}},
		{Name: "mask", Make: func(m []*session.Message, budget int) (Context, bool) {
			text, ok := Mask(m, count, budget)
			return Context{Text: text}, ok
		}},
		{Name: "full", Make: func(m []*session.Message, _ int) (Context, bool) {
			return Context{Text: Full(m)}, true
		}},
	}
}
