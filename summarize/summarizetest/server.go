package summarizetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// ErrClosed is what [Server.Await] returns if the server closes before the request arrives.
var ErrClosed = errors.New("summarizetest: server closed")

// Config describes a server. Only Script is needed.
type Config struct {
	// Script holds the replies, one per chat request in order of arrival; the last one repeats. A
	// request that finds no reply gets a 500 that says so.
	Script []Reply
	// RealWindow is the largest request, in tokens as Estimate counts them, that the server takes. A
	// larger one gets Overflow and uses no reply. Zero means no limit.
	RealWindow int
	// Estimate counts the tokens of a request. It may be called for several requests at once. Nil means
	// a quarter of the bytes of the body, rounded up.
	Estimate func(Request) int
	// Overflow makes the answer to a request of so many tokens over the window. Nil means the function
	// Overflow of this package.
	Overflow func(window, tokens int) Reply
	// Models are the ids that GET …/models lists. Nil means "scripted-model".
	Models []string

	fail func(format string, args ...any)
}

// Server is a running scripted server. It is safe for concurrent use.
type Server struct {
	config Config
	http   *httptest.Server
	close  sync.Once
	done   chan struct{} // closed by Close

	mu       sync.Mutex
	script   []Reply
	next     int // the reply of the next request; len(script) means the last one, again
	requests []Request
	arrived  chan struct{} // closed and replaced at each arrival
}

// New starts a server that closes when the test ends.
func New(tb testing.TB, script ...Reply) *Server {
	tb.Helper()
	return NewConfig(tb, Config{Script: script})
}

// NewConfig is [New] with everything that can be configured.
func NewConfig(tb testing.TB, config Config) *Server {
	tb.Helper()
	config.fail = tb.Errorf
	s := Start(config)
	tb.Cleanup(s.Close)
	return s
}

// NewServer starts a server outside of a test: a program that runs against itself. The caller closes it.
func NewServer(script ...Reply) *Server { return Start(Config{Script: script}) }

// Start is [NewServer] with everything that can be configured.
func Start(config Config) *Server {
	s := &Server{
		config:  config,
		done:    make(chan struct{}),
		script:  append([]Reply(nil), config.Script...),
		arrived: make(chan struct{}),
	}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.Start()
	return s
}

// URL is the base URL that a client is given, with "/v1" and no slash at its end.
func (s *Server) URL() string { return s.http.URL + "/v1" }

// Close ends every answer in progress, waits for them, and stops the server. It may be called again.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.done)
		s.http.Close()
	})
}

// Append adds replies to the end of the script. If the last reply has been used already, the next
// request gets the first of the new ones.
func (s *Server) Append(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, replies...)
}

// Requests returns every request that has arrived, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = r.clone()
	}
	return out
}

// Await waits until the n-th request has arrived, counted from 1 and over every path, and returns it.
// The request need not have been answered. If ctx ends first it returns the cause of that, if the server
// closes first [ErrClosed].
func (s *Server) Await(ctx context.Context, n int) (Request, error) {
	if n < 1 {
		return Request{}, fmt.Errorf("summarizetest: await request %d: requests are counted from 1", n)
	}
	for {
		s.mu.Lock()
		if len(s.requests) >= n {
			r := s.requests[n-1].clone()
			s.mu.Unlock()
			return r, nil
		}
		arrived := s.arrived
		s.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return Request{}, context.Cause(ctx)
		case <-s.done:
			return Request{}, ErrClosed
		}
	}
}

// arrive records the request and takes the reply that it is to get.
func (s *Server) arrive(r *Request, chat bool) (Reply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Index, r.At, r.Reply = len(s.requests), time.Now(), -1
	var reply Reply
	found := chat && len(s.script) > 0
	if found {
		r.Reply = min(s.next, len(s.script)-1)
		reply = s.script[r.Reply]
		s.next = r.Reply + 1
	}
	s.requests = append(s.requests, r.clone())
	close(s.arrived)
	s.arrived = make(chan struct{})
	return reply, found
}

func (s *Server) serve(w http.ResponseWriter, hr *http.Request) {
	defer s.contain(w, hr.URL.Path)
	body, err := io.ReadAll(hr.Body)
	req := Request{
		Method: hr.Method, Path: hr.URL.Path, Query: hr.URL.RawQuery,
		Header: hr.Header.Clone(), Body: body, BodyErr: err,
	}
	chat := strings.HasSuffix(req.Path, "/chat/completions") && req.Method == http.MethodPost
	tokens := 0
	if chat && err == nil && s.config.RealWindow > 0 {
		tokens = s.estimate(req)
		req.OverWindow = tokens > s.config.RealWindow
	}
	reply, found := s.arrive(&req, chat && err == nil && !req.OverWindow)
	a := &answer{server: s, w: w, ctx: hr.Context(), req: req}
	switch {
	case err != nil:
		panic(http.ErrAbortHandler)
	case req.OverWindow:
		overflow := s.config.Overflow
		if overflow == nil {
			overflow = Overflow
		}
		reply = overflow(s.config.RealWindow, tokens)
	case chat && !found:
		reply = Fail(http.StatusInternalServerError, "summarizetest: the script has no reply")
	case strings.HasSuffix(req.Path, "/models") && req.Method == http.MethodGet:
		reply = s.models()
	case !chat:
		reply = Fail(http.StatusNotFound, "summarizetest: no such endpoint: "+req.Method+" "+req.Path)
	}
	for reply.from != nil {
		reply = reply.from(req.clone())
	}
	a.send(reply)
}

func (s *Server) estimate(r Request) int {
	if s.config.Estimate != nil {
		return s.config.Estimate(r.clone())
	}
	return (len(r.Body) + 3) / 4
}

// contain turns a panic of a function that the caller gave into a 500, and a failed test if there is one.
// Such functions run before anything is written.
func (s *Server) contain(w http.ResponseWriter, path string) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	message := fmt.Sprintf("summarizetest: the function for a request to %s panicked: %v", path, p)
	if s.config.fail != nil {
		s.config.fail("%s", message)
	}
	a := &answer{server: s, w: w, reply: Fail(http.StatusInternalServerError, message)}
	a.write(jsonType, string(encode(a.failure())))
}

func (s *Server) models() Reply {
	ids := s.config.Models
	if ids == nil {
		ids = []string{"scripted-model"}
	}
	data := make([]any, len(ids))
	for i, id := range ids {
		data[i] = object{"id": id, "object": "model", "created": created, "owned_by": "summarizetest"}
	}
	return Reply{Body: string(encode(object{"object": "list", "data": data}))}
}

// reset breaks the connection so that the client reads a reset and not an end.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
