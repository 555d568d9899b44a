package tokencount_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
)

// naive computes what [tokencount.Measure] must say from nothing but the events,
// going through all of them again for every question.
func naive(t require.TestingT, v session.View, pricer session.Pricer, provider, model string) tokencount.Measurement {
	type node struct {
		seq   session.Seq
		price int
	}
	type sample struct {
		provider, model  string
		reported, priced int
	}
	var surface []node
	var envelope session.Envelope
	var samples []sample
	envelopePrice := 0
	changed := session.NoSeq // the last event that was a replacement or an envelope
	anchor, anchored, since := session.Usage{}, false, 0
	for e := range v.Events(0) {
		body, err := e.Body()
		require.NoError(t, err)
		switch b := body.(type) {
		case *session.Append:
			surface = append(surface, node{e.Seq, pricer.Price(&b.Message)})
			since += pricer.Price(&b.Message)
		case *session.Replace:
			i := slices.IndexFunc(surface, func(n node) bool { return n.seq == b.Start })
			j := slices.IndexFunc(surface, func(n node) bool { return n.seq == b.End })
			surface = slices.Replace(slices.Clone(surface), i, j+1, node{e.Seq, pricer.Price(&b.Message)})
			changed, anchored = e.Seq, false
		case *session.SetEnvelope:
			envelope, envelopePrice = b.Envelope, pricer.PriceEnvelope(&b.Envelope)
			changed, anchored = e.Seq, false
		case *session.Usage:
			at := slices.IndexFunc(surface, func(n node) bool { return n.seq == b.Node })
			if b.Aggregate || b.Prompt+b.Completion == 0 || at < 0 {
				continue
			}
			anchor, anchored, since = *b, false, 0
			if changed > b.Node {
				continue // the request was of another surface
			}
			priced := envelopePrice
			for i, n := range surface {
				if i <= at {
					priced += n.price
				} else {
					since += n.price
				}
			}
			s := sample{b.Provider, b.Model, b.Prompt + b.Completion, priced}
			if s.provider == "" {
				s.provider = envelope.Provider
			}
			if s.model == "" {
				s.model = envelope.Model
			}
			samples = append(samples, s)
			// Too little to be of all this: no anchor.
			anchored = priced < 200 || 4*(b.Prompt+b.Completion) >= priced
		}
	}
	m := tokencount.Measurement{Priced: envelopePrice, Factor: 1}
	for _, n := range surface {
		m.Priced += n.price
	}
	same := func(p, q string) bool { return p == "" || q == "" || p == q }
	var ratios []float64
	for _, s := range samples[max(0, len(samples)-16):] {
		if same(s.provider, provider) && same(s.model, model) && s.priced >= 200 && 4*s.reported >= s.priced {
			ratios = append(ratios, min(2.5, max(0.5, float64(s.reported)/float64(s.priced))))
		}
	}
	if len(ratios) >= 2 {
		m.Factor = ratios[0]
		for _, r := range ratios[1:] {
			m.Factor = (m.Factor + r) / 2
		}
	}
	times := func(n int) int {
		if m.Factor == 1 {
			return n
		}
		return int(float64(n)*m.Factor + 0.5)
	}
	m.Tokens = times(m.Priced)
	if anchored && same(anchor.Provider, provider) && same(anchor.Model, model) {
		m.Tokens, m.Anchored = anchor.Prompt+anchor.Completion+times(since), true
	}
	return m
}

// equalMeasures compares but for the last bit of the factor.
func equalMeasures(t require.TestingT, want, got tokencount.Measurement) {
	require.InDelta(t, want.Factor, got.Factor, 1e-9)
	require.InDelta(t, want.Tokens, got.Tokens, 1)
	want.Factor, want.Tokens = got.Factor, got.Tokens
	require.Equal(t, want, got)
}

// TestMeterIsTheNaiveOne: under any sequence of appends, replacements, usage
// reports and switches of the model, in memory and after a reload.
func TestMeterIsTheNaiveOne(t *testing.T) {
	pricer := tokencount.NewPricer(nil)
	routes := []string{"", "a", "b"}
	anchored, calibrated, replaced := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		store := session.NewMemoryStore()
		opts := &session.Options{Pricer: pricer}
		s, err := session.Open(context.Background(), store, opts)
		require.NoError(t, err)
		record := func(b session.Body) {
			_, err := s.Record(context.Background(), b)
			require.NoError(t, err)
		}
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.SampledFrom([]string{"word ", "x = y[0];\n", "日本語", `{"k":1}`}).Draw(t, "unit"), rapid.IntRange(0, 300).Draw(t, "times"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				m := session.UserText(text.Draw(t, "text"))
				if rapid.Bool().Draw(t, "picture") {
					m.Parts = append(m.Parts, session.Image{Width: rapid.IntRange(0, 3000).Draw(t, "width"), Height: 600})
				}
				record(session.Append{Message: m})
			},
			"replace": func(t *rapid.T) {
				v := s.View()
				if v.Len() == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, v.Len()-1).Draw(t, "start")
				j := rapid.IntRange(i, v.Len()-1).Draw(t, "end")
				record(session.Replace{Start: v.Node(i).Seq, End: v.Node(j).Seq, Message: session.UserText(text.Draw(t, "text"))})
				replaced++
			},
			"usage": func(t *rapid.T) {
				v := s.View()
				if v.Next() == 0 {
					t.Skip()
				}
				u := session.Usage{Node: session.Seq(rapid.Int64Range(-1, int64(v.Next())-1).Draw(t, "node")),
					Aggregate: rapid.IntRange(0, 9).Draw(t, "aggregate") == 0}
				if rapid.Bool().Draw(t, "newest") && v.Len() > 0 {
					u.Node = v.Node(v.Len() - 1).Seq
				}
				total := int(float64(v.EnvelopeTokens()+v.SurfaceTokens()) * rapid.Float64Range(0, 3).Draw(t, "of it"))
				u.Completion = rapid.IntRange(0, total).Draw(t, "completion")
				u.Prompt = total - u.Completion
				u.CacheRead = rapid.IntRange(0, u.Prompt).Draw(t, "cached")
				u.Reasoning = rapid.IntRange(0, u.Completion).Draw(t, "reasoning")
				if rapid.Bool().Draw(t, "names its route") {
					u.Provider, u.Model = rapid.SampledFrom(routes).Draw(t, "provider"), rapid.SampledFrom(routes).Draw(t, "model")
				}
				record(u)
			},
			"switch": func(t *rapid.T) {
				e := session.Envelope{Provider: rapid.SampledFrom(routes).Draw(t, "provider"), Model: rapid.SampledFrom(routes).Draw(t, "model")}
				if rapid.Bool().Draw(t, "system") {
					e.System = []session.Message{{Role: session.RoleSystem, Source: session.Source{Kind: session.SourceUser}, Parts: []session.Part{session.Text{Text: text.Draw(t, "text")}}}}
				}
				if rapid.Bool().Draw(t, "tools") {
					e.Tools = []session.Tool{{Name: "read", Description: "Reads.", Schema: []byte(`{"type":"object"}`)}}
				}
				record(session.SetEnvelope{Envelope: e})
			},
			"": func(t *rapid.T) {
				v := s.View()
				for _, provider := range routes {
					for _, model := range routes {
						got := tokencount.Measure(v, provider, model)
						equalMeasures(t, naive(t, v, pricer, provider, model), got)
						if got.Anchored {
							anchored++
						}
						if got.Factor != 1 {
							calibrated++
						}
					}
				}
			},
		})
		again, err := session.Open(context.Background(), store, opts)
		require.NoError(t, err)
		equalMeasures(t, tokencount.Measure(s.View(), "a", "b"), tokencount.Measure(again.View(), "a", "b"))
	})
	require.Positive(t, anchored)
	require.Positive(t, calibrated)
	require.Positive(t, replaced)
}
