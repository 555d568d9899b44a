package streamproc

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// faults returns how many results lack a call and how many calls lack a result.
func faults(t *testing.T, list []openai.ChatCompletionMessage) int {
	t.Helper()
	var tree []map[string]any
	for _, m := range list {
		o := map[string]any{"role": m.Role, "content": m.Content}
		if len(m.ToolCalls) > 0 {
			o["tool_calls"] = m.ToolCalls
		}
		if m.ToolCallID != "" {
			o["tool_call_id"] = m.ToolCallID
		}
		tree = append(tree, o)
	}
	body, err := json.Marshal(map[string]any{"messages": tree})
	require.NoError(t, err)
	n := 0
	for _, v := range openaichat.Validate(body) {
		if v.Rule == openaichat.R1 || v.Rule == openaichat.R2 {
			n++
		}
	}
	return n
}

// TestCases: of histories with broken pairs no pass breaks another pair, on any
// target and wherever the tail begins.
func TestCases(t *testing.T) {
	ran := 0
	for _, kind := range []string{"orphan-", "duplicate-", "parallel-", "pending-"} {
		files, err := filepath.Glob(filepath.Join("..", "testdata", "cases", "*-"+kind+"*.json"))
		require.NoError(t, err)
		require.NotEmpty(t, files, kind)
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				var c struct {
					Given struct {
						Messages []openai.ChatCompletionMessage
					}
				}
				require.NoError(t, json.Unmarshal(data, &c))
				if len(c.Given.Messages) == 0 {
					t.Skip("the case has no messages")
				}
				before := faults(t, c.Given.Messages)
				for _, mode := range []Mode{FullReplace, StepsOnly, HistoryOnly} {
					for percent := 1; percent < 100; percent += 7 {
						if mode == FullReplace && percent > 1 {
							break
						}
						pol := Policy{Mode: mode, MinTokens: -1, MaxReductionRatio: -1}
						if mode != FullReplace {
							pol.TargetPercent = percent
						}
						// Long enough that a checkpoint pays.
						list := append([]openai.ChatCompletionMessage(nil), c.Given.Messages...)
						for i := range list {
							if list[i].Role == openai.ChatMessageRoleAssistant && list[i].Content != "" {
								list[i].Content += " " + text(i, 400)
							}
						}
						p := NewChat(list, nil)
						_, err := Apply(bg, p, ChatAdapter(), says(good("")), withWindow(opts(pol), 2000))
						if errors.Is(err, NothingToCompact) || errors.Is(err, InsufficientReduction) {
							continue
						}
						require.NoError(t, err)
						ran++
						require.LessOrEqual(t, faults(t, p.Messages()), before, "%s at %d%%", mode, percent)
					}
				}
			})
		}
	}
	require.Greater(t, ran, 20)
}
