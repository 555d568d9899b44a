package formats

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
)

// Each recorded session is claimed by its own codec and by no other.
func TestEachIsClaimedByItsOwn(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	seen := map[string]int{}
	for _, s := range sessions {
		if len(s.Files) > 0 {
			tree, err := ReadTree(t.Context(), os.DirFS(s.File()))
			require.NoError(t, err)
			assert.Equal(t, wirecorpus.CodecOf(s), tree.Format, s.Path)
			for name := range s.Files {
				data, err := os.ReadFile(s.File() + "/" + name)
				require.NoError(t, err)
				assert.Empty(t, claims(data), "%s/%s", s.Path, name)
			}
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		assert.Equal(t, []string{wirecorpus.CodecOf(s)}, claims(data), s.Path)
		f, err := Read(t.Context(), data)
		require.NoError(t, err)
		assert.Equal(t, wirecorpus.CodecOf(s), f.Format)
		seen[f.Format]++
	}
	for _, c := range All() {
		if c.Name() != "opencode" { // a folder
			assert.Positive(t, seen[c.Name()], "no transcript of %s", c.Name())
		}
	}
}

func claims(data []byte) (names []string) {
	for _, c := range All() {
		if c.Detect(data, true) > wire.No {
			names = append(names, c.Name())
		}
	}
	return names
}

func TestNothingKnown(t *testing.T) {
	var we *wire.Error
	for _, data := range []string{"", "  \n", "plain text", "{}", "[]", "[1,2]", "{\"a\":1}\n{\"b\":2}\n", "\x00\xff"} {
		_, err := Read(t.Context(), []byte(data))
		require.ErrorAs(t, err, &we, "%q", data)
	}
	_, err := ReadTree(t.Context(), os.DirFS(t.TempDir()))
	require.ErrorAs(t, err, &we)
}
