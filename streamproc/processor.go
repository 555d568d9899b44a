package streamproc

import (
	"context"
	"fmt"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

// Processor is what a compaction needs of the host's history. It shows up to
// three views of it, each oldest first, and has one mutator. The views are read
// only: what a caller gets stays as it is while the host goes on.
//
// The steps are what the running turn accumulated: model replies, calls and
// results, without the prompt that opened the turn, the system prompt and
// everything before. A host with more than that also implements
// [HistoryViewer].
//
// With these methods alone a compaction reads, works, reads again and commits.
// It notices a change of what it summarized between the two readings, but not
// one between the second reading and the commit: only a [Snapshotter] can
// promise that nothing is overwritten. Items that the host appends behind the
// replaced ones are kept in any case.
//
// Implementations are safe for concurrent use.
type Processor[T any] interface {
	// AccumulatedSteps returns the items of the running turn.
	AccumulatedSteps(ctx context.Context) ([]T, error)
	// ReplaceWithCompaction puts item in the place of the first n items of the
	// view that t names: of the steps, of the history, or of both in a row,
	// which is the view of [All]. All of it happens, or nothing: with n below
	// 1 or above the length of the view it returns [ErrInvalidSplit], for a
	// target that the host does not have [ErrUnsupported], and changes nothing.
	ReplaceWithCompaction(ctx context.Context, t target.Target, n int, item T) error
}

// HistoryViewer is an optional ability of a [Processor].
type HistoryViewer[T any] interface {
	// History returns the exchanges from before the running turn.
	History(ctx context.Context) ([]T, error)
}

// AllViewer is an optional ability of a [Processor] that has both views in a
// row more cheaply than [All] makes them.
type AllViewer[T any] interface {
	// All returns the history and then the steps.
	All(ctx context.Context) ([]T, error)
}

// History returns the history of p; empty when it shows none.
func History[T any](ctx context.Context, p Processor[T]) ([]T, error) {
	if h, ok := p.(HistoryViewer[T]); ok {
		return h.History(ctx)
	}
	return nil, nil
}

// All returns the history and then the steps of p.
func All[T any](ctx context.Context, p Processor[T]) ([]T, error) {
	if a, ok := p.(AllViewer[T]); ok {
		return a.All(ctx)
	}
	h, err := History(ctx, p)
	if err != nil {
		return nil, err
	}
	s, err := p.AccumulatedSteps(ctx)
	if err != nil {
		return nil, err
	}
	return append(h[:len(h):len(h)], s...), nil
}

// Snapshot is one moment of a host's history.
type Snapshot[T any] struct {
	// Revision changes with every change of the two views.
	Revision uint64
	// History and Steps are the views, oldest first.
	History, Steps []T
}

// view returns the items of a target.
func (s Snapshot[T]) view(t target.Target) []T {
	switch t {
	case target.Steps:
		return s.Steps
	case target.History:
		return s.History
	}
	return append(s.History[:len(s.History):len(s.History)], s.Steps...)
}

// Commit is a replacement that is made only if what it replaces is still what
// it was.
type Commit[T any] struct {
	Target target.Target
	// Revision is that of the snapshot which the compaction worked on.
	Revision uint64
	// N is how many items give way: the first ones of the view.
	N int
	// Digest is that of these items, as [Adapter.Digest] makes it.
	Digest string
	// Item takes their place.
	Item T
	// Record is what code knows of the item, for a host that can keep it; see
	// [Keeper].
	Record Record
}

// Snapshotter is an optional ability of a [Processor]: views from one moment,
// and a commit that compares. With it a compaction overwrites nothing that was
// changed while it worked.
type Snapshotter[T any] interface {
	Processor[T]
	// Snapshot returns both views as they are at one moment.
	Snapshot(ctx context.Context) (Snapshot[T], error)
	// Commit is ReplaceWithCompaction for a host that may have gone on. While
	// the revision is the same it replaces; otherwise only if the first N items
	// still have the digest, and what was appended meanwhile is kept. Else it
	// returns an [ErrConflict] and changes nothing.
	Commit(ctx context.Context, c Commit[T]) error
}

// Record is what code knows of a checkpoint beside its text. It is plain data.
type Record struct {
	// ID identifies the compaction.
	ID string `json:"id"`
	// Narrative is the summary without framing and ledger.
	Narrative string `json:"narrative"`
	// Ledger holds the facts that are carried from round to round.
	Ledger *summarize.Ledger `json:"ledger,omitempty"`
	// Start and End are the lowest and highest number of the replaced messages,
	// Count how many there were. [Adapter.Seq] says what the numbers are.
	Start session.Seq `json:"start"`
	End   session.Seq `json:"end"`
	Count int         `json:"count"`
	// Before and After are the tokens of what was replaced and of the
	// checkpoint.
	Before int `json:"before"`
	After  int `json:"after"`
	// Summarizer names who wrote the narrative, Calls are its requests.
	Summarizer string           `json:"summarizer,omitempty"`
	Calls      []summarize.Call `json:"calls,omitempty"`
}

// Keeper is an optional ability of a [Processor] that keeps the records of its
// checkpoints. Without it, and without [Options.Memory], the next compaction
// sees an earlier checkpoint as plain text.
type Keeper[T any] interface {
	// Record returns the record of a checkpoint, and false for any other item.
	Record(item T) (Record, bool)
}

// ErrInvalidSplit says that more items were to be replaced than there are.
type ErrInvalidSplit struct{ Requested, Available int }

// Error implements error.
func (e ErrInvalidSplit) Error() string {
	return fmt.Sprintf("cannot replace %d items of %d", e.Requested, e.Available)
}

// ErrUnsupported says that a host does not have the target.
const ErrUnsupported = Unsupported

// ErrConflict says that what was to be replaced is not what it was.
type ErrConflict struct {
	Target target.Target
	// Reason says what was found, without content.
	Reason string
}

// Error implements error.
func (e ErrConflict) Error() string {
	return fmt.Sprintf("the %s changed during the compaction: %s", e.Target, e.Reason)
}
