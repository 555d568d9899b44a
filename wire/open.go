package wire

import (
	"context"
	"errors"
	"io"
)

// ErrChanged says that a file that was opened has other bytes now than when it
// was read. Appending to it is no change.
var ErrChanged = errors.New("the file was changed after it was read: read it again")

// Opener is a [Codec] of files that need not fit into memory: logs of one record
// a line. It is safe for concurrent use.
type Opener interface {
	Codec
	// Open reads the first size bytes of r and leaves the messages there. r is
	// asked again by [Conversation.At] and by the Writer, and must stay readable
	// as long as the File is in use; what is appended behind size is not looked
	// at. If the bytes change, these fail with an error that wraps [ErrChanged].
	//
	// What stays in memory is a few hundred bytes a record. A file that is one
	// document, in a format that knows both, is read whole.
	Open(ctx context.Context, r io.ReaderAt, size int64) (*File, error)
}

// Len is how many entries the conversation has.
func (c *Conversation) Len() int {
	if c.read != nil {
		return c.n
	}
	return len(c.Entries)
}

// At returns the i-th entry. The entry of an opened file is read at every call
// and is the caller's; otherwise it shares memory with Entries. The error says
// why it could not be read.
func (c *Conversation) At(i int) (Entry, error) {
	if c.read != nil {
		return c.read(i)
	}
	return c.Entries[i], nil
}

// Leave makes a conversation of n entries that read returns, for codecs. read
// must be safe for concurrent use.
func (c *Conversation) Leave(n int, read func(i int) (Entry, error)) {
	c.Entries, c.n, c.read = nil, n, read
}

// Locate says where the messages of a conversation stand, for codecs: offset
// returns where in the file the first record of the i-th begins, -1 if nowhere.
func (c *Conversation) Locate(offset func(i int) int64) { c.locate = offset }

// Offset returns where in the file the first record of the i-th message begins;
// -1 when the codec does not know. i counts the messages as they were read.
func (c *Conversation) Offset(i int) int64 {
	if c.locate == nil {
		return -1
	}
	return c.locate(i)
}

// Hold reads the entries of all conversations of a file into memory. It takes
// what an Open returned, for codecs to make a Read of it.
func Hold(f *File, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	for _, c := range f.Conversations {
		if c.read == nil {
			continue
		}
		entries := make([]Entry, c.n)
		for i := range entries {
			if entries[i], err = c.read(i); err != nil {
				return nil, err
			}
		}
		c.Entries, c.n, c.read = entries, 0, nil
	}
	return f, nil
}
