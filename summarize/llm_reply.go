package summarize

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/overflow"
)

// reply is a request under way.
type reply struct {
	l      *llm
	built  *built
	x      *exchange
	caller context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	start  time.Time

	stream *openai.ChatCompletionStream
	got    received // what came so far
}

// received is the content of a reply.
type received struct {
	text, reasoning, refusal strings.Builder
	calls                    bool
	finish                   string
	usage                    *usage
	choices                  bool
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit int `json:"prompt_cache_hit_tokens"`
}

// event is one event of a stream, or a whole reply with message in place of
// delta.
type event struct {
	Choices []struct {
		Delta        content `json:"delta"`
		Message      content `json:"message"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type content struct {
	Content          json.RawMessage   `json:"content"`
	ReasoningContent string            `json:"reasoning_content"`
	Reasoning        string            `json:"reasoning"`
	Refusal          string            `json:"refusal"`
	ToolCalls        []json.RawMessage `json:"tool_calls"`
	FunctionCall     json.RawMessage   `json:"function_call"`
}

func (r *received) add(e *event) {
	if e.Usage != nil {
		r.usage = e.Usage
	}
	if len(e.Choices) == 0 {
		return
	}
	r.choices = true
	ch := &e.Choices[0]
	for _, c := range []*content{&ch.Delta, &ch.Message} {
		r.content(c.Content)
		r.reasoning.WriteString(c.ReasoningContent + c.Reasoning)
		r.refusal.WriteString(c.Refusal)
		r.calls = r.calls || len(c.ToolCalls) > 0 || len(c.FunctionCall) > 0 && string(c.FunctionCall) != "null"
	}
	if ch.FinishReason != nil && *ch.FinishReason != "" && *ch.FinishReason != "null" {
		r.finish = *ch.FinishReason
	}
}

// content takes the text of a string or of a list of parts; parts of another
// type are thoughts and the like.
func (r *received) content(raw json.RawMessage) {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		r.text.WriteString(s)
		return
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return
	}
	for _, p := range parts {
		if p.Type == "text" || p.Type == "output_text" {
			r.text.WriteString(p.Text)
		} else {
			r.reasoning.WriteByte('.')
		}
	}
}

func (p *reply) open() error {
	if p.l.o.NoStream {
		return p.whole()
	}
	stream, err := p.l.client.CreateChatCompletionStream(p.ctx, p.built.chat)
	if err != nil {
		return p.failed(err)
	}
	p.stream = stream
	return nil
}

// whole fetches a reply that is not streamed.
func (p *reply) whole() error {
	resp, err := p.l.client.CreateChatCompletion(p.ctx, p.built.chat)
	if err != nil {
		return p.failed(err)
	}
	if body, _, ok := p.x.answer(); ok {
		var e event
		if json.Unmarshal(bytes.TrimSpace(body), &e) == nil {
			if f := p.inBody(e.Error); f != nil {
				return p.end(f)
			}
			p.got.add(&e)
			return nil
		}
	}
	raw, err := json.Marshal(resp)
	if err != nil {
		return p.failed(err)
	}
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return p.failed(err)
	}
	p.got.add(&e)
	return nil
}

// Cancel implements [Pending].
func (p *reply) Cancel() {
	p.free()
	p.canceled()
}

// free ends the request and what it holds.
func (p *reply) free() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.cancel(nil)
	if p.stream != nil {
		_ = p.stream.Close()
	}
}

// Collect implements [Pending].
func (p *reply) Collect(ctx context.Context) (*Summary, error) {
	defer p.free()
	if ctx != p.caller {
		stop := context.AfterFunc(ctx, func() { p.cancel(context.Cause(ctx)) })
		defer stop()
		p.caller = ctx
	}
	if p.stream != nil {
		if err := p.read(); err != nil {
			return nil, err
		}
	}
	if f := p.judge(); f != nil {
		return nil, p.end(f)
	}
	return &Summary{
		Text: p.got.text.String(), Calls: []Call{p.record("ok")},
		Prompt: PromptVersion + "/" + p.built.shape, CacheLost: p.built.cacheLost, Redacted: p.built.redacted,
	}, nil
}

// read takes the stream to its end.
func (p *reply) read() error {
	for {
		raw, err := p.stream.RecvRaw()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return p.failed(err)
		}
		var e event
		if err := json.Unmarshal(raw, &e); err != nil {
			return p.end(&Failure{Class: BadStream, Detail: "an event is not JSON"})
		}
		if f := p.inBody(e.Error); f != nil {
			return p.end(f)
		}
		p.got.add(&e)
	}
	if err := p.stopped(); err != nil {
		return err
	}
	body, _, seen := p.x.answer()
	if seen && !p.got.choices { // an endpoint that does not stream answers with the whole reply
		var e event
		if json.Unmarshal(bytes.TrimSpace(body), &e) == nil && len(e.Choices) > 0 {
			p.got.add(&e)
		}
	}
	if p.got.finish != "" {
		return nil
	}
	// go-openai says EOF for a clean end, a cut, and an error that is not an
	// event alike.
	if seen {
		if r := overflow.ClassifyStream(body, p.options()...); r.Class != overflow.ClassNone {
			return p.end(p.fromResult(r, nil, true))
		}
		if done(body) {
			return nil
		}
	}
	return p.end(&Failure{Class: BadStream, Detail: "the stream ended without a finish reason"})
}

// done reports whether a stream was ended by the server's own mark.
func done(body []byte) bool {
	body = bytes.TrimSpace(body)
	i := bytes.LastIndexByte(body, '\n')
	last := bytes.TrimSpace(body[i+1:])
	last, ok := bytes.CutPrefix(last, []byte("data:"))
	return ok && string(bytes.TrimSpace(last)) == "[DONE]"
}

// judge says what is wrong with a complete reply; nil when it is text.
func (p *reply) judge() *Failure {
	g := &p.got
	text := strings.TrimSpace(g.text.String())
	if !g.choices {
		return &Failure{Class: BadStream, Detail: "the reply has no choices"}
	}
	u := overflow.Usage{Window: p.l.Window()}
	if g.usage != nil {
		u.Input, u.Output = g.usage.Prompt, g.usage.Completion
	}
	switch r := overflow.ClassifyFinish(g.finish, u); {
	case r.Overflow:
		return &Failure{Class: Overflow, Detail: "the reply ran into the window", Limit: r.Limit, Actual: r.Actual}
	case r.Class == overflow.ClassContentPolicy:
		return &Failure{Class: Refused, Detail: "the provider's filter stopped the reply"}
	case r.Kind == overflow.KindReply:
		if text == "" && g.reasoning.Len() > 0 {
			return &Failure{Class: Truncated, Detail: fmt.Sprintf("thoughts used up the reply limit of %d tokens", p.built.limit)}
		}
		return &Failure{Class: Truncated, Detail: fmt.Sprintf("cut at the reply limit of %d tokens", p.built.limit)}
	}
	switch {
	case g.finish == "error":
		return &Failure{Class: BadStream, Detail: "the provider broke off the reply"}
	case g.calls && (text == "" || g.finish != "stop"):
		return &Failure{Class: ToolCalled, Detail: "the model called a tool"}
	case isEcho(text):
		return &Failure{Class: Degenerate, Detail: "an echo of the instructions"}
	case text != "":
		return nil
	case g.refusal.Len() > 0:
		return &Failure{Class: Refused, Detail: "the model would not"}
	case g.reasoning.Len() > 0:
		return &Failure{Class: Reasoning, Detail: "thoughts without text"}
	}
	return &Failure{Class: Empty, Detail: "no text"}
}

// isEcho reports whether a text repeats our instructions.
func isEcho(text string) bool {
	n := 0
	for l := range strings.Lines(rules) {
		if l = strings.TrimSpace(l); len(l) > 40 && strings.Contains(text, l) {
			n++
		}
	}
	return n > 1
}

// record makes the entry of this request for the cost record.
func (p *reply) record(outcome string) Call {
	c := Call{
		Provider: p.l.o.Provider, Model: p.l.o.Model, Purpose: "summary",
		Outcome: outcome, Duration: p.l.o.Now().Sub(p.start),
	}
	if u := p.got.usage; u != nil {
		c.Prompt, c.Completion = u.Prompt, u.Completion
		c.CacheRead, c.Reasoning = max(u.Details.Cached, u.CacheHit), u.CompletionDetails.Reasoning
	}
	p.l.o.Logger.LogAttrs(context.WithoutCancel(p.caller), slog.LevelDebug, "summarizer request",
		slog.String("model", c.Model), slog.String("shape", p.built.shape), slog.Int("input", p.built.input),
		slog.String("outcome", outcome), slog.Duration("took", c.Duration))
	return c
}

// end gives a failure its entry in the cost record.
func (p *reply) end(f *Failure) *Failure {
	f.Calls = append(f.Calls, p.record(string(f.Class)))
	return f
}
