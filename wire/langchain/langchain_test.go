package langchain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

const dict = `{"messages": [
  {"type": "system", "data": {"content": "be good"}},
  {"type": "human", "data": {"content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}},
  {"type": "ai", "data": {"content": "", "tool_calls": [{"name": "f", "args": {"a": 1}, "id": "1"}], "invalid_tool_calls": [{"name": "g", "args": "{", "id": "2"}]}},
  {"type": "tool", "data": {"content": "r", "tool_call_id": "1", "status": "error"}},
  {"type": "tool", "data": {"content": [{"type": "text", "text": "s"}, {"type": "thinking"}], "tool_call_id": "2"}},
  {"type": "ai", "data": {"content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "done"}]}}
]}`

func suite(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(Format, 1)
	require.NoError(t, err)
	own = append(own, wiretest.File{Path: "dict", Data: []byte(dict), Counts: wiretest.Counts{Messages: 6, Calls: 2, Results: 2}})
	return &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, RouteOfMessages: true, Heads: []int{2 << 10}}
}

func TestCodec(t *testing.T) { suite(t).Run(t) }

func FuzzRead(f *testing.F) { suite(f).Fuzz(f, dict) }

// Calls are the tool_calls; blocks of the provider that repeat them are not
// taken twice, and the summary is marked as LangChain's own middleware does.
func TestCallsAreTakenOnce(t *testing.T) {
	s := suite(t)
	f := s.Read(t, s.Own[0].Data)
	for _, e := range f.Conversations[0].Entries {
		for _, p := range e.Message.Parts {
			if o, ok := p.(session.Opaque); ok {
				t.Errorf("opaque part %s", o.Kind)
			}
		}
	}
	out := string(wiretest.Write(t, f, 0, []wire.Item{wiretest.Checkpoint("c", 0)}))
	require.Contains(t, out, `"additional_kwargs":{"lc_source":"summarization","agentcompact":{"id":"c"`)
	require.Contains(t, out, `"id":["langchain","schema","messages","HumanMessage"]`)
}
