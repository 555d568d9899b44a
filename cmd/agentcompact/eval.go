package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/internal/eval"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
)

func (a *app) evalCommand() *cobra.Command {
	var f compactFlags
	var ratios, plot string
	cmd := &cobra.Command{
		Use:   "eval FILE...",
		Short: "Measure how much of what an agent needed later a compaction keeps",
		Long: `eval cuts a recorded session where compaction would have fired and compacts what
is before the cut. It counts the exact literals (paths, identifiers, numbers,
URLs) that the agent used after the cut from memory: how many of them the result
still holds, how many quoted with their neighbors, and how many can be read
back. Beside it stand plain truncation (tail), masked tool results (mask) and
everything (full). No model judges anything.`,
		Example: `  agentcompact eval session.jsonl
  agentcompact eval --ratios 0.1,0.2 --plot recall.svg sessions/*.jsonl
  agentcompact eval --json session.json | jq '.[].rows'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s: name transcript files", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			list, err := parseRatios(ratios)
			if err != nil {
				return err
			}
			return a.eval(cmd.Context(), args, &f, list, plot)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.StringVar(&ratios, "ratios", "0.05,0.10,0.20,0.30", "`SHARES` of the tokens to compact to, with commas between")
	fl.StringVar(&plot, "plot", "", "draw the medians into an SVG `FILE`, which must not exist")
	fl.StringVar(&f.model, "model", "", "write the summaries with this `MODEL` of an OpenAI-compatible endpoint")
	fl.StringVar(&f.baseURL, "base-url", "", "`URL` of the endpoint (default that of OpenAI)")
	fl.StringVar(&f.keyEnv, "key-env", "OPENAI_API_KEY", "environment `VARIABLE` that holds the key")
	fl.BoolVar(&f.fallback, "fallback", false, "with --model: use the embedded summarizer when the model fails")
	return cmd
}

func parseRatios(s string) ([]float64, error) {
	var out []float64
	for part := range strings.SplitSeq(s, ",") {
		r, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(r > 0 && r < 1) { // NaN is none
			return nil, usage("--ratios: %q is not a share above 0 and below 1", part)
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (a *app) eval(ctx context.Context, paths []string, f *compactFlags, ratios []float64, plot string) error {
	if plot != "" && !free(plot) {
		return fmt.Errorf("%s exists already: choose another name for the plot", plot)
	}
	summarizer, err := f.summarizer(new(engine.Options))
	if err != nil {
		return err
	}
	reports := []eval.Report{}
	unread := 0
	for i, path := range paths {
		a.status(fmt.Sprintf("measuring %d/%d %s", i+1, len(paths), path))
		r, err := a.evalFile(ctx, path, ratios, append([]eval.Strategy{eval.Engine(ctx, summarizer, func(err error) {
			a.status("")
			fmt.Fprintf(a.stderr, "note: %s: %v\n", path, err)
		})}, eval.Baselines(tokencount.EstimateText)...))
		a.status("")
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil && len(paths) == 1 {
			return err
		}
		if err != nil {
			fmt.Fprintf(a.stderr, "note: %v\n", err)
			unread++
			continue
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return fmt.Errorf("none of the %d files is a transcript", len(paths))
	}
	if unread > 0 {
		fmt.Fprintf(a.stderr, "note: %d of %s could not be read and are not in the result\n", unread, count(len(paths), "file"))
	}
	if plot != "" {
		if err := saveNew(plot, plotRecall(reports, ratios)); err != nil {
			return err
		}
	}
	if f.json {
		return a.json(reports)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	for _, r := range reports {
		fmt.Fprintf(w, "%s: cut after %s, %s; %s needed later\n", r.File, count(r.Cut, "message"), count(r.TokensBefore, "token"), count(r.Needed, "literal"))
		fmt.Fprintln(w, "  RATIO\tSTRATEGY\tTOKENS\tLITERAL\tQUOTED\tREACHABLE")
		for _, row := range r.Rows {
			fmt.Fprintf(w, "  %.2f\t%s\t%d\t%.2f\t%.2f\t%.2f\n", row.Ratio, row.Strategy, row.TokensAfter, row.Literal, row.Quoted, row.Reachable)
		}
	}
	if len(reports) > 1 {
		fmt.Fprintln(w, "medians over sessions with ten or more needed literals")
		fmt.Fprintln(w, "  RATIO\tSTRATEGY\tSESSIONS\tLITERAL\tQUOTED\tREACHABLE")
		for _, m := range medians(reports, ratios) {
			fmt.Fprintf(w, "  %.2f\t%s\t%d\t%.2f\t%.2f\t%.2f\n", m.Ratio, m.Strategy, m.n, m.Literal, m.Quoted, m.Reachable)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if plot != "" {
		fmt.Fprintf(a.stdout, "drawn in %s\n", plot)
	}
	return nil
}

func (a *app) evalFile(ctx context.Context, path string, ratios []float64, strategies []eval.Strategy) (eval.Report, error) {
	in, err := load(ctx, path, 0, false)
	if err != nil {
		return eval.Report{}, err
	}
	defer in.session.Close()
	v := in.session.View()
	messages, err := recorded(ctx, in)
	if err != nil {
		return eval.Report{}, fmt.Errorf("%s: %w", path, err)
	}
	envelope := ""
	if e, _ := v.Envelope(); e != nil {
		for i := range e.System {
			envelope += e.System[i].Text() + "\n"
		}
		for _, t := range e.Tools {
			envelope += t.Name + " " + t.Description + " " + string(t.Schema) + "\n"
		}
	}
	return eval.Run(path, envelope, messages, tokencount.EstimateText, ratios, strategies), nil
}

// recorded returns the messages of a session as they were recorded, those that
// it compacted since included: only as a whole it tells what was needed later.
func recorded(ctx context.Context, in *input) ([]*session.Message, error) {
	if in.conv != nil && in.index == 0 && in.tree == nil && len(in.conv.Checkpoints) > 0 {
		data, err := os.ReadFile(in.path)
		if err != nil {
			return nil, fileError(in.path, err)
		}
		return eval.Recorded(ctx, data)
	}
	v := in.session.View()
	seqs, err := recall.Recorded(v)
	if err != nil {
		return nil, err
	}
	out := make([]*session.Message, len(seqs))
	for i, q := range seqs {
		ev, err := v.Event(q)
		if err != nil {
			return nil, err
		}
		if out[i], err = ev.Message(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// median is a row over several sessions.
type median struct {
	eval.Row
	n int
}

// enoughNeeded is how many needed literals a session must have to count.
const enoughNeeded = 10

// medians takes the middle of the sessions that say something; of all when none
// does.
func medians(reports []eval.Report, ratios []float64) []median {
	least := enoughNeeded
	if !slices.ContainsFunc(reports, func(r eval.Report) bool { return r.Needed >= least }) {
		least = 0
	}
	var out []median
	for _, ratio := range ratios {
		for _, name := range []string{"agentcompact", "tail", "mask", "full"} {
			var literal, quoted, reachable []float64
			for _, r := range reports {
				for _, row := range r.Rows {
					if r.Needed >= least && row.Ratio == ratio && row.Strategy == name {
						literal, quoted, reachable = append(literal, row.Literal), append(quoted, row.Quoted), append(reachable, row.Reachable)
					}
				}
			}
			if len(literal) > 0 {
				out = append(out, median{eval.Row{Strategy: name, Ratio: ratio, Literal: middle(literal), Quoted: middle(quoted), Reachable: middle(reachable)}, len(literal)})
			}
		}
	}
	return out
}

func middle(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// plotRecall draws quoted recall over the ratio as an SVG that needs nothing.
func plotRecall(reports []eval.Report, ratios []float64) []byte {
	const w, h, left, top, right, bottom = 640, 400, 56, 46, 130, 48
	colors := map[string]string{"agentcompact": "#d61f69", "tail": "#2457d6", "mask": "#c27803", "full": "#8592a3"}
	most := slices.Max(ratios)
	x := func(r float64) float64 { return left + r/most*(w-left-right) }
	y := func(q float64) float64 { return top + (1-q)*(h-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, sans-serif" font-size="13">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, `<title>Quoted recall by ratio</title><rect width="%d" height="%d" fill="#fff"/><text x="%d" y="24" font-size="15" font-weight="600" fill="#17202a">Needed literals still quoted with their neighbors, median</text>`+"\n", w, h, left)
	for i := range 6 {
		q := float64(i) / 5
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#d9dee5"/><text x="%d" y="%.1f" text-anchor="end" fill="#5b6776">%.1f</text>`+"\n", left, w-right, y(q), y(q), left-8, y(q)+4, q)
	}
	for _, r := range ratios {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#5b6776">%.2f</text>`+"\n", x(r), h-bottom+20, r)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#5b6776">share of the tokens that is left</text>`+"\n", x(most/2), h-8)
	rows := medians(reports, ratios)
	labels := 0
	for _, name := range []string{"agentcompact", "full", "mask", "tail"} {
		var points []string
		for _, m := range rows {
			if m.Strategy == name {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(m.Ratio), y(m.Quoted)))
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s at %.2f: %.2f</title></circle>`+"\n", x(m.Ratio), y(m.Quoted), colors[name], name, m.Ratio, m.Quoted)
			}
		}
		if len(points) == 0 {
			continue
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colors[name])
		ly := top + 10 + 22*labels
		labels++
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="2"/><text x="%d" y="%d" fill="#17202a">%s</text>`+"\n", w-right+12, w-right+30, ly, ly, colors[name], w-right+36, ly+4, name)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}
