package main

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/requesttest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

func TestScripted(t *testing.T) {
	ctx := context.Background()
	srv := newScriptedModel()
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "session.jsonl")
	var out bytes.Buffer
	require.NoError(t, scripted(ctx, &out, srv.URL(), t.TempDir(), file), "%s", &out)

	s := open(t, file)
	h := compact.HistoryOf(s)
	require.NoError(t, h.Err())
	triggers := make(map[compact.Trigger]int)
	for _, a := range h.Attempts {
		require.True(t, a.Committed(), "%+v", a)
		triggers[a.Start.Trigger]++
	}
	assert.Equal(t, 1, triggers[compact.ContextOverflow])
	assert.GreaterOrEqual(t, triggers[compact.Pressure], 2)
	assert.Equal(t, []compact.WindowEvent{{Provider: "scripted", Model: agentModel, Window: realWindow}}, h.Windows)

	assert.Contains(t, out.String(), "on its surface are those that the first one left")
	var ends []string
	for e := range s.View().Events(0) {
		if e.Type == session.TypeTurnEnd {
			body, err := e.Body()
			require.NoError(t, err)
			ends = append(ends, body.(*session.TurnEnd).Reason)
		}
	}
	assert.Equal(t, []string{"completed", session.ReasonInterrupted, "completed", "completed"}, ends)
	assert.Equal(t, session.NoSeq, s.View().OpenStep())

	refused, summaries := 0, 0
	for _, r := range srv.Requests() {
		checkRequest(t, r)
		if r.OverWindow {
			refused++
		}
		if ofSummarizer(r) {
			summaries++
		}
	}
	assert.Equal(t, 1, refused, "after the first refusal the agent knows the window")
	assert.Equal(t, len(h.Attempts), summaries)
	assert.Equal(t, len(agentScript())+refused+summaries, len(srv.Requests()), "all of the script was played")
}

// checkRequest checks a request with the library's validator, and the rules that matter most once more
// without it.
func checkRequest(t *testing.T, r summarizetest.Request) {
	t.Helper()
	assert.Empty(t, openaichat.ValidateWith(r.Body, openaichat.Checks{ModelCall: true, UniqueIDs: true}), "%s", r.Body)
	requesttest.Chat(t, r.Body)
	chat, err := r.Chat()
	require.NoError(t, err)
	var open []string
	for i, m := range chat.Messages {
		assert.Equal(t, i == 0, m.Role == "system", "request %d, message %d", r.Index, i)
		if m.Role == "tool" {
			at := slices.Index(open, m.ToolCallID)
			require.GreaterOrEqual(t, at, 0, "request %d, message %d answers no call", r.Index, i)
			open = slices.Delete(open, at, at+1)
			continue
		}
		require.Empty(t, open, "request %d, message %d comes before a result", r.Index, i)
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
		}
	}
	assert.Empty(t, open)
}

func TestLiveResumes(t *testing.T) {
	srv := summarizetest.New(t,
		summarizetest.Call(summarizetest.ToolCall{ID: "c1", Name: "run", Arguments: `{"args":["rm","x"]}`}),
		summarizetest.Text("first"), summarizetest.Text("second"))
	t.Setenv("OPENAI_BASE_URL", srv.URL())
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("OPENAI_MODEL", "a-model")
	o := options{live: true, file: filepath.Join(t.TempDir(), "s.jsonl"), dir: t.TempDir(), window: 100_000}

	require.ErrorContains(t, run(context.Background(), &bytes.Buffer{}, o), "prompt")
	for _, answer := range []string{"first", "second"} {
		var out bytes.Buffer
		o.prompt = "prompt of the " + answer
		require.NoError(t, run(context.Background(), &out, o))
		assert.Contains(t, out.String(), answer)
	}
	for _, r := range srv.Requests() {
		checkRequest(t, r)
	}
	chat, err := srv.Requests()[2].Chat()
	require.NoError(t, err)
	var texts []string
	for _, m := range chat.Messages[1:] {
		texts = append(texts, m.Text)
	}
	assert.Equal(t, []string{
		"prompt of the first", "", "error: only these commands may be run: ls, wc, grep, head, tail", "first", "prompt of the second",
	}, texts)
}

func TestSandbox(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeMinutes(dir))
	box, err := openSandbox(dir)
	require.NoError(t, err)
	defer box.close()
	for args, want := range map[string]string{
		`{"path":"private.txt"}`:           "not for agents\n",
		`{"path":"../private.txt"}`:        "escapes",
		`{"path":"/etc/hostname"}`:         "escapes",
		`{"path":"none"}`:                  "error: ",
		`{"args":[]}`:                      "only these commands",
		`{"args":["sh","-c","ls"]}`:        "only these commands",
		`{"args":["ls",".."]}`:             "leads out",
		`{"args":["ls","a/../.."]}`:        "leads out",
		`{"args":["grep","-f/etc/x","."]}`: "leads out",
		`{"args":["head","--x=/etc/x"]}`:   "leads out",
		`{"args":["wc","private.txt"]}`:    "private.txt",
		`{"args":["ls","none"]}`:           "error: ",
		`nothing`:                          "arguments",
	} {
		name := "run"
		if args[:3] == `{"p` {
			name = "read_file"
		}
		m := box.call(context.Background(), session.ToolCall{ID: "c", Name: name, Arguments: args})
		require.NoError(t, m.Validate())
		assert.Contains(t, m.Text(), want, args)
	}
}

func open(t *testing.T, file string) *session.Session {
	t.Helper()
	store, err := filestore.Open(file, &filestore.Options{ReadOnly: true})
	require.NoError(t, err)
	s, err := session.Open(context.Background(), store, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}
