package otelobserver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/lifecycle/otelobserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sdk is as much of an SDK as these tests need; examples/observed runs the real
// one.
type sdk struct {
	noop.TracerProvider
	mu    sync.Mutex
	spans []*span
	sums  map[string]float64
}

type tracer struct {
	noop.Tracer
	s *sdk
}

type span struct {
	noop.Span
	name       string
	start, end time.Time
	attrs      map[attribute.Key]string
	status     codes.Code
	ended      int
}

func (s *sdk) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{s: s} }

func (t tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(opts...)
	x := &span{name: name, start: c.Timestamp(), attrs: map[attribute.Key]string{}}
	x.SetAttributes(c.Attributes()...)
	t.s.mu.Lock()
	t.s.spans = append(t.s.spans, x)
	t.s.mu.Unlock()
	return ctx, x
}

func (x *span) SetAttributes(list ...attribute.KeyValue) {
	for _, kv := range list {
		x.attrs[kv.Key] = kv.Value.String()
	}
}
func (x *span) SetStatus(c codes.Code, _ string) { x.status = c }
func (x *span) End(opts ...trace.SpanEndOption) {
	x.ended++
	c := trace.NewSpanEndConfig(opts...)
	x.end = c.Timestamp()
}

// meters records sums by name and attributes.
type meters struct {
	metricnoop.MeterProvider
	s *sdk
}
type meter struct {
	metricnoop.Meter
	s *sdk
}
type counter struct {
	metricnoop.Int64Counter
	name string
	s    *sdk
}
type histogram struct {
	metricnoop.Int64Histogram
	name string
	s    *sdk
}
type floats struct {
	metricnoop.Float64Histogram
	name string
	s    *sdk
}

func (m meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{s: m.s} }
func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{name: name, s: m.s}, nil
}

func (m meter) Int64Histogram(name string, _ ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return histogram{name: name, s: m.s}, nil
}

func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return floats{name: name, s: m.s}, nil
}

func (s *sdk) add(name string, set attribute.Set, v float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range []attribute.Key{otelobserver.KeyOutcome, "gen_ai.token.type"} {
		if v, ok := set.Value(k); ok {
			name += " " + v.AsString()
		}
	}
	s.sums[name] += v
}

func (i counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	i.s.add(i.name, metric.NewAddConfig(o).Attributes(), float64(n))
}

func (h histogram) Record(_ context.Context, n int64, o ...metric.RecordOption) {
	h.s.add(h.name, metric.NewRecordConfig(o).Attributes(), float64(n))
}

func (h floats) Record(_ context.Context, n float64, o ...metric.RecordOption) {
	h.s.add(h.name, metric.NewRecordConfig(o).Attributes(), n)
}

func observe(t *testing.T, max int) (*sdk, *otelobserver.Observer) {
	t.Helper()
	s := &sdk{sums: map[string]float64{}}
	o, err := otelobserver.New(&otelobserver.Options{TracerProvider: s, MeterProvider: meters{s: s}, MaxOpen: max})
	require.NoError(t, err)
	return s, o
}

func TestConforms(t *testing.T) {
	lifecycletest.TestObserver(t, func(t *testing.T) lifecycle.Observer {
		o, err := otelobserver.New(nil) // the global providers do nothing
		require.NoError(t, err)
		return o
	})
}

func TestSpansAndMetrics(t *testing.T) {
	s, o := observe(t, 0)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	tell := func(id string, outcome lifecycle.Outcome, at time.Time, d lifecycle.Detail) {
		d.Outcome = outcome
		require.NoError(t, o.OnCompactionDetail(t.Context(), lifecycle.Event{TransactionID: id, RuleID: "r", SessionID: "s", OccurredAt: at}, d))
	}
	tell("a", lifecycle.OutcomeStarted, at, lifecycle.Detail{Trigger: "pressure", Model: "m", Provider: "p"})
	tell("b", lifecycle.OutcomeStarted, at, lifecycle.Detail{})
	require.Equal(t, 2, o.Open())
	tell("a", lifecycle.OutcomeCompleted, at.Add(2*time.Second), lifecycle.Detail{Trigger: "pressure", TokensBefore: 100, TokensAfter: 40, Calls: 2, PromptTokens: 90, CompletionTokens: 7, CacheReadTokens: 50, Duration: 3 * time.Second})
	tell("b", lifecycle.OutcomeAborted, at, lifecycle.Detail{Code: "canceled"})
	tell("c", lifecycle.OutcomeCompleted, at.Add(time.Second), lifecycle.Detail{Duration: time.Second}) // seen when it was over
	require.Zero(t, o.Open())
	require.Len(t, s.spans, 3)
	a, b, c := s.spans[0], s.spans[1], s.spans[2]
	require.Equal(t, "compact m", a.name)
	require.Equal(t, []time.Time{at, at.Add(2 * time.Second)}, []time.Time{a.start, a.end})
	for k, want := range map[attribute.Key]string{
		"gen_ai.operation.name": "compact", "gen_ai.request.model": "m", "gen_ai.conversation.id": "s", "gen_ai.usage.input_tokens": "90",
		"gen_ai.usage.output_tokens": "7", "gen_ai.usage.cache_read.input_tokens": "50", "compaction.trigger": "pressure", "compaction.outcome": "completed",
		"compaction.tokens.before": "100", "compaction.tokens.after": "40", "compaction.calls": "2",
	} {
		require.Equal(t, want, a.attrs[k], k)
	}
	require.Equal(t, codes.Error, b.status)
	require.Equal(t, "canceled", b.attrs["error.type"])
	require.Equal(t, []time.Time{at, at.Add(time.Second)}, []time.Time{c.start, c.end})
	require.Equal(t, map[string]float64{
		"compaction.operations completed": 2, "compaction.operations aborted": 1, "compaction.duration completed": 4, "compaction.duration aborted": 0,
		"compaction.tokens.saved": 60, "gen_ai.client.token.usage input": 90, "gen_ai.client.token.usage output": 7,
	}, s.sums)
	for _, x := range s.spans {
		require.Equal(t, 1, x.ended)
	}
}

// TestBounded: spans that never end do not pile up.
func TestBounded(t *testing.T) {
	s, o := observe(t, 3)
	for i := range 10 {
		e := lifecycle.Event{TransactionID: fmt.Sprint(i % 9)}
		require.NoError(t, o.OnCompactionDetail(t.Context(), e, lifecycle.Detail{Outcome: lifecycle.OutcomeStarted}))
	}
	require.Equal(t, 3, o.Open())
	ended := 0
	for _, x := range s.spans {
		ended += x.ended
	}
	require.Equal(t, 7, ended)
}
