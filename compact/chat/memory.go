package chat

import (
	"slices"
	"sync"
	"unicode/utf8"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/streamproc"
	"github.com/agentcompact/agentcompact/tokencount"
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
// below enough it returns what they cost at most, by a sample, in place of the
// exact sum.
func (o *Options) tokens(messages []openai.ChatCompletionMessage, enough int) int {
	tools := 0
	if len(o.Tools) > 0 {
		tools = o.Pricer.PriceEnvelope(&session.Envelope{Tools: envelopeTools(o.Tools)})
	}
	if o.Memory != nil {
		return tools + o.Memory.price(messages, o.Pricer)
	}
	if most, ok := o.bound(messages); ok && tools+most < enough {
		return tools + most
	}
	total := tools
	for i := range messages {
		m := openaiconv.Read(messages[i])
		total += o.Pricer.Price(&m)
	}
	return total
}

// One window of text is estimated in place of so many bytes, and so much is
// added to the sum for what the sample may have missed. The decision that it is
// for leaves a fifth of the window free besides.
const (
	sampleWindow = 64
	sampleEvery  = 1024
	sampleLeast  = 32 // windows; below that everything is priced
	sampleMargin = 1.15
)

// bound returns, at a glance, what messages of text cost at most. It is false
// where that cannot be told.
func (o *Options) bound(messages []openai.ChatCompletionMessage) (int, bool) {
	size, overhead := 0, 0
	for i := range messages {
		m := &messages[i]
		if len(m.MultiContent) > 0 {
			return 0, false // pictures
		}
		overhead += 8 + 16*len(m.ToolCalls)
		eachText(m, func(s string) { size += len(s) })
	}
	if o.sample {
		windows, bytes, tokens, next := 0, 0, 0, 0
		for i := range messages {
			eachText(&messages[i], func(s string) {
				for ; next < len(s); next += sampleEvery {
					from := next
					for from < len(s) && !utf8.RuneStart(s[from]) {
						from++
					}
					to := min(from+sampleWindow, len(s))
					for to < len(s) && !utf8.RuneStart(s[to]) {
						to++
					}
					windows, bytes, tokens = windows+1, bytes+to-from, tokens+tokencount.EstimateText(s[from:to])
				}
				next -= len(s)
			})
		}
		if windows >= sampleLeast && bytes > 0 {
			return overhead + int(sampleMargin*float64(tokens)/float64(bytes)*float64(size)), true
		}
	}
	return overhead + size, true // a token has a byte at least
}

// eachText calls fn for every text of a message.
func eachText(m *openai.ChatCompletionMessage, fn func(string)) {
	fn(m.Content)
	if m.Name != "" || m.ReasoningContent != "" || m.Refusal != "" || m.ToolCallID != "" {
		fn(m.Name)
		fn(m.ReasoningContent)
		fn(m.Refusal)
		fn(m.ToolCallID)
	}
	for i := range m.ToolCalls {
		fn(m.ToolCalls[i].ID)
		fn(m.ToolCalls[i].Function.Name)
		fn(m.ToolCalls[i].Function.Arguments)
	}
	if f := m.FunctionCall; f != nil {
		fn(f.Name)
		fn(f.Arguments)
	}
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
