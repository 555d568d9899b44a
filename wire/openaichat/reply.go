package openaichat

import (
	"errors"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
)

// Reply returns the message of a go-openai response with what it reports of its
// usage. The Node of the usage is [session.NoSeq]: set it to the seq that the
// message gets. It is an error when the response has no choice.
func Reply(r openai.ChatCompletionResponse) (session.Message, session.Usage, error) {
	u := session.Usage{Node: session.NoSeq, Prompt: r.Usage.PromptTokens, Completion: r.Usage.CompletionTokens, Model: r.Model}
	if d := r.Usage.PromptTokensDetails; d != nil {
		u.CacheRead = d.CachedTokens
	}
	if d := r.Usage.CompletionTokensDetails; d != nil {
		u.Reasoning = d.ReasoningTokens
	}
	if len(r.Choices) == 0 {
		return session.Message{}, u, errors.New("the response has no choice")
	}
	m := openaiconv.Read(r.Choices[0].Message)
	m.Role = session.RoleAssistant
	m.Source = session.Source{Kind: session.SourceModel, Model: r.Model}
	return m, u, nil
}
