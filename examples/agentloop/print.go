package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// printer prints what an agent does.
func printer(w io.Writer) watcher {
	return watcher{
		call: func(c session.ToolCall) { fmt.Fprintf(w, "  → %s %s\n", c.Name, c.Arguments) },
		note: func(format string, args ...any) { fmt.Fprintf(w, "  * "+format+"\n", args...) },
		compact: func(before, after session.View, out *compact.Outcome) {
			r := out.Result
			if r == nil {
				fmt.Fprintf(w, "  * %d old tool results gave way to markers: %d → %d tokens\n", len(out.Pruned), out.Tokens, out.After)
				return
			}
			fmt.Fprintf(w, "\n== compaction by %s: %d messages → 1 checkpoint by %s, %d → %d tokens\n",
				r.Trigger, len(r.Seqs), r.Summarizer, out.Tokens, out.After)
			fmt.Fprintln(w, "-- what the model saw before: event, tokens, role, text")
			show(w, before)
			fmt.Fprintln(w, "-- and what it sees now")
			show(w, after)
			fmt.Fprintln(w)
		},
	}
}

// show prints what the model sees: the system messages and the surface, one line a message.
func show(w io.Writer, v session.View) {
	if e, _ := v.Envelope(); e != nil {
		for i := range e.System {
			fmt.Fprintf(w, "       %5s  %-9s  %s\n", "", e.System[i].Role, clip(e.System[i].Text()))
		}
	}
	for i := range v.Len() {
		n := v.Node(i)
		fmt.Fprintf(w, "%6d %5d  %-9s  %s\n", n.Seq, n.Tokens, n.Role(), line(v, i))
	}
}

// line is one message of the surface in a line.
func line(v session.View, i int) string {
	m, err := v.Message(i)
	if err != nil {
		return err.Error()
	}
	words := []string{m.Text()}
	for _, p := range m.Parts {
		if c, ok := p.(session.ToolCall); ok {
			words = append(words, c.Name+" "+c.Arguments)
		}
	}
	if compact.IsCheckpointSource(m.Source) {
		words[0] = "[checkpoint] " + words[0]
	}
	return clip(strings.Join(words, " "))
}

// clip puts a text on one short line.
func clip(s string) string {
	const most = 88
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}
