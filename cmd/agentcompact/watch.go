package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
)

// watched is a line of watch --json. Fields may be added, not renamed.
type watched struct {
	Time     time.Time `json:"time"`
	Messages int       `json:"messages"`
	Tokens   int       `json:"tokens"`
	// Change is the difference in tokens to the line before.
	Change int `json:"change"`
	// Checkpoints are those that landed since, Undone the ids of those that
	// were undone.
	Checkpoints []recall.Entry `json:"checkpoints,omitempty"`
	Undone      []string       `json:"undone,omitempty"`
	Error       string         `json:"error,omitempty"`
}

func (a *app) watchCommand() *cobra.Command {
	var asJSON bool
	var conversation, lines, window int
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "watch FILE",
		Short: "Follow a live session: tokens over time, checkpoints as they land",
		Long: `watch prints a line when a session has changed: how many tokens it has, and each
checkpoint when it lands. It only reads. It ends with Ctrl-C, or after --lines.`,
		Example: `  agentcompact watch session.jsonl
  agentcompact watch --window 128000 --every 500ms session.jsonl
  agentcompact watch --json session.jsonl | jq .tokens`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case every < 10*time.Millisecond:
				return usage("--every must be at least 10ms")
			case lines < 0 || window < 0:
				return usage("--lines and --window must not be below 0")
			}
			w := &watcher{app: a, path: args[0], conversation: conversation, json: asJSON, window: window, live: map[string]bool{}}
			return w.run(cmd.Context(), every, lines)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.Flags().DurationVar(&every, "every", time.Second, "look this often, a `DURATION` like 500ms")
	cmd.Flags().IntVar(&lines, "lines", 0, "end after so many `LINES` (default never)")
	cmd.Flags().IntVar(&window, "window", 0, "context window of the agent's model in `TOKENS`, to be shown against")
	conversationFlag(cmd, &conversation)
	return cmd
}

// watcher follows one file.
type watcher struct {
	app          *app
	path         string
	conversation int
	json         bool
	window       int

	own     *input // a session of our own format stays open
	info    os.FileInfo
	sideLog os.FileInfo
	printed int
	tokens  int
	next    session.Seq
	live    map[string]bool // checkpoints that stand or stood
	trouble string
}

func (w *watcher) run(ctx context.Context, every time.Duration, lines int) error {
	defer func() {
		if w.own != nil {
			_ = w.own.session.Close()
		}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		if err := w.look(ctx); err != nil {
			if first { // there is nothing to follow
				return err
			}
			if w.trouble != err.Error() && ctx.Err() == nil {
				w.trouble = err.Error()
				if err := w.line(watched{Time: time.Now(), Tokens: w.tokens, Error: w.trouble}); err != nil {
					return err
				}
			}
		} else {
			w.trouble = ""
		}
		if lines > 0 && w.printed >= lines {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // that is how it ends
		case <-tick.C:
		}
	}
}

// look reads the file if it has changed, and prints a line.
func (w *watcher) look(ctx context.Context) error {
	info, err := os.Stat(w.path)
	if err != nil {
		return fileError(w.path, err)
	}
	side, _ := os.Stat(sidecarPath(w.path, max(w.conversation-1, 0)))
	if w.info != nil && same(w.info, info) && same(w.sideLog, side) {
		return nil
	}
	if w.own != nil && os.SameFile(w.info, info) {
		if err := w.own.session.Refresh(ctx); err != nil {
			return ownError(w.path, err)
		}
		w.info = info
		return w.report(w.own.session.View())
	}
	in, err := load(ctx, w.path, w.conversation, false)
	if err != nil {
		return err // a foreign file may be in the middle of a write: next time
	}
	w.info, w.sideLog = info, side
	if w.own != nil {
		_ = w.own.session.Close()
		w.own = nil
	}
	if in.file == nil {
		w.own = in
	} else {
		defer in.session.Close()
	}
	w.next = -1
	return w.report(in.session.View())
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

func (w *watcher) report(v session.View) error {
	if v.Next() == w.next {
		return nil
	}
	w.next = v.Next()
	now := watched{Time: time.Now(), Messages: sizeOf(v).Messages, Tokens: counted(v)}
	if w.printed > 0 {
		now.Change = now.Tokens - w.tokens
	}
	for _, e := range recall.List(v) {
		stands := e.Live || e.HiddenBy != session.NoSeq
		switch was, known := w.live[e.ID]; {
		case e.Pruned:
		case stands && !was:
			now.Checkpoints = append(now.Checkpoints, e)
			w.live[e.ID] = true
		case !stands && known && was:
			now.Undone = append(now.Undone, e.ID)
			w.live[e.ID] = false
		}
	}
	w.tokens = now.Tokens
	return w.line(now)
}

func (w *watcher) line(x watched) error {
	w.printed++
	a := w.app
	if w.json {
		b, err := json.Marshal(x)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s\n", b)
		return err
	}
	var b strings.Builder
	at := a.dim(x.Time.Format("15:04:05"))
	if x.Error != "" {
		fmt.Fprintf(&b, "%s  %s\n", at, a.red(visible(x.Error)))
	} else {
		fmt.Fprintf(&b, "%s  %s tokens", at, a.bold(fmt.Sprintf("%8d", x.Tokens)))
		if w.window > 0 {
			full := float64(x.Tokens) / float64(w.window)
			n := min(int(full*20+0.5), 20)
			bar := strings.Repeat("█", n) + strings.Repeat("░", 20-n)
			if full >= 0.8 {
				bar = a.red(bar)
			}
			fmt.Fprintf(&b, "  %s %3.0f%%", bar, 100*full)
		}
		fmt.Fprintf(&b, "  %+d", x.Change)
		fmt.Fprintf(&b, "  %s\n", count(x.Messages, "message"))
	}
	for _, e := range x.Checkpoints {
		fmt.Fprintf(&b, "%s  %s %s: hides %s", at, a.green("checkpoint"), e.ID, count(len(e.Seqs), "message"))
		if e.Before > 0 {
			fmt.Fprintf(&b, ", %d → %d tokens, %s, by %s", e.Before, e.After, why(string(e.Trigger)), e.Summarizer)
		}
		b.WriteByte('\n')
	}
	for _, id := range x.Undone {
		fmt.Fprintf(&b, "%s  %s %s\n", at, a.cyan("undone"), id)
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
