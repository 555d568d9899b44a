package summarize

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

func t4(s string) int { return (len(s) + 3) / 4 }

func itemsOf(msgs ...session.Message) []Item {
	out := make([]Item, len(msgs))
	for i := range msgs {
		out[i] = Item{Seq: session.Seq(i), Message: &msgs[i], Tokens: session.BytePricer{}.Price(&msgs[i])}
	}
	return out
}

func requestOf(msgs ...session.Message) *Request {
	return &Request{ID: "c1", Items: itemsOf(msgs...), Count: t4, MaxTokens: 2000}
}

// fill is n tokens of text.
func fill(n int) string { return strings.Repeat("line of invented log text; ", 4*n/27+1)[:4*n] }

// loose is a guard for scripted one-liners.
var loose = &GuardOptions{NoSections: true, NoFloor: true, KeepInvented: true}

const note = "The pump was checked and is fine."

// clock records waits and passes time without waiting.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = append(c.waits, d)
	c.now = c.now.Add(d)
	return context.Cause(ctx)
}

func (c *clock) options(o RunOptions) *RunOptions {
	o.Now, o.Sleep, o.Jitter = c.Now, c.Sleep, func() float64 { return 0 }
	if o.Guard == nil {
		o.Guard = loose
	}
	return &o
}

// client keeps no connection, so that nothing is left behind.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

func newTestLLM(t *testing.T, srv *summarizetest.Server, o LLMOptions) Summarizer {
	t.Helper()
	o.BaseURL, o.APIKey, o.HTTPClient = srv.URL(), "key", client()
	if o.Model == "" {
		o.Model = "scribe"
	}
	s, err := NewLLM(o)
	require.NoError(t, err)
	return s
}

func outcomes(calls []Call) (out []string) {
	for _, c := range calls {
		out = append(out, c.Purpose+" "+c.Outcome)
	}
	return out
}

// requestT4 counts the texts of a request as the tests of the library do.
func requestT4(r summarizetest.Request) int {
	c, err := r.Chat()
	if err != nil {
		return 0
	}
	n := 0
	for _, m := range c.Messages {
		n += t4(m.Text)
		for _, tc := range m.ToolCalls {
			n += t4(tc.Name + tc.Arguments)
		}
	}
	for _, tool := range c.Tools {
		n += t4(string(tool))
	}
	return n
}

func lastText(t *testing.T, r summarizetest.Request) string {
	t.Helper()
	c, err := r.Chat()
	require.NoError(t, err)
	last := c.Messages[len(c.Messages)-1]
	require.Equal(t, "user", last.Role)
	return last.Text
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func readAll(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	return body
}

// timeOut makes the n-th request time out when it has arrived, and no other.
func timeOut(t *testing.T, s Summarizer, srv *summarizetest.Server, n int) {
	var made atomic.Int32
	s.(*llm).after = func(_ time.Duration, f func()) *time.Timer {
		if made.Add(1) == int32(n) {
			go func() {
				if _, err := srv.Await(t.Context(), n); err == nil {
					f()
				}
			}()
		}
		return time.NewTimer(time.Hour)
	}
}

// answer is a whole reply of a server.
func answer(body string) *http.Response {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}
