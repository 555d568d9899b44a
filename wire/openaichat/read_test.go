package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

func writeTo(t require.TestingT, f *wire.File, conversation int, items []wire.Item) []byte {
	var buf bytes.Buffer
	require.NoError(t, f.Writer.Write(context.Background(), &buf, conversation, items))
	return buf.Bytes()
}

func TestReadErrors(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		line           int
		offset         int64
	}{
		{"empty", " \n", "the file is empty", 0, 0},
		{"truncated", `[{"role":"user","content":"a"},{"role":"assi`, "the JSON ends too early", 0, 44},
		{"truncated, with newlines", "[\n {\"role\":\"user\",\n \"content\":\"a\"},\n", "the JSON ends too early", 0, 36},
		{"random bytes", "\x00\x8f\x12random", "not valid JSON", 0, 1},
		{"not JSON", `[{"role":'user'}]`, "not valid JSON", 0, 10},
		{"empty array", `[]`, "the array has no messages", 0, 0},
		{"empty messages", `{"messages":[]}`, "messages has no messages", 0, 12},
		{"messages of wrong type", `{"messages":{"role":"user"}}`, "messages is an object; expected a list", 0, 12},
		{"no messages", `{"a":1}`, "no list of chat messages found", 0, 0},
		{"a number", `7`, "no list of chat messages found", 0, 0},
		{"an element of wrong type", `{"messages":[{"role":"user","content":"a"},7]}`, "messages[1]: it is a number; expected a message object", 0, 43},
		{"no role", `[{"role":"user","content":"a"},{"content":"b"}]`, "[1]: the message has no role", 0, 31},
		{"role of wrong type", `[{"role":7,"content":"a"}]`, "[0]: the role is a number; expected a string", 0, 1},
		{"content of wrong type", `[{"role":"user","content":7}]`, "[0]: the content is a number; expected a string, null or a list", 0, 1},
		{"part of wrong type", `[{"role":"user","content":[7]}]`, "content part 0 is a number; expected an object", 0, 1},
		{"lines without messages", "7\n\"x\"\n", "no line is a chat message", 0, 0},
		{"a broken message in a line", "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":7}\n", "line 2: the content is a number", 2, 30},
		{"a broken body in a line", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":[7]}\n", "messages[0]: it is a number", 2, 58},
		{"a mix of lines", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"role\":\"user\",\"content\":\"a\"}\n", "some lines are messages", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Codec{}.Read(context.Background(), []byte(tt.in))
			e, ok := errors.AsType[*wire.Error](err)
			require.True(t, ok, "%v", err)
			assert.Contains(t, err.Error(), tt.want)
			assert.Equal(t, Format, e.Format)
			assert.Equal(t, tt.line, e.Line)
			assert.Equal(t, tt.offset, e.Offset)
		})
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	_, err := Codec{}.Read(ctx, []byte(`[{"role":"user","content":"a"}]`))
	assert.ErrorContains(t, err, "enough")
}

func TestReadLines(t *testing.T) {
	in := "\xef\xbb\xbf{\"role\":\"system\",\"content\":\"S\"}\r\n\r\n7\r\n{\"role\":\"user\",\"content\":\"a\"}{\"role\":\"assistant\",\"content\":\"b\"}\r\n{\"meta\":1}\r\n{\"role\":\"us\r\n{\"role\":\"user\",\"content\":\"c\"}\r\n{\"role\":\"assistant\",\"conte"
	f, err := Codec{}.Read(context.Background(), []byte(in))
	require.NoError(t, err)
	assert.Equal(t, lineMessages, f.Container)
	assert.Equal(t, []string{
		"line 3 is a number and no message; it was passed over and stays in the file",
		"line 5 is no message; it was passed over and stays in the file",
		"line 6 is not valid JSON; it was passed over and stays in the file",
		"line 8 is cut short; it was passed over and stays in the file",
	}, f.Notes)
	c := f.Conversations[0]
	assert.Len(t, c.Envelope.System, 1)
	require.Len(t, c.Entries, 3)
	assert.Equal(t, in, string(writeTo(t, f, 0, nil)))
	assert.Equal(t, in, string(writeTo(t, f, 0, everything(c))))
	assert.Equal(t, wire.Likely, Codec{}.Detect([]byte(in), true))
	m := session.UserText("sum")
	assert.Equal(t, strings.Replace(in, `{"role":"user","content":"a"}{"role":"assistant","content":"b"}`, `{"role":"user","content":"sum"}`, 1),
		string(writeTo(t, f, 0, []wire.Item{{Entry: -1, Message: &m}, {Entry: 2}})))
}

// Every container takes a summary, a call and a result in its own shape.
func TestWriteShapes(t *testing.T) {
	summary := session.UserText("sum")
	summary.Source = session.Source{Kind: session.SourcePlugin, Plugin: "compact", Ref: "c1"}
	call := session.AssistantText("go", session.ToolCall{ID: "n", Name: "f", Arguments: "{}"})
	result := session.ToolText("n", "r")
	for _, tt := range []struct{ name, in, want string }{
		{"array on one line", `[{"role":"system","content":"S"}, {"role":"user","content":"a"}, {"role":"assistant","content":"b"}]`,
			`[{"role":"system","content":"S"}, {"role":"user","content":"sum"}, {"role":"assistant","content":"go","tool_calls":[{"id":"n","type":"function","function":{"name":"f","arguments":"{}"}}]}, {"role":"tool","tool_call_id":"n","content":"r"}, {"role":"assistant","content":"b"}]`},
		{"indented", "{\n  \"messages\": [\n    {\n      \"role\": \"user\",\n      \"content\": \"a\"\n    },\n    {\n      \"role\": \"user\",\n      \"content\": \"b\"\n    }\n  ],\n  \"zz\": 1.50\n}\n",
			"{\n  \"messages\": [\n    {\n      \"role\": \"user\",\n      \"content\": \"sum\"\n    },\n    {\n      \"role\": \"assistant\",\n      \"content\": \"go\",\n      \"tool_calls\": [\n        {\n          \"id\": \"n\",\n          \"type\": \"function\",\n          \"function\": {\n            \"name\": \"f\",\n            \"arguments\": \"{}\"\n          }\n        }\n      ]\n    },\n    {\n      \"role\": \"tool\",\n      \"tool_call_id\": \"n\",\n      \"content\": \"r\"\n    },\n    {\n      \"role\": \"user\",\n      \"content\": \"b\"\n    }\n  ],\n  \"zz\": 1.50\n}\n"},
		{"SWE-agent", `{"trajectory":[1],"history":[{"role":"user","content":"a","agent":"main","message_type":"observation"},{"role":"user","content":"b","agent":"main","message_type":"observation"}]}`,
			`{"trajectory":[1],"history":[{"role":"user","content":"sum","agent":"main","message_type":"observation"},{"role":"assistant","content":"go","tool_calls":[{"id":"n","type":"function","function":{"name":"f","arguments":"{}"}}],"agent":"main","thought":"go","action":"","message_type":"action"},{"role":"tool","tool_call_ids":["n"],"content":"r","agent":"main","message_type":"observation"},{"role":"user","content":"b","agent":"main","message_type":"observation"}]}`},
		{"lists of parts", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"text","text":"b"}]}],"response":{},"kwargs":{}}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"sum"}]},{"role":"assistant","content":[{"type":"text","text":"go"}],"tool_calls":[{"id":"n","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"n","content":[{"type":"text","text":"r"}]},{"role":"user","content":[{"type":"text","text":"b"}]}],"response":{},"kwargs":{}}`},
		{"mini-swe-agent", `{"info":{"model_stats":{}},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","extra":{"x":1}},{"role":"exit","content":"patch"}],"trajectory_format":"mini-swe-agent-1.1"}`,
			`{"info":{"model_stats":{}},"messages":[{"role":"user","content":"sum"},{"role":"assistant","content":"go","tool_calls":[{"id":"n","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"n","content":"r"},{"role":"assistant","content":"b","extra":{"x":1}},{"role":"exit","content":"patch"}],"trajectory_format":"mini-swe-agent-1.1"}`},
		{"tau-bench", `[{"task_id":2,"traj":[{"role":"user","content":"a"},{"role":"user","content":"b"}]},{"task_id":3,"traj":[{"role":"user","content":"x"}]}]`,
			`[{"task_id":2,"traj":[{"role":"user","content":"sum"},{"role":"assistant","content":"go","tool_calls":[{"id":"n","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"n","content":"r"},{"role":"user","content":"b"}]},{"task_id":3,"traj":[{"role":"user","content":"x"}]}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Codec{}.Read(context.Background(), []byte(tt.in))
			require.NoError(t, err)
			got := writeTo(t, f, 0, []wire.Item{{Entry: -1, Message: &summary}, {Entry: -1, Message: &call}, {Entry: -1, Message: &result}, {Entry: 1}})
			assert.Equal(t, tt.want, string(got))
			require.Equal(t, tt.in, string(writeTo(t, f, 0, everything(f.Conversations[0]))))
		})
	}
}

func TestWriteErrors(t *testing.T) {
	f, err := Codec{}.Read(context.Background(), []byte(`[{"role":"user","content":"a"}]`))
	require.NoError(t, err)
	ctx := context.Background()
	var buf bytes.Buffer
	assert.ErrorContains(t, f.Writer.Write(ctx, &buf, 1, nil), "no conversation 1")
	assert.ErrorContains(t, f.Writer.Write(ctx, &buf, 0, []wire.Item{{Entry: 1}}), "entry 1 in a conversation of 1")
	assert.ErrorContains(t, f.Writer.Write(ctx, &buf, 0, []wire.Item{{Entry: -1}}), "entry -1")
	assert.ErrorContains(t, f.Writer.Write(ctx, &buf, 0, []wire.Item{{}, {}}), "twice")
	assert.Empty(t, buf.Bytes(), "nothing is half-written")
}

func TestParseMessage(t *testing.T) {
	raw := json.RawMessage(`{"id":"m1","role":"assistant","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA","detail":"low"}},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}},{"type":"refusal","refusal":"no"}],"reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s"},{"type":"reasoning.encrypted","data":"E"}],"tool_calls":[{"id":"c","type":"custom","custom":{"name":"p","input":"x"}},{"id":"d","type":"function","function":{"name":"f","arguments":{"a":1}}}],"zz":{"k":[1.0]}}`)
	m, err := ParseMessage(raw)
	require.NoError(t, err)
	require.NoError(t, m.Validate())
	list, _ := elements(mustObject(t, raw).get("content"))
	calls, _ := elements(mustObject(t, raw).get("tool_calls"))
	assert.Equal(t, []session.Part{
		session.Reasoning{Text: "hm", Signature: "s", Encrypted: "E", Raw: json.RawMessage(`{"reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s"},{"type":"reasoning.encrypted","data":"E"}]}`)},
		session.Text{Text: "hi"},
		session.Image{URL: "data:image/png;base64,AA", MediaType: "image/png", Detail: "low"},
		session.File{MediaType: "audio/wav", Bytes: 3, Raw: list[2]},
		session.File{Name: "a.pdf", MediaType: "application/pdf", Bytes: 3, Raw: list[3]},
		session.Opaque{Kind: "refusal", Raw: list[4]},
		session.ToolCall{ID: "c", Name: "p", Arguments: "x", Custom: true, Raw: calls[0]},
		session.ToolCall{ID: "d", Name: "f", Arguments: `{"a":1}`, Raw: calls[1]},
	}, m.Parts)
	assert.Equal(t, map[string]json.RawMessage{"zz": json.RawMessage(`{"k":[1.0]}`)}, m.Extra)
	assert.Equal(t, []json.RawMessage{raw}, EncodeMessage(&m))
	m.Origin = nil
	assert.JSONEq(t, string(raw), string(EncodeMessage(&m)[0]))
	for _, bad := range []string{``, `{`, `[]`, `{"content":""}`, `{"role":"robot","content":""}`} {
		_, err := ParseMessage(json.RawMessage(bad))
		assert.Error(t, err, bad)
	}
}

func mustObject(t *testing.T, raw []byte) object {
	o, ok := parseObject(raw)
	require.True(t, ok)
	return o
}

func TestDetect(t *testing.T) {
	for in, want := range map[string]wire.Confidence{
		`[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c","content":"b"}]`: wire.Certain,
		`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`:               wire.Maybe,
		`[{"role":"system","content":"S"},{"role":"user","content":"a"}]`:                  wire.Likely,
		`{"messages":[{"role":"system","content":"S"},{"role":"us`:                         wire.Likely,
		"{\"role\":\"system\",\"content\":\"S\"}\n{\"role\":\"user\",\"content\":\"a\"}\n": wire.Likely,
		// Anthropic
		`{"system":"S","messages":[{"role":"user","content":"a"}]}`:                                                   wire.No,
		`[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}]`:                       wire.No,
		`[{"role":"user","content":"a"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]`:        wire.No,
		`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"x"}]}`: wire.No,
		// Gemini
		`{"contents":[{"role":"user","parts":[{"text":"a"}]}]}`: wire.No,
		`[{"role":"user","parts":[{"text":"a"}]}]`:              wire.No,
		`[{"role":"model","content":"a"}]`:                      wire.No,
		// Responses
		`{"input":[{"role":"user","content":"a"}]}`:                                       wire.No,
		`[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}]`: wire.No,
		// Claude Code, Codex, pi
		`{"uuid":"u","parentUuid":null,"type":"user","message":{"role":"user","content":"a"}}`:                       wire.No,
		`{"type":"response_item","payload":{"type":"message","role":"user"}}`:                                        wire.No,
		"{\"type\":\"session\",\"version\":3}\n{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":1}}": wire.No,
		``: wire.No, `7`: wire.No, `[]`: wire.No, `{"messages":7}`: wire.No, "\x00\xff": wire.No, `[7]`: wire.No, `{"messages":[`: wire.No,
	} {
		assert.Equal(t, want, Codec{}.Detect([]byte(in), false), in)
	}
}

func TestReadSWEAgent(t *testing.T) {
	in := `{"trajectory":[],"history":[{"role":"user","content":"task","agent":"main","message_type":"observation"},
	 {"role":"assistant","content":"b","agent":"main","message_type":"action","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"y","type":"function","function":{"name":"f","arguments":"{}"}}]},
	 {"role":"tool","content":"out","agent":"main","message_type":"observation","tool_call_ids":["x","y"]},
	 {"role":"user","content":"output of a command","agent":"main","message_type":"observation"}]}`
	f, err := Codec{}.Read(context.Background(), []byte(in))
	require.NoError(t, err)
	var kinds []session.SourceKind
	for _, e := range f.Conversations[0].Entries {
		kinds = append(kinds, e.Message.Source.Kind)
	}
	assert.Equal(t, []session.SourceKind{session.SourceUser, session.SourceModel, session.SourceTool, session.SourceTool}, kinds)
	assert.Equal(t, []session.Part{session.ToolResult{CallID: "x", Parts: []session.Part{session.Text{Text: "out"}}}, session.ToolResult{CallID: "y"}},
		f.Conversations[0].Entries[2].Message.Parts)
	got, _ := sent(t, open(t, f.Conversations[0]), nil)
	assert.Equal(t, []string{"user: task", "assistant +x +y: b", "tool =x: out", "tool =y: ", "user: output of a command"}, got)
}

// What stood before a record stays before it only behind its old neighbor.
func TestWriteGaps(t *testing.T) {
	in := `[{"role":"user","content":"a"},   {"role":"user","content":"b"},{"role":"user","content":"c"}]`
	f, err := Codec{}.Read(context.Background(), []byte(in))
	require.NoError(t, err)
	assert.Equal(t, `[{"role":"user","content":"a"},   {"role":"user","content":"c"}]`, string(writeTo(t, f, 0, []wire.Item{{Entry: 0}, {Entry: 2}})))
	in = "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\"b\"}{\"role\":\"user\",\"content\":\"c\"}\n"
	f, err = Codec{}.Read(context.Background(), []byte(in))
	require.NoError(t, err)
	assert.Equal(t, "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\"c\"}\n", string(writeTo(t, f, 0, []wire.Item{{Entry: 0}, {Entry: 2}})))
}

// A document that has a message a line is no file of lines: opened where it
// stands, it is what it is when it is read.
func TestOpenDocumentWithAMessageALine(t *testing.T) {
	data := []byte("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"go\"},\n{\"role\":\"assistant\",\"content\":\"yes\"}\n]}\n")
	f, err := Codec{}.Open(t.Context(), bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	c := f.Conversations[0]
	require.Equal(t, 2, c.Len())
	require.Equal(t, "m", c.Envelope.Model)
	var out bytes.Buffer
	m := session.UserText("more")
	require.NoError(t, f.Writer.Write(t.Context(), &out, 0, []wire.Item{{Entry: 0}, {Entry: 1}, {Entry: -1, Message: &m}}))
	require.True(t, json.Valid(out.Bytes()), out.String())

	// Without its end it is not taken for lines either.
	cut := append(bytes.TrimSuffix(data, []byte("\n]}\n")), ",\n{\"role\":\"us"...)
	for _, err := range []error{
		func() error { _, err := Codec{}.Open(t.Context(), bytes.NewReader(cut), int64(len(cut))); return err }(),
		func() error { _, err := Codec{}.Read(t.Context(), cut); return err }(),
	} {
		var we *wire.Error
		require.ErrorAs(t, err, &we)
		require.ErrorContains(t, err, "ends too early")
	}
}
