package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
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
