package deepseek

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
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
