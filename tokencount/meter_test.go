package tokencount_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/tokencount"
)

func reply(t *testing.T, s *session.Session, text string, prompt, completion int, aggregate bool) session.Seq {
	t.Helper()
	seqs, err := s.Append(t.Context(), session.AssistantText(text))
	require.NoError(t, err)
	_, err = s.Record(t.Context(), session.Usage{Node: seqs[0], Prompt: prompt, Completion: completion, Aggregate: aggregate})
	require.NoError(t, err)
	return seqs[0]
}

func TestMeter(t *testing.T) {
	s := sessiontest.Open(t, session.NewMemoryStore(), &session.Options{Pricer: tokencount.NewPricer(nil)})
	measure := func() tokencount.Measurement { return tokencount.Measure(s.View(), "p", "m") }
	assert.Equal(t, tokencount.Measurement{Factor: 1}, measure())
	long := ""
	for range 400 {
		long += "The quick brown fox jumps over the lazy dog. "
	}
	_, err := s.Record(t.Context(), session.SetEnvelope{Envelope: session.Envelope{Provider: "p", Model: "m"}}, session.Append{Message: session.UserText(long)})
	require.NoError(t, err)
	priced := measure().Priced
	assert.Equal(t, priced, measure().Tokens)

	first := reply(t, s, "ok", 2*priced, 10, false)
	m := measure()
	assert.True(t, m.Anchored)
	assert.Equal(t, 2*priced+10, m.Tokens)
	assert.Equal(t, 1.0, m.Factor, "one report is no evidence")

	_, err = s.Append(t.Context(), session.UserText(long))
	require.NoError(t, err)
	assert.Equal(t, 2*priced+10+s.View().Tokens(2, 3), measure().Tokens, "what came after is priced")

	reply(t, s, "ok", 4*priced, 10, false)
	m = measure()
	assert.InDelta(t, 2, m.Factor, 0.1)

	// A sum over several calls is no anchor.
	reply(t, s, "ok", 90*priced, 10, true)
	assert.Less(t, measure().Tokens, 5*priced)

	// After a replacement no report describes the surface; the factor stays.
	_, err = s.Record(t.Context(), session.Replace{Start: 1, End: first, Message: session.UserText("short")})
	require.NoError(t, err)
	m = measure()
	assert.False(t, m.Anchored)
	assert.InDelta(t, 2*m.Priced, m.Tokens, float64(m.Priced)/10)

	// Another model has evidence of its own to give.
	assert.Equal(t, 1.0, tokencount.Measure(s.View(), "p", "other").Factor)
	assert.Equal(t, m.Priced, tokencount.Measure(s.View(), "p", "other").Tokens)
}

func TestCalibrationIsBounded(t *testing.T) {
	wild := []session.UsageSample{{Reported: 1 << 40, Priced: 1000}, {Reported: 1 << 40, Priced: 1000}}
	assert.Equal(t, 2.5, tokencount.Calibrate(wild, "p", "m"))
	low := []session.UsageSample{{Reported: 30000, Priced: 100000}, {Reported: 30000, Priced: 100000}, {Reported: 0, Priced: 5000}}
	assert.Equal(t, 0.5, tokencount.Calibrate(low, "p", "m"))
	partly := []session.UsageSample{{Reported: 1, Priced: 100000}, {Reported: 2400, Priced: 10000}, {Reported: 0, Priced: 5000}}
	assert.Equal(t, 1.0, tokencount.Calibrate(partly, "p", "m"), "these are not of the whole request")
	small := []session.UsageSample{{Reported: 900, Priced: 10}, {Reported: 900, Priced: 10}}
	assert.Equal(t, 1.0, tokencount.Calibrate(small, "p", "m"))
}

// What a route counts besides the session is known when the session got smaller
// between two reports, and only then.
func TestConstant(t *testing.T) {
	at := func(priced, reported int) session.UsageSample {
		return session.UsageSample{Provider: "p", Model: "m", Priced: priced, Reported: reported}
	}
	other := at(100, 7100)
	other.Model = "n"
	for name, c := range map[string]struct {
		samples []session.UsageSample
		want    int
	}{
		"none":              {nil, 0},
		"one":               {[]session.UsageSample{at(1000, 8000)}, 0},
		"growing":           {[]session.UsageSample{at(500, 7500), at(1000, 8000)}, 0},
		"shrunk":            {[]session.UsageSample{at(1000, 8000), at(100, 7100)}, 7000},
		"shrunk, and grown": {[]session.UsageSample{at(1000, 8000), at(100, 7100), at(300, 7300)}, 7000},
		"shrunk by a hair":  {[]session.UsageSample{at(1000, 8000), at(950, 7950)}, 0},
		"dear text":         {[]session.UsageSample{at(1000, 2000), at(100, 200)}, 0},
		"very dear text":    {[]session.UsageSample{at(1000, 9000), at(100, 900)}, 650},
		"grows as it falls": {[]session.UsageSample{at(1000, 8000), at(100, 9000)}, 9000},
		"of another model":  {[]session.UsageSample{at(1000, 8000), other}, 0},
		"no figures":        {[]session.UsageSample{at(0, 0), at(0, 0)}, 0},
	} {
		assert.Equal(t, c.want, tokencount.Constant(c.samples, "p", "m"), name)
	}
}

// TestNoLogWedgesTheMeter: figures that no request can have are in a log that
// loads, and the meter goes on.
func TestNoLogWedgesTheMeter(t *testing.T) {
	store := session.NewMemoryStore()
	s := sessiontest.Open(t, store, &session.Options{Pricer: tokencount.NewPricer(nil)})
	m := session.UserText("hello")
	for range 3 {
		m.Parts = append(m.Parts, session.File{Bytes: math.MaxInt, MediaType: "text/plain"}, session.Image{Width: math.MaxInt, Height: -1})
	}
	seqs, err := s.Append(t.Context(), m, session.UserText("more"))
	require.NoError(t, err)
	most := tokencount.Measure(s.View(), "", "").Tokens
	assert.Positive(t, most)
	for _, u := range []session.Usage{
		{Node: seqs[1], Prompt: math.MaxInt, Completion: math.MaxInt},
		{Node: seqs[1], Prompt: math.MaxInt, Completion: 1, CacheRead: math.MaxInt},
		{Node: seqs[0], Prompt: 1},
	} {
		_, err := s.Record(t.Context(), u)
		require.NoError(t, err)
		got := tokencount.Measure(s.View(), "", "")
		assert.Positive(t, got.Tokens, "%+v", u)
		assert.Less(t, got.Tokens, 1<<42, "%+v", u)
		again := sessiontest.Open(t, store, &session.Options{Pricer: tokencount.NewPricer(nil)})
		assert.Equal(t, got, tokencount.Measure(again.View(), "", ""))
	}
}
