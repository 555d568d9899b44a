package opencode

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

// export is a session with what the recorded one has not: several steps, a
// failed and a pending call, a pruned output, a compaction with a tail.
const export = `{"info":{"id":"ses_1","title":"T"},"messages":[
 {"info":{"id":"msg_1","sessionID":"ses_1","role":"user","time":{"created":1}},"parts":[{"id":"p1","type":"text","text":"go"},{"id":"p2","type":"text","text":"hidden","ignored":true}]},
 {"info":{"id":"msg_2","sessionID":"ses_1","role":"assistant","parentID":"msg_1","modelID":"m","providerID":"p","time":{"created":2},"tokens":{"input":5,"output":2}},"parts":[
  {"id":"p3","type":"step-start"},{"id":"p4","type":"reasoning","text":"hm"},
  {"id":"p5","type":"tool","callID":"c1","tool":"ls","state":{"status":"completed","input":{"a": 1},"output":"o","time":{"start":1,"compacted":9}}},
  {"id":"p6","type":"tool","callID":"c2","tool":"ls","state":{"status":"error","input":{},"error":"no"}},
  {"id":"p7","type":"step-finish"},{"id":"p8","type":"step-start"},{"id":"p9","type":"text","text":"so"},
  {"id":"p10","type":"tool","callID":"c3","tool":"cat","state":{"status":"completed","input":{},"output":"x"}},{"id":"p11","type":"snapshot"}]},
 {"info":{"id":"msg_3","sessionID":"ses_1","role":"user","time":{"created":3}},"parts":[{"id":"p12","type":"text","text":"auto","synthetic":true}]},
 {"info":{"id":"msg_4","sessionID":"ses_1","role":"assistant","parentID":"msg_3","modelID":"m","providerID":"p","time":{"created":4}},"parts":[{"id":"p13","type":"text","text":"done"}]}
]}`

const compacted = `{"info":{"id":"ses_2"},"messages":[
 {"info":{"id":"msg_1","role":"user","time":{"created":1}},"parts":[{"type":"text","text":"old"}]},
 {"info":{"id":"msg_2","role":"user","time":{"created":2}},"parts":[{"type":"text","text":"kept"}]},
 {"info":{"id":"msg_3","role":"user","time":{"created":3}},"parts":[{"type":"compaction","auto":true,"tail_start_id":"msg_2"}]},
 {"info":{"id":"msg_4","role":"assistant","parentID":"msg_3","summary":true,"finish":"stop","modelID":"m","time":{"created":4}},"parts":[{"type":"text","text":"the summary"}]},
 {"info":{"id":"msg_5","role":"assistant","parentID":"msg_2","modelID":"m","time":{"created":5}},"parts":[{"type":"text","text":"after"}]}
]}`

func suite(t testing.TB) *wiretest.Suite {
	_, others, err := wirecorpus.Files("none", 0)
	require.NoError(t, err)
	own := []wiretest.File{
		{Path: "export", Data: []byte(export), Counts: wiretest.Counts{Messages: 7, Calls: 3, Results: 3}},
		{Path: "compacted", Data: []byte(compacted), Counts: wiretest.Counts{Messages: 3}},
	}
	return &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, RouteOfMessages: true, HeadOnly: true}
}

func TestExport(t *testing.T) {
	s := suite(t)
	s.Run(t)
	c := s.Read(t, []byte(compacted)).Conversations[0]
	require.Equal(t, []string{"the summary", "kept", "after"}, texts(c))
	require.Equal(t, 1, c.Side)
	require.Equal(t, "auto", c.Checkpoints[0].Trigger)
	c = s.Read(t, []byte(export)).Conversations[0]
	require.Equal(t, []string{"go", "", clearedText + "\nno", "so", "x", "auto", "done"}, texts(c))
	require.Equal(t, FormCleared, c.Entries[2].Message.Source.Form)
}

func texts(c *wire.Conversation) (out []string) {
	for _, e := range c.Entries {
		out = append(out, e.Message.Text())
	}
	return out
}

// overlay is a folder with changes.
func overlay(t *testing.T, dir fs.FS, changes []wire.Change) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		out[name] = &fstest.MapFile{Data: data}
		return err
	}))
	for _, c := range changes {
		if c.Data == nil {
			require.Contains(t, out, c.Path)
			delete(out, c.Path)
			continue
		}
		require.True(t, json.Valid(c.Data), c.Path)
		out[c.Path] = &fstest.MapFile{Data: c.Data}
	}
	return out
}

func TestTree(t *testing.T) {
	all, err := testdata.OfFormat(Format)
	require.NoError(t, err)
	for _, s := range all {
		t.Run(s.Path, func(t *testing.T) {
			dir := os.DirFS(s.File())
			require.Equal(t, wire.Certain, Codec{}.DetectTree(dir))
			tree, err := Codec{}.ReadTree(t.Context(), dir)
			require.NoError(t, err)
			var got wiretest.Counts
			for n, c := range tree.Conversations {
				for i := range c.Entries {
					m := &c.Entries[i].Message
					require.NoError(t, m.Validate())
					if m.Role != session.RoleTool { // stands in the message of its call
						got.Messages++
					}
					got.Calls += len(m.Calls())
					got.Results += len(m.Results())
				}
				for _, items := range [][]wire.Item{nil, wiretest.Everything(c)} {
					same, err := tree.Writer.WriteTree(t.Context(), n, items)
					require.NoError(t, err)
					require.Empty(t, same, "an unchanged session is written")
				}
				kit := suite(t)
				items := wiretest.Compacted(t, c, "cmp_1")
				changes, err := tree.Writer.WriteTree(t.Context(), n, items)
				require.NoError(t, err)
				again, err := Codec{}.ReadTree(t.Context(), overlay(t, dir, changes))
				require.NoError(t, err)
				after := again.Conversations[n]
				require.Equal(t, kit.Surface(items, c), kit.Surface(wiretest.Everything(after), after))
				require.Equal(t, 0, after.Checkpoints[len(after.Checkpoints)-1].Entry)
				for _, ch := range changes {
					require.True(t, fs.ValidPath(ch.Path))
				}
			}
			require.Equal(t, wiretest.Counts{Messages: s.Messages, Calls: s.Calls, Results: s.Results}, got)
		})
	}
}

func TestTreeRefuses(t *testing.T) {
	var we *wire.Error
	_, err := Codec{}.ReadTree(t.Context(), fstest.MapFS{"session/p/s.json": {Data: []byte("7")}})
	require.ErrorAs(t, err, &we)
	require.Equal(t, wire.No, Codec{}.DetectTree(os.DirFS(filepath.Dir(t.TempDir()))))
	// An id that leads out of the folder names no part.
	tree, err := Codec{}.ReadTree(t.Context(), fstest.MapFS{
		"session/p/s.json": {Data: []byte(`{"id":"s"}`)}, "message/s/m.json": {Data: []byte(`{"id":"../x","role":"user"}`)}})
	require.NoError(t, err)
	require.Empty(t, tree.Conversations[0].Entries)
	require.Len(t, tree.Notes, 1)
}

func FuzzRead(f *testing.F) { suite(f).Fuzz(f, export, compacted) }
