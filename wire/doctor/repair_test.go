package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// requireSound checks that no repair is left to do: a request of what was
// repaired needs no made-up results, no notes, no other ids and no other order.
func requireSound(t testing.TB, r *Repaired, f *wire.File) {
	t.Helper()
	for _, n := range r.Left {
		switch n.Kind {
		case NotAnObject, DuplicateUUID, BadArguments, WrongUsage, HiddenOrphan, HiddenUnanswered, ResultWithoutID:
		default:
			t.Errorf("left: %s (message %d, line %d): %s", n.Kind, n.Message, n.Line, n.Detail)
		}
	}
	for _, c := range f.Conversations {
		s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
		require.NoError(t, err)
		_, err = wire.Import(t.Context(), s, c)
		require.NoError(t, err)
		req, err := openaichat.BuildRequest(s.View(), nil)
		require.NoError(t, err)
		require.Empty(t, openaichat.Validate(req.Body()))
		require.Empty(t, req.Report.Synthetic)
		require.Empty(t, req.Report.Quoted)
		require.Empty(t, req.Report.Moved)
		require.NoError(t, s.Close())
	}
}

const lines = `{"role":"user","content":"go"}
{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]}
{"role":"tool","tool_call_id":"1","content":"one"}
{"role":"user","content":"next"}
`

func kinds(list []Change) (out []Kind) {
	for _, c := range list {
		out = append(out, c.Kind)
	}
	return out
}

func TestRepair(t *testing.T) {
	call := func(ids ...string) string {
		var list []string
		for _, id := range ids {
			list = append(list, `{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}`)
		}
		return `{"role":"assistant","content":"x","tool_calls":[` + strings.Join(list, ",") + "]}\n"
	}
	result := func(id string) string {
		return `{"role":"tool","tool_call_id":"` + id + `","content":"r` + id + "\"}\n"
	}
	user := "{\"role\":\"user\",\"content\":\"u\"}\n"
	for name, c := range map[string]struct {
		data string
		opts Options
		want []Kind
		in   []string // what the new file holds
		not  []string
	}{
		"sound":           {user + call("1") + result("1"), Options{}, nil, nil, nil},
		"one of two":      {lines, Options{}, []Kind{UnansweredCall}, []string{`"tool_call_id":"2"`, "interrupted"}, nil},
		"running":         {user + call("1"), Options{}, nil, nil, nil},
		"running, closed": {user + call("1"), Options{CloseRunning: true}, []Kind{RunningCall}, []string{`"tool_call_id":"1"`}, nil},
		"orphan":          {user + result("9") + user, Options{}, []Kind{OrphanResult}, []string{"quoted as data", "> r9"}, []string{"tool_call_id"}},
		"orphan, dropped": {user + result("9") + user, Options{DropOrphans: true}, []Kind{OrphanResult}, nil, []string{"r9"}},
		"answered twice":  {user + call("1") + result("1") + result("1"), Options{}, []Kind{DuplicateResult}, []string{"> r1"}, nil},
		"result first":    {user + result("1") + call("1") + user, Options{}, []Kind{ResultFirst, UnansweredCall}, []string{"> r1", "interrupted"}, nil},
		"same id in one":  {user + call("1", "1") + result("1") + result("1"), Options{}, []Kind{DuplicateCallID, DuplicateCallID}, []string{`"id":"1_2"`, `"tool_call_id":"1_2"`}, nil},
		"same id later":   {user + call("1") + result("1") + call("1") + result("1"), Options{}, nil, nil, nil},
		"same id, unique": {user + call("1") + result("1") + call("1") + result("1"), Options{UniqueIDs: true}, []Kind{CallIDReused, CallIDReused}, []string{`"tool_call_id":"1_2"`}, nil},
		"no id":           {user + call("") + result(""), Options{}, []Kind{CallWithoutID, ResultWithoutID}, []string{`"id":"call_2"`, `"tool_call_id":"call_2"`}, nil},
		"late":            {user + call("1") + user + result("1"), Options{}, []Kind{LateResult}, []string{"]}\n" + result("1") + user}, nil},
		"not UTF-8":       {user + "{\"role\":\"user\",\"content\":\"a\xffb\"}\n", Options{}, []Kind{InvalidUTF8}, []string{"a\uFFFDb"}, nil},
		"half a pair":     {user + `{"role":"user","content":"a\ud83db"}` + "\n", Options{}, []Kind{HalfSurrogate}, []string{`a\ufffdb`}, nil},
		"torn":            {user + call("1") + result("1") + `{"role":"us`, Options{}, []Kind{TornRecord}, nil, []string{"\n{\"role\":\"us"}},
		"bad line":        {user + "what\n" + user, Options{}, nil, []string{"what"}, nil},
		"bad line, taken": {user + "what\n" + user, Options{DropBadLines: true}, []Kind{BadLine}, nil, []string{"what"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, after := fixed(t, []byte(c.data), c.opts)
			require.Equal(t, c.want, kinds(r.Changes))
			for _, s := range c.in {
				require.Contains(t, string(content(t, r)), s)
			}
			for _, s := range c.not {
				require.NotContains(t, string(content(t, r)), s)
			}
			if c.want == nil {
				require.Equal(t, c.data, string(content(t, r)))
				return
			}
			requireSound(t, r, after)
			for _, ch := range r.Changes {
				require.NotEmpty(t, ch.Detail)
				require.Positive(t, ch.Line)
			}
		})
	}
}

// The model's first word and system messages in between are named, the one where
// it is refused.
func TestOrder(t *testing.T) {
	data := []byte(`{"model":"claude-m","max_tokens":5,"messages":[{"role":"assistant","content":"hello"},{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"y"}]}]}`)
	f, err := codecOf(t, data).Read(t.Context(), data)
	require.NoError(t, err)
	list, err := Diagnose(t.Context(), source(data), f)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, ModelFirst, list[0].Kind)
	r, _ := fixed(t, data, Options{})
	require.Equal(t, []Kind{ModelFirst}, kinds(r.Changes))
	require.Empty(t, anthropicmessages.Validate(content(t, r)))

	data = []byte(`[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"system","content":"mind"},{"role":"user","content":"c"}]`)
	f, err = codecOf(t, data).Read(t.Context(), data)
	require.NoError(t, err)
	list, err = Diagnose(t.Context(), source(data), f)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, SystemBetween, list[0].Kind)
	require.True(t, list[0].Normal)
}

// What an option decides is named.
func TestLeft(t *testing.T) {
	r, _ := fixed(t, []byte(lines[:strings.Index(lines, "\n")+1]+strings.Split(lines, "\n")[1]+"\n"), Options{})
	require.Len(t, r.Left, 2)
	require.Equal(t, "--close-running", Decides(r.Left[0].Kind))
	require.Empty(t, Decides(OrphanResult))
}

// Arguments that are not JSON stay until an option decides; what they said is kept.
func TestWrapArguments(t *testing.T) {
	bad := strings.Replace(lines, `"arguments":"{}"`, `"arguments":"{\"path\": a.go"`, 1)
	codec := codecOf(t, []byte(bad))
	r, err := Repair(t.Context(), codec, source([]byte(bad)), &Options{})
	require.NoError(t, err)
	require.Len(t, r.Left, 1)
	require.Equal(t, BadArguments, r.Left[0].Kind)
	require.Equal(t, "--wrap-arguments", Decides(BadArguments))
	r, err = Repair(t.Context(), codec, source([]byte(bad)), &Options{WrapArguments: true})
	require.NoError(t, err)
	require.Empty(t, r.Left)
	require.Contains(t, kinds(r.Changes), BadArguments)
	out := string(content(t, r))
	require.Contains(t, out, `{\"input\":\"{\\\"path\\\": a.go\"}`)
	require.NotContains(t, out, `"arguments":"{\"path`)
}
