// Hosttype is an agent with a message type of its own that compacts the steps
// of one long turn while it works. It needs no key and no network.
//
//	go run ./examples/hosttype
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/streamproc"
	"github.com/agentcompact/agentcompact/summarize"
)

// Entry is what this agent keeps of its work. It is nothing like a chat
// message, and stays that way.
type Entry struct {
	Kind   string // "said", "call", "result" or "summary"
	Text   string
	Tool   string
	Input  string
	Output string
	Ticket int    // of a tool run, unique in the turn
	Memo   string // id of the compaction that wrote a summary
}

// adapter is all that compaction has to know of an Entry. Calls and results are
// paired by their tickets.
var adapter = streamproc.Adapter[Entry]{
	To: func(e Entry) (session.Message, error) {
		switch e.Kind {
		case "said":
			return session.AssistantText(e.Text), nil
		case "call":
			return session.AssistantText(e.Text, session.ToolCall{ID: fmt.Sprint(e.Ticket), Name: e.Tool, Arguments: fmt.Sprintf("{\"path\":%q}", e.Input)}), nil
		case "result":
			return session.ToolText(fmt.Sprint(e.Ticket), e.Output), nil
		case "summary":
			m := session.UserText(e.Text)
			m.Source = compact.CheckpointSource(e.Memo)
			return m, nil
		}
		return session.Message{}, fmt.Errorf("unknown kind %q", e.Kind)
	},
	From: func(m session.Message) (Entry, error) {
		return Entry{Kind: "summary", Text: m.Text(), Memo: m.Source.Ref}, nil
	},
}

const window = 6000

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	policy := streamproc.Recommended()
	policy.Mode, policy.StepsTriggerRatio, policy.QueryChars = streamproc.StepsOnly, 0, 0
	policy.MinTokens = 500
	steps := streamproc.NewSlice(adapter, nil, nil)
	opts := &streamproc.Options{Policy: policy, Window: window, Observer: &streamproc.Observer{
		Ended: func(e streamproc.End) { fmt.Fprintf(out, "  compaction: %s %s\n", e.Status, e.Label) },
	}}
	for n := range 60 {
		// One step: a call and what it found.
		file := fmt.Sprintf("pkg/part%02d.go", n)
		steps.Append(
			Entry{Kind: "call", Text: "I look at " + file, Tool: "read", Input: file, Ticket: n},
			Entry{Kind: "result", Output: read(n, file), Ticket: n})
		if n%7 == 6 {
			steps.Append(Entry{Kind: "said", Text: fmt.Sprintf("Parts %d to %d are checked; handler%d needs a timeout.", n-6, n, n-2)})
		}
		list, err := steps.AccumulatedSteps(ctx)
		if err != nil {
			return err
		}
		used := tokens(list)
		due, err := streamproc.ShouldCompact(policy, used, window, n+1)
		if err != nil {
			return err
		}
		if due == nil {
			continue
		}
		fmt.Fprintf(out, "step %d: %d of %d tokens (%d%%)\n  before: %s\n", n+1, due.Tokens, due.Window, due.Percent, outline(list))
		r, err := streamproc.ApplySteps(ctx, steps, adapter, summarize.NewExtractive(nil), opts)
		switch {
		case errors.Is(err, streamproc.NothingToCompact):
			continue // the turn goes on; nothing was changed
		case err != nil:
			fmt.Fprintf(out, "  not compacted (%s): %v\n", streamproc.Label(err), err)
			continue
		}
		if list, err = steps.AccumulatedSteps(ctx); err != nil {
			return err
		}
		fmt.Fprintf(out, "  after:  %s\n  %d entries of %d tokens became one of %d\n", outline(list), r.Items, r.Before, r.After)
	}
	list, err := steps.AccumulatedSteps(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the turn ends with %d entries; the first one is:\n%s\n", len(list), list[0].Text)
	return nil
}

// read stands for a tool.
func read(n int, file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n", file)
	for i := range 12 {
		fmt.Fprintf(&b, "func handler%d_%d(ctx context.Context) error { return serve(ctx, %d) }\n", n, i, 8000+n)
	}
	return b.String()
}

// tokens is what this agent thinks its entries cost: a token for four bytes. A
// real one has the provider's usage report.
func tokens(list []Entry) (n int) {
	for _, e := range list {
		n += (len(e.Text) + len(e.Input) + len(e.Output) + 3) / 4
	}
	return n
}

// outline shows a history in one line.
func outline(list []Entry) string {
	count := map[string]int{}
	for _, e := range list {
		count[e.Kind]++
	}
	return fmt.Sprintf("%d entries, %d tokens (%d summaries, %d calls, %d results, %d remarks)",
		len(list), tokens(list), count["summary"], count["call"], count["result"], count["said"])
}
