package formats

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
)

// Every transcript can be converted to every format: the outcome is recognized
// as that format, holds what was said, and all calls are answered.
func TestConvertEverything(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	for _, s := range sessions {
		if len(s.Files) > 0 || s.Tokens > 12_000 {
			continue
		}
		t.Run(s.Path, func(t *testing.T) {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			f, err := Read(t.Context(), data)
			require.NoError(t, err)
			c := f.Conversations[0]
			if len(c.Entries) == 0 {
				t.Skip("no message")
			}
			v := imported(t, c).View()
			for _, to := range Targets() {
				out, err := Convert(t.Context(), v, c, to)
				require.NoError(t, err, to)
				require.Equal(t, to, out.Format)
				codec, _ := wire.Detect(out.Data, true, All()...)
				require.NotNil(t, codec, to)
				if codec.Name() != to { // plain text alone can be read as a chat
					require.Contains(t, []string{"anthropic-messages", "openai-responses"}, to)
					continue
				}
				again, err := codec.Read(t.Context(), out.Data)
				require.NoError(t, err, to)
				got := again.Conversations[0]
				all := texts(got)
				for i := range c.Entries {
					m := &c.Entries[i].Message
					if m.Role == session.RoleTool {
						continue
					}
					for _, p := range m.Parts {
						if text, ok := p.(session.Text); ok && strings.TrimSpace(text.Text) != "" {
							require.Contains(t, all, text.Text, "%s: a text is lost", to)
						}
					}
				}
				calls := 0
				for i := range c.Entries {
					calls += len(c.Entries[i].Message.Calls())
				}
				live := 0
				for i := range got.Entries {
					live += len(got.Entries[i].Message.Calls())
				}
				require.Equal(t, calls, live, "%s: calls", to)
				t.Log(to)
				check(t, imported(t, got).View())
			}
		})
	}
}

func texts(c *wire.Conversation) string {
	var b strings.Builder
	for i := range c.Entries {
		b.WriteString(c.Entries[i].Message.Text())
		b.WriteString("\x00")
	}
	return b.String()
}

func TestConvertSaysWhatIsLost(t *testing.T) {
	s, err := testdata.Find("codex/rollout-medium.jsonl")
	require.NoError(t, err)
	data, err := os.ReadFile(s.File())
	require.NoError(t, err)
	f, err := Read(t.Context(), data)
	require.NoError(t, err)
	c := f.Conversations[0]
	v := imported(t, c).View()
	out, err := Convert(t.Context(), v, c, "anthropic-messages")
	require.NoError(t, err)
	all := strings.Join(out.Lost, "\n")
	require.Contains(t, all, "reasoning parts that only their provider understands")
	require.Contains(t, all, "the times of messages")
	require.Contains(t, all, "the reported usage")
	_, err = Convert(t.Context(), v, c, "nothing")
	require.ErrorContains(t, err, "pi")
}
