package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/recall/mcpserver"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
)

// serve starts the command and connects the SDK's client to it.
func serve(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // its end is the client's
	cmd := exec.CommandContext(ctx, "agentcompact", append([]string{"mcp"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	cs, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err, "%s", &errs)
	t.Cleanup(func() {
		require.NoError(t, cs.Close(), "it ends when its client goes: %s", &errs)
		require.Empty(t, errs.String())
	})
	return cs
}

func called(t *testing.T, cs *mcp.ClientSession, name, args string, into any) string {
	t.Helper()
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	require.NoError(t, err)
	text := r.Content[0].(*mcp.TextContent).Text
	require.False(t, r.IsError, text)
	if into != nil {
		require.NoError(t, json.Unmarshal([]byte(text), into))
	}
	return text
}

// TestMCPOwnSession: an agent compacts its own session through the server while
// it goes on appending, finds a detail again, and undoes the compaction.
func TestMCPOwnSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.jsonl")
	ownSession(t, path, 20)
	was := surfaceOf(t, path)
	cs := serve(t, path)
	var c mcpserver.Change
	called(t, cs, mcpserver.ToolCompact, `{}`, &c)
	require.Empty(t, c.Out, "in place")
	require.Less(t, len(surfaceOf(t, path)), len(was))
	text := called(t, cs, recall.ToolSearch, `{"query":"request 3:"}`, nil)
	require.Contains(t, text, "Request 3: have a look at /srv/app/file3.go")

	appended := openForWriting(t, path)
	_, err := appended.Append(t.Context(), session.UserText("and meanwhile this"))
	require.NoError(t, err)
	require.NoError(t, appended.Close())
	var u mcpserver.Change
	called(t, cs, mcpserver.ToolUndo, `{}`, &u)
	require.Equal(t, c.Compaction, u.Compaction)
	now := surfaceOf(t, path)
	require.Equal(t, was, now[:len(was)])
	require.Len(t, now, len(was)+1)
	require.Contains(t, called(t, cs, recall.ToolSearch, `{"query":"request 3:"}`, nil), "0 match")
}

// TestMCPForeignFile: the result of a compaction is a file beside it.
func TestMCPForeignFile(t *testing.T) {
	all, err := testdata.Sessions()
	require.NoError(t, err)
	var path string
	for _, s := range all {
		if filepath.Base(s.Path) == "mini-swe-380-messages.traj.json" {
			path = place(t, s)
		}
	}
	was := whatIsSeen(t, path, 1)
	cs := serve(t, path)
	called(t, cs, mcpserver.ToolPlan, `{}`, nil)
	var c, u mcpserver.Change
	called(t, cs, mcpserver.ToolCompact, `{}`, &c)
	require.FileExists(t, c.Out)
	require.Equal(t, was, whatIsSeen(t, path, 1), "the file itself is left alone")
	text := called(t, cs, recall.ToolRead, `{"compaction":"`+c.Compaction+`"}`, nil)
	require.Contains(t, text, "the next page: history_read")
	called(t, cs, mcpserver.ToolUndo, `{}`, &u)
	require.Equal(t, was, whatIsSeen(t, u.Out, 1))
}

func TestMCPRefusesAtOnce(t *testing.T) {
	r := run(t, "mcp", filepath.Join(t.TempDir(), "nowhere.jsonl"))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "does not exist")
	require.Equal(t, exitUsage, run(t, "mcp").code)
}
