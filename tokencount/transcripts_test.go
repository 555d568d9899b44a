package tokencount_test

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/tokencount/bpe"
	"github.com/agentcompact/agentcompact/tokencount/models"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// transcript is one recorded conversation that has messages.
type transcript struct {
	name string
	raw  string // the file as it is; only the first of a file has it
	*wire.Conversation
}

func transcripts(t testing.TB) []transcript {
	t.Helper()
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	var out []transcript
	for _, s := range sessions {
		var found []*wire.Conversation
		raw := ""
		if len(s.Files) > 0 {
			tree, err := formats.ReadTree(t.Context(), os.DirFS(s.File()))
			require.NoError(t, err, s.Path)
			found = tree.Conversations
		} else {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			file, err := formats.Read(t.Context(), data)
			require.NoError(t, err, s.Path)
			raw, found = string(data), file.Conversations
		}
		for i, c := range found {
			if len(c.Entries) == 0 {
				continue
			}
			out = append(out, transcript{fmt.Sprintf("%s#%d", s.Path, i), raw, c})
			raw = ""
		}
	}
	require.GreaterOrEqual(t, len(out), 100)
	return out
}

// bare has only what is counted: no picture, no framing.
type bare struct {
	tokencount.Counter
	sum int
}

func (b *bare) Count(text string) int {
	b.sum += b.Counter.Count(text)
	return 0
}

// count sums the texts of a conversation, its system messages and tools
// included.
func (c transcript) count(by tokencount.Counter) int {
	b := &bare{Counter: by}
	p := tokencount.NewPricer(b)
	p.PriceEnvelope(&c.Envelope)
	for i := range c.Entries {
		p.Price(&c.Entries[i].Message)
	}
	return b.sum
}

// price is what a request with all of the conversation costs.
func (c transcript) price(p tokencount.Pricer) int {
	n := p.PriceEnvelope(&c.Envelope)
	for i := range c.Entries {
		n += p.Price(&c.Entries[i].Message)
	}
	return n
}

func o200k(t testing.TB) tokencount.Counter {
	t.Helper()
	c, err := bpe.Exact(bpe.O200kBase)
	require.NoError(t, err)
	return c
}

func near(t *testing.T, exact, got int, within float64, what string) {
	t.Helper()
	if off := float64(got)/float64(exact) - 1; math.Abs(off) > within {
		t.Errorf("%s: %d, exactly %d: %+.1f %%", what, got, exact, 100*off)
	}
}

// TestEstimateOfTranscripts: within 15 % for every one, be it its texts, its
// requests or its file.
func TestEstimateOfTranscripts(t *testing.T) {
	exact, rough := o200k(t), tokencount.Estimator{}
	for _, c := range transcripts(t) {
		near(t, c.count(exact), c.count(rough), 0.15, c.name+": texts")
		near(t, c.price(tokencount.NewPricer(exact)), c.price(tokencount.NewPricer(rough)), 0.15, c.name+": request")
		if c.raw != "" {
			near(t, exact.Count(c.raw), rough.Count(c.raw), 0.15, c.name+": file")
		}
	}
}

// TestMeterAfterTwoReports: two usage reports, at a third and at two thirds of
// a conversation, and at its end the meter is within 10 % of what the provider
// would report; also where a replacement has taken the last report's worth and
// only what was learned of the route is left.
func TestMeterAfterTwoReports(t *testing.T) {
	exact := o200k(t)
	all := transcripts(t)
	for provider, counter := range map[string]tokencount.Counter{
		"o200k":  exact,
		"claude": models.NewCounter(models.Claude, exact),
		"qwen":   models.NewCounter(models.Qwen, exact),
	} {
		truth := tokencount.NewPricer(counter)
		calibrated := 0
		for _, c := range all {
			s, err := session.Open(t.Context(), session.NewMemoryStore(), &session.Options{Pricer: tokencount.NewPricer(nil)})
			require.NoError(t, err)
			env := c.Envelope
			env.Provider, env.Model = "p", "m"
			_, err = s.Record(t.Context(), session.SetEnvelope{Envelope: env})
			require.NoError(t, err)
			total := truth.PriceEnvelope(&env)
			n := len(c.Entries)
			for i := range c.Entries {
				m := c.Entries[i].Message
				seqs, err := s.Append(t.Context(), m)
				require.NoError(t, err, c.name)
				cost := truth.Price(&m)
				if i == n/3 || i == 2*n/3 {
					_, err := s.Record(t.Context(), session.Usage{Node: seqs[0], Prompt: total, Completion: cost})
					require.NoError(t, err)
				}
				total += cost
			}
			m := tokencount.Measure(s.View(), "p", "m")
			require.NoError(t, s.Close())
			assert.True(t, m.Anchored, c.name)
			near(t, total, m.Tokens, 0.10, provider+" "+c.name+": anchored")
			if m.Factor != 1 {
				calibrated++
				near(t, total, int(float64(m.Priced)*m.Factor), 0.10, provider+" "+c.name+": calibrated")
			}
		}
		assert.Greater(t, calibrated, 60, provider)
	}
}
