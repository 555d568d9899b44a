package wire

import (
	"context"
	"io/fs"
)

// TreeCodec is a codec whose sessions are folders of small files. It is safe
// for concurrent use.
type TreeCodec interface {
	Codec
	// DetectTree judges a folder by what is in it.
	DetectTree(dir fs.FS) Confidence
	// ReadTree reads a folder. It reads it while it runs only. The error is an
	// [*Error].
	ReadTree(ctx context.Context, dir fs.FS) (*Tree, error)
}

// Tree is a folder that was read. The Writer of its File is nil.
type Tree struct {
	File
	// Writer says what must change.
	Writer TreeWriter
}

// TreeWriter writes a folder back. It is safe for concurrent use.
type TreeWriter interface {
	// WriteTree returns the files that are new, have new content or are to be
	// taken away, so that the surface of the given conversation is items; nil
	// items mean no change.
	WriteTree(ctx context.Context, conversation int, items []Item) ([]Change, error)
}

// Change is a file of a folder: its path in the folder, with slashes, and its
// new content; nil content takes it away.
type Change struct {
	Path string
	Data []byte
}
