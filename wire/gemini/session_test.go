package gemini

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

func sessions(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(SessionFormat, 8)
	require.NoError(t, err)
	diff, err := wirecorpus.Differences("testdata/sessions.json")
	require.NoError(t, err)
	return &wiretest.Suite{Codec: Sessions{}, Own: own, Others: others, Differences: diff, RouteOfMessages: true, Heads: []int{512, 16 << 10},
		// The collectors count records; results stand in that of their call.
		Count: func(f *wire.File) wiretest.Counts {
			c := wiretest.Live(f)
			for _, e := range f.Conversations[0].Entries {
				if e.Message.Role == session.RoleTool {
					c.Messages--
				}
			}
			return c
		}}
}

func TestSessions(t *testing.T) { sessions(t).Run(t) }

func FuzzSessions(f *testing.F) {
	sessions(f).Fuzz(f,
		`{"sessionId":"s","projectHash":"h","messages":[{"id":"1","type":"user","content":[{"functionCall":{}},{"functionResponse":{"name":"a"}},{"text":"x"}]},{"id":"2","type":"gemini","content":"","toolCalls":[{"name":"a","args":{},"result":[{"text":"q"}]},{"name":"a","result":"x"}]},7]}`,
		"{\"sessionId\":\"s\",\"projectHash\":\"h\"}\n{\"id\":\"1\",\"type\":\"user\",\"timestamp\":\"x\",\"content\":\"a\"}\n{\"id\":\"1\",\"type\":\"user\",\"content\":\"b\"}\n{\"$rewindTo\":\"1\"}\n{\"$set\":{\"messages\":[{\"id\":\"9\",\"type\":\"gemini\",\"content\":[{\"functionCall\":{\"name\":\"n\"}}],\"agentcompact\":{\"id\":\"c\",\"results\":{\"kind\":\"tool\"}}}]}}\n{\"to",
		`{"sessionId":"s","startTime":"t","messages":[{"id":"m","type":"model","parts":[{"text":"x"}],"thoughts":[1,{"subject":"a"}]}]}`)
}
