package summarizetest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/agentcompact/agentcompact/summarize/summarizetest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns an HTTP client of its own, so that no connection outlives the test.
func client(tb testing.TB) *http.Client {
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// soon bounds what must happen anyway; it decides nothing in a test that passes.
func soon(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	tb.Cleanup(cancel)
	return ctx
}

const (
	plain    = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	streamed = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	metered  = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`
)

func post(tb testing.TB, srv *summarizetest.Server, body string) (*http.Response, error) {
	tb.Helper()
	req, err := http.NewRequestWithContext(soon(tb), http.MethodPost, srv.URL()+"/chat/completions", bytes.NewBufferString(body))
	require.NoError(tb, err)
	req.Header.Set("Authorization", "Bearer k")
	res, err := client(tb).Do(req)
	if err == nil {
		tb.Cleanup(func() { _ = res.Body.Close() })
	}
	return res, err
}

// body posts and returns what came of the answer's body, and the error that ended it.
func body(tb testing.TB, srv *summarizetest.Server, request string) (*http.Response, string, error) {
	tb.Helper()
	res, err := post(tb, srv, request)
	require.NoError(tb, err)
	data, err := io.ReadAll(res.Body)
	return res, string(data), err
}
