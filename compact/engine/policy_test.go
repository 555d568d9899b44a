package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/toolpairing"
)

func TestAbsoluteLimitAndPolicies(t *testing.T) {
	r := newRig(t, 6, func(o *engine.Options) {
		o.Windows = nil
		o.Policy = engine.Policy{ThresholdTokens: 2_000, RetainTokens: 500}
		o.Models = []engine.ModelPolicy{{Provider: "p", Model: "roomy", Policy: engine.Policy{ThresholdTokens: 50_000, RetainTokens: 500}}}
	})
	r.agent.Model = "roomy"
	assert.Equal(t, compact.BelowThreshold, r.consider(compact.Pressure).Code)
	r.agent.Model = "other"
	o := r.consider(compact.Pressure)
	require.NotNil(t, o.Result, "an absolute limit needs no window")
	assert.Equal(t, []int{2_000, 0}, []int{o.Threshold, o.Window})
}

func TestLearnedWindow(t *testing.T) {
	r := newRig(t, 10, func(o *engine.Options) { o.Windows = engine.FixedWindow(100_000) })
	refuse := func(limit int) {
		t.Helper()
		_, err := r.e.Rejected(t.Context(), r.agent, fmt.Errorf("This model's maximum context length is %d tokens. However, your messages resulted in 200000 tokens.", limit))
		require.NoError(t, err)
	}
	refuse(120_000) // windows only shrink
	h := compact.HistoryOf(r.s)
	assert.Empty(t, h.Windows)
	refuse(4_500)
	h = compact.HistoryOf(r.s)
	require.Equal(t, []compact.WindowEvent{{Provider: "p", Model: "m", Window: 4_500}}, h.Windows)
	refuse(4_500)
	h = compact.HistoryOf(r.s)
	assert.Len(t, h.Windows, 1, "it is recorded once")
	o := r.consider(compact.Pressure)
	require.NotNil(t, o.Result)
	assert.Equal(t, 4_500, o.Window)
	r.agent.Model = "other"
	assert.Equal(t, 100_000, r.consider(compact.Pressure).Window, "another route has its own")
}

// The tail that stays is a share of the window, tokens, messages or the larger of
// both, always in whole units, and never less than the newest one.
func TestRetention(t *testing.T) {
	for name, c := range map[string]struct {
		policy   engine.Policy
		from, to int // tokens of the tail
		messages int // in it
	}{
		"default":             {engine.Policy{}, 1_200, 1_600, 0},
		"ratio":               {engine.Policy{RetainRatio: 0.4}, 3_600, 4_000, 0},
		"tokens":              {engine.Policy{RetainTokens: 900}, 500, 900, 0},
		"newest unit":         {engine.Policy{RetainTokens: -1}, 1, 20, 1},
		"messages":            {engine.Policy{RetainMessages: 9}, 1, 1_600, 9},
		"messages, in a unit": {engine.Policy{RetainMessages: 10}, 1, 1_600, 11},
		"more messages":       {engine.Policy{RetainMessages: 9, RetainTokens: 400}, 401, 1_600, 9},
		"more tokens":         {engine.Policy{RetainMessages: 2, RetainTokens: 900}, 500, 900, 0},
		"no tail":             {engine.Policy{NoTail: true}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.policy.PromptRatio = -1
			r := newRig(t, 26, func(o *engine.Options) { o.Policy = c.policy })
			require.NotNil(t, r.consider(compact.Pressure).Result)
			v := r.s.View()
			got := v.Tokens(1, v.Len())
			assert.GreaterOrEqual(t, got, c.from)
			assert.LessOrEqual(t, got, c.to)
			if c.messages > 0 {
				assert.Equal(t, c.messages, v.Len()-1)
			}
			assert.Empty(t, toolpairing.Of(v).Diagnose())
		})
	}
}
