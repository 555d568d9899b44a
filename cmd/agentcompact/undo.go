package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
)

// undone is what undo and redo print. Fields may be added, not renamed.
type undone struct {
	// ID is the compaction that was undone or put back, Checkpoint its message.
	ID         string      `json:"id"`
	Checkpoint session.Seq `json:"checkpoint"`
	Before     sizeInfo    `json:"before"`
	After      sizeInfo    `json:"after"`
	Out        string      `json:"out"`
	Sidecar    string      `json:"sidecar"`
	Backup     string      `json:"backup,omitempty"`
	Notes      []string    `json:"notes,omitempty"`
}

type undoFlags struct {
	json         bool
	out          string
	id           string
	conversation int
}

func (a *app) undoCommand() *cobra.Command {
	var f undoFlags
	cmd := &cobra.Command{
		Use:   "undo FILE",
		Short: "Give back what a checkpoint hides",
		Long: `undo gives back the messages that the newest checkpoint hides, exactly as they
were. In a session of our own format that is one more event; for another format
the log beside the file says what was there, and the result is a new file
beside it. Nested checkpoints are undone from the outside in: run it again.`,
		Example: `  agentcompact undo session.jsonl
  agentcompact undo -o run.json run.compact.json
  agentcompact undo --id c7f3 session.jsonl`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.turnBack(cmd.Context(), args[0], &f, ".undo", func(ctx context.Context, e *engine.Engine, agent compact.Agent) (session.Seq, error) {
				node := session.NoSeq
				if f.id != "" {
					var ok bool
					if node, ok = checkpointNamed(agent.Session.View(), f.id); !ok {
						return 0, fmt.Errorf("compaction %q is not live: see recall list, and undo what hides it first", f.id)
					}
				}
				return e.Undo(ctx, agent, node)
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.id, "id", "", "undo the compaction with this `ID` (default the newest)")
	return cmd
}

func (a *app) redoCommand() *cobra.Command {
	var f undoFlags
	cmd := &cobra.Command{
		Use:   "redo FILE",
		Short: "Put the newest undone checkpoint back",
		Example: `  agentcompact redo session.jsonl
  agentcompact redo -o run.json run.undo.json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.turnBack(cmd.Context(), args[0], &f, ".redo", func(ctx context.Context, e *engine.Engine, agent compact.Agent) (session.Seq, error) {
				return e.Redo(ctx, agent)
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func (f *undoFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "write the result to `FILE`; the input itself is replaced atomically, with a backup (default: beside the input under the next free name)")
	conversationFlag(cmd, &f.conversation)
}

// turnBack runs an undo or a redo and puts the result in place.
func (a *app) turnBack(ctx context.Context, path string, f *undoFlags, mark string, fn func(context.Context, *engine.Engine, compact.Agent) (session.Seq, error)) error {
	ed, err := a.begin(ctx, path, f.conversation, f.out, mark)
	if err != nil {
		return err
	}
	defer ed.close()
	s := ed.in.session
	out := &undone{Before: sizeOf(s.View())}
	e, err := plainEngine()
	if err != nil {
		return err
	}
	seq, err := fn(ctx, e, compact.Agent{Session: s})
	var ce *compact.Error
	if errors.As(err, &ce) && ce.Code == compact.NotFound && ed.in.file != nil && !ed.in.restored {
		return &exitError{code: exitNothing, err: fmt.Errorf("%s: there is no log %s that says what was there: name the file that compact wrote", path, sidecarPath(path, ed.in.index))}
	}
	if errors.As(err, &ce) && ce.Code == compact.NotFound && f.id == "" {
		return &exitError{code: exitNothing, err: fmt.Errorf("%s: %s", path, because(ce))}
	}
	if ce != nil && ce.Code == compact.Changed && mark == ".redo" && !undoneIn(s.View()) {
		return &exitError{code: exitNothing, err: fmt.Errorf("%s: everything that was undone has been put back", path)}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v := s.View()
	out.Checkpoint, out.After = seq, sizeOf(v)
	if ev, err := v.Event(seq); err == nil {
		switch b, err := ev.Body(); b := b.(type) {
		case *session.Redo: // the checkpoint itself stands again
			out.Checkpoint = b.Node
		default:
			_ = err
		}
	}
	if ev, err := v.Event(out.Checkpoint); err == nil {
		if m, err := ev.Message(); err == nil {
			out.ID = m.Source.Ref
		}
	}
	where := &compacted{Notes: ed.in.notes}
	if err := a.finish(ctx, ed, where); err != nil {
		return err
	}
	out.Out, out.Sidecar, out.Backup, out.Notes = where.Out, where.Sidecar, where.Backup, where.Notes
	if f.json {
		return a.json(out)
	}
	did := map[string]string{".undo": "undone", ".redo": "put back"}[mark]
	fmt.Fprintf(a.stdout, "%s: compaction %s %s: %s → %s\n", path, a.bold(out.ID), did, out.Before, out.After)
	if out.Out != path || out.Backup != "" {
		fmt.Fprintf(a.stdout, "  written to %s\n", out.Out)
	}
	if out.Backup != "" {
		fmt.Fprintf(a.stdout, "  the file as it was is %s\n", out.Backup)
	}
	for _, n := range out.Notes {
		fmt.Fprintln(a.stderr, "note:", n)
	}
	return nil
}

// undoneIn reports whether a checkpoint is undone and was not put back.
func undoneIn(v session.View) bool {
	list := recall.List(v)
	return slices.ContainsFunc(list, func(e recall.Entry) bool {
		return !e.Pruned && stateOf(e) == "undone" && !slices.ContainsFunc(list, func(o recall.Entry) bool { return o.ID == e.ID && stateOf(o) != "undone" })
	})
}

// pinned is what pin prints.
type pinned struct {
	Pins    []session.Seq `json:"pins"`
	Sidecar string        `json:"sidecar"`
}

func (a *app) pinCommand() *cobra.Command {
	var asJSON, off bool
	var conversation int
	var list []int64
	cmd := &cobra.Command{
		Use:   "pin FILE",
		Short: "Pin messages, so that no compaction hides them",
		Long: `pin marks messages that no compaction may hide, or takes the marks off. A call
and its results are pinned together. Without --seq it lists the pins. In a
session of our own format a pin is one more event; for another format it is kept
in the log beside the file, and the file itself stays as it is.`,
		Example: `  agentcompact pin --seq 3,17 session.jsonl
  agentcompact pin --seq 17 --off session.jsonl
  agentcompact pin session.jsonl`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if off && len(list) == 0 {
				return usage("--off goes with --seq")
			}
			in, err := load(cmd.Context(), args[0], conversation, len(list) > 0)
			if err != nil {
				return err
			}
			defer in.session.Close()
			out := pinned{Pins: []session.Seq{}}
			if len(list) > 0 {
				if err := pin(cmd.Context(), in.session, seqsOf(list), off); err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				if in.file != nil {
					if out.Sidecar, err = in.saveSidecar(cmd.Context()); err != nil {
						return err
					}
				}
			}
			out.Pins = append(out.Pins, in.session.View().Pins()...)
			if asJSON {
				return a.json(out)
			}
			if len(out.Pins) == 0 {
				fmt.Fprintln(a.stdout, "nothing is pinned")
				return nil
			}
			fmt.Fprintf(a.stdout, "pinned: %s\n", seqList(out.Pins))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&off, "off", false, "take the pins off")
	cmd.Flags().Int64SliceVar(&list, "seq", nil, "messages by their `SEQ`, with commas between")
	conversationFlag(cmd, &conversation)
	return cmd
}

// saveSidecar writes the session to the log beside the file, which goes on from
// the log that is there. A log that does not belong to the file is not touched.
func (in *input) saveSidecar(ctx context.Context) (string, error) {
	side := sidecarPath(in.path, in.index)
	if !free(side) && !in.restored {
		return "", fmt.Errorf("%s is in the way, the log of another transcript: move it away", side)
	}
	if grown, err := in.changed(); err != nil {
		return "", err
	} else if grown {
		return "", fmt.Errorf("%s was written to meanwhile: run it again", in.path)
	}
	sum := in.treeState
	if in.tree == nil {
		h := sha256.New()
		if err := readInto(h, in.path); err != nil {
			return "", err
		}
		sum = h.Sum(nil)
	}
	tmp, err := in.writeSidecar(ctx, side, sum)
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp)
	if err := os.Rename(tmp, side); err != nil {
		return "", fileError(side, err)
	}
	syncDir(side)
	return side, nil
}
