package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/target"
)

type compactFlags struct {
	json         bool
	out          string
	window       int
	ratio        float64
	target       string
	start, end   int64
	force        bool
	conversation int
	instructions string
	model        string
	baseURL      string
	keyEnv       string
	fallback     bool
	keep, pin    []int64
	plan         string
	planned      *compact.Plan // what the file of plan says
}

// sizeInfo is the size of a conversation in the command's JSON.
type sizeInfo struct {
	Messages int `json:"messages"`
	Tokens   int `json:"tokens"`
}

// String words a size.
func (s sizeInfo) String() string {
	return count(s.Messages, "message") + ", " + count(s.Tokens, "token")
}

type rangeInfo struct {
	Start session.Seq `json:"start"`
	End   session.Seq `json:"end"`
}

// compacted is what compact prints. Fields may be added, not renamed.
type compacted struct {
	Compacted bool `json:"compacted"`
	// Reason says why nothing was compacted, or what asked for it.
	Reason   string     `json:"reason"`
	Code     string     `json:"code,omitempty"`
	Format   string     `json:"format"`
	Before   sizeInfo   `json:"before"`
	After    sizeInfo   `json:"after"`
	Range    *rangeInfo `json:"range"`
	Shadowed int        `json:"shadowed"`
	// Kept are the messages of the range that stayed, by seq.
	Kept       []session.Seq `json:"kept,omitempty"`
	Pruned     int           `json:"pruned"`
	Summarizer string        `json:"summarizer"`
	Calls      int           `json:"calls"`
	Usage      *usageInfo    `json:"usage,omitempty"`
	Redacted   int           `json:"redacted"`
	Problems   []problem     `json:"problems"`
	Out        string        `json:"out"`
	Sidecar    string        `json:"sidecar"`
	Backup     string        `json:"backup,omitempty"`
	Notes      []string      `json:"notes,omitempty"`
}

type usageInfo struct {
	Prompt     int `json:"prompt"`
	Completion int `json:"completion"`
	CacheRead  int `json:"cache_read"`
}

func (a *app) compactCommand() *cobra.Command {
	var f compactFlags
	cmd := &cobra.Command{
		Use:   "compact FILE",
		Short: "Replace the older part of a transcript by a checkpoint",
		Long: `compact writes a shorter transcript in the same format, which its agent can
continue. With --window it acts as an agent with that context window would:
below 80 % of it there is nothing to do (exit 3). Without, it compacts by hand:
the recent 16 % of the tokens stay as they are.

What the checkpoint hides goes to a log beside the output, OUT.agentcompact.jsonl.
A session of our own format is compacted in place, by appending to it; its agent
may be running.`,
		Example: `  agentcompact compact session.jsonl
  agentcompact compact --window 128000 -o short.jsonl session.jsonl
  agentcompact compact --ratio 0.1 --instructions "keep the API decisions" session.json
  agentcompact compact --start 12 --end 88 session.jsonl
  agentcompact compact --pin 3 --keep 17,18 session.jsonl
  agentcompact plan --save plan.json session.jsonl && agentcompact compact --plan plan.json session.jsonl
  agentcompact compact --model gpt-5-mini --base-url http://localhost:8080/v1 session.jsonl`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if err := f.readPlan(cmd); err != nil {
				return err
			}
			return a.compact(cmd.Context(), args[0], &f, cmd.Flags().Changed("start"))
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.StringVarP(&f.out, "output", "o", "", "write the result to `FILE`; the input itself is replaced atomically, with a backup (default: beside the input under the next free name)")
	fl.IntVar(&f.window, "window", 0, "context window of the agent's model in `TOKENS`: compact only under pressure")
	fl.Float64Var(&f.ratio, "ratio", 0, "`SHARE` of the tokens that tail and checkpoint together may take, above 0 and below 1; the system prompt and a prompt that stays are not counted")
	fl.StringVar(&f.target, "target", "", "part of the conversation: `steps|history|full_replace`")
	fl.Int64Var(&f.start, "start", -1, "first message of the span to replace, by its `SEQ` (see inspect --messages)")
	fl.Int64Var(&f.end, "end", -1, "last message of the span to replace, by its `SEQ`")
	fl.BoolVar(&f.force, "force", false, "with --window: compact also below the threshold")
	fl.IntVar(&f.conversation, "conversation", 0, "which conversation of the file, from 1 (default the first)")
	fl.StringVar(&f.instructions, "instructions", "", "`TEXT` that tells the summarizer what matters")
	fl.StringVar(&f.model, "model", "", "write the summary with this `MODEL` of an OpenAI-compatible endpoint")
	fl.StringVar(&f.baseURL, "base-url", "", "`URL` of the endpoint (default that of OpenAI)")
	fl.StringVar(&f.keyEnv, "key-env", "OPENAI_API_KEY", "environment `VARIABLE` that holds the key")
	fl.Int64SliceVar(&f.keep, "keep", nil, "messages that stay visible this time, by `SEQ`, with commas between")
	fl.Int64SliceVar(&f.pin, "pin", nil, "messages that are pinned first and stay visible from now on, by `SEQ`, with commas between")
	fl.StringVar(&f.plan, "plan", "", "carry out the plan in `FILE` that plan --save wrote, or refuse because the session has changed")
	fl.BoolVar(&f.fallback, "fallback", false, "with --model: use the embedded summarizer when the model fails")
	return cmd
}

func (f *compactFlags) check(cmd *cobra.Command) error {
	set := cmd.Flags().Changed
	switch {
	case set("window") && f.window <= 0:
		return usage("--window must be a number of tokens above 0")
	case set("ratio") && !(f.ratio > 0 && f.ratio < 1):
		return usage("--ratio must be above 0 and below 1")
	case set("start") != set("end"):
		return usage("--start and --end go together")
	case set("start") && (f.start < 0 || f.end < 0):
		return usage("--start and --end must be seqs of messages: see inspect --messages")
	case set("start") && (set("window") || set("ratio") || set("target")):
		return usage("--start and --end name the span themselves: leave --window, --ratio and --target out")
	case set("window") && set("ratio"):
		return usage("--window and --ratio are two policies: choose one")
	case f.force && !set("window"):
		return usage("--force goes with --window; without it every compaction is by hand")
	case set("conversation") && f.conversation < 1:
		return usage("--conversation counts from 1")
	case f.model == "" && (set("base-url") || set("key-env") || f.fallback):
		return usage("--base-url, --key-env and --fallback go with --model")
	case set("window") && !f.force && (set("target") || set("instructions") || set("keep")):
		return usage("--target, --instructions and --keep are for compactions by hand: add --force or leave --window out")
	case set("start") && (set("keep") || set("instructions")):
		return usage("--keep and --instructions do not go with --start and --end; --pin does")
	}
	if f.target != "" {
		if _, err := target.Parse(f.target); err != nil {
			return usage("--target: %v", err)
		}
	}
	return nil
}

func (a *app) compact(ctx context.Context, path string, f *compactFlags, region bool) error {
	ed, err := a.begin(ctx, path, f.conversation, f.out)
	if err != nil {
		return err
	}
	defer ed.close()
	in := ed.in
	before := in.session.View()
	out := &compacted{Format: in.format(), Before: sizeOf(before), After: sizeOf(before), Problems: problems(in.session), Notes: in.notes}
	e, err := f.engine(before, out.outside(in, f.window))
	if err != nil {
		return err
	}
	if err := pin(ctx, in.session, seqsOf(f.pin), false); err != nil {
		return fmt.Errorf("%s: --pin: %w", path, err)
	}
	err = f.run(a.withProgress(ctx), e, compact.Agent{Session: in.session}, region, out)
	a.status("")
	var ce *compact.Error
	errors.As(err, &ce)
	if ce != nil && nothing(ce.Code) || err == nil && !out.Compacted {
		if ce != nil {
			out.Code, out.Reason = string(ce.Code), because(ce)
		}
		return a.nothing(f, path, out)
	}
	if err != nil {
		var ee *endpointError
		if err = f.endpointError(err); errors.As(err, &ee) {
			return fmt.Errorf("%s: %w", path, err)
		}
		return fmt.Errorf("%s: %w%s", path, err, advice(ce))
	}
	out.After = sizeOf(in.session.View())
	err = a.finish(ctx, ed, out)
	if err != nil {
		return err
	}
	if f.json {
		return a.json(out)
	}
	return a.printCompacted(path, out)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// because says why there was nothing to compact.
func because(e *compact.Error) string {
	switch {
	case e.Code == compact.NotSmaller && e.Err != nil:
		return "a checkpoint would not be smaller than what it replaces: " + e.Err.Error()
	case e.Detail != "" && e.Err != nil:
		return e.Detail + ": " + e.Err.Error()
	case e.Detail != "":
		return e.Detail
	case e.Err != nil:
		return e.Err.Error()
	}
	return string(e.Code)
}

// nothing reports whether the code means that there was nothing to do.
func nothing(c compact.Code) bool {
	switch c {
	case compact.BelowThreshold, compact.NothingToCompact, compact.NoProgress, compact.Floor, compact.NotSmaller, compact.BreakerOpen, compact.IsPinned:
		return true
	}
	return false
}

func advice(e *compact.Error) string {
	if e == nil || e.Code.Advice() == "" {
		return ""
	}
	return " (" + e.Code.Advice() + ")"
}

func (a *app) nothing(f *compactFlags, path string, out *compacted) error {
	if f.json {
		if err := a.json(out); err != nil {
			return err
		}
	} else {
		a.notes(out)
	}
	return &exitError{code: exitNothing, err: fmt.Errorf("%s: nothing to compact: %s", path, out.Reason)}
}

// thresholdRatio is the share of a window above which there is pressure.
const thresholdRatio = 0.8

// defaultTail is the share of the tokens that stays when compacting by hand.
const defaultTail = 0.16

// outside returns what the window must hold besides what the file does, and
// notes it. A report that leaves no room in the window is none of an agent with
// that window.
func (out *compacted) outside(in *input, window int) int {
	more := in.overhead()
	if window == 0 || more == 0 || more > window/2 {
		return 0
	}
	out.Notes = append(out.Notes, fmt.Sprintf("the provider reports %d tokens more than the file holds, for prompts and tools; the window must hold them, too", more))
	return more
}

// engine makes the engine of a policy; outside is what the window holds besides
// the session.
func (f *compactFlags) engine(v session.View, outside int) (*engine.Engine, error) {
	var o engine.Options
	switch {
	case f.window > 0:
		o.Windows = engine.FixedWindow(f.window)
		if outside > 0 {
			o.Policy.ThresholdTokens = max(int(thresholdRatio*float64(f.window))-outside, 1)
		}
	case f.ratio > 0:
		o.Policy.TotalRatio = f.ratio
	default:
		o.Policy.RetainRatio = defaultTail
	}
	if f.target == target.FullReplace.String() {
		o.Policy.RetainRatio, o.Policy.NoTail = 0, true
	}
	o.NewID = ids(v)
	s, err := f.summarizer(&o)
	if err != nil {
		return nil, err
	}
	return engine.New(s, &o)
}

// ids makes compaction ids that follow from the session, so that the same file
// and flags give the same bytes.
func ids(v session.View) func() string {
	h := sha256.New()
	fmt.Fprint(h, v.Next(), v.Generation())
	for _, i := range []int{0, v.Len() / 2, v.Len() - 1} {
		if i >= 0 && i < v.Len() {
			if m, err := v.Message(i); err == nil {
				fmt.Fprint(h, contentHash(m))
			}
		}
	}
	seed, n := h.Sum(nil), 0
	return func() string {
		n++
		sum := sha256.Sum256(fmt.Appendf(seed[:len(seed):len(seed)], "/%d", n))
		return hex.EncodeToString(sum[:8])
	}
}

func (f *compactFlags) summarizer(o *engine.Options) (summarize.Summarizer, error) {
	embedded := summarize.NewExtractive(nil)
	if f.model == "" {
		return embedded, nil
	}
	if f.fallback {
		o.Run.Fallback = embedded
	}
	key := os.Getenv(f.keyEnv)
	if key == "" && f.baseURL == "" {
		return nil, usage("--model %s: the environment variable %s holds no key; name another one with --key-env, or an endpoint without a key with --base-url", f.model, f.keyEnv)
	}
	s, err := summarize.NewLLM(summarize.LLMOptions{Model: f.model, BaseURL: f.baseURL, APIKey: key})
	if err != nil {
		return nil, fmt.Errorf("--model %s: %w", f.model, err)
	}
	return s, nil
}

// run compacts and fills in what came of it.
func (f *compactFlags) run(ctx context.Context, e *engine.Engine, agent compact.Agent, region bool, out *compacted) error {
	var r *compact.Result
	var err error
	switch {
	case f.planned != nil:
		r, err = e.Apply(ctx, agent, f.planned)
	case region:
		r, err = e.CompactRegion(ctx, agent, session.Seq(f.start), session.Seq(f.end))
	case f.window > 0 && !f.force:
		var o *compact.Outcome
		o, err = e.Consider(ctx, agent, compact.Pressure)
		if err == nil {
			r = o.Result
			out.Pruned = len(o.Pruned)
			out.Code, out.Reason = string(o.Code), o.Reason
			out.Compacted = len(o.Pruned) > 0
			if out.Compacted && r == nil {
				switch o.Code {
				case "":
					out.Reason = "shortening tool results was enough"
				default: // it was not, and what it saved does not help
					out.Compacted, out.Pruned = false, 0
				}
			}
		}
	default:
		opts := &compact.NowOptions{Instructions: f.instructions, Keep: seqsOf(f.keep)}
		if f.target != "" {
			opts.Target, _ = target.Parse(f.target) // checked
		}
		r, err = e.CompactNow(ctx, agent, opts)
	}
	if err != nil || r == nil {
		return err
	}
	out.Compacted, out.Code, out.Reason = true, "", string(r.Trigger)
	v := agent.Session.View()
	out.Range = &rangeInfo{origin(v, r.Shadowed.Start), origin(v, r.Shadowed.End)}
	for _, q := range r.Kept {
		out.Kept = append(out.Kept, origin(v, q))
	}
	out.Shadowed, out.Summarizer, out.Calls, out.Redacted = len(r.Seqs), r.Summarizer, len(r.Calls), r.Redacted
	if len(r.Calls) > 0 {
		out.Usage = new(usageInfo)
		for _, c := range r.Calls {
			out.Usage.Prompt += c.Prompt
			out.Usage.Completion += c.Completion
			out.Usage.CacheRead += c.CacheRead
		}
	}
	return nil
}

func sizeOf(v session.View) sizeInfo {
	n := v.Len()
	if e, _ := v.Envelope(); e != nil {
		n += len(e.System)
	}
	return sizeInfo{Messages: n, Tokens: counted(v)}
}

func (a *app) printCompacted(path string, out *compacted) error {
	w := bufio.NewWriter(a.stdout)
	fmt.Fprintf(w, "%s: %s → %s\n", path, out.Before, out.After)
	if out.Shadowed > 0 {
		fmt.Fprintf(w, "  checkpoint of %s by %s", count(out.Shadowed, "message"), out.Summarizer)
		if out.Calls > 0 {
			fmt.Fprintf(w, ", %s", count(out.Calls, "call"))
		}
		fmt.Fprintln(w)
	}
	if out.Pruned > 0 {
		fmt.Fprintf(w, "  %s shortened\n", count(out.Pruned, "tool result"))
	}
	if out.Redacted > 0 {
		fmt.Fprintf(w, "  %s replaced by placeholders\n", count(out.Redacted, "secret"))
	}
	fmt.Fprintf(w, "  written to %s\n", out.Out)
	if out.Sidecar != "" {
		fmt.Fprintf(w, "  everything that is hidden is in %s\n", out.Sidecar)
	}
	if out.Backup != "" {
		fmt.Fprintf(w, "  the file as it was is %s\n", out.Backup)
	}
	a.notes(out)
	return w.Flush()
}

func (a *app) notes(out *compacted) {
	for _, n := range out.Notes {
		fmt.Fprintln(a.stderr, "note:", n)
	}
}

// count words a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// status draws one line on a terminal, in the place of the last one; an empty
// line takes it away.
func (a *app) status(line string) {
	if a.progress {
		fmt.Fprintf(a.stderr, "\r\x1b[K%s", line)
	}
}

// withProgress draws what the summarizer is doing.
func (a *app) withProgress(ctx context.Context) context.Context {
	a.status("compacting")
	return engine.WithProgress(ctx, func(p summarize.Progress) {
		line := "compacting: " + p.Stage
		if p.Total > 0 {
			line += fmt.Sprintf(" %d/%d", p.Done, p.Total)
		}
		a.status(line)
	})
}
