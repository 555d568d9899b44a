package summarize_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
)

// hostileSecrets are texts with the core of a secret in them, which must be seen
// nowhere, with or without the characters that are hidden in it.
var hostileSecrets = []struct {
	name, text, core string
}{
	{"token", "ghp" + "_%s", "4eC39HqLyjWDarjtT1zdp7dcQx8Zk2"},
	{"token behind NUL", "ghp" + "_%s", "4eC39HqLyj\x00WDarjtT1zdp7dcQx8Zk2"},
	{"token with a zero-width space", "ghp" + "_%s", "4eC39\u200bHqLyjWDarjtT1zdp7dcQx8Zk2"},
	{"token with a byte order mark", "ghp" + "_%s", "4eC39HqLyjWDarj\ufefftT1zdp7dcQx8Zk2"},
	{"token with a soft hyphen", "ghp" + "_%s", "4eC39HqLy\u00adjWDarjtT1zdp7dcQx8Zk2"},
	{"token that runs backward", "ghp" + "_%s", "4eC39Hq\u202eLyjWDarjtT1zd\u202cp7dcQx8Zk2"},
	{"hidden inside the anchor", "gh\u2060p" + "_%s", "4eC39HqLyjWDarjtT1zdp7dcQx8Zk2"},
	{"password", "password=%s", "Zx81kPq09LmN22vB"},
	{"password with a joiner", "pass\u200dword=%s", "Zx81kPq0\u200d9LmN22vB"},
	{"password in a URL", "postgres://bob:%s@db.example/x", "Zx81kPq09LmN22vB"},
	{"private key over lines", "-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA4eC39HqLyjWD"},
}

// TestSecretsAmongHostileText has a conversation in which every message is a
// hostile shape with a secret before, inside and behind it, and a model that
// repeats them: no secret gets into the request, the checkpoint or what is
// stored, and the shapes are harmless as if there were none.
func TestSecretsAmongHostileText(t *testing.T) {
	redactor, err := summarize.NewRedactor()
	require.NoError(t, err)
	for i, shape := range summarize.HostileShapes(t) {
		for j, c := range hostileSecrets {
			if os.Getenv("AGENTCOMPACT_FULL") != "1" && (i+j)%3 > 0 {
				continue
			}
			t.Run(shape.ID+"/"+c.name, func(t *testing.T) {
				core := summarize.Unveiled(c.core)
				secret := fmt.Sprintf(c.text, c.core)
				mid := len(shape.Text) / 2
				for !utf8.RuneStart(shape.Text[mid]) {
					mid++
				}
				texts := []string{
					secret + " " + shape.Text,
					shape.Text[:mid] + " " + secret + " " + shape.Text[mid:],
					shape.Text + "\n" + secret,
				}
				s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
				require.NoError(t, err)
				defer s.Close()
				var messages []session.Message
				for i, text := range texts {
					id := fmt.Sprintf("c%d", i)
					args, err := json.Marshal(map[string]string{"path": "src/a.go", "text": text})
					require.NoError(t, err)
					result := session.ToolText(id, "Error: cannot open src/a.go: "+text)
					messages = append(messages, session.UserText("Look at "+text), session.AssistantText("I see "+text, session.ToolCall{ID: id, Name: "write_file", Arguments: string(args)}), result)
				}
				messages = append(messages, session.AssistantText(strings.Repeat("It is done and was looked at. ", 400)), session.UserText("Go on."), session.AssistantText("Well."))
				_, err = s.Append(t.Context(), messages...)
				require.NoError(t, err)

				said := strings.Join(texts, "\n")
				if strings.Contains(shape.Text, "<invoke name") {
					said = secret // the guard refuses the shape itself
				}
				srv := summarizetest.New(t, summarizetest.Text("The user asked to look at this:\n"+said))
				llm, err := summarize.NewLLM(summarize.LLMOptions{BaseURL: srv.URL(), APIKey: "key", Model: "scribe", Redactor: redactor})
				require.NoError(t, err)
				e, err := engine.New(llm, &engine.Options{
					Windows: engine.FixedWindow(s.View().SurfaceTokens()), Redactor: redactor,
					Run: summarize.RunOptions{Attempts: 1, Guard: &summarize.GuardOptions{NoSections: true, NoFloor: true, KeepInvented: true}},
				})
				require.NoError(t, err)
				r, err := e.CompactNow(t.Context(), compact.Agent{Session: s}, nil)
				require.NoError(t, err)
				require.Positive(t, r.Redacted)

				require.Len(t, srv.Requests(), 1)
				chat, err := srv.Requests()[0].Chat()
				require.NoError(t, err)
				require.Len(t, chat.Messages, 2)
				requireSecret(t, chat.Messages[0].Text, core)
				asked := chat.Messages[1].Text
				requireSecret(t, asked, core)
				_, data, _ := strings.Cut(asked, summarize.FenceOpen)
				data, rest, _ := strings.Cut(data, summarize.FenceClose)
				require.Contains(t, data, "[redacted:")
				require.NotContains(t, rest, summarize.FenceClose)
				summarize.RequireHarmless(t, data)

				requireSecret(t, storedSummary(t, s, r), core)
				for i := range s.View().Len() {
					m, err := s.View().Message(i)
					require.NoError(t, err)
					if m.Source.Plugin == "compact" {
						requireSecret(t, m.Text(), core)
						require.Contains(t, m.Text(), "[redacted:")
						text := m.Text()
						at := strings.LastIndex(text, "\n[history: ")
						require.Positive(t, at)
						pointer, _, _ := strings.Cut(text[at+1:], "\n")
						summarize.RequireFramed(t, text, pointer)
						return
					}
				}
				t.Fatal("no checkpoint")
			})
		}
	}
}

// requireSecret checks that no part of a secret stands in a text, however it is
// broken up.
func requireSecret(t *testing.T, text, core string) {
	t.Helper()
	for _, seen := range []string{text, summarize.Unveiled(text)} {
		for i := 0; i+8 <= len(core); i++ {
			if at := strings.Index(seen, core[i:i+8]); at >= 0 {
				require.Fail(t, "a secret is seen", "%q", seen[max(0, at-80):min(len(seen), at+80)])
			}
		}
	}
}
