package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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

	text   *io.SectionReader // what was looked at
	mended *doctor.Change    // what was done to a document that was cut short
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
replaced, a last record that was cut short is taken out (and a document that it
stood in is closed), counts that no provider can have reported are taken out.
Every change is listed. What it does not decide by itself is decided by the other
flags. The new file of a session of our own format is its log with the repairs
appended; there an attempt that died is ended as well. A session that is a folder
is repaired in a copy.

Exit status: 0 when nothing is wrong (or, with --fix, nothing is left wrong),
1 when something is.`,
		Example: `  agentcompact doctor session.jsonl
  agentcompact doctor --fix session.jsonl
  agentcompact doctor --fix --drop-orphans -o clean.jsonl session.jsonl`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !fix {
				for _, name := range []string{"drop-orphans", "close-running", "unique-ids", "drop-bad-lines", "plain-checkpoints", "wrap-arguments", "output"} {
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
	f.BoolVar(&opts.DropBadLines, "drop-bad-lines", false, "take lines that are not JSON, or no object, out, and what stands behind damage in a log of our own format")
	f.BoolVar(&opts.PlainCheckpoints, "plain-checkpoints", false, "make checkpoints whose span is missing plain messages")
	f.BoolVar(&opts.WrapArguments, "wrap-arguments", false, "make arguments of a call that are not JSON the text \"input\" of an object")
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
		return diagnoseTree(ctx, path, info, fix, out, opts)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if own, err := isOwn(path); err != nil {
		return nil, fileError(path, err)
	} else if own {
		return diagnoseOwn(ctx, path, fix, out, opts)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, fileError(path, err)
	}
	if info.Size() > largeFile {
		sparing()
	}
	d, err := diagnoseFile(ctx, io.NewSectionReader(file, 0, info.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if fix {
		err = d.fix(ctx, path, info, out, opts)
	}
	return d, err
}

// diagnoseFile looks at a transcript of one file. A document that was cut short
// is looked at as it would be with its end.
func diagnoseFile(ctx context.Context, text *io.SectionReader) (*diagnosis, error) {
	d := &diagnosis{text: text}
	f, err := formats.Open(ctx, text, text.Size())
	if err != nil {
		data := make([]byte, text.Size())
		if _, rerr := text.ReadAt(data, 0); rerr != nil && !errors.Is(rerr, io.EOF) {
			return nil, rerr
		}
		m, merr := doctor.Mend(ctx, data, formats.All()...)
		if m == nil {
			return nil, cmp.Or(merr, err)
		}
		d.text, d.mended = io.NewSectionReader(bytes.NewReader(m.Data), 0, int64(len(m.Data))), &m.Change
		d.Findings = append(d.Findings, m.Finding)
		if f, err = m.Codec.Read(ctx, m.Data); err != nil {
			return nil, err
		}
	}
	list, err := doctor.Diagnose(ctx, d.text, f)
	if err != nil {
		return nil, err
	}
	d.found(f, list)
	return d, nil
}

// found takes in what was found in a file.
func (d *diagnosis) found(f *wire.File, list []doctor.Finding) {
	d.Format, d.Notes = f.Format, f.Notes
	d.Findings = append(append([]doctor.Finding{}, d.Findings...), list...)
	d.Summary = doctor.Summary(d.Findings)
}

// fix repairs what was looked at into a new file.
func (d *diagnosis) fix(ctx context.Context, path string, info fs.FileInfo, out string, opts *doctor.Options) error {
	name, err := asked(out, path, ".fixed", filepath.Ext(path))
	if err != nil {
		return err
	}
	var steps scratches
	defer steps.drop()
	opts.Scratch = func() (doctor.Scratch, error) { return steps.create(name) }
	codec := formats.All()[slices.IndexFunc(formats.All(), func(c wire.Codec) bool { return c.Name() == d.Format })]
	r, err := doctor.Repair(ctx, codec, d.text, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	d.Changes, d.Left = r.Changes, r.Left
	if d.mended != nil {
		d.Changes = append([]doctor.Change{*d.mended}, d.Changes...)
	}
	if len(d.Changes) == 0 {
		return nil
	}
	tmp, err := fillTemp(name, info.Mode().Perm(), func(w io.Writer) error {
		_, err := io.Copy(w, r.Text)
		return err
	})
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := (&placing{}).link(tmp, name); err != nil {
		return err
	}
	syncDir(name)
	d.Out = name
	return nil
}

// scratches are the files that a repair goes through.
type scratches []*os.File

// create makes one beside the file that it will become.
func (s *scratches) create(name string) (*os.File, error) {
	f, err := createTemp(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	*s = append(*s, f)
	return f, nil
}

func (s *scratches) drop() {
	for _, f := range *s {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
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
			fmt.Fprintf(a.stdout, "  %s%s: %s\n", c.Kind, placeOf(c.Conversation, c.Message, c.File, c.Line, c.CallID), c.Detail)
		}
	}
	if len(d.Left) > 0 {
		fmt.Fprintln(a.stdout, "Left as it is:")
		list(d.Left)
	}
}

func placeOf(conversation, message int, file string, line int, id string) string {
	s := ""
	if file != "" {
		s += " in " + file
	}
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
	fmt.Fprintf(a.stdout, "  %s%s%s: %s; consequence: %s", mark, f.Kind, placeOf(f.Conversation, f.Message, f.File, f.Line, f.CallID), f.Detail, f.Consequence)
	if flag := doctor.Decides(f.Kind); flag != "" {
		fmt.Fprintf(a.stdout, " [--fix %s decides]", flag)
	}
	fmt.Fprintln(a.stdout)
}
