package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/recall/mcpserver"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

// connect returns the SDK's client, connected to a server for the session.
func connect(t *testing.T, s *session.Session, svc compact.Service) *mcp.ClientSession {
	t.Helper()
	server := mcpserver.New(mcpserver.ForSession(compact.Agent{Session: s}, svc), &mcpserver.Options{Version: "v1"})
	here, there := mcp.NewInMemoryTransports()
	ss, err := server.Connect(t.Context(), there, nil)
	require.NoError(t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	cs, err := client.Connect(t.Context(), here, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, cs.Close())
		_ = ss.Wait()
	})
	return cs
}

func call(t *testing.T, cs *mcp.ClientSession, name, args string) (string, *mcp.CallToolResult) {
	t.Helper()
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	require.NoError(t, err)
	require.Len(t, r.Content, 1)
	return r.Content[0].(*mcp.TextContent).Text, r
}

func newSession(t *testing.T) (*session.Session, *engine.Engine) {
	t.Helper()
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	for _, word := range []string{"alpha", "bravo", "charlie", "delta"} {
		_, err := s.Append(t.Context(), session.UserText("look at "+word), session.AssistantText("reading", session.ToolCall{ID: word, Name: "read", Arguments: `{"path":"` + word + `.go"}`}),
			session.ToolText(word, "contents of "+word+"\n"+strings.Repeat("a line of "+word+"\n", 200)), session.AssistantText("done with "+word))
		require.NoError(t, err)
	}
	e, err := engine.New(summarize.NewExtractive(nil), &engine.Options{Policy: engine.Policy{RetainRatio: 0.2}})
	require.NoError(t, err)
	return s, e
}

func TestServer(t *testing.T) {
	s, e := newSession(t)
	before := s.View()
	cs := connect(t, s, e)
	require.Contains(t, cs.InitializeResult().Instructions, "history_search")

	list, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	names := map[string]*mcp.Tool{}
	for _, tool := range list.Tools {
		names[tool.Name] = tool
		require.NotEmpty(t, tool.Description)
	}
	require.Len(t, names, 5)
	for _, n := range []string{recall.ToolRead, recall.ToolSearch, mcpserver.ToolPlan} {
		require.True(t, names[n].Annotations.ReadOnlyHint, n)
	}
	for _, n := range []string{mcpserver.ToolCompact, mcpserver.ToolUndo} {
		require.False(t, names[n].Annotations.ReadOnlyHint, n)
	}

	text, r := call(t, cs, recall.ToolSearch, `{"query":"alpha"}`)
	require.False(t, r.IsError)
	require.Contains(t, text, "0 hidden messages searched")

	text, r = call(t, cs, mcpserver.ToolPlan, `{"keep":[4]}`)
	require.False(t, r.IsError, text)
	var p compact.Plan
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	require.Contains(t, p.Kept, session.Seq(4))
	require.NotNil(t, r.StructuredContent)
	require.Equal(t, before.Next(), s.View().Next(), "a plan changes nothing")

	text, r = call(t, cs, mcpserver.ToolCompact, `{"instructions":"keep the paths"}`)
	require.False(t, r.IsError, text)
	var c mcpserver.Change
	require.NoError(t, json.Unmarshal([]byte(text), &c))
	require.Less(t, c.After, c.Before)
	require.Less(t, s.View().Len(), before.Len())

	text, r = call(t, cs, recall.ToolSearch, `{"query":"contents of alpha"}`)
	require.False(t, r.IsError)
	require.Contains(t, text, "#2 tool: contents of alpha")
	text, r = call(t, cs, recall.ToolRead, `{"compaction":"`+c.Compaction+`"}`)
	require.False(t, r.IsError)
	require.Contains(t, text, "look at alpha")

	text, r = call(t, cs, mcpserver.ToolUndo, `{"compaction":"nowhere"}`)
	require.True(t, r.IsError)
	require.Contains(t, text, `compaction "nowhere" is not live`)
	text, r = call(t, cs, mcpserver.ToolUndo, `{"compaction":"`+c.Compaction+`"}`)
	require.False(t, r.IsError, text)
	var u mcpserver.Change
	require.NoError(t, json.Unmarshal([]byte(text), &u))
	require.Equal(t, c.Compaction, u.Compaction)
	require.Equal(t, c.Messages, u.Messages)
	require.Equal(t, before.Len(), s.View().Len())
	for i := range before.Len() {
		require.Equal(t, before.Node(i).Seq, s.View().Node(i).Seq)
	}
	text, r = call(t, cs, mcpserver.ToolUndo, `{}`)
	require.True(t, r.IsError)
	require.Contains(t, text, "name messages that are on the surface now", "with the advice")
	for _, bad := range []struct{ name, args string }{{mcpserver.ToolCompact, `{"keep":"x"}`}, {recall.ToolRead, `{"from":"x"}`}, {mcpserver.ToolUndo, `{"compaction":1}`}} {
		text, r = call(t, cs, bad.name, bad.args)
		require.True(t, r.IsError, "%s %s: %s", bad.name, bad.args, text)
	}
}

// bare is a service without any optional ability.
type bare struct{ compact.Service }

func TestServiceWithoutAbilities(t *testing.T) {
	s, e := newSession(t)
	cs := connect(t, s, bare{e})
	for _, name := range []string{mcpserver.ToolCompact, mcpserver.ToolPlan, mcpserver.ToolUndo} {
		text, r := call(t, cs, name, `{}`)
		require.True(t, r.IsError)
		require.Contains(t, text, "this service cannot")
	}
}

// TestSeesWhatOthersAppend: each call looks at the newest state of the store.
func TestSeesWhatOthersAppend(t *testing.T) {
	store := session.NewMemoryStore()
	mine, err := session.Open(t.Context(), store, nil)
	require.NoError(t, err)
	other, err := session.Open(t.Context(), store, nil)
	require.NoError(t, err)
	_, e := newSession(t)
	cs := connect(t, mine, e)
	_, err = other.Append(context.Background(), session.UserText("a needle"))
	require.NoError(t, err)
	_, err = other.Record(context.Background(), session.Rewind{To: session.NoSeq})
	require.NoError(t, err)
	text, _ := call(t, cs, recall.ToolSearch, `{"query":"needle"}`)
	require.Contains(t, text, "1 match")
}
