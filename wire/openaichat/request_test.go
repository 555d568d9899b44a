package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
)

// open makes a session of a conversation.
func open(t testing.TB, c *wire.Conversation) *session.Session {
	t.Helper()
	s, err := session.Open(context.Background(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	_, err = wire.Import(context.Background(), s, c)
	require.NoError(t, err)
	return s
}

// chat makes a session of a JSON array of messages.
func chat(t testing.TB, messages string) *session.Session {
	t.Helper()
	f, err := Codec{}.Read(context.Background(), []byte(messages))
	require.NoError(t, err)
	return open(t, f.Conversations[0])
}

// sent builds a request, checks it, and returns its messages in short:
// role, calls, what it answers and its text.
func sent(t testing.TB, s *session.Session, opts *RequestOptions) ([]string, *Request) {
	t.Helper()
	r, err := BuildRequest(s.View(), opts)
	require.NoError(t, err)
	checks := Checks{UniqueIDs: true}
	if opts != nil {
		checks.ModelCall, checks.StrictAlternation = opts.ModelCall, opts.StrictAlternation
	}
	require.Empty(t, ValidateWith(r.Body(), checks), "%s", r.Body())
	var out []string
	for _, raw := range r.Messages {
		out = append(out, short(raw))
	}
	var body struct{ Messages []json.RawMessage }
	require.NoError(t, json.Unmarshal(r.Body(), &body))
	require.Equal(t, r.Messages, body.Messages)
	return out, r
}

func short(raw json.RawMessage) string {
	var m struct {
		Role    string
		Content any
		ID      string                `json:"tool_call_id"`
		Calls   []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return err.Error()
	}
	s := m.Role
	for _, c := range m.Calls {
		s += " +" + c.ID
	}
	if m.ID != "" {
		s += " =" + m.ID
	}
	switch c := m.Content.(type) {
	case nil:
	case string:
		s += ": " + c
	default:
		j, _ := json.Marshal(c)
		s += ": " + string(j)
	}
	return s
}

func TestRequestRules(t *testing.T) {
	call := func(id string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}`
	}
	for _, tt := range []struct {
		name string
		in   string
		opts *RequestOptions
		want []string
	}{
		{"abandoned calls get a result each, before what comes next",
			`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[` + call("t1") + `,` + call("t2") + `]},{"role":"user","content":"and?"}]`, nil,
			[]string{"user: q", "assistant +t1 +t2", "tool =t1: " + abandonedText, "tool =t2: " + abandonedText, "user: and?"}},
		{"so does a call at the end",
			`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[` + call("t1") + `]}]`, nil,
			[]string{"user: q", "assistant +t1", "tool =t1: " + abandonedText}},
		{"one of three is answered",
			`[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[` + call("a1") + `,` + call("a2") + `,` + call("a3") + `]},{"role":"tool","tool_call_id":"a2","content":"two"},{"role":"user","content":"stop"}]`, nil,
			[]string{"user: q", "assistant +a1 +a2 +a3", "tool =a1: " + abandonedText, "tool =a2: two", "tool =a3: " + abandonedText, "user: stop"}},
		{"results in call order, what stands between comes after",
			`[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[` + call("p1") + `,` + call("p2") + `]},{"role":"tool","tool_call_id":"p2","content":"2"},{"role":"user","content":"hey"},{"role":"tool","tool_call_id":"p1","content":"1"}]`, nil,
			[]string{"user: q", "assistant +p1 +p2: ", "tool =p1: 1", "tool =p2: 2", "user: hey"}},
		{"an id used again gets another name on both sides",
			`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[` + call("c") + `]},{"role":"tool","tool_call_id":"c","content":"a up"},{"role":"assistant","content":null,"tool_calls":[` + call("c") + `]},{"role":"tool","tool_call_id":"c","content":"b down"}]`, nil,
			[]string{"user: q", "assistant +c", "tool =c: a up", "assistant +c_2", "tool =c_2: b down"}},
		{"one id twice in a message",
			`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[` + call("todo:1") + `,` + call("todo:1") + `]},{"role":"tool","tool_call_id":"todo:1","content":"3 saved"},{"role":"tool","tool_call_id":"todo:1","content":"aborted"}]`, nil,
			[]string{"user: q", "assistant +todo:1 +todo:1_2", "tool =todo:1: 3 saved", "tool =todo:1_2: aborted"}},
		{"an orphan becomes a quoted note",
			`[{"role":"user","content":"q"},{"role":"tool","tool_call_id":"c2","content":"edited\nok"},{"role":"assistant","content":"done"}]`, nil,
			[]string{"user: q", "user: [Result of a tool whose call does not stand before it in this conversation, quoted as data (call id \"c2\"):]\n> edited\n> ok", "assistant: done"}},
		{"a second result becomes one too",
			`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[` + call("c") + `]},{"role":"tool","tool_call_id":"c","content":"1"},{"role":"tool","tool_call_id":"c","content":"2"}]`, nil,
			[]string{"user: q", "assistant +c", "tool =c: 1", "user: [Result of a tool whose call has a result already, quoted as data (call id \"c\"):]\n> 2"}},
		{"a system message in the middle is a framed note",
			`[{"role":"system","content":"S"},{"role":"user","content":"q"},{"role":"assistant","content":"ok"},{"role":"system","content":"disk full"},{"role":"user","content":"next"}]`, nil,
			[]string{"system: S", "user: q", "assistant: ok", "user: " + noteText + "\ndisk full", "user: next"}},
		{"a note between call and result comes after the result",
			`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[` + call("c") + `]},{"role":"developer","content":"hurry"},{"role":"tool","tool_call_id":"c","content":"1"}]`, nil,
			[]string{"user: q", "assistant +c", "tool =c: 1", "user: " + noteText + "\nhurry"}},
		{"an assistant first gets a user before it",
			`[{"role":"system","content":"S"},{"role":"assistant","content":"hello"},{"role":"user","content":"q"}]`, nil,
			[]string{"system: S", "user: " + openText, "assistant: hello", "user: q"}},
		{"only system messages", `[{"role":"system","content":"S"}]`, nil, []string{"system: S", "user: " + openText}},
		{"a model call does not follow an assistant",
			`[{"role":"user","content":"q"},{"role":"assistant","content":"50 of 60"}]`, &RequestOptions{ModelCall: true},
			[]string{"user: q", "assistant: 50 of 60", "user: " + closeText}},
		{"without one it may",
			`[{"role":"user","content":"q"},{"role":"assistant","content":"50 of 60"}]`, nil,
			[]string{"user: q", "assistant: 50 of 60"}},
		{"empty messages go, empty results stay",
			`[{"role":"user","content":""},{"role":"user","content":"q"},{"role":"assistant","content":"","reasoning_content":"hm"},{"role":"assistant","content":null,"tool_calls":[` + call("c") + `]},{"role":"tool","tool_call_id":"c","content":""},{"role":"user","content":[]}]`, nil,
			[]string{"user: q", "assistant +c", "tool =c: "}},
		{"strict alternation merges",
			`[{"role":"system","content":"S"},{"role":"developer","content":"D"},{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"assistant","content":null,"tool_calls":[` + call("c") + `]},{"role":"tool","tool_call_id":"c","content":"r"},{"role":"user","content":"x"},{"role":"system","content":"n"}]`,
			&RequestOptions{StrictAlternation: true},
			[]string{"system: S", "developer: D", `user: [{"text":"a","type":"text"},{"text":"b","type":"text"}]`, "assistant +c: c", "tool =c: r", "user: x\n\n" + noteText + "\nn"}},
		{"the old single-call form becomes the new one",
			`[{"role":"user","content":"q"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r2"}]`, nil,
			[]string{"user: q", "assistant +function:f", "tool =function:f: r", "assistant +function:f_2", "tool =function:f_2: r2"}},
		{"ids that no provider takes",
			`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[` + call("") + `,` + call("a b") + `,` + call(strings.Repeat("x", 41)) + `]},{"role":"tool","tool_call_id":"a b","content":"r"}]`, nil,
			[]string{"user: q", "assistant +call_e3b0c44298fc1c14 +call_c8687a08aa5d6ed2 +call_3164596df4fdd018", "tool =call_e3b0c44298fc1c14: " + abandonedText, "tool =call_c8687a08aa5d6ed2: r", "tool =call_3164596df4fdd018: " + abandonedText}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := sent(t, chat(t, tt.in), tt.opts)
			assert.Equal(t, tt.want, got)
		})
	}
}

// A call that the host knows to be running is answered as such.
func TestRequestRunningCall(t *testing.T) {
	s := chat(t, `[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"and?"}]`)
	node := s.View().Node(1).Seq
	_, err := s.Record(context.Background(), session.CallState{Node: node, CallID: "c", Phase: session.CallRunning})
	require.NoError(t, err)
	got, r := sent(t, s, nil)
	assert.Equal(t, "tool =c: "+runningText, got[2])
	assert.True(t, r.Report.Synthetic[0].Running)
	_, err = s.Append(context.Background(), session.ToolText("c", "done"))
	require.NoError(t, err)
	got, r = sent(t, s, nil)
	assert.Equal(t, []string{"user: q", "assistant +c", "tool =c: done", "user: and?"}, got)
	assert.Equal(t, []int{3}, r.Report.Moved)
}

func TestRequestReport(t *testing.T) {
	s := chat(t, `[{"role":"system","content":"S"},{"role":"user","content":"q"},
	 {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
	 {"role":"user","content":"wait"},{"role":"tool","tool_call_id":"c","content":"r"},{"role":"tool","tool_call_id":"zz","content":"orphan"},{"role":"user","content":""},{"role":"system","content":"n"},{"role":"assistant","content":"x"}]`)
	_, r := sent(t, s, &RequestOptions{ModelCall: true})
	assert.Equal(t, Report{
		Synthetic: []Synthetic{{1, "c", "c_2", false}},
		Renamed:   []Renamed{{1, 1, "c", "c_2"}},
		Quoted:    []Quoted{{4, "zz", toolpairing.OrphanResult, 0}},
		Notes:     []int{6}, Moved: []int{3}, Dropped: []int{5}, Closed: true,
	}, r.Report)
}

// Null, an empty string and text stay what they are; every message has the key;
// what only the container knows is left out and what the provider knows stays.
func TestRequestContent(t *testing.T) {
	call := `"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
	for in, want := range map[string]string{
		`{"role":"assistant","content":null,` + call + `}`: `"content":null`,
		`{"role":"assistant","content":"",` + call + `}`:   `"content":""`,
		`{"role":"assistant",` + call + `}`:                `"content":null`,
		`{"role":"assistant","content":"é\u00e9",` + call + `,"reasoning_content":"think","extra":{"a":1},"agent":"main","thought":"t","action":"a","function_call":null,"id":"msg_1"}`: `"content":"é\u00e9"`,
	} {
		_, r := sent(t, chat(t, `[{"role":"user","content":"q"},`+in+`]`), nil)
		raw := string(r.Messages[1])
		assert.Contains(t, raw, want)
		for _, k := range []string{"extra", "agent", "thought", `"action"`, "function_call", "index"} {
			assert.NotContains(t, raw, k)
		}
		assert.Equal(t, strings.Contains(in, "reasoning"), strings.Contains(raw, `"reasoning_content":"think"`))
		assert.Equal(t, strings.Contains(in, "reasoning"), strings.Contains(raw, `"id":"msg_1"`), "an item id goes with its reasoning only")
	}
}

func TestRequestEnvelope(t *testing.T) {
	s := chat(t, `{"model":"m","temperature":0.5,"messages":[{"role":"system","content":"S"},{"role":"user","content":"q"}],"tool_choice":"auto","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`)
	_, r := sent(t, s, nil)
	assert.JSONEq(t, `{"model":"m","temperature":0.5,"messages":[{"role":"system","content":"S"},{"role":"user","content":"q"}],"tool_choice":"auto","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`, string(r.Body()))
	_, r = sent(t, s, &RequestOptions{Model: "other"})
	assert.Contains(t, string(r.Body()), `{"model":"other"`)
	// Without tools a tool choice would be refused.
	_, r = sent(t, chat(t, `{"messages":[{"role":"user","content":"q"}],"tool_choice":"auto"}`), nil)
	assert.Equal(t, `{"messages":[{"role":"user","content":"q"}]}`, string(r.Body()))
}

func TestRequestCheckpoint(t *testing.T) {
	for _, role := range []session.Role{session.RoleUser, session.RoleAssistant, session.RoleSystem} {
		r, err := RequestFrom(nil, []*session.Message{
			ptr(session.UserText("q")),
			{Role: role, Parts: []session.Part{session.Text{Text: "summary"}}, Source: compact.CheckpointSource("c1")},
		}, nil)
		require.NoError(t, err)
		require.Empty(t, Validate(r.Body()))
		assert.Equal(t, "user: summary", short(r.Messages[1]))
	}
}

func ptr(m session.Message) *session.Message { return &m }

// A pruned result goes out as it is now, although its record is kept.
func TestRequestChangedMessage(t *testing.T) {
	s := chat(t, `[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"long","extra":{"raw_output":"long"}}]`)
	v := s.View()
	m, err := v.Message(2)
	require.NoError(t, err)
	c := m.Clone()
	c.Source = session.Source{Kind: session.SourcePlugin, Plugin: compact.Plugin, Form: compact.FormPruned}
	c.Parts = []session.Part{session.ToolResult{CallID: "c", Parts: []session.Part{session.Text{Text: "short"}}}}
	seq := v.Node(2).Seq
	_, err = s.Record(context.Background(), session.Replace{Start: seq, End: seq, Message: *c})
	require.NoError(t, err)
	got, _ := sent(t, s, nil)
	assert.Equal(t, "tool =c: short", got[2])
}

// A message of another provider goes out as what a chat can hold of it.
func TestRequestForeign(t *testing.T) {
	origin := &session.Origin{Format: "other", Raw: json.RawMessage(`{}`)}
	msgs := []*session.Message{
		ptr(session.UserText("q")),
		{Role: session.RoleAssistant, ID: "m1", Origin: origin, Source: session.Source{Kind: session.SourceModel},
			Extra: map[string]json.RawMessage{"stop": json.RawMessage(`1`)},
			Parts: []session.Part{session.Reasoning{Text: "hm", Signature: "s"}, session.Opaque{Kind: "x", Raw: json.RawMessage(`{"type":"x"}`)},
				session.ToolCall{ID: "t", Name: "f", Arguments: `{"a":1}`, Raw: json.RawMessage(`{"type":"tool_use","id":"t","input":{"a":1}}`)}}},
		{Role: session.RoleTool, Origin: origin, Source: session.Source{Kind: session.SourceTool},
			Parts: []session.Part{session.ToolResult{CallID: "t", Parts: []session.Part{session.Text{Text: "r"}, session.Image{URL: "data:image/png;base64,AA"}}}}},
	}
	r, err := RequestFrom(nil, msgs, nil)
	require.NoError(t, err)
	require.Empty(t, Validate(r.Body()))
	assert.Equal(t, `{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`, strip(r.Messages[1]))
	assert.Equal(t, "tool =t: r", short(r.Messages[2]))
	assert.Contains(t, string(r.Messages[3]), `"image_url":{"url":"data:image/png;base64,AA"}`)
	assert.Equal(t, []Unsent{{1, "reasoning"}, {1, "x"}}, r.Report.Unsent)
}

// strip puts the fields of a message into one order.
func strip(raw json.RawMessage) string {
	o, _ := parseObject(raw)
	out := object{}
	for _, k := range []string{"role", "content"} {
		out = append(out, member{k, o.get(k)})
		o.drop(k)
	}
	for i, m := range o {
		if m.key == "tool_calls" {
			list, _ := elements(m.val)
			for j, c := range list {
				co, _ := parseObject(c)
				fo, _ := parseObject(co.get("function"))
				list[j] = object{{"id", co.get("id")}, {"type", co.get("type")}, {"function", object{{"name", fo.get("name")}, {"arguments", fo.get("arguments")}}.json()}}.json()
			}
			o[i].val = array(list)
		}
	}
	return string(append(out, o...).json())
}

func TestRequestMaxBytes(t *testing.T) {
	img := func(text string, n int) string {
		return `{"role":"user","content":[{"type":"text","text":"` + text + `"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", n) + `"}}]}`
	}
	s := chat(t, `[`+img("floor 1", 9000)+`,{"role":"assistant","content":"Seen."},`+img("floor 2", 9000)+`,{"role":"assistant","content":"Seen."},{"role":"user","content":"lift?"}]`)
	_, whole := sent(t, s, nil)
	_, r := sent(t, s, &RequestOptions{MaxBytes: 12000})
	assert.LessOrEqual(t, len(r.Body()), 12000)
	assert.Equal(t, `user: [{"text":"floor 1","type":"text"},{"text":"`+leftOutText+`","type":"text"}]`, short(r.Messages[0]))
	require.True(t, bytes.Equal(rest(whole), rest(r)), "the newest is kept")
	require.Len(t, r.Report.LeftOut, 1)
	assert.Equal(t, 0, r.Report.LeftOut[0].Position)
	assert.Zero(t, r.Report.OverBytes)
	_, again := sent(t, s, nil)
	require.True(t, bytes.Equal(whole.Body(), again.Body()), "the surface is unchanged")
	// The size is known to the byte.
	_, r = sent(t, s, &RequestOptions{MaxBytes: len(whole.Body())})
	require.True(t, bytes.Equal(whole.Body(), r.Body()))
	_, r = sent(t, s, &RequestOptions{MaxBytes: 100})
	assert.Len(t, r.Report.LeftOut, 2)
	assert.Equal(t, len(r.Body())-100, r.Report.OverBytes)
}

func rest(r *Request) []byte { return bytes.Join(rawBytes(r.Messages[1:]), nil) }

func TestRequestUTF8(t *testing.T) {
	s := chat(t, "[{\"role\":\"user\",\"content\":\"a\xff\xfeb \\ud83d c \\ud83d\\ude00 \\\\ud83d\"}]")
	_, err := s.Append(context.Background(), session.UserText("bin: \xff\xfeA end"))
	require.NoError(t, err)
	got, r := sent(t, s, nil)
	assert.True(t, utf8.Valid(r.Body()))
	assert.Equal(t, "user: a\uFFFDb \uFFFD c 😀 \\ud83d", got[0])
	assert.Equal(t, "user: bin: \uFFFD\uFFFDA end", got[1])
	m, err := s.View().Message(1)
	require.NoError(t, err)
	assert.Equal(t, "bin: \xff\xfeA end", m.Text(), "the surface is unchanged")
}

func TestRequestNoteIsCapped(t *testing.T) {
	s := chat(t, `[{"role":"user","content":"q"},{"role":"tool","tool_call_id":"b7","content":"`+strings.Repeat("ä\\n", 9000)+`"}]`)
	got, r := sent(t, s, &RequestOptions{MaxNote: 999})
	assert.Less(t, len(got[1]), 3500)
	assert.Contains(t, got[1], "bytes left out]")
	assert.Greater(t, r.Report.Quoted[0].Omitted, 20000)
	for line := range strings.Lines(strings.TrimPrefix(got[1], "user: ")) {
		assert.True(t, strings.HasPrefix(line, "> ") || strings.HasPrefix(line, "["), "%q", line)
	}
}

// The request of every recorded session is valid, built twice it is the same,
// and at every length it begins with the messages of the shorter ones.
func TestCorpusRequest(t *testing.T) {
	corpus(t, func(t *testing.T, _ testdata.Session, _ []byte, f *wire.File) {
		for _, c := range f.Conversations {
			for _, opts := range []*RequestOptions{{ModelCall: true}, {StrictAlternation: true}} {
				s := open(t, c)
				_, r := sent(t, s, opts)
				again, err := BuildRequest(s.View(), opts)
				require.NoError(t, err)
				require.Equal(t, r, again)
				for _, k := range containerFields {
					for _, m := range r.Messages {
						o, _ := parseObject(m)
						require.Nil(t, o.get(k), k)
					}
				}
			}
			prefixes(t, c)
		}
	})
}

func prefixes(t *testing.T, c *wire.Conversation) {
	t.Helper()
	ctx := context.Background()
	s := open(t, &wire.Conversation{Envelope: c.Envelope})
	var before []json.RawMessage
	for i := range c.Entries {
		_, err := s.Append(ctx, c.Entries[i].Message)
		require.NoError(t, err)
		if i%7 != 0 && i < len(c.Entries)-1 {
			continue
		}
		if i+1 < len(c.Entries) && c.Entries[i+1].Message.Role == session.RoleTool {
			continue // nobody asks the model before its results are in
		}
		r, err := BuildRequest(s.View(), nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(r.Messages), len(before))
		for k := range before {
			require.Equal(t, string(before[k]), string(r.Messages[k]), "message %d at length %d", k, i)
		}
		before = r.Messages
	}
}

// An id that is used again and again costs no more each time.
func TestRequestReusedIDs(t *testing.T) {
	a := &assembler{ids: make(map[string]int)}
	seen := make(map[string]bool)
	start := time.Now()
	for range 200_000 { // trying every number from 2 on would take minutes
		id := a.wireID("c")
		require.False(t, seen[id])
		require.True(t, validID(id))
		seen[id] = true
	}
	assert.Less(t, time.Since(start), 20*time.Second)
}

// Of two attachments in one message the first gives way; of two fields of one
// name the last counts.
func TestRequestOddMessages(t *testing.T) {
	img := func(c string) string {
		return `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat(c, 3000) + `"}}`
	}
	s := chat(t, `[{"role":"user","content":[`+img("A")+`,`+img("B")+`]},{"role":"user","content":"x","content":"y"}]`)
	_, r := sent(t, s, &RequestOptions{MaxBytes: 4000})
	require.Len(t, r.Report.LeftOut, 1)
	assert.NotContains(t, string(r.Body()), "AAAA")
	assert.Contains(t, string(r.Body()), "BBBB")
	assert.Equal(t, `{"role":"user","content":"y"}`, string(r.Messages[1]))
}
