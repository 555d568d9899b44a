package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
)

// trace records who was called when.
type trace []string

func (tr *trace) add(s string) { *tr = append(*tr, s) }

func traced(tr *trace, name string) *fake {
	return &fake{
		id:     name,
		before: func(context.Context, *doc, lifecycle.Services) error { tr.add(name + ":before"); return nil },
		opened: func(_ context.Context, _ doc, e []lifecycle.Event) error {
			tr.add(name + ":opened:" + string(e[0].Phase))
			return nil
		},
		release: func(_ context.Context, _ *doc, p lifecycle.ResponsePreview) error {
			tr.add(name + ":release:" + string(p.Kind))
			return nil
		},
		after:   func(context.Context, doc) error { tr.add(name + ":after"); return nil },
		failed:  func(lifecycle.PreservationMeta) error { tr.add(name + ":failed"); return nil },
		aborted: func(code string) error { tr.add(name + ":aborted:" + code); return nil },
	}
}

// TestOrder: who is told when, on each way that a run can take.
func TestOrder(t *testing.T) {
	var tr trace
	watch := watcher(func(_ context.Context, e lifecycle.Event) error { tr.add("observer:" + string(e.Phase)); return nil })
	d := newDocs(t, lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{watch}, Preservers: []lifecycle.Preserver[doc, doc]{traced(&tr, "p"), traced(&tr, "q")}})
	ctx := t.Context()
	for name, c := range map[string]struct {
		play func(r *lifecycle.Run[doc, doc])
		want string
	}{
		"committed": {func(r *lifecycle.Run[doc, doc]) {
			v := doc{Text: "x"}
			_ = r.BeforeRequest(ctx, &v, nil)
			r.RequestOpened(ctx, v, "", 1)
			_ = r.BeforeRelease(ctx, &v, nil)
			r.Committed(ctx, v, nil)
			r.Close(ctx, "late", nil)
		}, "p:before q:before p:opened:started q:opened:started observer:started p:release:completion_candidate q:release:completion_candidate observer:completed p:after q:after"},
		"never opened": {func(r *lifecycle.Run[doc, doc]) {
			v := doc{Text: "x"}
			_ = r.BeforeRequest(ctx, &v, nil)
			r.Close(ctx, "summary", nil)
			r.RequestOpened(ctx, v, "", 1)
		}, "p:before q:before p:failed q:failed"},
		"aborted": {func(r *lifecycle.Run[doc, doc]) {
			v := doc{Text: "x"}
			_ = r.BeforeRequest(ctx, &v, nil)
			r.RequestOpened(ctx, v, "", 1)
			r.Close(ctx, "canceled", nil)
			r.Committed(ctx, v, nil)
		}, "p:before q:before p:opened:started q:opened:started observer:started p:aborted:canceled q:aborted:canceled"},
		"nothing": {func(r *lifecycle.Run[doc, doc]) { r.Close(ctx, "x", nil) }, ""},
		"auxiliary": {func(r *lifecycle.Run[doc, doc]) {
			v := doc{Text: "x"}
			aux := lifecycle.WithAuxiliary(ctx)
			_ = r.BeforeRequest(aux, &v, nil)
			r.RequestOpened(aux, v, "", 1)
			_ = r.BeforeRelease(aux, &v, nil)
			r.Committed(aux, v, nil)
		}, "observer:started observer:completed"},
	} {
		tr = nil
		c.play(begin(d))
		require.Equal(t, c.want, strings.Join(tr, " "), name)
	}
}

// TestEndsAfterCancellation: what ends a run is told although its context has
// ended.
func TestEndsAfterCancellation(t *testing.T) {
	rec := new(lifecycletest.Recorder)
	d := newDocs(t, lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{rec}})
	ctx, cancel := context.WithCancel(t.Context())
	r := begin(d)
	r.RequestOpened(ctx, doc{}, "", 1)
	cancel()
	r.Close(ctx, "canceled", func(x *lifecycle.Detail) { x.Calls = 3 })
	list := rec.Transitions()
	require.NoError(t, lifecycletest.Check(list))
	require.Equal(t, lifecycle.OutcomeAborted, list[1].Detail.Outcome)
	require.Equal(t, "canceled", list[1].Detail.Code)
	require.Equal(t, 3, list[1].Detail.Calls)
	require.Equal(t, lifecycle.PhaseStarted, list[1].Event.Phase)
	require.Len(t, rec.Events(), 1, "an abort has no phase")
	s := d.Stats()
	require.Equal(t, [3]uint64{1, 0, 1}, [3]uint64{s.Started, s.Completed, s.Aborted})
}

// TestCheckOfHost: the host's own check restores the value, also if it panics.
func TestCheckOfHost(t *testing.T) {
	for name, check := range map[string]func(doc) error{
		"error": func(doc) error { return errors.New(secret) },
		"panic": func(doc) error { panic(secret) },
	} {
		d := newDocs(t, lifecycle.Options[doc, doc]{Preservers: []lifecycle.Preserver[doc, doc]{
			&fake{id: "p", release: func(_ context.Context, d *doc, _ lifecycle.ResponsePreview) error { d.Text = "new"; return nil }},
		}})
		v := doc{Text: "x", Raw: []byte{}}
		require.NoError(t, begin(d).BeforeRelease(t.Context(), &v, check), name)
		require.Equal(t, doc{Text: "x", Raw: []byte{}}, v, name)
		require.EqualValues(t, 1, d.Stats().Invalid, name)
	}
}

// TestVeto: it ends the series, counts as no failure, and is one only where a
// compaction can still be called off.
func TestVeto(t *testing.T) {
	var tr trace
	p := traced(&tr, "p")
	p.before = func(context.Context, *doc, lifecycle.Services) error { return lifecycle.Veto() }
	p.opened = func(context.Context, doc, []lifecycle.Event) error { return lifecycle.Veto() }
	d := newDocs(t, lifecycle.Options[doc, doc]{Preservers: []lifecycle.Preserver[doc, doc]{p, traced(&tr, "q")}, MaxFailures: 1})
	v := doc{Text: "x"}
	for range 3 {
		require.EqualError(t, begin(d).BeforeRequest(t.Context(), &v, nil), "compaction was called off by preserver p")
	}
	require.Empty(t, tr)
	require.EqualValues(t, 3, d.Stats().Vetoes)
	begin(d).RequestOpened(t.Context(), v, "", 1)
	require.EqualValues(t, 1, d.Stats().Errors)
}

// TestCodecs: what preservers of our engine may change, and what they may not.
func TestCodecs(t *testing.T) {
	call, k := lifecycletest.Call(), lifecycletest.Checkpoint()
	for name, c := range map[string]struct {
		edit func(*lifecycle.Checkpoint)
		ok   bool
	}{
		"narrative":    {func(k *lifecycle.Checkpoint) { k.Narrative = "other" }, true},
		"note":         {func(k *lifecycle.Checkpoint) { k.Notes = lifecycle.AddNotes(k.Notes, "x\n y") }, true},
		"empty":        {func(k *lifecycle.Checkpoint) { k.Narrative = " " }, false},
		"utf8":         {func(k *lifecycle.Checkpoint) { k.Narrative = "\xff" }, false},
		"id":           {func(k *lifecycle.Checkpoint) { k.ID = "x" }, false},
		"region":       {func(k *lifecycle.Checkpoint) { k.Region = lifecycle.NewRegion(nil, 0) }, false},
		"note removed": {func(k *lifecycle.Checkpoint) { k.Notes = nil }, false},
		"note edited":  {func(k *lifecycle.Checkpoint) { k.Notes = []string{"b"} }, false},
		"lines":        {func(k *lifecycle.Checkpoint) { k.Notes = append(k.Notes, "a\nb") }, false},
		"long": {func(k *lifecycle.Checkpoint) {
			k.Notes = append(k.Notes, strings.Repeat("x", lifecycle.MaxNoteBytes+1))
		}, false},
		"too many notes": {func(k *lifecycle.Checkpoint) { k.Notes = append(k.Notes, make([]string, lifecycle.MaxNotes)...) }, false},
	} {
		next := lifecycle.CheckpointCodec.Clone(k)
		c.edit(&next)
		require.Equal(t, c.ok, lifecycle.CheckpointCodec.Validate(k, next) == nil, name)
		require.False(t, lifecycle.CheckpointCodec.Equal(k, next), name)
	}
	require.True(t, lifecycle.CallCodec.Equal(call, lifecycle.CallCodec.Clone(call)))
	next := call
	next.Instructions += " and exact"
	require.NoError(t, lifecycle.CallCodec.Validate(call, next))
	next.Model = "other"
	require.Error(t, lifecycle.CallCodec.Validate(call, next))

	m := call.Region.Message(0)
	m.Parts[0] = nil
	require.NotNil(t, call.Region.Message(0).Parts[0], "a region gives copies")
}

// TestExchange: the order for those who only pass on what others compact.
func TestExchange(t *testing.T) {
	var tr trace
	watch := watcher(func(_ context.Context, e lifecycle.Event) error { tr.add("observer:" + string(e.Phase)); return nil })
	d := newDocs(t, lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{watch}, Preservers: []lifecycle.Preserver[doc, doc]{traced(&tr, "p")}})
	x := d.Exchange(lifecycle.RunInfo{})
	v := doc{Text: "x"}
	started := lifecycle.Transition{Event: lifecycle.Event{Phase: lifecycle.PhaseStarted, TransactionID: "1", RuleID: "r"}, Detail: lifecycle.Detail{Outcome: lifecycle.OutcomeStarted}}
	done := lifecycle.Transition{Event: lifecycle.Event{Phase: lifecycle.PhaseCompleted, TransactionID: "1", RuleID: "r"}, Detail: lifecycle.Detail{Outcome: lifecycle.OutcomeCompleted}}
	require.NoError(t, x.BeforeRequest(t.Context(), &v, lifecycle.RequestPreview{Kind: lifecycle.PreviewNone}, nil))
	x.RequestOpened(t.Context(), v, []lifecycle.Transition{started})
	require.NoError(t, x.BeforeRelease(t.Context(), &v, lifecycle.ResponsePreview{Kind: lifecycle.PreviewCompletionCandidate}, nil))
	x.AfterRelease(t.Context(), v, []lifecycle.Transition{done})
	x.RequestOpenFailed(t.Context())
	require.Equal(t, "p:before p:opened:started observer:started p:release:completion_candidate observer:completed p:after p:failed", strings.Join(tr, " "))
	var none *lifecycle.Dispatcher[doc, doc]
	y := none.Exchange(lifecycle.RunInfo{})
	require.NoError(t, y.BeforeRequest(t.Context(), &v, lifecycle.RequestPreview{}, nil))
	y.RequestOpened(t.Context(), v, nil)
	y.RequestOpenFailed(t.Context())
	require.NoError(t, y.BeforeRelease(t.Context(), &v, lifecycle.ResponsePreview{}, nil))
	y.AfterRelease(t.Context(), v, nil)
}

// TestManyAtOnce: runs of one branch and of many, side by side over one
// dispatcher, do not see each other, and each ends once.
func TestManyAtOnce(t *testing.T) {
	rec := new(lifecycletest.Recorder)
	add := func(_ context.Context, v *doc, s lifecycle.Services) error {
		v.Lines = append(v.Lines, v.Text)
		return s.State.Put(context.Background(), "last "+v.Text, []byte(v.Text))
	}
	release := func(_ context.Context, v *doc, _ lifecycle.ResponsePreview) error {
		v.Lines = append(v.Lines, "out "+v.Text)
		return nil
	}
	d := newDocs(t, lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{rec, rec}, Preservers: []lifecycle.Preserver[doc, doc]{
		&fake{id: "p", before: add, release: release}, &fake{id: "q", before: add},
	}})
	state := new(lifecycle.MemoryState)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 25 {
				id := fmt.Sprintf("%d-%d", g, i)
				r := d.Begin(lifecycle.RunInfo{State: state, Meta: lifecycle.PreservationMeta{TransactionID: id, ALegID: fmt.Sprint(g % 4), TraceID: "one trace"}})
				v := doc{Text: id}
				assert.NoError(t, r.BeforeRequest(t.Context(), &v, nil))
				r.RequestOpened(t.Context(), v, id, 1)
				assert.NoError(t, r.BeforeRelease(t.Context(), &v, nil))
				assert.Equal(t, doc{Text: id, Lines: []string{id, id, "out " + id}}, v)
				if i%3 == 0 {
					r.Close(t.Context(), "x", nil)
				}
				r.Committed(t.Context(), v, nil)
			}
		})
	}
	wg.Wait()
	told := make(map[string][]lifecycle.Transition)
	for _, x := range rec.Transitions() {
		told[x.Event.TransactionID] = append(told[x.Event.TransactionID], x)
		require.Equal(t, x.Event.TransactionID, x.Event.BLegID)
	}
	require.Len(t, told, 16*25)
	for id, list := range told {
		require.Len(t, list, 4, "two observers, each told of the start and of the end")
		require.NoError(t, lifecycletest.Check([]lifecycle.Transition{list[0], list[2]}), id)
	}
	got, ok, err := state.Of("q").Get(t.Context(), "last 3-4")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "3-4", string(got))
	s := d.Stats()
	require.Equal(t, [4]uint64{400, 400, 0, 0}, [4]uint64{s.Started, s.Completed + s.Aborted, s.Errors + s.Panics + s.Invalid, s.Deadlines + s.Dropped})
}
