package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
)

func TestPruningPolicy(t *testing.T) {
	// mixed has results of three tools, oldest first, and a tail.
	mixed := func(t *testing.T, change func(*engine.Options)) *rig {
		r := newRig(t, 0, change)
		r.append(session.UserText("look at everything"))
		for i := range 12 {
			id := fmt.Sprint("c", i)
			tool := []string{"read", "grep", "plan"}[i%3]
			r.append(session.AssistantText("", session.ToolCall{ID: id, Name: tool, Arguments: "{}"}), session.ToolText(id, fill(700, tool)))
		}
		r.append(session.AssistantText("I see."))
		return r
	}
	toolsOf := func(r *rig, list []compact.Pruned) (out []string) {
		for _, p := range list {
			ev, err := r.s.View().Event(p.Node - 1)
			require.NoError(r, err)
			m, err := ev.Message()
			require.NoError(r, err)
			out = append(out, m.Parts[len(m.Parts)-1].(session.ToolCall).Name)
		}
		return out
	}
	t.Run("oldest first, and only as many as it takes", func(t *testing.T) {
		r := mixed(t, pruning)
		o := r.consider(compact.Pressure)
		require.Nil(t, o.Result)
		require.NotEmpty(t, o.Pruned)
		assert.Less(t, len(o.Pruned), 6)
		for i, p := range o.Pruned {
			assert.Equal(t, session.Seq(2+2*i), p.Node)
			assert.Less(t, p.After, p.Before)
			m, err := r.s.View().Message(2 + 2*i)
			require.NoError(t, err)
			assert.Regexp(t, `^\[\d+ bytes left out; history: 1 message, event \d+\]$`, m.Text(), "it is masked entirely")
		}
		assert.Less(t, o.After, 8_000*86/100)
		assert.Zero(t, r.st.calls)
	})
	t.Run("never and first", func(t *testing.T) {
		r := mixed(t, func(o *engine.Options) {
			pruning(o)
			o.Prune.Never, o.Prune.First = []string{"read"}, []string{"plan"}
		})
		o := r.consider(compact.Pressure)
		require.Nil(t, o.Result)
		tools := toolsOf(r, o.Pruned)
		assert.NotContains(t, tools, "read")
		assert.Equal(t, "plan", tools[0])
	})
	t.Run("pins", func(t *testing.T) {
		r := mixed(t, pruning)
		r.record(session.Pin{Nodes: []session.Seq{2}})
		for _, p := range r.consider(compact.Pressure).Pruned {
			assert.NotEqual(t, session.Seq(2), p.Node)
		}
	})
	t.Run("a secret at the cut", func(t *testing.T) {
		var key strings.Builder
		for i := range 120 {
			fmt.Fprintf(&key, "MIIE%dpAIBAAKCAQEA7bq4eC39HqLyjWDarjtT1zdp7dcQx8ZkZx81kPq09LmN22\n", 100+i)
		}
		pem := "-----BEGIN RSA PRIVATE KEY-----\n" + key.String() + "-----END RSA PRIVATE KEY-----\n"
		r := newRig(t, 0, func(o *engine.Options) {
			pruning(o)
			o.Prune.OversizedTokens, o.Prune.HeadTokens, o.Prune.TailTokens = 600, 150, 150
		})
		r.append(session.UserText("look at the key"))
		for i := range 5 {
			id := fmt.Sprint("c", i)
			r.append(session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: "{}"}), session.ToolText(id, fill(300, "begin")+"\n"+pem+fill(20, "end")))
		}
		r.append(session.AssistantText("I see."))
		require.NotEmpty(t, r.consider(compact.Pressure).Pruned)
		m, err := r.s.View().Message(2)
		require.NoError(t, err)
		require.Equal(t, compact.FormPruned, m.Source.Form)
		require.Contains(t, m.Text(), "begin", "it keeps head and tail")
		require.NotContains(t, m.Text(), "pAIBAAKCAQEA")
		res, err := r.e.CompactNow(t.Context(), r.agent, nil)
		require.NoError(t, err)
		require.Positive(t, res.Redacted)
		sum, err := r.s.View().Event(res.Summary)
		require.NoError(t, err)
		payload, err := compact.Decode(sum)
		require.NoError(t, err)
		stored, err := json.Marshal(payload)
		require.NoError(t, err)
		require.NotContains(t, string(stored), "pAIBAAKCAQEA", "the facts come from the messages as they were")
	})
	t.Run("protects the newest within a budget", func(t *testing.T) {
		r := mixed(t, func(o *engine.Options) { o.Prune = engine.Prune{ProtectTokens: 7_800} })
		o := r.consider(compact.Pressure)
		require.NotNil(t, o.Result, "what may be pruned is not enough")
		v := r.s.View()
		for i := range v.Len() {
			assert.Empty(t, v.Node(i).Source().Form)
		}
	})
	t.Run("never what is smaller already", func(t *testing.T) {
		r := newRig(t, 0, pruning)
		for i := range 10 {
			r.pair(fmt.Sprint("c", i), 8) // a pointer would be longer
		}
		for i := range 12 {
			r.pair(fmt.Sprint("d", i), 700)
		}
		r.append(session.UserText("and?"))
		o := r.consider(compact.Pressure)
		require.NotEmpty(t, o.Pruned)
		for _, p := range o.Pruned {
			assert.Greater(t, p.Before, 600, "event %d was replaced", p.Node)
			assert.Less(t, p.After, p.Before)
		}
	})
	t.Run("cap at every check", func(t *testing.T) {
		r := newRig(t, 0, func(o *engine.Options) { o.Prune = engine.Prune{}; o.Policy.ResultCap = 400 })
		r.pair("c", 2_000)
		o := r.consider(compact.Pressure)
		require.Len(t, o.Pruned, 1)
		assert.LessOrEqual(t, o.Pruned[0].After, 400)
		assert.Equal(t, compact.BelowThreshold, o.Code)
		m, err := r.s.View().Message(1)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(m.Text(), "out out"), "the head stays")
		assert.True(t, strings.HasSuffix(strings.TrimSpace(m.Text()), "out"), "and the tail")
	})
	t.Run("twice is shortened from the original", func(t *testing.T) {
		r := newRig(t, 0, func(o *engine.Options) { o.Prune = engine.Prune{ProtectTokens: 1}; o.Policy.ResultCap = 600 })
		r.append(session.UserText("look"))
		for i := range 20 {
			r.pair(fmt.Sprint("c", i), 1_000)
			_ = r.consider(compact.Pressure)
		}
		twice := 0
		for i := range r.s.View().Len() {
			m, err := r.s.View().Message(i)
			require.NoError(t, err)
			if m.Source.Form != compact.FormPruned {
				continue
			}
			assert.Equal(t, 1, strings.Count(m.Text(), "left out"))
			p := compact.ParsePointers(m.Text())
			require.Len(t, p, 1)
			ev, err := r.s.View().Event(p[0].Start)
			require.NoError(t, err)
			orig, err := ev.Message()
			require.NoError(t, err)
			assert.Empty(t, orig.Source.Form, "the pointer leads to the original")
			if r.s.View().ShadowedBy(p[0].Start) != r.s.View().Node(i).Seq {
				twice++
			}
		}
		assert.Positive(t, twice)
	})
}

func TestOffloadAtAppend(t *testing.T) {
	var stored []string
	var fail error
	r := newRig(t, 1, func(o *engine.Options) {
		o.Prune = engine.Prune{Offload: []string{"read"}}
		o.Offload = func(_ context.Context, id string, text []byte) (string, error) {
			stored = append(stored, string(text))
			return "out/" + id + ".txt", fail
		}
		o.NewID = func() string { return fmt.Sprint("id", len(stored)) }
	})
	call := func(id, tool string) session.Message {
		return session.AssistantText("", session.ToolCall{ID: id, Name: tool, Arguments: "{}"})
	}
	big := fill(5_000, "line")
	seqs, err := r.e.Append(t.Context(), r.agent, call("a", "read"), session.ToolText("a", big), session.UserText("and?"))
	require.NoError(t, err)
	require.Len(t, seqs, 3)
	assert.Equal(t, []string{big}, stored)
	v := r.s.View()
	for i, q := range seqs {
		p, err := v.Position(q)
		require.NoError(t, err)
		assert.Equal(t, v.Len()-3+i, p)
	}
	m, err := v.Message(v.Len() - 2)
	require.NoError(t, err)
	assert.Contains(t, m.Text(), "full text: out/id0.txt]")
	assert.Less(t, int(v.Node(v.Len()-2).Tokens), 1_500)
	ev, err := v.Event(5)
	require.NoError(t, err)
	orig, err := ev.Message()
	require.NoError(t, err)
	assert.Equal(t, big, orig.Text(), "the log has all of it")

	// The call may be on the surface already; other tools and small results
	// stay; a store that fails costs nothing but the file.
	r.append(call("b", "read"), call("c", "grep"))
	seqs, err = r.e.Append(t.Context(), r.agent, session.ToolText("b", big), session.ToolText("c", big))
	require.NoError(t, err)
	assert.Len(t, stored, 2)
	assert.Greater(t, seqs[0], seqs[1])
	fail = errors.New("disk full")
	r.append(call("d", "read"))
	seqs, err = r.e.Append(t.Context(), r.agent, session.ToolText("d", big))
	require.NoError(t, err)
	p, err := r.s.View().Position(seqs[0])
	require.NoError(t, err)
	assert.Equal(t, 5_000, int(r.s.View().Node(p).Tokens)-int(r.s.View().Node(p).Tokens)%100)
	fail = nil

	// While another compaction is under way nothing is shortened.
	r.during(func(context.Context) {
		_, err := r.e.Append(t.Context(), r.agent, call("e", "read"), session.ToolText("e", big))
		require.NoError(t, err)
	})
	_, err = r.e.CompactRegion(t.Context(), r.agent, 0, 3)
	require.NoError(t, err)
	v = r.s.View()
	assert.Empty(t, v.Node(v.Len()-1).Source().Form)
}
