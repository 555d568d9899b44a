package summarize

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

var sectioned = "## Goal\nCheck the pump.\n## State\nIt runs.\n## Done\nThe pump was checked.\n## Failures\nnone\n## Decisions\nnone\n## Next\nnone"

// TestFailureClasses has a way into every class and shows what is done next.
func TestFailureClasses(t *testing.T) {
	reply := summarizetest.Text
	fail := func(status int, code, message string) summarizetest.Reply {
		return summarizetest.Reply{Status: status, Err: &summarizetest.Error{Code: code, Message: message}}
	}
	broken := func(f summarizetest.Fault) summarizetest.Reply { return summarizetest.Broken(f, note, 5) }
	finish := func(content, finish string) summarizetest.Reply {
		return summarizetest.Reply{Content: content, Finish: finish}
	}
	call := summarizetest.Call(summarizetest.ToolCall{ID: "x", Name: "make", Arguments: "{}"})
	slow := func(seconds string) summarizetest.Reply {
		return fail(429, "rate_limit_exceeded", "Rate limit reached").WithHeader("Retry-After", seconds)
	}
	held := summarizetest.Text(note).WithGate(make(chan struct{}))
	for _, c := range []struct {
		name   string
		script []summarizetest.Reply
		guard  GuardOptions
		opts   RunOptions
		// timesOut is the request that times out as soon as it has arrived.
		timesOut int
		class    Class // of the failure; empty when it succeeds
		calls    []string
		waits    []time.Duration
		says     string // in the second request
	}{
		{name: "whole", script: []summarizetest.Reply{reply(note)}, calls: []string{"summary ok"}},
		{
			name: "transient then well", script: []summarizetest.Reply{fail(500, "", "oops"), reply(note)},
			calls: []string{"summary transient", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "always transient", script: []summarizetest.Reply{fail(503, "", "oops")}, class: Transient,
			calls: []string{"summary transient", "retry transient", "retry transient"},
			waits: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond},
		},
		{
			name: "reset", script: []summarizetest.Reply{{Fault: summarizetest.FaultReset}, reply(note)},
			calls: []string{"summary transient", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "rate limit is waited for", script: []summarizetest.Reply{slow("7"), reply(note)},
			calls: []string{"summary rate_limited", "retry ok"}, waits: []time.Duration{7 * time.Second},
		},
		{
			name: "rate limit beyond the deadline", script: []summarizetest.Reply{slow("3600")}, class: RateLimited,
			opts: RunOptions{Deadline: time.Minute}, calls: []string{"summary rate_limited"},
		},
		{
			name:   "the header says how long, whatever the words say",
			script: []summarizetest.Reply{fail(429, "rate_limit_exceeded", "Rate limit reached. Please try again in 40s.").WithHeader("Retry-After", "7"), reply(note)},
			calls:  []string{"summary rate_limited", "retry ok"}, waits: []time.Duration{7 * time.Second},
		},
		{
			name: "key", script: []summarizetest.Reply{fail(401, "invalid_api_key", "Incorrect API key")}, class: Auth,
			calls: []string{"summary auth"},
		},
		{
			name: "credit", script: []summarizetest.Reply{fail(429, "insufficient_quota", "You exceeded your current quota")}, class: Auth,
			calls: []string{"summary auth"},
		},
		{
			name: "overflow of what is small", script: []summarizetest.Reply{summarizetest.Overflow(10, 20)}, class: Overflow,
			calls: []string{"summary overflow"},
		},
		{
			name: "invalid", script: []summarizetest.Reply{fail(404, "model_not_found", "The model does not exist")}, class: Invalid,
			calls: []string{"summary invalid"},
		},
		{
			name: "filter", script: []summarizetest.Reply{finish("The", "content_filter")}, class: Refused,
			calls: []string{"summary refused"},
		},
		{
			name: "refusal", script: []summarizetest.Reply{{Refusal: "I would rather not."}}, class: Refused,
			calls: []string{"summary refused"},
		},
		{
			name: "empty", script: []summarizetest.Reply{reply("  \n "), reply(note)},
			calls: []string{"summary empty", "retry ok"}, says: "it had no text",
		},
		{
			name: "always empty", script: []summarizetest.Reply{{Null: true}}, class: Empty,
			calls: []string{"summary empty", "retry empty", "retry empty"}, says: "it had no text",
		},
		{
			name: "only a scratchpad", script: []summarizetest.Reply{reply("<think>hm</think>"), reply(note)},
			calls: []string{"summary empty", "retry ok"}, says: "it had no text",
		},
		{
			name: "truncated", script: []summarizetest.Reply{finish("The pump was", "length"), reply(note)},
			calls: []string{"summary truncated", "retry ok"}, says: "Write a shorter note",
		},
		{
			name: "thoughts used up the limit", script: []summarizetest.Reply{{Reasoning: "hm", Finish: "length"}, reply(note)},
			calls: []string{"summary truncated", "retry ok"}, says: "Write a shorter note",
		},
		{
			name: "tool call", script: []summarizetest.Reply{call, reply(note)},
			calls: []string{"summary tool_call", "retry ok"}, says: "it called a tool",
		},
		{
			name: "tool call behind a preamble", script: []summarizetest.Reply{
				{Content: "Let me look at the pump.", ToolCalls: call.ToolCalls}, reply(note),
			},
			calls: []string{"summary tool_call", "retry ok"}, says: "it called a tool",
		},
		{
			name: "tool call as text", script: []summarizetest.Reply{reply(`<tool_calls><invoke name="bash"></invoke></tool_calls>`), reply(note)},
			calls: []string{"summary tool_call", "retry ok"}, says: "it called a tool",
		},
		{
			name: "reasoning", script: []summarizetest.Reply{{Reasoning: "thinking"}, reply(note)},
			calls: []string{"summary reasoning", "retry ok"}, says: "thoughts but no text",
		},
		{
			name: "degenerate", script: []summarizetest.Reply{reply("ok"), reply(note)},
			guard: GuardOptions{NoSections: true, KeepInvented: true}, class: Degenerate, opts: RunOptions{Attempts: 2},
			calls: []string{"summary degenerate", "retry degenerate"}, says: "it was not a note",
		},
		{
			name: "sections", script: []summarizetest.Reply{reply(note), reply(sectioned)}, guard: GuardOptions{NoFloor: true},
			calls: []string{"summary sections", "retry ok"}, says: "Failures",
		},
		{
			name: "inflated", script: []summarizetest.Reply{reply(fill(3000)), reply(note)}, guard: GuardOptions{NoFloor: true, NoSections: true},
			calls: []string{"summary inflated", "retry ok"}, says: "it was too long",
		},
		{
			name: "too long", script: []summarizetest.Reply{reply(note), reply("Fine.")}, guard: GuardOptions{NoFloor: true, NoSections: true, MaxTokens: 4},
			calls: []string{"summary inflated", "retry ok"}, says: "it was too long",
		},
		{
			name: "invented", script: []summarizetest.Reply{
				reply("See a/b.go c/d.go e/f.go g/h.go i/j.go k/l.go m/n.go and o/p.go."), reply(note),
			}, guard: GuardOptions{NoFloor: true, NoSections: true},
			calls: []string{"summary invented", "retry ok"}, says: "what the conversation does not say",
		},
		{
			name: "malformed", script: []summarizetest.Reply{broken(summarizetest.FaultMalformed), reply(note)},
			calls: []string{"summary stream", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "broken off by the provider", script: []summarizetest.Reply{finish("The pump", "error"), reply(note)},
			calls: []string{"summary stream", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "cut", script: []summarizetest.Reply{broken(summarizetest.FaultCut), reply(note)},
			calls: []string{"summary stream", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "dropped", script: []summarizetest.Reply{broken(summarizetest.FaultDrop), reply(note)},
			calls: []string{"summary stream", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "error event", script: []summarizetest.Reply{broken(summarizetest.FaultErrorEvent), reply(note)},
			calls: []string{"summary stream", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "plain error", script: []summarizetest.Reply{broken(summarizetest.FaultPlainError), reply(note)},
			calls: []string{"summary stream", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "page of HTML", script: []summarizetest.Reply{{Fault: summarizetest.FaultHTML}, reply(note)},
			calls: []string{"summary stream", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "empty body", script: []summarizetest.Reply{{Fault: summarizetest.FaultEmpty}, reply(note)},
			calls: []string{"summary stream", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "error event of an overflow", class: Overflow, calls: []string{"summary overflow"},
			script: []summarizetest.Reply{{Fault: summarizetest.FaultErrorEvent, Err: summarizetest.Overflow(10, 20).Err}},
		},
		{
			name: "plain error of a rate limit", calls: []string{"summary rate_limited", "retry ok"}, waits: []time.Duration{4 * time.Second},
			script: []summarizetest.Reply{{Fault: summarizetest.FaultPlainError, Err: &summarizetest.Error{
				Code: "rate_limit_exceeded", Message: "Rate limit reached. Please try again in 4s.",
			}}, reply(note)},
		},
		{name: "no [DONE] after a finish", script: []summarizetest.Reply{broken(summarizetest.FaultNoDone)}, calls: []string{"summary ok"}},
		{name: "[DONE] without a finish", script: []summarizetest.Reply{finish(note, summarizetest.FinishNone)}, calls: []string{"summary ok"}},
		{
			name: "timeout", script: []summarizetest.Reply{held, reply(note)}, timesOut: 1,
			calls: []string{"summary timeout", "retry ok"}, waits: []time.Duration{250 * time.Millisecond},
		},
		{
			name: "budget", script: []summarizetest.Reply{fail(500, "", "oops")}, opts: RunOptions{MaxCalls: 2}, class: Budget,
			calls: []string{"summary transient", "retry transient"}, waits: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond},
		},
	} {
		for _, noStream := range []bool{false, true} {
			name := c.name
			if noStream {
				name += ", whole reply"
			}
			t.Run(name, func(t *testing.T) {
				k := newClock()
				srv := summarizetest.New(t, c.script...)
				o := c.opts
				o.Guard = loose
				if c.guard != (GuardOptions{}) {
					o.Guard = &c.guard
				}
				s := newTestLLM(t, srv, LLMOptions{NoStream: noStream})
				timeOut(t, s, srv, c.timesOut)
				w, err := Run(t.Context(), s, requestOf(session.UserText("check the pump "+fill(700)), session.AssistantText("Checked.")), k.options(o))
				var calls []Call
				if c.class == "" {
					require.NoError(t, err)
					require.NotEmpty(t, w.Text)
					require.Equal(t, "scribe", w.Summarizer)
					calls = w.Calls
				} else {
					var f *Failure
					require.ErrorAs(t, err, &f)
					require.Equal(t, c.class, f.Class, "%v", err)
					calls = f.Calls
				}
				require.Equal(t, c.calls, outcomes(calls))
				require.Equal(t, c.waits, k.waits)
				if c.says != "" {
					require.Contains(t, lastText(t, srv.Requests()[1]), c.says)
				}
			})
		}
	}
}
