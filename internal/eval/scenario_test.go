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

// unanswered are the questions whose answer the compacted context does not have,
// with the reason. A question that is answered after all has no place here.
var unanswered = map[string]string{
	"scenario-massive-working-set.json yes": absent,
	"scenario-xml-robustness.json Refactor": absent,
}

// absent says that the history does not have the answer either.
const absent = "absent"

// TestScenarios: the answer to every question is in the compacted context.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Root(), "sessions", "gemini", "compression-evals", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 17)
	count := tokencount.NewPricer(nil)
	right, missed := 0, map[string]string{}
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
			switch {
			case has(c.Text, q.ExpectedSubstring):
				right++
			case !has(Full(messages), q.ExpectedSubstring):
				missed[filepath.Base(f)+" "+q.ExpectedSubstring] = absent
			default:
				missed[filepath.Base(f)+" "+q.ExpectedSubstring] = "no fact"
				t.Logf("%s: %q is lost:\n%s", f, q.ExpectedSubstring, c.Text)
			}
		}
	}
	require.Equal(t, unanswered, missed)
	require.Equal(t, 18, right)
}
