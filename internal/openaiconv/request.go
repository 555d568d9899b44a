package openaiconv

import (
	"fmt"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/session"
)

// Conversation returns the chat messages of a run of messages that a provider
// accepts behind the system messages: it begins with a user message, every call
// is answered once right behind its message, by a made-up result where it was
// abandoned, and nothing is empty. It does not mend what is broken: an orphan
// or second result, an id used twice, or a system message in the middle is an
// error, as is what the types cannot carry.
func Conversation(messages []*session.Message, o Options) ([]openai.ChatCompletionMessage, error) {
	var out []openai.ChatCompletionMessage
	var open []string // calls of the newest assistant message without a result
	seen := map[string]bool{}
	settle := func() {
		for _, id := range open {
			out = append(out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: id, Content: Abandoned})
		}
		open = nil
	}
	for i, m := range messages {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("message %d: %w: %s", i, ErrUnsupported, fmt.Sprintf(format, args...))
		}
		switch m.Role {
		case session.RoleUser, session.RoleAssistant:
			settle()
			for _, id := range m.Calls() {
				if seen[id] || id == "" {
					return nil, fail("call id %q is used twice or empty", id)
				}
				seen[id] = true
				open = append(open, id)
			}
		case session.RoleTool:
			for _, id := range m.Results() {
				k := -1
				for j := range open {
					if open[j] == id {
						k = j
					}
				}
				if k < 0 {
					return nil, fail("result %q without an open call", id)
				}
				open = append(open[:k], open[k+1:]...)
			}
		default:
			return nil, fail("role %s in mid-conversation", m.Role)
		}
		chat, err := To(m, o)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		for k := range chat {
			for j := range chat[k].ToolCalls { // go-openai would leave the key out, which is required
				if f := &chat[k].ToolCalls[j].Function; f.Arguments == "" {
					f.Arguments = "{}"
				}
			}
		}
		if len(out) == 0 && len(chat) > 0 && chat[0].Role != openai.ChatMessageRoleUser {
			return nil, fail("the first message is not the user's")
		}
		out = append(out, chat...)
	}
	settle()
	return out, nil
}

// System returns the leading messages of an envelope.
func System(messages []session.Message) ([]openai.ChatCompletionMessage, error) {
	var out []openai.ChatCompletionMessage
	for i := range messages {
		m := &messages[i]
		if m.Role != session.RoleSystem && m.Role != session.RoleDeveloper {
			return nil, fmt.Errorf("system message %d: %w: role %s", i, ErrUnsupported, m.Role)
		}
		chat, err := To(m, Options{})
		if err != nil {
			return nil, fmt.Errorf("system message %d: %w", i, err)
		}
		out = append(out, chat...)
	}
	return out, nil
}
