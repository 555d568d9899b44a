package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// TestUndoGivesBack compacts every conversation of every transcript, once and
// then once more on top, and undoes both, from the outside in. What the model
// sees afterwards is what it saw at each step before. Formats whose recorded
// sessions are too short for that get a long one by conversion, or are made.
func TestUndoGivesBack(t *testing.T) {
	full := os.Getenv("AGENTCOMPACT_FULL") == "1"
	nested := map[string]int{} // conversations that were compacted twice, by format
	for i, s := range corpus(t) {
		n := inspected(t, s.File(), 1).Conversations
		if !full {
			n = min(n, 2)
		}
		for c := 1; c <= n; c++ {
			t.Run(fmt.Sprintf("%s#%d", s.Path, c), func(t *testing.T) { nested[s.Format] += undoForeign(t, place(t, s), c) })
			if full || i%4 == 0 { // in our own format all are much alike
				t.Run(fmt.Sprintf("own/%s#%d", s.Path, c), func(t *testing.T) { undoOwn(t, s, c) })
			}
		}
	}
	for _, dir := range folders(t) {
		n := inspected(t, dir, 1).Conversations
		for c := 1; c <= n; c++ {
			t.Run(fmt.Sprintf("folder/%s#%d", filepath.Base(dir), c), func(t *testing.T) { undoForeign(t, dir, c) })
		}
	}
	made := filepath.Join(t.TempDir(), "long")
	opencodeFolder(t, made, 40)
	for _, path := range []string{made, opencodeExport(t, made)} {
		t.Run("long/"+filepath.Base(path), func(t *testing.T) {
			n := undoForeign(t, path, 1)
			require.Positive(t, n, "was not compacted twice")
			nested["opencode"] += n
		})
	}
	long, err := testdata.Find("openai-chat/mini-swe-380-messages.traj.json")
	require.NoError(t, err)
	total := 0
	for _, codec := range formats.All() {
		format := codec.Name()
		if nested[format] == 0 && !isFolder(format) {
			t.Run("long/"+format, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "long.json")
				if slices.Contains(formats.Targets(), format) {
					r := run(t, "convert", "--to", format, "-o", path, long.File())
					require.Equal(t, exitOK, r.code, r.stderr)
				} else {
					repeat(t, format, path)
				}
				nested[format] += undoForeign(t, path, 1)
			})
		}
		require.Positive(t, nested[format], "no conversation of format %s was compacted twice", format)
		total += nested[format]
	}
	require.GreaterOrEqual(t, total, 40, "conversations that were compacted twice")
}

// folders are copies of the recorded sessions that are folders.
func folders(t *testing.T) []string {
	t.Helper()
	all, err := testdata.Sessions()
	require.NoError(t, err)
	var out []string
	for _, s := range all {
		if len(s.Files) > 0 {
			dir := filepath.Join(t.TempDir(), filepath.Base(s.Path))
			require.NoError(t, os.CopyFS(dir, os.DirFS(s.File())))
			out = append(out, dir)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// repeat makes a long transcript out of a short one that is a plain array.
func repeat(t *testing.T, format, path string) {
	t.Helper()
	all := corpus(t)
	i := slices.IndexFunc(all, func(s testdata.Session) bool { return s.Format == format })
	data, err := os.ReadFile(all[i].File())
	require.NoError(t, err)
	var messages []json.RawMessage
	require.NoError(t, json.Unmarshal(data, &messages))
	data, err = json.Marshal(slices.Repeat(messages, 8))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// seen is what a model sees of a conversation.
type seen struct {
	hashes  []string
	thought []string
	request string
}

func whatIsSeen(t *testing.T, path string, conversation int) seen {
	t.Helper()
	return seenOf(t, loaded(t, path, conversation).session)
}

func seenOf(t *testing.T, s *session.Session) seen {
	t.Helper()
	v := s.View()
	var out seen
	for i := range v.Len() {
		m, err := v.Message(i)
		require.NoError(t, err)
		out.hashes = append(out.hashes, contentHash(m))
		for _, p := range m.Parts {
			if r, ok := p.(session.Reasoning); ok {
				out.thought = append(out.thought, r.Text+r.Signature+r.Encrypted)
			}
		}
	}
	req, err := openaichat.BuildRequest(v, &openaichat.RequestOptions{Model: "m"})
	require.NoError(t, err)
	out.request = string(req.Body())
	return out
}

// compactedTo compacts a file with the ratio and returns where the result is;
// empty when there was nothing to compact.
func compactedTo(t *testing.T, path string, conversation int, ratio string) string {
	t.Helper()
	r := run(t, "compact", "--json", "--conversation", strconv.Itoa(conversation), "--ratio", ratio, path)
	if r.code == exitNothing {
		return ""
	}
	require.Equal(t, exitOK, r.code, r.stderr)
	var out compacted
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	return out.Out
}

func turned(t *testing.T, verb, path string, conversation int) *undone {
	t.Helper()
	r := run(t, verb, "--json", "--conversation", strconv.Itoa(conversation), path)
	require.Equal(t, exitOK, r.code, r.stderr)
	out := new(undone)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), out))
	require.NotEmpty(t, out.ID)
	return out
}

func undoForeign(t *testing.T, path string, c int) (nested int) {
	was := whatIsSeen(t, path, c)
	first := compactedTo(t, path, c, "0.5")
	if first == "" {
		return 0
	}
	between := whatIsSeen(t, first, c)
	require.NotEqual(t, was.hashes, between.hashes)
	top := first
	if second := compactedTo(t, first, c, "0.2"); second != "" {
		back := turned(t, "undo", second, c)
		require.Equal(t, between, whatIsSeen(t, back.Out, c), "after the outer one")
		again := turned(t, "redo", back.Out, c)
		require.Equal(t, whatIsSeen(t, second, c), whatIsSeen(t, again.Out, c), "put back")
		require.Equal(t, back.ID, again.ID)
		top, nested = turned(t, "undo", again.Out, c).Out, 1
	}
	back := turned(t, "undo", top, c)
	require.Equal(t, was, whatIsSeen(t, back.Out, c), "after both")
	r := run(t, "undo", "--conversation", strconv.Itoa(c), back.Out)
	require.Equal(t, exitNothing, r.code, "%s%s", r.stdout, r.stderr)
	return nested
}

// undoOwn does the same in our own format: by appending, so that the surface is
// the very same events.
func undoOwn(t *testing.T, s testdata.Session, c int) {
	in := loaded(t, s.File(), c)
	path := filepath.Join(t.TempDir(), "session.jsonl")
	store, err := filestore.Open(path, nil)
	require.NoError(t, err)
	own, err := copySession(t.Context(), in.session, store)
	require.NoError(t, err)
	require.NoError(t, own.Close())
	surfaces := [][]session.Seq{surfaceOf(t, path)}
	for _, ratio := range []string{"0.5", "0.2"} {
		if compactedTo(t, path, 1, ratio) != "" {
			surfaces = append(surfaces, surfaceOf(t, path))
		}
	}
	for k := len(surfaces) - 2; k >= 0; k-- {
		size := fileSize(t, path)
		out := turned(t, "undo", path, 1)
		require.Equal(t, path, out.Out)
		require.Greater(t, fileSize(t, path), size, "by appending")
		require.Equal(t, surfaces[k], surfaceOf(t, path))
	}
	sessiontest.Verify(t, openOwn(t, path))
	require.Empty(t, leftovers(t, filepath.Dir(path), "session.jsonl"))
}

func surfaceOf(t *testing.T, path string) []session.Seq {
	t.Helper()
	v := openOwn(t, path).View()
	out := []session.Seq{}
	for i := range v.Len() {
		out = append(out, v.Node(i).Seq)
	}
	return out
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}
