package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/requesttest"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// corpus are the transcripts that are one file: all of them, each under the
// format that it is read as.
func corpus(t *testing.T) []testdata.Session {
	t.Helper()
	all, err := testdata.Sessions()
	require.NoError(t, err)
	var out []testdata.Session
	count := map[string]int{}
	for _, s := range all {
		if len(s.Files) > 0 {
			continue // a folder
		}
		if s.Format == "other" { // the manifest does not know better
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			codec, _ := wire.Detect(data, true, formats.All()...)
			require.NotNil(t, codec, s.Path)
			s.Format = codec.Name()
		}
		out = append(out, s)
		count[s.Format]++
	}
	for _, c := range formats.All() {
		if !isFolder(c.Name()) {
			require.Positive(t, count[c.Name()], "no session of format %s", c.Name())
		}
	}
	require.GreaterOrEqual(t, count["openai-chat"], 14)
	require.GreaterOrEqual(t, count["claude-code"], 25)
	require.GreaterOrEqual(t, count["codex"], 8)
	return out
}

// isFolder reports whether sessions of the format are folders.
func isFolder(format string) bool {
	return slices.ContainsFunc(formats.Trees(), func(c wire.TreeCodec) bool { return c.Name() == format })
}

// place copies a transcript into a folder of its own.
func place(t *testing.T, s testdata.Session) string {
	t.Helper()
	data, err := os.ReadFile(s.File())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), filepath.Base(s.Path))
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

func inspected(t *testing.T, path string, conversation int) *report {
	t.Helper()
	r := run(t, "inspect", "--json", "--messages", "--conversation", strconv.Itoa(conversation), path)
	require.Equal(t, exitOK, r.code, r.stderr)
	out := new(report)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), out))
	return out
}

func loaded(t *testing.T, path string, conversation int) *input {
	t.Helper()
	in, err := load(t.Context(), path, conversation, false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.session.Close() })
	return in
}

// difference is a row of testdata/manifest.json: what inspect counts otherwise
// than the people who collected the transcript, and why.
type difference struct {
	Messages int    `json:"messages"`
	Calls    int    `json:"calls"`
	Results  int    `json:"results"`
	Why      string `json:"why,omitempty"`
}

// TestManifest holds inspect against the manifest. Calls count the live
// conversation here and the whole file there, so they are compared where
// nothing is off the live path.
func TestManifest(t *testing.T) {
	raw, err := os.ReadFile("testdata/manifest.json")
	require.NoError(t, err)
	known := map[string]difference{}
	require.NoError(t, json.Unmarshal(raw, &known))
	for _, s := range corpus(t) {
		t.Run(s.Path, func(t *testing.T) {
			r := inspected(t, s.File(), 1)
			require.Equal(t, s.Format, r.Format)
			got := difference{Messages: r.Messages + r.SideMessages, Calls: r.ToolCalls, Results: r.ToolResults}
			side := r.SideMessages > 0
			if s.Format == openaichat.Format {
				for n := 2; n <= r.Conversations; n++ {
					more := inspected(t, s.File(), n)
					got.Messages += more.Messages
					got.Calls += more.ToolCalls
					got.Results += more.ToolResults
				}
			}
			want := difference{Messages: s.Messages, Calls: s.Calls, Results: s.Results}
			if side {
				want.Calls, want.Results = got.Calls, got.Results
			}
			if d, ok := known[s.Path]; ok {
				require.NotEmpty(t, d.Why)
				require.NotEqual(t, want, got, "the difference is gone: take it out of the table")
				d.Why = ""
				if side {
					d.Calls, d.Results = got.Calls, got.Results
				}
				want = d
				delete(known, s.Path)
			}
			require.Equal(t, want, got)
		})
	}
	require.Empty(t, known, "rows for transcripts that do not exist")
}

// TestRoundTrip takes every conversation through a session and back.
func TestRoundTrip(t *testing.T) {
	for _, s := range corpus(t) {
		t.Run(s.Path, func(t *testing.T) {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			for n := 1; n == 1 || n <= loaded(t, s.File(), 1).conversations(); n++ {
				in := loaded(t, s.File(), n)
				items, err := in.items()
				require.NoError(t, err)
				var out bytes.Buffer
				require.NoError(t, in.file.Writer.Write(t.Context(), &out, in.index, items))
				require.True(t, bytes.Equal(data, out.Bytes()), "conversation %d is not the same", n)
			}
		})
	}
}

// TestCorpus compacts every conversation of every transcript at half of its
// tokens, and what comes out again.
func TestCorpus(t *testing.T) {
	for _, s := range corpus(t) {
		n := inspected(t, s.File(), 1).Conversations
		if os.Getenv("AGENTCOMPACT_FULL") != "1" {
			n = min(n, 3)
		}
		for c := 1; c <= n; c++ {
			t.Run(fmt.Sprintf("%s#%d", s.Path, c), func(t *testing.T) { halve(t, s, c) })
		}
	}
}

func halve(t *testing.T, s testdata.Session, conversation int) {
	path := place(t, s)
	dir, base := filepath.Dir(path), filepath.Base(path)
	was := inspected(t, path, conversation)
	original := loaded(t, path, conversation)
	conv := strconv.Itoa(conversation)
	if was.Tokens.Total == 0 {
		r := run(t, "compact", path)
		require.Equal(t, exitNothing, r.code, r.stderr)
		return
	}
	window := was.Tokens.Total / 2
	r := run(t, "compact", "--json", "--conversation", conv, "--window", strconv.Itoa(window), path)
	var out compacted
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out), r.stderr)
	require.Equal(t, was.Tokens.Total, out.Before.Tokens)
	require.Equal(t, was.Messages, out.Before.Messages)
	if r.code == exitNothing {
		require.False(t, out.Compacted)
		require.Contains(t, r.stderr, out.Reason)
		require.Empty(t, leftovers(t, dir, base))
		trueReason(t, was, out, window)
		return
	}
	require.Equal(t, exitOK, r.code, r.stderr)
	t.Logf("%d → %d tokens, %d shadowed, %d pruned", out.Before.Tokens, out.After.Tokens, out.Shadowed, out.Pruned)
	require.Less(t, float64(out.After.Tokens), 0.8*float64(window))
	require.Empty(t, leftovers(t, dir, base, filepath.Base(out.Out), filepath.Base(out.Sidecar)))

	whole(t, out, original, was, conversation)
	// Without the log the transcript can still be used.
	aside := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.Rename(out.Sidecar, aside))
	alone := inspected(t, out.Out, conversation)
	require.Equal(t, out.After.Messages, alone.Messages)
	noNewProblems(t, was, alone)
	validRequest(t, loaded(t, out.Out, conversation))
	require.NoError(t, os.Rename(aside, out.Sidecar))

	again(t, out.Out, conversation, original, was)
}

// again compacts a result by hand, and that result once more.
func again(t *testing.T, path string, conversation int, original *input, was *report) {
	t.Helper()
	conv := strconv.Itoa(conversation)
	r := run(t, "compact", "--json", "--conversation", conv, path)
	var out compacted
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out), r.stderr)
	if r.code == exitNothing {
		require.NotEmpty(t, out.Reason)
		return
	}
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Less(t, out.After.Tokens, out.Before.Tokens)
	whole(t, out, original, was, conversation)
	r = run(t, "compact", "--conversation", conv, out.Out)
	require.Equal(t, exitNothing, r.code, "by hand again: %s%s", r.stdout, r.stderr)
	require.Empty(t, r.stdout)
}

// whole checks a result with its log: the same count, a live checkpoint, no new
// problem, a valid request, and everything that is hidden.
func whole(t *testing.T, out compacted, original *input, was *report, conversation int) {
	t.Helper()
	now := inspected(t, out.Out, conversation)
	require.Equal(t, out.After.Tokens, now.Tokens.Total)
	require.Equal(t, out.After.Messages, now.Messages)
	require.Equal(t, was.Conversations, now.Conversations)
	live := 0
	for _, c := range now.Checkpoints {
		if c.Live {
			live++
		}
	}
	if out.Shadowed > 0 {
		require.Equal(t, 1, live, "live checkpoints in %+v", now.Checkpoints)
	}
	noNewProblems(t, was, now)
	in := loaded(t, out.Out, conversation)
	require.True(t, in.restored, "the log was not used: %v", in.notes)
	validRequest(t, in)

	log := openOwn(t, out.Sidecar).View()
	have := map[string]int{}
	for e := range log.Events(0) {
		if e.Type != session.TypeMessage {
			continue
		}
		m, err := e.Message()
		require.NoError(t, err)
		have[contentHash(m)]++
	}
	v := original.session.View()
	for i := range v.Len() {
		m, err := v.Message(i)
		require.NoError(t, err)
		h := contentHash(m)
		require.Positive(t, have[h], "message %d is not in the log", i)
		have[h]--
	}
	read, cursor := 0, ""
	for {
		p, err := recall.Read(log, recall.Hidden(), &recall.ReadOptions{Cursor: cursor, MaxTokens: 1 << 20})
		require.NoError(t, err)
		read += p.Messages
		if cursor = p.Next; cursor == "" {
			require.Equal(t, p.Total, read)
			break
		}
	}
	require.GreaterOrEqual(t, read, out.Shadowed-live)
}

// trueReason checks that there was indeed nothing to compact.
func trueReason(t *testing.T, was *report, out compacted, window int) {
	t.Helper()
	threshold := 8 * window / 10
	list := was.MessageList
	newest := 0
	for i := len(list) - 1; i >= 0; i-- {
		newest += list[i].Tokens
		if len(list[i].Results) == 0 {
			break
		}
	}
	envelope := was.Tokens.ByRole["system"]
	switch compact.Code(out.Code) {
	case compact.Floor:
		require.GreaterOrEqual(t, envelope+newest, threshold, out.Reason)
	case compact.NotSmaller, compact.NoProgress:
		// The shortest checkpoint has about 70 tokens.
		require.Greater(t, envelope+newest+70, threshold-70, out.Reason)
		require.Less(t, was.Tokens.Total, 400, out.Reason)
	default:
		require.Fail(t, "nothing to compact", "%s: %s", out.Code, out.Reason)
	}
}

// noNewProblems compares kind and call; seqs shift.
func noNewProblems(t *testing.T, was, now *report) {
	t.Helper()
	had := map[string]int{}
	for _, p := range was.Problems {
		had[p.Kind+" "+p.CallID]++
	}
	for _, p := range now.Problems {
		k := p.Kind + " " + p.CallID
		had[k]--
		require.GreaterOrEqual(t, had[k], 0, "a new problem: %s", k)
	}
}

func validRequest(t *testing.T, in *input) {
	t.Helper()
	requesttest.Session(t, in.session.View())
}
