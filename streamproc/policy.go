package streamproc

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/agentcompact/agentcompact/internal/plan"
)

// Mode says which passes [Apply] makes.
type Mode string

// The modes.
const (
	FullReplace      Mode = "full_replace"
	StepsOnly        Mode = "steps_only"
	HistoryOnly      Mode = "history_only"
	HistoryThenSteps Mode = "history_then_steps"
)

// Policy says when to compact and how much stays. A zero field means its
// default; a field that the mode has no use for must be zero. It is plain data:
// absent fields of its JSON take their defaults, too.
type Policy struct {
	// Enabled switches [ShouldCompact] on. The Apply functions do not ask.
	Enabled bool `json:"enabled,omitempty"`
	// Mode is what Apply does; default full_replace.
	Mode Mode `json:"mode,omitempty"`
	// TriggerPercent is the share of the window above which ShouldCompact says
	// yes; default 85.
	TriggerPercent int `json:"trigger_threshold_percent,omitempty"`
	// TriggerAt says yes at the threshold itself, too.
	TriggerAt bool `json:"trigger_inclusive,omitempty"`
	// MinSteps is how many steps the turn has before ShouldCompact says yes;
	// default 3. Not for full_replace.
	MinSteps int `json:"min_steps_before_compact,omitempty"`
	// MinTokens is how much new material must give way; default 5000, -1 none.
	MinTokens int `json:"min_compactable_tokens,omitempty"`
	// MaxReductionRatio is how large a checkpoint may be as a share of what it
	// replaces; default 0.8. -1 asks only that it is smaller.
	MaxReductionRatio float64 `json:"max_reduction_ratio,omitempty"`
	// MaxCheckpoint bounds a checkpoint in tokens; default 8192.
	MaxCheckpoint int `json:"max_checkpoint_tokens,omitempty"`
	// TargetPercent is the share of the window that the recent items may keep;
	// default 50. Not for full_replace, which keeps none.
	TargetPercent int `json:"target_threshold_percent,omitempty"`
	// StrictTail refuses to compact while the newest unit alone is above the
	// target. By default everything before that unit gives way then. Not for
	// full_replace.
	StrictTail bool `json:"strict_tail,omitempty"`
	// StepsTriggerRatio is the share of the history's tokens above which the
	// steps are compacted, too; default 0.3. Only for history_then_steps.
	StepsTriggerRatio float64 `json:"steps_trigger_ratio,omitempty"`
	// QueryChars is how many characters of one message of the user are quoted; a
	// longer one loses its middle. Default 3000. Not for steps_only, whose view
	// has none.
	QueryChars int `json:"user_message_truncate_chars,omitempty"`
	// MinSummaryChars is the least that a summary has; default none beyond what
	// the guard asks for.
	MinSummaryChars int `json:"min_summary_chars,omitempty"`
	// MaxAttempts is how many requests are made for one text; default 2.
	MaxAttempts int `json:"max_attempts,omitempty"`
	// RetrySeconds is the first wait between attempts; default 3, -1 none.
	RetrySeconds float64 `json:"retry_delay_secs,omitempty"`
	// TimeoutSeconds bounds all requests of a pass together, waits included;
	// default 120, -1 no bound.
	TimeoutSeconds float64 `json:"sampling_timeout_secs,omitempty"`
	// Version is a word for the record; default "intra-v1".
	Version string `json:"compaction_version,omitempty"`
}

// GrokIntra returns the numbers of the system that this package's contract
// comes from, for compaction inside a running turn.
func GrokIntra() Policy {
	return Policy{
		Mode: FullReplace, TriggerPercent: 85, MinTokens: 5000, MaxReductionRatio: 0.8, MinSummaryChars: 500,
		MaxAttempts: 2, RetrySeconds: 3, TimeoutSeconds: 120, Version: "intra-v1",
	}
}

// GrokIntraSteps returns the same for one of the partial modes.
func GrokIntraSteps(m Mode) Policy {
	p := GrokIntra()
	p.Mode, p.MinSteps, p.TargetPercent, p.StrictTail = m, 3, 50, true
	if m == HistoryThenSteps {
		p.StepsTriggerRatio = 0.3
	}
	if m != StepsOnly {
		p.QueryChars = 3000
	}
	return p
}

// GrokShell returns the numbers of that system's shell: inclusive threshold,
// three attempts, no least reduction.
func GrokShell() Policy {
	return Policy{
		Enabled: true, Mode: FullReplace, TriggerPercent: 85, TriggerAt: true, MinTokens: -1, MaxReductionRatio: -1,
		MinSummaryChars: 500, MaxAttempts: 3, RetrySeconds: 3, TimeoutSeconds: 120,
	}
}

// Recommended returns our own choice: history first and then steps, earlier,
// and with more room afterwards.
func Recommended() Policy {
	return Policy{
		Enabled: true, Mode: HistoryThenSteps, TriggerPercent: 80, MinSteps: 1, MinTokens: 2000, MaxReductionRatio: 0.7,
		TargetPercent: 16, StepsTriggerRatio: 0.3, QueryChars: 6000, MaxAttempts: 3, RetrySeconds: 0.5, TimeoutSeconds: 300,
	}
}

// partial reports whether the mode keeps a tail.
func (m Mode) partial() bool { return m != FullReplace }

// Validate says which field is out of range, and which one the mode would
// ignore. The error has kind [InvalidOptions].
func (p Policy) Validate() error {
	bad := func(name string, v any, want string) error {
		return fail(InvalidOptions, 0, "%s is %v, want %s", name, v, want)
	}
	if p.Mode == "" {
		p.Mode = FullReplace
	}
	switch p.Mode {
	case FullReplace, StepsOnly, HistoryOnly, HistoryThenSteps:
	default:
		return bad("Mode", p.Mode, "full_replace, steps_only, history_only or history_then_steps")
	}
	for name, v := range map[string]int{"TriggerPercent": p.TriggerPercent, "TargetPercent": p.TargetPercent} {
		if v < 0 || v > 100 {
			return bad(name, v, "from 0 to 100")
		}
	}
	switch {
	case p.MinSteps < 0:
		return bad("MinSteps", p.MinSteps, "0 or more")
	case p.MinTokens < -1:
		return bad("MinTokens", p.MinTokens, "-1 or more")
	case p.MaxReductionRatio != -1 && (p.MaxReductionRatio < 0 || p.MaxReductionRatio > 1 || math.IsNaN(p.MaxReductionRatio)):
		return bad("MaxReductionRatio", p.MaxReductionRatio, "-1, or above 0 and at most 1")
	case p.StepsTriggerRatio < 0 || math.IsNaN(p.StepsTriggerRatio) || math.IsInf(p.StepsTriggerRatio, 0):
		return bad("StepsTriggerRatio", p.StepsTriggerRatio, "0 or more")
	case p.MaxCheckpoint < 0 || p.QueryChars < 0 || p.MinSummaryChars < 0 || p.MaxAttempts < 0:
		return fail(InvalidOptions, 0, "MaxCheckpoint, QueryChars, MinSummaryChars and MaxAttempts must be 0 or more")
	case p.RetrySeconds != -1 && !(p.RetrySeconds >= 0 && p.RetrySeconds < 1e9):
		return bad("RetrySeconds", p.RetrySeconds, "-1, or 0 or more")
	case p.TimeoutSeconds != -1 && !(p.TimeoutSeconds >= 0 && p.TimeoutSeconds < 1e9):
		return bad("TimeoutSeconds", p.TimeoutSeconds, "-1, or 0 or more")
	}
	var ignored string
	switch {
	case p.MinSteps != 0 && !p.Mode.partial():
		ignored = "MinSteps"
	case p.TargetPercent != 0 && !p.Mode.partial():
		ignored = "TargetPercent"
	case p.StrictTail && !p.Mode.partial():
		ignored = "StrictTail"
	case p.StepsTriggerRatio != 0 && p.Mode != HistoryThenSteps:
		ignored = "StepsTriggerRatio"
	case p.QueryChars != 0 && p.Mode == StepsOnly:
		ignored = "QueryChars"
	}
	if ignored != "" {
		return fail(InvalidOptions, 0, "%s has no meaning in mode %s", ignored, p.Mode)
	}
	return nil
}

// WithDefaults returns the policy with its zero fields filled in, those too
// that the mode has no use for, so that it says all numbers.
func (p Policy) WithDefaults() Policy {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	deff := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	if p.Mode == "" {
		p.Mode = FullReplace
	}
	if p.Version == "" {
		p.Version = "intra-v1"
	}
	def(&p.TriggerPercent, 85)
	def(&p.MinSteps, 3)
	def(&p.MinTokens, 5000)
	def(&p.MaxCheckpoint, plan.MostCheckpoint)
	def(&p.TargetPercent, 50)
	def(&p.QueryChars, 3000)
	def(&p.MaxAttempts, 2)
	deff(&p.MaxReductionRatio, 0.8)
	deff(&p.StepsTriggerRatio, 0.3)
	deff(&p.RetrySeconds, 3)
	deff(&p.TimeoutSeconds, 120)
	return p
}

func (p Policy) duration(seconds float64) time.Duration {
	if seconds < 0 {
		return -1
	}
	return time.Duration(seconds * float64(time.Second))
}

// ParsePolicy reads a policy from JSON and validates it. What the text does not
// say stays zero, which means its default.
func ParsePolicy(data []byte) (Policy, error) {
	var p Policy
	if err := json.Unmarshal(data, &p); err != nil {
		return Policy{}, &Error{Kind: InvalidOptions, Deterministic: true, Err: fmt.Errorf("read policy: %w", err)}
	}
	return p, p.Validate()
}

// Trigger says on what [ShouldCompact] decided.
type Trigger struct {
	// Tokens of Window are in use, which are Percent, at most 100.
	Tokens, Window, Percent int
	// Threshold is the mark in tokens.
	Threshold int
	// Step is the step of the turn.
	Step int
}

// ShouldCompact decides whether to compact before the next model call: tokens
// is what the last prompt had, window that of the model, step how many steps
// the turn has had. It returns nil for no, which it also says while the policy
// is not enabled and when the window is 0. It is pure.
func ShouldCompact(p Policy, tokens, window, step int) (*Trigger, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p = p.WithDefaults()
	if !p.Enabled || window <= 0 || p.Mode.partial() && step < p.MinSteps {
		return nil, nil
	}
	// Products in 64 bits, so that no window overflows.
	mark := int(int64(window) * int64(p.TriggerPercent) / 100)
	over := tokens > mark
	if p.TriggerAt {
		over = tokens > 0 && int64(tokens)*100 >= int64(window)*int64(p.TriggerPercent)
	}
	if !over {
		return nil, nil
	}
	return &Trigger{Tokens: tokens, Window: window, Percent: int(min(int64(tokens)*100/int64(window), 100)), Threshold: mark, Step: step}, nil
}
