// Package compact is the contract of compaction: the [Service] that keeps a
// session inside its model's window, what it is told and what it answers, the
// events that it leaves in the log, and how its checkpoints are recognized.
// It holds no algorithm; package compact/engine has the default service.
//
//	r, err := svc.CompactIfNeeded(ctx, compact.Agent{Session: s}, compact.Pressure)
//
// # Transactions
//
// Every compaction, automatic or by hand, is one attempt: compact/start,
// compact/end and, when it succeeds, compact/summary with the replacement
// between them. The last three are one store write. An attempt that fails
// leaves the surface as it was and its code in compact/end.
//
// # Compatibility
//
// Event names, JSON fields, codes and trigger labels are stored in logs. They
// are append-only and never get another meaning.
package compact

import (
	"context"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
)

// Plugin is the plugin name in the source of every message that compaction
// writes.
const Plugin = "compact"

// Forms of the messages that compaction writes, in [session.Source.Form]. A
// checkpoint has the empty form.
const (
	// FormPruned is a tool result that was shortened or masked.
	FormPruned = "pruned"
	// FormRecalled is text that was read back from behind a checkpoint.
	FormRecalled = "recalled"
)

// CheckpointSource returns the source of the checkpoint of a compaction.
func CheckpointSource(compactionID string) session.Source {
	return session.Source{Kind: session.SourcePlugin, Plugin: Plugin, Ref: compactionID}
}

// IsCheckpointSource reports whether a message with that source is a
// checkpoint, whichever service wrote it.
func IsCheckpointSource(s session.Source) bool {
	return s.Kind == session.SourcePlugin && s.Plugin == Plugin && s.Form == ""
}

// Trigger says why a compaction runs.
type Trigger string

// The triggers. The first two are those of [Service.CompactIfNeeded].
const (
	// Pressure: the surface nears the window of the routed model.
	Pressure Trigger = "pressure"
	// ContextOverflow: the provider refused a request as too long.
	ContextOverflow Trigger = "context_overflow"
	// Now: somebody asked for it, whatever the pressure.
	Now Trigger = "now"
	// Region: somebody named the span.
	Region Trigger = "region"
	// Behind: it ran in the background at a lower mark.
	Behind Trigger = "background"
)

// Auto reports whether the trigger is one of automatic policy.
func (t Trigger) Auto() bool { return t == Pressure || t == ContextOverflow || t == Behind }

// Agent names the session that is to be compacted and the route of its next
// request.
type Agent struct {
	// Session is the session; required.
	Session *session.Session
	// Provider and Model are the route. Empty means that of the envelope in
	// the session.
	Provider string
	Model    string
}

// Route returns the provider and the model of the agent's next request: those
// named by the agent, else those of the session's envelope.
func (a Agent) Route() (provider, model string) {
	provider, model = a.Provider, a.Model
	if e, _ := a.Session.View().Envelope(); e != nil {
		if provider == "" {
			provider = e.Provider
		}
		if model == "" {
			model = e.Model
		}
	}
	return provider, model
}

// Service decides when a session is compacted and replaces a span of its
// surface by one checkpoint. Implementations are safe for concurrent use and
// never run two compactions of one session at once.
//
// There is no Cancel: cancel the context. Cancellation wins until the commit
// and returns the context's cause inside an [*Error] with code [Cancelled].
type Service interface {
	// CompactIfNeeded considers an automatic compaction. A nil result without
	// an error means that no checkpoint was committed; [Considerer] says why, and
	// whether tool results were pruned. Below the threshold it costs no call. For
	// an overflow it takes the lease before it prunes, so that a session in which
	// somebody compacts already stays as it is.
	CompactIfNeeded(ctx context.Context, agent Agent, trigger Trigger) (*Result, error)
	// CompactRegion replaces the messages from start to end, both included and
	// both named by their seqs on the surface, by one checkpoint. The span is
	// one of positions: after an earlier compaction start may be the larger
	// number. Pinned messages in it stay visible. It works at any time, also
	// between turns. Errors are [*Error] with code [Busy], [NotFound],
	// [Reversed], [Unbalanced] and those of a failed attempt.
	CompactRegion(ctx context.Context, agent Agent, start, end session.Seq) (*Result, error)
}

// Considerer is an optional ability of a [Service].
type Considerer interface {
	// Consider is CompactIfNeeded with the full outcome, which is never nil
	// when the error is nil.
	Consider(ctx context.Context, agent Agent, trigger Trigger) (*Outcome, error)
}

// NowOptions are the optional settings of a compaction by hand.
type NowOptions struct {
	// Instructions tell the summarizer what matters, in the user's words.
	Instructions string
	// Keep names messages that must stay visible, beside the pinned ones.
	Keep []session.Seq
	// Target limits the span; zero means everything before the tail.
	Target target.Target
	// Turns is how many more requests of the session are expected, for a plan
	// to say whether it pays off; 0 means 10.
	Turns int
}

// Manual is an optional ability of a [Service].
type Manual interface {
	// CompactNow compacts everything before the wanted tail, whatever the
	// pressure, also when automatic compaction is off. Nil options mean
	// defaults. Without a useful span the error has code [NothingToCompact]. A
	// summary of a [Background] that is ready is committed first, unless the
	// options ask for something that it was not made for; it is the result when
	// nothing else is left to do.
	CompactNow(ctx context.Context, agent Agent, opts *NowOptions) (*Result, error)
}

// Undoer is an optional ability of a [Service].
type Undoer interface {
	// Undo gives back what a checkpoint shadows; [session.NoSeq] means the
	// newest checkpoint on the surface. Nested ones are undone from the outside
	// in. It returns the seq of the restored checkpoint.
	Undo(ctx context.Context, agent Agent, checkpoint session.Seq) (session.Seq, error)
	// Redo puts the newest undone checkpoint back, if its span is unchanged.
	Redo(ctx context.Context, agent Agent) (session.Seq, error)
}

// Planner is an optional ability of a [Service].
type Planner interface {
	// Plan says what a compaction by hand would do, and does nothing.
	Plan(ctx context.Context, agent Agent, opts *NowOptions) (*Plan, error)
	// Apply carries a plan out. It refuses with code [Changed] when the span
	// is not what it was.
	Apply(ctx context.Context, agent Agent, plan *Plan) (*Result, error)
}

// Background is an optional ability of a [Service]: a summary that is made
// behind the agent's back and committed at its next check.
type Background interface {
	// StartBackground begins a run when the session is above the lower mark
	// and none is under way, and reports whether it did. It never waits for a
	// model. The run ends with ctx; its result is committed by the next
	// CompactIfNeeded if the span is unchanged, and discarded otherwise. It makes
	// nobody who uses the same service find the session busy: a run under way is
	// given up, and ends as canceled, when somebody compacts by hand or a request
	// is refused as too long.
	StartBackground(ctx context.Context, agent Agent) (bool, error)
	// WaitBackground waits until no run is under way for the session.
	WaitBackground(ctx context.Context, agent Agent) error
}

// Span is an inclusive run of the surface, by the seqs at its edges.
type Span struct {
	Start session.Seq `json:"start"`
	End   session.Seq `json:"end"`
}

// Call is one request to a summarizer's model, failed or not.
type Call struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model"`
	// Purpose is "summary", "chunk", "reduce" or "retry".
	Purpose string `json:"purpose,omitempty"`
	// Prompt and Completion are the tokens that the provider reported; zero
	// when it reported none. CacheRead is a part of Prompt.
	Prompt     int `json:"prompt,omitempty"`
	Completion int `json:"completion,omitempty"`
	CacheRead  int `json:"cache_read,omitempty"`
	// Outcome is "ok" or the class of the failure.
	Outcome  string        `json:"outcome"`
	Duration time.Duration `json:"duration"`
}

// Result is what a committed compaction did.
type Result struct {
	// ID identifies the compaction; it is the Ref of the checkpoint's source.
	ID      string
	Trigger Trigger
	Target  target.Target
	// Start, Summary, Checkpoint and End are the events that it appended.
	// Checkpoint stands on the surface.
	Start, Summary, Checkpoint, End session.Seq
	// Text is the narrative of the checkpoint, without framing and ledger.
	Text string
	// Shadowed is the replaced range, Seqs all that was replaced in surface
	// order, Kept what stayed visible of the range.
	Shadowed Span
	Seqs     []session.Seq
	Kept     []session.Seq
	// Before and After are the tokens of envelope and surface, SpanBefore and
	// SpanAfter those of the replaced messages and of the checkpoint, all as
	// counted by Pricer.
	Before, After         int
	SpanBefore, SpanAfter int
	Pricer                string
	// Summarizer names who wrote the narrative.
	Summarizer string
	// Calls are all requests that it made, failed ones included.
	Calls []Call
	// Redacted counts the secrets that were replaced by placeholders.
	Redacted int
	// CacheLost reports that a request of the summary could not share the
	// agent's prompt cache because secrets had to be kept from it.
	CacheLost bool
	// GenerationBefore and GenerationAfter are those of the surface.
	GenerationBefore, GenerationAfter uint64
	Duration                          time.Duration
}

// Pruned is one tool result that was shortened or masked without a model.
type Pruned struct {
	// Node is the replaced message, By the one that stands for it now.
	Node, By session.Seq
	// Before and After are its tokens.
	Before, After int
}

// Outcome says what a consideration came to.
type Outcome struct {
	// Result is the compaction, nil when none was committed.
	Result *Result
	// Code says why none was committed; empty when Result is set or when tool
	// results were pruned and that was enough.
	Code Code
	// Reason is Code in a sentence, with the numbers.
	Reason string
	// Pruned lists the tool results that were shortened.
	Pruned []Pruned
	// Tokens is the estimate that was decided on, Threshold the mark that it
	// was held against (0 for an overflow), Window that of the routed model
	// (0 when unknown).
	Tokens, Threshold, Window int
	// After is the estimate afterwards.
	After int
	// GenerationBefore and GenerationAfter are those of the surface.
	GenerationBefore, GenerationAfter uint64
	// RetryUseful says whether sending the refused request again makes sense:
	// only if the surface has become smaller.
	RetryUseful bool
}

// Plan says what a compaction would do. It is plain data and can be stored.
type Plan struct {
	// Shadowed is the range that would be replaced, Count the messages in it,
	// Kept those that would stay visible.
	Shadowed Span          `json:"shadowed"`
	Count    int           `json:"count"`
	Kept     []session.Seq `json:"kept,omitempty"`
	// Fingerprint is a hash of the span; Apply refuses when it differs.
	Fingerprint string `json:"fingerprint"`
	// Before and Span are the tokens of everything and of the span, After an
	// upper bound of what everything would cost afterwards.
	Before int    `json:"before"`
	Span   int    `json:"span"`
	After  int    `json:"after"`
	Pricer string `json:"pricer"`
	// Calls is the largest number of summarizer requests.
	Calls        int    `json:"calls"`
	Summarizer   string `json:"summarizer"`
	Instructions string `json:"instructions,omitempty"`
	// Target is the label of the target; empty means everything before the
	// tail.
	Target string `json:"target,omitempty"`
	// Head and Tail are the edges of the span.
	Head Edge `json:"head"`
	Tail Edge `json:"tail"`
	// Prompt and Completion are the tokens of all calls, at most, Price is what
	// they cost in dollars; 0 when the price is unknown.
	Prompt     int     `json:"prompt"`
	Completion int     `json:"completion"`
	Price      float64 `json:"price,omitempty"`
	// Saved is how many tokens every later request has less, Rewrite how many
	// tokens the next one has that the provider's cache does not know any more.
	Saved   int `json:"saved"`
	Rewrite int `json:"rewrite"`
	// BreakEven is after how many requests calls and rewrite are paid for, -1
	// when they never are; PaysOff compares it with Turns, those that are
	// expected.
	BreakEven int  `json:"break_even"`
	Turns     int  `json:"turns"`
	PaysOff   bool `json:"pays_off"`
}

// Edge says what stands at one edge of a span. Messages with the same call on
// both sides would be separated; that is why the edge lies where it lies.
type Edge struct {
	// Inside and Outside are the messages next to the edge; [session.NoSeq]
	// where there is none.
	Inside  session.Seq `json:"inside"`
	Outside session.Seq `json:"outside"`
	// InsideCalls and OutsideCalls are the calls of the units that they belong
	// to.
	InsideCalls  []string `json:"inside_calls,omitempty"`
	OutsideCalls []string `json:"outside_calls,omitempty"`
	// Pinned are those of the two that are pinned.
	Pinned []session.Seq `json:"pinned,omitempty"`
}
