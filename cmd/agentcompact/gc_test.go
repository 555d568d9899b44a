package main

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGarbageBesideWhatIsInUse(t *testing.T) {
	for live, want := range map[uint64]int{0: mostGarbage, 1 << 20: mostGarbage, 32 << 20: 100, 64 << 20: 50, 1 << 30: leastGarbage} {
		require.Equal(t, want, garbage(live), live)
	}
}

// TestPaceFollowsTheHeap holds more and more and looks at the share of garbage
// that is allowed.
func TestPaceFollowsTheHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	stop := paceGC()
	defer func() {
		stop()
		debug.SetGCPercent(before)
	}()
	share := func(bytes int) int {
		held := make([]byte, bytes)
		for range 100 { // what adjusts it runs behind a collection
			runtime.GC()
			runtime.Gosched()
		}
		runtime.KeepAlive(held)
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	small, large := share(8<<20), share(200<<20)
	require.Greater(t, small, 60)
	require.Equal(t, leastGarbage, large)
}
