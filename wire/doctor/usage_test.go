package doctor

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// Wrong reports go the way that the format's agent says nothing, with the
// messages as they were; what only looks like a report stays.
func TestWrongUsage(t *testing.T) {
	for name, c := range map[string]struct{ format, data, was, is string }{
		"claude-code": {"claude-code", `{"type":"user","uuid":"1","parentUuid":null,"message":{"role":"user","content":"go"}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"usage":{"n":-5}}}],%s"model":"x"}}
{"type":"user","uuid":"3","parentUuid":"2","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}
`, `"usage":{"input_tokens":-5,"output_tokens":2},`, ``},
		"last member": {"claude-code", `{"type":"assistant","uuid":"2","parentUuid":null,"message":{"role":"assistant","content":[{"type":"text","text":"yes"}]%s }}
`, ` , "usage" : {"input_tokens":5,"output_tokens":-2}`, ` `},
		"codex": {"codex", `{"timestamp":"2026-11-30T10:00:00.000Z","type":"session_meta","payload":{"id":"s"}}
{"timestamp":"2026-11-30T10:00:00.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}}
{"timestamp":"2026-11-30T10:00:00.000Z","type":"event_msg","payload":{"type":"token_count","info":%s}}
`, `{"total_token_usage":{"input_tokens":9},"last_token_usage":{"input_tokens":10,"cached_input_tokens":50,"output_tokens":1}}`, `null`},
		"pi": {"pi", `{"type":"session","version":3,"id":"s","timestamp":"2026-07-09T10:00:00.000Z","cwd":"/w"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-07-09T10:00:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"-7 yes"}],"provider":"p","model":"m","usage":%s}}
`, `{"input":-5,"output":1,"cacheRead":0,"cacheWrite":3,"cost":{"total":0.25,"at 1":1e3}}`, `{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"cost":{"total":0,"at 1":0}}`},
		"gemini-session": {"gemini-session", `{"sessionId":"s","projectHash":"p","startTime":"2026-07-09T10:00:00.000Z","lastUpdated":"2026-07-09T10:00:00.000Z","messages":[{"id":"1","type":"user","timestamp":"2026-07-09T10:00:00.000Z","content":"go"},
{"id":"2","type":"gemini","timestamp":"2026-07-09T10:00:00.000Z","content":"yes"%s,"model":"g"}]}
`, `,"tokens":{"input":4,"output":1,"cached":5}`, ``},
		"opencode": {"opencode", `{"info":{"id":"ses_1","title":"t","version":"1","time":{"created":1,"updated":1}},"messages":[{"info":{"id":"msg_1","sessionID":"ses_1","role":"assistant","time":{"created":1},"tokens":%s},"parts":[{"id":"p","type":"text","text":"yes"}]}]}
`, `{"input":10,"output":1,"reasoning":0,"cache":{"read":-3,"write":0}}`, `{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}`},
		"mini-swe-agent": {"openai-chat", `{"info":{},"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"yes","extra":{"timestamp":1700000000,"response":{"model":"m"%s}}}],"trajectory_format":"mini-swe-agent-1.1"}
`, `,"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":6}}`, ``},
		"langchain": {"langchain", `[{"type":"human","data":{"type":"human","content":"go"}},{"type":"ai","data":{"type":"ai","content":"yes"%s,"id":"r"}}]
`, `,"usage_metadata":{"input_tokens":5,"output_tokens":1,"input_token_details":{"cache_read":6}}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(fmt.Sprintf(c.data, c.was))
			require.True(t, json.Valid(data) || logged(data, c.format))
			codec, _ := wire.Detect(data, true, formats.All()...)
			require.NotNil(t, codec)
			require.Equal(t, c.format, codec.Name())
			r, err := Repair(t.Context(), codec, source(data), nil)
			require.NoError(t, err)
			require.Equal(t, []Kind{WrongUsage}, kinds(r.Changes))
			require.Contains(t, r.Changes[0].Detail, "taken out: {")
			require.Positive(t, r.Changes[0].Line)
			require.Empty(t, r.Left)
			require.Equal(t, fmt.Sprintf(c.data, c.is), string(content(t, r)))
			before, err := codec.Read(t.Context(), data)
			require.NoError(t, err)
			after, err := codec.Read(t.Context(), content(t, r))
			require.NoError(t, err)
			require.Equal(t, said(before), said(after))
		})
	}
}

// Sound reports are not touched beside a wrong one.
func TestSoundUsageStays(t *testing.T) {
	rec := `{"type":"assistant","uuid":"%d","parentUuid":null,"message":{"role":"assistant","content":[{"type":"text","text":"yes"}],"usage":{"input_tokens":%d,"output_tokens":2}}}` + "\n"
	data := []byte(fmt.Sprintf(rec, 1, 10) + fmt.Sprintf(rec, 2, -10))
	r, err := Repair(t.Context(), codecOf(t, data), source(data), nil)
	require.NoError(t, err)
	require.Len(t, r.Changes, 1)
	require.Equal(t, 2, r.Changes[0].Line)
	require.Contains(t, string(content(t, r)), fmt.Sprintf(rec, 1, 10))
}
