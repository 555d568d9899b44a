package formats

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/gemini"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
)

// check builds the request of every provider and validates it with every rule.
func check(t *testing.T, v session.View) {
	t.Helper()
	chat, err := openaichat.BuildRequest(v, &openaichat.RequestOptions{ModelCall: true, StrictAlternation: true})
	require.NoError(t, err)
	require.Empty(t, openaichat.ValidateWith(chat.Body(), openaichat.Checks{ModelCall: true, StrictAlternation: true, UniqueIDs: true}), "chat")
	anthropic, err := anthropicmessages.BuildRequest(v, &anthropicmessages.RequestOptions{ModelCall: true})
	require.NoError(t, err)
	require.Empty(t, anthropicmessages.ValidateWith(anthropic.Body, anthropicmessages.Checks{ModelCall: true, Alternation: true}), "anthropic")
	responses, err := openairesponses.BuildRequest(v, &openairesponses.RequestOptions{ModelCall: true})
	require.NoError(t, err)
	require.Empty(t, openairesponses.ValidateWith(responses.Body, openairesponses.Checks{ModelCall: true, UserFirst: true}), "responses")
	contents, err := gemini.BuildRequest(v, &gemini.RequestOptions{ModelCall: true, Model: "models/gemini-3-pro"})
	require.NoError(t, err)
	require.Empty(t, gemini.ValidateWith(contents.Body, gemini.Checks{ModelCall: true, Alternation: true, Signatures: true}), "gemini")
	for _, body := range [][]byte{anthropic.Body, responses.Body, contents.Body} {
		require.True(t, json.Valid(body))
	}
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
