package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/summarize"
)

// Windows tells the context window of a route.
type Windows interface {
	// Window returns the tokens of the model's context window, input and output
	// together, and false when it is unknown.
	Window(provider, model string) (tokens int, ok bool)
}

// WindowFunc is a function as [Windows].
type WindowFunc func(provider, model string) (int, bool)

// Window implements [Windows].
func (f WindowFunc) Window(provider, model string) (int, bool) { return f(provider, model) }

// FixedWindow returns a [Windows] with the same window for every route.
func FixedWindow(tokens int) Windows {
	return WindowFunc(func(string, string) (int, bool) { return tokens, tokens > 0 })
}

// Policy says when a session is compacted and how much of it stays. A zero
// field means its default.
type Policy struct {
	// ThresholdRatio is the share of the window at which pressure compacts,
	// above 0 and at most 1; default 0.8.
	ThresholdRatio float64
	// ThresholdTokens is the mark in tokens; it takes the place of the ratio. The
	// window counts where it is smaller.
	ThresholdTokens int
	// ReserveOutput is what the window keeps free for the reply; it lowers the
	// threshold to window-reserve, and counts as half of the window at most.
	ReserveOutput int
	// RetainRatio is the share of the window that the recent tail may take;
	// default 0.16. While the window is unknown it is the share of the
	// session's tokens.
	RetainRatio float64
	// RetainTokens is the tail in tokens; it takes the place of the ratio. -1
	// keeps the newest unit only.
	RetainTokens int
	// RetainMessages is the tail in messages, before it is widened to whole
	// units; it takes the place of the ratio. Beside RetainTokens the larger tail
	// of the two stays.
	RetainMessages int
	// NoTail keeps no tail at all: everything but pins gives way. It takes the
	// place of the three fields before it.
	NoTail bool
	// PromptRatio is the share of the window up to which the prompt of the
	// running turn stays visible as a message of its own when the turn is
	// compacted at its steps; a larger one is quoted in the checkpoint. Default
	// 0.1, negative never. While the window is unknown it is the share of the
	// session's tokens.
	PromptRatio float64
	// TotalRatio is the share of the surface's tokens that tail, running prompt
	// and checkpoint together may have after a compaction by hand; it takes the
	// place of all fields that say what each of them may have. A newest unit that
	// is too large for it is replaced, too, and quoted. 0 means none.
	TotalRatio float64
	// CheckpointRatio is the share of the replaced tokens that a checkpoint may
	// take; default 0.25.
	CheckpointRatio float64
	// CheckpointTokens is the most that a checkpoint may take; default 8192.
	CheckpointTokens int
	// MinCheckpointTokens is what a checkpoint may take in any case, as long as
	// the commit gains something; default 384.
	MinCheckpointTokens int
	// MaxSummaryTokens refuses checkpoints above it; default none.
	MaxSummaryTokens int
	// MinGain is the share of the replaced tokens that a commit must save;
	// default 0.1. -1 asks for any gain.
	MinGain float64
	// ResultCap shortens tool results above so many tokens at every check;
	// default none.
	ResultCap int
}

// How a total is split: the tail gets totalTail of it, and the newest unit, or
// the prompt of the running turn, as much as totalUnit if it is larger. The
// checkpoint has the rest.
const (
	totalTail = 0.15
	totalUnit = 0.2
)

func (p Policy) withDefaults() Policy {
	if p.TotalRatio > 0 {
		p.CheckpointRatio, p.CheckpointTokens, p.MinCheckpointTokens = 1, math.MaxInt, 1
	}
	if p.ThresholdRatio == 0 {
		p.ThresholdRatio = 0.8
	}
	if p.RetainRatio == 0 && p.RetainTokens == 0 && p.RetainMessages == 0 && !p.NoTail {
		p.RetainRatio = 0.16
	}
	switch {
	case p.PromptRatio == 0:
		p.PromptRatio = 0.1
	case p.PromptRatio < 0 || p.NoTail:
		p.PromptRatio = 0
	}
	if p.CheckpointRatio == 0 {
		p.CheckpointRatio = plan.CheckpointRatio
	}
	if p.CheckpointTokens == 0 {
		p.CheckpointTokens = plan.MostCheckpoint
	}
	if p.MinCheckpointTokens == 0 {
		p.MinCheckpointTokens = plan.LeastCheckpoint
	}
	if p.MinGain == 0 {
		p.MinGain = 0.1
	}
	if p.MinGain < 0 {
		p.MinGain = 0
	}
	return p
}

func (p Policy) validate() error {
	bad := func(name string, v any, want string) error {
		return fmt.Errorf("policy: %s is %v, want %s", name, v, want)
	}
	switch {
	case !(p.ThresholdRatio >= 0 && p.ThresholdRatio <= 1): // NaN is out of range, too
		return bad("ThresholdRatio", p.ThresholdRatio, "above 0 and at most 1")
	case p.ThresholdTokens < 0:
		return bad("ThresholdTokens", p.ThresholdTokens, "0 or more")
	case p.ReserveOutput < 0:
		return bad("ReserveOutput", p.ReserveOutput, "0 or more")
	case !(p.RetainRatio >= 0 && p.RetainRatio <= 1):
		return bad("RetainRatio", p.RetainRatio, "above 0 and at most 1")
	case p.RetainRatio > 0 && (p.RetainTokens != 0 || p.RetainMessages != 0):
		return errors.New("policy: RetainRatio excludes RetainTokens and RetainMessages")
	case p.NoTail && (p.RetainRatio != 0 || p.RetainTokens != 0 || p.RetainMessages != 0):
		return errors.New("policy: NoTail excludes RetainRatio, RetainTokens and RetainMessages")
	case p.RetainTokens < -1:
		return bad("RetainTokens", p.RetainTokens, "-1 or more")
	case p.RetainMessages < 0:
		return bad("RetainMessages", p.RetainMessages, "0 or more")
	case !(p.TotalRatio >= 0 && p.TotalRatio < 1):
		return bad("TotalRatio", p.TotalRatio, "from 0 to below 1")
	case !(p.PromptRatio <= 1):
		return bad("PromptRatio", p.PromptRatio, "at most 1")
	case !(p.CheckpointRatio >= 0 && p.CheckpointRatio <= 1):
		return bad("CheckpointRatio", p.CheckpointRatio, "above 0 and at most 1")
	case p.CheckpointTokens < 0, p.MinCheckpointTokens < 0, p.MaxSummaryTokens < 0, p.ResultCap < 0:
		return errors.New("policy: CheckpointTokens, MinCheckpointTokens, MaxSummaryTokens and ResultCap must be 0 or more")
	case p.MinGain != -1 && !(p.MinGain >= 0 && p.MinGain <= 1):
		return bad("MinGain", p.MinGain, "-1, or from 0 to 1")
	}
	d := p.withDefaults()
	if d.ThresholdTokens == 0 && d.RetainRatio >= d.ThresholdRatio {
		return fmt.Errorf("policy: RetainRatio %v must be below ThresholdRatio %v", d.RetainRatio, d.ThresholdRatio)
	}
	return nil
}

// ModelPolicy is a policy for one route.
type ModelPolicy struct {
	Provider, Model string
	Policy
}

// Prune says how tool results are shortened without a model before anything is
// summarized. The zero value means the defaults.
type Prune struct {
	// Off switches pruning off, except where the newest unit alone is above
	// the threshold.
	Off bool
	// OversizedTokens is above what a result keeps only head and tail; default
	// 2048.
	OversizedTokens int
	// HeadTokens and TailTokens are what it keeps then; default 1024 and 256.
	HeadTokens, TailTokens int
	// ProtectTokens is the budget of newest results that are never touched;
	// default: as much as the tail.
	ProtectTokens int
	// Never names tools whose results are never touched, First those whose go
	// first.
	Never, First []string
	// Offload names tools whose oversized results are stored by
	// [Options.Offload] and shortened when they are appended with
	// [Engine.Append].
	Offload []string
}

func (p Prune) validate() error {
	if p.OversizedTokens < 0 || p.HeadTokens < 0 || p.TailTokens < 0 || p.ProtectTokens < 0 {
		return errors.New("prune: OversizedTokens, HeadTokens, TailTokens and ProtectTokens must be 0 or more")
	}
	for _, tool := range p.First {
		if slices.Contains(p.Never, tool) {
			return fmt.Errorf("prune: tool %q is in Never and in First", tool)
		}
	}
	return nil
}

// limit is above what a result is oversized; own is the cap of the policy, 0 for
// none.
func (p Prune) limit(own int) int {
	if own > 0 {
		return min(p.OversizedTokens, own)
	}
	return p.OversizedTokens
}

func (p Prune) withDefaults() Prune {
	if p.OversizedTokens == 0 {
		p.OversizedTokens = 2048
	}
	if p.HeadTokens == 0 {
		p.HeadTokens = 1024
	}
	if p.TailTokens == 0 {
		p.TailTokens = 256
	}
	return p
}

// Options are the optional settings of [New]. Nil means all defaults.
type Options struct {
	// Windows tells context windows; nil knows none, and then pressure fails
	// with code [compact.NoWindow] unless the policy has ThresholdTokens.
	Windows Windows
	// Policy applies to every route without one in Models. An entry of Models
	// takes its place as a whole.
	Policy Policy
	Models []ModelPolicy
	// Prune shortens tool results first.
	Prune Prune
	// AutoOff switches automatic compaction off on every path; by hand it
	// still works.
	AutoOff bool
	// Run governs the summarizer: attempts, deadline, failover, fallback,
	// guard.
	Run summarize.RunOptions
	// Ledger governs the facts that are carried as data.
	Ledger summarize.LedgerOptions
	// LiveNotes returns the host's present state in sentences; it is shown
	// with the checkpoint and wins over what old messages say. Nil means none.
	LiveNotes func(ctx context.Context, agent compact.Agent) []string
	// HeldBytes is how much of a span is in memory at once; 0 means 16 MB, which
	// is more than any model reads. Of a larger span the older part is told by the
	// embedded summarizer, piece by piece, and stands before the rest like an
	// earlier checkpoint: the summarizer, preservers and the guard see that.
	HeldBytes int
	// Offload stores the folded text of a compaction, or a tool result that is
	// shortened when it is appended, and returns the name under which it can be
	// found, which the surface shows. Nil means none. An error is logged, and
	// then no name is shown.
	Offload func(ctx context.Context, id string, text []byte) (name string, err error)
	// Prices tells what a route costs, for plans. Nil knows none; plans then
	// reckon with the usual ratios and name no price.
	Prices func(provider, model string) (Price, bool)
	// Lifecycle tells observers and preservers of every compaction; nil tells
	// nobody. Pruning has no summarizer and is not told.
	Lifecycle *lifecycle.Dispatcher[lifecycle.Call, lifecycle.Checkpoint]
	// Redactor recognizes secrets; what it recognizes reaches neither a
	// summarizer nor anything that the engine writes on the surface. Nil means
	// the built-in rules.
	Redactor *summarize.Redactor
	// MaxFailures opens the breaker after so many failed automatic attempts in
	// a row; default 3.
	MaxFailures int
	// CoolDown is the wait after a failed automatic attempt; it doubles with
	// each further one. When it has passed, an open breaker lets one attempt
	// through. Default one minute; negative means no wait, and then an open
	// breaker stays open until somebody compacts by hand.
	CoolDown time.Duration
	// BackgroundRatio is the share of the threshold at which a background run
	// starts; default 0.75.
	BackgroundRatio float64
	// LeaseTTL is how long an attempt of another host counts as alive; default
	// ten minutes, and at least the deadline of a run.
	LeaseTTL time.Duration
	// Now, NewID and Logger are the clock, the source of compaction ids and the
	// log. Nil means time.Now, random ids, and silence.
	Now    func() time.Time
	NewID  func() string
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if err := o.Policy.validate(); err != nil {
		return o, err
	}
	if err := o.Prune.validate(); err != nil {
		return o, err
	}
	o.Policy = o.Policy.withDefaults()
	seen := make(map[[2]string]bool)
	models := make([]ModelPolicy, len(o.Models))
	for i, m := range o.Models {
		route := [2]string{m.Provider, m.Model}
		switch {
		case m.Model == "":
			return o, fmt.Errorf("model policy %d names no model", i)
		case seen[route]:
			return o, fmt.Errorf("model policy %d: second policy for %s/%s", i, m.Provider, m.Model)
		}
		seen[route] = true
		if err := m.Policy.validate(); err != nil {
			return o, fmt.Errorf("model policy %d (%s/%s): %w", i, m.Provider, m.Model, err)
		}
		models[i] = ModelPolicy{m.Provider, m.Model, m.Policy.withDefaults()}
	}
	o.Models = models
	o.Prune = o.Prune.withDefaults()
	if o.HeldBytes <= 0 {
		o.HeldBytes = heldBytes
	}
	if o.Windows == nil {
		o.Windows = FixedWindow(0)
	}
	if o.Redactor == nil {
		r, err := summarize.NewRedactor()
		if err != nil {
			return o, err
		}
		o.Redactor = r
	}
	if len(o.Prune.Offload) > 0 && o.Offload == nil {
		return o, errors.New("Prune.Offload names tools, but there is no Offload that stores anything")
	}
	if o.MaxFailures < 0 {
		return o, fmt.Errorf("MaxFailures is %d, want 0 or more", o.MaxFailures)
	}
	if o.MaxFailures == 0 {
		o.MaxFailures = 3
	}
	if o.CoolDown == 0 {
		o.CoolDown = time.Minute
	}
	if o.BackgroundRatio == 0 {
		o.BackgroundRatio = 0.75
	}
	if !(o.BackgroundRatio > 0 && o.BackgroundRatio <= 1) {
		return o, fmt.Errorf("BackgroundRatio is %v, want above 0 and at most 1", o.BackgroundRatio)
	}
	if i := slices.Index(o.Run.Failover, nil); i >= 0 {
		return o, fmt.Errorf("Run.Failover has no summarizer at %d", i)
	}
	o.LeaseTTL = max(o.LeaseTTL, o.Run.Deadline)
	if o.LeaseTTL == 0 {
		o.LeaseTTL = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// policy returns the policy of a route.
func (o *Options) policy(provider, model string) Policy {
	for _, m := range o.Models {
		if m.Provider == provider && m.Model == model {
			return m.Policy
		}
	}
	return o.Policy
}
