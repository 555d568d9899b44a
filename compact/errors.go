package compact

import (
	"fmt"

	"github.com/agentcompact/agentcompact/session"
)

// Code is the class of an outcome that is not a commit. A Code is an error, so
// that errors.Is(err, compact.Busy) works on every [*Error].
type Code string

// The codes. The set is append-only.
const (
	// Busy: another compaction of the session is under way.
	Busy Code = "busy"
	// Cancelled: the context ended before the commit.
	Cancelled Code = "cancelled"
	// Changed: the span was changed while it was summarized.
	Changed Code = "changed"
	// NotFound: an edge of the span is not on the surface.
	NotFound Code = "not_found"
	// Reversed: the span's start stands after its end.
	Reversed Code = "reversed"
	// Unbalanced: an edge separates a call from its result.
	Unbalanced Code = "unbalanced"
	// IsPinned: everything in the span is pinned.
	IsPinned Code = "pinned"
	// NoWindow: the window of the routed model is unknown.
	NoWindow Code = "no_window"
	// SummaryFailed: no usable summary within attempts and deadline.
	SummaryFailed Code = "summary"
	// NotSmaller: the checkpoint would not be smaller than what it replaces by
	// the configured gain.
	NotSmaller Code = "not_smaller"
	// Unfaithful: the summary says what the span does not.
	Unfaithful Code = "unfaithful"
	// OverBudget: the work would need more calls than are allowed.
	OverBudget Code = "budget"
	// BreakerOpen: too many attempts failed in a row.
	BreakerOpen Code = "breaker_open"
	// NoProgress: there is pressure, but compacting would not help, or not
	// again so soon.
	NoProgress Code = "no_progress"
	// Floor: pins, envelope and newest unit alone exceed the limit.
	Floor Code = "floor"
	// CommitFailed: the store refused the commit.
	CommitFailed Code = "commit"
	// PersistenceFailed: the store refused to record the attempt itself.
	PersistenceFailed Code = "persistence"
	// Vetoed: a preserver of package lifecycle called it off.
	Vetoed Code = "vetoed"
	// BelowThreshold: there is no pressure.
	BelowThreshold Code = "below_threshold"
	// NothingToCompact: no span of whole units stands before the tail, or all
	// that does is checkpoints and pins.
	NothingToCompact Code = "nothing_to_compact"
	// AutoOff: automatic compaction is switched off.
	AutoOff Code = "auto_off"
)

// Error implements error.
func (c Code) Error() string { return "compaction: " + string(c) }

// RetryUseful reports whether the same call may succeed later without anybody
// changing anything.
func (c Code) RetryUseful() bool {
	switch c {
	case Busy, Changed, SummaryFailed, Unfaithful, NotSmaller, CommitFailed, PersistenceFailed, BreakerOpen:
		return true
	}
	return false
}

// Advice says what would help, in a sentence for people.
func (c Code) Advice() string {
	switch c {
	case Busy:
		return "wait for the running compaction to end"
	case Cancelled:
		return "run it again when it is wanted"
	case Changed:
		return "try again: the span was edited while it was summarized"
	case NotFound:
		return "name messages that are on the surface now"
	case Reversed:
		return "swap start and end"
	case Unbalanced:
		return "move the edge so that the call and its result are on the same side"
	case IsPinned:
		return "unpin something in the span or choose another one"
	case NoWindow:
		return "configure the context window of the routed model"
	case SummaryFailed, Unfaithful:
		return "check the summarizer's model and endpoint, or allow the embedded fallback"
	case NotSmaller:
		return "choose a longer span or a smaller summary budget"
	case OverBudget:
		return "allow more summarizer calls or use a summarizer with a larger window"
	case BreakerOpen:
		return "fix the summarizer; it is tried again after the cool-down, or compact by hand"
	case NoProgress:
		return "shorten the tail that is kept, unpin, or raise the threshold"
	case Floor:
		return "unpin, shorten the system prompt or the tools, or use a model with a larger window"
	case CommitFailed, PersistenceFailed:
		return "check the store: disk space, permissions"
	case Vetoed:
		return "ask whoever set up the preserver, or run it again when that has changed its mind"
	case BelowThreshold:
		return "nothing: there is room"
	case NothingToCompact:
		return "keep a shorter tail, or wait until the session has grown"
	case AutoOff:
		return "compact by hand, or switch automatic compaction on"
	}
	return ""
}

// Error is every error of a [Service].
type Error struct {
	Code Code
	// Edge is "start" or "end" where the code is about one edge of a span.
	Edge string
	// Node and CallID name the message and the call at fault;
	// [session.NoSeq] and empty where there is none.
	Node   session.Seq
	CallID string
	// Holder tells who runs the compaction that makes the session busy.
	Holder *Holder
	// Written reports whether the log has grown: an attempt that failed is
	// recorded, and tool results may have been pruned.
	Written bool
	// Calls are the summarizer requests that were made.
	Calls []Call
	// Detail says what was found, with the numbers.
	Detail string
	// Err is the cause; may be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	s := "compaction: " + string(e.Code)
	if e.Edge != "" {
		s += " at " + e.Edge
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Holder != nil {
		s += fmt.Sprintf(": held by %s since %s", e.Holder, e.Holder.Since.Format("15:04:05"))
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the code of e.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}
