package summarizetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// created is the time that answers claim. It is fixed so that equal scripts give equal bytes.
const created = 1700000000

const (
	jsonType = "application/json"
	page     = "<!DOCTYPE html>\n<html><head><title>Gateway</title></head><body>It works, but not here.</body></html>\n"
)

type object = map[string]any

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values of this package come here
	}
	return data
}

// answer writes one reply. It belongs to the goroutine of its request.
type answer struct {
	server *Server
	w      http.ResponseWriter
	ctx    context.Context
	req    Request
	chat   Chat
	reply  Reply
	chunks int // chunks of the stream so far
}

func (a *answer) send(r Reply) {
	a.reply = r
	a.chat, _ = a.req.Chat() // a body that is no chat request gets the JSON answer
	a.wait(r.Gate, r.Delay)

	switch {
	case r.Fault == FaultReset:
		reset(a.w)
	case r.Body != "":
		a.write(jsonType, r.Body)
	case r.Fault == FaultEmpty && a.chat.Stream:
		a.write(eventType, "")
	case r.Fault == FaultEmpty:
		a.write(jsonType, "")
	case r.Fault == FaultHTML:
		a.write("text/html; charset=utf-8", page)
	case r.status() != http.StatusOK:
		a.write(jsonType, string(encode(a.failure())))
	case a.chat.Stream:
		a.stream()
	default:
		a.completion()
	}
}

// wait holds the answer for a gate, then for a time. It does not return if the client goes away or the
// server closes.
func (a *answer) wait(gate <-chan struct{}, delay time.Duration) {
	if gate != nil {
		select {
		case <-gate:
		case <-a.ctx.Done():
			panic(http.ErrAbortHandler)
		case <-a.server.done:
			panic(http.ErrAbortHandler)
		}
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-a.ctx.Done():
			panic(http.ErrAbortHandler)
		case <-a.server.done:
			panic(http.ErrAbortHandler)
		}
	}
}

func (a *answer) header(contentType string) {
	h := a.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Request-Id", fmt.Sprintf("req-%d", a.req.Index))
	for key, values := range a.reply.Header {
		h[http.CanonicalHeaderKey(key)] = append([]string(nil), values...)
	}
	a.w.WriteHeader(a.reply.status())
}

func (a *answer) write(contentType, body string) {
	a.header(contentType)
	_, _ = a.w.Write([]byte(body))
}

func (a *answer) failure() object {
	e := a.reply.failure()
	return object{"error": object{
		"message": e.Message, "type": orNull(e.Type), "param": orNull(e.Param), "code": orNull(e.Code),
	}}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (a *answer) envelope(kind string) object {
	model := a.reply.Model
	if model == "" {
		model = a.chat.Model
	}
	return object{
		"id": fmt.Sprintf("chatcmpl-%d", a.req.Index), "object": kind, "created": created, "model": model,
	}
}

// completion writes a JSON answer.
func (a *answer) completion() {
	r := a.reply
	switch r.Fault {
	case FaultErrorEvent, FaultPlainError:
		a.write(jsonType, string(encode(a.failure())))
		return
	case FaultMalformed:
		a.write(jsonType, `{"id":"chatcmpl-`+fmt.Sprint(a.req.Index)+`","choices":[{"mess`)
		return
	}
	message := object{"role": "assistant", "content": r.Content}
	if r.null() {
		message["content"] = nil
	}
	if r.Reasoning != "" {
		message["reasoning_content"] = r.Reasoning
	}
	if r.Refusal != "" {
		message["refusal"] = r.Refusal
	}
	if len(r.ToolCalls) > 0 {
		calls := make([]any, len(r.ToolCalls))
		for i, c := range r.ToolCalls {
			calls[i] = object{
				"id": c.ID, "type": "function",
				"function": object{"name": c.Name, "arguments": c.Arguments},
			}
		}
		message["tool_calls"] = calls
	}
	body := a.envelope("chat.completion")
	body["choices"] = []any{object{"index": 0, "message": message, "finish_reason": r.finish()}}
	if r.Usage != nil {
		body["usage"] = r.Usage.object()
	}
	if r.Fault == FaultCut || r.Fault == FaultDrop {
		a.cut(body, message)
		return
	}
	a.write(jsonType, string(encode(body)))
}

// cut writes the JSON answer up to the point inside its content where the fault is.
func (a *answer) cut(body, message object) {
	head, _ := split(a.reply.Content, a.reply.After)
	const mark = "\x00cut"
	message["content"] = head + mark
	whole := string(encode(body))
	escaped := strings.Trim(string(encode(mark)), `"`)
	a.write(jsonType, whole[:strings.Index(whole, escaped)])
	if a.reply.Fault == FaultDrop {
		a.flush()
		panic(http.ErrAbortHandler)
	}
}

func (a *answer) flush() {
	if f, ok := a.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (u Usage) object() object {
	return object{
		"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

// split cuts a text after n characters.
func split(s string, n int) (head, tail string) {
	for i := range s {
		if n <= 0 {
			return s[:i], s[i:]
		}
		n--
	}
	return s, ""
}
