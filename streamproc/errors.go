package streamproc

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

// Kind is the class of an error and its label in metrics. A Kind is an error,
// so that errors.Is(err, streamproc.NothingToCompact) works on every error of
// this package. The set is append-only.
type Kind string

// The kinds. The first ten have the labels of the system that this package's
// contract comes from.
const (
	// NothingToCompact: the view is empty, has too few tokens, or has no whole
	// unit before its tail.
	NothingToCompact Kind = "nothing_to_compact"
	// Timeout: the deadline passed.
	Timeout Kind = "timeout"
	// EmptyResponse: no usable text after all attempts.
	EmptyResponse Kind = "empty_response"
	// InsufficientReduction: the checkpoint would not be enough smaller.
	InsufficientReduction Kind = "insufficient_reduction"
	// InvalidSplit: the host has fewer items than were to be replaced.
	InvalidSplit Kind = "invalid_split"
	// Unsupported: the host does not have the target.
	Unsupported Kind = "unsupported"
	// SamplerBuild: the request cannot succeed as it is: configuration, access,
	// refusal, or longer than the model reads.
	SamplerBuild Kind = "sampler_build"
	// SamplerStart: no request was accepted, for a reason that may pass.
	SamplerStart Kind = "sampler_start"
	// SamplerStream: a reply broke off, for a reason that may pass.
	SamplerStream Kind = "sampler_stream"
	// ApplyFailed: the host's commit failed.
	ApplyFailed Kind = "apply"

	// Cancelled: the context ended before the commit.
	Cancelled Kind = "cancelled"
	// Conflict: the host's history was changed meanwhile.
	Conflict Kind = "conflict"
	// ViewFailed: a view or the adapter returned an error.
	ViewFailed Kind = "view"
	// Vetoed: a preserver of package lifecycle called it off.
	Vetoed Kind = "vetoed"
	// InvalidOptions: an option is out of range, or the mode has no use for it.
	InvalidOptions Kind = "invalid_options"
)

// Error implements error.
func (k Kind) Error() string { return "compaction: " + string(k) }

// Error is every error of this package's functions.
type Error struct {
	Kind Kind
	// Target is the part that failed; zero when none was begun.
	Target target.Target
	// Deterministic says that the same call would fail again.
	Deterministic bool
	// Overflow says that the summarizer's input was longer than it reads.
	Overflow bool
	// Before and After are tokens, with [InsufficientReduction]; After is 0
	// when the checkpoint was given up before it was whole.
	Before, After int
	// Calls are the requests that were made.
	Calls []summarize.Call
	// Durable is what was committed before the failure; nil when nothing was.
	Durable *Result
	// Detail says what was found, without content of the conversation.
	Detail string
	// Err is the cause; may be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	s := "compaction"
	if e.Target != 0 {
		s += " of " + e.Target.String()
	}
	s += ": " + string(e.Kind)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Durable != nil {
		s += fmt.Sprintf(" (%d items of %s were replaced before)", e.Durable.Items, e.Durable.Passes[0].Target)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the kind of e.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Label returns the stable label of an error for metrics, "" for nil. An error
// that is none of this package's is "apply", since it is the host's.
func Label(err error) string {
	if err == nil {
		return ""
	}
	return string(kindOf(err))
}

func kindOf(err error) Kind {
	var e *Error
	var split ErrInvalidSplit
	var conflict ErrConflict
	var k Kind
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.As(err, &split):
		return InvalidSplit
	case errors.As(err, &conflict):
		return Conflict
	case errors.As(err, &k):
		return k
	}
	return ApplyFailed
}

func fail(k Kind, t target.Target, format string, args ...any) *Error {
	return &Error{Kind: k, Target: t, Deterministic: k == InvalidOptions || k == Unsupported, Detail: fmt.Sprintf(format, args...)}
}

// cancelled returns the error of a context that has ended, nil otherwise.
func cancelled(ctx context.Context, t target.Target) *Error {
	if cause := context.Cause(ctx); cause != nil {
		return &Error{Kind: Cancelled, Target: t, Err: cause}
	}
	return nil
}

// ended returns the error of a context that has ended, else other.
func ended(ctx context.Context, other *Error) *Error {
	if c := cancelled(ctx, other.Target); c != nil {
		c.Calls = other.Calls
		return c
	}
	return other
}

// summaryError says what the failure of a summary is here. opened tells whether
// a request had been accepted.
func summaryError(ctx context.Context, t target.Target, err error, opened bool) *Error {
	e := &Error{Kind: SamplerStream, Target: t, Err: err}
	var f *summarize.Failure
	if !errors.As(err, &f) {
		return ended(ctx, e)
	}
	e.Calls = f.Calls
	switch f.Class {
	case summarize.Timeout:
		e.Kind = Timeout
	case summarize.Inflated:
		e.Kind = InsufficientReduction
	case summarize.Auth, summarize.Refused, summarize.Invalid, summarize.Budget:
		e.Kind, e.Deterministic = SamplerBuild, true
	case summarize.Overflow:
		e.Kind, e.Deterministic, e.Overflow = SamplerBuild, true, true
	case summarize.Transient, summarize.RateLimited, summarize.BadStream:
		if !opened {
			e.Kind = SamplerStart
		}
	default: // text that is of no use
		e.Kind = EmptyResponse
	}
	return ended(ctx, e)
}
