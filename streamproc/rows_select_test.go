package streamproc

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
)

type targetOf = target.Target

const (
	steps   = target.Steps
	history = target.History
	full    = target.FullReplace
)

// priced makes entries of roles and prices: a is an assistant message, t a tool
// result without an id.
func priced(roles string, tokens ...int) []entry {
	list := make([]entry, len(tokens))
	for i, n := range tokens {
		m := session.AssistantText("x")
		if roles[i] == 't' {
			m = session.ToolText("", "x")
		}
		list[i] = entry{msg: &m, tokens: n}
	}
	fillIDs(list)
	return list
}

// pick selects with a target of so many tokens.
func pick(list []entry, keep, least int) (n, tokens int, ok bool) {
	o := &Options{Window: keep * 2, Policy: Policy{TargetPercent: 50, MinTokens: least, StrictTail: true}}
	return choose(planItems(list), steps, o)
}

func init() {
	type sel struct {
		roles  string
		tokens []int
		keep   int
		least  int
		n, sum int
	}
	for id, c := range map[string]sel{
		"SEL-1": {keep: 10},
		"SEL-2": {roles: "aaa", tokens: []int{10, 10, 10}, keep: 30},
		"SEL-3": {roles: "aaaa", tokens: []int{40, 30, 20, 10}, keep: 30, least: 1, n: 2, sum: 70},
		"SEL-4": {roles: "aaaa", tokens: []int{40, 30, 20, 10}, keep: 30, least: 71},
		"SEL-5": {roles: "aaatta", tokens: []int{10, 10, 10, 50, 50, 10}, keep: 60, least: 1, n: 5, sum: 130},
		"SEL-6": {roles: "aatta", tokens: []int{10, 10, 10, 10, 50}, keep: 50, least: 1, n: 4, sum: 40},
		"SEL-7": {roles: "aattt", tokens: []int{10, 10, 50, 50, 50}, keep: 60, least: 1},
	} {
		row(id, func(t *testing.T) {
			n, sum, ok := pick(priced(c.roles, c.tokens...), c.keep, c.least)
			require.Equal(t, c.n > 0, ok)
			require.Equal(t, c.n, n)
			require.Equal(t, c.sum, sum)
		})
	}
	row("TRG-1", func(t *testing.T) {
		for _, p := range []Policy{{}, GrokIntra(), {Mode: StepsOnly}} {
			got, err := ShouldCompact(p, 1_000_000, 1000, 50)
			require.NoError(t, err)
			require.Nil(t, got)
		}
	})
	row("W27", rows["TRG-1"])
	yes := func(t *testing.T, p Policy, tokens, window, step int, want *Trigger) {
		t.Helper()
		p.Enabled = true
		got, err := ShouldCompact(p, tokens, window, step)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	row("TRG-2", func(t *testing.T) { yes(t, Policy{}, 500, 1000, 5, nil) })
	row("TRG-3", func(t *testing.T) { yes(t, Policy{}, 900, 1000, 7, &Trigger{900, 1000, 90, 850, 7}) })
	// The row's field is not ignored here but refused: issue 8.
	row("TRG-4", func(t *testing.T) {
		for _, step := range []int{0, 2} {
			yes(t, Policy{Mode: FullReplace}, 900, 1000, step, &Trigger{900, 1000, 90, 850, step})
		}
		require.Equal(t, 3, Policy{}.WithDefaults().MinSteps)
		_, err := ShouldCompact(Policy{Enabled: true, MinSteps: 3}, 900, 1000, 5)
		kind(t, err, InvalidOptions)
	})
	row("TRG-5", func(t *testing.T) {
		for _, m := range []Mode{StepsOnly, HistoryOnly, HistoryThenSteps} {
			yes(t, Policy{Mode: m, MinSteps: 3}, 900, 1000, 2, nil)
			yes(t, Policy{Mode: m, MinSteps: 3}, 900, 1000, 3, &Trigger{900, 1000, 90, 850, 3})
		}
	})
	row("TRG-6", func(t *testing.T) { yes(t, Policy{}, 900, 0, 5, nil) })
	row("TRG-7", func(t *testing.T) { yes(t, Policy{}, 9000, 1000, 1, &Trigger{9000, 1000, 100, 850, 1}) })
	row("TRG-8", func(t *testing.T) {
		yes(t, Policy{}, 850, 1000, 1, nil)
		yes(t, Policy{}, 851, 1000, 1, &Trigger{851, 1000, 85, 850, 1})
		yes(t, GrokShell(), 850, 1000, 1, &Trigger{850, 1000, 85, 850, 1})
		yes(t, GrokShell(), 849, 1000, 1, nil)
		yes(t, GrokShell(), 84_999, 99_999, 1, nil) // below, although rounding would say otherwise
	})
	row("CFG-1", func(t *testing.T) {
		require.False(t, Policy{}.Enabled)
		require.Equal(t, Policy{Mode: FullReplace, TriggerPercent: 85, MinSteps: 3, MinTokens: 5000, MaxReductionRatio: 0.8,
			MaxCheckpoint: 8192, TargetPercent: 50, StepsTriggerRatio: 0.3, QueryChars: 3000, MaxAttempts: 2, RetrySeconds: 3,
			TimeoutSeconds: 120, Version: "intra-v1"}, Policy{}.WithDefaults())
	})
	row("CFG-3", func(t *testing.T) {
		require.Equal(t, FullReplace, Policy{}.WithDefaults().Mode)
		for _, m := range []Mode{FullReplace, StepsOnly, HistoryOnly, HistoryThenSteps} {
			b, err := json.Marshal(Policy{Mode: m})
			require.NoError(t, err)
			require.JSONEq(t, fmt.Sprintf(`{"mode":%q}`, m), string(b))
			p, err := ParsePolicy(b)
			require.NoError(t, err)
			require.Equal(t, m, p.Mode)
		}
		_, err := ParsePolicy([]byte(`{"mode":"FullReplace"}`))
		kind(t, err, InvalidOptions)
	})
	row("CFG-5", func(t *testing.T) {
		p, err := ParsePolicy([]byte(`{"enabled":true,"mode":"steps_only","min_steps_before_compact":7}`))
		require.NoError(t, err)
		want := Policy{}.WithDefaults()
		want.Enabled, want.Mode, want.MinSteps = true, StepsOnly, 7
		require.Equal(t, want, p.WithDefaults())
	})
}
