package anthropicmessages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

func suite(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(Format, 3)
	require.NoError(t, err)
	diff, err := wirecorpus.Differences("testdata/differences.json")
	require.NoError(t, err)
	return &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, Differences: diff, Untyped: true, Heads: []int{16 << 10, 64 << 10},
		// The collectors count records and leave the system text out.
		Count: func(f *wire.File) wiretest.Counts {
			c := wiretest.Live(f)
			c.Messages -= len(f.Conversations[0].Envelope.System)
			return c
		}}
}

func TestCodec(t *testing.T) { suite(t).Run(t) }

func FuzzRead(f *testing.F) {
	suite(f).Fuzz(f,
		`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"},{"type":"text","text":"x"}]}]`,
		`{"request":{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":null},{"role":"user","content":[1,{"type":"tool_use"}]}]}}`,
		`{"system":"s","messages":[{"role":"assistant","content":[{"type":"tool_result","content":[{}]}]},{"role":"system","content":"x"}]}`)
}
