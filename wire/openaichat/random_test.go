package openaichat

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

var (
	drawID   = rapid.SampledFrom([]string{"a", "b", "a_2", "c:1", "", "no good", "\xff", "0123456789012345678901234567890123456789x"})
	drawText = rapid.SampledFrom([]string{"", "x", "two\nlines", "bin \xff\xfe", "🧪", "</note>"})
)

// drawParts draws content that a message of any role may have.
func drawParts(t *rapid.T) []session.Part {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) session.Part {
		switch rapid.IntRange(0, 9).Draw(t, "part") {
		case 0:
			return session.Image{URL: "data:image/png;base64," + fmt.Sprint(rapid.IntRange(0, 1<<40).Draw(t, "data"))}
		case 1:
			return session.Opaque{Kind: "x", Raw: json.RawMessage(rapid.SampledFrom([]string{`{"type":"x"}`, `7`, `nonsense`, ``}).Draw(t, "raw"))}
		case 2:
			return session.File{Name: drawText.Draw(t, "file"), Raw: json.RawMessage(`{"type":"file","file":{"file_data":"data:x;base64,AAAA"}}`)}
		}
		return session.Text{Text: drawText.Draw(t, "text")}
	}), 0, 3).Draw(t, "parts")
}

// drawMessage draws a message without regard to what came before it: pairing is
// broken in every way.
func drawMessage(t *rapid.T) session.Message {
	m := session.Message{Parts: drawParts(t), Source: session.Source{Kind: session.SourceUser}}
	m.Role = rapid.SampledFrom([]session.Role{session.RoleUser, session.RoleAssistant, session.RoleAssistant,
		session.RoleTool, session.RoleTool, session.RoleSystem, session.RoleDeveloper}).Draw(t, "role")
	m.Name = rapid.SampledFrom([]string{"", "ann", "no good"}).Draw(t, "name")
	switch m.Role {
	case session.RoleAssistant:
		m.Source.Kind = session.SourceModel
		if rapid.Bool().Draw(t, "thinks") {
			m.Parts = append(m.Parts, session.Reasoning{Text: drawText.Draw(t, "thought")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			m.Parts = append(m.Parts, session.ToolCall{ID: drawID.Draw(t, "call"), Name: drawText.Draw(t, "tool"),
				Arguments: drawText.Draw(t, "arguments"), Custom: rapid.Bool().Draw(t, "custom"),
				Raw: json.RawMessage(rapid.SampledFrom([]string{``, `{"function":{}}`, `{"id":7,"function":{"name":"f","arguments":{}}}`, `[`}).Draw(t, "raw"))})
		}
	case session.RoleTool:
		m.Source.Kind = session.SourceTool
		for range rapid.IntRange(1, 3).Draw(t, "results") {
			m.Parts = append(m.Parts, session.ToolResult{CallID: drawID.Draw(t, "of"), Name: m.Name, Parts: drawParts(t)})
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "checkpoint") == 0 {
		m.Source = compact.CheckpointSource("c")
	}
	if rapid.IntRange(0, 3).Draw(t, "recorded") == 0 {
		if recs := encode(&m, shape{}); len(recs) == 1 {
			if p, err := ParseMessage(recs[0].json()); err == nil && p.Validate() == nil {
				return p
			}
		}
	}
	return m
}

// Whatever is on the surface, its request is valid, the same when it is built
// again, and begins like that of the surface without the last messages.
func TestRequestRandom(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		s, err := session.Open(ctx, session.NewMemoryStore(), nil)
		require.NoError(t, err)
		defer s.Close()
		for range rapid.IntRange(0, 12).Draw(t, "messages") {
			_, err := s.Append(ctx, drawMessage(t))
			require.NoError(t, err)
		}
		opts := &RequestOptions{ModelCall: rapid.Bool().Draw(t, "call"), StrictAlternation: rapid.Bool().Draw(t, "strict"),
			MaxBytes: rapid.SampledFrom([]int{0, 100, 1000}).Draw(t, "max"), MaxNote: rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "note")}
		r, err := BuildRequest(s.View(), opts)
		require.NoError(t, err)
		checks := Checks{ModelCall: opts.ModelCall, StrictAlternation: opts.StrictAlternation, UniqueIDs: true}
		require.Empty(t, ValidateWith(r.Body(), checks), "%s", r.Body())
		again, err := BuildRequest(s.View(), opts)
		require.NoError(t, err)
		require.Equal(t, r, again)
		if opts.MaxBytes > 0 && r.Report.OverBytes == 0 {
			require.LessOrEqual(t, len(r.Body()), opts.MaxBytes)
		}
		messages, err := s.View().Messages()
		require.NoError(t, err)
		plain, err := RequestFrom(nil, messages, opts)
		require.NoError(t, err)
		require.Equal(t, string(r.Body()), string(plain.Body()))
	})
}

// An answered call keeps its result, a call without one gets exactly one, and
// no text of the surface is lost as long as it is short.
func TestRequestKeepsPairs(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		s, err := session.Open(ctx, session.NewMemoryStore(), nil)
		require.NoError(t, err)
		defer s.Close()
		var texts []string
		n := 0
		unique := func() string { n++; texts = append(texts, fmt.Sprintf("text-%d.", n)); return texts[n-1] }
		open := map[string]int{}
		calls, answered, orphans := 0, 0, 0
		for range rapid.IntRange(1, 20).Draw(t, "messages") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				_, err = s.Append(ctx, session.UserText(unique()))
			case 1:
				var list []session.ToolCall
				for range rapid.IntRange(0, 3).Draw(t, "calls") {
					id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
					open[id]++
					calls++
					list = append(list, session.ToolCall{ID: id, Name: "f"})
				}
				_, err = s.Append(ctx, session.AssistantText(unique(), list...))
			default:
				id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "of")
				if open[id] > 0 {
					open[id]--
					answered++
				} else {
					orphans++
				}
				_, err = s.Append(ctx, session.ToolText(id, unique()))
			}
			require.NoError(t, err)
		}
		r, err := BuildRequest(s.View(), nil)
		require.NoError(t, err)
		require.Empty(t, ValidateWith(r.Body(), Checks{UniqueIDs: true}))
		require.Len(t, r.Report.Synthetic, calls-answered)
		require.Len(t, r.Report.Quoted, orphans)
		for _, text := range texts {
			require.Contains(t, string(r.Body()), text)
		}
	})
}

// An append that answers no open call leaves the messages before it alone.
func TestRequestPrefix(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		s, err := session.Open(ctx, session.NewMemoryStore(), nil)
		require.NoError(t, err)
		defer s.Close()
		var before []json.RawMessage
		seen := map[string]bool{}
		for range rapid.IntRange(1, 10).Draw(t, "messages") {
			m := drawMessage(t)
			stable := true
			for _, id := range m.Results() {
				stable = stable && !seen[id]
			}
			for _, id := range m.Calls() {
				seen[id] = true
			}
			_, err := s.Append(ctx, m)
			require.NoError(t, err)
			r, err := BuildRequest(s.View(), nil)
			require.NoError(t, err)
			if stable && before != nil && !isOpener(before) {
				require.GreaterOrEqual(t, len(r.Messages), len(before))
				for k := range before {
					require.Equal(t, string(before[k]), string(r.Messages[k]))
				}
			}
			before = r.Messages
		}
	})
}

// isOpener reports whether the request has nothing but system messages and the
// opener, which gives way to a first user message.
func isOpener(messages []json.RawMessage) bool {
	return short(messages[len(messages)-1]) == "user: "+openText
}

// Reading what was written gives what was written, whatever was taken out and
// put in; records that are no entries stay.
func TestWriteRandom(t *testing.T) {
	ctx := context.Background()
	files := map[string]string{
		"array":      "[\n {\"role\":\"system\",\"content\":\"S\"},\n {\"role\":\"user\",\"content\":\"0\"}, {\"role\":\"assistant\",\"content\":\"1\"},\n {\"role\":\"exit\",\"content\":\"X\"},\n {\"role\":\"user\",\"content\":\"2\"}\n]\n",
		"lines":      "{\"role\":\"system\",\"content\":\"S\"}\n\n{\"role\":\"user\",\"content\":\"0\"}{\"role\":\"assistant\",\"content\":\"1\"}\n\"junk\"\n{\"role\":\"user\",\"content\":\"2\"}\n{\"role\":\"us",
		"body":       `{"model":"m","messages":[{"role":"user","content":"0"},{"role":"assistant","content":"1"},{"role":"user","content":"2"}],"x":1}`,
		"swe-agent":  `{"trajectory":[],"history":[{"role":"user","content":"0","agent":"main","message_type":"observation"},{"role":"assistant","content":"1","agent":"main","message_type":"action","thought":"1","action":"ls"},{"role":"user","content":"2","agent":"main","message_type":"observation"}]}`,
		"two bodies": "{\"messages\":[{\"role\":\"user\",\"content\":\"other\"}]}\n{\"messages\":[{\"role\":\"user\",\"content\":\"0\"},{\"role\":\"assistant\",\"content\":\"1\"},{\"role\":\"user\",\"content\":\"2\"}]}",
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			f, err := Codec{}.Read(ctx, []byte(file))
			require.NoError(t, err)
			k := len(f.Conversations) - 1
			rapid.Check(t, func(t *rapid.T) {
				var items []wire.Item
				var want []string
				add := func() {
					if rapid.Bool().Draw(t, "add") {
						m := session.UserText("new")
						items = append(items, wire.Item{Entry: -1, Message: &m})
						want = append(want, "new")
					}
				}
				add()
				for i := range 3 {
					switch rapid.IntRange(0, 2).Draw(t, "entry") {
					case 0:
						continue
					case 1:
						items = append(items, wire.Item{Entry: i})
						want = append(want, fmt.Sprint(i))
					case 2:
						m := f.Conversations[k].Entries[i].Message.Clone()
						m.Parts, m.Origin = []session.Part{session.Text{Text: "changed"}}, nil
						items = append(items, wire.Item{Entry: i, Message: m})
						want = append(want, "changed")
					}
					add()
				}
				if len(want) == 0 {
					return
				}
				out := writeTo(t, f, k, items)
				g, err := Codec{}.Read(ctx, out)
				require.NoError(t, err, "%s", out)
				require.Equal(t, f.Container, g.Container)
				require.Equal(t, len(f.Notes), len(g.Notes), "%s", out)
				require.Len(t, g.Conversations, len(f.Conversations))
				var got []string
				for _, e := range g.Conversations[k].Entries {
					got = append(got, e.Message.Text())
				}
				require.Equal(t, want, got, "%s", out)
				require.Len(t, g.Conversations[k].Envelope.System, len(f.Conversations[k].Envelope.System))
			})
		})
	}
}
