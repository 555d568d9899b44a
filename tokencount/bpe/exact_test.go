package bpe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/tokencount/bpe"
)

func TestExactIsACounter(t *testing.T) {
	for _, e := range encodings {
		c, err := bpe.Exact(e)
		require.NoError(t, err)
		assert.Equal(t, string(e), c.ID())
		assert.Zero(t, c.Count(""))
		for _, text := range []string{"hello", " \n\t\n", "日本語のテキスト", "\xff\xfe"} {
			assert.Equal(t, counterFor(t, e).CountString(text), c.Count(text), "%q", text)
		}
	}
	_, err := bpe.Exact("p50k_base")
	assert.Error(t, err)
}

// TestEngineWithExactPrices runs a session and the engine with the exact counter
// in the place of the estimator: every price is the library's count, and the
// threshold is met to the token.
func TestEngineWithExactPrices(t *testing.T) {
	exact, err := bpe.Exact(bpe.O200kBase)
	require.NoError(t, err)
	pricer := tokencount.NewPricer(exact)
	s := sessiontest.Open(t, session.NewMemoryStore(), &session.Options{Pricer: pricer})
	tools := []session.Tool{{Raw: []byte(`{"name": "read", "description": "Reads a file."}`)}}
	_, err = s.Record(t.Context(), session.SetEnvelope{Envelope: session.Envelope{
		System: []session.Message{{Role: session.RoleSystem, Source: session.UserText("").Source, Parts: []session.Part{session.Text{Text: "You are careful."}}}}, Tools: tools, Provider: "openai", Model: "gpt-4o"}})
	require.NoError(t, err)

	count := func(text string) int { return len(oracles[bpe.O200kBase]().EncodeOrdinary(text)) }
	want := count("You are careful.") + tokencount.PerMessage + tokencount.PerToolList + tokencount.PerTool +
		count(`{"name":"read","description":"Reads a file."}`)
	for i := range 40 {
		user, answer := fmt.Sprintf("Look at item %d.", i), strings.Repeat(fmt.Sprintf("Item %d is fine. ", i), 20)
		_, err := s.Append(t.Context(), session.UserText(user), session.AssistantText(answer))
		require.NoError(t, err)
		want += count(user) + count(answer) + 2*tokencount.PerMessage
	}
	require.Equal(t, want, tokencount.Measure(s.View(), "openai", "gpt-4o").Tokens)

	compactAt := func(threshold int) *compact.Result {
		e, err := engine.New(summarize.NewExtractive(nil), &engine.Options{Windows: engine.FixedWindow(2 * want),
			Policy: engine.Policy{ThresholdTokens: threshold, RetainTokens: 500}})
		require.NoError(t, err)
		out, err := e.CompactIfNeeded(t.Context(), compact.Agent{Session: s}, compact.Pressure)
		require.NoError(t, err)
		return out
	}
	assert.Nil(t, compactAt(want+1), "one token below the threshold")
	require.NotNil(t, compactAt(want))

	sum := s.View().EnvelopeTokens()
	messages, err := s.View().Messages()
	require.NoError(t, err)
	for _, m := range messages {
		sum += pricer.Price(m)
	}
	assert.Equal(t, sum, tokencount.Measure(s.View(), "openai", "gpt-4o").Tokens)
	assert.Less(t, sum, want/2)
}
