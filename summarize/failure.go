package summarize

import (
	"fmt"
	"time"
)

// Class says why a summary failed, and with it what to do next.
type Class string

// The classes of failures.
const (
	Transient   Class = "transient"    // try again
	RateLimited Class = "rate_limited" // wait, then try again
	Auth        Class = "auth"         // key or credit; another model may work
	Overflow    Class = "overflow"     // the request was too long: cut it
	Refused     Class = "refused"      // the model would not
	Empty       Class = "empty"        // no text
	Truncated   Class = "truncated"    // cut by the reply limit: ask for less
	ToolCalled  Class = "tool_call"    // a call in place of text
	Degenerate  Class = "degenerate"   // too short, an echo, or a loop
	Sections    Class = "sections"     // required sections are missing
	Reasoning   Class = "reasoning"    // reasoning without text
	BadStream   Class = "stream"       // an error or an end inside the stream
	Inflated    Class = "inflated"     // longer than its budget allows
	Invented    Class = "invented"     // says what the span does not
	Timeout     Class = "timeout"      // the deadline passed
	Budget      Class = "budget"       // would need more calls than allowed
	Invalid     Class = "invalid"      // the request itself is wrong
)

// Corrective reports whether asking again with the reason may help.
func (c Class) Corrective() bool {
	switch c {
	case Empty, Truncated, ToolCalled, Degenerate, Sections, Reasoning, Inflated, Invented:
		return true
	}
	return false
}

// Temporary reports whether the same request may succeed later.
func (c Class) Temporary() bool {
	switch c {
	case Transient, RateLimited, BadStream, Timeout:
		return true
	}
	return false
}

// Failure is the error of a summary.
type Failure struct {
	Class Class
	// Detail says what was found, without content of the conversation.
	Detail string
	// RetryAfter is how long the provider asked to wait; zero when it did not.
	RetryAfter time.Duration
	// Limit and Actual are the numbers that an overflow named, or the most tokens
	// that a summary may have and what it had; zero when none.
	Limit, Actual int
	// Calls are the model requests that were made, this one included.
	Calls []Call
	// Err is the cause; may be nil.
	Err error
}

// Error implements error.
func (f *Failure) Error() string {
	s := "summary failed (" + string(f.Class) + ")"
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	if f.Err != nil {
		s += fmt.Sprintf(": %v", f.Err)
	}
	return s
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }
