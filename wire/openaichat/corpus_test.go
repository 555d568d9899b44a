package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
)

// corpus calls fn for every recorded session of the format.
func corpus(t *testing.T, fn func(t *testing.T, s testdata.Session, data []byte, f *wire.File)) {
	t.Helper()
	sessions, err := testdata.OfFormat(Format)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(sessions), 14)
	for _, s := range sessions {
		t.Run(s.Path, func(t *testing.T) {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			f, err := Codec{}.Read(context.Background(), data)
			require.NoError(t, err)
			fn(t, s, data, f)
		})
	}
}

func everything(c *wire.Conversation) []wire.Item {
	items := make([]wire.Item, len(c.Entries))
	for i := range items {
		items[i].Entry = i
	}
	return items
}

func write(t *testing.T, f *wire.File, conversation int, items []wire.Item) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, f.Writer.Write(context.Background(), &buf, conversation, items))
	return buf.Bytes()
}

// A file that is written back is the same, byte for byte, with items nil and
// with every entry named.
func TestCorpusRoundTrip(t *testing.T) {
	corpus(t, func(t *testing.T, _ testdata.Session, data []byte, f *wire.File) {
		require.True(t, bytes.Equal(data, write(t, f, 0, nil)), "items nil")
		for i, c := range f.Conversations {
			require.True(t, bytes.Equal(data, write(t, f, i, everything(c))), "conversation %d", i)
		}
	})
}

// The counts are those of the people who collected the corpus.
func TestCorpusManifest(t *testing.T) {
	corpus(t, func(t *testing.T, s testdata.Session, _ []byte, f *wire.File) {
		var messages, calls, results int
		for _, c := range f.Conversations {
			messages += len(c.Envelope.System) + len(c.Entries)
			for i := range c.Entries {
				m := &c.Entries[i].Message
				require.NoError(t, m.Validate())
				calls += len(m.Calls())
				results += len(m.Results())
			}
		}
		assert.Equal(t, s.Messages, messages, "messages")
		assert.Equal(t, s.Calls, calls, "calls")
		assert.Equal(t, s.Results, results, "results")
	})
}

// What a message is encoded to without its record is the record, but for order
// of fields and space. Content lists of one text become that text.
func TestCorpusEncode(t *testing.T) {
	corpus(t, func(t *testing.T, _ testdata.Session, _ []byte, f *wire.File) {
		for ci, c := range f.Conversations {
			sh := f.Writer.(*writer).lists[ci].shape
			for i := range c.Entries {
				m := c.Entries[i].Message.Clone()
				raw := m.Origin.Raw
				m.Origin = nil
				got := encode(m, sh)
				require.Len(t, got, 1)
				var want, have map[string]any
				require.NoError(t, json.Unmarshal(raw, &want))
				require.NoError(t, json.Unmarshal(got[0].json(), &have))
				if _, ok := want["content"]; !ok {
					want["content"] = nil
				}
				require.Equal(t, want, have, "entry %d", i)
			}
		}
	})
}

func TestCorpusUsage(t *testing.T) {
	s, err := testdata.Find("openai-chat/mini-swe-314-messages.traj.json")
	require.NoError(t, err)
	data, err := os.ReadFile(s.File())
	require.NoError(t, err)
	f, err := Codec{}.Read(context.Background(), data)
	require.NoError(t, err)
	c := f.Conversations[0]
	n := 0
	for _, e := range c.Entries {
		if e.Usage != nil {
			n++
			require.Equal(t, session.RoleAssistant, e.Message.Role)
		}
		if e.Message.Role == session.RoleAssistant {
			require.False(t, e.Time.IsZero())
			require.Equal(t, "deepseek-chat", e.Message.Source.Model)
		}
	}
	assert.Equal(t, 156, n)
	first := c.Entries[1]
	assert.Equal(t, &session.Usage{Prompt: 1835, Completion: 141, CacheRead: 320, Model: "deepseek-chat"}, first.Usage)
	assert.Equal(t, "deepseek/deepseek-chat", c.Envelope.Model)
	assert.Len(t, f.Notes, 1, "the exit record")
}

// Every file of the corpus that is of another format is left to others.
func TestDetectForeign(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	foreign := 0
	for _, s := range sessions {
		paths := []string{s.File()}
		if len(s.Files) > 0 {
			paths = nil
			for p := range s.Files {
				paths = append(paths, s.File()+"/"+p)
			}
		}
		for _, p := range paths {
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			got := Codec{}.Detect(data, true)
			head := Codec{}.Detect(data[:min(len(data), 64<<10)], false)
			if s.Format == Format {
				assert.GreaterOrEqual(t, got, wire.Likely, s.Path)
				assert.GreaterOrEqual(t, head, wire.Maybe, "head of %s", s.Path)
				continue
			}
			foreign++
			assert.Equal(t, wire.No, got, s.Path)
			assert.LessOrEqual(t, head, wire.Maybe, "head of %s", s.Path)
		}
	}
	require.Greater(t, foreign, 50)
}
