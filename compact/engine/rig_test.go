package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/compacttest"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/internal/requesttest"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
)

// rig is an engine with a session.
type rig struct {
	*testing.T
	s      *session.Session
	faulty *sessiontest.Faulty
	st     *stub
	e      *engine.Engine
	agent  compact.Agent
}

func newRig(t *testing.T, rounds int, change func(*engine.Options)) *rig {
	t.Helper()
	r := &rig{T: t, st: new(stub), faulty: sessiontest.NewFaulty(session.NewMemoryStore())}
	r.s = open(t, r.faulty)
	r.e = newEngine(t, r.st, func(o *engine.Options) {
		o.Run.Attempts = 1
		if change != nil {
			change(o)
		}
	})
	r.agent = compact.Agent{Session: r.s, Provider: "p", Model: "m"}
	talk(t, r.s, rounds)
	return r
}

func pruning(o *engine.Options) { o.Prune = engine.Prune{ProtectTokens: 1} }

func (r *rig) append(messages ...session.Message) []session.Seq {
	r.Helper()
	seqs, err := r.s.Append(r.Context(), messages...)
	require.NoError(r, err)
	return seqs
}

func (r *rig) record(bodies ...session.Body) []session.Seq {
	r.Helper()
	seqs, err := r.s.Record(r.Context(), bodies...)
	require.NoError(r, err)
	return seqs
}

// pair appends a call with a result of so many tokens.
func (r *rig) pair(id string, tokens int) {
	r.Helper()
	r.append(session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: "{}"}), session.ToolText(id, fill(tokens, "out")))
}

func (r *rig) consider(trigger compact.Trigger) *compact.Outcome {
	r.Helper()
	o, err := r.e.Consider(r.Context(), r.agent, trigger)
	require.NoError(r, err)
	return o
}

func (r *rig) fails(text string) {
	r.st.collect = func(context.Context, int, *summarize.Request) (string, error) { return "", errors.New(text) }
}

// during lets something happen while the summary is made.
func (r *rig) during(do func(ctx context.Context)) {
	r.st.collect = func(ctx context.Context, _ int, _ *summarize.Request) (string, error) {
		do(ctx)
		return "Short.", nil
	}
}

func (r *rig) last() *compact.Attempt {
	h := compact.HistoryOf(r.s)
	return h.Last()
}

func (r *rig) starts() int {
	h := compact.HistoryOf(r.s)
	return len(h.Attempts)
}

// asked returns what the summarizer was asked, as text.
func (r *rig) asked(n int) string {
	var b strings.Builder
	for _, it := range r.st.seen[n].Items {
		b.WriteString(it.Message.Text() + "\n")
	}
	return b.String()
}

// system is a system prompt of so many tokens.
func system(tokens int) []session.Message {
	m := session.UserText(fill(tokens, "rule"))
	m.Role = session.RoleSystem
	return []session.Message{m}
}

type row struct {
	id  string
	run func(t *testing.T)
}

func runRows(t *testing.T, rows []row) {
	for _, r := range rows {
		t.Run(r.id, r.run)
	}
}

// stub is a summarizer that does what a test says.
type stub struct {
	mu    sync.Mutex
	calls int
	// collect answers the n-th request, from 1; nil answers "Short.".
	collect func(ctx context.Context, n int, req *summarize.Request) (string, error)
	// seen are the requests.
	seen []*summarize.Request
}

func (s *stub) Name() string { return "stub" }

func (s *stub) Open(ctx context.Context, req *summarize.Request) (summarize.Pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.seen = append(s.seen, req)
	return stubPending{s, s.calls, req}, nil
}

type stubPending struct {
	s   *stub
	n   int
	req *summarize.Request
}

func (p stubPending) Cancel() {}

func (p stubPending) Collect(ctx context.Context) (*summarize.Summary, error) {
	text := "Short."
	call := summarize.Call{Model: "stub", Purpose: "summary", Prompt: 100, Completion: 10, Outcome: "ok"}
	if p.s.collect != nil {
		var err error
		if text, err = p.s.collect(ctx, p.n, p.req); err != nil {
			var f *summarize.Failure
			if errors.As(err, &f) && f.Calls == nil {
				call.Outcome = string(f.Class)
				f.Calls = []summarize.Call{call}
			}
			return nil, err
		}
	}
	return &summarize.Summary{Text: text, Calls: []summarize.Call{call}}, nil
}

// loose is a guard for one-line summaries.
var loose = &summarize.GuardOptions{NoSections: true, NoFloor: true}

func newEngine(t *testing.T, s summarize.Summarizer, change func(*engine.Options)) *engine.Engine {
	t.Helper()
	o := engine.Options{
		Windows: engine.FixedWindow(10_000),
		Prune:   engine.Prune{Off: true},
		Run:     summarize.RunOptions{Guard: loose, Backoff: -1, Deadline: -1},
	}
	if change != nil {
		change(&o)
	}
	e, err := engine.New(s, &o)
	require.NoError(t, err)
	return e
}

// fill returns a text of n tokens of the session's default pricer.
func fill(n int, word string) string {
	return strings.Repeat(word+" ", 4*n/(len(word)+1)+1)[:4*n]
}

// talk appends n rounds of a prompt, a call, a result and an answer, of about
// 400 tokens each.
func talk(t *testing.T, s *session.Session, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		_, err := s.Append(t.Context(),
			session.UserText(fmt.Sprintf("Request %d: look at item %d.", i, i)),
			session.AssistantText("", session.ToolCall{ID: id, Name: "read", Arguments: fmt.Sprintf(`{"path":"src/item%d.go"}`, i)}),
			session.ToolText(id, fill(350, fmt.Sprintf("line%d", i))),
			session.AssistantText(fmt.Sprintf("Item %d is fine.", i)),
		)
		require.NoError(t, err)
	}
}

func open(t *testing.T, store session.Store) *session.Session {
	t.Helper()
	if store == nil {
		store = session.NewMemoryStore()
	}
	s := compacttest.Open(t, store)
	t.Cleanup(func() { // whatever was done to it, it can be sent
		if v := s.View(); v.Len() > 0 {
			requesttest.Session(t, v)
		}
	})
	return s
}

func texts(t *testing.T, s *session.Session) []string {
	t.Helper()
	ms, err := s.View().Messages()
	require.NoError(t, err)
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.Text()
	}
	return out
}

func ends(t *testing.T, s *session.Session) (starts, finished int, codes []compact.Code) {
	t.Helper()
	for e := range s.View().Events(0) {
		p, err := compact.Decode(e)
		require.NoError(t, err)
		switch p := p.(type) {
		case compact.StartEvent:
			starts++
		case compact.EndEvent:
			finished++
			codes = append(codes, p.Code)
		}
	}
	return starts, finished, codes
}

// newRigOver is newRig over a store.
func newRigOver(t *testing.T, store session.Store, rounds int, change func(*engine.Options)) *rig {
	t.Helper()
	r := newRig(t, 0, change)
	r.s = open(t, store)
	r.agent.Session = r.s
	talk(t, r.s, rounds)
	return r
}

// foreign is an attempt of a process on another host that is alive.
func foreign(id string) compact.StartEvent {
	now := time.Now()
	return compact.StartEvent{ID: id, Trigger: compact.Now, Holder: compact.Holder{
		Host: "elsewhere", PID: 1, Run: "run of " + id, Since: now, Until: now.Add(time.Hour),
	}}
}

// onWrite is a store that does something after its writes.
type onWrite struct {
	session.Store
	writes int
	once   map[int]func()
	always func(next session.Seq) // is told where the log ends
}

// after lets do happen after the n-th write from now on; 1 is the next one.
func (s *onWrite) after(n int, do func()) {
	if s.once == nil {
		s.once = make(map[int]func())
	}
	s.once[s.writes+n] = do
}

func (s *onWrite) Append(ctx context.Context, next session.Seq, events []*session.Event) error {
	if err := s.Store.Append(ctx, next, events); err != nil {
		return err
	}
	s.writes++
	if s.always != nil {
		s.always(next + session.Seq(len(events)))
	}
	if do := s.once[s.writes]; do != nil {
		do()
	}
	return nil
}
