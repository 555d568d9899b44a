package streamproc

import (
	"context"
	"fmt"
	"slices"
	"sync"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
)

// ChatAdapter adapts go-openai's messages. Functions of the old kind, which
// have no ids, are paired by their neighborhood.
func ChatAdapter() Adapter[openai.ChatCompletionMessage] {
	return Adapter[openai.ChatCompletionMessage]{
		To: func(m openai.ChatCompletionMessage) (session.Message, error) { return openaiconv.Read(m), nil },
		From: func(m session.Message) (openai.ChatCompletionMessage, error) {
			out, err := openaiconv.To(&m, openaiconv.Options{})
			if err != nil || len(out) != 1 {
				return openai.ChatCompletionMessage{}, fmt.Errorf("%d chat messages of a checkpoint: %w", len(out), err)
			}
			return out[0], nil
		},
	}
}

// Chat is a [Processor] over go-openai's messages, with all optional abilities.
// Leading system messages and the newest prompt, which are in none of the
// views, always stay where they are. It is safe for concurrent use.
type Chat struct {
	adapter Adapter[openai.ChatCompletionMessage]
	memory  *Memory

	mu       sync.Mutex
	messages []openai.ChatCompletionMessage
	revision uint64
}

// NewChat returns a processor over the messages. It keeps the slice, which must
// not be modified any more. memory is what an earlier processor knew of
// checkpoints among them; nil is a new one.
func NewChat(messages []openai.ChatCompletionMessage, memory *Memory) *Chat {
	if memory == nil {
		memory = NewMemory()
	}
	return &Chat{adapter: ChatAdapter(), memory: memory, messages: slices.Clip(messages)}
}

// Memory returns the records of the checkpoints.
func (c *Chat) Memory() *Memory { return c.memory }

// Messages returns the messages as they are now.
func (c *Chat) Messages() []openai.ChatCompletionMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.messages)
}

// Append adds messages. One of the user begins a turn.
func (c *Chat) Append(messages ...openai.ChatCompletionMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, messages...)
	c.revision++
}

// split returns where the history begins, where the newest prompt begins, and
// where the steps do.
func (c *Chat) split() (lead, prompt, steps int) {
	n := len(c.messages)
	for lead < n && isSystem(c.messages[lead]) {
		lead++
	}
	human := func(i int) bool {
		m := c.messages[i]
		if m.Role != openai.ChatMessageRoleUser {
			return false
		}
		_, ok := c.Record(m)
		return !ok
	}
	steps = n
	for steps > lead && !human(steps-1) {
		steps--
	}
	if steps == lead {
		return lead, lead, lead // nobody has said anything
	}
	prompt = steps
	for prompt > lead && human(prompt-1) {
		prompt--
	}
	return lead, prompt, steps
}

func isSystem(m openai.ChatCompletionMessage) bool {
	return m.Role == openai.ChatMessageRoleSystem || m.Role == openai.ChatMessageRoleDeveloper
}

// AccumulatedSteps implements [Processor].
func (c *Chat) AccumulatedSteps(ctx context.Context) ([]openai.ChatCompletionMessage, error) {
	s, err := c.Snapshot(ctx)
	return s.Steps, err
}

// History implements [HistoryViewer].
func (c *Chat) History(ctx context.Context) ([]openai.ChatCompletionMessage, error) {
	s, err := c.Snapshot(ctx)
	return s.History, err
}

// Snapshot implements [Snapshotter].
func (c *Chat) Snapshot(ctx context.Context) (Snapshot[openai.ChatCompletionMessage], error) {
	if err := context.Cause(ctx); err != nil {
		return Snapshot[openai.ChatCompletionMessage]{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshot(), nil
}

func (c *Chat) snapshot() Snapshot[openai.ChatCompletionMessage] {
	lead, prompt, steps := c.split()
	return Snapshot[openai.ChatCompletionMessage]{
		Revision: c.revision, History: slices.Clip(c.messages[lead:prompt]), Steps: slices.Clip(c.messages[steps:]),
	}
}

// ReplaceWithCompaction implements [Processor].
func (c *Chat) ReplaceWithCompaction(ctx context.Context, t target.Target, n int, item openai.ChatCompletionMessage) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replace(t, n, item, Record{})
}

func (c *Chat) replace(t target.Target, n int, item openai.ChatCompletionMessage, r Record) error {
	lead, prompt, steps := c.split()
	history, work := prompt-lead, len(c.messages)-steps
	have := 0
	switch t {
	case target.Steps:
		have = work
	case target.History:
		have = history
	case target.FullReplace:
		have = history + work
	default:
		return ErrUnsupported
	}
	if n < 1 || n > have {
		return ErrInvalidSplit{Requested: n, Available: have}
	}
	out := make([]openai.ChatCompletionMessage, 0, len(c.messages)-n+1)
	if t == target.Steps {
		out = append(append(append(out, c.messages[:steps]...), item), c.messages[steps+n:]...)
	} else {
		k := min(n, history)
		out = append(append(out, c.messages[:lead]...), item)
		out = append(append(out, c.messages[lead+k:steps]...), c.messages[steps+n-k:]...)
	}
	text := openaiconv.Read(item)
	if r.Narrative == "" {
		r.Narrative = text.Text()
	}
	c.memory.Add(text.Text(), r)
	c.messages = out
	c.revision++
	return nil
}

// Commit implements [Snapshotter].
func (c *Chat) Commit(ctx context.Context, in Commit[openai.ChatCompletionMessage]) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.Revision != c.revision {
		if err := stillThere(c.adapter, c.snapshot().view(in.Target), in); err != nil {
			return err
		}
	}
	return c.replace(in.Target, in.N, in.Item, in.Record)
}

// Record implements [Keeper].
func (c *Chat) Record(m openai.ChatCompletionMessage) (Record, bool) {
	if m.Role != openai.ChatMessageRoleUser || c.memory.Len() == 0 {
		return Record{}, false
	}
	read := openaiconv.Read(m)
	return c.memory.Find(read.Text())
}
