package deepseek

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

func suite(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(Format, 2)
	require.NoError(t, err)
	return &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, Appends: true, Heads: []int{4 << 10},
		// The collectors leave the system text out.
		Count: func(f *wire.File) wiretest.Counts {
			c := wiretest.Live(f)
			c.Messages -= len(f.Conversations[0].Envelope.System)
			return c
		}}
}

func TestCodec(t *testing.T) { suite(t).Run(t) }

func FuzzRead(f *testing.F) {
	suite(f).Fuzz(f, `{"type":"session","version":0,"id":"s","createdAt":1}
{"type":"user/message","data":{"content":"a","source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"assistant/message","data":{"turn":1,"message":{"content":[{"type":"reasoning","text":"r"},{"type":"tool-call","id":"1","name":"n","arguments":{"a":1}},{"type":"tool-result"}],"source":{"kind":"model"}},"usage":{"inputTokens":3}},"surfaceOp":"append"}
{"type":"tool/result","data":{"message":{"source":{"kind":"tool","callId":"1"},"content":[{"type":"text","text":"o"}]}},"surfaceOp":{"op":"replace","start":0,"end":1}}
{"type":"compaction/summary","data":{"compactionId":"c","shadowedSeqs":[0]}}
{"type":"user/message","data":{"content":[{"type":"tool-call"}],"source":{"kind":"plugin","plugin":"compact","compactionId":"c"}},"surfaceOp":{"op":"replace","startSeq":2,"endSeq":2}}
`)
}

func TestOperations(t *testing.T) {
	log := `{"type":"session","version":0,"id":"s","createdAt":1}
{"type":"user/message","data":{"role":"user","content":[{"type":"text","text":"a"}],"source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"turn/start","data":{"turn":1}}
{"type":"user/message","data":{"role":"user","content":[{"type":"text","text":"b"}],"source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"user/message","data":{"role":"user","content":[{"type":"text","text":"c"}],"source":{"kind":"user"}},"surfaceOp":"append"}
`
	s := suite(t)
	f := s.Read(t, []byte(log))
	write := func(items ...wire.Item) (kinds []string, all string) {
		all = strings.TrimPrefix(string(wiretest.Write(t, f, 0, items)), log)
		for _, line := range strings.Split(strings.TrimSpace(all), "\n") {
			var e event
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			kinds = append(kinds, e.Type)
		}
		return kinds, all
	}
	kinds, all := write(wiretest.Checkpoint("x", 0, 1), wire.Item{Entry: 2})
	require.Equal(t, []string{"compaction/start", "compaction/summary", "user/message", "compaction/end"}, kinds)
	require.Contains(t, all, `"surfaceOp":{"op":"replace","start":0,"end":2}`)
	require.Contains(t, all, `"shadowedSeqs":[0,2]`)
	require.Contains(t, all, `"source":{"kind":"plugin","plugin":"compact","compactionId":"x"}`)

	m := session.UserText("B")
	_, all = write(wire.Item{Entry: 0}, wire.Item{Entry: 1, Message: &m}, wire.Item{Entry: 2})
	require.Contains(t, all, `"surfaceOp":{"op":"replace","start":2,"end":2}`)

	// Another order can be said by replacing everything only.
	kinds, all = write(wire.Item{Entry: 1}, wire.Item{Entry: 0}, wire.Item{Entry: 2})
	require.Equal(t, []string{"user/message", "user/message", "user/message"}, kinds)
	require.Contains(t, all, `"surfaceOp":{"op":"replace","start":0,"end":3}`)
	items := []wire.Item{{Entry: 1}, {Entry: 0}, {Entry: 2}}
	got := s.Read(t, wiretest.Write(t, f, 0, items)).Conversations[0]
	require.Equal(t, s.Surface(items, f.Conversations[0]), s.Surface(wiretest.Everything(got), got))
}
