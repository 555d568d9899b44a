package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/doctor"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// diagnosis is what doctor prints. Fields may be added, not renamed.
type diagnosis struct {
	Format   string           `json:"format"`
	Summary  string           `json:"summary"`
	Findings []doctor.Finding `json:"findings"`
	Notes    []string         `json:"notes,omitempty"`
	// With --fix: what was done, where, and what is left.
	Out     string           `json:"out,omitempty"`
	Changes []doctor.Change  `json:"changes,omitempty"`
	Left    []doctor.Finding `json:"left,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON, fix, all bool
	var out string
	var opts doctor.Options
	cmd := &cobra.Command{
		Use:   "doctor FILE",
		Short: "Say what is wrong with a transcript, and repair it",
		Long: `doctor names every problem of a transcript with its place and what follows from
it: encoding, records cut short, pairing of calls and results, ids, order,
usage, links between records, and in a session of our own format attempts that
died and checkpoints without their span. What is normal in real transcripts is
told apart.

With --fix it repairs by the least change and writes a new file: a call that was
abandoned gets a made-up result, a result without a call becomes a quoted note,
ids that clash become unique on both sides, bytes that are not UTF-8 are
replaced, a last record that was cut short is taken out. Every change is listed.
What it does not decide by itself is decided by the other flags. The new file of
a session of our own format is its log with the repairs appended; there an
attempt that died is ended as well.

Exit status: 0 when nothing is wrong (or, with --fix, nothing is left wrong),
1 when something is.`,
		Example: `  agentcompact doctor session.jsonl
  agentcompact doctor --fix session.jsonl
  agentcompact doctor --fix --drop-orphans -o clean.jsonl session.jsonl`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !fix {
				for _, name := range []string{"drop-orphans", "close-running", "unique-ids", "drop-bad-lines", "plain-checkpoints", "output"} {
					if cmd.Flags().Changed(name) {
						return usage("doctor: --%s is for --fix", name)
					}
				}
			}
			d, err := a.diagnose(cmd.Context(), args[0], fix, out, &opts)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.json(d)
			} else {
				a.printDiagnosis(args[0], d, fix, all)
			}
			if n := d.wrong(fix); n > 0 && err == nil {
				return &exitError{code: exitFailed, err: fmt.Errorf("%s: %s", args[0], count(n, "problem"))}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&fix, "fix", false, "repair, into a new file")
	f.StringVarP(&out, "output", "o", "", "the `FILE` to write (default beside the input)")
	f.BoolVar(&opts.DropOrphans, "drop-orphans", false, "take results without a call out instead of quoting them")
	f.BoolVar(&opts.CloseRunning, "close-running", false, "give calls at the end, which may still run, a made-up result, and end a compaction that may still run")
	f.BoolVar(&opts.UniqueIDs, "unique-ids", false, "give calls whose id was used before another one")
	f.BoolVar(&opts.DropBadLines, "drop-bad-lines", false, "take lines that are not JSON out, and what stands behind damage in a log of our own format")
	f.BoolVar(&opts.PlainCheckpoints, "plain-checkpoints", false, "make checkpoints whose span is missing plain messages")
	f.BoolVar(&all, "all", false, "list every finding, also where there are many of one kind")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// wrong counts what is wrong, or left wrong.
func (d *diagnosis) wrong(fix bool) int {
	list := d.Findings
	if fix {
		list = d.Left
	}
	n := 0
	for _, f := range list {
		if !f.Normal {
			n++
		}
	}
	return n
}

func (a *app) diagnose(ctx context.Context, path string, fix bool, out string, opts *doctor.Options) (*diagnosis, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	if info.IsDir() {
		if fix {
			return nil, fmt.Errorf("%s is a folder: --fix repairs files", path)
		}
		tree, err := formats.ReadTree(ctx, os.DirFS(path))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return diagnosisOf(ctx, nil, &tree.File)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if own, err := isOwn(path); err != nil {
		return nil, fileError(path, err)
	} else if own {
		return diagnoseOwn(ctx, path, fix, out, opts)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	f, err := formats.Read(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d, err := diagnosisOf(ctx, data, f)
	if err != nil || !fix {
		return d, err
	}
	codec, _ := wire.Detect(data, true, formats.All()...)
	r, err := doctor.Repair(ctx, codec, data, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d.Changes, d.Left = r.Changes, r.Left
	if len(r.Changes) > 0 {
		d.Out, err = writeBeside(out, path, ".fixed", filepath.Ext(path), r.Data)
	}
	return d, err
}

func diagnosisOf(ctx context.Context, data []byte, f *wire.File) (*diagnosis, error) {
	list, err := doctor.Diagnose(ctx, data, f)
	if err != nil {
		return nil, err
	}
	return &diagnosis{Format: f.Format, Summary: doctor.Summary(list), Findings: append([]doctor.Finding{}, list...), Notes: f.Notes}, nil
}

// shown is how many findings of one kind are listed.
const shown = 5

func (a *app) printDiagnosis(path string, d *diagnosis, fix, all bool) {
	fmt.Fprintf(a.stdout, "%s (%s): %s\n", path, d.Format, d.Summary)
	list := func(findings []doctor.Finding) {
		total, n := map[doctor.Kind]int{}, map[doctor.Kind]int{}
		for _, f := range findings {
			total[f.Kind]++
		}
		for _, f := range findings {
			if n[f.Kind]++; n[f.Kind] > shown && !all {
				if n[f.Kind] == shown+1 {
					fmt.Fprintf(a.stdout, "  %s: %d more of this kind; --all lists them\n", f.Kind, total[f.Kind]-shown)
				}
				continue
			}
			a.printFinding(f)
		}
	}
	list(d.Findings)
	for _, n := range d.Notes {
		fmt.Fprintf(a.stdout, "  note: %s\n", n)
	}
	if !fix {
		return
	}
	if len(d.Changes) == 0 {
		fmt.Fprintln(a.stdout, "Nothing was changed and no file was written.")
	} else {
		fmt.Fprintf(a.stdout, "%s was written, with %s:\n", d.Out, count(len(d.Changes), "change"))
		for _, c := range d.Changes {
			fmt.Fprintf(a.stdout, "  %s%s: %s\n", c.Kind, placeOf(c.Conversation, c.Message, c.Line, c.CallID), c.Detail)
		}
	}
	if len(d.Left) > 0 {
		fmt.Fprintln(a.stdout, "Left as it is:")
		list(d.Left)
	}
}

func placeOf(conversation, message, line int, id string) string {
	s := ""
	if conversation > 1 {
		s += fmt.Sprintf(" in conversation %d", conversation)
	}
	if message > 0 {
		s += fmt.Sprintf(" at message %d", message)
	}
	if line > 0 {
		s += fmt.Sprintf(" (line %d)", line)
	}
	if id != "" {
		s += fmt.Sprintf(" call %q", id)
	}
	return s
}

func (a *app) printFinding(f doctor.Finding) {
	mark := ""
	if f.Normal {
		mark = "normal: "
	}
	fmt.Fprintf(a.stdout, "  %s%s%s: %s; consequence: %s", mark, f.Kind, placeOf(f.Conversation, f.Message, f.Line, f.CallID), f.Detail, f.Consequence)
	if flag := doctor.Decides(f.Kind); flag != "" {
		fmt.Fprintf(a.stdout, " [--fix %s decides]", flag)
	}
	fmt.Fprintln(a.stdout)
}
