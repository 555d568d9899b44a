package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/chat"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type message = openai.ChatCompletionMessage

// conversation returns a system message and n rounds of a prompt, a call, its
// result and an answer.
func conversation(n, size int) []message {
	out := []message{{Role: "system", Content: "You are careful."}}
	for i := range n {
		id := fmt.Sprintf("call_%d", i)
		out = append(out,
			message{Role: "user", Content: fmt.Sprintf("Please fix bug %d in pkg/file%d.go; never touch vendor/.", i, i)},
			message{Role: "assistant", ToolCalls: []openai.ToolCall{{ID: id, Type: "function", Function: openai.FunctionCall{Name: "read", Arguments: fmt.Sprintf(`{"path":"pkg/file%d.go"}`, i)}}}},
			message{Role: "tool", ToolCallID: id, Content: strings.Repeat(fmt.Sprintf("func f%d() { return } // line\n", i), size)},
			message{Role: "assistant", Content: fmt.Sprintf("Fixed bug %d.", i)})
	}
	return out
}

func valid(t testing.TB, list []message) {
	t.Helper()
	body, err := json.Marshal(openai.ChatCompletionRequest{Model: "m", Messages: list})
	require.NoError(t, err)
	// go-openai leaves empty content out, which our validator of bodies wants.
	var tree map[string]any
	require.NoError(t, json.Unmarshal(body, &tree))
	for _, m := range tree["messages"].([]any) {
		if o := m.(map[string]any); o["content"] == nil {
			o["content"] = nil
			if o["role"] != "assistant" {
				o["content"] = ""
			}
		}
	}
	body, err = json.Marshal(tree)
	require.NoError(t, err)
	require.Empty(t, openaichat.Validate(body))
}

func TestCompactsUnderPressure(t *testing.T) {
	in := conversation(160, 20)
	keep := append([]message(nil), in...)
	out, rep, err := chat.Compact(context.Background(), in, &chat.Options{Window: 12_000})
	require.NoError(t, err)
	require.Equal(t, keep, in, "the input is not modified")
	require.NotNil(t, rep.Result, rep.Reason)
	require.Less(t, len(out), len(in))
	require.Less(t, rep.After, rep.Before)
	require.LessOrEqual(t, rep.After, rep.Threshold)
	require.Equal(t, in[0], out[0], "the system message stays")
	require.Equal(t, 1, rep.Checkpoint)
	require.Contains(t, out[1].Content, "never touch vendor/")
	require.NotEmpty(t, rep.Replaced)
	require.Equal(t, in[len(in)-1], out[len(out)-1])
	valid(t, out)
}

func TestNothingToDoIsTheSameSlice(t *testing.T) {
	in := conversation(5, 5)
	for _, mem := range []*chat.Memory{nil, {}} {
		out, rep, err := chat.Compact(context.Background(), in, &chat.Options{Model: "gpt-4o", Memory: mem})
		require.NoError(t, err)
		require.Same(t, &in[0], &out[0])
		require.Len(t, out, len(in))
		require.Equal(t, compact.BelowThreshold, rep.Code)
		require.Equal(t, 128_000, rep.Window)
		require.Equal(t, -1, rep.Checkpoint)
	}
	out, rep, err := chat.Compact(context.Background(), nil, &chat.Options{Window: 1000, When: chat.Now})
	require.NoError(t, err)
	require.Empty(t, out)
	require.Equal(t, compact.NothingToCompact, rep.Code)
}

// TestAGlanceIsNotBelow: the sample that a quick answer rests on is not below
// what the messages cost, whatever they are made of.
func TestAGlanceIsNotBelow(t *testing.T) {
	sessions, err := testdata.OfFormat("openai-chat")
	require.NoError(t, err)
	seen := 0
	try := func(name string, list []message) {
		list = slices.DeleteFunc(list, func(m message) bool { return len(m.MultiContent) > 0 })
		_, far, err := chat.Compact(context.Background(), list, &chat.Options{Window: 1 << 40})
		require.NoError(t, err)
		_, exact, err := chat.Compact(context.Background(), list, &chat.Options{Window: 1 << 40, Memory: new(chat.Memory)})
		require.NoError(t, err)
		require.GreaterOrEqual(t, far.Before, exact.Before, name)
		seen++
	}
	for _, s := range sessions {
		data, err := os.ReadFile(s.File())
		if err != nil {
			continue
		}
		var list []message
		if json.Unmarshal(data, &list) == nil && len(list) > 20 {
			try(s.Path, list)
		}
	}
	for name, unit := range map[string]string{"prose": "The quick brown fox jumps over the lazy dog, as foxes do. ", "digits": "48151623421337",
		"base64": "aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0IGRhdGE", "chinese": "我们正在检查所有的模块，没有发现问题。", "spaces": "                ", "symbols": "{}[]();->!=&&||"} {
		var list []message
		for i := range 200 {
			list = append(list, message{Role: "user", Content: strings.Repeat(unit, 1+i%40)})
		}
		try(name, list)
	}
	require.Greater(t, seen, 6, "recorded conversations are among them")
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]*chat.Options{
		"no window":     nil,
		"unknown model": {Model: "no-such-model-of-mine"},
		"negative":      {Window: -1},
		"two windows":   {Window: 1000, Engine: engine.Options{Windows: engine.FixedWindow(5)}},
		"instructions":  {Window: 1000, Instructions: "x"},
		"when":          {Window: 1000, When: 9},
	} {
		in := conversation(1, 1)
		out, rep, err := chat.Compact(context.Background(), in, o)
		require.Error(t, err, name)
		require.Nil(t, rep, name)
		require.Same(t, &in[0], &out[0], name)
	}
}

func TestCancelledLeavesTheInput(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := fmt.Errorf("shutdown")
	cancel(why)
	in := conversation(40, 40)
	out, _, err := chat.Compact(ctx, in, &chat.Options{Window: 12_000})
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, compact.Cancelled)
	require.Equal(t, in, out)
}

// TestRounds: ten rounds keep what the user said first, and each checkpoint is
// known as such.
func TestRounds(t *testing.T) {
	mem := new(chat.Memory)
	list := []message{{Role: "system", Content: "S"}, {Role: "user", Content: "The release key is RK-4417-QX and must never be printed."}}
	checkpoints := 0
	for round := range 10 {
		list = append(list, conversation(40, 20)[1:]...)
		out, rep, err := chat.Compact(context.Background(), list, &chat.Options{Window: 6000, Memory: mem, Engine: engine.Options{Prune: engine.Prune{Off: true}}})
		require.NoError(t, err)
		require.NotNil(t, rep.Result, "round %d: %s", round, rep.Reason)
		valid(t, out)
		list = out
		checkpoints = 0
		for _, m := range out {
			if strings.HasPrefix(m.Content, "[checkpoint ") {
				checkpoints++
			}
		}
		require.Equal(t, 1, checkpoints, "round %d", round)
		// The memory survives being stored.
		data, err := json.Marshal(mem)
		require.NoError(t, err)
		mem = new(chat.Memory)
		require.NoError(t, json.Unmarshal(data, mem))
	}
	require.Contains(t, list[1].Content, "RK-4417-QX")
}

// TestNumbersGoOn: what the user said keeps its order over rounds, since the
// messages of a later call are numbered behind those that gave way.
func TestNumbersGoOn(t *testing.T) {
	mem := new(chat.Memory)
	var list []message
	for round := range 3 {
		for i := range 40 {
			list = append(list, message{Role: "user", Content: fmt.Sprintf("Wish %04d: never touch area %d.", 100*round+i, i+100*round)},
				message{Role: "assistant", Content: strings.Repeat(fmt.Sprintf("done with %d ", i), 40)})
		}
		out, rep, err := chat.Compact(context.Background(), list, &chat.Options{Window: 6000, When: chat.Now, Memory: mem})
		require.NoError(t, err)
		require.NotNil(t, rep.Result, rep.Reason)
		list = out
		rec, ok := mem.Find(out[rep.Checkpoint].Content)
		require.True(t, ok)
		require.Greater(t, len(rec.Ledger.User), 30*(round+1))
		for i := 1; i < len(rec.Ledger.User); i++ {
			a, b := rec.Ledger.User[i-1], rec.Ledger.User[i]
			require.Less(t, a.Text, b.Text, "round %d", round)
			require.Less(t, a.Seq, b.Seq, "round %d", round)
		}
	}
}

func TestWithoutMemoryItIsText(t *testing.T) {
	in := conversation(160, 20)
	out, _, err := chat.Compact(context.Background(), in, &chat.Options{Window: 12_000})
	require.NoError(t, err)
	again, rep, err := chat.Compact(context.Background(), append(out, conversation(160, 20)[1:]...), &chat.Options{Window: 12_000})
	require.NoError(t, err)
	require.NotNil(t, rep.Result)
	valid(t, again)
	require.Equal(t, 1, strings.Count(again[1].Content, "[end of checkpoint "), "the old frame is defused")
}

func TestShorteningResultsMayBeEnough(t *testing.T) {
	in := conversation(40, 40)
	out, rep, err := chat.Compact(context.Background(), in, &chat.Options{Window: 12_000})
	require.NoError(t, err)
	require.Nil(t, rep.Result)
	require.Empty(t, rep.Code)
	require.Len(t, out, len(in))
	require.NotEmpty(t, rep.Shortened)
	require.Less(t, rep.After, rep.Before)
	for i := range in {
		if !slices.Contains(rep.Shortened, i) {
			require.Equal(t, in[i], out[i])
			continue
		}
		require.Less(t, len(out[i].Content), len(in[i].Content))
		require.Equal(t, in[i].ToolCallID, out[i].ToolCallID)
	}
	valid(t, out)
}

// TestFieldsSurvive: what is not replaced comes back as it was.
func TestFieldsSurvive(t *testing.T) {
	in := conversation(40, 40)
	last := []message{
		{Role: "user", Name: "ann", MultiContent: []openai.ChatMessagePart{{Type: "text", Text: "look"}, {Type: "image_url", ImageURL: &openai.ChatMessageImageURL{URL: "https://x/y.png", Detail: "low"}}}},
		{Role: "assistant", Content: "hm", ReasoningContent: "thinking", FunctionCall: &openai.FunctionCall{Name: "old", Arguments: "{}"}},
		{Role: "function", Name: "old", Content: "done"},
		{Role: "assistant", Refusal: "no"},
		{Role: "user", Content: "go on"},
	}
	in = append(in, last...)
	out, rep, err := chat.Compact(context.Background(), in, &chat.Options{Window: 12_000, When: chat.Now})
	require.NoError(t, err)
	require.NotNil(t, rep.Result, rep.Reason)
	require.Equal(t, last[len(last)-1], out[len(out)-1])
	tail := out[len(out)-len(last):]
	require.Equal(t, last[3:], tail[3:])
	require.Equal(t, last[0], tail[0])
	require.Equal(t, last[1], tail[1])
}

// TestCases runs the recorded field reports about broken pairs.
func TestCases(t *testing.T) {
	ran := 0
	for _, kind := range []string{"orphan-", "duplicate-", "parallel-", "pending-"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "cases", "*-"+kind+"*.json"))
		require.NoError(t, err)
		require.NotEmpty(t, files, kind)
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				var c struct {
					Given struct {
						Messages []message `json:"messages"`
					} `json:"given"`
				}
				require.NoError(t, json.Unmarshal(data, &c))
				in := c.Given.Messages
				if len(in) == 0 {
					t.Skip("the case has no messages")
				}
				ran++
				for _, keep := range []int{1, 2, 3, 6} {
					lead := 0
					for lead < len(in) && in[lead].Role == "system" {
						lead++
					}
					long := slices.Concat(in[:lead], conversation(8, 20)[1:], in[lead:])
					out, rep, err := chat.Compact(context.Background(), long, &chat.Options{Window: 8000, When: chat.Now,
						Engine: engine.Options{Policy: engine.Policy{RetainMessages: keep}}})
					require.NoError(t, err)
					require.NotNil(t, rep.Result, rep.Reason)
					if last := out[len(out)-1]; len(last.ToolCalls) > 0 || last.Role == "tool" && running(out) {
						continue // calls that still run are left open
					}
					valid(t, out)
				}
			})
		}
	}
	require.Greater(t, ran, 8)
}

// running reports whether the calls of the last assistant message lack a result.
func running(list []message) bool {
	open := 0
	for _, m := range list {
		switch m.Role {
		case "assistant":
			open = len(m.ToolCalls)
		case "tool":
			open--
		}
	}
	return open > 0
}

// TestAnyConversation: whatever the pairing, the output is what a provider
// takes, and nothing that stays is changed.
func TestAnyConversation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := []message{{Role: "user", Content: "start"}}
		n := rapid.IntRange(10, 60).Draw(t, "n")
		ids := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		for range n {
			text := strings.Repeat("word ", rapid.IntRange(1, 60).Draw(t, "size"))
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				list = append(list, message{Role: "user", Content: text})
			case 1:
				m := message{Role: "assistant", Content: text}
				for range rapid.IntRange(0, 3).Draw(t, "calls") {
					m.ToolCalls = append(m.ToolCalls, openai.ToolCall{ID: ids.Draw(t, "id"), Type: "function", Function: openai.FunctionCall{Name: "f", Arguments: "{}"}})
				}
				list = append(list, m)
			default:
				list = append(list, message{Role: "tool", ToolCallID: ids.Draw(t, "id"), Content: text})
			}
		}
		list = append(list, message{Role: "user", Content: "end"})
		out, rep, err := chat.Compact(context.Background(), list, &chat.Options{Window: 8000, When: chat.Now,
			Engine: engine.Options{Policy: engine.Policy{RetainMessages: rapid.IntRange(1, 8).Draw(t, "keep")}}})
		if err != nil {
			if !errors.Is(err, compact.NotSmaller) && !errors.Is(err, compact.SummaryFailed) || len(out) != len(list) {
				t.Fatal(err)
			}
			return // too small to gain
		}
		if rep.Result == nil {
			return
		}
		body, _ := json.Marshal(map[string]any{"messages": bodies(out)})
		if bad := openaichat.Validate(body); len(bad) > 0 {
			t.Fatalf("%v", bad)
		}
	})
}

func bodies(list []message) (out []map[string]any) {
	for _, m := range list {
		o := map[string]any{"role": m.Role, "content": m.Content}
		if len(m.ToolCalls) > 0 {
			o["tool_calls"] = m.ToolCalls
		}
		if m.ToolCallID != "" {
			o["tool_call_id"] = m.ToolCallID
		}
		out = append(out, o)
	}
	return out
}
