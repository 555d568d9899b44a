package opencode

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

// folderOf lays an export out as a folder.
func folderOf(t *testing.T, data string) fstest.MapFS {
	t.Helper()
	var doc struct {
		Info     json.RawMessage
		Messages []struct {
			Info  json.RawMessage
			Parts []json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal([]byte(data), &doc))
	id := func(raw json.RawMessage) string {
		var o struct{ ID string }
		require.NoError(t, json.Unmarshal(raw, &o))
		return o.ID
	}
	out := fstest.MapFS{"session/p/s.json": {Data: doc.Info}}
	for _, m := range doc.Messages {
		out["message/"+id(doc.Info)+"/"+id(m.Info)+".json"] = &fstest.MapFile{Data: m.Info}
		for k, p := range m.Parts {
			out[fmt.Sprintf("part/%s/%03d.json", id(m.Info), k)] = &fstest.MapFile{Data: p}
		}
	}
	return out
}

// surface are items that make the messages of a conversation, as the log beside
// the file holds them: nothing says which entries they are.
func surface(c *wire.Conversation, id string) []wire.Item {
	var out []wire.Item
	for i := range c.Entries {
		m := c.Entries[i].Message.Clone()
		for k, p := range m.Parts {
			if r, ok := p.(session.Reasoning); ok {
				r.Raw = nil
				m.Parts[k] = r
			}
		}
		out = append(out, wire.Item{Entry: -1, Message: m})
	}
	if id != "" {
		out[0].Compaction = &wire.Compaction{ID: id}
	}
	return out
}

// TestRestore compacts twice, one on top of the other, each time with something
// written anew behind the summary, and takes both back, the newest first. What
// the agent said meanwhile stays.
func TestRestore(t *testing.T) {
	dir := folderOf(t, export)
	read := func(dir fstest.MapFS) (*wire.Tree, *wire.Conversation) {
		tree, err := Codec{}.ReadTree(t.Context(), dir)
		require.NoError(t, err)
		return tree, tree.Conversations[0]
	}
	write := func(dir fstest.MapFS, items []wire.Item) fstest.MapFS {
		tree, _ := read(dir)
		changes, err := tree.Writer.WriteTree(t.Context(), 0, items)
		require.NoError(t, err)
		return overlay(t, dir, changes)
	}
	_, first := read(dir)
	// The pinned message stands before the checkpoint's tail, so that all of it
	// is written anew.
	one := write(dir, []wire.Item{wiretest.Checkpoint("one", 1, 2), {Entry: 0}, {Entry: 3}, {Entry: 4}, {Entry: 5}, {Entry: 6}})
	_, second := read(one)
	require.Len(t, second.Entries, 6)
	two := write(one, []wire.Item{wiretest.Checkpoint("two", 0, 1, 2, 3), {Entry: 4}, {Entry: 5}})
	later := `{"id":"msg_9","sessionID":"ses_1","role":"user","time":{"created":9e12}}`
	two["message/ses_1/msg_9.json"] = &fstest.MapFile{Data: []byte(later)}
	two["part/msg_9/001.json"] = &fstest.MapFile{Data: []byte(`{"id":"p99","type":"text","text":"thanks"}`)}
	_, third := read(two)
	require.Equal(t, "thanks", texts(third)[len(third.Entries)-1])
	last := wire.Item{Entry: len(third.Entries) - 1}

	back := write(two, append(surface(second, "one"), last))
	_, got := read(back)
	require.Equal(t, append(texts(second), "thanks"), texts(got))
	require.Equal(t, second.Entries[0].Message.Source, got.Entries[0].Message.Source)
	require.Equal(t, two["message/ses_1/msg_9.json"], back["message/ses_1/msg_9.json"])
	require.Len(t, back, len(one)+2, "what the second compaction wrote is gone, and nothing else")
	for name, f := range one {
		require.Equal(t, string(f.Data), string(back[name].Data), name)
	}
	last.Entry = len(got.Entries) - 1
	back = write(back, append(surface(first, ""), last))
	_, got = read(back)
	require.Equal(t, append(texts(first), "thanks"), texts(got))
	require.Len(t, back, len(dir)+2)
	for name, f := range dir {
		require.Equal(t, string(f.Data), string(back[name].Data), name)
	}

	// Both at once, and with a result that was shortened before the first.
	last.Entry = len(third.Entries) - 1
	items := append(surface(first, ""), last)
	short := items[4].Message
	r := short.Parts[0].(session.ToolResult)
	r.Parts = []session.Part{session.Text{Text: "short"}}
	short.Parts[0] = r
	back = write(two, items)
	_, got = read(back)
	require.Equal(t, []string{"go", "", clearedText + "\nno", "so", "short", "auto", "done", "thanks"}, texts(got))
	require.Len(t, back, len(dir)+2)

	// What the file never showed is not made up.
	items = surface(first, "")
	items[0].Message.Parts = []session.Part{session.Text{Text: "other"}}
	tree, _ := read(two)
	var we *wire.Error
	_, err := tree.Writer.WriteTree(t.Context(), 0, items)
	require.ErrorAs(t, err, &we)
}

// TestRestoreExport does it in one document: the export is again what it was, to
// the byte.
func TestRestoreExport(t *testing.T) {
	s := suite(t)
	for _, data := range []string{export, compacted} {
		f := s.Read(t, []byte(data))
		was := f.Conversations[0]
		id := ""
		if len(was.Checkpoints) > 0 {
			id = "msg_4"
		}
		first := wiretest.Write(t, f, 0, wiretest.Compacted(t, was, "one"))
		f = s.Read(t, first)
		between := f.Conversations[0]
		second := wiretest.Write(t, f, 0, []wire.Item{wiretest.Checkpoint("two", 0), {Entry: 1}})
		f = s.Read(t, second)
		require.Equal(t, string(first), string(wiretest.Write(t, f, 0, surface(between, "one"))))
		require.Equal(t, data, string(wiretest.Write(t, s.Read(t, first), 0, surface(was, id))))
		require.Equal(t, data, string(wiretest.Write(t, f, 0, surface(was, id))))
	}
}
