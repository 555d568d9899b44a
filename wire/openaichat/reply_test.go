package openaichat

import (
	"encoding/json"
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

func TestReply(t *testing.T) {
	var r openai.ChatCompletionResponse
	require.NoError(t, json.Unmarshal([]byte(`{"model":"m-1","choices":[{"message":{"role":"assistant","content":"I look.",
		"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}}]}}],
		"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":60},
		"completion_tokens_details":{"reasoning_tokens":5}}}`), &r))
	m, u, err := Reply(r)
	require.NoError(t, err)
	require.NoError(t, m.Validate())
	assert.Equal(t, "I look.", m.Text())
	assert.Equal(t, []string{"c1"}, m.Calls())
	assert.Equal(t, session.Source{Kind: session.SourceModel, Model: "m-1"}, m.Source)
	assert.Equal(t, session.Usage{Node: session.NoSeq, Prompt: 100, Completion: 20, CacheRead: 60, Reasoning: 5, Model: "m-1"}, u)
	_, _, err = Reply(openai.ChatCompletionResponse{})
	require.Error(t, err)
}
