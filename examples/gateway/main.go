// Gateway is a small reverse proxy that notices when an agent behind it
// compacts its conversation, and keeps facts in front of the model from then
// on.
//
//	go run ./examples/gateway                                   # shows it with an agent and a model of its own
//	go run ./examples/gateway -upstream https://api.openai.com -listen 127.0.0.1:8080
//
// Requests with an X-Conversation-Id header are watched; all others pass.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/agentcompact/agentcompact/detect"
	"github.com/agentcompact/agentcompact/lifecycle"
)

func main() {
	upstream := flag.String("upstream", "", "where to send requests; empty shows a conversation with a model of its own")
	listen := flag.String("listen", "127.0.0.1:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *upstream == "" {
		err = show(ctx, os.Stdout)
	} else {
		err = serve(ctx, os.Stdout, *upstream, *listen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// assemble makes the gateway with its observer and its preserver.
func assemble(out io.Writer, upstream string) (*gateway, error) {
	d, err := detect.New(nil)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: plain}))
	life, err := lifecycle.New(lifecycle.Options[chat, reply]{
		Observers:  []lifecycle.Observer{lifecycle.NewSlog(log)},
		Preservers: []lifecycle.Preserver[chat, reply]{facts{[]string{"The port is 8443.", "Never touch vendor/."}}},
		Call:       chatCodec, Result: replyCodec,
		Failures: func(f lifecycle.Failure) { log.Warn("callback failed", "id", f.ID, "stage", f.Stage, "class", f.Class) },
	})
	if err != nil {
		return nil, err
	}
	return newGateway(upstream, d, life)
}

// plain leaves out what differs from run to run.
func plain(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "duration" {
		return slog.Attr{}
	}
	return a
}

// serve runs the gateway until ctx ends.
func serve(ctx context.Context, out io.Writer, upstream, listen string) error {
	g, err := assemble(out, upstream)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on", l.Addr())
	return run(ctx, l, g)
}

// run serves until ctx ends.
func run(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = srv.Shutdown(grace)
	})
	defer stopped()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
