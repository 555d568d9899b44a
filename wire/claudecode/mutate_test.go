package claudecode

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

// TestBrokenLinks exchanges ids in a small session at random, so that links
// cross, loop and dangle, and requires that a compaction still gives exactly
// the surface that was asked for.
func TestBrokenLinks(t *testing.T) {
	ids := []string{"u1", "u2", "a1", "a2", "a3", "r1", "r2", "t1", "t2", "m1", "sys", "b1", "s1"}
	seed := append(bytes.Clone(sample), jsonLines(
		boundaryRec("b1").with("compactMetadata", obj{"preservedSegment": obj{"headUuid": "u2", "anchorUuid": "s1", "tailUuid": "a3"}}),
		summaryRec("s1", "b1"), user("u4", "a3", "after"), reply("a5", "u4", "m5", use("t5")), result("r5", "a5", "t5"),
	)...)
	r := rand.New(rand.NewPCG(1, 2))
	quote := func() []byte { return []byte(`"` + ids[r.IntN(len(ids))] + `"`) }
	for range 3000 {
		data := bytes.Clone([][]byte{sample, seed}[r.IntN(2)])
		for range 1 + r.IntN(5) {
			data = bytes.Replace(data, quote(), quote(), 1+r.IntN(3))
		}
		f := read(t, data)
		for n, c := range f.Conversations {
			cut := 0
			if len(c.Entries) > 0 {
				cut = r.IntN(len(c.Entries))
			}
			items := []wire.Item{checkpointItem(make([]int, cut)...)}
			want := []session.Message{*items[0].Message}
			for i := cut; i < len(c.Entries); i++ {
				items = append(items, wire.Item{Entry: i})
			}
			want = append(want, surface(c.Entries[cut:])...)
			got := read(t, write(t, f, n, items)).Conversations[n]
			require.Equal(t, want, surface(got.Entries), "%s", data)
		}
	}
}
