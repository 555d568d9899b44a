package detect_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/detect"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/session"
)

func dump(d *detect.Detector) string { return detect.DumpState(d) }

// example is how a family's requests look, and texts that are near misses.
type example struct {
	Request struct {
		System   string
		Messages []struct{ Role, Text string }
	}
	Response string
	Next     struct{ Messages []struct{ Role, Text string } }

	NearRequest []string `json:"near_request"`
	NearNext    []string `json:"near_next"`
}

func fixture(t *testing.T, id string) example {
	t.Helper()
	b, err := os.ReadFile("testdata/examples.json")
	require.NoError(t, err)
	var all map[string]example
	require.NoError(t, json.Unmarshal(b, &all))
	e, ok := all[id]
	require.True(t, ok, "%s has no examples", id)
	return e
}

func messagesOf(list []struct{ Role, Text string }) []*session.Message {
	var out []*session.Message
	for _, m := range list {
		if m.Role == "assistant" {
			out = append(out, model(m.Text))
		} else {
			out = append(out, user(m.Text))
		}
	}
	return out
}

func (e example) request(branch, trace string) detect.Request {
	q := ask(branch, trace, messagesOf(e.Request.Messages)...)
	if e.Request.System != "" {
		q.System = []*session.Message{system(e.Request.System)}
	}
	return q
}

func (e example) next(branch, trace string, more ...*session.Message) detect.Request {
	return ask(branch, trace, append(messagesOf(e.Next.Messages), more...)...)
}

// TestL4401StartRules and the rows about completion: each signature by its
// examples, on each of its sides, with near misses.
func TestL4401StartRules(t *testing.T) {
	for _, s := range detect.Signatures() {
		t.Run(s.ID, func(t *testing.T) {
			e := fixture(t, s.ID)
			_, err := time.Parse(time.DateOnly, s.Date)
			require.NoError(t, err)
			require.Regexp(t, `\.v\d+$`, s.ID)
			if len(s.Request) > 0 {
				w := newWorld(t, nil)
				w.open(ask("a", "1", long(12)...))
				require.Equal(t, []string{"started " + s.ID}, w.open(e.request("a", "2")))
				require.Equal(t, lifecycle.EvidenceSignatureStrict, w.all[0].Event.Evidence)
				w.end()
				// The same text where no agent puts it.
				q := e.request("a", "1")
				last := len(q.Messages) - 1
				text := q.Messages[last].Text()
				for name, m := range map[string]*session.Message{"result": result("x", text), "reply": model(text), "quoted": user("> " + text)} {
					if name == "quoted" && len(s.Request[len(s.Request)-1].Prefix) == 0 {
						continue // the system prompt tells
					}
					q.Messages[last] = m
					require.Empty(t, newWorld(t, nil).open(q), name)
				}
				q = e.request("a", "1")
				q.Messages = with(q.Messages, model("fine"), user("go on"))
				require.Empty(t, newWorld(t, nil).open(q), "in the middle")
				require.NotEmpty(t, e.NearRequest)
				for _, near := range e.NearRequest {
					require.Empty(t, newWorld(t, nil).open(ask("a", "1", with(long(3), user(near))...)), near)
				}
			}
			if len(s.Response) > 0 {
				for _, mark := range s.Response {
					require.Contains(t, e.Response, mark)
				}
			}
		})
	}
}

func TestL4405Installed(t *testing.T) {
	for _, s := range detect.Signatures() {
		if len(s.Next) == 0 {
			continue
		}
		t.Run(s.ID, func(t *testing.T) {
			e, list := fixture(t, s.ID), long(12)
			rule := s.ID
			if s.Shared {
				rule = "claude_code.compaction.v1"
			}
			// Seen in the next request, once, with and without the start.
			w := newWorld(t, nil)
			w.open(ask("a", "1", list...))
			require.Equal(t, []string{"completed " + rule}, w.open(e.next("a", "2")))
			require.Empty(t, w.open(e.next("a", "3", model("ok"), user("go on"))))
			w.end()
			if len(s.Request) > 0 {
				w = newWorld(t, nil)
				w.open(ask("a", "1", list...))
				w.open(e.request("a", "2"))
				w.release(detect.Response{Meta: meta("a", "2"), Text: e.Response + "x", Done: true, Finish: "stop"})
				require.Equal(t, []string{"completed " + s.ID}, w.open(e.next("a", "3")))
				require.Equal(t, w.all[0].Event.TransactionID, w.all[1].Event.TransactionID)
				w.end()
			}
			// A history that is seen for the first time.
			got := newWorld(t, nil).open(e.next("a", "1", user("go on")))
			found, ok := detect.Installed(e.next("", "", user("go on")).Messages, nil)
			if s.Rewrite {
				require.Empty(t, got)
				require.False(t, ok)
			} else {
				require.Equal(t, []string{"completed " + rule}, got)
				require.True(t, ok)
				require.Equal(t, rule, found.Signature.ID)
			}
			require.NotEmpty(t, e.NearNext)
			for _, near := range e.NearNext {
				w := newWorld(t, nil)
				w.open(ask("a", "1", long(3)...))
				require.Empty(t, w.open(ask("a", "2", user(near), model("Ok."), user("go on"), model("x"))), near)
				_, ok := detect.Installed([]*session.Message{user(near)}, nil)
				require.False(t, ok, near)
			}
		})
	}
}

// TestOwnCheckpoint: what we wrote ourselves is no event, whatever it says.
func TestOwnCheckpoint(t *testing.T) {
	m := *user(codexDone)
	m.Source = session.Source{Kind: session.SourcePlugin, Plugin: "compact", Ref: "c-1"}
	require.Empty(t, newWorld(t, nil).open(ask("a", "1", &m, user("go on"))))
	_, ok := detect.Installed([]*session.Message{&m}, nil)
	require.False(t, ok)
}

// TestSignatureData: what cannot work is refused, and named.
func TestSignatureData(t *testing.T) {
	for want, data := range map[string]string{
		"read signatures": `[{"id":"a","extra":1}]`,
		"are required":    `[{"id":"a.v1","family":"f"}]`,
		"neither":         `[{"id":"a.v1","family":"f","source":"s","date":"2026-01-01"}]`,
		"cannot look at":  `[{"id":"a.v1","family":"f","source":"s","date":"2026-01-01","request":[{"at":"head","prefix":["x"]}]}]`,
		"empty mark":      `[{"id":"a.v1","family":"f","source":"s","date":"2026-01-01","request":[{"at":"last","prefix":[" "]}]}]`,
		"no mark":         `[{"id":"a.v1","family":"f","source":"s","date":"2026-01-01","request":[{"at":"last","role":"user"}]}]`,
		"taken":           `[{"id":"protocol.context_compaction.v1","family":"f","source":"s","date":"2026-01-01"}]`,
		"second": `[{"id":"a.v1","family":"f","source":"s","date":"2026-01-01","request":[{"at":"last","prefix":["x"]}]},
			{"id":"a.v1","family":"f","source":"s","date":"2026-01-01","request":[{"at":"last","prefix":["x"]}]}]`,
	} {
		_, err := detect.ParseSignatures([]byte(data))
		require.ErrorContains(t, err, want)
	}
	own, err := detect.ParseSignatures([]byte(`[{"id":"mine.v1","family":"mine","source":"me","date":"2026-01-01","request":[{"at":"last","prefix":["SUMMARIZE NOW"]}]}]`))
	require.NoError(t, err)
	w := newWorld(t, func(o *detect.Options) { o.Signatures = append(own, detect.Signatures()...) })
	require.Equal(t, []string{"started mine.v1"}, w.open(ask("a", "1", user("SUMMARIZE NOW"))))
	w = newWorld(t, nil)
	require.Empty(t, w.open(ask("a", "1", user("SUMMARIZE NOW"))))
}

// TestL4412Window: no more is kept of a summary than a mark could span.
func TestL4412Window(t *testing.T) {
	w := newWorld(t, nil)
	e := fixture(t, "claude_code.compaction.v1")
	w.open(e.request("a", "1"))
	for range 20 {
		w.release(detect.Response{Meta: meta("a", "1"), Text: strings.Repeat("no mark ", 512)})
		require.Less(t, len(w.d.Window("a")), 64)
		require.NotEmpty(t, w.d.Window("a"))
	}
	w.release(detect.Response{Meta: meta("a", "1"), Text: "end", Done: true, Finish: "stop"})
	require.Empty(t, w.d.Window("a"))
	w.end()
}
