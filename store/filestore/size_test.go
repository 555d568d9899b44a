package filestore_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// TestGigabyte: a session file of 1 GB opens with less than 300 MB of memory.
func TestGigabyte(t *testing.T) {
	if !full() {
		t.Skip("set AGENTCOMPACT_FULL=1")
	}
	path := filepath.Join(t.TempDir(), "s.jsonl")
	store, err := filestore.Open(path, &filestore.Options{SyncEvery: filestore.Never})
	require.NoError(t, err)
	text := strings.Repeat("a line of tool output, as they come\n", 55) // about 2 kB
	mem := session.NewMemoryStore()
	s, err := session.Open(t.Context(), mem, nil)
	require.NoError(t, err)
	for next := 0; ; next += 1000 {
		var bodies []session.Body
		for range 1000 {
			bodies = append(bodies, session.Append{Message: session.UserText(text)})
		}
		_, err := s.Record(t.Context(), bodies...)
		require.NoError(t, err)
		require.NoError(t, store.Append(t.Context(), session.Seq(next), mem.Events()[next:]))
		st, err := os.Stat(path)
		require.NoError(t, err)
		if st.Size() >= 1<<30 {
			break
		}
	}
	require.NoError(t, store.Close())
	s, mem = nil, nil
	runtime.GC()
	used := func() uint64 {
		m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
		metrics.Read(m)
		return m[0].Value.Uint64() - m[1].Value.Uint64() - m[2].Value.Uint64()
	}
	before := used()
	peak, events := before, 0
	store, err = filestore.Open(path, nil)
	require.NoError(t, err)
	s, err = session.Open(t.Context(), watched{store, func() {
		if events++; events%500 == 0 {
			peak = max(peak, used())
		}
	}}, nil)
	require.NoError(t, err)
	peak = max(peak, used())
	t.Logf("%d events, %d MB before, at most %d MB while opening", s.View().Next(), before>>20, peak>>20)
	require.Less(t, (peak-before)>>20, uint64(300))
	require.NoError(t, s.Close())
}

type watched struct {
	session.Store
	each func()
}

func (w watched) Scan(ctx context.Context, from session.Seq, fn func(*session.Event) error) error {
	return w.Store.Scan(ctx, from, func(e *session.Event) error { w.each(); return fn(e) })
}
