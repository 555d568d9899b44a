package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
)

// The texts of an agent of the Codex family, in short.
const (
	askSummary = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that will resume the task."
	handoff    = "Another language model started to solve this problem and produced a summary of its thinking process. " +
		"Here is the summary produced by the other language model, use the information in this summary to assist with your own analysis:\n"
)

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// show plays a conversation through the gateway: an agent works, has a summary
// written, goes on with it, tries again later and gives up.
func show(ctx context.Context, out io.Writer) error {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { upstream(out, w, r) }))
	defer model.Close()
	g, err := assemble(out, model.URL)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l, g) }()
	defer func() { cancel(); <-ended }()

	a := &agent{url: "http://" + l.Addr().String() + "/v1/chat/completions"}
	work := []message{{"system", "You are an agent."}, {"user", "Build the parser. The port is 8443."}}
	for i := range 6 {
		work = append(work, message{"assistant", fmt.Sprintf("Step %d. %s", i, strings.Repeat("some words of work. ", 400))}, message{"user", "Go on."})
	}
	fmt.Fprintln(out, "# the agent works")
	a.send(ctx, work, false)
	fmt.Fprintln(out, "# it has a summary written")
	summary := a.send(ctx, append(work[:len(work):len(work)], message{"user", askSummary}), true)
	fmt.Fprintln(out, "# it goes on with the summary")
	short := []message{work[0], work[1], {"user", handoff + summary}, {"user", "Go on."}}
	a.send(ctx, short, false)
	short = append(short, message{"assistant", "Done."}, message{"user", "And the tests?"})
	a.send(ctx, short, true)
	fmt.Fprintln(out, "# it has another summary written, and does not use it")
	a.send(ctx, append(short[:len(short):len(short)], message{"user", askSummary}), false)
	a.send(ctx, append(short, message{"assistant", "Hm."}, message{"user", "Never mind."}), false)
	s := g.life.Stats()
	fmt.Fprintf(out, "# %d started, %d completed, %d aborted, %d callbacks failed\n", s.Started, s.Completed, s.Aborted, s.Errors+s.Panics+s.Invalid+s.Deadlines)
	return a.err
}

// agent sends requests and remembers the first error.
type agent struct {
	url string
	n   int
	err error
}

func (a *agent) send(ctx context.Context, messages []message, stream bool) string {
	a.n++
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages, "stream": stream})
	if err == nil {
		var r *http.Request
		if r, err = http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body)); err == nil {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Conversation-Id", "conversation-1")
			r.Header.Set("X-Request-Id", fmt.Sprint("request-", a.n))
			var resp *http.Response
			if resp, err = http.DefaultClient.Do(r); err == nil {
				defer resp.Body.Close()
				data, rerr := io.ReadAll(resp.Body)
				if err = rerr; err == nil && resp.StatusCode == http.StatusOK {
					return textOf(data, stream)
				}
			}
		}
	}
	if a.err == nil {
		if a.err = err; err == nil {
			a.err = fmt.Errorf("request %d was refused", a.n)
		}
	}
	return ""
}

func textOf(data []byte, stream bool) string {
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		if stream {
			line = strings.TrimPrefix(line, "data: ")
		}
		var a answer
		if json.Unmarshal([]byte(line), &a) == nil && len(a.Choices) > 0 {
			text.WriteString(a.Choices[0].Message.Content + a.Choices[0].Delta.Content)
		}
	}
	return text.String()
}

// upstream is the model of the show. It prints what it is sent.
func upstream(out io.Writer, w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []message
		Stream   bool
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || len(q.Messages) == 0 {
		http.Error(w, "no chat request", http.StatusBadRequest)
		return
	}
	size := 0
	for _, m := range q.Messages {
		size += len(m.Content)
	}
	fmt.Fprintf(out, "  model: %d messages, %d bytes", len(q.Messages), size)
	for _, m := range q.Messages {
		if strings.HasPrefix(m.Content, "Still true:") {
			fmt.Fprintf(out, ", with %q", m.Content)
		}
	}
	fmt.Fprintln(out)
	text := "Fine."
	if strings.HasPrefix(q.Messages[len(q.Messages)-1].Content, "You are performing") {
		text = "The parser is half done."
	}
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message{"assistant", text}, "finish_reason": "stop"}}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for word := range strings.FieldsSeq(text) {
		b, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"delta": map[string]string{"content": word + " "}}}})
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	fmt.Fprint(w, `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}
