package summarize

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// exchange is what the transport is told about one request and learns from its
// answer. go-openai has no place for either.
type exchange struct {
	headers map[string]string
	extra   map[string]any
	now     func() time.Time

	mu         sync.Mutex
	used       bool // the transport saw the request
	retryAfter time.Duration
	head, tail []byte // of the body of the answer
	ended      bool   // the body was read to its end
}

type exchangeKey struct{}

const (
	answerHead = 16 << 10
	answerTail = 64 << 10
)

// NewTransport returns a round tripper that lets [NewLLM] see what go-openai
// hides: the Retry-After header and errors in a stream that are not events. It
// is part of the client that NewLLM makes; a caller who brings a client of
// their own may build it on this. It passes other requests through. A nil base
// is [http.DefaultTransport].
func NewTransport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base}
}

type transport struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		return t.base.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	for k, v := range x.headers {
		req.Header.Set(k, v)
	}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		body = patchBody(body, x.extra)
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.ContentLength = int64(len(body))
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	x.used, x.retryAfter = true, retryAfter(resp.Header, x.now())
	x.mu.Unlock()
	resp.Body = &tee{resp.Body, x}
	return resp, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (t transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// patchBody adds extra fields, and the content that go-openai leaves out where
// it is empty.
func patchBody(body []byte, extra map[string]any) []byte {
	var o map[string]json.RawMessage
	if json.Unmarshal(body, &o) != nil {
		return body
	}
	var messages []json.RawMessage
	changed := len(extra) > 0
	if json.Unmarshal(o["messages"], &messages) == nil {
		for i, raw := range messages {
			var m struct {
				Role    string          `json:"role"`
				Content json.RawMessage `json:"content"`
			}
			if json.Unmarshal(raw, &m) != nil || m.Content != nil || len(raw) < 2 {
				continue
			}
			content := `""`
			if m.Role == "assistant" {
				content = "null"
			}
			messages[i] = append([]byte(`{"content":`+content+`,`), raw[1:]...)
			changed = true
		}
	}
	if !changed {
		return body
	}
	patched := maps.Clone(o)
	if messages != nil {
		raw, err := json.Marshal(messages)
		if err != nil {
			return body
		}
		patched["messages"] = raw
	}
	for k, v := range extra {
		raw, err := json.Marshal(v)
		if err != nil {
			return body
		}
		patched[k] = raw
	}
	out, err := json.Marshal(patched)
	if err != nil {
		return body
	}
	return out
}

// retryAfter reads how long the provider asks to wait.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, 1e9) * float64(time.Millisecond))
	}
	s := strings.TrimSpace(h.Get("Retry-After"))
	if sec, err := strconv.ParseFloat(s, 64); err == nil && sec > 0 {
		return time.Duration(min(sec, 1e6) * float64(time.Second))
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// tee keeps the head and the tail of a body that is read.
type tee struct {
	io.ReadCloser
	x *exchange
}

// Read implements [io.Reader].
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.x.mu.Lock()
	defer t.x.mu.Unlock()
	t.x.keep(p[:n])
	t.x.ended = t.x.ended || err == io.EOF
	return n, err
}

func (x *exchange) keep(p []byte) {
	if room := answerHead - len(x.head); room > 0 {
		n := min(room, len(p))
		x.head, p = append(x.head, p[:n]...), p[n:]
	}
	x.tail = append(x.tail, p...)
	if len(x.tail) > 2*answerTail {
		x.tail = append(x.tail[:0], x.tail[len(x.tail)-answerTail:]...)
	}
}

// answer returns what is known of the body. ok is false when the request did
// not go through the transport.
func (x *exchange) answer() (body []byte, wait time.Duration, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append(bytes.Clone(x.head), x.tail...), x.retryAfter, x.used
}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}
