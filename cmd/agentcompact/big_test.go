package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bigTranscript writes a chat of about so many bytes.
func bigTranscript(t *testing.T, path string, size int) (messages int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriter(f)
	written := 0
	put := func(format string, args ...any) {
		n, err := fmt.Fprintf(w, format, args...)
		require.NoError(t, err)
		written += n
	}
	put(`{"model":"m","messages":[{"role":"system","content":"You are an agent."}`)
	messages = 1
	line := strings.Repeat("the quick brown fox jumps over /srv/app/lazy_dog.go and reports 42 failures; ", 8)
	for i := 0; written < size; i++ {
		if i%20 == 0 {
			put(`,{"role":"user","content":"Request %d: go on with part %d."}`, i, i)
			messages++
		}
		put(`,{"role":"assistant","content":"I look at part %d.","tool_calls":[{"id":"c%d","type":"function","function":{"name":"read","arguments":"{\"path\":\"/srv/app/part%d.go\"}"}}]}`, i, i, i)
		result, err := json.Marshal(fmt.Sprintf("part %d\n", i) + strings.Repeat(line+"\n", 1+i%12))
		require.NoError(t, err)
		put(`,{"role":"tool","tool_call_id":"c%d","content":%s}`, i, result)
		messages += 2
	}
	put(`,{"role":"assistant","content":"Done."}]}`)
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
	return messages + 1
}

// TestBigFile takes a file of 200 MB (20 without AGENTCOMPACT_FULL) through the
// command as a process of its own and bounds its memory.
func TestBigFile(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	size := 20 << 20
	if os.Getenv("AGENTCOMPACT_FULL") == "1" {
		size = 200 << 20
	}
	path := filepath.Join(t.TempDir(), "big.json")
	messages := bigTranscript(t, path, size)
	stdout, rss := process(t, "inspect", "--json", path)
	var r report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, messages, r.Messages)
	require.Equal(t, r.ToolCalls, r.ToolResults)
	require.Empty(t, r.Problems)
	t.Logf("inspect: %d messages, %d tokens, %d MB for a file of %d MB", r.Messages, r.Tokens.Total, rss>>20, size>>20)
	require.Less(t, rss, int64(8*size+200<<20))

	stdout, rss = process(t, "compact", "--json", "--window", "200000", path)
	var out compacted
	require.NoError(t, json.Unmarshal([]byte(stdout), &out))
	require.True(t, out.Compacted)
	require.Less(t, out.After.Tokens, 160_000)
	t.Logf("compact: %d → %d tokens, %d MB", out.Before.Tokens, out.After.Tokens, rss>>20)
	require.Less(t, rss, int64(12*size+200<<20))
	after := inspected(t, out.Out, 1)
	require.Equal(t, out.After.Tokens, after.Tokens.Total)
	require.Empty(t, after.Problems)
	require.Equal(t, 1, live(after))
}

// process runs the command as a process of its own and returns what it printed
// and the most memory that it had.
func process(t *testing.T, args ...string) (string, int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "agentcompact", args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	return string(out), maxRSS(cmd.ProcessState)
}

// bigLog writes a Codex rollout of about so many bytes, in which little is said
// twice.
func bigLog(t *testing.T, path string, size int) (messages int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriter(f)
	written := 0
	put := func(kind, format string, args ...any) {
		n, err := fmt.Fprintf(w, `{"timestamp":"2026-11-30T10:00:00.000Z","type":%q,"payload":`+format+"}\n", append([]any{kind}, args...)...)
		require.NoError(t, err)
		written += n
	}
	var b strings.Builder
	put("session_meta", `{"id":"s","cwd":"/w","model_provider":"openai"}`)
	for i := 0; written < size; i++ {
		if i%20 == 0 {
			put("response_item", `{"type":"message","role":"user","content":[{"type":"input_text","text":"Request %d: go on with part %d."}]}`, i, i)
			messages++
		}
		put("response_item", `{"type":"function_call","name":"read","arguments":"{\"path\":\"/srv/app/part%d.go\"}","call_id":"c%d"}`, i, i)
		b.Reset()
		for k := range 8 + i%120 {
			fmt.Fprintf(&b, `the quick brown fox number %d jumps over the lazy dog %d\n`, i, k)
		}
		put("response_item", `{"type":"function_call_output","call_id":"c%d","output":"part %d\n%s"}`, i, i, b.String())
		messages += 2
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
	return messages
}

// TestBigLog takes a log of 48 MB (1 GB with AGENTCOMPACT_FULL) through the
// command: what it needs beyond what the session keeps of every message does not
// grow with the file.
func TestBigLog(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const kept = 700 // bytes a message: session, links, what the checkpoint hides
	size, inspects, compacts := 48<<20, int64(70<<20), int64(120<<20)
	if os.Getenv("AGENTCOMPACT_FULL") == "1" {
		size, inspects, compacts = 1<<30, 300<<20, 300<<20
	}
	path := filepath.Join(t.TempDir(), "big.jsonl")
	messages := bigLog(t, path, size)
	stdout, rss := process(t, "inspect", "--json", path)
	var r report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, messages, r.Messages)
	require.Empty(t, r.Problems)
	t.Logf("inspect: %d messages, %d MB for a file of %d MB", messages, rss>>20, size>>20)
	require.Less(t, rss, inspects+kept*int64(messages))

	stdout, rss = process(t, "compact", "--json", "--window", "200000", path)
	var out compacted
	require.NoError(t, json.Unmarshal([]byte(stdout), &out))
	require.True(t, out.Compacted)
	require.Less(t, out.After.Tokens, 160_000)
	t.Logf("compact: %d → %d tokens, %d MB", out.Before.Tokens, out.After.Tokens, rss>>20)
	require.Less(t, rss, compacts+kept*int64(messages))
}
