// Agentloop is a complete small agent: a model with two tools that work in a folder, a conversation in a
// file, and compaction that keeps it inside the model's window.
//
//	go run ./examples/agentloop
//
// runs it against a scripted model inside the program, without a key or a network. The window that the
// agent believes in is larger than the real one, so the first compaction follows a rejected request; from
// then on the agent knows better and compacts before it sends. In the middle of the second turn the
// process "dies" in a tool, and another one goes on from the file.
//
//	OPENAI_API_KEY=… OPENAI_MODEL=… go run ./examples/agentloop --live --dir . --file s.jsonl "What is in README.md?"
//
// asks a real model, at OPENAI_BASE_URL if that is set. Run it again with the same file to go on.
//
// What to look at:
//
//   - agent.go: the loop. prepare resumes a conversation, ask compacts around a model call, step records a
//     reply with its usage and runs the tools.
//   - model.go: the engine with its summarizer, and how go-openai sends a request as the library built it.
//   - tools.go: the sandbox. Any other tools do.
//   - the output: each line is a message that the model sees, with its tokens, before and after each
//     compaction; then the file, which is readable with less.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

type options struct {
	live   bool
	file   string // the conversation
	dir    string // the sandbox of a live run
	window int
	prompt string
}

func main() {
	var o options
	flag.BoolVar(&o.live, "live", false, "ask the model at OPENAI_BASE_URL with OPENAI_API_KEY and OPENAI_MODEL")
	flag.StringVar(&o.file, "file", "", "file of the conversation (default: a temporary one)")
	flag.StringVar(&o.dir, "dir", ".", "folder that a live agent works in")
	flag.IntVar(&o.window, "window", 128_000, "context window of the live model, in tokens")
	flag.Parse()
	o.prompt = strings.Join(flag.Args(), " ")

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "agentloop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, o options) error {
	if o.live {
		return live(ctx, w, o)
	}
	dir, err := os.MkdirTemp("", "agentloop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.file == "" {
		o.file = filepath.Join(dir, "session.jsonl")
	}
	srv := newScriptedModel()
	defer srv.Close()
	return scripted(ctx, w, srv.URL(), dir, o.file)
}

// live answers one prompt with a real model.
func live(ctx context.Context, w io.Writer, o options) error {
	e := endpoint{
		provider: "openai", baseURL: "https://api.openai.com/v1", key: os.Getenv("OPENAI_API_KEY"),
		model: os.Getenv("OPENAI_MODEL"), summarizer: os.Getenv("OPENAI_MODEL"), window: o.window,
	}
	if u := os.Getenv("OPENAI_BASE_URL"); u != "" {
		e.provider, e.baseURL = "", u
	}
	if e.model == "" || o.prompt == "" {
		return errors.New("a live run needs OPENAI_MODEL and a prompt")
	}
	if o.file == "" {
		f, err := os.CreateTemp("", "agentloop-*.jsonl")
		if err != nil {
			return err
		}
		o.file = f.Name()
		if err := f.Close(); err != nil {
			return err
		}
	}
	m, err := newModel(e)
	if err != nil {
		return err
	}
	tools, err := openSandbox(o.dir)
	if err != nil {
		return err
	}
	defer tools.close()
	a, err := openAgent(ctx, o.file, m, tools, printer(w))
	if err != nil {
		return err
	}
	defer a.close()
	answer, err := a.turn(ctx, o.prompt)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n\nconversation: %s\n", answer, o.file)
	return nil
}
