// Command agentcompact inspects and compacts transcripts of LLM agents.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes. Scripts rely on them.
const (
	exitOK      = 0
	exitFailed  = 1 // stderr says what, where, and what to do
	exitUsage   = 2
	exitNothing = 3 // nothing to compact; the message says why
)

// app is what a run of the command has of its surroundings.
type app struct {
	stdout, stderr io.Writer
	// progress reports whether stderr is a terminal that long work may draw on.
	progress bool
	// color reports whether stdout may have colors.
	color bool
	// answered tells that JSON was printed: a failure behind it prints no more.
	answered bool
}

// exitError carries an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{stdout: os.Stdout, stderr: os.Stderr, progress: term.IsTerminal(int(os.Stderr.Fd())), color: colored(os.Stdout)}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes the command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{code: exitFailed, err: err}
	}
	if !a.answered && wantsJSON(cmd, args) {
		a.jsonFailure(cmd, e)
	}
	fmt.Fprintln(a.stderr, "agentcompact:", strings.TrimPrefix(err.Error(), "agentcompact "))
	if e.code == exitUsage {
		fmt.Fprintf(a.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return e.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "agentcompact",
		Short: "Keep a long LLM agent session inside its context window",
		Long: `agentcompact reads the transcript of an LLM agent, replaces the older part of
it by one checkpoint, and writes the result in the same format. It works
offline: without --model the checkpoint is written by the embedded summarizer.
Nothing is lost: what a checkpoint hides goes to a log beside the output.

Formats are told by content. Read, compacted and written back:
` + wrapped("  ", readNames()) + `
Made out of any of these by convert:
` + wrapped("  ", targetNames()),
		Example: `  agentcompact inspect session.jsonl
  agentcompact compact --window 128000 session.jsonl
  agentcompact compact --ratio 0.2 -o short.json session.json`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
					return usage("unknown command %q: did you mean %s?", args[0], strings.Join(near, " or "))
				}
				return usage("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%s: %s", cmd.CommandPath(), flagError(err))
	})
	root.AddCommand(a.inspectCommand(), a.compactCommand(), a.versionCommand())
	root.AddCommand(a.planCommand(), a.recallCommand(), a.undoCommand(), a.redoCommand(), a.pinCommand(), a.diffCommand(), a.reportCommand(), a.watchCommand(), a.evalCommand(), a.mcpCommand())
	root.AddCommand(a.convertCommand(), a.doctorCommand())
	plainDefaults(root)
	completions(root)
	root.SuggestionsMinimumDistance = 2
	root.SetHelpCommand(a.helpCommand(root))
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = nil
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usage("no completion for %q: choose bash, zsh, fish or powershell", args[0])
		}
		for _, shell := range c.Commands() {
			shell.Args = noArgs
		}
	}
	return root
}

func (a *app) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Help about any command",
		Example: "  agentcompact help compact",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usage("there is no command %q", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments", cmd.CommandPath())
	}
	return nil
}

// oneFile is the argument check of commands that take one file.
func oneFile(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usage("%s: name a transcript file", cmd.CommandPath())
	case 1:
		return nil
	}
	return usage("%s: one file at a time, got %d arguments", cmd.CommandPath(), len(args))
}
