// Package summarize turns a span of a conversation into the text of a
// checkpoint. It holds the [Summarizer] seam with the embedded extractive
// summarizer and the one over a language model, the [Ledger] of facts that are
// carried as data, and the composing and guarding of a checkpoint.
//
//	s := summarize.NewExtractive(nil)
//	w, err := summarize.Run(ctx, s, req, nil)
//
// Everything here works on values; nothing touches a session.
package summarize

import (
	"context"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
)

// Item is one message of the span with what the summarizer should know of it.
type Item struct {
	Seq     session.Seq
	Message *session.Message
	// Tokens is the price of the message in the session's unit.
	Tokens int
	// Checkpoint marks an earlier checkpoint; its Narrative is the text without
	// framing and ledger. The facts of its ledger are in [Request.Prior].
	Checkpoint bool
	Narrative  string
	// Foreign says of a checkpoint that it has no ledger of ours: its facts are
	// in its text.
	Foreign bool
	// Recalled marks text that was read back from behind a checkpoint. It is
	// replaced by its pointer and not summarized again.
	Recalled bool
	// Abandoned lists the ids of calls of this message that were never
	// answered.
	Abandoned []string

	label string // what [Run] calls it in a transcript, "" for the usual
	piece bool   // it holds a part of a text that was cut
	size  int    // of its entry in a transcript; 0: not counted yet
	hits  int    // secrets that were taken out of it
}

// Request is what a summarizer is asked for. It is not modified.
type Request struct {
	// ID identifies the compaction.
	ID string
	// Provider and Model are the route of the agent.
	Provider, Model string
	// Envelope is that of the agent's requests; may be nil.
	Envelope *session.Envelope
	// Head reports whether the span is the head of the surface, so that a
	// request that replays it shares the agent's prompt cache.
	Head bool
	// Items is the span in surface order.
	Items []Item
	// Surface is everything from the head of the surface to the end of the span
	// where messages between stay visible, for a request that replays it; nil
	// where Items are that, or the span is not at the head.
	Surface []Item
	// Redacted counts the secrets that the caller took out of the items, or that
	// the envelope and messages that stay have: with any, the agent's request must
	// not be replayed.
	Redacted int
	// Prior holds the facts that earlier checkpoints of the span carry; may be
	// nil.
	Prior  *Ledger
	Target target.Target
	// Instructions are what the user wants kept in mind; may be empty.
	Instructions string
	// Language is the language of the summary; empty means that of the
	// conversation.
	Language string
	// MaxTokens is the budget of the narrative, counted by Count.
	MaxTokens int
	// Count prices a text in the session's unit; required.
	Count func(string) int
	// Correction says what was wrong with the attempt before, and Failed of what
	// class that was; empty at first.
	Correction string
	Failed     Class
	// Part says which of Parts the items are when a span had to be cut; both are
	// 0 when it is whole. [Run] sets them.
	Part, Parts int
	// Progress is told how far long work is; may be nil. It must return at
	// once.
	Progress func(Progress)

	most int // the tokens that a request may have, as [Run] learned; 0: no bound
}

// Progress says how far a summarizer is.
type Progress struct {
	// Stage is "read", "rank", "chunk", "reduce", "model" or a word of the
	// summarizer's.
	Stage string
	// Done of Total units of work; Total is 0 when unknown.
	Done, Total int
}

// Call is one request to a model, failed or not.
type Call struct {
	Provider, Model string
	// Purpose is "summary", "chunk", "reduce" or "retry".
	Purpose string
	// Prompt and Completion are the tokens that the provider reported, zero
	// when none; CacheRead and Reasoning are parts of them.
	Prompt, Completion, CacheRead, Reasoning int
	// Outcome is "ok" or the class of the failure.
	Outcome  string
	Duration time.Duration
}

// Summary is what a summarizer wrote.
type Summary struct {
	// Text is the narrative.
	Text string
	// Calls are all model requests behind it.
	Calls []Call
	// Prompt names the version of the instructions, for the record.
	Prompt string
	// CacheLost reports that redaction changed a request that would have
	// shared the agent's prompt cache.
	CacheLost bool
	// Redacted counts the secrets that were kept from the model.
	Redacted int
}

// Summarizer writes the narrative of a checkpoint, in two phases: when Open
// returns, the request has been accepted; Collect waits for the text. It is
// safe for concurrent use. Both must return soon after their context has ended,
// since nobody stops waiting for them earlier; [Run] makes a failure of a panic.
type Summarizer interface {
	// Name identifies the summarizer in results and logs.
	Name() string
	// Open starts a summary. It forwards ctx and returns a [*Failure] for
	// everything that the caller could act on.
	Open(ctx context.Context, req *Request) (Pending, error)
}

// Pending is a summary under way. Exactly one of Collect and Cancel is called,
// once.
type Pending interface {
	// Collect waits for the text. The error is a [*Failure] or the cause of
	// ctx.
	Collect(ctx context.Context) (*Summary, error)
	// Cancel gives the summary up and frees what it holds.
	Cancel()
}

// Windowed is an optional ability of a [Summarizer]: it can read only so many
// tokens at once. Work that does not fit is cut into chunks.
type Windowed interface {
	// Window returns the tokens that one request may have, instructions and
	// reply included; 0 means that any span fits.
	Window() int
}

// Sharing is an optional ability of a [Summarizer]: it says how much of a
// checkpoint its narrative is worth.
type Sharing interface {
	// NarrativeShare returns the part of a checkpoint's budget that the
	// narrative should have, above 0 and below 1; the ledger has the rest.
	NarrativeShare() float64
}
