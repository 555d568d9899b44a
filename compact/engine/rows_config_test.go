package engine

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

func policyOf(t *testing.T, o Options, provider, model string) Policy {
	t.Helper()
	e, err := New(noModel{}, &o)
	require.NoError(t, err)
	return e.opts.policy(provider, model)
}

// TestConfigurationRows has the rows on settings.
func TestConfigurationRows(t *testing.T) {
	for id, run := range map[string]func(*testing.T){
		"CF-01": func(t *testing.T) {
			e, err := New(noModel{}, nil)
			require.NoError(t, err)
			p := e.opts.Policy
			assert.Equal(t, []float64{0.8, 0.16, 0.1, 0.25, 0.1}, []float64{p.ThresholdRatio, p.RetainRatio, p.PromptRatio, p.CheckpointRatio, p.MinGain})
			assert.Equal(t, []int{8192, 384, 0, 0, 3}, []int{p.CheckpointTokens, p.MinCheckpointTokens, p.MaxSummaryTokens, p.ResultCap, e.opts.MaxFailures})
			mine := Options{Models: []ModelPolicy{{Model: "m", Policy: Policy{ThresholdRatio: 0.5}}}}
			e, err = New(noModel{}, &mine)
			require.NoError(t, err)
			mine.Models[0].ThresholdRatio = 0.9
			assert.Equal(t, 0.5, e.opts.policy("", "m").ThresholdRatio, "it is not the caller's any more")
		},
		"CF-02": func(t *testing.T) {
			assert.Equal(t, 0.16, policyOf(t, Options{Policy: Policy{ThresholdRatio: 0.5}}, "", "").RetainRatio)
			p := policyOf(t, Options{Policy: Policy{RetainTokens: 500}}, "", "")
			assert.Zero(t, p.RetainRatio)
			assert.Equal(t, 500, p.tail(10_000).tokens)
			assert.Equal(t, 0, policyOf(t, Options{Policy: Policy{RetainTokens: -1}}, "", "").tail(10_000).tokens)
			assert.Equal(t, tail{tokens: -1, messages: 6, prompt: 1000}, policyOf(t, Options{Policy: Policy{RetainMessages: 6}}, "", "").tail(10_000))
		},
		"CF-03": func(t *testing.T) {
			o := Options{
				Policy: Policy{ThresholdRatio: 0.5, RetainTokens: 120},
				Models: []ModelPolicy{{Provider: "p", Model: "m", Policy: Policy{ThresholdRatio: 0.8, RetainRatio: 0.1}}},
			}
			own, other := policyOf(t, o, "p", "m"), policyOf(t, o, "q", "m")
			assert.Equal(t, []int{1600, 200}, []int{own.threshold(2000), own.tail(2000).tokens}, "the ratio takes the place of the tokens")
			assert.Equal(t, []int{500, 120}, []int{other.threshold(1000), other.tail(1000).tokens})
		},
		"CF-05": func(t *testing.T) {
			for want, o := range map[string]Options{
				"ThresholdRatio is -0.1":               {Policy: Policy{ThresholdRatio: -0.1}},
				"ThresholdRatio is 1.1":                {Policy: Policy{ThresholdRatio: 1.1}},
				"ThresholdTokens is -1":                {Policy: Policy{ThresholdTokens: -1}},
				"ReserveOutput is -1":                  {Policy: Policy{ReserveOutput: -1}},
				"RetainRatio is -1":                    {Policy: Policy{RetainRatio: -1}},
				"RetainRatio 0.9 must be below":        {Policy: Policy{RetainRatio: 0.9}},
				"must be below ThresholdRatio 0.1":     {Policy: Policy{ThresholdRatio: 0.1}},
				"RetainRatio excludes":                 {Policy: Policy{RetainRatio: 0.1, RetainTokens: 1}},
				"NoTail excludes":                      {Policy: Policy{NoTail: true, RetainTokens: 1}},
				"RetainTokens is -2":                   {Policy: Policy{RetainTokens: -2}},
				"RetainMessages is -1":                 {Policy: Policy{RetainMessages: -1}},
				"PromptRatio is 2":                     {Policy: Policy{PromptRatio: 2}},
				"CheckpointRatio is 2":                 {Policy: Policy{CheckpointRatio: 2}},
				"must be 0 or more":                    {Policy: Policy{MaxSummaryTokens: -1}},
				"MinGain is 1.5":                       {Policy: Policy{MinGain: 1.5}},
				"MinGain is -0.5":                      {Policy: Policy{MinGain: -0.5}},
				"model policy 0 names no model":        {Models: []ModelPolicy{{Provider: "p"}}},
				"second policy for p/m":                {Models: []ModelPolicy{{Provider: "p", Model: "m"}, {Provider: "p", Model: "m"}}},
				"model policy 0 (p/m): policy: Retain": {Models: []ModelPolicy{{Provider: "p", Model: "m", Policy: Policy{RetainRatio: 0.9}}}},
				"MaxFailures is -1":                    {MaxFailures: -1},
				"BackgroundRatio is 2":                 {BackgroundRatio: 2},
				"ThresholdRatio is NaN":                {Policy: Policy{ThresholdRatio: math.NaN()}},
				"RetainRatio is NaN":                   {Policy: Policy{RetainRatio: math.NaN()}},
				"PromptRatio is NaN":                   {Policy: Policy{PromptRatio: math.NaN()}},
				"TotalRatio is NaN":                    {Policy: Policy{TotalRatio: math.NaN()}},
				"CheckpointRatio is NaN":               {Policy: Policy{CheckpointRatio: math.NaN()}},
				"MinGain is NaN":                       {Policy: Policy{MinGain: math.NaN()}},
				"BackgroundRatio is NaN":               {BackgroundRatio: math.NaN()},
				"Failover has no summarizer at 1":      {Run: summarize.RunOptions{Failover: []summarize.Summarizer{noModel{}, nil}}},
				"there is no Offload":                  {Prune: Prune{Offload: []string{"read"}}},
			} {
				_, err := New(noModel{}, &o)
				assert.ErrorContains(t, err, want)
			}
			_, err := New(nil, nil)
			assert.ErrorContains(t, err, "a summarizer is required")
		},
		"PU-01": func(t *testing.T) {
			e, err := New(noModel{}, &Options{Prune: Prune{HeadTokens: 7}})
			require.NoError(t, err)
			p := e.opts.Prune
			assert.Equal(t, []int{2048, 7, 256, 0}, []int{p.OversizedTokens, p.HeadTokens, p.TailTokens, p.ProtectTokens})
		},
		"PU-02": func(t *testing.T) {
			for _, p := range []Prune{{OversizedTokens: -1}, {HeadTokens: -1}, {TailTokens: -1}, {ProtectTokens: -1}, {Never: []string{"read"}, First: []string{"read"}}} {
				_, err := New(noModel{}, &Options{Prune: p})
				assert.ErrorContains(t, err, "prune: ")
			}
		},
		"PU-04": func(t *testing.T) {
			const note = "[history: 1 message, event 3]"
			for _, text := range []string{strings.Repeat("😀", 60), strings.Repeat("👩‍👩‍👧", 20), strings.Repeat("🇩🇪", 30), strings.Repeat("e\u0301", 60), strings.Repeat("字", 60)} {
				for head := range 30 {
					got := clip(text, head, head/2, note)
					assert.True(t, utf8.ValidString(got), "%q", got)
					assert.Equal(t, 1, strings.Count(got, "left out"))
					before, after, ok := strings.Cut(got, "[")
					require.True(t, ok)
					before = strings.TrimSuffix(before, "\n")
					assert.True(t, strings.HasPrefix(text, before) && boundary(text, len(before)), "%q ends inside a character", before)
					_, after, _ = strings.Cut(after, "]")
					after = strings.TrimPrefix(after, "\n")
					assert.True(t, strings.HasSuffix(text, after) && boundary(text, len(text)-len(after)), "%q begins inside a character", after)
				}
			}
		},
		"PU-06": func(t *testing.T) {
			assert.Equal(t, "[12 bytes left out; history: 1 message, event 3]", clip("hello, world", 0, 0, "[history: 1 message, event 3]"))
			assert.Equal(t, "short", clip("short", 3, 2, "[x]"), "it is small already")
		},
	} {
		t.Run(id, run)
	}
}

// The output reserve is taken from the window, and is half of it at most.
func TestOutputReserve(t *testing.T) {
	p := Policy{ReserveOutput: 4_000}.withDefaults()
	assert.Equal(t, 6_000, p.threshold(10_000))
	assert.Equal(t, 16_000, p.threshold(20_000), "the ratio asks for more")
	assert.Equal(t, 2_000, p.threshold(4_000), "clamped")
	p.ThresholdTokens = 7_000
	assert.Equal(t, 6_000, p.threshold(10_000), "also from an absolute limit")
	assert.Equal(t, 7_000, p.threshold(0), "an absolute limit needs no window")
	assert.Zero(t, Policy{}.withDefaults().threshold(0))
}

// What plans say about money is what one gets with a pencil.
func TestPlanCosts(t *testing.T) {
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	defer s.Close()
	req := &summarize.Request{Provider: "p", Model: "m", MaxTokens: 500}
	plan := func() *compact.Plan { return &compact.Plan{Calls: 2, Before: 10_000, Span: 8_000, After: 3_000} }
	e := &Engine{opts: Options{Prices: func(provider, model string) (Price, bool) {
		return Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}, provider+model == "pm"
	}}}
	p := plan()
	e.costs(p, s.View(), span{}, req, 20)
	assert.Equal(t, []int{11_000, 1_000, 7_000, 3_000, 20}, []int{p.Prompt, p.Completion, p.Saved, p.Rewrite, p.Turns})
	assert.InDelta(t, 0.048, p.Price, 1e-9)
	want := (11_000*3 + 1_000*15 + 3_000*3.45) / (7_000 * 0.3)
	assert.Equal(t, int(math.Ceil(want)), p.BreakEven)
	assert.False(t, p.PaysOff)
	e.costs(p, s.View(), span{}, req, 100)
	assert.True(t, p.PaysOff)

	p = plan()
	req.Model = "other"
	e.costs(p, s.View(), span{}, req, 0)
	assert.Zero(t, p.Price, "the price is unknown")
	assert.Equal(t, usualTurns, p.Turns)
	p = plan()
	p.Calls = 0 // an embedded summarizer
	e.costs(p, s.View(), span{}, req, 0)
	assert.Zero(t, p.Prompt+p.Completion)
	assert.Equal(t, 4, p.BreakEven)
	assert.True(t, p.PaysOff)
	p = plan()
	p.After = p.Before
	e.costs(p, s.View(), span{}, req, 1000)
	assert.Equal(t, -1, p.BreakEven, "nothing is saved")
	assert.False(t, p.PaysOff)
}

// A background run whose context ends frees the lease although nobody asks for
// its summary.
func TestAbandonedBackgroundFreesTheLease(t *testing.T) { synctest.Test(t, abandonedBackground) }

func abandonedBackground(t *testing.T) {
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	defer s.Close()
	for range 40 {
		_, err := s.Append(t.Context(), session.UserText(strings.Repeat("a long story, ", 100)))
		require.NoError(t, err)
	}
	e, err := New(summarize.NewExtractive(nil), &Options{Windows: FixedWindow(10_000)})
	require.NoError(t, err)
	agent := compact.Agent{Session: s}
	ctx, cancel := context.WithCancel(t.Context())
	ok, err := e.StartBackground(ctx, agent)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, e.WaitBackground(t.Context(), agent))
	require.ErrorIs(t, e.free(s), compact.Busy)
	cancel()
	synctest.Wait()
	assert.False(t, e.behind(s).has.Load())
	h := compact.HistoryOf(s)
	require.Nil(t, h.Open())
	assert.Equal(t, compact.Cancelled, h.Last().End.Code)
	_, err = e.CompactNow(t.Context(), agent, nil)
	require.NoError(t, err)
	require.NoError(t, compact.CheckLog(s.View()))
}

// Pruning asks for the lease in its own store write, whatever was known before.
func TestPruningIsRefusedUnderALease(t *testing.T) {
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Append(t.Context(),
		session.AssistantText("", session.ToolCall{ID: "c", Name: "read", Arguments: "{}"}), session.ToolText("c", strings.Repeat("line of output; ", 900)),
		session.UserText("and?"), session.AssistantText("done"))
	require.NoError(t, err)
	e, err := New(noModel{}, nil)
	require.NoError(t, err)
	agent := compact.Agent{Session: s}
	cut := func() error {
		_, err := e.prune(t.Context(), agent, func(v session.View) ([]shortened, error) { return e.oversized(s, v, 0, v.Len(), 100) })
		return err
	}
	a, err := e.begin(t.Context(), agent, job{trigger: compact.Region, choose: func(v session.View) (span, error) { return region(s, v, 0, 1) }})
	require.NoError(t, err)
	next := s.View().Next()
	require.ErrorIs(t, cut(), compact.Busy)
	assert.Equal(t, next, s.View().Next())
	a.release() // it dies
	require.NoError(t, cut())
	_, err = a.commit(t.Context(), &checkpoint{written: &summarize.Written{}, message: a.message("Short."), tokens: 2})
	require.ErrorIs(t, err, compact.Changed, "what comes back has lost its lease")
	require.NoError(t, compact.CheckLog(s.View()))
}
