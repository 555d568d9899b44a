package formats

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/gemini"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
)

func call(id, name string) session.ToolCall {
	return session.ToolCall{ID: id, Name: name, Arguments: "{}"}
}

func result(id string, failed bool, parts ...session.Part) session.Message {
	return session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool},
		Parts: []session.Part{session.ToolResult{CallID: id, IsError: failed, Parts: parts}}}
}

func opaque(raw string) session.Opaque {
	var k struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal([]byte(raw), &k)
	return session.Opaque{Kind: k.Type, Raw: json.RawMessage(raw)}
}

// What a provider would refuse is made so that it does not: one row for each
// rule, over every provider's builder and validator, with what must be in the
// request of one of them, and what must not.
func TestMakesItSo(t *testing.T) {
	ask := session.UserText("go")
	claude := func(parts ...session.Part) session.Message {
		return session.Message{Role: session.RoleAssistant, Source: session.Source{Kind: session.SourceModel, Provider: "anthropic"}, Parts: parts}
	}
	image := session.Image{URL: "https://x/y.png", MediaType: "image/png"}
	long := strings.Repeat("long_", 40)
	for name, c := range map[string]struct {
		env      session.Envelope
		messages []session.Message
		// in and not are of the requests for anthropic, responses, gemini and
		// chat, together.
		in, not []string
	}{
		"no turns":                       {messages: []session.Message{ask, ask, session.AssistantText("a"), session.AssistantText("b")}},
		"the model first":                {messages: []session.Message{session.AssistantText("a"), ask}, in: []string{"not shown"}},
		"system in between":              {messages: []session.Message{ask, {Role: session.RoleDeveloper, Source: session.Source{Kind: session.SourceUser}, Parts: []session.Part{session.Text{Text: "mind"}}}, ask}, in: []string{"Note from the system"}},
		"results apart from their calls": {messages: []session.Message{ask, session.AssistantText("", call("1", "f"), call("2", "g")), result("2", false, session.Text{Text: "two"}), ask, result("1", false, session.Text{Text: "one"})}},
		"one id for all":                 {messages: []session.Message{ask, session.AssistantText("", call("1", "f"), call("1", "g")), result("1", false), result("1", false), session.AssistantText("", call("1", "f")), result("1", false)}},
		"ids of other letters":           {messages: []session.Message{ask, session.AssistantText("", call("a b/"+long, "f")), result("a b/"+long, false)}, not: []string{"a b/"}},
		"names of other letters":         {messages: []session.Message{ask, session.AssistantText("", call("1", "fs read/"+long)), result("1", false)}, not: []string{"fs read"}},
		"tools of one name on the wire": {env: session.Envelope{Tools: []session.Tool{{Name: "a/b"}, {Name: "a_b"}, {Name: "a b"}, {Name: long}}},
			messages: []session.Message{ask}, in: []string{`"a_b"`}, not: []string{"a/b", long}},
		"nothing said":         {messages: []session.Message{ask, session.AssistantText(""), session.UserText(" "), ask}},
		"failed without words": {messages: []session.Message{ask, session.AssistantText("", call("1", "f")), result("1", true)}, in: []string{"said nothing"}},
		"failed with a picture": {messages: []session.Message{ask, session.AssistantText("", call("1", "f")), result("1", true, image)},
			in: []string{"the call failed"}},
		"thinking of another": {env: session.Envelope{Extra: map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"enabled","budget_tokens":9000}`)}},
			messages: []session.Message{ask, session.AssistantText("", call("1", "f")), result("1", false, session.Text{Text: "x"})}, not: []string{"budget_tokens\":9000},\"x"}},
		"thinking of its own": {env: session.Envelope{Extra: map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"enabled","budget_tokens":9000}`)}},
			messages: []session.Message{ask, claude(session.Reasoning{Text: "hm", Signature: "sig"}, call("1", "f")), result("1", false, session.Text{Text: "x"})},
			in:       []string{`"signature":"sig"`, `"max_tokens":17192`}},
		"thinking without its signature": {messages: []session.Message{ask, claude(session.Reasoning{Text: "secret thought"}, call("1", "f")), result("1", false)}},
		"a server tool that did not end": {messages: []session.Message{ask, claude(opaque(`{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}`)), ask}, not: []string{`"srv"`}},
		"signatures that are not there":  {messages: []session.Message{ask, session.AssistantText("", call("1", "f")), result("1", false)}, in: []string{"skip_thought_signature_validator"}},
		"signatures of before":           {messages: []session.Message{ask, session.AssistantText("", call("1", "f")), result("1", false), session.AssistantText("done"), ask}, not: []string{"skip_thought_signature_validator"}},
		"no field that is not known":     {messages: []session.Message{ask, session.AssistantText("", call("1", "f")), result("1", false)}, in: []string{`"output":""`}, not: []string{`"call_id":"1","name"`}},
		"bytes":                          {messages: []session.Message{session.UserText("a\xff\xed\xa0\x80b"), session.AssistantText("", session.ToolCall{ID: "1", Name: "f", Arguments: "{\"a\":\"\xff\"}"}), result("1", false, session.Text{Text: "\xfe"})}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
			require.NoError(t, err)
			defer s.Close()
			_, err = s.Record(t.Context(), session.SetEnvelope{Envelope: c.env})
			require.NoError(t, err)
			for _, m := range c.messages {
				_, err := s.Append(t.Context(), m)
				require.NoError(t, err)
			}
			check(t, s.View())
			var all strings.Builder
			a, err := anthropicmessages.BuildRequest(s.View(), nil)
			require.NoError(t, err)
			r, err := openairesponses.BuildRequest(s.View(), nil)
			require.NoError(t, err)
			g, err := gemini.BuildRequest(s.View(), &gemini.RequestOptions{Model: "gemini-3-flash"})
			require.NoError(t, err)
			o, err := openaichat.BuildRequest(s.View(), nil)
			require.NoError(t, err)
			for _, body := range [][]byte{a.Body, r.Body, g.Body, o.Body()} {
				all.Write(body)
			}
			for _, in := range c.in {
				require.Contains(t, all.String(), in)
			}
			for _, not := range c.not {
				require.NotContains(t, all.String(), not)
			}
		})
	}
}

// Items of the Responses API have ids that are theirs, or none.
func TestItemIDs(t *testing.T) {
	for name, c := range map[string]struct{ input, want string }{
		"its own":        {`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"z"},{"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":"{}"}`, `"id":"fc_1"`},
		"of a chat":      {`{"type":"function_call","id":"call_1","call_id":"1","name":"f","arguments":"{}"}`, ""},
		"without reason": {`{"type":"reasoning","id":"item_1","summary":[]},{"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":"{}"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Read(t.Context(), []byte(`{"model":"m","input":[{"role":"user","content":"go"},`+c.input+`,{"type":"function_call_output","call_id":"1","output":"x"}]}`))
			require.NoError(t, err)
			v := imported(t, f.Conversations[0]).View()
			check(t, v)
			r, err := openairesponses.BuildRequest(v, nil)
			require.NoError(t, err)
			if c.want != "" {
				require.Contains(t, string(r.Body), c.want)
			} else {
				require.NotContains(t, string(r.Body), `"id":`)
			}
		})
	}
}
