package streamproc

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
	"github.com/agentcompact/agentcompact/tokencount"
)

// Options are the settings of the Apply functions. Nil means all defaults.
type Options struct {
	// Policy says how much stays. Its mode is that of [Apply]; for the others it
	// is empty or theirs.
	Policy Policy
	// Window is the context window of the agent's model. The partial modes need
	// it; in every mode a checkpoint takes half of it at most.
	Window int
	// InputBudget is what a summarizer gets to read at most, in tokens; see
	// [Fit]. 0 means that it reads everything, in chunks where its own window
	// asks for it.
	InputBudget int
	// Provider and Model name the agent's route, for the summarizer.
	Provider, Model string
	// Instructions are what the user wants kept in mind.
	Instructions string
	// Language is the language of the summary; empty means that of the
	// conversation.
	Language string
	// Reminder is a text of the host's that follows the checkpoint after a blank
	// line, byte for byte. It counts as part of it.
	Reminder string
	// Ledger governs the facts that are carried as data.
	Ledger summarize.LedgerOptions
	// Redactor recognizes secrets, which reach neither a summarizer nor a
	// checkpoint; nil means the built-in rules.
	Redactor *summarize.Redactor
	// Run governs the summarizer beyond the policy: failover, fallback, guard.
	// Its Attempts, Backoff, Deadline and Opened must be zero; the first three
	// are the policy's.
	Run summarize.RunOptions
	// Pricer prices messages; nil means the estimator of package tokencount.
	Pricer session.Pricer
	// Memory keeps records of checkpoints for a host that cannot; nil means
	// none. See [Keeper].
	Memory *Memory
	// Observer is told what happens; nil means nobody.
	Observer *Observer
	// Lifecycle tells observers and preservers of every pass; nil tells nobody.
	// LifecycleState keeps the state of preservers; nil means that they have
	// none.
	Lifecycle      *lifecycle.Dispatcher[lifecycle.Call, lifecycle.Checkpoint]
	LifecycleState lifecycle.StateStore
	// Progress is told how far a long summary is; may be nil.
	Progress func(summarize.Progress)
	// NewID and Now are the source of compaction ids and the clock; nil means
	// random ids and time.Now.
	NewID func() string
	Now   func() time.Time
}

// prepare validates options for a mode and fills in the defaults. An empty mode
// is that of the policy.
func (in *Options) prepare(mode Mode) (*Options, error) {
	var o Options
	if in != nil {
		o = *in
	}
	switch {
	case mode == "":
	case o.Policy.Mode == "":
		o.Policy.Mode = mode
	case o.Policy.Mode != mode:
		return nil, fail(InvalidOptions, 0, "the policy is for mode %s, not %s", o.Policy.Mode, mode)
	}
	if err := o.Policy.Validate(); err != nil {
		return nil, err
	}
	o.Policy = o.Policy.WithDefaults()
	switch {
	case o.Window < 0 || o.InputBudget < 0:
		return nil, fail(InvalidOptions, 0, "Window and InputBudget must be 0 or more")
	case o.Window == 0 && o.Policy.Mode.partial():
		return nil, fail(InvalidOptions, 0, "mode %s needs the window of the model", o.Policy.Mode)
	case o.Run.Attempts != 0 || o.Run.Backoff != 0 || o.Run.Deadline != 0 || o.Run.Opened != nil:
		return nil, fail(InvalidOptions, 0, "Run.Attempts, Run.Backoff, Run.Deadline and Run.Opened must be zero: the policy has them")
	}
	o.Run.Attempts = o.Policy.MaxAttempts
	o.Run.Backoff = o.Policy.duration(o.Policy.RetrySeconds)
	o.Run.Deadline = o.Policy.duration(o.Policy.TimeoutSeconds)
	if o.Pricer == nil {
		o.Pricer = tokencount.NewPricer(nil)
	}
	if o.Redactor == nil {
		r, err := summarize.NewRedactor()
		if err != nil {
			return nil, &Error{Kind: InvalidOptions, Err: err}
		}
		o.Redactor = r
	}
	if o.Policy.MinTokens < 0 {
		o.Policy.MinTokens = 0
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	return &o, nil
}

func randomID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// most is how large the checkpoint of so many tokens may be.
func (o *Options) most(before int) int {
	if o.Policy.MaxReductionRatio < 0 {
		return before - 1
	}
	return min(int(float64(before)*o.Policy.MaxReductionRatio), before-1)
}

// budget is what the checkpoint of so many tokens is written to.
func (o *Options) budget(before int) int {
	most := min(o.Policy.MaxCheckpoint, o.most(before))
	if o.Window > 0 {
		most = min(most, o.Window/2)
	}
	return plan.Checkpoint(before, plan.CheckpointRatio, plan.LeastCheckpoint, most)
}

func (o *Options) price(m *session.Message) int { return o.Pricer.Price(m) }

// counter prices texts as messages of the user.
func (o *Options) counter() func(text string) int { return tokencount.TextPricer(o.Pricer) }

// queryChars is how much of a user message is quoted; 0 is no bound.
func (o *Options) queryChars(t target.Target) int {
	if t == target.Steps {
		return 0
	}
	return o.Policy.QueryChars
}
