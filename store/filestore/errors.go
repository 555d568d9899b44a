package filestore

import (
	"errors"
	"fmt"

	"github.com/agentcompact/agentcompact/session"
)

// ErrReadOnly is wrapped by the error of an append to a store that was opened
// for reading.
var ErrReadOnly = errors.New("session file is open for reading only")

// ErrRemoved is wrapped by the error of an append to a file that has been deleted,
// or replaced by another one of its name, while the store was open: what would be
// appended could not be found again. Nothing was stored.
var ErrRemoved = errors.New("the file was deleted or replaced while it was open")

// FormatError says that a file is not a session file. It was not touched.
type FormatError struct{ Path string }

func (e *FormatError) Error() string { return fmt.Sprintf("%s is not a session file", e.Path) }

// VersionError says that a file has a newer format than this package knows. It
// was not touched.
type VersionError struct {
	Path    string
	Version int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, newer than %d", e.Path, e.Version, FormatVersion)
}

// DamageError says that a part of the file that was synced is not what was
// written. Nothing is written to such a file; [Salvage] copies what is before
// the damage.
type DamageError struct {
	Path string
	// Offset is where the first bad line starts, in bytes.
	Offset int64
	// Events is the number of sound events before it.
	Events session.Seq
	// Reason says what is wrong there.
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d, behind %d sound events: %s", e.Path, e.Offset, e.Events, e.Reason)
}

// Torn tells of bytes at the end of a file that belong to no whole append: a
// crash had left them behind. No append that was acknowledged as durable is in
// them. A reader passes over them, and the next writer cuts them off.
type Torn struct {
	Path string
	// Offset is where they start, Bytes how many they are.
	Offset, Bytes int64
	// Reason says what is wrong with the first line of them.
	Reason string
}

// Cut tells of bytes at the end of a file that a crash had left behind and
// that were cut off. No append that was acknowledged as durable was in them.
type Cut struct {
	Path string
	// Offset is where the file ends now, Bytes how many were cut off.
	Offset, Bytes int64
}
