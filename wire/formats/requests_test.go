package formats

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/requesttest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
)

// check builds the request of every provider and validates it with every rule.
func check(t *testing.T, v session.View) {
	t.Helper()
	requesttest.Session(t, v)
}

func imported(t *testing.T, c *wire.Conversation) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = wire.Import(t.Context(), s, c)
	require.NoError(t, err)
	return s
}

// Every session can be sent to every provider, whole and with holes in it.
func TestRequestsAreValid(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	for _, s := range sessions {
		if len(s.Files) > 0 {
			continue
		}
		t.Run(s.Path, func(t *testing.T) {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			f, err := Read(t.Context(), data)
			require.NoError(t, err)
			rnd := rand.New(rand.NewPCG(1, uint64(len(data))))
			for _, c := range f.Conversations {
				check(t, imported(t, c).View())
				rounds := 3
				if s.Tokens > 20_000 {
					rounds = 1
				}
				for range rounds {
					holes := *c
					holes.Entries = nil
					for _, e := range c.Entries {
						if rnd.IntN(4) > 0 {
							holes.Entries = append(holes.Entries, e)
						}
					}
					rnd.Shuffle(len(holes.Entries), func(i, j int) {
						if i-j < 4 && j-i < 4 {
							holes.Entries[i], holes.Entries[j] = holes.Entries[j], holes.Entries[i]
						}
					})
					check(t, imported(t, &holes).View())
				}
			}
		})
	}
}
