package names

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// check adds n strings, twice, and asks for them.
func check(t *testing.T, n int) {
	t.Helper()
	var table Table
	id, ok := table.Find("nothing is there")
	require.False(t, ok)
	require.Zero(t, id)
	require.Zero(t, table.Add(""))
	text := func(i int) string {
		if i%101 == 100 {
			return fmt.Sprint(i) + strings.Repeat("x", 2*block) // longer than a block
		}
		return fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)
	}
	for range 2 {
		for i := range n {
			require.Equal(t, ID(i+1), table.Add(text(i)))
		}
	}
	require.Equal(t, n, table.Len())
	for i := range n {
		id, ok := table.Find(text(i))
		require.True(t, ok)
		require.Equal(t, ID(i+1), id)
		require.Equal(t, text(i), table.Text(id))
	}
	_, ok = table.Find("another one")
	require.False(t, ok)
	id, ok = table.Find("")
	require.True(t, ok)
	require.Empty(t, table.Text(id))
}

func TestTable(t *testing.T) { check(t, 5000) }

// TestClashes gives strings few hashes, the last of them beside the first slot.
func TestClashes(t *testing.T) {
	defer func() { hash = maphash.String }()
	hash = func(_ maphash.Seed, s string) uint64 { return -uint64(len(s) % 7) }
	check(t, 300)
}
