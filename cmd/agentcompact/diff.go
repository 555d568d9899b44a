package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
)

// diffed is what diff prints. Fields may be added, not renamed.
type diffed struct {
	ID string `json:"id"`
	// Removed are the messages that the model no longer saw, Added those that
	// it saw in their place.
	Removed []session.Seq `json:"removed"`
	Added   []session.Seq `json:"added"`
	Diff    string        `json:"diff"`
}

func (a *app) diffCommand() *cobra.Command {
	var asJSON bool
	var conversation, lines int
	var id string
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Show what the model saw before and after a compaction",
		Long: `diff shows a compaction as a unified diff of what the model saw: the messages
before it and after it, each under a line with its seq and role.`,
		Example: `  agentcompact diff session.jsonl
  agentcompact diff --id c7f3 session.jsonl
  agentcompact diff session.jsonl | less`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usage("--unified must be a number of lines")
			}
			return a.withView(cmd.Context(), args[0], conversation, func(_ *input, v session.View) error {
				e, ok := chosen(recall.List(v), id)
				switch {
				case !ok && id != "":
					return fmt.Errorf("%s: there is no compaction %q: see recall list", args[0], id)
				case !ok:
					return &exitError{code: exitNothing, err: fmt.Errorf("%s: nothing was compacted", args[0])}
				}
				d, err := surfaceDiff(v, e, lines)
				if err != nil {
					return err
				}
				if asJSON {
					return a.json(d)
				}
				return a.printDiff(d.Diff)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&id, "id", "", "the compaction with this `ID` (default the newest)")
	cmd.Flags().IntVarP(&lines, "unified", "U", 3, "`LINES` of context")
	conversationFlag(cmd, &conversation)
	return cmd
}

// chosen returns the entry with the id, or the newest one that is a checkpoint.
func chosen(list []recall.Entry, id string) (recall.Entry, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if e := list[i]; id != "" && e.ID == id || id == "" && !e.Pruned {
			return e, true
		}
	}
	return recall.Entry{}, false
}

// surfaceDiff compares the surface right before a replacement with that right
// after it. Pruned results that belong together are one difference.
func surfaceDiff(v session.View, e recall.Entry, lines int) (*diffed, error) {
	first, last := e.Seq, e.Seq
	if e.Pruned && e.ID != "" {
		for _, o := range recall.List(v) {
			if o.ID == e.ID {
				first, last = min(first, o.Seq), max(last, o.Seq)
			}
		}
	}
	before, err := v.SurfaceAt(first - 1)
	if err != nil {
		return nil, err
	}
	after, err := v.SurfaceAt(last)
	if err != nil {
		return nil, err
	}
	d := &diffed{ID: e.ID, Removed: without(before, after), Added: without(after, before)}
	// What both begin and end with is no difference: a few messages of it are
	// context enough.
	a, b := 0, 0
	for a < min(len(before), len(after)) && before[a] == after[a] {
		a++
	}
	for b < min(len(before), len(after))-a && before[len(before)-1-b] == after[len(after)-1-b] {
		b++
	}
	a, b = max(a-1, 0), max(b-1, 0)
	old, err := render(v, before[a:len(before)-b])
	if err != nil {
		return nil, err
	}
	now, err := render(v, after[a:len(after)-b])
	if err != nil {
		return nil, err
	}
	if d.Diff, err = udiff.ToUnified("before", "after", old, udiff.Lines(old, now), lines); err != nil {
		return nil, err
	}
	return d, nil
}

func without(list, other []session.Seq) []session.Seq {
	in := make(map[session.Seq]bool, len(other))
	for _, q := range other {
		in[q] = true
	}
	out := []session.Seq{}
	for _, q := range list {
		if !in[q] {
			out = append(out, q)
		}
	}
	return out
}

func render(v session.View, seqs []session.Seq) (string, error) {
	var b strings.Builder
	for _, q := range seqs {
		text, err := recall.Transcript(v, q)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func (a *app) printDiff(text string) error {
	w := bufio.NewWriter(a.stdout)
	for line := range strings.Lines(text) {
		if a.color {
			line = strings.TrimSuffix(visible(line), "\n")
			switch {
			case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
				line = a.bold(line)
			case strings.HasPrefix(line, "@@"):
				line = a.cyan(line)
			case strings.HasPrefix(line, "-"):
				line = a.red(line)
			case strings.HasPrefix(line, "+"):
				line = a.green(line)
			}
			line += "\n"
		}
		if _, err := w.WriteString(line); err != nil {
			return err
		}
	}
	return w.Flush()
}
