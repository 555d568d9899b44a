package anthropic

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

const blocks = `[
	{"type":"thinking","thinking":"hm","signature":"sig"},
	{"type":"redacted_thinking","data":"zzz"},
	{"type":"text","text":"<hello>"},
	{"type":"tool_use","id":"t1","name":"Bash","input":{"b":1.0,"a":"x"}},
	{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
	{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"AAAABBBB"}},
	{"type":"tool_result","tool_use_id":"t1","content":"out","is_error":true},
	{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"tool_reference","tool_name":"q"}]},
	{"type":"tool_result","tool_use_id":"t3"},
	{"type":"server_tool_use","id":"s1"},
	"stray"
]`

func TestParts(t *testing.T) {
	parts, ok := Parts(json.RawMessage(blocks))
	require.True(t, ok)
	require.Equal(t, []session.Part{
		session.Reasoning{Text: "hm", Signature: "sig", Raw: json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"sig"}`)},
		session.Reasoning{Encrypted: "zzz", Raw: json.RawMessage(`{"type":"redacted_thinking","data":"zzz"}`)},
		session.Text{Text: "<hello>"},
		session.ToolCall{ID: "t1", Name: "Bash", Arguments: `{"b":1.0,"a":"x"}`, Raw: json.RawMessage(`{"type":"tool_use","id":"t1","name":"Bash","input":{"b":1.0,"a":"x"}}`)},
		session.Image{URL: "data:image/png;base64,AAAA", MediaType: "image/png", Raw: json.RawMessage(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`)},
		session.File{Name: "a.pdf", URL: "data:application/pdf;base64,AAAABBBB", MediaType: "application/pdf", Bytes: 6, Raw: json.RawMessage(`{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"AAAABBBB"}}`)},
		session.ToolResult{CallID: "t1", Parts: []session.Part{session.Text{Text: "out"}}, IsError: true},
		session.ToolResult{CallID: "t2", Parts: []session.Part{
			session.Text{Text: "a"},
			session.Image{URL: "https://x/y.png", Raw: json.RawMessage(`{"type":"image","source":{"type":"url","url":"https://x/y.png"}}`)},
			session.Opaque{Kind: "tool_reference", Raw: json.RawMessage(`{"type":"tool_reference","tool_name":"q"}`)},
		}},
		session.ToolResult{CallID: "t3"},
		session.Opaque{Kind: "server_tool_use", Raw: json.RawMessage(`{"type":"server_tool_use","id":"s1"}`)},
		session.Opaque{Kind: "invalid", Raw: json.RawMessage(`"stray"`)},
	}, parts)

	again, ok := Parts(Content(parts))
	require.True(t, ok)
	require.Equal(t, parts, again, "what was encoded is not what was decoded")
}

func TestPartsRefuses(t *testing.T) {
	for _, in := range []string{"", "null", "{}", "1"} {
		_, ok := Parts(json.RawMessage(in))
		require.False(t, ok, in)
	}
	parts, ok := Parts(json.RawMessage(`""`))
	require.True(t, ok)
	require.Empty(t, parts)
}

func TestContentOfChangedParts(t *testing.T) {
	raw := json.RawMessage(`{"type":"tool_use","id":"t1","name":"Bash","input":{"a":1}}`)
	got := Content([]session.Part{
		session.ToolCall{ID: "t1", Name: "Bash", Arguments: `{"a":2}`, Raw: raw},
		session.ToolCall{ID: "t2", Name: "patch", Arguments: "free text", Custom: true},
		session.Reasoning{Text: "of another provider", Raw: json.RawMessage(`{"type":"reasoning"}`)},
		session.Image{URL: "data:image/png;base64,AA"},
	})
	require.JSONEq(t, `[
		{"type":"tool_use","id":"t1","name":"Bash","input":{"a":2}},
		{"type":"tool_use","id":"t2","name":"patch","input":{"input":"free text"}},
		{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}
	]`, string(got))
}

func TestUsage(t *testing.T) {
	u := (&Usage{Input: 10, Output: 5, CacheWrite: 200, CacheRead: 3000}).Session("m")
	require.Equal(t, &session.Usage{Node: session.NoSeq, Prompt: 3210, Completion: 5, CacheRead: 3000, CacheWrite: 200, Provider: "anthropic", Model: "m"}, u)
	require.Nil(t, (&Usage{}).Session("m"))
	require.Nil(t, (*Usage)(nil).Session("m"))
}
