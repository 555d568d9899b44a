// Package wire holds what the transcript formats have in common: a [Codec]
// reads a file into conversations and writes a compacted one back in the same
// format. Each format is a package below; package wire/formats knows them all.
//
// Every record of a file is kept, byte for byte, whether we understand it or
// not: writing a file back without changes gives the same records.
package wire

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

// Confidence says how sure a codec is that data is in its format.
type Confidence int

// The degrees of confidence, in rising order.
const (
	// No: it is another format.
	No Confidence = iota
	// Maybe: it can be read, but other formats could claim it as well.
	Maybe
	// Likely: it has the shape of the format.
	Likely
	// Certain: it has a mark that only this format has.
	Certain
)

// Codec reads and writes one format. It is safe for concurrent use.
type Codec interface {
	// Name is the stable name of the format ("openai-chat").
	Name() string
	// Detect judges by content. head is the beginning of the file, or all of it
	// when whole is true; it may end anywhere.
	Detect(head []byte, whole bool) Confidence
	// Read reads a whole file. It keeps data, which must not be modified. The
	// error says what is wrong and where; it is an [*Error].
	Read(ctx context.Context, data []byte) (*File, error)
}

// File is a transcript in memory.
type File struct {
	// Format is the codec's name, Container what kind of file it is in words
	// ("mini-swe-agent trajectory").
	Format    string
	Container string
	// Conversations are in file order; there is at least one.
	Conversations []*Conversation
	// Notes say what was noticed while reading: a torn last line, records that
	// were passed over.
	Notes []string
	// Writer writes the file back.
	Writer Writer
}

// Conversation is one conversation of a file as its agent would go on from it.
type Conversation struct {
	// Title tells conversations of one file apart; may be empty.
	Title string
	// Envelope has the leading system and developer messages, the tools and the
	// route as far as the file tells.
	Envelope session.Envelope
	// Entries are the live messages in order, the envelope's not included. It is
	// nil when the file was opened with [Opener.Open]: then At reads them.
	Entries []Entry
	// Side counts the messages that are not live: side chains, abandoned
	// branches, what an earlier compaction hides.
	Side int
	// Checkpoints are the compactions that the file itself marks, oldest first.
	Checkpoints []Checkpoint

	n      int
	read   func(i int) (Entry, error)
	locate func(i int) int64
}

// Entry is one live message.
type Entry struct {
	Message session.Message
	// Usage is what the provider reported with it; nil when nothing. Its Node
	// is set on import.
	Usage *session.Usage
	// Time is when it was written; zero when the file does not tell.
	Time time.Time
}

// Checkpoint is a compaction that a file marks.
type Checkpoint struct {
	// Entry is the index of the entry that stands for what was replaced; -1
	// when it is not live any more.
	Entry int `json:"entry"`
	// Trigger is the file's own word for why ("auto", "manual"); may be empty.
	Trigger string `json:"trigger,omitempty"`
	// TokensBefore is what the file says; 0 when it does not.
	TokensBefore int `json:"tokens_before,omitempty"`
	// Hides counts the messages that it replaced; -1 when unknown.
	Hides int `json:"hides"`
	// Time is when it happened; zero when unknown.
	Time time.Time `json:"time,omitzero"`
}

// Item is one message of the surface that is to be written.
type Item struct {
	// Entry is the index of the entry that it is; -1 for a message that the
	// file does not have.
	Entry int
	// Message is set for a new message and for an entry whose content changed;
	// nil means the entry as it was read.
	Message *session.Message
	// Compaction is set on a checkpoint that we made.
	Compaction *Compaction
}

// Compaction is what a format needs to mark a compaction the way its agent
// does.
type Compaction struct {
	// ID is the compaction id.
	ID string
	// Auto tells automatic ones from those by hand.
	Auto bool
	// Narrative is the text without framing.
	Narrative string
	// TokensBefore and TokensAfter are those of the conversation.
	TokensBefore, TokensAfter int
	// Shadowed are the indexes of the entries that it replaces, in order.
	Shadowed []int
	// Time is when it was committed.
	Time time.Time
}

// Writer writes a file back. It is safe for concurrent use.
type Writer interface {
	// Write writes the whole file to w, with the surface of the given
	// conversation replaced by items; nil items mean no change. The envelope
	// stays as it is.
	Write(ctx context.Context, w io.Writer, conversation int, items []Item) error
}

// Error says what is wrong with a file and where.
type Error struct {
	// Format is the codec that read it; may be empty.
	Format string
	// Line is the line from 1, Offset the byte from 0; Line is 0 when the
	// format has no lines.
	Line   int
	Offset int64
	// Detail says what was found and what was expected.
	Detail string
	// Err is the cause; may be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Detail
	if e.Format != "" {
		s = e.Format + ": " + s
	}
	switch {
	case e.Line > 0:
		s += fmt.Sprintf(" (line %d)", e.Line)
	case e.Offset > 0:
		s += fmt.Sprintf(" (at byte %d)", e.Offset)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Detect returns the codec that is surest about the data; the first of equals
// wins. It returns nil when all say no.
func Detect(head []byte, whole bool, codecs ...Codec) (Codec, Confidence) {
	var best Codec
	sure := No
	for _, c := range codecs {
		if k := c.Detect(head, whole); k > sure {
			best, sure = c, k
		}
	}
	return best, sure
}

// countable reports whether a session can hold the usage.
func countable(u *session.Usage) bool {
	return u != nil && min(u.Prompt, u.Completion, u.CacheRead, u.CacheWrite, u.Reasoning) >= 0
}

// importBatch is how many entries, and bytes of them, one store write has.
const (
	importBatch = 512
	importBytes = 4 << 20
)

// Import appends a conversation to a session: its envelope, unless it is empty,
// then its entries with their usage. Usage with a negative count, which says
// nothing, is left out; package doctor names it. It returns the seq of each
// entry. The session keeps all of it; see [NewStore] for one that does not.
func Import(ctx context.Context, s *session.Session, c *Conversation) ([]session.Seq, error) {
	if e := &c.Envelope; !e.Equal(&session.Envelope{}) {
		if _, err := s.Record(ctx, session.SetEnvelope{Envelope: *e}); err != nil {
			return nil, fmt.Errorf("import envelope: %w", err)
		}
	}
	seqs := make([]session.Seq, 0, c.Len())
	for start := 0; start < c.Len(); {
		var batch []Entry
		for size := 0; start+len(batch) < c.Len() && len(batch) < importBatch && size < importBytes; {
			e, err := c.At(start + len(batch))
			if err != nil {
				return nil, err
			}
			batch = append(batch, e)
			size += e.Message.Size()
		}
		var own []session.Seq
		_, err := s.Update(ctx, func(v session.View) ([]session.Body, error) {
			next := v.Next()
			own = own[:0]
			var bodies []session.Body
			for _, e := range batch {
				own = append(own, next)
				bodies = append(bodies, session.Append{Message: e.Message})
				next++
				if countable(e.Usage) {
					u := *e.Usage
					u.Node = own[len(own)-1]
					bodies = append(bodies, u)
					next++
				}
			}
			return bodies, nil
		})
		if err != nil {
			return nil, fmt.Errorf("import entries %d to %d: %w", start, start+len(batch)-1, err)
		}
		seqs = append(seqs, own...)
		start += len(batch)
	}
	return seqs, nil
}
