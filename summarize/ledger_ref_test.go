package summarize

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

func TestLongQuotesAreStoredByReference(t *testing.T) {
	messages := []session.Message{
		session.UserText("short and sweet"),
		session.UserText("Port the parser. " + strings.Repeat("It has many rules. ", 60)),
		session.UserText("Very long: " + strings.Repeat("words upon words, ", 2000)),
	}
	req := &Request{}
	for i := range messages {
		req.Items = append(req.Items, Item{Seq: session.Seq(i), Message: &messages[i]})
	}
	l := Extract(req, nil)
	require.Len(t, l.User, 3)
	stored, err := json.Marshal(l.Stored())
	require.NoError(t, err)
	require.Less(t, len(stored), 1200)
	back := new(Ledger)
	require.NoError(t, json.Unmarshal(stored, back))
	back = back.Filled(func(q session.Seq) *session.Message { return &messages[q] })
	require.Equal(t, l.User, back.User)
}
