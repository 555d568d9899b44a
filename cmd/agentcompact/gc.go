package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// spareBytes is how much garbage may come together while a large file is read.
const spareBytes = 32 << 20

// The least and most that garbage may be of what is in use, in percent.
const leastGarbage, mostGarbage = 20, 400

// sparing begins to spare memory, for the rest of the process.
var sparing = sync.OnceFunc(func() { paceGC() })

// paceGC lets the collector run whenever about spareBytes of garbage have come
// together. Its own measure is a share of what is in use: what a large file needs
// would have as much garbage beside it, and a small share would have it run all
// the time while little is in use. It goes on until stop is called.
func paceGC() (stop func()) {
	var stopped atomic.Bool
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	type mark struct{ _ *mark } // has a pointer, so that it is an object of its own
	var adjust func(struct{})
	adjust = func(struct{}) { // after each collection
		if stopped.Load() {
			return
		}
		metrics.Read(sample)
		debug.SetGCPercent(garbage(sample[0].Value.Uint64()))
		runtime.AddCleanup(new(mark), adjust, struct{}{})
	}
	adjust(struct{}{})
	return func() { stopped.Store(true) }
}

// garbage is the percentage of garbage to so many bytes in use.
func garbage(live uint64) int {
	return int(min(max(100*spareBytes/max(live, 1), leastGarbage), mostGarbage))
}
