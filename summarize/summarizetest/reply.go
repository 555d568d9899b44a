package summarizetest

import (
	"fmt"
	"net/http"
	"time"
)

// Values of [Reply.Finish].
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishToolCalls     = "tool_calls"
	FinishContentFilter = "content_filter"
	// FinishNone sends no finish reason: null in a JSON answer, no closing chunk in a stream.
	FinishNone = "none"
)

// Fault names a way in which an answer goes wrong. Where one says "after", [Reply.After] characters of
// the content are sent first.
type Fault int

const (
	// FaultNone is a well-formed answer.
	FaultNone Fault = iota
	// FaultReset resets the connection before the header.
	FaultReset
	// FaultEmpty sends the status and an empty body.
	FaultEmpty
	// FaultHTML sends a page of HTML, as a gateway or a login screen does, with status 200 unless
	// [Reply.Status] says otherwise.
	FaultHTML
	// FaultMalformed sends broken JSON: a JSON answer stops in the middle of a key; a stream sends such
	// an event after its content, and ends.
	FaultMalformed
	// FaultCut ends the body cleanly after, without a finish reason or [DONE]. A JSON answer ends inside
	// its content string.
	FaultCut
	// FaultDrop is FaultCut with the connection broken off: the client reads an unexpected EOF.
	FaultDrop
	// FaultErrorEvent sends an error object as an event, after, and ends. A JSON answer is the error
	// object with status 200.
	FaultErrorEvent
	// FaultPlainError sends an error object as a plain line of the stream, with no "data:" before it,
	// after, and ends. A JSON answer is the error object with status 200.
	FaultPlainError
	// FaultNoDone sends a complete stream without the closing [DONE]. A JSON answer is unchanged.
	FaultNoDone
)

// ToolCall is one function call of the assistant. Arguments are sent as they are, valid JSON or not.
type ToolCall struct {
	ID, Name, Arguments string
}

// Usage is what the answer claims to have used. Cached is the part of Prompt read from a cache,
// Reasoning the part of Completion spent thinking.
type Usage struct {
	Prompt, Completion, Cached, Reasoning int
}

// Error is the error object of an answer. Zero fields are sent as null, except Message.
type Error struct {
	Message, Type, Code, Param string
}

// Reply is one answer. The zero Reply is a complete answer with empty content. A Reply is a value: the
// server copies it, so one may stand in several scripts; the things it points to must not change while
// the server runs.
type Reply struct {
	// Content is the text. Empty content is sent as null beside tool calls or a refusal, else as "".
	Content string
	// Null sends null content in any case.
	Null bool
	// Reasoning is sent as reasoning_content, before the content. Empty sends none.
	Reasoning string
	// Refusal is sent as refusal. Empty sends none.
	Refusal string
	// ToolCalls are sent after the content.
	ToolCalls []ToolCall
	// Finish is the finish reason, one of the Finish constants or any other text. Empty means
	// FinishToolCalls with tool calls and FinishStop without.
	Finish string
	// Usage is sent in a JSON answer, and in a stream as a last chunk without choices if the request asks
	// with stream_options.include_usage. Nil sends none.
	Usage *Usage
	// Model is the model that the answer names. Empty means the request's.
	Model string
	// ChunkSize is how many characters of text a chunk of a stream carries. Zero means 16.
	ChunkSize int
	// Comments is the number of comment lines, the keep-alive of server-sent events, before each chunk.
	Comments int

	// Gate, if not nil, holds the whole answer until the channel yields a value or is closed.
	Gate <-chan struct{}
	// ChunkGate, if not nil, is received from once before each chunk of a stream, [DONE] included.
	ChunkGate <-chan struct{}
	// Delay is waited before the header, after Gate.
	Delay time.Duration
	// ChunkDelay is waited before each chunk of a stream but the first.
	ChunkDelay time.Duration

	// Status is the status code. Zero means 200. Any other than 200 sends Body, or Err as JSON, in place
	// of a completion.
	Status int
	// Header is added to the header of the answer, and replaces what the server would have set.
	Header http.Header
	// Body, if not empty, is sent as it is in place of what the server would have written, whatever the
	// status and whether or not the request asks for a stream.
	Body string
	// Err is the error object of a failing status, FaultErrorEvent or FaultPlainError. Nil means one
	// that names the status, or a server error.
	Err *Error
	// Fault is how the answer goes wrong.
	Fault Fault
	// After is the number of characters of content before the fault. Those of reasoning do not count and
	// are sent in full.
	After int

	from func(Request) Reply
}

// Text is a complete answer with the given content.
func Text(content string) Reply { return Reply{Content: content} }

// Call is an answer that calls tools.
func Call(calls ...ToolCall) Reply { return Reply{ToolCalls: calls} }

// Fail is an answer with a failing status and an error object that carries the message.
func Fail(status int, message string) Reply {
	return Reply{Status: status, Err: &Error{Message: message, Type: errorType(status)}}
}

// Broken is a text answer with a fault after a number of characters.
func Broken(fault Fault, content string, after int) Reply {
	return Reply{Content: content, Fault: fault, After: after}
}

// Overflow is the answer of OpenAI to a request that does not fit the window.
func Overflow(window, tokens int) Reply {
	return Reply{Status: http.StatusBadRequest, Err: &Error{
		Message: fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages "+
			"resulted in %d tokens. Please reduce the length of the messages.", window, tokens),
		Type: "invalid_request_error", Param: "messages", Code: "context_length_exceeded",
	}}
}

// Func is a reply that is computed from the request when its turn comes. The function runs on the
// goroutine of the request and may run for several requests at once; it must not call FailNow or its
// like. A panic in it, or in a function of [Config], becomes a 500 that names it, and fails the test of a
// server made by [New]. A function that returns another Func is followed.
func Func(f func(Request) Reply) Reply {
	if f == nil {
		panic("summarizetest: Func of nil")
	}
	return Reply{from: f}
}

// WithHeader returns a copy of the reply with one header added.
func (r Reply) WithHeader(key, value string) Reply {
	r.Header = r.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Add(key, value)
	return r
}

// WithUsage returns a copy of the reply that claims the usage.
func (r Reply) WithUsage(u Usage) Reply {
	r.Usage = &u
	return r
}

// WithGate returns a copy of the reply that waits for the channel before its header.
func (r Reply) WithGate(gate <-chan struct{}) Reply {
	r.Gate = gate
	return r
}

func (r Reply) status() int {
	if r.Status == 0 {
		return http.StatusOK
	}
	return r.Status
}

func (r Reply) finish() any {
	switch {
	case r.Finish == FinishNone:
		return nil
	case r.Finish != "":
		return r.Finish
	case len(r.ToolCalls) > 0:
		return FinishToolCalls
	}
	return FinishStop
}

// null reports whether the content is sent as null.
func (r Reply) null() bool {
	return r.Null || r.Content == "" && (len(r.ToolCalls) > 0 || r.Refusal != "")
}

func (r Reply) failure() Error {
	if r.Err != nil {
		return *r.Err
	}
	if r.status() != http.StatusOK {
		return Error{Message: http.StatusText(r.Status), Type: errorType(r.Status)}
	}
	return Error{Message: "The server had an error while processing your request.", Type: "server_error"}
}

func errorType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}
