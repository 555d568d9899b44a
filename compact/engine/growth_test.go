package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// After 50 compactions a session takes memory for what is on its surface and for
// its log, and nothing that grows with the square of either.
func TestFiftyCompactionsStayFlat(t *testing.T) {
	rounds := 12
	if os.Getenv("AGENTCOMPACT_FULL") == "1" {
		rounds = 50
	}
	r := newRig(t, 0, nil)
	var grown []int64
	last := heap()
	for range rounds {
		talk(t, r.s, 24)
		require.NotNil(t, r.consider(compact.Pressure).Result)
		r.st.seen = nil
		now := heap()
		grown = append(grown, now-last)
		last = now
	}
	half := len(grown) / 2
	early, late := int64(0), int64(0)
	for i := 2; i < half; i++ {
		early += grown[i] / int64(half-2)
	}
	for _, g := range grown[half:] {
		late += g / int64(len(grown)-half)
	}
	t.Logf("a round takes %d bytes at first and %d in the end", early, late)
	assert.Less(t, late, early+early/2+64<<10, "%v", grown)
	assert.Less(t, r.s.View().Len(), 40)
}

// heap is what is reachable now.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A session that is opened from its file again takes memory for an index of its
// log and for what is visible: the texts that 50 compactions hide stay on disk, and
// a compaction costs no more when many came before it.
func TestFiftyCompactionsReopened(t *testing.T) {
	rounds := 12
	if os.Getenv("AGENTCOMPACT_FULL") == "1" {
		rounds = 50
	}
	path := filepath.Join(t.TempDir(), "s.jsonl")
	store, err := filestore.Open(path, nil)
	require.NoError(t, err)
	r := newRigOver(t, store, 0, nil)
	perEvent := func() float64 {
		before := heap()
		again, err := filestore.Open(path, nil)
		require.NoError(t, err)
		s, err := session.Open(t.Context(), again, nil)
		require.NoError(t, err)
		h := compact.HistoryOf(s)
		took := heap() - before
		v := s.View()
		t.Logf("%d compactions, %d events, %d live: %d bytes, %d an event, %d a live node",
			len(h.Attempts), v.Next(), v.Len(), took, took/int64(v.Next()), took/int64(v.Len()))
		require.NoError(t, s.Close())
		return float64(took) / float64(v.Next())
	}
	var early float64
	for i := range rounds {
		talk(t, r.s, 24)
		require.NotNil(t, r.consider(compact.Pressure).Result)
		r.st.seen = nil
		if i == rounds/3 {
			early = perEvent()
		}
	}
	late := perEvent()
	assert.Less(t, late, 1.4*early, "but for room at the end of lists")
	assert.Less(t, late, 450.0, "with the texts it would be 800")
}

// Many goroutines check one session for a while: whatever happens, its log
// stays in order, and every attempt is closed.
func TestManyCheckersOneSession(t *testing.T) {
	r := newRig(t, 10, nil)
	done := make(chan error, 6)
	for i := range 6 {
		e := newEngine(t, new(stub), nil)
		go func() {
			var bad error
			for range 20 {
				_, err := r.s.Append(t.Context(), session.UserText(fill(300, fmt.Sprint("g", i))), session.AssistantText("ok"))
				if err == nil {
					_, err = e.CompactIfNeeded(t.Context(), r.agent, []compact.Trigger{compact.Pressure, compact.ContextOverflow}[i%2])
				}
				if err != nil && !errors.Is(err, compact.Busy) && !errors.Is(err, compact.Changed) {
					bad = err
				}
			}
			done <- bad
		}()
	}
	for range 6 {
		require.NoError(t, <-done)
	}
	h := compact.HistoryOf(r.s)
	for _, a := range h.Attempts {
		assert.NotNil(t, a.End)
	}
}
