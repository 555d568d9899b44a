package lifecycle

import "errors"

// VetoError says that a preserver called the compaction off. It has no reason:
// that could quote what was said.
type VetoError struct {
	// ID is that of the preserver.
	ID string
}

// Error implements error.
func (e *VetoError) Error() string { return "compaction was called off by preserver " + e.ID }

var errVeto = errors.New("the preserver calls the compaction off")

// Veto returns the error with which BeforeRequest and BeforeResponseRelease of
// a [Preserver] call the compaction off. In other callbacks it is an error
// like any other.
func Veto() error { return errVeto }
