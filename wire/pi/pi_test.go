package pi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

func suite(t testing.TB) *wiretest.Suite {
	own, others, err := wirecorpus.Files(Format, 8)
	require.NoError(t, err)
	diff, err := wirecorpus.Differences("testdata/differences.json")
	require.NoError(t, err)
	return &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, Differences: diff, Appends: true, RouteOfMessages: true, Heads: []int{512, 16 << 10},
		// The collectors count every message of the file, whatever branch.
		Count: func(f *wire.File) (c wiretest.Counts) {
			own := f.Writer.(*writer).f
			for i := range own.recs {
				e, err := own.load(i)
				if err != nil {
					panic(err) // it is in memory
				}
				if e.Type != typeMessage || e.Message == nil {
					continue
				}
				c.Messages++
				if m, ok := e.message(); ok {
					c.Calls += len(m.Calls())
					c.Results += len(m.Results())
				}
			}
			return c
		}}
}

func TestCodec(t *testing.T) { suite(t).Run(t) }

func FuzzRead(f *testing.F) {
	suite(f).Fuzz(f,
		"{\"type\":\"session\",\"id\":\"s\",\"timestamp\":\"t\"}\n{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"a\"}}{\"type\":\"compaction\",\"summary\":\"s\",\"firstKeptEntryIndex\":-3}\n7\n{\"type\":\"message\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"toolCall\",\"id\":\"1\"}]}}\n{\"ty",
		"{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"t\"}\n{\"type\":\"message\",\"id\":\"a\",\"parentId\":\"a\",\"message\":{\"role\":\"hookMessage\",\"content\":[1]}}\n{\"type\":\"branch_summary\",\"id\":\"b\",\"parentId\":\"zz\",\"summary\":\"x\"}\n{\"type\":\"compaction\",\"id\":\"a\",\"parentId\":\"b\",\"firstKeptEntryId\":\"a\"}\n{\"type\":\"custom_message\",\"parentId\":\"a\",\"content\":\"c\"}")
}
