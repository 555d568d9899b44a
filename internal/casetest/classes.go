package casetest

import (
	"errors"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/overflow"
)

// Error classes of the case language.
const (
	none             = "none"
	nothingToCompact = "nothing_to_compact"
	noProgress       = "no_progress"
	summarizerFailed = "summarizer_failed"
	cancelled        = "cancelled"
	storageFailed    = "storage_failed"
	invalidRegion    = "invalid_region"
	overflowed       = "overflow"
	rateLimited      = "rate_limited"
	invalidRequest   = "invalid_request"
)

// classOf maps the codes of the library to the classes of the language. A code
// that is not here, like NoWindow, has no class: no case can bring it about.
// BreakerOpen has the class of the outcome that opened the breaker.
var classOf = map[compact.Code]string{
	"":                        none,
	compact.BelowThreshold:    none, // a check that does not fire
	compact.AutoOff:           none,
	compact.Busy:              none, // another run of the session does the work
	compact.Changed:           none, // a ready summary that does not fit any more is dropped
	compact.NothingToCompact:  nothingToCompact,
	compact.IsPinned:          nothingToCompact,
	compact.NoProgress:        noProgress,
	compact.NotSmaller:        noProgress,
	compact.Floor:             noProgress,
	compact.SummaryFailed:     summarizerFailed,
	compact.Unfaithful:        summarizerFailed,
	compact.OverBudget:        summarizerFailed,
	compact.Cancelled:         cancelled,
	compact.CommitFailed:      storageFailed,
	compact.PersistenceFailed: storageFailed,
	compact.NotFound:          invalidRegion,
	compact.Reversed:          invalidRegion,
	compact.Unbalanced:        invalidRegion,
}

// codeOf returns the code of an error of the service; ok is false for errors
// that are none of ours.
func codeOf(err error) (code compact.Code, ok bool) {
	var e *compact.Error
	if err == nil {
		return "", true
	}
	if !errors.As(err, &e) {
		return "", false
	}
	return e.Code, true
}

// providerClass is the class of a provider's error that goes to the caller.
func providerClass(r overflow.Result) string {
	switch r.Coarse() {
	case overflow.ClassOverflow:
		return overflowed
	case overflow.ClassRateLimited:
		return rateLimited
	}
	return invalidRequest
}
