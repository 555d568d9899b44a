package casetest

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

// scripted is the HTTP side of a scripted summarizer.
type scripted struct {
	*summarizetest.Server
	texts []string // the contents of the script, expanded

	mu   sync.Mutex
	gate chan struct{} // holds a reply while it is not nil
	held bool          // the gate holds one
}

// serve starts the summarizer of a case. A case without one gets a server that
// refuses everything, and fails if it was asked.
func serve(s *Summarizer) (*scripted, error) {
	p := &scripted{}
	if s == nil {
		p.Server = summarizetest.Start(summarizetest.Config{Script: []summarizetest.Reply{
			summarizetest.Fail(http.StatusNotFound, "no summarizer is configured")}})
		return p, nil
	}
	config := summarizetest.Config{RealWindow: s.RealWindow, Estimate: func(r summarizetest.Request) int {
		chat, err := parseRequest(r.Body)
		if err != nil {
			return 0
		}
		return chat.tokens()
	}}
	if s.OverflowBody != nil {
		config.Overflow = func(int, int) summarizetest.Reply {
			return summarizetest.Reply{Status: s.OverflowBody.Status, Body: string(bodyBytes(s.OverflowBody.Body))}
		}
	}
	for _, r := range s.Script {
		reply, text, err := r.reply()
		if err != nil {
			return nil, err
		}
		if text != "" {
			p.texts = append(p.texts, text)
		}
		timeout := r.Error != nil && r.Error.Timeout
		config.Script = append(config.Script, summarizetest.Func(func(summarizetest.Request) summarizetest.Reply {
			p.mu.Lock()
			defer p.mu.Unlock()
			out := reply
			switch {
			case timeout:
				out = out.WithGate(make(chan struct{}))
			case p.gate != nil && !p.held:
				out, p.held = out.WithGate(p.gate), true
			default:
				out.Delay = time.Duration(s.DelayMS) * time.Millisecond
			}
			return out
		}))
	}
	p.Server = summarizetest.Start(config)
	return p, nil
}

// hold keeps the reply to the next request back until release. That is enough to
// keep its run under way, and others, which may come to replace it, get theirs.
func (p *scripted) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate == nil {
		p.gate = make(chan struct{})
	}
}

func (p *scripted) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate != nil {
		close(p.gate)
		p.gate, p.held = nil, false
	}
}

// chats returns the requests that arrived.
func (p *scripted) chats() ([]*chatRequest, error) {
	var out []*chatRequest
	for _, r := range p.Requests() {
		chat, err := parseRequest(r.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, chat)
	}
	return out, nil
}

// reply makes the reply of the server, and the text that it has.
func (r Reply) reply() (summarizetest.Reply, string, error) {
	out := summarizetest.Reply{Null: r.Content == nil, Finish: summarizetest.FinishNone}
	text := ""
	if r.Content != nil {
		var err error
		if text, err = expand(*r.Content); err != nil {
			return out, "", err
		}
		out.Content = text
	}
	var err error
	if out.Reasoning, err = expand(r.Reasoning); err != nil {
		return out, "", err
	}
	if r.FinishReason != nil {
		out.Finish = *r.FinishReason
	}
	for _, c := range r.ToolCalls {
		args, err := expand(c.arguments())
		if err != nil {
			return out, "", err
		}
		out.ToolCalls = append(out.ToolCalls, summarizetest.ToolCall{ID: c.ID, Name: c.name(), Arguments: args})
	}
	if r.Usage != nil {
		out.Usage = &summarizetest.Usage{Prompt: r.Usage.Prompt, Completion: r.Usage.Completion}
	}
	if e := r.Error; e != nil {
		switch {
		case e.StreamBrokenAfter != nil:
			out.Fault, out.After = summarizetest.FaultDrop, *e.StreamBrokenAfter
		case e.Status != 0:
			out.Status, out.Body = e.Status, string(bodyBytes(e.Body))
			if out.Body == "" {
				out.Fault = summarizetest.FaultEmpty
			}
			for k, v := range e.Headers {
				out = out.WithHeader(k, v)
			}
		}
	}
	return out, text, nil
}

// decodeJSON is json.Unmarshal for values that were checked before.
func decodeJSON(raw json.RawMessage) (v any) {
	_ = json.Unmarshal(raw, &v)
	return v
}
