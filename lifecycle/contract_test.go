package lifecycle_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
)

func fields(v any) []string {
	var out []string
	for f := range reflect.TypeOf(v).Fields() {
		out = append(out, f.Name)
	}
	return out
}

// TestWords: what is stored and sent elsewhere keeps its spelling.
func TestWords(t *testing.T) {
	require.Equal(t, []lifecycle.Phase{"started", "completed"}, []lifecycle.Phase{lifecycle.PhaseStarted, lifecycle.PhaseCompleted})
	require.Equal(t, []lifecycle.Evidence{"protocol_strict", "signature_strict", "history_heuristic"},
		[]lifecycle.Evidence{lifecycle.EvidenceProtocolStrict, lifecycle.EvidenceSignatureStrict, lifecycle.EvidenceHistoryHeuristic})
	require.Equal(t, []lifecycle.PreviewKind{"none", "start_candidate", "completion_candidate"},
		[]lifecycle.PreviewKind{lifecycle.PreviewNone, lifecycle.PreviewStartCandidate, lifecycle.PreviewCompletionCandidate})
}

// TestFieldSets: the field sets of the seed are frozen, and nothing that
// reaches an observer has room for content.
func TestFieldSets(t *testing.T) {
	ten := []string{"Phase", "Evidence", "RuleID", "TransactionID", "TraceID", "ALegID", "BLegID", "AttemptSeq", "SessionID", "OccurredAt"}
	require.Equal(t, ten, fields(lifecycle.Event{}))
	b, err := json.Marshal(lifecycle.Event{})
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(b, &keys))
	require.Len(t, keys, 10)
	require.Equal(t, []string{"TraceID", "SessionID", "ALegID", "BLegID", "AttemptSeq", "TransactionID", "RuleID", "Evidence"}, fields(lifecycle.PreservationMeta{}))
	require.Equal(t, []string{"State", "BackgroundAux"}, fields(lifecycle.Services{}))
	require.Equal(t, []string{"Evidence", "RuleID", "Kind", "TransactionID", "BoundaryFingerprint"}, fields(lifecycle.RequestPreview{}))
	require.Equal(t, []string{"Evidence", "RuleID", "Kind", "TransactionID"}, fields(lifecycle.ResponsePreview{}))
	for _, v := range []any{lifecycle.Event{}, lifecycle.Detail{}, lifecycle.Failure{}} {
		for f := range reflect.TypeOf(v).Fields() {
			switch f.Type.Kind() {
			case reflect.String, reflect.Int, reflect.Int64, reflect.Struct:
			default:
				t.Errorf("%T.%s is a %s: a copy would not be a copy", v, f.Name, f.Type)
			}
		}
	}
}

// onlySeed has exactly the methods of the seed.
type onlySeed struct{}

func (onlySeed) ID() string { return "seed" }
func (onlySeed) BeforeRequest(context.Context, *doc, lifecycle.RequestPreview, lifecycle.PreservationMeta, lifecycle.Services) error {
	return nil
}

func (onlySeed) RequestOpened(context.Context, doc, []lifecycle.Event, lifecycle.PreservationMeta, lifecycle.Services) error {
	return nil
}

func (onlySeed) BeforeResponseRelease(context.Context, *doc, lifecycle.ResponsePreview, lifecycle.PreservationMeta, lifecycle.Services) error {
	return nil
}

// TestCompanions: the optional abilities are additive.
func TestCompanions(t *testing.T) {
	var p lifecycle.Preserver[doc, doc] = onlySeed{}
	_, ok := p.(lifecycle.RequestOpenFailedPreserver)
	require.False(t, ok)
	p = &fake{id: "x"}
	require.Implements(t, (*lifecycle.RequestOpenFailedPreserver)(nil), p)
	require.Implements(t, (*lifecycle.AfterResponseReleasePreserver[doc])(nil), p)
	require.Implements(t, (*lifecycle.AbortedPreserver)(nil), p)
}

// TestOptions: what does not fit is named.
func TestOptions(t *testing.T) {
	type options = lifecycle.Options[doc, doc]
	for name, o := range map[string]options{
		"observer 0 is nil":  {Observers: []lifecycle.Observer{nil}},
		"preserver 1 is nil": {Preservers: []lifecycle.Preserver[doc, doc]{onlySeed{}, nil}, Call: docCodec, Result: docCodec},
		"codecs":             {Preservers: []lifecycle.Preserver[doc, doc]{onlySeed{}}},
		"two preservers":     {Preservers: []lifecycle.Preserver[doc, doc]{onlySeed{}, onlySeed{}}, Call: docCodec, Result: docCodec},
		"no id":              {Preservers: []lifecycle.Preserver[doc, doc]{&fake{}}, Call: docCodec, Result: docCodec},
		"panicked":           {Preservers: []lifecycle.Preserver[doc, doc]{(*fake)(nil)}, Call: docCodec, Result: docCodec},
	} {
		_, err := lifecycle.New(o)
		require.ErrorContains(t, err, name)
	}
	f := &fake{id: "once"}
	d := newDocs(t, lifecycle.Options[doc, doc]{Preservers: []lifecycle.Preserver[doc, doc]{f}})
	v := doc{Text: "x"}
	require.NoError(t, begin(d).BeforeRequest(t.Context(), &v, nil))
	require.Equal(t, 1, f.ids, "the id is asked once")

	var none *lifecycle.Dispatcher[doc, doc]
	run := none.Begin(lifecycle.RunInfo{})
	require.Nil(t, run)
	require.NoError(t, run.BeforeRequest(t.Context(), &v, nil))
	run.RequestOpened(t.Context(), v, "", 1)
	require.NoError(t, run.BeforeRelease(t.Context(), &v, nil))
	run.Committed(t.Context(), v, nil)
	run.Close(t.Context(), "x", nil)
	none.Emit(t.Context(), lifecycle.Transition{})
	require.Zero(t, none.Stats())
}

// TestSnapshot: the dispatcher does not see later changes of the slices.
func TestSnapshot(t *testing.T) {
	a, b := new(lifecycletest.Recorder), new(lifecycletest.Recorder)
	list := []lifecycle.Observer{a}
	d := newDocs(t, lifecycle.Options[doc, doc]{Observers: list})
	list[0] = b
	begin(d).RequestOpened(t.Context(), doc{}, "", 1)
	require.Len(t, a.Events(), 1)
	require.Empty(t, b.Events())
}

func TestReadyConform(t *testing.T) {
	t.Run("Slog", func(t *testing.T) {
		lifecycletest.TestObserver(t, func(*testing.T) lifecycle.Observer { return lifecycle.NewSlog(discard()) })
	})
	t.Run("Channel", func(t *testing.T) {
		lifecycletest.TestObserver(t, func(*testing.T) lifecycle.Observer { return lifecycle.NewChannel(1) })
	})
	t.Run("Recorder", func(t *testing.T) {
		lifecycletest.TestObserver(t, func(*testing.T) lifecycle.Observer { return new(lifecycletest.Recorder) })
	})
	t.Run("Pinned", func(t *testing.T) {
		lifecycletest.TestPreserver(t, func(*testing.T) preserver { return lifecycle.NewPinned("a fact", "another") })
	})
	t.Run("Todos", func(t *testing.T) {
		lifecycletest.TestPreserver(t, func(*testing.T) preserver { return lifecycle.NewTodos(nil) })
	})
	t.Run("Hook", func(t *testing.T) {
		lifecycletest.TestPreserver(t, func(t *testing.T) preserver { return hook(t, "notes", nil) })
	})
}
