package eval

import (
	"context"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/tokencount"
)

// Engine returns the strategy agentcompact: the default engine compacts the
// messages once, by hand, to a share of their tokens. What it hides is reached
// by searching. A compaction that fails is told to failed, which may be nil, and
// has no row.
func Engine(ctx context.Context, s summarize.Summarizer, failed func(error)) Strategy {
	return Strategy{Name: "agentcompact", Make: func(messages []*session.Message, budget int) (Context, bool) {
		c, calls, err := compacted(ctx, s, messages, budget)
		if err != nil {
			if failed != nil {
				failed(err)
			}
			return c, false
		}
		// The engine counts what a message costs beside its text, the measure does
		// not: ask for as much more as still fits, where asking costs nothing.
		low, high := float64(budget), 0.0
		for used, tries := tokencount.EstimateText(c.Text), 0; calls == 0 && tries < 6 && used < budget*99/100; tries++ {
			ask := low * float64(budget) / float64(max(used, 1))
			if high > 0 {
				ask = (low + high) / 2
			}
			more, _, err := compacted(ctx, s, messages, int(ask))
			if err != nil {
				break
			}
			if n := tokencount.EstimateText(more.Text); n > budget {
				high = ask
			} else {
				low = ask
				if n > used {
					c, used = more, n
				}
			}
		}
		return c, true
	}}
}

// evalID is the id of every compaction here: ids are a part of the text, and a
// measure gives the same each time.
const evalID = "5357096ea0dd5c84"

// compacted also returns how often a model was called.
func compacted(ctx context.Context, s summarize.Summarizer, messages []*session.Message, budget int) (Context, int, error) {
	ses, err := session.Open(ctx, session.NewMemoryStore(), &session.Options{Pricer: tokencount.NewPricer(nil)})
	if err != nil {
		return Context{}, 0, err
	}
	defer ses.Close()
	list := make([]session.Message, len(messages))
	for i, m := range messages {
		list[i] = *m
	}
	if _, err := ses.Append(ctx, list...); err != nil {
		return Context{}, 0, err
	}
	ratio := float64(budget) / float64(max(ses.View().SurfaceTokens(), 1))
	e, err := engine.New(s, &engine.Options{Policy: engine.Policy{TotalRatio: ratio}, NewID: func() string { return evalID }})
	if err != nil {
		return Context{}, 0, err
	}
	r, err := e.CompactNow(ctx, compact.Agent{Session: ses}, nil)
	if err != nil {
		return Context{}, 0, err
	}
	v := ses.View()
	texts := make([]string, 0, v.Len())
	for i := range v.Len() {
		m, err := v.Message(i)
		if err != nil {
			return Context{}, 0, err
		}
		texts = append(texts, Text(m))
	}
	return Context{Text: strings.Join(texts, "\n"), Reach: func(literal string) bool {
		f, err := recall.Search(v, recall.Query{Text: literal, Limit: 1})
		return err == nil && f.Matched > 0
	}}, len(r.Calls), nil
}
