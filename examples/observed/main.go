// Observed compacts a session and shows what OpenTelemetry gets of it: spans
// and metrics, as JSON on standard output. It needs no network and no key.
//
//	cd examples/observed && go run .
//
// It is a module of its own, so that the OpenTelemetry SDK is a matter of those
// who use it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/otelobserver"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "observed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	spans, err := stdouttrace.New(stdouttrace.WithWriter(out), stdouttrace.WithPrettyPrint())
	if err != nil {
		return err
	}
	points, err := stdoutmetric.New(stdoutmetric.WithWriter(out), stdoutmetric.WithPrettyPrint())
	if err != nil {
		return err
	}
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(points)))
	defer func() { // the metrics are written here
		err = errors.Join(err, meters.Shutdown(ctx), tracers.Shutdown(ctx))
	}()

	watch, err := otelobserver.New(&otelobserver.Options{TracerProvider: tracers, MeterProvider: meters})
	if err != nil {
		return err
	}
	life, err := lifecycle.New(lifecycle.Options[lifecycle.Call, lifecycle.Checkpoint]{
		Observers: []lifecycle.Observer{watch},
		Preservers: []lifecycle.Preserver[lifecycle.Call, lifecycle.Checkpoint]{
			lifecycle.NewPinned("The port is 8443."), lifecycle.NewTodos(nil),
		},
		Call: lifecycle.CallCodec, Result: lifecycle.CheckpointCodec,
	})
	if err != nil {
		return err
	}
	svc, err := engine.New(summarize.NewExtractive(nil), &engine.Options{
		Windows: engine.FixedWindow(20_000), Lifecycle: life,
		Prune: engine.Prune{Off: true}, // shortening results would do here, and is not told
	})
	if err != nil {
		return err
	}
	s, err := session.Open(ctx, session.NewMemoryStore(), nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := work(ctx, s); err != nil {
		return err
	}

	// A host's own span: that of the compaction hangs below it.
	ctx, turn := tracers.Tracer("observed").Start(ctx, "turn")
	ctx = lifecycle.WithCorrelation(ctx, lifecycle.Correlation{SessionID: "demo"})
	r, err := svc.CompactIfNeeded(ctx, compact.Agent{Session: s, Provider: "demo", Model: "demo-1"}, compact.Pressure)
	turn.End()
	if err != nil {
		return err
	}
	if r == nil {
		return errors.New("there was no pressure")
	}
	m, err := s.View().Message(0)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "# from %d to %d tokens; the checkpoint:\n%s\n", r.Before, r.After, m.Text())
	return nil
}

// work fills the session with a made-up run.
func work(ctx context.Context, s *session.Session) error {
	todo := `{"todos":[{"content":"write the lexer","status":"completed"},{"content":"fuzz the parser","status":"pending"}]}`
	_, err := s.Append(ctx,
		session.UserText("Build the parser in src/parser.go. Never touch vendor/."),
		session.AssistantText("I plan first.", session.ToolCall{ID: "plan", Name: "TodoWrite", Arguments: todo}), session.ToolText("plan", "ok"))
	for i := 0; i < 60 && err == nil; i++ {
		id := fmt.Sprint("c", i)
		_, err = s.Append(ctx,
			session.AssistantText(fmt.Sprintf("Step %d: I look at part %d of the grammar.", i, i),
				session.ToolCall{ID: id, Name: "read", Arguments: fmt.Sprintf(`{"path":"src/grammar%d.txt"}`, i)}),
			session.ToolText(id, strings.Repeat(fmt.Sprintf("rule%d: term | term plus rule%d\n", i, i), 35)))
	}
	if err == nil {
		_, err = s.Append(ctx, session.UserText("Go on with the tests."))
	}
	return err
}
