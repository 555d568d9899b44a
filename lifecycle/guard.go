package lifecycle

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stage names a callback.
type Stage string

// The stages.
const (
	StageObserve           Stage = "observe"
	StageDetail            Stage = "detail"
	StageBeforeRequest     Stage = "before_request"
	StageRequestOpened     Stage = "request_opened"
	StageRequestOpenFailed Stage = "request_open_failed"
	StageBeforeRelease     Stage = "before_response_release"
	StageAfterRelease      Stage = "after_response_release"
	StageAborted           Stage = "aborted"
)

// Class says how a callback went wrong.
type Class string

// The classes of failures.
const (
	// ClassError: it returned an error.
	ClassError Class = "error"
	// ClassPanic: it panicked or ended its goroutine.
	ClassPanic Class = "panic"
	// ClassInvalid: it left an invalid value.
	ClassInvalid Class = "invalid"
	// ClassDeadline: it did not return in time. It may still run.
	ClassDeadline Class = "deadline"
	// ClassCanceled: the compaction was canceled while it ran. It does not
	// count for the breaker.
	ClassCanceled Class = "canceled"
	// ClassDropped: it was not called, because it failed too often or too many
	// of its calls still run.
	ClassDropped Class = "dropped"
	// ClassVeto: it called the compaction off.
	ClassVeto Class = "veto"

	classOK Class = ""
)

// Failure is one callback that went wrong. It has no content: neither an
// error's text nor a panic's value.
type Failure struct {
	// ID is that of the preserver, or the type of the observer.
	ID       string
	Stage    Stage
	Class    Class
	Duration time.Duration
}

// OwnerStats are the counts of one observer or preserver.
type OwnerStats struct {
	ID string
	// Calls counts the callbacks that were made, Failed those that went wrong,
	// Dropped those that were not made.
	Calls, Failed, Dropped uint64
	// Running counts callbacks that were left alone and have not returned.
	Running int
	// Open reports that the breaker keeps it from being called.
	Open bool
}

// Stats are the counts of a dispatcher. They hold no content.
type Stats struct {
	Started, Completed, Aborted uint64
	// Calls counts the callbacks that were made; the others say how they went
	// wrong.
	Calls, Errors, Panics, Invalid, Deadlines, Canceled, Vetoes uint64
	// Dropped counts the callbacks that were not made.
	Dropped uint64
	// Running counts callbacks that were left alone and have not returned.
	Running int
	Owners  []OwnerStats
}

// owner is an observer or a preserver with its account.
type owner struct {
	id      string
	timeout time.Duration

	running                atomic.Int32
	calls, failed, dropped atomic.Uint64

	failures atomic.Int32 // in a row
	mu       sync.Mutex
	openTill time.Time // the breaker is open until then
}

// guard calls callbacks so that nothing they do reaches the caller.
type guard struct {
	maxRunning  int32
	maxFailures int
	coolDown    time.Duration
	now         func() time.Time
	sink        func(Failure)
	sinkOwner   owner

	calls, errors, panics, invalid, deadlines, canceled, vetoes, dropped atomic.Uint64
}

// admit reports whether the owner may be called.
func (g *guard) admit(o *owner) bool {
	if o.running.Load() >= g.maxRunning {
		return false
	}
	if int(o.failures.Load()) < g.maxFailures {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := g.now()
	if now.Before(o.openTill) {
		return false
	}
	o.openTill = now.Add(g.coolDown) // half open: this one call
	return true
}

// settle accounts for a callback and tells the sink when it went wrong.
func (g *guard) settle(o *owner, st Stage, c Class, began time.Time) {
	switch c {
	case classOK:
		if st == StageBeforeRequest || st == StageBeforeRelease {
			return // not before the value was judged
		}
		o.recovered()
		return
	case ClassError:
		g.errors.Add(1)
	case ClassPanic:
		g.panics.Add(1)
	case ClassInvalid:
		g.invalid.Add(1)
	case ClassDeadline:
		g.deadlines.Add(1)
	case ClassCanceled:
		g.canceled.Add(1)
	case ClassVeto:
		g.vetoes.Add(1)
		o.recovered()
	case ClassDropped:
		g.dropped.Add(1)
		o.dropped.Add(1)
	}
	switch c {
	case ClassError, ClassPanic, ClassInvalid, ClassDeadline:
		o.failed.Add(1)
		o.mu.Lock()
		if int(o.failures.Add(1)) >= g.maxFailures {
			o.openTill = g.now().Add(g.coolDown)
		}
		o.mu.Unlock()
	}
	if g.sink != nil {
		f := Failure{ID: o.id, Stage: st, Class: c, Duration: time.Since(began)}
		g.tellSink(f)
	}
}

func (o *owner) recovered() {
	if o.failures.Load() != 0 {
		o.failures.Store(0)
	}
}
