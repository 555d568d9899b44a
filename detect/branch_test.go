package detect_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/detect"
	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/lifecycle/lifecycletest"
	"github.com/agentcompact/agentcompact/session"
)

func TestL4601Series(t *testing.T) {
	w := newWorld(t, nil)
	f := fixture(t, "pi.compaction_summary.v1")
	list := long(12)
	w.open(ask("a", "1", list...))
	require.Len(t, w.open(f.request("a", "2")), 1)
	second := f.request("a", "3")
	second.Messages = []*session.Message{user(strings.Replace(f.Request.Messages[0].Text, "</conversation>", "more</conversation>", 1))}
	require.Empty(t, w.open(second), "the same compaction")
	next := f.next("a", "4", list[len(list)-1])
	require.Equal(t, []string{"completed pi.compaction_summary.v1"}, w.open(next))
	require.Equal(t, w.all[0].Event.TransactionID, w.all[1].Event.TransactionID)
	require.Empty(t, w.open(next))
	w.end()
}

func TestL4602ClosedWithoutInstall(t *testing.T) {
	w := newWorld(t, nil)
	list := long(12)
	w.open(ask("a", "1", list...))
	w.open(ask("a", "2", with(list, user(codexAsk))...))
	require.Equal(t, []string{"aborted " + codex + ": " + detect.ReasonNotInstalled}, w.open(ask("a", "3", with(list, model("x"), user("y"))...)))
	require.Len(t, w.open(ask("a", "4", with(list, user(codexAsk))...)), 1)
	require.NotEqual(t, w.all[0].Event.TransactionID, w.all[2].Event.TransactionID)
	w.end()
}

func TestL4603EachStart(t *testing.T) {
	w := newWorld(t, nil)
	list := long(12)
	w.open(ask("a", "1", list...))
	q := ask("a", "2", with(list, user(codexAsk))...)
	require.Len(t, w.open(q), 1)
	require.Empty(t, w.open(q), "a client tries again")
	q.Trace = "2b"
	require.Empty(t, w.open(q), "also under another trace")
	more := ask("a", "2", with(list, model("x"), user("y"), user(codexAsk))...)
	require.Equal(t, []string{"aborted " + codex + ": superseded", "started " + codex}, w.open(more))
	w.end()
}

func TestL4604OldEndsFirst(t *testing.T) {
	w := newWorld(t, nil)
	list := long(12)
	w.open(ask("a", "1", list...))
	w.open(ask("a", "2", with(list, user(codexAsk))...))
	q := ask("a", "3", list...)
	q.Compact = true
	require.Equal(t, []string{"aborted " + codex + ": superseded", "started " + detect.RuleProtocol}, w.open(q))
	w.end()
}

func TestL4605Identities(t *testing.T) {
	ids := make(map[string]bool)
	for range 2 {
		w := newWorld(t, nil)
		list := long(12)
		q := ask("a", "1", with(list, user(codexAsk))...)
		for i := range 3 { // three compactions of one trace, the same content
			require.Len(t, w.open(q), 1)
			e := w.all[len(w.all)-1].Event
			require.Equal(t, len(ids) < 3, !ids[e.TransactionID], "%d: another for each, the same in another process", i)
			ids[e.TransactionID] = true
			w.release(detect.Response{Meta: meta("a", "1"), Failed: true})
		}
		w.end()
	}
	require.Len(t, ids, 3)
	w := newWorld(t, nil)
	q := ask("a", "1", with(long(12), user(codexAsk))...)
	p := w.d.PreviewRequest(q)
	q.Trace, q.Leg, q.Attempt = "9", "9", 9
	w.now = w.now.Add(time.Hour)
	require.Equal(t, p.BoundaryFingerprint, w.d.PreviewRequest(q).BoundaryFingerprint, "stable under retry and time")
}

func TestL4606TTL(t *testing.T) {
	w := newWorld(t, func(o *detect.Options) { o.TTL = time.Hour })
	q := ask("a", "1", with(long(12), user(codexAsk))...)
	require.Len(t, w.open(q), 1)
	w.now = w.now.Add(59 * time.Minute)
	require.Empty(t, w.open(q), "seen again: it lives on")
	w.now = w.now.Add(time.Hour)
	require.Equal(t, []string{"aborted " + codex + ": expired", "started " + codex}, w.open(q))
	w.end()
}

func TestL4607ShortTTL(t *testing.T) {
	w := newWorld(t, func(o *detect.Options) { o.TTL = time.Second })
	w.open(ask("a", "1", with(long(12), user(codexAsk))...))
	w.now = w.now.Add(2 * time.Second)
	require.Empty(t, w.open(ask("b", "2", user("hi"))), "no sweep yet")
	require.Equal(t, 2, w.d.Branches())
	require.Empty(t, w.release(detect.Response{Meta: meta("a", "1"), Failed: true}), "but it is too old to go on")
	w.now = w.now.Add(time.Minute)
	require.Equal(t, []string{"aborted " + codex + ": expired"}, w.open(ask("c", "3", user("hi"))))
	require.Equal(t, 1, w.d.Branches())
	w.end()
}

func TestL4608LRU(t *testing.T) {
	w := newWorld(t, func(o *detect.Options) { o.MaxBranches = 2 })
	list := long(40)
	w.open(ask("a", "1", with(list, user(codexAsk))...))
	w.open(ask("b", "2", list...))
	require.Equal(t, []string{"aborted " + codex + ": evicted"}, w.open(ask("c", "3", list...)))
	require.Equal(t, 2, w.d.Branches())
	next := with([]*session.Message{user("sum")}, list[len(list)-2:]...)
	require.Equal(t, []string{"completed " + detect.RuleHeuristic}, w.open(ask("b", "4", next...)))
	require.Empty(t, w.open(ask("a", "5", next...)), "its history is gone")
	w.all = append(w.all, w.d.Forget("a")...)
	w.end()
}

func TestL4609Concurrent(t *testing.T) {
	w := newWorld(t, func(o *detect.Options) { o.MaxBranches = 8 })
	rec := new(lifecycletest.Recorder)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range 16 {
		wg.Go(func() {
			list := long(12)
			for i := range 40 {
				b := fmt.Sprint("b", g)
				q := ask(b, fmt.Sprint(i), list...)
				if i%3 == 1 {
					q.Messages = with(list, user(codexAsk), user(codexAsk+fmt.Sprint(i)))
				}
				w.d.PreviewRequest(q)
				out := w.d.RequestOpened(q)
				out = append(out, w.d.ResponseReleased(detect.Response{Meta: q.Meta, Text: "x", Done: true, Finish: "stop"})...)
				mu.Lock()
				for _, x := range out {
					_ = rec.OnCompactionDetail(t.Context(), x.Event, x.Detail)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, w.d.Branches(), 8)
}

func TestL4610Secret(t *testing.T) {
	const secret = "sk-PLANTED-secret"
	w := newWorld(t, nil)
	list := with(long(12), user("the key is "+secret))
	w.open(ask("a", "1", list...))
	w.open(ask("a", "2", with(list, user(codexAsk+secret))...))
	w.release(detect.Response{Meta: meta("a", "2"), Text: "summary " + secret, Done: true, Finish: "stop"})
	w.open(ask("a", "3", user(codexDone+secret)))
	require.Len(t, w.all, 2)
	require.NotContains(t, fmt.Sprintf("%+v", w.all), "PLANTED")
	require.NotContains(t, dump(w.d), "PLANTED")
	w.end()
}

func TestL4614NoState(t *testing.T) {
	w := newWorld(t, nil)
	for _, q := range []detect.Request{ask("a", "1", user("Please summarize.")), ask("a", "1", with(long(12), user(codexAsk))...)} {
		w.d.PreviewRequest(q)
		w.d.PreviewResponse(detect.Response{Meta: q.Meta, Text: "x", Done: true})
		require.Zero(t, w.d.Branches())
	}
	require.Empty(t, w.d.RequestOpened(ask("", "1", with(long(12), user(codexAsk))...)), "no branch, no detection")
	require.Empty(t, w.release(detect.Response{Meta: meta("a", "1"), Text: codexDone, Done: true, Finish: "stop"}))
	require.Zero(t, w.d.Branches())
	var none *detect.Detector
	require.Empty(t, none.RequestOpened(ask("a", "1", user(codexAsk))))
	require.Equal(t, lifecycle.PreviewNone, none.PreviewRequest(ask("a", "1")).Kind)
	require.Equal(t, lifecycle.PreviewNone, none.PreviewResponse(detect.Response{}).Kind)
}

func TestL4615UnknownBranch(t *testing.T) {
	w := newWorld(t, nil)
	r := detect.Response{Meta: meta("new", "1"), Item: "compaction", ItemID: "1"}
	p := w.d.PreviewResponse(r)
	require.Equal(t, lifecycle.PreviewCompletionCandidate, p.Kind)
	require.Zero(t, w.d.Branches())
	require.Len(t, w.release(r), 1)
	require.Equal(t, p.TransactionID, w.all[0].Event.TransactionID)
	w.end()
}

// TestQuotes: what a model or a tool says means nothing, wherever it stands.
func TestQuotes(t *testing.T) {
	w := newWorld(t, nil)
	list := with(long(12), result("c1", codexAsk), model(codexDone), result("c2", codexDone), user("is this right?\n"+codexDone))
	require.Empty(t, w.open(ask("a", "1", list...)))
	require.Empty(t, w.release(detect.Response{Meta: meta("a", "1"), Text: codexDone + "<summary>", Done: true, Finish: "stop"}))
	// A user who pastes an installed summary as his next message.
	pasted := with(list, model("yes"), user(codexDone))
	require.Empty(t, w.open(ask("a", "2", pasted...)))
	require.Empty(t, w.open(ask("a", "3", with(pasted, model("fine"), user("go on"))...)))
	w.end()
}

// TestSideRequests: small requests beside the conversation neither end a
// compaction nor make the detector forget the history.
func TestSideRequests(t *testing.T) {
	w := newWorld(t, nil)
	list := long(40)
	side := ask("a", "x", user("Give this conversation a title."))
	w.open(ask("a", "1", list...))
	w.open(ask("a", "2", with(list, user(codexAsk))...))
	require.Empty(t, w.open(side))
	require.Equal(t, []string{"completed " + codex}, w.open(ask("a", "3", user("Build the parser, please."), user(codexDone), user("go on"))))
	require.Equal(t, lifecycle.EvidenceSignatureStrict, w.all[1].Event.Evidence)
	w.open(ask("a", "4", list...))
	w.open(side)
	require.Equal(t, []string{"completed " + detect.RuleHeuristic}, w.open(ask("a", "5", with([]*session.Message{user("sum")}, list[len(list)-2:]...)...)))
	w.end()
}

// TestNoSummary: a request for a summary that brings a call or nothing.
func TestNoSummary(t *testing.T) {
	for name, r := range map[string]detect.Response{
		"call":   {ToolCall: true},
		"empty":  {Text: " ", Done: true, Finish: "stop"},
		"failed": {Failed: true},
	} {
		w := newWorld(t, nil)
		w.open(ask("a", "1", with(long(12), user(codexAsk))...))
		r.Meta = meta("a", "other")
		require.Empty(t, w.release(r), "of another request")
		r.Meta = meta("a", "1")
		require.Len(t, w.release(r), 1, name)
		require.Equal(t, lifecycle.OutcomeAborted, w.all[1].Detail.Outcome)
		w.end()
	}
}

// TestPastedAtHead: a summary that is pasted before the first reply goes on
// from what was there, and is none.
func TestPastedAtHead(t *testing.T) {
	w := newWorld(t, nil)
	list := []*session.Message{user("one"), user("two"), user("three")}
	w.open(ask("a", "1", list...))
	require.Empty(t, w.open(ask("a", "2", with(list, user(codexDone))...)))
}

// TestToldOnce: an installed summary is known although another conversation
// came between.
func TestToldOnce(t *testing.T) {
	w := newWorld(t, nil)
	next := []*session.Message{user(codexDone), user("go on")}
	w.open(ask("a", "1", long(12)...))
	require.Len(t, w.open(ask("a", "2", next...)), 1)
	require.Empty(t, w.open(ask("a", "3", user("something"), model("else"), user("now"))))
	require.Empty(t, w.open(ask("a", "4", with(next, model("ok"), user("and on"))...)))
	w.end()
}

// TestBackInTime: going back to an earlier prompt while a summary was written
// installs nothing.
func TestBackInTime(t *testing.T) {
	w := newWorld(t, nil)
	list := long(40)
	w.open(ask("a", "1", list...))
	w.open(ask("a", "2", with(list, user(codexAsk))...))
	require.Equal(t, []string{"aborted " + codex + ": " + detect.ReasonNotInstalled}, w.open(ask("a", "3", list[:5]...)))
	w.end()
}

// TestManyBranches: ten thousand conversations take the room of the newest ones,
// and a piece of an ordinary response costs nothing, however many there are.
func TestManyBranches(t *testing.T) {
	d, err := detect.New(nil)
	require.NoError(t, err)
	for i := range 10_000 {
		require.Empty(t, d.RequestOpened(ask(fmt.Sprint("b", i), "1", user("hi"))))
	}
	require.Equal(t, 4096, d.Branches())
	r := detect.Response{Meta: meta("b9999", "1"), Text: "some words"}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if d.PreviewResponse(r).Kind != lifecycle.PreviewNone || d.ResponseReleased(r) != nil {
			t.Error("a delta is no candidate")
		}
	}))
	require.Equal(t, 4096, d.Branches())
}

// TestNoWedge: whatever a branch has been through, the next compaction in it is
// reported, once, without waiting for anything to grow old.
func TestNoWedge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, nil)
		trace := 0
		list := long(12)
		send := func(messages ...*session.Message) []string {
			trace++
			return w.open(ask("a", fmt.Sprint(trace), messages...))
		}
		piece := func(r detect.Response) {
			r.Meta = meta("a", fmt.Sprint(trace))
			w.release(r)
		}
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"goes on", "asks", "asks again", "fails", "calls", "writes", "item", "installs", "shrinks", "other"}).Draw(rt, "step") {
			case "goes on":
				list = with(list, model("Fine."), user(fmt.Sprint("And ", trace)))
				send(list...)
			case "asks":
				send(with(list, user(codexAsk))...)
			case "asks again":
				w.open(ask("a", fmt.Sprint(trace), with(list, user(codexAsk))...))
			case "fails":
				piece(detect.Response{Failed: true})
			case "calls":
				piece(detect.Response{ToolCall: true, Done: true, Finish: "tool_calls"})
			case "writes":
				piece(detect.Response{Text: "The parser is half done.", Done: true, Finish: "stop"})
			case "item":
				piece(detect.Response{Item: "compaction", ItemID: fmt.Sprint(trace), Done: true, Status: "completed"})
			case "installs":
				list = with([]*session.Message{user(codexDone + fmt.Sprint(trace))}, long(12)...)
				send(list...)
			case "shrinks":
				list = with([]*session.Message{user("Go on.")}, list[max(len(list)-2, 0):]...)
				send(list...)
			case "other":
				send(user("What is the weather like?"))
			}
		}
		list = long(12)
		send(list...)
		send(with(list, user(codexAsk))...)
		last := w.all[len(w.all)-1] // now, or before when it is the same request again
		require.Equal(rt, "started "+codex, words([]lifecycle.Transition{last})[0])
		piece(detect.Response{Text: "The parser is half done.", Done: true, Finish: "stop"})
		require.Equal(rt, []string{"completed " + codex}, send(user(codexDone+" In the end."), user("Go on.")))
		w.end()
	})
}
