// Package otelobserver reports compactions to OpenTelemetry: a span and a few
// metrics for each. It needs the API only; without an SDK it does nothing.
//
//	o, err := otelobserver.New(nil)
//	d, err := lifecycle.New(lifecycle.Options[lifecycle.Call, lifecycle.Checkpoint]{Observers: []lifecycle.Observer{o}})
//
// Names follow the GenAI semantic conventions of version 1.41 where they have
// one. They have none for compaction; those begin with compaction. Nothing that
// was said is in an attribute.
//
//	span       compact {model}           from start to completion or abort; an error when aborted
//	counter    compaction.operations     by outcome, trigger, rule and evidence
//	histogram  compaction.duration       seconds, by outcome and trigger
//	histogram  compaction.tokens.saved   tokens of the context, of completed ones
//	histogram  gen_ai.client.token.usage tokens of the summarizer's calls, by type
package otelobserver

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentcompact/agentcompact/lifecycle"
)

// scope names the instrumentation.
const scope = "github.com/agentcompact/agentcompact/lifecycle/otelobserver"

// The attributes that the conventions have no name for.
const (
	KeyTrigger      = attribute.Key("compaction.trigger")
	KeyTarget       = attribute.Key("compaction.target")
	KeyOutcome      = attribute.Key("compaction.outcome")
	KeyCode         = attribute.Key("compaction.code")
	KeyRule         = attribute.Key("compaction.rule")
	KeyEvidence     = attribute.Key("compaction.evidence")
	KeyTransaction  = attribute.Key("compaction.transaction.id")
	KeySummarizer   = attribute.Key("compaction.summarizer")
	KeyCalls        = attribute.Key("compaction.calls")
	KeyMessages     = attribute.Key("compaction.messages")
	KeyTokensBefore = attribute.Key("compaction.tokens.before")
	KeyTokensAfter  = attribute.Key("compaction.tokens.after")
	KeySpanBefore   = attribute.Key("compaction.span.tokens.before")
	KeySpanAfter    = attribute.Key("compaction.span.tokens.after")
)

// Options configure [New]. Nil means all defaults.
type Options struct {
	// TracerProvider and MeterProvider are those to report to; nil means the
	// global ones.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// MaxOpen bounds the spans that wait for their end; the oldest is ended
	// when there are more. 0 means 1024.
	MaxOpen int
}

// Observer reports compactions. It is safe for concurrent use.
type Observer struct {
	tracer   trace.Tracer
	count    metric.Int64Counter
	duration metric.Float64Histogram
	saved    metric.Int64Histogram
	usage    metric.Int64Histogram
	max      int

	mu    sync.Mutex
	open  map[string]*list.Element
	order *list.List // of *openSpan, oldest first
}

type openSpan struct {
	id   string
	span trace.Span
}

var (
	_ lifecycle.Observer       = (*Observer)(nil)
	_ lifecycle.DetailObserver = (*Observer)(nil)
)

// New returns an observer. The error says which instrument could not be made.
func New(opts *Options) (*Observer, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.MaxOpen <= 0 {
		o.MaxOpen = 1024
	}
	x := &Observer{
		tracer: o.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)), max: o.MaxOpen,
		open: make(map[string]*list.Element), order: list.New(),
	}
	m := o.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	var err error
	fail := func(name string) error { return fmt.Errorf("otelobserver: instrument %s: %w", name, err) }
	if x.count, err = m.Int64Counter("compaction.operations", metric.WithUnit("{compaction}"),
		metric.WithDescription("Compactions by how they ended.")); err != nil {
		return nil, fail("compaction.operations")
	}
	if x.duration, err = m.Float64Histogram("compaction.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the beginning of a compaction to its end."),
		metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)); err != nil {
		return nil, fail("compaction.duration")
	}
	if x.saved, err = m.Int64Histogram("compaction.tokens.saved", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens that the context lost by a compaction."),
		metric.WithExplicitBucketBoundaries(256, 1024, 4096, 16384, 65536, 131072, 262144, 1048576)); err != nil {
		return nil, fail("compaction.tokens.saved")
	}
	if x.usage, err = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Number of input and output tokens used."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)); err != nil {
		return nil, fail("gen_ai.client.token.usage")
	}
	return x, nil
}

// OnCompaction implements [lifecycle.Observer]; the work is done by
// OnCompactionDetail.
func (x *Observer) OnCompaction(context.Context, lifecycle.Event) error { return nil }

// OnCompactionDetail implements [lifecycle.DetailObserver].
func (x *Observer) OnCompactionDetail(ctx context.Context, e lifecycle.Event, d lifecycle.Detail) error {
	switch d.Outcome {
	case lifecycle.OutcomeStarted:
		x.keep(e.TransactionID, x.start(ctx, e, d, trace.WithTimestamp(e.OccurredAt)))
	case lifecycle.OutcomeCompleted, lifecycle.OutcomeAborted:
		x.end(ctx, e, d)
	}
	return nil
}

func (x *Observer) start(ctx context.Context, e lifecycle.Event, d lifecycle.Detail, opts ...trace.SpanStartOption) trace.Span {
	name := "compact"
	if d.Model != "" {
		name += " " + d.Model
	}
	attrs := []attribute.KeyValue{
		semconv.GenAIOperationNameKey.String("compact"), KeyTransaction.String(e.TransactionID), KeyRule.String(e.RuleID),
		KeyEvidence.String(string(e.Evidence)),
	}
	for _, kv := range []attribute.KeyValue{
		semconv.GenAIConversationIDKey.String(e.SessionID), semconv.GenAIProviderNameKey.String(d.Provider),
		semconv.GenAIRequestModelKey.String(d.Model), KeyTrigger.String(d.Trigger), KeyTarget.String(d.Target),
	} {
		if kv.Value.AsString() != "" {
			attrs = append(attrs, kv)
		}
	}
	_, span := x.tracer.Start(ctx, name, append(opts, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...))...)
	return span
}

// keep remembers a span until its end.
func (x *Observer) keep(id string, s trace.Span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.open[id]; old != nil {
		x.forget(old).End()
	}
	for x.order.Len() >= x.max {
		x.forget(x.order.Front()).End()
	}
	x.open[id] = x.order.PushBack(&openSpan{id, s})
}

func (x *Observer) forget(e *list.Element) trace.Span {
	o := x.order.Remove(e).(*openSpan)
	delete(x.open, o.id)
	return o.span
}

func (x *Observer) take(id string) trace.Span {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.open[id]; e != nil {
		return x.forget(e)
	}
	return nil
}

func (x *Observer) end(ctx context.Context, e lifecycle.Event, d lifecycle.Detail) {
	end := e.OccurredAt
	if d.Outcome == lifecycle.OutcomeAborted {
		end = time.Time{} // the event is that of the start
	}
	span := x.take(e.TransactionID)
	if span == nil {
		// It was seen only when it was over.
		opts := []trace.SpanStartOption{}
		if !end.IsZero() {
			opts = append(opts, trace.WithTimestamp(end.Add(-d.Duration)))
		}
		span = x.start(ctx, e, d, opts...)
	}
	span.SetAttributes(KeyOutcome.String(string(d.Outcome)))
	for _, n := range []struct {
		key attribute.Key
		n   int
	}{
		{KeyTokensBefore, d.TokensBefore}, {KeyTokensAfter, d.TokensAfter}, {KeySpanBefore, d.SpanBefore}, {KeySpanAfter, d.SpanAfter},
		{KeyMessages, d.Messages}, {KeyCalls, d.Calls}, {semconv.GenAIUsageInputTokensKey, d.PromptTokens},
		{semconv.GenAIUsageOutputTokensKey, d.CompletionTokens}, {semconv.GenAIUsageCacheReadInputTokensKey, d.CacheReadTokens},
	} {
		if n.n != 0 {
			span.SetAttributes(n.key.Int(n.n))
		}
	}
	if d.Summarizer != "" {
		span.SetAttributes(KeySummarizer.String(d.Summarizer))
	}
	if d.Outcome == lifecycle.OutcomeAborted {
		span.SetAttributes(KeyCode.String(d.Code), semconv.ErrorTypeKey.String(d.Code))
		span.SetStatus(codes.Error, d.Code)
	}
	if end.IsZero() {
		span.End()
	} else {
		span.End(trace.WithTimestamp(end))
	}

	how := []attribute.KeyValue{KeyOutcome.String(string(d.Outcome)), KeyTrigger.String(d.Trigger)}
	x.duration.Record(ctx, d.Duration.Seconds(), metric.WithAttributes(how...))
	x.count.Add(ctx, 1, metric.WithAttributes(append(how, KeyRule.String(e.RuleID), KeyEvidence.String(string(e.Evidence)))...))
	if saved := d.TokensBefore - d.TokensAfter; d.Outcome == lifecycle.OutcomeCompleted && saved > 0 {
		x.saved.Record(ctx, int64(saved), metric.WithAttributes(KeyTrigger.String(d.Trigger)))
	}
	for kind, n := range map[string]int{"input": d.PromptTokens, "output": d.CompletionTokens} {
		if n > 0 {
			x.usage.Record(ctx, int64(n), metric.WithAttributes(
				semconv.GenAIOperationNameKey.String("compact"), semconv.GenAITokenTypeKey.String(kind),
				semconv.GenAIProviderNameKey.String(d.Provider), semconv.GenAIRequestModelKey.String(d.Model),
			))
		}
	}
}

// Open returns how many spans wait for their end.
func (x *Observer) Open() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.order.Len()
}
