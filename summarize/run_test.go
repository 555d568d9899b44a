package summarize

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

func t4(s string) int { return (len(s) + 3) / 4 }

func itemsOf(msgs ...session.Message) []Item {
	out := make([]Item, len(msgs))
	for i := range msgs {
		out[i] = Item{Seq: session.Seq(i), Message: &msgs[i], Tokens: session.BytePricer{}.Price(&msgs[i])}
	}
	return out
}

func requestOf(msgs ...session.Message) *Request {
	return &Request{ID: "c1", Items: itemsOf(msgs...), Count: t4, MaxTokens: 2000}
}

func fill(n int) string { return strings.Repeat("line of invented log text; ", 4*n/27+1)[:4*n] }

func TestRunSmoke(t *testing.T) {
	srv := summarizetest.New(t, summarizetest.Text("The files were read."))
	s, err := NewLLM(LLMOptions{BaseURL: srv.URL(), APIKey: "k", Model: "m"})
	require.NoError(t, err)
	w, err := Run(context.Background(), s, requestOf(session.UserText("do it "+fill(500)), session.AssistantText("ok")),
		&RunOptions{Guard: &GuardOptions{NoSections: true, NoFloor: true}})
	require.NoError(t, err)
	require.Equal(t, "The files were read.", w.Text)
	require.Len(t, w.Calls, 1)
	t.Log(string(srv.Requests()[0].Body))
}
