package engine

import (
	"math"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// Price is what a route costs, in dollars per million tokens. It has the fields
// of models.Price.
type Price struct {
	Input, Output         float64
	CacheRead, CacheWrite float64
}

// usual are the ratios where no price is known.
var usual = Price{Input: 1, Output: 5, CacheRead: 0.1, CacheWrite: 1}

// What plans reckon with: the requests that are to come when nobody says, and
// what the instructions of a summarizer request cost.
const (
	usualTurns        = 10
	instructionTokens = 1500
)

// costs fills in what a plan says about money.
func (e *Engine) costs(p *compact.Plan, v session.View, sp span, req *summarize.Request, turns int) {
	price, known := usual, false
	if e.opts.Prices != nil {
		if x, ok := e.opts.Prices(req.Provider, req.Model); ok && x.Input > 0 {
			price, known = x, true
		}
	}
	if price.CacheRead == 0 {
		price.CacheRead = price.Input // it has no cache
	}
	if price.CacheWrite == 0 {
		price.CacheWrite = price.Input
	}
	if p.Calls > 0 {
		p.Prompt = p.Span + p.Calls*instructionTokens
		p.Completion = p.Calls * req.MaxTokens
	}
	calls := float64(p.Prompt)*price.Input + float64(p.Completion)*price.Output
	if known {
		p.Price = calls / 1e6
	}
	p.Saved = p.Before - p.After
	p.Rewrite = p.After - v.EnvelopeTokens() - v.Tokens(0, sp.start)
	p.Turns = turns
	if turns <= 0 {
		p.Turns = usualTurns
	}
	p.BreakEven = -1
	if p.Saved > 0 {
		once := calls + float64(p.Rewrite)*max(price.CacheWrite-price.CacheRead, 0)
		p.BreakEven = int(math.Ceil(once / (float64(p.Saved) * price.CacheRead)))
	}
	p.PaysOff = p.BreakEven >= 0 && p.BreakEven <= p.Turns
}

// edgeAt describes the cut before position cut, with the message at inside on
// the side of the span.
func edgeAt(x *toolpairing.Index, inside, cut int) compact.Edge {
	v := x.View()
	outside := cut
	if inside == cut {
		outside = cut - 1
	}
	out := compact.Edge{Inside: v.Node(inside).Seq, InsideCalls: callsAt(x, inside), Outside: session.NoSeq}
	if outside >= 0 && outside < v.Len() {
		out.Outside, out.OutsideCalls = v.Node(outside).Seq, callsAt(x, outside)
	}
	for _, q := range []session.Seq{out.Inside, out.Outside} {
		if v.Pinned(q) {
			out.Pinned = append(out.Pinned, q)
		}
	}
	return out
}

// callsAt returns the calls of the unit that the message at position i belongs
// to.
func callsAt(x *toolpairing.Index, i int) []string {
	var out []string
	for _, j := range x.Unit(i) {
		out = append(out, x.View().Node(j).Calls()...)
	}
	return out
}
