package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// TestHiddenIsWhatDiagnoseFinds: reading once finds the same.
func TestHiddenIsWhatDiagnoseFinds(t *testing.T) {
	n := 0
	all, err := testdata.Sessions()
	require.NoError(t, err)
	for _, s := range all {
		if len(s.Files) > 0 {
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		f, err := formats.Read(t.Context(), data)
		require.NoError(t, err)
		list, err := Diagnose(t.Context(), source(data), f)
		require.NoError(t, err)
		want := slices.DeleteFunc(list, func(f Finding) bool { return f.Kind != HiddenOrphan && f.Kind != HiddenUnanswered })
		v, done, err := view(t.Context(), f.Conversations[0])
		require.NoError(t, err)
		got, err := Hidden(t.Context(), source(data), f, 0, v)
		done()
		require.NoError(t, err)
		require.ElementsMatch(t, want, got, s.Path)
		n += len(got)
	}
	require.Positive(t, n)
}

// What a repair says and what it leaves agree: everything that is gone is listed.

const (
	codexHead = `{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","originator":"codex_cli_rs","cli_version":"0.60.0"}}` + "\n"
	codexUser = `{"timestamp":"2026-01-01T00:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}}` + "\n"
	codexSaid = `{"timestamp":"2026-01-01T00:00:01.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}}` + "\n"
	codexLess = `{"timestamp":"2026-01-01T00:00:01.000Z","type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":10,"cached_input_tokens":500,"output_tokens":1}}}}` + "\n"
)

func codexCall(id string) string {
	return `{"timestamp":"2026-01-01T00:00:02.000Z","type":"response_item","payload":{"type":"function_call","name":"f","arguments":"{}","call_id":"` + id + `"}}` + "\n"
}

func codexResult(id string) string {
	return `{"timestamp":"2026-01-01T00:00:03.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"` + id + `","output":"o"}}` + "\n"
}

func diagnosedText(t *testing.T, data string) []Finding {
	t.Helper()
	f, err := codecOf(t, []byte(data)).Read(t.Context(), []byte(data))
	require.NoError(t, err)
	list, err := Diagnose(t.Context(), source([]byte(data)), f)
	require.NoError(t, err)
	return list
}

// A message of several records stands where the first of them does, and its calls
// are not said to be hidden.
func TestPlaceOfSeveralRecords(t *testing.T) {
	list := diagnosedText(t, codexHead+codexUser+codexSaid+codexCall("1")+codexCall("1")+codexResult("1")+codexResult("1")+codexUser)
	require.Len(t, list, 1, "%+v", list)
	require.Equal(t, DuplicateCallID, list[0].Kind)
	require.Equal(t, 3, list[0].Line)
	require.EqualValues(t, len(codexHead+codexUser), list[0].Offset)

	kimi := `{"type":"metadata","protocol_version":"1.1","time":1}
{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"go"}],"toolCalls":[],"origin":{"kind":"user"}},"time":1}
{"type":"context.append_loop_event","event":{"type":"step.begin","uuid":"s"},"time":2}
{"type":"context.append_loop_event","event":{"type":"content.part","stepUuid":"s","part":{"type":"text","text":"yes"}},"time":2}
{"type":"context.append_loop_event","event":{"type":"tool.call","stepUuid":"s","toolCallId":"c","name":"sh","args":{}},"time":2}
{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"on"}],"toolCalls":[],"origin":{"kind":"user"}},"time":3}
`
	list = diagnosedText(t, kimi)
	require.Len(t, list, 1, "%+v", list)
	require.Equal(t, UnansweredCall, list[0].Kind)
	require.Equal(t, 4, list[0].Line)
}

// Wrong usage is listed as taken out when its message is written anew, too, and
// lines are those of the file as it was.
func TestUsageIsListed(t *testing.T) {
	data := codexHead + codexUser + "what\n" + codexSaid + codexLess + codexCall("1") + codexUser
	r, after := fixed(t, []byte(data), Options{DropBadLines: true})
	require.Equal(t, []Kind{BadLine, WrongUsage, UnansweredCall}, kinds(r.Changes))
	for i, line := range []int{3, 5, 4} {
		require.Equal(t, line, r.Changes[i].Line, r.Changes[i].Detail)
	}
	require.Empty(t, r.Left)
	requireSound(t, r, after)

	session := `{"sessionId":"s","projectHash":"p","startTime":"2026-01-01T00:00:00.000Z","lastUpdated":"2026-01-01T00:00:00.000Z"}
{"id":"1","timestamp":"2026-01-01T00:00:00.000Z","type":"user","content":"go"}
{"id":"2","timestamp":"2026-01-01T00:00:00.000Z","type":"gemini","content":"yes","tokens":{"input":-3,"output":1},"toolCalls":[{"id":"c","name":"sh","args":{},"status":"success"}]}
{"id":"3","timestamp":"2026-01-01T00:00:00.000Z","type":"user","content":"on"}
`
	r, _ = fixed(t, []byte(session), Options{})
	require.Equal(t, []Kind{WrongUsage, UnansweredCall}, kinds(r.Changes))
	require.Empty(t, r.Left, "%+v", r.Left)

	qwen := `{"uuid":"a","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00.000Z","type":"user","cwd":"/w","version":"0.1","message":{"role":"user","parts":[{"text":"go"}]}}
{"uuid":"b","parentUuid":"a","sessionId":"s","timestamp":"2026-01-01T00:00:00.000Z","type":"assistant","cwd":"/w","version":"0.1","message":{"role":"model","parts":[{"text":"yes"}]},"model":"q","usageMetadata":{"promptTokenCount":-4,"candidatesTokenCount":1}}
`
	require.Equal(t, WrongUsage, diagnosedText(t, qwen)[0].Kind)
}

// A value that is no object goes if that is asked for, and nothing else of its line.
func TestNotAnObject(t *testing.T) {
	odd := "[1]\n" + `"a"` + codexSaid
	r, _ := fixed(t, []byte(codexHead+odd), Options{})
	require.Empty(t, r.Changes)
	require.Equal(t, "--drop-bad-lines", Decides(r.Left[0].Kind))
	r, _ = fixed(t, []byte(codexHead+odd), Options{DropBadLines: true})
	require.Equal(t, []Kind{NotAnObject, NotAnObject}, kinds(r.Changes))
	require.Equal(t, codexHead+codexSaid, string(content(t, r)))
}

// What was left behind when a conversation was laid anew is hidden; what took its
// place is live, and only one of them is listed as each.
func TestHiddenIsNotLive(t *testing.T) {
	line := func(uuid, parent, kind, message string) string {
		return `{"parentUuid":` + parent + `,"isSidechain":false,"userType":"external","cwd":"/w","sessionId":"s","version":"2.0.1","type":"` + kind + `","message":` + message + `,"uuid":"` + uuid + `","timestamp":"2026-01-01T00:00:00.000Z"}` + "\n"
	}
	call := func(id, use string) string {
		return `{"id":"` + id + `","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"` + use + `","name":"f","input":{}}]}`
	}
	data := line("u1", "null", "user", `{"role":"user","content":"go"}`) + line("a1", `"u1"`, "assistant", call("m1", "1")) +
		line("u2", `"a1"`, "user", `{"role":"user","content":"on"}`) + line("a2", `"u2"`, "assistant", call("m2", "2"))
	r, _ := fixed(t, []byte(data), Options{})
	require.Equal(t, []Kind{UnansweredCall}, kinds(r.Changes))
	last := strings.Count(string(content(t, r)), "\n")
	lines := map[Kind][]int{}
	for _, f := range diagnosedText(t, string(content(t, r))) {
		if f.CallID == "2" {
			lines[f.Kind] = append(lines[f.Kind], f.Line)
		}
	}
	require.Equal(t, map[Kind][]int{RunningCall: {last}, HiddenUnanswered: {4}, HiddenReused: {4}}, lines)
}
