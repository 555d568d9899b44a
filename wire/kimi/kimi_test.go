package kimi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/logfile"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

// uncompacted is a log with calls and results on its surface.
const uncompacted = `{"type":"metadata","protocol_version":"1.4"}
{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"go"}],"origin":{"kind":"user"}},"time":1785612803281}
{"type":"context.append_loop_event","event":{"type":"step.begin","uuid":"s1"}}
{"type":"context.append_loop_event","event":{"type":"step.begin","uuid":"s2"}}
{"type":"context.append_loop_event","event":{"type":"content.part","stepUuid":"s2","part":{"type":"think","think":"hm"}}}
{"type":"context.append_loop_event","event":{"type":"tool.call","stepUuid":"s2","toolCallId":"c1","name":"ls","args":{"a": 1}}}
{"type":"context.append_loop_event","event":{"type":"tool.call","stepUuid":"s2","toolCallId":"c2","name":"ls","args":{}}}
{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"c1","result":{"output":"o"}}}
{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"c2","result":{"output":[{"type":"text","text":"p"}],"isError":true}}}
{"type":"context.append_loop_event","event":{"type":"step.end","uuid":"s2","usage":{"inputOther":5,"output":2}},"time":1785612803290}
{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"left"}],"origin":{"kind":"user"}}}
{"type":"context.undo","count":1}
{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"more"}],"origin":{"kind":"user"}}}
`

func suite(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(Format, 1)
	require.NoError(t, err)
	own = append(own, wiretest.File{Path: "uncompacted", Data: []byte(uncompacted), Counts: wiretest.Counts{Messages: 3, Calls: 2, Results: 2}})
	return &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, Appends: true, Heads: []int{2 << 10},
		// The collectors count the records of messages, whether live or not.
		Count: func(f *wire.File) wiretest.Counts {
			own := fileOf(f)
			return wiretest.Counts{Messages: own.messages, Calls: own.calls, Results: own.results}
		}}
}

func fileOf(f *wire.File) *file {
	own := newFile(f.Writer.(*logfile.Writer).Text)
	for v := range own.text.Values() {
		own.value(v)
	}
	return own
}

func TestCodec(t *testing.T) { suite(t).Run(t) }

// A newer compaction keeps the user messages that it counts.
func TestKept(t *testing.T) {
	s := suite(t)
	c := s.Read(t, s.Own[0].Data).Conversations[0]
	require.Len(t, c.Checkpoints, 1)
	require.Equal(t, 8, c.Checkpoints[0].Entry)
	for _, e := range c.Entries[:8] {
		require.Equal(t, "user", string(e.Message.Source.Kind))
	}
}

func FuzzRead(f *testing.F) {
	suite(f).Fuzz(f, uncompacted,
		`{"type":"context.append_message","message":{"role":"assistant","content":"x","toolCalls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}}
{"type":"context.append_message","message":{"role":"tool","toolCallId":"1","content":[{"type":"image_url","imageUrl":{"url":"u"}},{"type":"think","think":"t"}]}}
{"type":"context.apply_compaction","summary":"s","compactedCount":-1}
{"type":"context.apply_compaction","contextSummary":"s","keptUserMessageCount":9,"keptHeadUserMessageCount":4}
{"type":"context.clear"}
{"type":"context.append_message","message":{"role":"tool","toolCallId":"1","content":[{"type":"think","think":"t"}]}}`)
}

// The agent counts the steps that said nothing, too.
func TestCompactedCount(t *testing.T) {
	s := suite(t)
	f := s.Read(t, []byte(uncompacted+`{"type":"context.append_loop_event","event":{"type":"step.begin","uuid":"s3"}}
{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"last"}],"origin":{"kind":"user"}}}
`))
	c := f.Conversations[0]
	require.Len(t, c.Entries, 6)
	out := string(wiretest.Write(t, f, 0, []wire.Item{wiretest.Checkpoint("c", 0, 1, 2, 3, 4), {Entry: 5}}))
	require.Contains(t, out, `"compactedCount":7,`)
	require.Contains(t, out, `{"type":"full_compaction.begin","source":"auto","time":`)
	require.NotContains(t, out, "keptUserMessageCount")
}
