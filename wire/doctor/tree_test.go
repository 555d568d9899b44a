package doctor

import (
	"maps"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/opencode"
)

// repairTree repairs a folder in place.
func repairTree(t *testing.T, dir fstest.MapFS, opts *Options) (*Repaired, *wire.Tree) {
	t.Helper()
	r, err := RepairTree(t.Context(), opencode.Codec{}, dir, func(changes []wire.Change) error {
		for _, c := range changes {
			if delete(dir, c.Path); c.Data != nil {
				dir[c.Path] = &fstest.MapFile{Data: c.Data}
			}
		}
		return nil
	}, opts)
	require.NoError(t, err)
	tree, err := opencode.Codec{}.ReadTree(t.Context(), dir)
	require.NoError(t, err)
	return r, tree
}

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func folder() fstest.MapFS {
	return fstest.MapFS{
		"session/p/ses_1.json":        file(`{"id":"ses_1","title":"t","time":{"created":1}}`),
		"message/ses_1/msg_1.json":    file(`{"id":"msg_1","sessionID":"ses_1","role":"user","time":{"created":1}}`),
		"part/msg_1/prt_1.json":       file(`{"id":"prt_1","messageID":"msg_1","type":"text","text":"go"}`),
		"message/ses_1/msg_2.json":    file(`{"id":"msg_2","sessionID":"ses_1","role":"assistant","time":{"created":2},"tokens":{"input":5,"output":1,"reasoning":0,"cache":{"read":0,"write":0}}}`),
		"part/msg_2/prt_2.json":       file(`{"id":"prt_2","messageID":"msg_2","type":"text","text":"yes"}`),
		"part/msg_2/prt_3.json":       file(`{"id":"prt_3","messageID":"msg_2","type":"tool","callID":"c","tool":"f","state":{"status":"running","input":{"a":1},"time":{"start":3}}}`),
		"message/ses_1/msg_3.json":    file(`{"id":"msg_3","sessionID":"ses_1","role":"user","time":{"created":4}}`),
		"part/msg_3/prt_4.json":       file(`{"id":"prt_4","messageID":"msg_3","type":"text","text":"and?"}`),
		"something/else/of/him.json":  file(`{`),
		"message/ses_1/msg_1.json.md": file(`{`),
	}
}

func TestRepairTree(t *testing.T) {
	dir := folder()
	r, tree := repairTree(t, dir, nil)
	require.Equal(t, []Kind{UnansweredCall}, kinds(r.Changes))
	require.Empty(t, r.Left)
	require.Equal(t, []string{"go", "yes", "and?"}, said(&tree.File))
	again, _ := repairTree(t, dir, nil)
	require.Empty(t, again.Changes)
	require.Equal(t, "{", string(dir["something/else/of/him.json"].Data))

	// What is wrong with its files is named by file.
	dir = folder()
	dir["part/msg_1/prt_1.json"] = file(`{"id":"prt_1","messageID":"msg_1","type":"text","text":"g` + "\xff" + `o"}`)
	dir["part/msg_1/prt_5.json"] = file(`{"id":"prt_5","messageID":"msg_1","type":"te`)
	dir["part/msg_3/prt_5.json"] = file(`what`)
	dir["message/ses_1/msg_2.json"] = file(`{"id":"msg_2","sessionID":"ses_1","role":"assistant","time":{"created":2},"tokens":{"input":5,"output":1,"reasoning":0,"cache":{"read":-1,"write":0}}}`)
	tree, err := opencode.Codec{}.ReadTree(t.Context(), dir)
	require.NoError(t, err)
	list, err := DiagnoseTree(t.Context(), dir, &tree.File)
	require.NoError(t, err)
	named := map[Kind]string{}
	for _, f := range list {
		named[f.Kind] = f.File
	}
	require.Equal(t, map[Kind]string{InvalidUTF8: "part/msg_1/prt_1.json", TornRecord: "part/msg_1/prt_5.json", BadLine: "part/msg_3/prt_5.json", UnansweredCall: "", WrongUsage: ""}, named)
	r, tree = repairTree(t, dir, nil)
	require.Equal(t, []Kind{InvalidUTF8, TornRecord, UnansweredCall, WrongUsage}, kinds(r.Changes))
	require.Equal(t, "message/ses_1/msg_2.json", r.Changes[3].File)
	require.Len(t, r.Left, 1)
	require.Equal(t, BadLine, r.Left[0].Kind)
	require.Equal(t, "--drop-bad-lines", Decides(BadLine))
	require.Equal(t, []string{"g\uFFFDo", "yes", "and?"}, said(&tree.File))
	r, _ = repairTree(t, dir, &Options{DropBadLines: true})
	require.Equal(t, []Kind{BadLine}, kinds(r.Changes))
	require.Empty(t, r.Left)
	require.NotContains(t, dir, "part/msg_3/prt_5.json")
}

// Sound folders stay as they are, and every folder can be repaired.
func TestRepairOfEveryFolder(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	n := 0
	for _, s := range sessions {
		if len(s.Files) == 0 {
			continue
		}
		n++
		t.Run(s.Path, func(t *testing.T) {
			dir := fstest.MapFS{}
			for name := range s.Files {
				data, err := os.ReadFile(s.File() + "/" + name)
				require.NoError(t, err)
				dir[name] = &fstest.MapFile{Data: data}
			}
			was := maps.Clone(dir)
			before, err := opencode.Codec{}.ReadTree(t.Context(), dir)
			require.NoError(t, err)
			all := &Options{CloseRunning: true, UniqueIDs: true, DropBadLines: true}
			r, after := repairTree(t, dir, all)
			requireSound(t, r, &after.File)
			requireSaid(t, &before.File, &after.File)
			if len(r.Changes) == 0 {
				require.Equal(t, was, dir)
			}
			again, _ := repairTree(t, dir, all)
			require.Empty(t, again.Changes)
		})
	}
	require.Positive(t, n)
}
