package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestShow: one compaction is completed and one aborted, and the facts are in
// every request after the first, in front of the model.
func TestShow(t *testing.T) {
	var out locked
	require.NoError(t, show(t.Context(), &out))
	http.DefaultClient.CloseIdleConnections()
	got := out.String()
	t.Log(got)
	require.Contains(t, got, "# 2 started, 1 completed, 1 aborted, 0 callbacks failed")
	require.Contains(t, got, `msg="compaction completed"`)
	require.Contains(t, got, "rule=codex.local_compaction.v1")
	require.Contains(t, got, "code=not_installed")
	require.Equal(t, 3, strings.Count(got, `with "Still true:\n- The port is 8443.`))
	require.NotContains(t, got, "half done", "no content is logged")
}

// TestPassThrough: what is not to be watched is passed on as it is, and so are
// refusals and what cannot be read.
func TestPassThrough(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			_, _ = w.Write([]byte("models"))
			return
		}
		http.Error(w, "too long", http.StatusBadRequest)
	}))
	defer up.Close()
	var out locked
	g, err := assemble(&out, up.URL)
	require.NoError(t, err)
	srv := httptest.NewServer(g)
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	ask := func(method, path, body string) (int, string) {
		r, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("X-Conversation-Id", "c")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, strings.TrimSpace(b.String())
	}
	code, text := ask(http.MethodGet, "/v1/models", "")
	require.Equal(t, []any{200, "models"}, []any{code, text})
	code, text = ask(http.MethodPost, "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, []any{400, "too long"}, []any{code, text})
	code, _ = ask(http.MethodPost, "/v1/chat/completions", `nonsense`)
	require.Equal(t, 502, code)
	require.Zero(t, g.detector.Branches(), "a request that was refused is not told to the detector")
}

// locked is a buffer for several goroutines.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
