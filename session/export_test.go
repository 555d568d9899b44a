package session

import "testing"

// SmallChunks makes surfaces of few nodes consist of many chunks.
func SmallChunks(t testing.TB, n int) {
	old := chunkSize
	chunkSize = n
	t.Cleanup(func() { chunkSize = old })
}
