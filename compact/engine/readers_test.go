package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// TestReadersWritersAndCompactions: 32 readers and 4 writers of one session file
// while compactions are in flight; what was appended meanwhile is kept, no reader
// sees half of anything, and every compaction is told of once.
func TestReadersWritersAndCompactions(t *testing.T) {
	store, err := filestore.Open(filepath.Join(t.TempDir(), "s.jsonl"), nil)
	require.NoError(t, err)
	s := open(t, store)
	talk(t, s, 30)
	rec := new(lifecycletest.Recorder)
	inFlight := make(chan struct{}, 100)
	st := &stub{collect: func(context.Context, int, *summarize.Request) (string, error) {
		inFlight <- struct{}{}
		for next := s.View().Next(); s.View().Next() < next+4 && !t.Failed(); { // others write meanwhile
			runtime.Gosched()
		}
		return "Short.", nil
	}}
	e := newEngine(t, st, func(o *engine.Options) {
		o.Lifecycle = dispatcher(t, agentOptions{Observers: []lifecycle.Observer{rec}, Preservers: []agentPreserver{&guardian{id: "g"}}})
	})
	ctx, stop := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 32 {
		readers.Go(func() {
			for ctx.Err() == nil {
				v := s.View()
				tokens := 0
				for i := range v.Len() {
					tokens += int(v.Node(i).Tokens)
				}
				assert.Equal(t, v.SurfaceTokens(), tokens, "a view is of one piece")
				m, err := v.Message(v.Len() / 2)
				assert.NoError(t, err)
				assert.NotEmpty(t, m.Parts)
				toolpairing.For(s).With(func(x *toolpairing.Index) { x.Nearest(x.View().SurfaceTokens() / 2) })
			}
		})
	}
	const compactions = 6
	wctx, enough := context.WithCancel(t.Context())
	appended := make([][]string, 4)
	for w := range appended {
		writers.Go(func() {
			for i := 0; wctx.Err() == nil; i++ {
				id := fmt.Sprintf("w%d/%d", w, i)
				_, err := s.Append(t.Context(), session.UserText(id),
					session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: "{}"}), session.ToolText(id, fill(40, "line")))
				if !assert.NoError(t, err) {
					return
				}
				appended[w] = append(appended[w], id)
			}
		})
	}
	agent := compact.Agent{Session: s, Provider: "p", Model: "m"}
	for done := 0; done < compactions; {
		r, err := e.CompactNow(t.Context(), agent, nil)
		if errors.Is(err, compact.NothingToCompact) {
			runtime.Gosched()
			continue
		}
		require.NoError(t, err)
		require.NotNil(t, r)
		done++
	}
	enough()
	writers.Wait()
	stop()
	readers.Wait()

	require.GreaterOrEqual(t, len(inFlight), compactions)
	require.NoError(t, lifecycletest.Check(rec.Transitions()))
	inLog := make(map[string]int)
	for ev := range s.View().Events(0) {
		if ev.Type == session.TypeMessage {
			m, err := ev.Message()
			require.NoError(t, err)
			inLog[m.Text()]++
		}
	}
	for _, ids := range appended {
		require.NotEmpty(t, ids)
		for _, id := range ids {
			require.Equal(t, 1, inLog[id], id)
		}
	}
}
