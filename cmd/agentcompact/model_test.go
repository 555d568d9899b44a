package main

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/requesttest"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

const note = `## Goal
Fix line numbers in the files below /srv/app.

## State
The first files were read; each lacks a check on one line, and the findings were told to the user.

## Done
The files were read with the read tool and a finding was written for each of them.

## Failures
None.

## Decisions
Each file is read before anything is said about it.

## Next
Go on with the files that were not looked at yet.
`

// TestModel writes the checkpoint with a model and says what it cost.
func TestModel(t *testing.T) {
	t.Setenv("AGENTCOMPACT_TEST_KEY", "sk-test")
	srv := summarizetest.New(t, summarizetest.Text(note).WithUsage(summarizetest.Usage{Prompt: 900, Completion: 120}))
	path := filepath.Join(t.TempDir(), "session.jsonl")
	ownSession(t, path, 20)
	r := run(t, "compact", "--json", "--model", "test-model", "--base-url", srv.URL(), "--key-env", "AGENTCOMPACT_TEST_KEY", "--instructions", "keep the findings", path)
	require.Equal(t, exitOK, r.code, r.stderr)
	var out compacted
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	require.Contains(t, out.Summarizer, "test-model")
	require.Equal(t, 1, out.Calls)
	require.Equal(t, &usageInfo{Prompt: 900, Completion: 120}, out.Usage)
	reqs := srv.Requests()
	require.Len(t, reqs, 1)
	requesttest.Chat(t, reqs[0].Body)
	require.Equal(t, "Bearer sk-test", reqs[0].Header.Get("Authorization"))
	require.Contains(t, string(reqs[0].Body), "keep the findings")
}

// TestModelFails: exit 1 with the cause, the session as it was; with --fallback
// the embedded summarizer takes over.
func TestModelFails(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Fail(401, "wrong key"))
	path := filepath.Join(t.TempDir(), "session.jsonl")
	ownSession(t, path, 20)
	before := inspected(t, path, 1)
	r := run(t, "compact", "--model", "m", "--base-url", srv.URL(), path)
	require.Equal(t, exitFailed, r.code)
	require.Empty(t, r.stdout)
	require.Contains(t, r.stderr, path)
	require.Contains(t, r.stderr, "401")
	require.Contains(t, r.stderr, "does not accept the key for model \"m\"")
	require.Contains(t, r.stderr, "or add --fallback")
	require.Equal(t, before, inspected(t, path, 1))

	r = run(t, "compact", "--json", "--model", "m", "--base-url", srv.URL(), "--fallback", path)
	require.Equal(t, exitOK, r.code, r.stderr)
	var out compacted
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	require.Equal(t, "extractive", out.Summarizer)
	require.Positive(t, out.Calls)
}

// TestEndpointErrors: what a person has to check is named.
func TestEndpointErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.jsonl")
	ownSession(t, path, 20)
	t.Setenv("AGENTCOMPACT_TEST_KEY", "sk-test")
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, c := range map[string]struct {
		status int
		url    string
		keyEnv string
		want   []string
		code   string
	}{
		"wrong key": {401, "", "AGENTCOMPACT_TEST_KEY", []string{`does not accept the key for model "m" (the key is that of AGENTCOMPACT_TEST_KEY)`, "the words of the provider", "--key-env"}, "auth"},
		"no key":    {401, "", "AGENTCOMPACT_NO_KEY", []string{"AGENTCOMPACT_NO_KEY is not set, so no key was sent"}, "auth"},
		"no model":  {404, "", "AGENTCOMPACT_TEST_KEY", []string{`has no chat completions or no model "m"`, "--base-url, which mostly ends in /v1"}, "invalid"},
		"bad":       {400, "", "AGENTCOMPACT_TEST_KEY", []string{`model "m" at`, "the words of the provider"}, "invalid"},
		"no server": {0, closed.URL, "AGENTCOMPACT_TEST_KEY", []string{closed.URL + " cannot be reached", "that the server runs"}, "transient"},
	} {
		t.Run(name, func(t *testing.T) {
			url := c.url
			if url == "" {
				url = summarizetest.New(t, summarizetest.Fail(c.status, "the words of the provider")).URL()
			}
			r := run(t, "compact", "--json", "--model", "m", "--base-url", url, "--key-env", c.keyEnv, path)
			require.Equal(t, exitFailed, r.code)
			for _, w := range append(c.want, url, path) {
				require.Contains(t, r.stderr, w)
			}
			var f failure
			require.NoError(t, json.Unmarshal([]byte(r.stdout), &f))
			require.Equal(t, c.code, f.Error.Code)
			require.Contains(t, f.Error.Advice, "--fallback")
		})
	}
}
