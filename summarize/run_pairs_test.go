package summarize_test

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/internal/requesttest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/summarize/summarizetest"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/agentcompact/agentcompact/wire/gemini"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
)

var update = flag.Bool("update", false, "write the golden files of the tests anew")

// pairNote is a summary that is faithful to any conversation.
const pairNote = `## Goal
Do what the user asked at the beginning of the conversation, in the way that was agreed.
## State
The work has begun and is under way; what was found so far is in the record.
## Done
The first steps were taken and looked at.
## Failures
none
## Decisions
none
## Next
Go on with the step that comes next.`

const planted = "ghp_PLANTED9aBcDeFgHiJkLmNoPqRsTuVwXyZ01"

// pairs are the sessions whose pair of requests is kept. own asks the agent's own
// model, secret plants a token in the span.
var pairs = []struct {
	path        string
	next        string // the format of the agent's requests
	own, secret bool
	// mended says that the agent's request is not the recorded messages: calls of
	// two turns have the same id. It is not replayed.
	mended   bool
	noStream bool
}{
	{path: "anthropic-messages/from-claude-code-b.json", next: anthropicmessages.Format, own: true},
	{path: "claude-code/image-screenshot.jsonl", next: anthropicmessages.Format, own: true},
	{path: "claude-code/nonlatin-summaries.jsonl", next: anthropicmessages.Format},
	{path: "claude-code/microcompact-and-compact.jsonl", next: anthropicmessages.Format, noStream: true},
	{path: "codex/rollout-medium.jsonl", next: openairesponses.Format, own: true},
	{path: "gemini/contents-51-parallel.json", next: gemini.Format, own: true},
	{path: "gemini/session-tools-mixed-status.json", next: gemini.Format},
	{path: "openai-chat/mini-swe-cjk-tool-output.traj.json", next: openaichat.Format, own: true, noStream: true},
	{path: "openai-chat/swe-agent-function-calling.traj", next: openaichat.Format, own: true, mended: true},
	{path: "openai-chat/tau-bench-airline-10.json", next: openaichat.Format, secret: true},
	{path: "openai-responses/from-codex-long.json", next: openairesponses.Format},
	{path: "other/deepseek-harness-chinese-goal.jsonl", next: openaichat.Format, own: true, secret: true},
}

// TestPairsOfRealSessions compacts recorded sessions with the language-model
// summarizer and keeps what was sent: the request of the summary and the agent's
// next request, one item a line. Run it with -update to write the files anew.
func TestPairsOfRealSessions(t *testing.T) {
	var kinds []string
	for _, p := range pairs {
		t.Run(p.path, func(t *testing.T) {
			f := readSession(t, p.path)
			if !slices.Contains(kinds, f.Format) {
				kinds = append(kinds, f.Format)
			}
			s, agent := hosted(t, f.Conversations[0], p.secret)
			before := nextRequest(t, p.next, s.View())

			srv := summarizetest.New(t, summarizetest.Text(pairNote))
			redactor, err := summarize.NewRedactor()
			require.NoError(t, err)
			o := summarize.LLMOptions{BaseURL: srv.URL(), APIKey: "key", Model: "scribe", NoStream: p.noStream, Redactor: redactor}
			if p.own {
				o.Provider, o.Model = agent.Provider, agent.Model
			}
			llm, err := summarize.NewLLM(o)
			require.NoError(t, err)
			e, err := engine.New(llm, &engine.Options{
				Windows: engine.FixedWindow(s.View().SurfaceTokens()),
				Now:     func() time.Time { return time.Unix(1_700_000_000, 0) }, NewID: func() string { return "c1" },
			})
			require.NoError(t, err)
			agentView := chatOf(t, openChat(t, s.View()))
			r, err := e.CompactNow(t.Context(), agent, nil)
			require.NoError(t, err)
			require.Len(t, srv.Requests(), 1)
			body := srv.Requests()[0].Body
			after := nextRequest(t, p.next, s.View())

			requireSummaryRequest(t, body, agentView, p.own && !p.mended && !p.secret)
			require.Equal(t, p.own && p.secret, r.CacheLost, "redaction wins, and the loss is told")
			requesttest.Session(t, s.View())
			requireSecretsOut(t, s, p.secret, r, body, after)

			got := render(t, body)
			next := render(t, after)
			at := slices.IndexFunc(next, func(l string) bool { return strings.Contains(l, " checkpoint [checkpoint ") })
			require.GreaterOrEqual(t, at, 0, "the checkpoint is in the next request")
			requireSubsequence(t, render(t, before), next[at+1:])
			head := fmt.Sprintf("calls %d, secrets %d, cache lost %v, replaced %d, kept %d", len(r.Calls), r.Redacted, r.CacheLost, len(r.Seqs), len(r.Kept))
			requireGolden(t, p.path, slices.Concat([]string{head, "", "# the request of the summary"}, got, []string{"", "# the next request, " + p.next}, next))
		})
	}
	require.GreaterOrEqual(t, len(kinds), 6, "formats: %v", kinds)
}

func readSession(t *testing.T, path string) *wire.File {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testdata.Root(), "sessions", filepath.FromSlash(path)))
	require.NoError(t, err)
	f, err := formats.Read(t.Context(), data)
	require.NoError(t, err)
	return f
}

// hosted imports a conversation as its host would hold it: files seldom have the
// tools and the system text, the host has.
func hosted(t *testing.T, c *wire.Conversation, secret bool) (*session.Session, compact.Agent) {
	t.Helper()
	e := &c.Envelope
	if e.Provider == "" {
		e.Provider = "acme"
	}
	if e.Model == "" {
		e.Model = "agent"
	}
	if len(e.System) == 0 {
		m := session.UserText("You are an agent that works for the user.")
		m.Role, m.Source = session.RoleSystem, session.Source{Kind: session.SourcePlugin, Plugin: "host"}
		e.System = []session.Message{m}
	}
	names := map[string]bool{}
	for i := range c.Entries {
		for _, p := range c.Entries[i].Message.Parts {
			if call, ok := p.(session.ToolCall); ok {
				names[call.Name] = true
			}
		}
	}
	for _, tool := range e.Tools {
		delete(names, tool.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		e.Tools = append(e.Tools, session.Tool{Name: name, Description: "A tool of the host."})
	}
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	if secret {
		c.Entries = append([]wire.Entry{{Message: session.UserText("Use the token " + planted + " for the mirror.")}}, c.Entries...)
	}
	_, err = wire.Import(t.Context(), s, c)
	require.NoError(t, err)
	return s, compact.Agent{Session: s, Provider: e.Provider, Model: e.Model}
}

// nextRequest is the body of the request that the agent makes next.
func nextRequest(t *testing.T, format string, v session.View) []byte {
	t.Helper()
	switch format {
	case anthropicmessages.Format:
		r, err := anthropicmessages.BuildRequest(v, &anthropicmessages.RequestOptions{ModelCall: true})
		require.NoError(t, err)
		return r.Body
	case openairesponses.Format:
		r, err := openairesponses.BuildRequest(v, &openairesponses.RequestOptions{ModelCall: true})
		require.NoError(t, err)
		return r.Body
	case gemini.Format:
		r, err := gemini.BuildRequest(v, &gemini.RequestOptions{ModelCall: true})
		require.NoError(t, err)
		return r.Body
	}
	return openChat(t, v)
}

func openChat(t *testing.T, v session.View) []byte {
	t.Helper()
	r, err := openaichat.BuildRequest(v, &openaichat.RequestOptions{ModelCall: true})
	require.NoError(t, err)
	return r.Body()
}

func chatOf(t *testing.T, body []byte) summarizetest.Chat {
	t.Helper()
	var c summarizetest.Chat
	require.NoError(t, json.Unmarshal(body, &c))
	return c
}

// requireSummaryRequest checks what every request of a summary has to be. agent
// is the agent's own request before it.
func requireSummaryRequest(t *testing.T, body []byte, agent summarizetest.Chat, replayed bool) {
	t.Helper()
	requesttest.Chat(t, body)
	c := chatOf(t, body)
	last := c.Messages[len(c.Messages)-1]
	require.Equal(t, "user", last.Role)
	require.Contains(t, last.Text, "Now write the note for the conversation above. Use at most ", "the instruction comes last")
	var raw struct {
		ToolChoice any `json:"tool_choice"`
	}
	require.NoError(t, json.Unmarshal(body, &raw))
	if !replayed {
		require.Len(t, c.Messages, 2, "rules and transcript")
		require.Equal(t, "system", c.Messages[0].Role)
		require.Empty(t, c.Tools)
		require.Nil(t, raw.ToolChoice)
		require.Contains(t, last.Text, summarize.FenceOpen)
		return
	}
	require.Equal(t, "none", raw.ToolChoice)
	require.Equal(t, names(t, agent.Tools), names(t, c.Tools), "the tools in their order")
	require.NotContains(t, last.Text, summarize.FenceOpen, "nothing is rendered")
	replay := c.Messages[:len(c.Messages)-1]
	require.Greater(t, len(agent.Messages), len(replay))
	for i, m := range replay {
		want := agent.Messages[i]
		if strings.HasPrefix(string(want.Content), "[") {
			break // pictures are named, which changes what is behind them
		}
		require.Equal(t, want.Role, m.Role, "message %d", i)
		require.Equal(t, want.ToolCallID, m.ToolCallID, "message %d", i)
		require.Equal(t, want.ToolCalls, m.ToolCalls, "message %d", i)
		require.Equal(t, want.Text, m.Text, "message %d", i)
	}
}

func names(t *testing.T, tools []json.RawMessage) (out []string) {
	t.Helper()
	for _, raw := range tools {
		var tool struct{ Function struct{ Name string } }
		require.NoError(t, json.Unmarshal(raw, &tool))
		out = append(out, tool.Function.Name)
	}
	return out
}

// requireSecretsOut checks that a planted secret left neither for the summarizer
// nor into the checkpoint, and that the log has it.
func requireSecretsOut(t *testing.T, s *session.Session, secret bool, r *compact.Result, bodies ...[]byte) {
	t.Helper()
	if !secret {
		return
	}
	require.Positive(t, r.Redacted)
	for _, b := range bodies {
		require.NotContains(t, string(b), planted)
		require.Contains(t, string(b), "[redacted:")
	}
	ev, err := s.View().Event(r.Seqs[0])
	require.NoError(t, err)
	m, err := ev.Message()
	require.NoError(t, err)
	require.Contains(t, m.Text(), planted, "the log keeps what was said")
	require.NotContains(t, storedSummary(t, s, r), planted)
}

// storedSummary is what the log keeps of a summary, as JSON.
func storedSummary(t testing.TB, s *session.Session, r *compact.Result) string {
	t.Helper()
	sum, err := s.View().Event(r.Summary)
	require.NoError(t, err)
	payload, err := compact.Decode(sum)
	require.NoError(t, err)
	stored, err := json.Marshal(payload)
	require.NoError(t, err)
	return string(stored)
}

// secondUse marks an id that was used before; uses that are gone do not count.
var secondUse = regexp.MustCompile(`_\d+ `)

// requireSubsequence checks that what stays is what was there.
func requireSubsequence(t *testing.T, before, after []string) {
	t.Helper()
	require.NotEmpty(t, after, "a tail stays")
	for _, l := range after {
		i := slices.IndexFunc(before, func(b string) bool {
			return b == l || secondUse.ReplaceAllString(b, " ") == secondUse.ReplaceAllString(l, " ")
		})
		require.GreaterOrEqual(t, i, 0, "not in the request before: %s", l)
		before = before[i+1:]
	}
}

// render writes a request of any provider one item a line: role, kind, ids,
// tokens, how its text begins, and a hash of the rest. Of a checkpoint only the
// frame is shown: what it quotes is for other tests.
func render(t *testing.T, body []byte) []string {
	t.Helper()
	var o map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &o))
	var out []string
	list := func(raw json.RawMessage) (items []map[string]any) {
		if len(raw) > 0 {
			require.NoError(t, json.Unmarshal(raw, &items))
		}
		return items
	}
	tools := list(o["tools"])
	var items []map[string]any
	for _, key := range []string{"messages", "input", "contents"} {
		items = append(items, list(o[key])...)
		delete(o, key)
	}
	delete(o, "tools")
	for _, key := range slices.Sorted(maps.Keys(o)) {
		out = append(out, "setting "+key+" "+brief(string(o[key])))
	}
	for _, tool := range tools {
		out = append(out, "tool "+brief(encode(t, tool)))
	}
	for _, it := range items {
		role, _ := it["role"].(string)
		outer := idsOf(it)
		for _, p := range partsOf(it) {
			kind, text := kindOf(t, p)
			line := strings.TrimSpace(strings.Join([]string{cmpOr(role, "-"), kind, strings.Join(slices.Compact(append(slices.Clone(outer), idsOf(p)...)), " ")}, " "))
			if strings.HasPrefix(text, "[checkpoint ") {
				out = append(out, line+" checkpoint "+frameOf(t, text))
				continue
			}
			out = append(out, line+" "+brief(text))
		}
	}
	return out
}

func cmpOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// partsOf takes an item apart: parts of its content and calls.
func partsOf(it map[string]any) (parts []map[string]any) {
	add := func(v any) {
		switch v := v.(type) {
		case string:
			if v != "" {
				parts = append(parts, map[string]any{"type": "text", "text": v})
			}
		case []any:
			for _, p := range v {
				if m, ok := p.(map[string]any); ok {
					parts = append(parts, m)
				}
			}
		}
	}
	for _, key := range []string{"content", "parts", "tool_calls"} {
		add(it[key])
	}
	if len(parts) == 0 {
		parts = append(parts, it)
	}
	return parts
}

var idKeys = []string{"id", "call_id", "tool_call_id", "tool_use_id"}

func idsOf(it map[string]any) (out []string) {
	for _, key := range idKeys {
		if id, ok := it[key].(string); ok && id != "" {
			out = append(out, id)
		}
	}
	return out
}

// kindOf names a part and returns its text, or all of it as JSON.
func kindOf(t *testing.T, p map[string]any) (kind, text string) {
	kind, _ = p["type"].(string)
	text, plain := p["text"].(string)
	if kind == "" {
		kind = "text"
		for _, key := range slices.Sorted(maps.Keys(p)) {
			if key != "text" && key != "role" && key != "thoughtSignature" {
				kind = key
			}
		}
	}
	if plain {
		return kind, text
	}
	rest := maps.Clone(p)
	for _, key := range append([]string{"type", "role"}, idKeys...) {
		delete(rest, key)
	}
	return kind, encode(t, rest)
}

func encode(t *testing.T, v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return strings.TrimSpace(b.String())
}

// brief is the size of a text, its first hundred characters, and a hash of the
// others.
func brief(s string) string {
	const most = 100
	n := (len(s) + 3) / 4
	if utf8.RuneCountInString(s) <= most {
		return fmt.Sprintf("%d %q", n, s)
	}
	runes := []rune(s)
	rest := sha256.Sum256([]byte(string(runes[most:])))
	return fmt.Sprintf("%d %q %x", n, string(runes[:most]), rest[:6])
}

// frameOf is what a checkpoint has around its quotes: the opening line, the
// narrative's headings, the pointer, the closing line, without the marks.
func frameOf(t *testing.T, text string) string {
	t.Helper()
	lines := strings.Split(text, "\n")
	mark := text[len("[checkpoint "):][:6]
	require.Equal(t, "[end of checkpoint "+mark+"]", lines[len(lines)-1])
	shown := []string{lines[0]}
	for _, l := range lines[1:] {
		if strings.HasPrefix(l, "## ") || strings.HasPrefix(l, "[history: ") {
			shown = append(shown, l)
		}
	}
	return strings.ReplaceAll(strings.Join(append(shown, lines[len(lines)-1]), " | "), mark, "······")
}

// requireGolden compares lines with a file and says which one differs first.
func requireGolden(t *testing.T, name string, got []string) {
	t.Helper()
	path := filepath.Join(testdata.Root(), "summarize", "pairs", strings.ReplaceAll(name, "/", "-")+".txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(got, "\n")+"\n"), 0o644))
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update to write it")
	want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := range max(len(want), len(got)) {
		w, g := "(the end)", "(the end)"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Fatalf("%s:%d differs; if that is meant, run with -update\nwant %s\ngot  %s", filepath.Base(path), i+1, w, g)
		}
	}
}
