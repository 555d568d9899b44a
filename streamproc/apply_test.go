package streamproc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/streamproc"
	"github.com/agentcompact/agentcompact/summarize"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// turn is a message of a host of our own.
type turn struct {
	Who    string // user, model, tool, memo
	Text   string
	Call   string
	Answer string
}

var turns = streamproc.Adapter[turn]{
	To: func(t turn) (session.Message, error) {
		switch t.Who {
		case "model":
			if t.Call != "" {
				return session.AssistantText(t.Text, session.ToolCall{ID: t.Call, Name: "run", Arguments: "{}"}), nil
			}
			return session.AssistantText(t.Text), nil
		case "tool":
			return session.ToolText(t.Answer, t.Text), nil
		}
		return session.UserText(t.Text), nil
	},
	From: func(m session.Message) (turn, error) { return turn{Who: "memo", Text: m.Text()}, nil },
}

// steps returns n rounds of a call and its result.
func steps(n, size int) (out []turn) {
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		out = append(out,
			turn{Who: "model", Text: fmt.Sprintf("I look at file%d.go", i), Call: id},
			turn{Who: "tool", Text: strings.Repeat(fmt.Sprintf("line %d of file%d.go\n", i, i), size), Answer: id})
	}
	return out
}

func TestApplySteps(t *testing.T) {
	p := streamproc.NewSlice(turns, nil, steps(20, 40))
	r, err := streamproc.ApplySteps(context.Background(), p, turns, summarize.NewExtractive(nil), &streamproc.Options{Window: 4000, Policy: streamproc.Policy{MinTokens: 100}})
	require.NoError(t, err)
	require.Less(t, r.After, r.Before)
	left, err := p.AccumulatedSteps(context.Background())
	require.NoError(t, err)
	require.Equal(t, "memo", left[0].Who)
	require.Equal(t, r.Text, left[0].Text)
	require.Len(t, left, 40-r.Items+1)
	require.Equal(t, "model", left[1].Who, "the tail begins with a whole unit")
	rec, ok := p.Record(left[0])
	require.True(t, ok)
	require.Equal(t, r.Passes[0].ID, rec.ID)
	require.True(t, compact.IsCheckpointSource(compact.CheckpointSource(rec.ID)))
	require.Contains(t, r.Text, "[history: ")
}
