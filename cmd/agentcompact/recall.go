package main

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
)

func (a *app) recallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recall",
		Short: "List, read and search what checkpoints hide",
		Long: `recall reaches everything that a session hides: behind checkpoints, also
superseded and undone ones, in tool results that were shortened, and what was
rewound. It needs the log that compact writes beside a transcript; in a session
of our own format everything is in the file.`,
		Example: `  agentcompact recall list session.jsonl
  agentcompact recall read --id c7f3 session.jsonl
  agentcompact recall search "connection refused" session.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%s has no %q: there are list, read and search", cmd.CommandPath(), args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.recallListCommand(), a.recallReadCommand(), a.recallSearchCommand())
	return cmd
}

// withView reads a transcript for looking at.
func (a *app) withView(ctx context.Context, path string, conversation int, fn func(*input, session.View) error) error {
	a.status("reading " + path)
	in, err := load(ctx, path, conversation, false)
	a.status("")
	if err != nil {
		return err
	}
	defer in.session.Close()
	return fn(in, in.session.View())
}

// hint says why a file hides nothing, where a person may have named another one
// than was meant.
func (in *input) hint() string {
	if in.file == nil || in.restored {
		return ""
	}
	return ": name the file that compact wrote, which has its log beside it"
}

func conversationFlag(cmd *cobra.Command, n *int) {
	cmd.Flags().IntVar(n, "conversation", 0, "which conversation of the file, from 1 (default the first)")
}

// listed is what recall list prints. Fields may be added, not renamed.
type listed struct {
	Checkpoints []recall.Entry `json:"checkpoints"`
	// Hidden counts the messages that are within reach.
	Hidden int `json:"hidden"`
	// Foreign counts checkpoints that the file marks and whose content is not in
	// a log of ours.
	Foreign int      `json:"foreign"`
	Notes   []string `json:"notes,omitempty"`
}

func (a *app) recallListCommand() *cobra.Command {
	var asJSON bool
	var conversation int
	cmd := &cobra.Command{
		Use:   "list FILE",
		Short: "List checkpoints and shortened results with what they hide",
		Example: `  agentcompact recall list session.jsonl
  agentcompact recall list --json session.json | jq '.checkpoints[].id'`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withView(cmd.Context(), args[0], conversation, func(in *input, v session.View) error {
				out := listed{Checkpoints: recall.List(v), Notes: in.notes}
				if out.Checkpoints == nil {
					out.Checkpoints = []recall.Entry{}
				}
				p, err := recall.Read(v, recall.Hidden(), &recall.ReadOptions{MaxTokens: 1})
				if err != nil {
					return err
				}
				out.Hidden = p.Total
				out.Foreign = foreign(in, v)
				if asJSON {
					return a.json(out)
				}
				return a.printList(out)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	conversationFlag(cmd, &conversation)
	return cmd
}

// foreign counts the checkpoints that the file marks and no log of ours has.
func foreign(in *input, v session.View) int {
	ours := recall.List(v)
	n := 0
	for _, c := range checkpoints(in, v) {
		if c.ID == "" || !slices.ContainsFunc(ours, func(e recall.Entry) bool { return e.ID == c.ID }) {
			n++
		}
	}
	return n
}

// foreignWords says what is to be known about them.
func foreignWords(n int) string {
	what := "it"
	if n > 1 {
		what = "they"
	}
	return fmt.Sprintf("%s of another program: what %s replaced is not in a log of ours", count(n, "checkpoint"), what)
}

// stateOf words where a checkpoint stands.
func stateOf(e recall.Entry) string {
	switch {
	case e.Live:
		return "live"
	case e.HiddenBy != session.NoSeq:
		return "superseded"
	}
	return "undone"
}

// why words a trigger, ours or one of another program.
func why(trigger string) string {
	switch compact.Trigger(trigger) {
	case compact.Pressure:
		return "under pressure"
	case compact.ContextOverflow:
		return "after an overflow"
	case compact.Now:
		return "by hand"
	case compact.Region:
		return "a span by hand"
	case compact.Behind:
		return "in the background"
	}
	return trigger
}

// seqRange words a range of seqs.
func seqRange(from, to session.Seq) string {
	if from == to {
		return fmt.Sprintf("seq %d", from)
	}
	return fmt.Sprintf("seqs %d-%d", from, to)
}

func (a *app) printList(out listed) error {
	w := bufio.NewWriter(a.stdout)
	for _, e := range out.Checkpoints {
		name := e.ID
		if name == "" {
			name = fmt.Sprintf("message %d", e.Seq)
		}
		state := stateOf(e)
		if e.Live {
			state = a.green(state)
		}
		fmt.Fprintf(w, "%s  %s  %s\n", a.bold(name), state, e.Time.Format("2006-01-02 15:04:05"))
		what := count(len(e.Seqs), "message")
		if len(e.Seqs) > 0 {
			what += ", " + seqRange(slices.Min(e.Seqs), slices.Max(e.Seqs))
		}
		if e.Pruned {
			what = "a tool result that was shortened, " + strings.TrimPrefix(what, "1 message, ")
		}
		if e.Before > 0 {
			what += fmt.Sprintf(", %s → %d", count(e.Before, "token"), e.After)
		}
		fmt.Fprintf(w, "  hides %s\n", what)
		if e.Summarizer != "" {
			fmt.Fprintf(w, "  %s, by the summarizer %s: %s\n", why(string(e.Trigger)), e.Summarizer, a.dim(visible(short(e.Text, 80))))
		}
	}
	fmt.Fprintf(w, "%s hidden in all\n", count(out.Hidden, "message"))
	if out.Foreign > 0 {
		fmt.Fprintln(w, foreignWords(out.Foreign))
	}
	for _, n := range out.Notes {
		fmt.Fprintln(a.stderr, "note:", n)
	}
	return w.Flush()
}

func (a *app) recallReadCommand() *cobra.Command {
	var asJSON, all bool
	var conversation, tokens int
	var id, cursor string
	var from, to int64
	cmd := &cobra.Command{
		Use:   "read FILE",
		Short: "Print hidden messages as a transcript, page by page",
		Example: `  agentcompact recall read session.jsonl
  agentcompact recall read --id c7f3 --tokens 2000 session.jsonl
  agentcompact recall read --from 12 --to 20 session.jsonl
  agentcompact recall read --all session.jsonl | less`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			set := cmd.Flags().Changed
			switch {
			case set("id") && (set("from") || set("to")):
				return usage("--id and --from/--to are two ways to say what: choose one")
			case set("to") && !set("from"):
				return usage("--to goes with --from")
			case set("from") && (from < 0 || set("to") && to < from):
				return usage("--from and --to must be seqs, --from the smaller one")
			case all && set("cursor"):
				return usage("--all and --cursor exclude each other")
			case tokens <= 0:
				return usage("--tokens must be above 0")
			}
			scope := recall.Hidden()
			switch {
			case set("id"):
				scope = recall.Checkpoint(id)
			case set("to"):
				scope = recall.Events(session.Seq(from), session.Seq(to))
			case set("from"):
				scope = recall.Events(session.Seq(from), session.Seq(from))
			}
			o := &recall.ReadOptions{Cursor: cursor, MaxTokens: tokens}
			if all {
				o.MaxTokens = 1 << 50
			}
			return a.withView(cmd.Context(), args[0], conversation, func(in *input, v session.View) error {
				p, err := recall.Read(v, scope, o)
				if err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				if asJSON {
					return a.json(p)
				}
				text := p.Text
				if a.color { // a terminal: what the text holds is shown, not obeyed
					text = visible(text)
				}
				if _, err := fmt.Fprint(a.stdout, text); err != nil {
					return err
				}
				if p.Total == 0 {
					fmt.Fprintln(a.stderr, "nothing is hidden"+in.hint())
				}
				if p.Next != "" {
					fmt.Fprintf(a.stderr, "the next page: --cursor %s (%s in all)\n", p.Next, count(p.Total, "message"))
				}
				return nil
			})
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	fl.BoolVar(&all, "all", false, "everything on one page")
	fl.StringVar(&id, "id", "", "what the compaction with this `ID` hides (default: all that is hidden)")
	fl.Int64Var(&from, "from", 0, "from this message on, by its `SEQ`; alone, just that one")
	fl.Int64Var(&to, "to", 0, "up to this message, by its `SEQ`")
	fl.IntVar(&tokens, "tokens", 4000, "size of a page in `TOKENS`")
	fl.StringVar(&cursor, "cursor", "", "go on where the `CURSOR` of the page before says")
	conversationFlag(cmd, &conversation)
	return cmd
}

func (a *app) recallSearchCommand() *cobra.Command {
	var asJSON, isRegexp, everywhere bool
	var conversation int
	var id, role string
	var q recall.Query
	var from, to int64
	cmd := &cobra.Command{
		Use:   "search [TEXT] FILE",
		Short: "Search hidden messages",
		Example: `  agentcompact recall search "connection refused" session.jsonl
  agentcompact recall search -i --role user todo session.jsonl
  agentcompact recall search --regexp 'E[0-9]{4}' session.jsonl
  agentcompact recall search --tool bash --path src/main.go session.jsonl
  agentcompact recall search --json timeout session.json | jq '.hits[].seq'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 1, 2:
				return nil
			case 0:
				return usage("%s: name a text and a transcript file", cmd.CommandPath())
			}
			return usage("%s: a text and a file, got %d arguments: quote a text with blanks", cmd.CommandPath(), len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := args[len(args)-1]
			if len(args) == 2 {
				if q.Text = args[0]; isRegexp {
					q.Text, q.Regexp = "", args[0]
				}
			}
			if q.Text == "" && q.Regexp == "" && role == "" && q.Tool == "" && q.Path == "" {
				return usage("%s: nothing to look for: give a text, --role, --tool or --path", cmd.CommandPath())
			}
			q.Role, q.From, q.To = session.Role(role), session.Seq(from), session.Seq(to)
			if id != "" {
				q.Scope = recall.Checkpoint(id)
			}
			return a.withView(cmd.Context(), path, conversation, func(in *input, v session.View) error {
				if everywhere && v.Next() > 0 {
					q.Scope = recall.Events(0, v.Next()-1)
				}
				f, err := recall.Search(v, q)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if asJSON {
					return a.json(f)
				}
				w := bufio.NewWriter(a.stdout)
				for _, h := range f.Hits {
					by := ""
					if h.Compaction != "" {
						by = " " + a.dim(h.Compaction)
					}
					fmt.Fprintf(w, "%s %s%s  %s\n", a.bold(fmt.Sprint(h.Seq)), h.Role, by, visible(h.Snippet))
				}
				matched := "none matches"
				switch {
				case f.Matched == 1:
					matched = "1 matches"
				case f.Matched > 1:
					matched = fmt.Sprintf("%d match", f.Matched)
				}
				if f.Truncated {
					matched += fmt.Sprintf(", the newest %d shown: --limit shows more", len(f.Hits))
				}
				hint := ""
				if f.Scanned == 0 {
					hint = in.hint()
				}
				fmt.Fprintf(a.stderr, "%s searched, %s%s\n", count(f.Scanned, "message"), matched, hint)
				return w.Flush()
			})
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	fl.BoolVar(&isRegexp, "regexp", false, "TEXT is a regular expression (RE2)")
	fl.BoolVarP(&q.IgnoreCase, "ignore-case", "i", false, "case does not matter")
	fl.BoolVar(&everywhere, "all", false, "search visible messages too")
	fl.StringVar(&role, "role", "", "only messages of this `ROLE`: user, assistant, tool")
	fl.StringVar(&q.Tool, "tool", "", "only calls and results of this `TOOL`")
	fl.StringVar(&q.Path, "path", "", "only messages that mention this `FILE`")
	fl.StringVar(&id, "id", "", "only what the compaction with this `ID` hides")
	fl.Int64Var(&from, "from", 0, "only from this message on, by its `SEQ`")
	fl.Int64Var(&to, "to", 0, "only up to this message, by its `SEQ`")
	fl.IntVar(&q.Limit, "limit", 20, "most `HITS` to print")
	conversationFlag(cmd, &conversation)
	return cmd
}
