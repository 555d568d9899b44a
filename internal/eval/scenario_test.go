package eval

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/wire/gemini"
	"github.com/stretchr/testify/require"
)

// Of the 20 questions two expect words that their histories do not have, and
// one, in scenario-blind-guess, a line of an escaped result that 160 tokens have
// no room for.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Root(), "sessions", "gemini", "compression-evals", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 17)
	count := tokencount.NewPricer(nil)
	right := 0
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		var s struct {
			History   json.RawMessage
			Questions []struct{ ExpectedSubstring string }
		}
		require.NoError(t, json.Unmarshal(data, &s))
		w, err := gemini.Contents{}.Read(context.Background(), s.History)
		require.NoError(t, err)
		var messages []*session.Message
		total := 0
		for i := range w.Conversations[0].Entries {
			m := &w.Conversations[0].Entries[i].Message
			messages = append(messages, m)
			total += count.Price(m)
		}
		c, _, err := compacted(context.Background(), summarize.NewExtractive(nil), messages, int(0.3*float64(total)))
		require.NoError(t, err, f)
		has := func(text, s string) bool {
			quoted, err := json.Marshal(s)
			require.NoError(t, err)
			return strings.Contains(text, s) || strings.Contains(text, strings.Trim(string(quoted), `"`)) // results are JSON
		}
		for _, q := range s.Questions {
			if has(c.Text, q.ExpectedSubstring) {
				right++
			} else if has(Full(messages), q.ExpectedSubstring) {
				require.Equal(t, "scenario-blind-guess.json", filepath.Base(f), "%q is lost:\n%s", q.ExpectedSubstring, c.Text)
			}
		}
	}
	require.GreaterOrEqual(t, right, 17)
}
