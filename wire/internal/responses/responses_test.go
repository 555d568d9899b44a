package responses

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

// items are decoded and, unless lossy, give the same item when they are encoded
// from their parts.
func TestItems(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, c := range []struct {
		name, in string
		role     session.Role
		parts    []session.Part
		lossy    bool
	}{
		{"user", `{"type":"message","role":"user","content":[{"type":"input_text","text":"a<b"},{"type":"input_image","image_url":"data:image/png;base64,AA","detail":"low"}]}`, session.RoleUser,
			[]session.Part{session.Text{Text: "a<b"}, session.Image{URL: "data:image/png;base64,AA", MediaType: "image/png", Detail: "low", Raw: raw(`{"type":"input_image","image_url":"data:image/png;base64,AA","detail":"low"}`)}}, false},
		{"assistant", `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"},{"type":"refusal","refusal":"no"}]}`, session.RoleAssistant,
			[]session.Part{session.Text{Text: "hi"}, session.Opaque{Kind: "refusal", Raw: raw(`{"type":"refusal","refusal":"no"}`)}}, false},
		{"role only, string content", `{"role":"system","content":"be brief"}`, session.RoleSystem, []session.Part{session.Text{Text: "be brief"}}, true},
		{"reasoning", `{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"content":null,"encrypted_content":"xx"}`, session.RoleAssistant,
			[]session.Part{session.Reasoning{ID: "rs", Text: "a\n\nb", Encrypted: "xx", Raw: raw(`{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"content":null,"encrypted_content":"xx"}`)}}, false},
		{"call", `{"type":"function_call","name":"shell","arguments":"{\"a\":1}","call_id":"c1"}`, session.RoleAssistant,
			[]session.Part{session.ToolCall{ID: "c1", Name: "shell", Arguments: `{"a":1}`, Raw: raw(`{"type":"function_call","name":"shell","arguments":"{\"a\":1}","call_id":"c1"}`)}}, false},
		{"free-text call", `{"type":"custom_tool_call","call_id":"c2","name":"apply_patch","input":"*** Begin"}`, session.RoleAssistant,
			[]session.Part{session.ToolCall{ID: "c2", Name: "apply_patch", Arguments: "*** Begin", Custom: true, Raw: raw(`{"type":"custom_tool_call","call_id":"c2","name":"apply_patch","input":"*** Begin"}`)}}, false},
		{"local shell", `{"type":"local_shell_call","call_id":"c3","action":{"type":"exec","command":["ls"]}}`, session.RoleAssistant,
			[]session.Part{session.ToolCall{ID: "c3", Name: "local_shell", Arguments: `{"type":"exec","command":["ls"]}`, Raw: raw(`{"type":"local_shell_call","call_id":"c3","action":{"type":"exec","command":["ls"]}}`)}}, false},
		{"output", `{"type":"function_call_output","call_id":"c1","output":"done"}`, session.RoleTool,
			[]session.Part{session.ToolResult{CallID: "c1", Parts: []session.Part{session.Text{Text: "done"}}}}, false},
		{"failed command", `{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"x\",\"metadata\":{\"exit_code\":2}}"}`, session.RoleTool,
			[]session.Part{session.ToolResult{CallID: "c1", Parts: []session.Part{session.Text{Text: `{"output":"x","metadata":{"exit_code":2}}`}}, IsError: true}}, false},
		{"output of parts", `{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}`, session.RoleTool,
			[]session.Part{session.ToolResult{CallID: "c1", Parts: []session.Part{session.Text{Text: "a"}, session.Text{Text: "b"}}}}, false},
		{"output of one part", `{"type":"function_call_output","call_id":"c1","output":{"type":"input_text","text":"a"}}`, session.RoleTool,
			[]session.Part{session.ToolResult{CallID: "c1", Parts: []session.Part{session.Text{Text: "a"}}}}, true},
		{"failed output object", `{"type":"function_call_output","call_id":"c1","output":{"content":"no","success":false}}`, session.RoleTool,
			[]session.Part{session.ToolResult{CallID: "c1", Parts: []session.Part{session.Text{Text: "no"}}, IsError: true}}, true},
		{"hosted tool", `{"type":"web_search_call","id":"ws","status":"completed"}`, session.RoleAssistant,
			[]session.Part{session.Opaque{Kind: "web_search_call", Raw: raw(`{"type":"web_search_call","id":"ws","status":"completed"}`)}}, false},
		{"compaction", `{"type":"compaction","encrypted_content":"zz"}`, session.RoleUser,
			[]session.Part{session.Opaque{Kind: "compaction", Raw: raw(`{"type":"compaction","encrypted_content":"zz"}`)}}, false},
		{"very old call", `{"type":"function_call","function":{"name":"translate"},"arguments":{"to":"es"}}`, session.RoleAssistant,
			[]session.Part{session.ToolCall{Name: "translate", Arguments: `{"to":"es"}`, Raw: raw(`{"type":"function_call","function":{"name":"translate"},"arguments":{"to":"es"}}`)}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			it, ok := Decode(raw(c.in))
			require.True(t, ok)
			require.Equal(t, c.role, it.Role)
			require.Equal(t, c.parts, it.Parts)
			back := Encode(&session.Message{Role: it.Role, Parts: it.Parts}, nil)
			require.Len(t, back, 1)
			if !c.lossy {
				require.JSONEq(t, c.in, string(back[0]))
			}
		})
	}
	for _, in := range []string{"", "null", "[]", `"x"`, "{}", `{"id":"x"}`} {
		_, ok := Decode(raw(in))
		require.False(t, ok, in)
	}
}

func TestEncodeChanged(t *testing.T) {
	m := session.Message{Role: session.RoleAssistant, Parts: []session.Part{
		session.Reasoning{Text: "of another provider", Signature: "s"},
		session.Text{Text: "a"}, session.Text{Text: "b"},
		session.ToolCall{ID: "c1", Name: "shell", Arguments: "{}", Raw: json.RawMessage(`{"type":"function_call","name":"shell","arguments":"{\"x\":1}","call_id":"c1"}`)},
		session.Text{Text: "c"},
	}}
	var got []string
	for _, raw := range Encode(&m, nil) {
		got = append(got, string(raw))
	}
	require.Equal(t, []string{
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}`,
		`{"type":"function_call","name":"shell","arguments":"{}","call_id":"c1"}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"}]}`,
	}, got)

	r := session.ToolText("c9", "out")
	require.Equal(t, `{"type":"custom_tool_call_output","call_id":"c9","output":"out"}`,
		string(Encode(&r, func(id string) bool { return id == "c9" })[0]))
}

func TestBuilder(t *testing.T) {
	var b Builder
	for n, in := range []string{
		`{"role":"user","content":"go"}`,
		`{"type":"reasoning","summary":[]}`,
		`{"type":"message","id":"m1","role":"assistant","content":"hm"}`,
		`{"type":"function_call","name":"a","call_id":"1"}`,
		`{"type":"function_call","name":"a","call_id":"2"}`,
		`{"type":"function_call_output","call_id":"1","output":""}`,
		`{"type":"function_call_output","call_id":"2","output":""}`,
		`{"type":"message","role":"assistant","content":"done"}`,
	} {
		it, ok := Decode(json.RawMessage(in))
		require.True(t, ok)
		b.Add(it, n)
	}
	require.NotNil(t, b.Open())
	b.End()
	require.Nil(t, b.Open())
	it, _ := Decode(json.RawMessage(`{"type":"message","role":"assistant","content":"more"}`))
	_, began := b.Add(it, 8)
	require.True(t, began)

	var roles []session.Role
	var items [][]int
	for _, g := range b.Messages {
		roles = append(roles, g.Message.Role)
		items = append(items, g.Items)
		require.NoError(t, g.Message.Validate())
	}
	require.Equal(t, []session.Role{"user", "assistant", "tool", "tool", "assistant", "assistant"}, roles)
	require.Equal(t, [][]int{{0}, {1, 2, 3, 4}, {5}, {6}, {7}, {8}}, items)
	require.Equal(t, "m1", b.Messages[1].Message.ID)
}
