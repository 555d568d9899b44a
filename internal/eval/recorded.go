package eval

import (
	"bytes"
	"context"
	"sort"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// Recorded returns the messages of a transcript's first conversation as they
// were recorded: where the agent compacted, what was live right before stands in
// front of the summary. A log that its agent compacted tells only as a whole what
// was needed later.
func Recorded(ctx context.Context, data []byte) ([]*session.Message, error) {
	c, err := conversation(ctx, data)
	if err != nil {
		return nil, err
	}
	ends := lineEnds(data)
	var out []*session.Message
	from, first := int64(-1), 0
	for n := 1; n <= len(c.Checkpoints) && len(ends) > 1; n++ {
		// the first line that makes it n compactions
		at := first + sort.Search(len(ends)-first, func(i int) bool {
			c, err := conversation(ctx, data[:ends[first+i]])
			return err == nil && len(c.Checkpoints) >= n
		})
		if at == 0 || at == len(ends) {
			continue
		}
		end := ends[at-1]
		before, err := conversation(ctx, data[:end])
		if err != nil {
			return nil, err
		}
		if out, err = since(out, before, from); err != nil {
			return nil, err
		}
		from, first = int64(end), at
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return since(out, c, from)
}

// conversation reads the first conversation.
func conversation(ctx context.Context, data []byte) (*wire.Conversation, error) {
	f, err := formats.Read(ctx, data)
	if err != nil {
		return nil, err
	}
	return f.Conversations[0], nil
}

// since appends the messages whose records begin at or behind from.
func since(out []*session.Message, c *wire.Conversation, from int64) ([]*session.Message, error) {
	for i := range c.Len() {
		if c.Offset(i) < from {
			continue
		}
		e, err := c.At(i)
		if err != nil {
			return nil, err
		}
		out = append(out, &e.Message)
	}
	return out, nil
}

// lineEnds are the positions behind each line.
func lineEnds(data []byte) []int {
	var out []int
	for at := 0; at < len(data); {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			return append(out, len(data))
		}
		at += n + 1
		out = append(out, at)
	}
	return out
}
