package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/session"
)

// hook returns a hook that runs this test binary as a program that does what
// mode says; see init.
func hook(t *testing.T, mode string, opts *lifecycle.HookOptions, more ...string) *lifecycle.Hook {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var o lifecycle.HookOptions
	if opts != nil {
		o = *opts
	}
	o.Env = append([]string{"LIFECYCLE_HOOK=" + mode}, more...)
	h, err := lifecycle.NewHook(self, &o)
	require.NoError(t, err)
	return h
}

func init() {
	mode := os.Getenv("LIFECYCLE_HOOK")
	if mode == "" {
		return
	}
	var in lifecycle.HookInput
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		os.Exit(7)
	}
	if f := os.Getenv("LIFECYCLE_OUT"); f != "" {
		b, _ := json.Marshal(struct {
			In   lifecycle.HookInput
			Args []string
		}{in, os.Args[1:]})
		_ = os.WriteFile(f, b, 0o600)
	}
	fmt.Fprintln(os.Stderr, secret)
	switch mode {
	case "notes":
		fmt.Println(`{"instructions":"mind the port","notes":["from the\nhook"]}`)
	case "veto":
		fmt.Println(`{"decision":"veto"}`)
	case "exit2":
		os.Exit(2)
	case "fail":
		os.Exit(1)
	case "garbage":
		fmt.Println(secret)
	case "much":
		fmt.Println(strings.Repeat(" ", 1<<20))
	case "hang":
		time.Sleep(time.Hour)
	}
	os.Exit(0)
}

// TestHook: what the program may do, and that all else changes nothing.
func TestHook(t *testing.T) {
	for mode, c := range map[string]struct {
		veto, fails bool
		notes       int
	}{
		"notes": {notes: 1}, "quiet": {}, "veto": {veto: true}, "exit2": {veto: true},
		"fail": {fails: true}, "garbage": {fails: true}, "much": {fails: true},
	} {
		call := lifecycletest.Call()
		err := hook(t, mode, nil).BeforeRequest(t.Context(), &call, lifecycle.RequestPreview{}, lifecycletest.Meta(), lifecycle.Services{})
		require.Equal(t, c.veto, errors.Is(err, lifecycle.Veto()), mode)
		require.Equal(t, c.veto || c.fails, err != nil, "%s: %v", mode, err)
		require.Len(t, call.Notes, c.notes, mode)
		if err != nil {
			require.NotContains(t, err.Error(), "PLANTED")
		}
		if mode == "notes" {
			require.Equal(t, "be short\nmind the port", call.Instructions)
			require.Equal(t, "from the hook", call.Notes[0])
		}
	}
	_, err := lifecycle.NewHook("no-such-program-here", nil)
	require.Error(t, err)
}

// TestHookInput: what the program is told, before and after; no shell reads
// its arguments; content only if it was asked for.
func TestHookInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	args := []string{"$(touch pwned)", "; rm -rf /", "a b", "`id`"}
	read := func() (in lifecycle.HookInput, got []string) {
		b, err := os.ReadFile(out)
		require.NoError(t, err)
		var v struct {
			In   lifecycle.HookInput
			Args []string
		}
		require.NoError(t, json.Unmarshal(b, &v))
		return v.In, v.Args
	}
	for _, text := range []bool{false, true} {
		h := hook(t, "quiet", &lifecycle.HookOptions{Args: args, Text: text}, "LIFECYCLE_OUT="+out)
		call := lifecycletest.Call()
		require.NoError(t, h.BeforeRequest(t.Context(), &call, lifecycle.RequestPreview{}, lifecycletest.Meta(), lifecycle.Services{}))
		in, got := read()
		require.Equal(t, args, got)
		require.Equal(t, "before_compaction c-1 pressure tx 3 100", fmt.Sprint(in.Hook, " ", in.ID, " ", in.Trigger, " ", in.TransactionID, " ", in.Messages, " ", in.Tokens))
		require.Equal(t, text, strings.Contains(in.Text, "Never touch vendor/"))
		require.NoError(t, h.AfterResponseRelease(t.Context(), lifecycletest.Checkpoint(), lifecycletest.Meta(), lifecycle.Services{}))
		in, _ = read()
		require.Equal(t, "after_compaction", in.Hook)
		require.Equal(t, text, strings.Contains(in.Text, "lexer is done"))
	}
}

// TestHookTimeLimit: a program that hangs is killed, and the dispatcher knows
// how long it may take.
func TestHookTimeLimit(t *testing.T) {
	h := hook(t, "hang", &lifecycle.HookOptions{Timeout: 50 * time.Millisecond})
	require.Greater(t, h.CallbackTimeout(), 50*time.Millisecond)
	call := lifecycletest.Call()
	began := time.Now()
	err := h.BeforeRequest(t.Context(), &call, lifecycle.RequestPreview{}, lifecycletest.Meta(), lifecycle.Services{})
	require.ErrorContains(t, err, "time limit")
	require.Less(t, time.Since(began), time.Minute)
}

// TestPinned: facts of the program and of the session, once each.
func TestPinned(t *testing.T) {
	p, state := lifecycle.NewPinned("port 8443", "port 8443"), new(lifecycle.MemoryState)
	ctx := t.Context()
	require.NoError(t, p.Pin(ctx, state, "branch main", "x"))
	require.NoError(t, p.Unpin(ctx, state, "x"))
	k := lifecycletest.Checkpoint()
	for range 2 {
		require.NoError(t, p.BeforeResponseRelease(ctx, &k, lifecycle.ResponsePreview{}, lifecycletest.Meta(), lifecycle.Services{State: state.Of(p.ID())}))
	}
	require.Equal(t, []string{"a note", "port 8443", "branch main"}, k.Notes)
}

// TestTodos: the newest list of the region, then that of the state, or the
// host's own.
func TestTodos(t *testing.T) {
	state := new(lifecycle.MemoryState).Of("todos")
	notes := func(p *lifecycle.Todos, region []*session.Message) []string {
		k := lifecycle.Checkpoint{Narrative: "x", Region: lifecycle.NewRegion(region, 1)}
		require.NoError(t, p.BeforeResponseRelease(t.Context(), &k, lifecycle.ResponsePreview{}, lifecycletest.Meta(), lifecycle.Services{State: state}))
		return k.Notes
	}
	p := lifecycle.NewTodos(nil)
	require.Empty(t, notes(p, nil))
	want := []string{"todo [~] write the parser", "todo [ ] fuzz it", "todo: 1 are done"}
	require.Equal(t, want, notes(p, lifecycletest.Messages()))
	require.Equal(t, want, notes(p, nil), "it outlives the call that wrote it")

	plan := session.AssistantText("", session.ToolCall{ID: "c", Name: "update_plan", Arguments: `{"plan":[{"step":"a","status":"odd"},{"step":"b","status":"cancelled"}]}`})
	prose := session.AssistantText("", session.ToolCall{ID: "c", Name: "bash", Arguments: `{"todos":[{"content":"no list"}]}`})
	broken := session.AssistantText("", session.ToolCall{ID: "c", Name: "todowrite", Arguments: `{"todos":[{"content":""`})
	require.Equal(t, []string{"todo [ ] a", "todo: 1 are done"}, notes(p, []*session.Message{&plan, &prose, &broken}))

	host := lifecycle.NewTodos(&lifecycle.TodoOptions{Max: 1, Current: func(context.Context, lifecycle.PreservationMeta) ([]lifecycle.Todo, bool) {
		return []lifecycle.Todo{{Text: "one", State: "open"}, {Text: "two", State: "open"}}, true
	}})
	require.Equal(t, []string{"todo [ ] one", "todo: 1 more are open"}, notes(host, lifecycletest.Messages()))
}

// TestSessionState: state is in the log, off the surface, apart by owner, and
// there again after the session was opened anew.
func TestSessionState(t *testing.T) {
	ctx, store := t.Context(), session.NewMemoryStore()
	s, err := session.Open(ctx, store, nil)
	require.NoError(t, err)
	a, b := lifecycle.SessionState(s).Of("a"), lifecycle.SessionState(s).Of("b")
	require.NoError(t, a.Put(ctx, "k", []byte("1")))
	require.NoError(t, b.Put(ctx, "k", []byte("2")))
	require.NoError(t, a.Put(ctx, "gone", []byte("x")))
	require.NoError(t, a.Delete(ctx, "gone"))
	next := s.View().Next()
	require.NoError(t, a.Put(ctx, "k", []byte("1")))
	require.NoError(t, a.Delete(ctx, "gone"))
	require.Equal(t, next, s.View().Next(), "what changes nothing writes nothing")
	require.Zero(t, s.View().Len())
	require.ErrorIs(t, a.Put(ctx, "k", make([]byte, lifecycle.MaxStateBytes+1)), lifecycle.ErrStateTooLarge)
	require.ErrorIs(t, a.Put(ctx, strings.Repeat("k", 300), nil), lifecycle.ErrStateTooLarge)

	again, err := session.Open(ctx, store, nil)
	require.NoError(t, err)
	for owner, want := range map[string]string{"a": "1", "b": "2"} {
		got, ok, err := lifecycle.SessionState(again).Of(owner).Get(ctx, "k")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, string(got))
		got[0] = 'X'
		got, _, _ = lifecycle.SessionState(again).Of(owner).Get(ctx, "k")
		require.Equal(t, want, string(got), "the value is a copy")
	}
	_, ok, err := lifecycle.SessionState(again).Of("a").Get(ctx, "gone")
	require.NoError(t, err)
	require.False(t, ok)
	// Two handles on one store see each other's writes.
	require.NoError(t, lifecycle.SessionState(again).Of("a").Put(ctx, "k", []byte("3")))
	require.NoError(t, a.Put(ctx, "other", []byte("y")))
	got, _, err := a.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "3", string(got))
}

// TestBackground: one job for one key, bounded work, answers that age, and an
// end that leaves nothing behind.
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var mu sync.Mutex
		running, most, calls := 0, 0, 0
		b, err := lifecycle.NewBackground(func(ctx context.Context, q lifecycle.AuxRequest) (lifecycle.AuxResult, error) {
			mu.Lock()
			running++
			calls++
			most = max(most, running)
			mu.Unlock()
			defer func() { mu.Lock(); running--; mu.Unlock() }()
			if !lifecycle.IsAuxiliary(ctx) {
				return lifecycle.AuxResult{}, errors.New("not marked")
			}
			switch q.Text {
			case "panic":
				panic(secret)
			case "hang":
				<-ctx.Done()
				return lifecycle.AuxResult{}, context.Cause(ctx)
			}
			<-gate
			return lifecycle.AuxResult{Text: "re: " + q.Text}, nil
		}, &lifecycle.BackgroundOptions{Queue: 3, Results: 6, MaxBytes: 8})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		submit := func(key, text string) (lifecycle.JobID, error) {
			return b.SubmitCollect(ctx, lifecycle.AuxRequest{Key: key, Text: text})
		}
		id, err := submit("a", "long text")
		require.NoError(t, err)
		same, err := submit("a", "other")
		require.NoError(t, err)
		require.Equal(t, id, same)
		_, err = submit("", "x")
		require.Error(t, err)
		for _, k := range []string{"b", "c", "d", "e"} {
			synctest.Wait()
			_, err = submit(k, k)
			require.NoError(t, err, k)
		}
		_, err = submit("f", "f")
		require.ErrorIs(t, err, lifecycle.ErrAuxFull)
		cancel() // of whoever submitted: the work goes on
		_, err = b.Await(ctx, id)
		require.ErrorIs(t, err, context.Canceled)
		close(gate)
		res, err := b.Await(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "re: long", res.Text, "cut to MaxBytes")
		synctest.Wait()
		require.Equal(t, 2, most)
		require.Equal(t, 5, calls)

		ctx = t.Context()
		bad, err := submit("p", "panic")
		require.NoError(t, err)
		_, err = b.Await(ctx, bad)
		require.ErrorIs(t, err, lifecycle.ErrAuxFailed)
		slow, err := submit("h", "hang")
		require.NoError(t, err)
		_, err = b.Await(ctx, slow)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		b.Forget(slow)
		_, err = b.Await(ctx, slow)
		require.ErrorIs(t, err, lifecycle.ErrAuxUnknown)
		time.Sleep(10 * time.Minute)
		_, err = b.Await(ctx, bad)
		require.ErrorIs(t, err, lifecycle.ErrAuxUnknown, "answers age")

		var waiting []lifecycle.JobID
		for _, k := range []string{"1", "2", "3"} {
			j, err := submit(k, "hang")
			require.NoError(t, err)
			synctest.Wait()
			waiting = append(waiting, j)
		}
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		_, err = b.Await(ctx, waiting[0])
		require.ErrorIs(t, err, context.Canceled)
		_, err = b.Await(ctx, waiting[2])
		require.ErrorIs(t, err, lifecycle.ErrAuxClosed)
		_, err = submit("z", "z")
		require.ErrorIs(t, err, lifecycle.ErrAuxClosed)
	})
}

// TestSlogLine: what a line says.
func TestSlogLine(t *testing.T) {
	var b bytes.Buffer
	d := newDocs(t, lifecycle.Options[doc, doc]{Observers: []lifecycle.Observer{lifecycle.NewSlog(textLogger(&b))}})
	d.Emit(t.Context(), lifecycle.Transition{
		Event:  lifecycle.Event{Phase: lifecycle.PhaseCompleted, TransactionID: "tx", RuleID: "r"},
		Detail: lifecycle.Detail{Outcome: lifecycle.OutcomeCompleted, Trigger: "pressure", TokensBefore: 10, TokensAfter: 3, Calls: 1, Duration: time.Second},
	})
	require.Equal(t, "level=INFO msg=\"compaction completed\" transaction=tx rule=r trigger=pressure tokens_before=10 tokens_after=3 calls=1 duration=1s\n", b.String())
}
