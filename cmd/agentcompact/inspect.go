package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// problem is one pairing problem in the command's JSON.
type problem struct {
	Kind   string `json:"kind"`
	CallID string `json:"call_id"`
	// At is the seq of the message at fault.
	At session.Seq `json:"at"`
}

type messageInfo struct {
	Seq        session.Seq  `json:"seq"`
	Role       session.Role `json:"role"`
	Tokens     int          `json:"tokens"`
	Calls      []string     `json:"calls"`
	Results    []string     `json:"results"`
	Checkpoint bool         `json:"checkpoint,omitempty"`
	Pinned     bool         `json:"pinned,omitempty"`
}

type tokenInfo struct {
	Total  int            `json:"total"`
	ByRole map[string]int `json:"by_role"`
	// Reported is what the provider reported for the last request, with what
	// came after; it is there when it is above Total, because of prompts and
	// tools that the file does not hold.
	Reported int `json:"reported,omitempty"`
}

type checkpointInfo struct {
	// Seq is the message on the surface; -1 when it is not live.
	Seq          session.Seq `json:"seq"`
	ID           string      `json:"id,omitempty"`
	Trigger      string      `json:"trigger,omitempty"`
	Live         bool        `json:"live"`
	Hides        int         `json:"hides"`
	TokensBefore int         `json:"tokens_before,omitempty"`
}

// report is what inspect prints. Fields may be added, not renamed.
type report struct {
	Format        string        `json:"format"`
	Container     string        `json:"container,omitempty"`
	Messages      int           `json:"messages"`
	SideMessages  int           `json:"side_messages"`
	Turns         int           `json:"turns"`
	Steps         int           `json:"steps"`
	ToolCalls     int           `json:"tool_calls"`
	ToolResults   int           `json:"tool_results"`
	Tokens        tokenInfo     `json:"tokens"`
	Largest       []messageInfo `json:"largest"`
	Conversation  int           `json:"conversation"`
	Conversations int           `json:"conversations"`
	// All are the conversations of a file with several, in order.
	All         []conversationInfo `json:"conversation_list,omitempty"`
	Checkpoints []checkpointInfo   `json:"checkpoints"`
	Problems    []problem          `json:"problems"`
	// HiddenProblems are in what is not live.
	HiddenProblems []hiddenProblem `json:"hidden_problems,omitempty"`
	Notes          []string        `json:"notes,omitempty"`
	MessageList    []messageInfo   `json:"message_list,omitempty"`
}

func (a *app) inspectCommand() *cobra.Command {
	var asJSON, list bool
	var conversation int
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what is in a transcript: messages, turns, calls, tokens, problems",
		Example: `  agentcompact inspect session.jsonl
  agentcompact inspect --json session.json | jq .tokens
  agentcompact inspect --messages --conversation 3 runs.json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("conversation") && conversation < 1 {
				return usage("--conversation counts from 1")
			}
			a.status("reading " + args[0])
			in, err := load(cmd.Context(), args[0], conversation, false)
			a.status("")
			if err != nil {
				return err
			}
			defer in.session.Close()
			r := inspect(in, list)
			if r.HiddenProblems, err = in.hiddenProblems(cmd.Context()); err != nil {
				return err
			}
			if asJSON {
				return a.json(r)
			}
			return a.printReport(r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&list, "messages", false, "list every message with seq, role, tokens, calls and results")
	cmd.Flags().IntVar(&conversation, "conversation", 0, "which conversation of the file, from 1 (default the first)")
	return cmd
}

// list0 makes an absent list an empty one in JSON.
func list0(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}

func (a *app) json(v any) error {
	a.answered = true
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// conversationInfo is one of several conversations of a file.
type conversationInfo struct {
	Number   int    `json:"number"`
	Title    string `json:"title,omitempty"`
	Messages int    `json:"messages"`
}

// maxListed is how many of them are printed.
const maxListed = 30

const largestShown = 5

func inspect(in *input, list bool) *report {
	v := in.session.View()
	r := &report{
		Format: in.format(), Conversation: in.index + 1, Conversations: in.conversations(), Notes: in.notes,
		Tokens:  tokenInfo{Total: counted(v), ByRole: map[string]int{}},
		Largest: []messageInfo{}, Checkpoints: []checkpointInfo{}, Problems: problems(in.session),
	}
	r.Tokens.Reported = in.reported
	if in.file == nil {
		r.Tokens.Reported = engine.Estimate(v)
	}
	if r.Tokens.Reported <= r.Tokens.Total {
		r.Tokens.Reported = 0
	}
	if in.file != nil {
		r.Container = in.file.Container
		r.SideMessages = in.conv.Side
		if several := in.file.Conversations; len(several) > 1 {
			for i, c := range several {
				r.All = append(r.All, conversationInfo{Number: i + 1, Title: c.Title, Messages: len(c.Envelope.System) + c.Len()})
			}
		}
	}
	if e, _ := v.Envelope(); e != nil {
		r.Messages += len(e.System)
		if t := v.EnvelopeTokens(); t > 0 {
			r.Tokens.ByRole["system"] += t
		}
	}
	if list {
		r.MessageList = systemMessages(in.session)
	}
	bySize := func(a, b messageInfo) int { return cmp.Compare(b.Tokens, a.Tokens) }
	for i := range v.Len() {
		n := v.Node(i)
		m := messageInfo{Seq: n.Seq, Role: n.Role(), Tokens: int(n.Tokens), Calls: list0(n.Calls()), Results: list0(n.Results()),
			Checkpoint: compact.IsCheckpointSource(n.Source()), Pinned: v.Pinned(n.Seq)}
		r.Tokens.ByRole[string(n.Role())] += int(n.Tokens)
		r.ToolCalls += len(n.Calls())
		r.ToolResults += len(n.Results())
		if list {
			r.MessageList = append(r.MessageList, m)
		}
		if len(r.Largest) < largestShown || m.Tokens > r.Largest[len(r.Largest)-1].Tokens {
			r.Largest = append(r.Largest, m)
			slices.SortStableFunc(r.Largest, bySize)
			r.Largest = r.Largest[:min(largestShown, len(r.Largest))]
		}
	}
	r.Messages += v.Len()
	for _, t := range v.Turns() {
		if n := v.Node(t.Start); n.Role() == session.RoleUser && n.Source().Kind == session.SourceUser {
			r.Turns++
		}
		r.Steps += len(t.Steps)
	}
	r.Checkpoints = append(r.Checkpoints, checkpoints(in, v)...)
	return r
}

// systemMessages lists the leading system messages. They stand on no surface:
// all have the seq of the event that recorded them.
func systemMessages(s *session.Session) []messageInfo {
	e, seq := s.View().Envelope()
	if e == nil {
		return nil
	}
	var out []messageInfo
	for i := range e.System {
		m := &e.System[i]
		out = append(out, messageInfo{Seq: seq, Role: m.Role, Tokens: s.Pricer().Price(m), Calls: []string{}, Results: []string{}})
	}
	return out
}

// checkpoints lists those of our log and those that the file itself marks.
func checkpoints(in *input, v session.View) []checkpointInfo {
	var out []checkpointInfo
	known := make(map[session.Seq]bool)
	times := make(map[time.Time]bool) // formats keep milliseconds
	for _, e := range recall.List(v) {
		if e.Pruned {
			continue
		}
		known[e.Seq] = true
		times[e.Time.Truncate(time.Millisecond)] = true
		out = append(out, checkpointInfo{Seq: e.Seq, ID: e.ID, Trigger: string(e.Trigger), Live: e.Live, Hides: len(e.Seqs), TokensBefore: e.Before})
	}
	if in.conv == nil {
		return out
	}
	var marked []checkpointInfo
	for _, c := range in.conv.Checkpoints {
		seq := in.entries.seq(c.Entry)
		if known[seq] || !c.Time.IsZero() && times[c.Time.Truncate(time.Millisecond)] {
			continue // the log has it
		}
		_, err := v.Position(seq)
		marked = append(marked, checkpointInfo{Seq: seq, Trigger: c.Trigger, Live: err == nil, Hides: c.Hides, TokensBefore: c.TokensBefore})
	}
	return append(marked, out...) // the log is younger than what it began with
}

func problems(s *session.Session) []problem {
	out := []problem{}
	toolpairing.For(s).With(func(x *toolpairing.Index) {
		for _, p := range x.Diagnose() {
			out = append(out, problem{Kind: string(p.Kind), CallID: p.CallID, At: p.Seq})
		}
	})
	return out
}

func (a *app) printReport(r *report) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	format := r.Format
	if r.Container != "" {
		format += " (" + r.Container + ")"
	}
	row("format", "%s", format)
	if r.Conversations > 1 {
		row("conversation", "%d of %d (choose with --conversation N)", r.Conversation, r.Conversations)
		for i, c := range r.All {
			if i == maxListed {
				row("", "and %d more: --json lists all", len(r.All)-i)
				break
			}
			row("", "%d: %s", c.Number, strings.TrimPrefix(visible(c.Title)+", "+count(c.Messages, "message"), ", "))
		}
	}
	side := ""
	if r.SideMessages > 0 {
		side = fmt.Sprintf(", and %d that are not live", r.SideMessages)
	}
	row("messages", "%d%s", r.Messages, side)
	row("turns", "%d, with %s", r.Turns, count(r.Steps, "step"))
	row("tool calls", "%d, with %s", r.ToolCalls, count(r.ToolResults, "result"))
	var roles []string
	for _, k := range slices.SortedFunc(maps.Keys(r.Tokens.ByRole), func(a, b string) int { return cmp.Compare(r.Tokens.ByRole[b], r.Tokens.ByRole[a]) }) {
		roles = append(roles, fmt.Sprintf("%s %d", k, r.Tokens.ByRole[k]))
	}
	row("tokens", "about %d: %s", r.Tokens.Total, strings.Join(roles, ", "))
	if r.Tokens.Reported > 0 {
		row("", "%d as the provider reports, with what the file does not hold", r.Tokens.Reported)
	}
	var big []string
	for _, m := range r.Largest {
		big = append(big, fmt.Sprintf("%d (%s) %d", m.Seq, m.Role, m.Tokens))
	}
	if len(big) > 0 {
		row("largest", "%s", strings.Join(big, ", "))
	}
	row("checkpoints", "%d", len(r.Checkpoints))
	for _, c := range r.Checkpoints {
		state := "superseded"
		if c.Live {
			state = fmt.Sprintf("message %d", c.Seq)
		}
		hides := "an unknown number of messages"
		if c.Hides >= 0 {
			hides = count(c.Hides, "message")
		}
		row("", "%s, %s, hides %s", state, cmp.Or(why(c.Trigger), "of another program"), hides)
	}
	if n := len(r.HiddenProblems); n > 0 {
		row("problems", "%d, and %d in what is not live, which agentcompact doctor lists", len(r.Problems), n)
	} else {
		row("problems", "%d", len(r.Problems))
	}
	for _, p := range r.Problems {
		row("", "%s: call %q at message %d", strings.ReplaceAll(p.Kind, "_", " "), p.CallID, p.At)
	}
	for _, n := range r.Notes {
		row("note", "%s", n)
	}
	if len(r.MessageList) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(w, "SEQ\tROLE\tTOKENS\tCALLS AND RESULTS")
		for _, m := range r.MessageList {
			role := string(m.Role)
			if m.Checkpoint {
				role += " (checkpoint)"
			}
			var ids []string
			for _, c := range m.Calls {
				ids = append(ids, "→"+c)
			}
			for _, c := range m.Results {
				ids = append(ids, "←"+c)
			}
			fmt.Fprintf(w, "%d\t%s\t%d\t%s\n", m.Seq, role, m.Tokens, strings.Join(ids, " "))
		}
	}
	return w.Flush()
}
