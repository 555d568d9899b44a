package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/agentcompact/agentcompact/detect"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// chat is what the gateway sends: the messages of a chat request.
type chat struct{ Messages []json.RawMessage }

// reply is what it releases: the text of an answer that is not streamed.
type reply struct{ Text string }

var chatCodec = lifecycle.Codec[chat]{
	Clone: func(c chat) chat {
		out := chat{make([]json.RawMessage, len(c.Messages))}
		for i, m := range c.Messages {
			out.Messages[i] = bytes.Clone(m)
		}
		return out
	},
	Equal: func(a, b chat) bool {
		if len(a.Messages) != len(b.Messages) {
			return false
		}
		for i := range a.Messages {
			if !bytes.Equal(a.Messages[i], b.Messages[i]) {
				return false
			}
		}
		return true
	},
	Validate: func(_, after chat) error {
		for _, m := range after.Messages {
			if _, err := openaichat.ParseMessage(m); err != nil {
				return err
			}
		}
		return nil
	},
}

var replyCodec = lifecycle.Codec[reply]{Clone: func(r reply) reply { return r }, Equal: func(a, b reply) bool { return a == b }}

// gateway passes requests on to an OpenAI-compatible upstream, tells a detector
// of them, and lets preservers change them.
type gateway struct {
	upstream *url.URL
	detector *detect.Detector
	life     *lifecycle.Dispatcher[chat, reply]
	state    *lifecycle.MemoryState
	rest     *httputil.ReverseProxy
}

func newGateway(upstream string, d *detect.Detector, life *lifecycle.Dispatcher[chat, reply]) (*gateway, error) {
	u, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	return &gateway{
		upstream: u, detector: d, life: life, state: new(lifecycle.MemoryState),
		rest: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }},
	}, nil
}

// maxBody bounds a request.
const maxBody = 64 << 20

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Who wants to be watched names the conversation; all else passes through.
	branch := r.Header.Get("X-Conversation-Id")
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") || branch == "" {
		g.rest.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusRequestEntityTooLarge)
		return
	}
	meta := detect.Meta{Branch: branch, Session: branch, Trace: r.Header.Get("X-Request-Id"), Attempt: 1}
	if err := g.chat(w, r, body, meta); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

// branchState keeps the state of preservers apart by conversation.
type branchState struct {
	*lifecycle.MemoryState
	branch string
}

func (s branchState) Of(owner string) lifecycle.State {
	return s.MemoryState.Of(owner + "\x00" + s.branch)
}

func (g *gateway) chat(w http.ResponseWriter, r *http.Request, body []byte, meta detect.Meta) error {
	ctx := r.Context()
	var fields map[string]json.RawMessage
	var c chat
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields["messages"], &c.Messages) != nil {
		return errors.New("the request is no chat request")
	}
	q := request(meta, c.Messages)
	x := g.life.Exchange(lifecycle.RunInfo{
		Meta:  lifecycle.PreservationMeta{TraceID: meta.Trace, SessionID: meta.Session, ALegID: meta.Branch, AttemptSeq: meta.Attempt},
		State: branchState{g.state, meta.Branch},
	})
	sent := c
	if err := x.BeforeRequest(ctx, &sent, g.detector.PreviewRequest(q), nil); err != nil {
		return err
	}
	if !chatCodec.Equal(c, sent) {
		fields["messages"], _ = json.Marshal(sent.Messages)
		body, _ = json.Marshal(fields)
	}
	out, err := http.NewRequestWithContext(ctx, r.Method, g.upstream.JoinPath(r.URL.Path).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Accept-Encoding")
	resp, err := http.DefaultClient.Do(out)
	if err != nil || resp.StatusCode >= 400 {
		x.RequestOpenFailed(ctx)
		if err != nil {
			return errors.New("the upstream cannot be reached")
		}
	}
	defer resp.Body.Close()
	if resp.StatusCode < 400 {
		// The detector sees the client's own history, not what preservers added.
		x.RequestOpened(ctx, sent, g.detector.RequestOpened(q))
	}
	for k, v := range resp.Header {
		if k != "Content-Length" {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(resp.StatusCode)
	switch {
	case resp.StatusCode >= 400:
		_, err = io.Copy(w, resp.Body)
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		err = g.stream(w, resp.Body, x, r, meta)
	default:
		err = g.whole(w, resp.Body, x, r, meta)
	}
	if err != nil && resp.StatusCode < 400 {
		x.AfterRelease(ctx, reply{}, g.detector.ResponseReleased(detect.Response{Meta: meta, Failed: true}))
	}
	return nil // the answer has begun
}

// request is a chat request as the detector reads it.
func request(meta detect.Meta, messages []json.RawMessage) detect.Request {
	q := detect.Request{Meta: meta}
	for _, raw := range messages {
		m, err := openaichat.ParseMessage(raw)
		if err != nil {
			continue
		}
		if len(q.Messages) == 0 && (m.Role == session.RoleSystem || m.Role == session.RoleDeveloper) {
			q.System = append(q.System, &m)
		} else {
			q.Messages = append(q.Messages, &m)
		}
	}
	return q
}

// answer is what the gateway reads of an answer or of a piece of one.
type answer struct {
	Choices []struct {
		Message, Delta struct {
			Content   string            `json:"content"`
			ToolCalls []json.RawMessage `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	} `json:"choices"`
}

func (a *answer) piece(meta detect.Meta) detect.Response {
	r := detect.Response{Meta: meta}
	if len(a.Choices) > 0 {
		c := &a.Choices[0]
		r.Text = c.Message.Content + c.Delta.Content
		r.ToolCall = len(c.Message.ToolCalls)+len(c.Delta.ToolCalls) > 0
		r.Finish, r.Done = c.Finish, c.Finish != ""
	}
	return r
}

// whole hands out an answer that is not streamed; preservers may change its
// text.
func (g *gateway) whole(w io.Writer, body io.Reader, x *lifecycle.Exchange[chat, reply], r *http.Request, meta detect.Meta) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var a answer
	if json.Unmarshal(data, &a) != nil || len(a.Choices) == 0 {
		_, err = w.Write(data)
		return err
	}
	p := a.piece(meta)
	p.Done = true
	text := reply{p.Text}
	if err := x.BeforeRelease(r.Context(), &text, g.detector.PreviewResponse(p), nil); err == nil && text.Text != p.Text {
		var tree map[string]any
		if json.Unmarshal(data, &tree) == nil {
			tree["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"] = text.Text
			data, _ = json.Marshal(tree)
			p.Text = text.Text
		}
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	x.AfterRelease(r.Context(), text, g.detector.ResponseReleased(p))
	return nil
}

// stream hands out a stream as it comes.
func (g *gateway) stream(w http.ResponseWriter, body io.Reader, x *lifecycle.Exchange[chat, reply], r *http.Request, meta detect.Meta) error {
	lines := bufio.NewReader(body)
	flush := http.NewResponseController(w)
	done := false
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if _, err := w.Write(line); err != nil {
				return err
			}
			if len(bytes.TrimSpace(line)) == 0 {
				_ = flush.Flush()
			}
			var a answer
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && json.Unmarshal(data, &a) == nil {
				p := a.piece(meta)
				done = done || p.Done
				if found := g.detector.ResponseReleased(p); len(found) > 0 {
					x.AfterRelease(r.Context(), reply{p.Text}, found)
				}
			}
		}
		switch {
		case err == io.EOF && done:
			return nil
		case err != nil:
			return err
		}
	}
}
