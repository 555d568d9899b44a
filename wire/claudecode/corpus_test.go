package claudecode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
)

type transcript struct {
	testdata.Session
	data []byte
}

func transcripts(t *testing.T) []transcript {
	t.Helper()
	all, err := testdata.Sessions()
	require.NoError(t, err)
	var out []transcript
	for _, s := range all {
		if s.Format != Format {
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		out = append(out, transcript{s, data})
	}
	require.Len(t, out, 25, "transcripts are missing")
	return out
}

func read(t testing.TB, data []byte) *wire.File {
	t.Helper()
	f, err := Codec{}.Read(t.Context(), data)
	require.NoError(t, err)
	return f
}

func write(t testing.TB, f *wire.File, conversation int, items []wire.Item) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, f.Writer.Write(t.Context(), &out, conversation, items))
	return out.Bytes()
}

// surface is what must be equal before and after a file was written: the
// messages without what a copy in the file changes.
func surface(entries []wire.Entry) []session.Message {
	var out []session.Message
	for _, e := range entries {
		m := e.Message
		m.ID, m.Origin = "", nil
		out = append(out, m)
	}
	return out
}

// compacted is a surface whose first share, up to a balanced cut, is replaced
// by a checkpoint, and the items that say so.
func compacted(t testing.TB, c *wire.Conversation) ([]wire.Item, []session.Message) {
	t.Helper()
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	_, err = wire.Import(t.Context(), s, c)
	require.NoError(t, err)
	cut := toolpairing.Of(s.View()).Before(len(c.Entries) * 6 / 10)
	comp := &wire.Compaction{ID: "cmp_1", Auto: true, TokensBefore: 5000, TokensAfter: 700, Time: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}
	for i := range cut {
		comp.Shadowed = append(comp.Shadowed, i)
	}
	m := session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: "What happened so far: <all> & more."}}, Source: compact.CheckpointSource("cmp_1")}
	items := []wire.Item{{Entry: -1, Message: &m, Compaction: comp}}
	for i := cut; i < len(c.Entries); i++ {
		items = append(items, wire.Item{Entry: i})
	}
	return items, append([]session.Message{m}, surface(c.Entries[cut:])...)
}

func TestCompactionOfEveryTranscript(t *testing.T) {
	for _, s := range transcripts(t) {
		f := read(t, s.data)
		for n, c := range f.Conversations {
			t.Run(fmt.Sprint(s.Path, "#", n), func(t *testing.T) {
				items, want := compacted(t, c)
				out := write(t, f, n, items)
				require.True(t, bytes.HasPrefix(out, s.data), "the originals changed")
				again := read(t, out)
				require.Len(t, again.Conversations, len(f.Conversations))
				got := again.Conversations[n]
				require.Equal(t, want, surface(got.Entries))
				last := got.Checkpoints[len(got.Checkpoints)-1]
				require.Equal(t, wire.Checkpoint{Entry: 0, Trigger: "auto", TokensBefore: 5000, Hides: len(items[0].Compaction.Shadowed), Time: items[0].Compaction.Time}, last)
				require.Equal(t, string(out), string(write(t, f, n, items)), "the same compaction gives other bytes")
				for k, o := range again.Conversations {
					if k != n {
						require.Equal(t, surface(f.Conversations[k].Entries), surface(o.Entries), "another conversation changed")
					}
				}
				for _, e := range got.Entries {
					require.Nil(t, e.Usage, "usage of the longer conversation")
				}
			})
		}
	}
}

// counts are what a test compares with the manifest.
type counts struct {
	Messages int    `json:"messages"`
	Calls    int    `json:"calls"`
	Results  int    `json:"results"`
	Why      string `json:"why,omitempty"`
}

func TestManifest(t *testing.T) {
	raw, err := os.ReadFile("testdata/differences.json")
	require.NoError(t, err)
	known := map[string]counts{}
	require.NoError(t, json.Unmarshal(raw, &known))
	for _, s := range transcripts(t) {
		t.Run(s.Path, func(t *testing.T) {
			f := read(t, s.data)
			own := f.Writer.(*writer).f
			got := counts{Messages: len(f.Conversations[0].Entries) + f.Conversations[0].Side}
			for _, c := range own.chats {
				for _, r := range c.recs {
					got.Calls += int(r.calls)
					got.Results += int(r.answers)
				}
			}
			want := counts{s.Messages, s.Calls, s.Results, ""}
			if d, ok := known[s.Path]; ok {
				require.NotEmpty(t, d.Why)
				require.NotEqual(t, counts{d.Messages, d.Calls, d.Results, ""}, want, "the difference is gone; take it out of the table")
				want = counts{d.Messages, d.Calls, d.Results, ""}
				delete(known, s.Path)
			}
			require.Equal(t, want, got)
		})
	}
	require.Empty(t, known, "the table names files that do not exist: %s", strings.Join(keys(known), " "))
}

func keys(m map[string]counts) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}
