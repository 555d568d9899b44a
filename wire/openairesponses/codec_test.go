package openairesponses

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

func suite(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(Format, 5)
	require.NoError(t, err)
	diff, err := wirecorpus.Differences("testdata/differences.json")
	require.NoError(t, err)
	return &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, Differences: diff, Untyped: true, Heads: []int{2 << 10},
		// The collectors count items, reasoning left out.
		Count: func(f *wire.File) (c wiretest.Counts) {
			for _, it := range f.Writer.(*writer).f.items {
				if it.Type == responses.TypeMessage {
					c.Messages++
				}
				for _, p := range it.Parts {
					switch p.(type) {
					case session.ToolCall:
						c.Messages++
						c.Calls++
					case session.ToolResult:
						c.Messages++
						c.Results++
					}
				}
			}
			return c
		}}
}

func TestCodec(t *testing.T) { suite(t).Run(t) }

func FuzzRead(f *testing.F) {
	suite(f).Fuzz(f,
		`{"model":"m","instructions":"i","input":"hello"}`,
		`{"input":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","id":"r","summary":[]},{"type":"function_call","call_id":"1","name":"n","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"o"},{"type":"web_search_call"}],"tools":[{"type":"function","name":"n"}]}`,
		`{"$schemaVersion":"1","original_input":"x","generated_items":[{"type":"tool_approval_item"},{"type":"tool_call_item","raw_item":{"type":"custom_tool_call","call_id":"c","input":"q"}}]}`)
}
