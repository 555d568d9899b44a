package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/recall/mcpserver"
	"github.com/agentcompact/agentcompact/session"
)

func (a *app) mcpCommand() *cobra.Command {
	f := &compactFlags{}
	cmd := &cobra.Command{
		Use:   "mcp FILE",
		Short: "Serve a session to an agent over the Model Context Protocol",
		Long: `mcp speaks the Model Context Protocol on standard input and output: tools that
search and read what checkpoints hide, and compact, plan and undo. The file may
grow meanwhile; each call looks at its newest state. A session of our own format
is compacted in place; for another format the result is a new file beside it,
whose name is in the answer, and later calls are about that file.

There is no --json: what it prints is the protocol, which is JSON already, and
its failures are answers of the tools.`,
		Example: `  agentcompact mcp session.jsonl
  claude mcp add history -- agentcompact mcp ~/sessions/session.jsonl`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			f.force = f.window > 0
			return a.mcp(cmd.Context(), args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&f.conversation, "conversation", 0, "which conversation of the file, from 1 (default the first)")
	fl.IntVar(&f.window, "window", 0, "context window of the agent's model in `TOKENS`")
	fl.StringVar(&f.model, "model", "", "write summaries with this `MODEL` of an OpenAI-compatible endpoint")
	fl.StringVar(&f.baseURL, "base-url", "", "`URL` of the endpoint (default that of OpenAI)")
	fl.StringVar(&f.keyEnv, "key-env", "OPENAI_API_KEY", "environment `VARIABLE` that holds the key")
	fl.BoolVar(&f.fallback, "fallback", false, "with --model: use the embedded summarizer when the model fails")
	return cmd
}

func (a *app) mcp(ctx context.Context, path string, f *compactFlags) error {
	b := &fileBackend{app: a, path: path, flags: f}
	if _, err := b.View(ctx); err != nil { // now rather than at the first call
		return err
	}
	defer b.close()
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	err := mcpserver.New(b, &mcpserver.Options{Version: version}).Run(ctx, &mcp.StdioTransport{})
	if err == nil || errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil // the client has gone, or somebody stopped it
	}
	return fmt.Errorf("mcp: %w", err)
}

// fileBackend is a transcript file as the session of an MCP server.
type fileBackend struct {
	app   *app
	path  string
	flags *compactFlags

	mu sync.Mutex // one call at a time has the file
	in *input     // what was read last; nil when it must be read again
}

func (b *fileBackend) close() {
	if b.in != nil {
		_ = b.in.session.Close()
		b.in = nil
	}
}

// View implements [mcpserver.Backend].
func (b *fileBackend) View(ctx context.Context) (session.View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in, err := b.current(ctx)
	if err != nil {
		return session.View{}, err
	}
	return in.session.View(), nil
}

// current returns the newest state of the file, for reading.
func (b *fileBackend) current(ctx context.Context) (*input, error) {
	if b.in != nil {
		switch grown, err := b.in.changed(); {
		case err != nil:
			return nil, err
		case !grown && b.in.file != nil:
			return b.in, nil
		case b.in.file == nil:
			if err := b.in.session.Refresh(ctx); err == nil {
				return b.in, nil
			}
		}
		b.close()
	}
	in, err := load(ctx, b.path, b.flags.conversation, false)
	if err != nil {
		return nil, err
	}
	b.in = in
	return in, nil
}

// Plan implements [mcpserver.Backend].
func (b *fileBackend) Plan(ctx context.Context, opts *compact.NowOptions) (*compact.Plan, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in, err := b.current(ctx)
	if err != nil {
		return nil, err
	}
	e, err := b.flags.engine(in.session.View(), (&compacted{}).outside(in, b.flags.window))
	if err != nil {
		return nil, err
	}
	return e.Plan(ctx, compact.Agent{Session: in.session}, opts)
}

// change runs fn on the file and puts the result in its place.
func (b *fileBackend) change(ctx context.Context, mark string, fn func(*input, *engine.Engine, compact.Agent) (*mcpserver.Change, error)) (*mcpserver.Change, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ed, err := b.app.begin(ctx, b.path, b.flags.conversation, "", mark)
	if err != nil {
		return nil, err
	}
	defer ed.close()
	in := ed.in
	e, err := b.flags.engine(in.session.View(), (&compacted{}).outside(in, b.flags.window))
	if err != nil {
		return nil, err
	}
	c, err := fn(in, e, compact.Agent{Session: in.session})
	if err != nil {
		return nil, err
	}
	out := &compacted{}
	if err := b.app.finish(ctx, ed, out); err != nil {
		return nil, err
	}
	if out.Out != b.path {
		c.Out, b.path = out.Out, out.Out
		b.close()
	}
	return c, nil
}

// Compact implements [mcpserver.Backend].
func (b *fileBackend) Compact(ctx context.Context, opts *compact.NowOptions) (*mcpserver.Change, error) {
	return b.change(ctx, "", func(_ *input, e *engine.Engine, agent compact.Agent) (*mcpserver.Change, error) {
		r, err := e.CompactNow(ctx, agent, opts)
		if err != nil {
			return nil, err
		}
		return &mcpserver.Change{Compaction: r.ID, Messages: len(r.Seqs), Before: r.Before, After: r.After}, nil
	})
}

// Undo implements [mcpserver.Backend].
func (b *fileBackend) Undo(ctx context.Context, id string) (*mcpserver.Change, error) {
	return b.change(ctx, ".undo", func(in *input, e *engine.Engine, agent compact.Agent) (*mcpserver.Change, error) {
		return mcpserver.Undo(ctx, e, agent, in.session.View(), id)
	})
}
