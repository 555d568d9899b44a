package summarizetest

import (
	"fmt"
	"net/http"
	"strings"
)

const eventType = "text/event-stream"

// stream writes the answer as server-sent events: the role, reasoning, refusal, content, tool calls, the
// finish reason, the usage if asked for, [DONE].
func (a *answer) stream() {
	r := a.reply
	a.header(eventType)
	a.flush()

	first := object{"role": "assistant", "content": ""}
	if r.null() {
		first["content"] = nil
	}
	a.delta(first, nil)
	a.pieces("reasoning_content", r.Reasoning)
	a.pieces("refusal", r.Refusal)

	content := r.Content
	if r.Fault.partial() {
		content, _ = split(content, r.After)
	}
	if !r.Null {
		a.pieces("content", content)
	}
	if r.Fault.partial() {
		a.fail()
		return
	}

	for i, c := range r.ToolCalls {
		a.delta(object{"tool_calls": []any{object{
			"index": i, "id": c.ID, "type": "function",
			"function": object{"name": c.Name, "arguments": ""},
		}}}, nil)
		for rest := c.Arguments; rest != ""; {
			var piece string
			piece, rest = split(rest, a.size())
			a.delta(object{"tool_calls": []any{object{
				"index": i, "function": object{"arguments": piece},
			}}}, nil)
		}
	}
	if finish := r.finish(); finish != nil {
		a.delta(object{}, finish)
	}
	if r.Usage != nil && a.wantsUsage() {
		chunk := a.envelope("chat.completion.chunk")
		chunk["choices"] = []any{}
		chunk["usage"] = r.Usage.object()
		a.event(string(encode(chunk)))
	}
	if r.Fault != FaultNoDone {
		a.event("[DONE]")
	}
}

// partial reports whether a stream with the fault stops inside its content.
func (f Fault) partial() bool {
	switch f {
	case FaultCut, FaultDrop, FaultErrorEvent, FaultPlainError, FaultMalformed:
		return true
	}
	return false
}

// fail ends a stream as its fault says.
func (a *answer) fail() {
	switch a.reply.Fault {
	case FaultDrop:
		a.flush()
		panic(http.ErrAbortHandler)
	case FaultErrorEvent:
		a.event(string(encode(a.failure())))
	case FaultPlainError:
		a.line(string(encode(a.failure())) + "\n")
	case FaultMalformed:
		a.event(fmt.Sprintf(`{"id":"chatcmpl-%d","choices":[{"del`, a.req.Index))
	}
}

func (a *answer) pieces(field, text string) {
	for text != "" {
		var piece string
		piece, text = split(text, a.size())
		a.delta(object{field: piece}, nil)
	}
}

func (a *answer) size() int {
	if a.reply.ChunkSize > 0 {
		return a.reply.ChunkSize
	}
	return 16
}

func (a *answer) wantsUsage() bool {
	return a.chat.StreamOptions != nil && a.chat.StreamOptions.IncludeUsage
}

func (a *answer) delta(delta object, finish any) {
	chunk := a.envelope("chat.completion.chunk")
	chunk["choices"] = []any{object{"index": 0, "delta": delta, "finish_reason": finish}}
	if a.wantsUsage() {
		chunk["usage"] = nil
	}
	a.event(string(encode(chunk)))
}

func (a *answer) event(data string) { a.line("data: " + data + "\n\n") }

// line writes one chunk when its time has come.
func (a *answer) line(text string) {
	delay := a.reply.ChunkDelay
	if a.chunks == 0 {
		delay = 0
	}
	a.chunks++
	a.wait(a.reply.ChunkGate, delay)
	_, err := fmt.Fprint(a.w, strings.Repeat(": keep-alive\n\n", max(a.reply.Comments, 0)), text)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a.flush()
}
