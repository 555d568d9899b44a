package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

// The real window of the scripted model is smaller than what the agent is told. That of the summarizer,
// which is another model at the same server, is large enough.
const (
	agentModel     = "scripted-agent"
	summaryModel   = "scripted-summarizer"
	realWindow     = 6_000
	believedWindow = 10_000
)

// newScriptedModel starts the server that plays both models.
func newScriptedModel() *summarizetest.Server {
	script := agentScript()
	var next atomic.Int64
	answer := func(r summarizetest.Request) summarizetest.Reply {
		reply := summarizetest.Text("Nothing more is written for me.")
		if ofSummarizer(r) {
			reply = summarizetest.Text(note(r))
		} else if n := int(next.Add(1)); n <= len(script) {
			reply = script[n-1]
		}
		return reply.WithUsage(summarizetest.Usage{Prompt: tokens(string(r.Body)), Completion: tokens(reply.Content) + 20*len(reply.ToolCalls)})
	}
	return summarizetest.Start(summarizetest.Config{
		Script:     []summarizetest.Reply{summarizetest.Func(answer)},
		RealWindow: realWindow,
		Estimate: func(r summarizetest.Request) int {
			if ofSummarizer(r) {
				return 0
			}
			return tokens(string(r.Body))
		},
	})
}

func ofSummarizer(r summarizetest.Request) bool {
	chat, err := r.Chat()
	return err == nil && chat.Model == summaryModel
}

func tokens(s string) int { return (len(s) + 3) / 4 }

// agentScript is what the agent's model answers, request by request.
func agentScript() []summarizetest.Reply {
	calls := 0
	call := func(name string, args any) summarizetest.ToolCall {
		calls++
		raw, _ := json.Marshal(args)
		return summarizetest.ToolCall{ID: fmt.Sprintf("call_%d", calls), Name: name, Arguments: string(raw)}
	}
	read := func(names ...string) summarizetest.Reply {
		var out []summarizetest.ToolCall
		for _, name := range names {
			out = append(out, call("read_file", map[string]string{"path": name}))
		}
		return summarizetest.Call(out...)
	}
	run := func(args ...string) summarizetest.Reply {
		return summarizetest.Call(call("run", map[string][]string{"args": args}))
	}
	script := []summarizetest.Reply{run("ls")}
	for n := 1; n <= meetings; n++ {
		switch n {
		case 3: // two calls at once
			script = append(script, read(minutesName(3), minutesName(4)))
		case 4:
		case 9:
			script = append(script, summarizetest.Text(tasks(1, 8)), read(minutesName(9)))
		case 13: // the process dies in the first one
			script = append(script, read(minutesName(13)), read(minutesName(13)))
		case 17:
			script = append(script, summarizetest.Text(tasks(9, 16)), read(minutesName(17)))
		default:
			script = append(script, read(minutesName(n)))
		}
	}
	return append(script, run("grep", "-h", "ACTION", "-r", "."), summarizetest.Text(tasks(17, meetings)))
}

// note is the summarizer's answer. It names the meetings that it was shown.
func note(r summarizetest.Request) string {
	var read []string
	for n := 1; n <= meetings; n++ {
		if strings.Contains(string(r.Body), minutesName(n)) {
			read = append(read, "- "+minutesName(n)+": "+task(n))
		}
	}
	return `## Goal
Read the minutes of 24 meetings and say who has to do what. Never read private.txt.
## State
The minutes listed below are read.
## Done
` + strings.Join(read, "\n") + `
## Failures
none
## Decisions
none
## Next
Go on with the next minutes.`
}

const meetings = 24

func minutesName(n int) string { return fmt.Sprintf("minutes-%02d.txt", n) }

// task is what a meeting asks of somebody.
func task(n int) string {
	who := []string{"Ada", "Bo", "Chen", "Dara", "Emeka"}
	what := []string{"renew the certificate", "order the new switches", "move the backups", "answer the auditors"}
	return fmt.Sprintf("%s has to %s", who[n%len(who)], what[n%len(what)])
}

func tasks(from, to int) string {
	var b strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintf(&b, "%d: %s. ", n, task(n))
	}
	return strings.TrimSpace(b.String())
}

// writeMinutes fills the folder.
func writeMinutes(dir string) error {
	topics := []string{"the move to the new office", "the backup that failed", "the invoices of spring", "the new mail server", "the audit", "holidays"}
	for n := 1; n <= meetings; n++ {
		var b strings.Builder
		fmt.Fprintf(&b, "Minutes of meeting %d\n\n", n)
		for i := 1; b.Len() < 2400; i++ {
			fmt.Fprintf(&b, "We spoke about %s for %d minutes and came to no decision.\n", topics[(n*i)%len(topics)], 3+(n+5*i)%17)
			if i == 12 {
				fmt.Fprintf(&b, "ACTION of meeting %d: %s.\n", n, task(n))
			}
		}
		if err := os.WriteFile(filepath.Join(dir, minutesName(n)), []byte(b.String()), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "private.txt"), []byte("not for agents\n"), 0o600)
}
