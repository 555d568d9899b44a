package session_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// machine draws operations on a session, whose results the verifier judges.
type machine struct {
	t    *rapid.T
	s    *session.Session
	open func() session.Store
}

func (m *machine) position(label string) int {
	return rapid.IntRange(0, m.s.View().Len()-1).Draw(m.t, label)
}

func (m *machine) message() session.Message {
	ids := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3)
	switch rapid.IntRange(0, 4).Draw(m.t, "message") {
	case 0, 1:
		var calls []session.ToolCall
		for _, id := range ids.Draw(m.t, "calls") {
			calls = append(calls, session.ToolCall{ID: id, Name: "t"})
		}
		return session.AssistantText("", calls...)
	case 2, 3:
		msg := session.Message{Role: session.RoleTool, Source: session.Source{Kind: session.SourceTool}}
		for _, id := range ids.Draw(m.t, "results") {
			msg.Parts = append(msg.Parts, session.ToolResult{CallID: id, Parts: []session.Part{session.Text{Text: "r"}}})
		}
		return msg
	}
	return session.UserText(strings.Repeat("u", rapid.IntRange(0, 20).Draw(m.t, "len")))
}

func (m *machine) step() {
	v := m.s.View()
	ctx := context.Background()
	record := func(bodies ...session.Body) {
		_, _ = m.s.Record(ctx, bodies...) // refused operations must change nothing
	}
	op := rapid.IntRange(0, 15).Draw(m.t, "op")
	if op < 5 || v.Len() == 0 {
		record(session.Append{Message: m.message()})
		return
	}
	seqAt := func(label string) session.Seq { return v.Node(m.position(label)).Seq }
	some := rapid.SliceOfN(rapid.IntRange(0, int(v.Next())-1), 1, 3)
	switch op {
	case 5, 6:
		start, end := m.position("start"), m.position("end")
		if end < start {
			start, end = end, start
		}
		r := session.Replace{Start: v.Node(start).Seq, End: v.Node(end).Seq, Message: m.message()}
		x := toolpairing.Of(v)
		for i := start; i <= end; i++ {
			if v.Pinned(v.Node(i).Seq) || rapid.IntRange(0, 3).Draw(m.t, "keep") == 0 {
				for _, p := range x.Unit(i) {
					r.Keep = append(r.Keep, v.Node(p).Seq)
				}
			}
		}
		record(r, session.Raw{Type: "compact/end"})
	case 7:
		var nodes []session.Seq
		for _, s := range some.Draw(m.t, "pins") {
			nodes = append(nodes, session.Seq(s))
		}
		record(session.Pin{Nodes: nodes, Off: rapid.Bool().Draw(m.t, "off")})
	case 8:
		if r := v.Replacements(); len(r) > 0 {
			record(session.Restore{Node: rapid.SampledFrom(r).Draw(m.t, "restore")})
		}
	case 9:
		if r := v.Replacements(); len(r) > 0 {
			record(session.Redo{Node: rapid.SampledFrom(r).Draw(m.t, "redo")})
		}
	case 10:
		record(session.Rewind{To: session.Seq(rapid.IntRange(-1, int(v.Next())-1).Draw(m.t, "to"))})
	case 11:
		record(rapid.SampledFrom([]session.Body{session.TurnStart{}, session.TurnEnd{}, session.StepStart{}, session.StepEnd{}}).Draw(m.t, "marker"))
	case 12:
		if s := seqAt("node"); len(v.Node(0).Calls()) >= 0 {
			record(session.CallState{Node: s, CallID: rapid.SampledFrom([]string{"a", "b"}).Draw(m.t, "id"),
				Phase: rapid.SampledFrom([]session.CallPhase{session.CallRunning, session.CallStarted, session.CallAbandoned}).Draw(m.t, "phase")})
		}
	case 13:
		require.NoError(m.t, m.s.Close())
		s, err := session.Open(ctx, m.open(), nil)
		require.NoError(m.t, err)
		require.Equal(m.t, v.Generation(), s.View().Generation())
		m.s = s
	case 14:
		var wg sync.WaitGroup
		for w := range 3 {
			wg.Go(func() { _, _ = m.s.Append(ctx, session.UserText(fmt.Sprint(w))) })
		}
		wg.Wait()
	case 15:
		_, err := m.s.Repair(ctx)
		require.NoError(m.t, err)
	}
}

func checked(t *rapid.T, s *session.Session) {
	if err := sessiontest.Check(s.View(), s.Pricer()); err != nil {
		t.Fatal(err)
	}
}

func TestSessionIsItsLog(t *testing.T) {
	session.SmallChunks(t, 5)
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		mem := session.NewMemoryStore()
		m := &machine{t: rt, open: func() session.Store { return mem }}
		if n%10 == 0 {
			m.open = func() session.Store {
				s, err := filestore.Open(path, &filestore.Options{SyncEvery: filestore.Never})
				require.NoError(rt, err)
				return s
			}
		}
		var err error
		m.s, err = session.Open(context.Background(), m.open(), nil)
		require.NoError(rt, err)
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			m.step()
			if rapid.IntRange(0, 4).Draw(rt, "ask") == 0 {
				toolpairing.For(m.s).With(func(*toolpairing.Index) {})
			}
		}
		checked(rt, m.s)
		sessiontest.Verify(t, m.s)
		if t.Failed() {
			rt.FailNow()
		}
		at := session.Seq(rapid.IntRange(-1, int(m.s.View().Next())-1).Draw(rt, "fork"))
		want, err := m.s.View().SurfaceAt(at)
		require.NoError(rt, err)
		child, err := m.s.Fork(context.Background(), at, session.NewMemoryStore(), nil)
		if err != nil {
			require.ErrorIs(rt, err, session.ErrTurnState)
			return
		}
		require.Equal(rt, len(want), child.View().Len())
		for i, s := range want {
			require.Equal(rt, s, child.View().Node(i).Seq)
		}
		_, err = child.Append(context.Background(), session.UserText("only in the child"))
		require.NoError(rt, err)
		checked(rt, child)
		checked(rt, m.s)
		require.NoError(rt, m.s.Close())
	})
}
