package streamproc

import (
	"time"

	"github.com/agentcompact/agentcompact/target"
)

// Observer is told what a compaction does. Its functions may be nil, are called
// in order by the goroutine that runs the compaction, and cannot fail it: a
// panic in one is swallowed. For every call of an Apply function Started comes
// once first and Ended once last, whatever happens between.
type Observer struct {
	// Started tells the mode.
	Started func(Mode)
	// Committed tells of each pass that the host has taken.
	Committed func(*Pass)
	// Ended is the terminal event.
	Ended func(End)
}

// Status says how a compaction ended.
type Status string

// The ways to end.
const (
	Succeeded Status = "success"
	Skipped   Status = "skipped"   // nothing to compact
	Stopped   Status = "cancelled" // by the context
	Failed    Status = "failure"
)

// End is the terminal event of a compaction.
type End struct {
	Status Status
	// Label is that of the error, "" for a success.
	Label string
	// Target is the part that failed; zero when none did.
	Target target.Target
	// Result is what was committed, also by a compaction that failed later; nil
	// when nothing was.
	Result *Result
	// Err is what the Apply function returns.
	Err     error
	Elapsed time.Duration
}

func (o *Observer) started(m Mode) {
	if o != nil && o.Started != nil {
		shield(func() { o.Started(m) })
	}
}

func (o *Observer) committed(p *Pass) {
	if o != nil && o.Committed != nil {
		shield(func() { o.Committed(p) })
	}
}

func (o *Observer) ended(e End) {
	if o != nil && o.Ended != nil {
		shield(func() { o.Ended(e) })
	}
}

func shield(fn func()) {
	defer func() { _ = recover() }()
	fn()
}
