package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/compacttest"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/summarize"
)

func TestService(t *testing.T) {
	compacttest.TestService(t, func(t testing.TB, write compacttest.Write) compact.Service {
		e, err := engine.New(&stub{collect: func(ctx context.Context, n int, _ *summarize.Request) (string, error) { return write(ctx, n) }}, &engine.Options{
			Windows: engine.FixedWindow(compacttest.Window),
			Prune:   engine.Prune{Off: true},
			Run:     summarize.RunOptions{Guard: loose, Backoff: -1, Deadline: -1, Attempts: 1},
		})
		require.NoError(t, err)
		return e
	})
}
