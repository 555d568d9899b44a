// Package lifecycletest has what tests around package lifecycle need: an
// observer that records, a check of what it recorded, and the suites that
// every observer and preserver must pass, ours and yours.
//
//	func TestMine(t *testing.T) {
//		lifecycletest.TestPreserver(t, func(*testing.T) lifecycle.Preserver[lifecycle.Call, lifecycle.Checkpoint] { return mine() })
//	}
package lifecycletest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/session"
)

// Recorder is an observer that remembers. The zero value is ready to use; it is
// safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	events []lifecycle.Event
	list   []lifecycle.Transition
}

// OnCompaction implements [lifecycle.Observer].
func (r *Recorder) OnCompaction(_ context.Context, e lifecycle.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	return nil
}

// OnCompactionDetail implements [lifecycle.DetailObserver].
func (r *Recorder) OnCompactionDetail(_ context.Context, e lifecycle.Event, d lifecycle.Detail) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, lifecycle.Transition{Event: e, Detail: d})
	return nil
}

// Events returns what OnCompaction was told, in order.
func (r *Recorder) Events() []lifecycle.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Transitions returns what OnCompactionDetail was told, in order.
func (r *Recorder) Transitions() []lifecycle.Transition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// Outcomes returns the outcomes of the transitions, in order.
func (r *Recorder) Outcomes() []lifecycle.Outcome {
	var out []lifecycle.Outcome
	for _, t := range r.Transitions() {
		out = append(out, t.Detail.Outcome)
	}
	return out
}

// Check says what is wrong with transitions that were all told: a transaction
// that ended twice or not at all, started twice, or shares its id.
func Check(list []lifecycle.Transition) error {
	open := make(map[string]bool)
	ended := make(map[string]bool)
	for i, t := range list {
		id := t.Event.TransactionID
		switch {
		case id == "":
			return fmt.Errorf("transition %d has no transaction", i)
		case ended[id]:
			return fmt.Errorf("transition %d: transaction %s had ended", i, id)
		}
		switch t.Detail.Outcome {
		case lifecycle.OutcomeStarted:
			if open[id] {
				return fmt.Errorf("transition %d: transaction %s had started", i, id)
			}
			open[id] = true
		case lifecycle.OutcomeCompleted, lifecycle.OutcomeAborted:
			if t.Detail.Outcome == lifecycle.OutcomeAborted && !open[id] {
				return fmt.Errorf("transition %d: transaction %s is aborted and had not started", i, id)
			}
			delete(open, id)
			ended[id] = true
		default:
			return fmt.Errorf("transition %d has outcome %q", i, t.Detail.Outcome)
		}
	}
	for id := range open {
		return fmt.Errorf("transaction %s never ended", id)
	}
	return nil
}

// Messages is a small region with an instruction, a todo list and a result.
func Messages() []*session.Message {
	list := []session.Message{
		session.UserText("Build the parser. Never touch vendor/."),
		session.AssistantText("I plan first.", session.ToolCall{ID: "c1", Name: "TodoWrite",
			Arguments: `{"todos":[{"content":"write the lexer","status":"completed"},{"content":"write the parser","status":"in_progress"},{"content":"fuzz it","status":"pending"}]}`}),
		session.ToolText("c1", "ok"),
	}
	out := make([]*session.Message, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// Call and Checkpoint are values that pass their codecs.
func Call() lifecycle.Call {
	return lifecycle.Call{ID: "c-1", Trigger: "pressure", Provider: "p", Model: "m", Region: lifecycle.NewRegion(Messages(), 100), Instructions: "be short"}
}

// Checkpoint is the checkpoint of [Call].
func Checkpoint() lifecycle.Checkpoint {
	return lifecycle.Checkpoint{ID: "c-1", Trigger: "pressure", Region: lifecycle.NewRegion(Messages(), 100), Narrative: "The lexer is done.", Notes: []string{"a note"}}
}

// Meta is what preservers are told of [Call].
func Meta() lifecycle.PreservationMeta {
	return lifecycle.PreservationMeta{TraceID: "t", SessionID: "s", ALegID: "a", BLegID: "b", AttemptSeq: 1, TransactionID: "tx", RuleID: "r.v1", Evidence: lifecycle.EvidenceProtocolStrict}
}

// TestObserver checks that an observer can be used: from several goroutines,
// with empty values, in any order, within a second a call.
func TestObserver(t *testing.T, newObserver func(*testing.T) lifecycle.Observer) {
	t.Run("Concurrent", func(t *testing.T) {
		o := newObserver(t)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 8 {
					e := lifecycle.Event{Phase: lifecycle.PhaseStarted, TransactionID: fmt.Sprint(g, i), OccurredAt: time.Unix(int64(i), 0)}
					_ = o.OnCompaction(t.Context(), e)
					if d, ok := o.(lifecycle.DetailObserver); ok {
						_ = d.OnCompactionDetail(t.Context(), e, lifecycle.Detail{Outcome: lifecycle.OutcomeStarted})
						_ = d.OnCompactionDetail(t.Context(), e, lifecycle.Detail{Outcome: lifecycle.OutcomeAborted, Code: "x"})
					}
				}
			})
		}
		wg.Wait()
	})
	t.Run("Anything", func(t *testing.T) {
		o := newObserver(t)
		for _, e := range []lifecycle.Event{{}, {Phase: "unknown"}, {Phase: lifecycle.PhaseCompleted, TransactionID: "never started"}} {
			require.NotPanics(t, func() { _ = o.OnCompaction(t.Context(), e) })
			if d, ok := o.(lifecycle.DetailObserver); ok {
				for _, outcome := range []lifecycle.Outcome{"", lifecycle.OutcomeCompleted, lifecycle.OutcomeAborted, lifecycle.OutcomeCompleted} {
					require.NotPanics(t, func() { _ = d.OnCompactionDetail(t.Context(), e, lifecycle.Detail{Outcome: outcome}) })
				}
			}
		}
	})
	t.Run("DispatchedInTime", func(t *testing.T) {
		d, err := lifecycle.New(lifecycle.Options[int, int]{Observers: []lifecycle.Observer{newObserver(t)}})
		require.NoError(t, err)
		e := lifecycle.Event{Phase: lifecycle.PhaseStarted, TransactionID: "tx"}
		d.Emit(t.Context(), lifecycle.Transition{Event: e, Detail: lifecycle.Detail{Outcome: lifecycle.OutcomeStarted}},
			lifecycle.Transition{Event: e, Detail: lifecycle.Detail{Outcome: lifecycle.OutcomeCompleted}})
		s := d.Stats()
		require.Zero(t, s.Errors+s.Panics+s.Deadlines+s.Dropped, "%+v", s)
	})
}

// TestPreserver checks that a preserver of our engine's types keeps what it
// must: it runs with and without services, changes only what it may, changes
// nothing the second time, and says nothing about content in its errors.
func TestPreserver(t *testing.T, newPreserver func(*testing.T) lifecycle.Preserver[lifecycle.Call, lifecycle.Checkpoint]) {
	t.Run("StableID", func(t *testing.T) {
		p := newPreserver(t)
		require.NotEmpty(t, p.ID())
		require.Equal(t, p.ID(), p.ID())
	})
	for name, services := range map[string]lifecycle.Services{"NoServices": {}, "State": {State: new(lifecycle.MemoryState).Of("x")}} {
		t.Run(name, func(t *testing.T) {
			p := newPreserver(t)
			ctx, meta := t.Context(), Meta()
			call, was := Call(), Call()
			was.Region = call.Region
			if err := p.BeforeRequest(ctx, &call, lifecycle.RequestPreview{Kind: lifecycle.PreviewStartCandidate}, meta, services); err == nil {
				require.NoError(t, lifecycle.CallCodec.Validate(was, call))
			}
			require.NoError(t, p.RequestOpened(ctx, call, nil, meta, services))
			for range 2 {
				k, before := Checkpoint(), Checkpoint()
				before.Region = k.Region
				if err := p.BeforeResponseRelease(ctx, &k, lifecycle.ResponsePreview{Kind: lifecycle.PreviewCompletionCandidate}, meta, services); err == nil {
					require.NoError(t, lifecycle.CheckpointCodec.Validate(before, k))
					again := lifecycle.CheckpointCodec.Clone(k)
					require.NoError(t, p.BeforeResponseRelease(ctx, &again, lifecycle.ResponsePreview{}, meta, services))
					require.True(t, lifecycle.CheckpointCodec.Equal(k, again), "a second time it adds the same again")
				}
			}
			if f, ok := p.(lifecycle.RequestOpenFailedPreserver); ok {
				require.NoError(t, f.RequestOpenFailed(ctx, meta, services))
			}
		})
	}
	t.Run("Concurrent", func(t *testing.T) {
		p := newPreserver(t)
		services := lifecycle.Services{State: new(lifecycle.MemoryState).Of("x")}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				call, k := Call(), Checkpoint()
				_ = p.BeforeRequest(t.Context(), &call, lifecycle.RequestPreview{}, Meta(), services)
				_ = p.BeforeResponseRelease(t.Context(), &k, lifecycle.ResponsePreview{}, Meta(), services)
			})
		}
		wg.Wait()
	})
}
