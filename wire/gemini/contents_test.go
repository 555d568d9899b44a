package gemini

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

func contents(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(Format, 20)
	require.NoError(t, err)
	diff, err := wirecorpus.Differences("testdata/contents.json")
	require.NoError(t, err)
	return &wiretest.Suite{Codec: Contents{}, Own: own, Others: others, Differences: diff, Untyped: true, Heads: []int{1 << 10, 16 << 10},
		// The collectors leave the system instruction out.
		Count: func(f *wire.File) wiretest.Counts {
			c := wiretest.Live(f)
			c.Messages -= len(f.Conversations[0].Envelope.System)
			return c
		}}
}

func TestContents(t *testing.T) { contents(t).Run(t) }

func FuzzContents(f *testing.F) {
	contents(f).Fuzz(f,
		`[{"role":"model","parts":[{"functionCall":{"name":"a"}},{"functionCall":{"name":"a","id":"x"}}]},{"parts":[{"functionResponse":{"name":"a","response":{"output":"o"}}},{"text":"t"}]}]`,
		`{"contents":[{"role":"user","parts":[{"functionCall":{"name":"a"}},1,{"inlineData":{"mimeType":"image/png","data":"AA"}}]}],"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}]}],"systemInstruction":{"parts":[{"functionCall":{}}]}}`,
		`{"history":[{"role":"gemini","parts":[{"text":"a","thought":true},{"executableCode":{}}]},{"role":"function","parts":[{"functionResponse":{"name":"b","id":"1","response":{"error":"e"},"parts":[{"text":"x"}]}}]}]}`)
}
