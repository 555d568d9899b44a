package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
	"github.com/agentcompact/agentcompact/tokencount/models"
)

// savedPlan is the file of plan --save: the plan with the settings that it was
// made with.
type savedPlan struct {
	Version      int           `json:"agentcompact_plan"`
	Transcript   string        `json:"transcript"`
	Format       string        `json:"format"`
	Conversation int           `json:"conversation"`
	Window       int           `json:"window,omitempty"`
	Ratio        float64       `json:"ratio,omitempty"`
	Model        string        `json:"model,omitempty"`
	BaseURL      string        `json:"base_url,omitempty"`
	Fallback     bool          `json:"fallback,omitempty"`
	Plan         *compact.Plan `json:"plan"`
}

// edgeInfo is a message at an edge of the span.
type edgeInfo struct {
	Seq  session.Seq  `json:"seq"`
	Role session.Role `json:"role"`
	Text string       `json:"text"`
}

// planned is what plan prints. Fields may be added, not renamed.
type planned struct {
	Plan *compact.Plan `json:"plan"`
	// First and Last are the edges of the span, Next is the first message
	// behind it that stays.
	First edgeInfo  `json:"first"`
	Last  edgeInfo  `json:"last"`
	Next  *edgeInfo `json:"next,omitempty"`
	// Stays counts the messages that stay as they are, Pins those of them that
	// are pinned, Pairs the calls in the span that go with their results.
	Stays int           `json:"stays"`
	Pins  []session.Seq `json:"pins"`
	Pairs int           `json:"pairs"`
	// Free tells that the summarizer is the embedded one, which calls no model.
	Free  bool      `json:"free"`
	Cost  *costInfo `json:"cost,omitempty"`
	Saved string    `json:"saved,omitempty"`
	Notes []string  `json:"notes,omitempty"`
}

// costInfo is in US dollars, by the price list in package models.
type costInfo struct {
	// Model is the agent's model, whose price the requests have.
	Model string `json:"model"`
	// Summary is the most that the summarizer costs, RequestBefore and
	// RequestAfter what the prompt of one request costs without a cache.
	Summary       float64 `json:"summary"`
	RequestBefore float64 `json:"request_before"`
	RequestAfter  float64 `json:"request_after"`
	// BreakEven is after how many cached requests the compaction has paid for
	// the cache that it spoils; 0 when it never does or that is unknown.
	BreakEven int `json:"break_even"`
}

func (a *app) planCommand() *cobra.Command {
	var f compactFlags
	var save, agentModel string
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Say what compact would replace and keep, and what that costs",
		Long: `plan says what a compaction by hand would do, and does nothing: the span with
its edges, what stays, tokens before and after, the summarizer's calls, what it
costs and when that is earned back. The plan can be saved; compact --plan
carries out exactly that, or refuses because the session has changed.`,
		Example: `  agentcompact plan session.jsonl
  agentcompact plan --ratio 0.2 --save plan.json session.jsonl
  agentcompact compact --plan plan.json session.jsonl
  agentcompact plan --json --agent-model claude-sonnet-4-5 session.jsonl | jq .cost`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.force = cmd.Flags().Changed("window")
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.plan(cmd.Context(), args[0], &f, save, agentModel)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.StringVar(&save, "save", "", "write the plan to `FILE`, which must not exist")
	fl.StringVar(&agentModel, "agent-model", "", "`MODEL` of the agent, for prices (default: the one that the transcript names)")
	fl.IntVar(&f.window, "window", 0, "context window of the agent's model in `TOKENS`")
	fl.Float64Var(&f.ratio, "ratio", 0, "`SHARE` of the tokens that tail and checkpoint together may take, above 0 and below 1")
	fl.StringVar(&f.target, "target", "", "part of the conversation: `steps|history|full_replace`")
	fl.Int64SliceVar(&f.keep, "keep", nil, "messages that stay visible, by `SEQ`, with commas between")
	fl.IntVar(&f.conversation, "conversation", 0, "which conversation of the file, from 1 (default the first)")
	fl.StringVar(&f.instructions, "instructions", "", "`TEXT` that tells the summarizer what matters")
	fl.StringVar(&f.model, "model", "", "plan for this `MODEL` of an OpenAI-compatible endpoint as summarizer")
	fl.StringVar(&f.baseURL, "base-url", "", "`URL` of the endpoint (default that of OpenAI)")
	fl.StringVar(&f.keyEnv, "key-env", "OPENAI_API_KEY", "environment `VARIABLE` that holds the key")
	fl.BoolVar(&f.fallback, "fallback", false, "with --model: use the embedded summarizer when the model fails")
	return cmd
}

func (a *app) plan(ctx context.Context, path string, f *compactFlags, save, agentModel string) error {
	a.status("reading " + path)
	in, err := load(ctx, path, f.conversation, false)
	a.status("")
	if err != nil {
		return err
	}
	defer in.session.Close()
	if save != "" && !free(save) {
		return fmt.Errorf("%s exists already: choose another name for the plan", save)
	}
	v := in.session.View()
	e, err := f.engine(v, (&compacted{}).outside(in, f.window))
	if err != nil {
		return err
	}
	opts := &compact.NowOptions{Instructions: f.instructions, Keep: seqsOf(f.keep)}
	if f.target != "" {
		opts.Target, _ = target.Parse(f.target) // checked
	}
	p, err := e.Plan(ctx, compact.Agent{Session: in.session}, opts)
	var ce *compact.Error
	if errors.As(err, &ce) && nothing(ce.Code) {
		return &exitError{code: exitNothing, err: fmt.Errorf("%s: nothing to compact: %s", path, because(ce))}
	}
	if err != nil {
		return fmt.Errorf("%s: %w%s", path, err, advice(ce))
	}
	out := describe(v, p)
	out.Notes, out.Free = in.notes, f.model == ""
	if agentModel == "" {
		_, agentModel = compact.Agent{Session: in.session}.Route()
	}
	out.Cost = costOf(v, p, agentModel, f.model)
	if save != "" {
		err := saveJSON(save, savedPlan{Version: 1, Transcript: path, Format: in.format(), Conversation: in.index + 1,
			Window: f.window, Ratio: f.ratio, Model: f.model, BaseURL: f.baseURL, Fallback: f.fallback, Plan: p})
		if err != nil {
			return err
		}
		out.Saved = save
	}
	if f.json {
		return a.json(out)
	}
	return a.printPlan(path, out)
}

// saveJSON writes a new file.
func saveJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return saveNew(path, append(data, '\n'))
}

// saveNew writes a file that must not exist yet.
func saveNew(path string, data []byte) error {
	if err := writable(path); err != nil {
		return err
	}
	tmp, err := writeTemp(path, data, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	return new(placing).link(tmp, path)
}

// readPlan takes the settings from the plan that --plan names.
func (f *compactFlags) readPlan(cmd *cobra.Command) error {
	if f.plan == "" {
		return nil
	}
	for _, name := range []string{"window", "ratio", "target", "start", "end", "force", "instructions", "model", "base-url", "fallback", "keep", "pin"} {
		if cmd.Flags().Changed(name) {
			return usage("--plan says it all: leave --%s out, or make another plan", name)
		}
	}
	data, err := os.ReadFile(f.plan)
	if err != nil {
		return fileError(f.plan, err)
	}
	var s savedPlan
	if err := json.Unmarshal(data, &s); err != nil || s.Version != 1 || s.Plan == nil {
		return fmt.Errorf("%s is not a plan that plan --save wrote", f.plan)
	}
	if cmd.Flags().Changed("conversation") && f.conversation != s.Conversation {
		return usage("the plan is for conversation %d", s.Conversation)
	}
	f.conversation, f.window, f.ratio = s.Conversation, s.Window, s.Ratio
	f.model, f.baseURL, f.fallback, f.target = s.Model, s.BaseURL, s.Fallback, s.Plan.Target
	f.planned, f.force = s.Plan, s.Window > 0
	return nil
}

// describe says in terms of the surface what a plan is about.
func describe(v session.View, p *compact.Plan) *planned {
	out := &planned{Plan: p, Pins: []session.Seq{}}
	start, err1 := v.Position(p.Shadowed.Start)
	end, err2 := v.Position(p.Shadowed.End)
	if err1 != nil || err2 != nil {
		return out
	}
	edge := func(i int) edgeInfo {
		n := v.Node(i)
		e := edgeInfo{Seq: n.Seq, Role: n.Role()}
		if text, err := recall.Transcript(v, n.Seq); err == nil {
			_, text, _ = strings.Cut(text, "\n")
			e.Text = short(text, 60)
		}
		return e
	}
	out.First, out.Last = edge(start), edge(end)
	if end+1 < v.Len() {
		next := edge(end + 1)
		out.Next = &next
	}
	out.Stays = v.Len() - p.Count
	for i := start; i <= end; i++ {
		n := v.Node(i)
		switch {
		case v.Pinned(n.Seq):
			out.Pins = append(out.Pins, n.Seq)
		case !slices.Contains(p.Kept, n.Seq):
			out.Pairs += len(n.Results())
		}
	}
	return out
}

// short returns the beginning of a text on one line.
func short(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return strings.TrimSpace(string(r[:n-1])) + "…"
	}
	return s
}

// costOf prices a plan; nil when the agent's model has no known price.
func costOf(v session.View, p *compact.Plan, agentModel, summarizer string) *costInfo {
	m, ok := models.Embedded().Lookup(agentModel)
	if !ok || m.Price.Input == 0 {
		return nil
	}
	const million = 1e6
	c := &costInfo{Model: agentModel, RequestBefore: float64(p.Before) * m.Price.Input / million, RequestAfter: float64(p.After) * m.Price.Input / million}
	checkpoint := p.After - (p.Before - p.Span)
	if s, ok := models.Embedded().Lookup(summarizer); ok && p.Calls > 0 {
		c.Summary = (float64(p.Span)*s.Price.Input + float64(p.Calls*checkpoint)*s.Price.Output) / million
	}
	cached, written := m.Price.CacheRead, m.Price.CacheWrite
	if cached == 0 {
		return c
	}
	if written == 0 {
		written = m.Price.Input
	}
	// What stands behind the envelope is not in the cache once.
	once := c.Summary + float64(p.After-v.EnvelopeTokens())*(written-cached)/million
	if gain := float64(p.Before-p.After) * cached / million; gain > 0 {
		c.BreakEven = max(int(math.Ceil(once/gain)), 1)
	}
	return c
}

func (a *app) printPlan(path string, out *planned) error {
	w := bufio.NewWriter(a.stdout)
	p := out.Plan
	fmt.Fprintf(w, "%s: %s\n", path, a.bold(fmt.Sprintf("%d tokens → at most %d", p.Before, p.After)))
	fmt.Fprintf(w, "  replaced   %s, %s, by one checkpoint\n", count(p.Count, "message"), count(p.Span, "token"))
	edge := func(name string, e edgeInfo) {
		fmt.Fprintf(w, "  %-10s %d %s: %s\n", name, e.Seq, e.Role, a.dim(visible(e.Text)))
	}
	edge("from", out.First)
	edge("to", out.Last)
	fmt.Fprintf(w, "  pairs      %s with their calls\n", count(out.Pairs, "result"))
	fmt.Fprintf(w, "  stays      %s", count(out.Stays, "message"))
	if out.Next != nil {
		fmt.Fprintf(w, ", from %d on", out.Next.Seq)
	}
	if len(p.Kept) > 0 {
		fmt.Fprintf(w, "; of the span: %s", seqList(p.Kept))
	}
	fmt.Fprintln(w)
	if len(out.Pins) > 0 {
		fmt.Fprintf(w, "  pinned     %s\n", seqList(out.Pins))
	}
	if out.Free {
		fmt.Fprintf(w, "  summarizer %s, no model\n", p.Summarizer)
	} else {
		fmt.Fprintf(w, "  summarizer %s, at most %s\n", p.Summarizer, count(p.Calls, "call"))
	}
	switch c := out.Cost; {
	case c == nil:
		fmt.Fprintf(w, "  price      unknown: name a model with --agent-model\n")
	default:
		fmt.Fprintf(w, "  price      a request with %s: $%.4f → $%.4f", c.Model, c.RequestBefore, c.RequestAfter)
		if c.Summary > 0 {
			fmt.Fprintf(w, ", the summary at most $%.4f", c.Summary)
		}
		fmt.Fprintln(w)
		if c.BreakEven > 0 {
			fmt.Fprintf(w, "  break-even after %s from a warm cache\n", count(c.BreakEven, "request"))
		}
	}
	if out.Saved != "" {
		fmt.Fprintf(w, "  saved      %s: agentcompact compact --plan %s %s\n", out.Saved, out.Saved, path)
	}
	for _, n := range out.Notes {
		fmt.Fprintln(a.stderr, "note:", n)
	}
	return w.Flush()
}

// seqList words some seqs.
func seqList(seqs []session.Seq) string {
	var b strings.Builder
	for i, q := range seqs {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == 12 && len(seqs) > 13 {
			fmt.Fprintf(&b, "and %d more", len(seqs)-i)
			break
		}
		fmt.Fprint(&b, q)
	}
	return b.String()
}
