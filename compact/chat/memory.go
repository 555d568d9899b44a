package chat

import (
	"slices"
	"sync"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/streamproc"
)

// Memory is what is known beside the messages of one conversation: which of
// them are checkpoints and what those carry, by a hash of their text, and what
// messages cost, so that a call with mostly the same messages is cheap. The zero
// Memory is ready; its checkpoints can be stored as JSON. It is safe for
// concurrent use.
type Memory struct {
	streamproc.Memory

	mu     sync.Mutex
	pricer string
	last   []openai.ChatCompletionMessage
	prices []int
}

// tokens returns what messages and tools cost. Where it is plain that this is
// below enough it returns an upper bound in place of the exact sum.
func (o *Options) tokens(messages []openai.ChatCompletionMessage, enough int) int {
	tools := 0
	if len(o.Tools) > 0 {
		tools = o.Pricer.PriceEnvelope(&session.Envelope{Tools: envelopeTools(o.Tools)})
	}
	if o.Memory != nil {
		return tools + o.Memory.price(messages, o.Pricer)
	}
	// A token has a byte at least.
	most, plain := tools, true
	for i := range messages {
		m := &messages[i]
		plain = plain && len(m.MultiContent) == 0
		most += 16 + len(m.Name) + len(m.Content) + len(m.ReasoningContent) + len(m.Refusal) + len(m.ToolCallID)
		for _, c := range m.ToolCalls {
			most += 16 + len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)
		}
		if f := m.FunctionCall; f != nil {
			most += 16 + len(f.Name) + len(f.Arguments)
		}
	}
	if plain && most < enough {
		return most
	}
	total := tools
	for i := range messages {
		m := openaiconv.Read(messages[i])
		total += o.Pricer.Price(&m)
	}
	return total
}

// price returns what the messages cost, going by the last call where they are
// the same.
func (m *Memory) price(messages []openai.ChatCompletionMessage, p session.Pricer) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pricer != p.ID() {
		m.pricer, m.last, m.prices = p.ID(), nil, nil
	}
	total := 0
	for i := range messages {
		if i < len(m.last) && same(&m.last[i], &messages[i]) {
			total += m.prices[i]
			continue
		}
		read := openaiconv.Read(messages[i])
		n := p.Price(&read)
		total += n
		if i < len(m.last) {
			m.last[i], m.prices[i] = messages[i], n
		} else {
			m.last, m.prices = append(m.last, messages[i]), append(m.prices, n)
		}
	}
	clear(m.last[len(messages):])
	m.last, m.prices = m.last[:len(messages)], m.prices[:len(messages)]
	return total
}

// same reports whether two messages cost the same, as far as is plain.
func same(a, b *openai.ChatCompletionMessage) bool {
	if len(a.Content) != len(b.Content) || a.Role != b.Role || a.Content != b.Content || a.Name != b.Name ||
		a.ReasoningContent != b.ReasoningContent || a.Refusal != b.Refusal || a.ToolCallID != b.ToolCallID ||
		a.FunctionCall != nil || b.FunctionCall != nil || len(a.MultiContent) > 0 || len(b.MultiContent) > 0 {
		return false
	}
	return slices.EqualFunc(a.ToolCalls, b.ToolCalls, func(x, y openai.ToolCall) bool {
		return x.ID == y.ID && x.Type == y.Type && x.Function == y.Function
	})
}
