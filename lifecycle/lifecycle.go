// Package lifecycle lets others watch compactions and guard what matters
// through them: an [Observer] is told, a [Preserver] may add to what is sent
// and to what is kept, and a [Dispatcher] stands between them and the
// compaction, so that none of them can break, stall or corrupt it.
//
//	d, err := lifecycle.New(lifecycle.Options[lifecycle.Call, lifecycle.Checkpoint]{
//		Observers:  []lifecycle.Observer{lifecycle.NewSlog(logger)},
//		Preservers: []lifecycle.Preserver[lifecycle.Call, lifecycle.Checkpoint]{pinned},
//		Call:       lifecycle.CallCodec, Result: lifecycle.CheckpointCodec,
//	})
//	svc, err := engine.New(summarizer, &engine.Options{Lifecycle: d})
//
// # What is told when
//
// [PhaseStarted] is told when the summarizer's request has been accepted, not
// when an attempt begins; [PhaseCompleted] when the checkpoint is durable.
// Every started transaction ends exactly once, as completed or as aborted;
// aborts have no [Phase] and are told through [DetailObserver]. What comes to
// nothing before a request was accepted tells observers nothing.
//
// # What cannot happen
//
// Callbacks get a private copy, which takes the place of the original only if
// the callback returned without an error in time and the copy is valid. A
// callback that fails, panics, exits its goroutine, hangs or keeps a pointer
// changes nothing, and is waited for no longer than its deadline. Of failures
// only their class is kept: neither the text of an error nor the value of a
// panic reaches a sink, a statistic or a log, since it could quote what was
// said.
//
// Events, details, failures and statistics hold identities and numbers only.
package lifecycle

import (
	"context"
	"time"
)

// Phase is where in its lifecycle a compaction is.
type Phase string

// The phases.
const (
	// PhaseStarted: the request that makes the summary has been accepted.
	PhaseStarted Phase = "started"
	// PhaseCompleted: the compaction is installed, as far as the evidence says.
	PhaseCompleted Phase = "completed"
)

// Evidence says how it is known that there is a compaction.
type Evidence string

// The kinds of evidence, strongest first.
const (
	// EvidenceProtocolStrict: the protocol says so, or we did it ourselves.
	EvidenceProtocolStrict Evidence = "protocol_strict"
	// EvidenceSignatureStrict: the marks of a known implementation were found
	// together where it puts them.
	EvidenceSignatureStrict Evidence = "signature_strict"
	// EvidenceHistoryHeuristic: a history was rewritten in a way that hardly
	// anything else explains.
	EvidenceHistoryHeuristic Evidence = "history_heuristic"
)

// Event is one observation. It holds correlation and evidence, never content,
// and no pointers: a copy of it is a full copy.
type Event struct {
	Phase    Phase
	Evidence Evidence
	// RuleID names the operation or the signature, with its version.
	RuleID string
	// TransactionID is the same in all events of one compaction, and of no
	// other.
	TransactionID string
	// TraceID identifies the run or the logical request.
	TraceID string
	// ALegID identifies the branch of the conversation, BLegID the request that
	// makes the summary.
	ALegID string
	BLegID string
	// AttemptSeq counts the requests of the trace, from 1; 0 when unknown.
	AttemptSeq int
	SessionID  string
	OccurredAt time.Time
}

// Observer is told of compactions. It cannot change anything, and its errors
// and panics are counted and go no further. A dispatcher calls it from any
// goroutine, one event after the other for one compaction.
//
// OnCompaction should return soon: past its deadline it is left alone, and
// after repeated failures it is skipped for a while.
type Observer interface {
	OnCompaction(context.Context, Event) error
}

// Outcome is how far a compaction has come.
type Outcome string

// The outcomes.
const (
	OutcomeStarted   Outcome = "started"
	OutcomeCompleted Outcome = "completed"
	OutcomeAborted   Outcome = "aborted"
)

// Detail is what [DetailObserver] is told beside an [Event]. It holds no text
// of the conversation. Numbers that are not known are zero.
type Detail struct {
	Outcome Outcome
	// Trigger and Target say why and what is compacted, in the words of package
	// compact and package target; empty for compactions of others.
	Trigger string
	Target  string
	// Code says why a compaction was aborted: a code of package compact, or one
	// of the Reason constants of package detect.
	Code string
	// Provider and Model are the route of the agent, Summarizer is the name of
	// who wrote the summary.
	Provider   string
	Model      string
	Summarizer string
	// TokensBefore and TokensAfter are those of the whole context,
	// SpanBefore and SpanAfter those of what was replaced and what replaced it.
	TokensBefore, TokensAfter int
	SpanBefore, SpanAfter     int
	// Messages counts what was replaced.
	Messages int
	// Calls counts the requests to summarizing models; the tokens are those
	// that they reported, CacheReadTokens a part of PromptTokens.
	Calls            int
	PromptTokens     int
	CompletionTokens int
	CacheReadTokens  int
	// Duration is the time since the compaction began.
	Duration time.Duration
}

// DetailObserver is an optional ability of an [Observer]. It is told after
// OnCompaction of the same event, and it alone is told of aborts: then event
// is the one that had started the transaction.
type DetailObserver interface {
	OnCompactionDetail(ctx context.Context, event Event, d Detail) error
}

// Transition is an event with its detail. Detail.Outcome says what it is;
// aborted ones carry the event that had started the transaction.
type Transition struct {
	Event  Event
	Detail Detail
}

// PreviewKind says what a preview announces.
type PreviewKind string

// The kinds of previews.
const (
	PreviewNone                PreviewKind = "none"
	PreviewStartCandidate      PreviewKind = "start_candidate"
	PreviewCompletionCandidate PreviewKind = "completion_candidate"
)

// RequestPreview says, without content and without any effect, what a request
// looks like.
type RequestPreview struct {
	Evidence Evidence
	RuleID   string
	Kind     PreviewKind
	// TransactionID names a transaction that is under way already.
	TransactionID string
	// BoundaryFingerprint identifies what is compacted. It is the same when a
	// client repeats a request.
	BoundaryFingerprint string
}

// ResponsePreview says, without content and without any effect, what is about
// to be released.
type ResponsePreview struct {
	Evidence      Evidence
	RuleID        string
	Kind          PreviewKind
	TransactionID string
}

// PreservationMeta is what a [Preserver] knows of the compaction. It holds no
// content.
type PreservationMeta struct {
	TraceID       string
	SessionID     string
	ALegID        string
	BLegID        string
	AttemptSeq    int
	TransactionID string
	RuleID        string
	Evidence      Evidence
}

// Preserver sees, and may change, what goes into a compaction and what comes
// out of it. C is what is sent, R what is released: [Call] and [Checkpoint]
// with our engine, the types of a gateway with a gateway. Implementations are
// safe for concurrent use: one may serve several compactions at once.
//
// ID is asked once, when the dispatcher is made.
//
// BeforeRequest and BeforeResponseRelease work on a copy. It takes effect if
// the callback returns nil before its deadline and the copy is valid, and for
// the next preserver in order; otherwise it is as if the callback had not been
// called. An error made with [Veto] calls the compaction off.
//
// RequestOpened is told once the request has been accepted, with copies.
type Preserver[C, R any] interface {
	ID() string
	BeforeRequest(context.Context, *C, RequestPreview, PreservationMeta, Services) error
	RequestOpened(context.Context, C, []Event, PreservationMeta, Services) error
	BeforeResponseRelease(context.Context, *R, ResponsePreview, PreservationMeta, Services) error
}

// RequestOpenFailedPreserver is an optional ability of a [Preserver]: it is
// told when no request was accepted, so that it can drop what it had prepared.
type RequestOpenFailedPreserver interface {
	RequestOpenFailed(context.Context, PreservationMeta, Services) error
}

// AfterResponseReleasePreserver is an optional ability of a [Preserver]: it is
// told, with a copy of what was released, after that is durable.
type AfterResponseReleasePreserver[R any] interface {
	AfterResponseRelease(context.Context, R, PreservationMeta, Services) error
}

// AbortedPreserver is an optional ability of a [Preserver]: it is told when a
// started compaction came to nothing, and of the code that says why.
type AbortedPreserver interface {
	Aborted(ctx context.Context, meta PreservationMeta, code string, s Services) error
}

// Deadliner is an optional ability of an [Observer] or [Preserver] that needs
// another deadline for its callbacks than the dispatcher's. It is asked once.
type Deadliner interface {
	CallbackTimeout() time.Duration
}

// Services are what a [Preserver] may use. A nil field means that there is
// none.
type Services struct {
	// State keeps what belongs to the preserver and the session. It works until
	// the callback returns or its deadline has passed.
	State State
	// BackgroundAux asks a model something beside the compaction.
	BackgroundAux BackgroundClient
}
