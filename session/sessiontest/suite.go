package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

// TestStore runs the conformance suite of [session.Store]. fresh makes empty
// data and returns a function that opens a store on it; calling that again, also
// while an earlier store is open, opens the same data.
func TestStore(t *testing.T, fresh func(t *testing.T) (open func() session.Store)) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, open func() session.Store)
	}{
		{"empty", testEmpty},
		{"round trip", testRoundTrip},
		{"expected seq", testExpectedSeq},
		{"one unit", testOneUnit},
		{"scan from", testScanFrom},
		{"scan stops", testScanStops},
		{"cancelled", testCancelled},
		{"closed", testClosed},
		{"keeps no slice", testKeepsNoSlice},
		{"two handles", testTwoHandles},
		{"concurrent appends", testConcurrent},
		{"staged", testStaged},
		{"whole session", testSession},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
}

func closeLater(t *testing.T, s session.Store) session.Store {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// sample returns events of every kind, from seq on.
func sample(t *testing.T, from session.Seq, texts ...string) []*session.Event {
	t.Helper()
	mem := session.NewMemoryStore()
	s, err := session.Open(context.Background(), mem, &session.Options{Now: func() time.Time { return time.UnixMilli(1790000000000) }})
	check(t, err)
	for i := range int(from) {
		_, err := s.Append(context.Background(), session.UserText(fmt.Sprint("filler ", i)))
		check(t, err)
	}
	for _, text := range texts {
		_, err := s.Append(context.Background(), session.UserText(text))
		check(t, err)
	}
	return mem.Events()[from:]
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scan(t *testing.T, s session.Store, from session.Seq) (out []string) {
	t.Helper()
	check(t, s.Scan(context.Background(), from, func(e *session.Event) error {
		b, err := session.AppendEvent(nil, e)
		out = append(out, string(b))
		return err
	}))
	return out
}

func encoded(t *testing.T, events []*session.Event) (out []string) {
	t.Helper()
	for _, e := range events {
		b, err := session.AppendEvent(nil, e)
		check(t, err)
		out = append(out, string(b))
	}
	return out
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("event %d is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
}

func testEmpty(t *testing.T, open func() session.Store) {
	s := closeLater(t, open())
	same(t, scan(t, s, 0), nil)
	check(t, s.Append(context.Background(), 0, nil))
	same(t, scan(t, s, 0), nil)
}

func testRoundTrip(t *testing.T, open func() session.Store) {
	events := sample(t, 0, "plain", "", "line\nbreak \u2028 \x00 \x7f", "bad \xff\xfe utf-8", `"quotes" \ and é`)
	s := open()
	check(t, s.Append(context.Background(), 0, events))
	same(t, scan(t, s, 0), encoded(t, events))
	check(t, s.Close())
	same(t, scan(t, closeLater(t, open()), 0), encoded(t, events))
}

func testExpectedSeq(t *testing.T, open func() session.Store) {
	s := closeLater(t, open())
	events := sample(t, 0, "a", "b")
	if err := s.Append(context.Background(), 1, events[1:]); !errors.Is(err, session.ErrConflict) {
		t.Fatalf("append behind the end: %v", err)
	}
	check(t, s.Append(context.Background(), 0, events[:1]))
	if err := s.Append(context.Background(), 0, events[:1]); !errors.Is(err, session.ErrConflict) {
		t.Fatalf("append before the end: %v", err)
	}
	check(t, s.Append(context.Background(), 1, events[1:]))
	same(t, scan(t, s, 0), encoded(t, events))
}

func testOneUnit(t *testing.T, open func() session.Store) {
	s := closeLater(t, open())
	events := sample(t, 0, "a", "b", "c")
	check(t, s.Append(context.Background(), 0, events[:1]))
	if err := s.Append(context.Background(), 0, events); !errors.Is(err, session.ErrConflict) {
		t.Fatalf("append: %v", err)
	}
	same(t, scan(t, s, 0), encoded(t, events[:1]))
}

func testScanFrom(t *testing.T, open func() session.Store) {
	s := closeLater(t, open())
	events := sample(t, 0, "a", "b", "c", "d")
	check(t, s.Append(context.Background(), 0, events[:2]))
	check(t, s.Append(context.Background(), 2, events[2:]))
	for from := range 6 {
		same(t, scan(t, s, session.Seq(from)), encoded(t, events[min(from, 4):]))
	}
	if err := s.Scan(context.Background(), -1, func(*session.Event) error { return nil }); err == nil {
		t.Fatal("scan from -1 is no error")
	}
	same(t, scan(t, closeLater(t, open()), 3), encoded(t, events[3:]))
}

func testScanStops(t *testing.T, open func() session.Store) {
	s := closeLater(t, open())
	check(t, s.Append(context.Background(), 0, sample(t, 0, "a", "b")))
	stop, n := errors.New("stop"), 0
	if err := s.Scan(context.Background(), 0, func(*session.Event) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Fatalf("scan went on: %d, %v", n, err)
	}
}

func testCancelled(t *testing.T, open func() session.Store) {
	s := closeLater(t, open())
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if err := s.Append(ctx, 0, sample(t, 0, "a")); !errors.Is(err, why) {
		t.Fatalf("append: %v, want the cause", err)
	}
	same(t, scan(t, s, 0), nil)
	check(t, s.Append(context.Background(), 0, sample(t, 0, "a")))
	if err := s.Scan(ctx, 0, func(*session.Event) error { return nil }); !errors.Is(err, why) {
		t.Fatalf("scan: %v, want the cause", err)
	}
}

func testClosed(t *testing.T, open func() session.Store) {
	s := open()
	check(t, s.Append(context.Background(), 0, sample(t, 0, "a")))
	var kept *session.Event
	check(t, s.Scan(context.Background(), 0, func(e *session.Event) error { kept = e; return nil }))
	check(t, s.Close())
	check(t, s.Close())
	if m, err := kept.Message(); err != nil || m.Text() != "a" {
		t.Fatalf("a payload is gone with the store: %v", err)
	}
	same(t, scan(t, closeLater(t, open()), 0), encoded(t, sample(t, 0, "a")))
}

func testKeepsNoSlice(t *testing.T, open func() session.Store) {
	s := closeLater(t, open())
	events := sample(t, 0, "a", "b")
	want := encoded(t, events)
	check(t, s.Append(context.Background(), 0, events))
	events[0], events[1] = events[1], nil
	same(t, scan(t, s, 0), want)
}

func testTwoHandles(t *testing.T, open func() session.Store) {
	a, b := closeLater(t, open()), closeLater(t, open())
	events := sample(t, 0, "a", "b", "c")
	check(t, a.Append(context.Background(), 0, events[:1]))
	if err := b.Append(context.Background(), 0, events[:1]); !errors.Is(err, session.ErrConflict) {
		t.Fatalf("the other handle appended over it: %v", err)
	}
	same(t, scan(t, b, 0), encoded(t, events[:1]))
	check(t, b.Append(context.Background(), 1, events[1:2]))
	if err := a.Append(context.Background(), 1, events[1:2]); !errors.Is(err, session.ErrConflict) {
		t.Fatalf("the first handle appended over it: %v", err)
	}
	check(t, a.Append(context.Background(), 2, events[2:]))
	same(t, scan(t, b, 0), encoded(t, events))
}

func testConcurrent(t *testing.T, open func() session.Store) {
	const writers, each = 4, 25
	stores := []session.Store{closeLater(t, open()), closeLater(t, open())}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s, err := session.Open(context.Background(), stores[w%2], nil)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range each {
				if _, err := s.Append(context.Background(), session.UserText(fmt.Sprintf("%d/%d", w, i)), session.UserText("second of it")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s, err := session.Open(context.Background(), open(), nil)
	check(t, err)
	defer s.Close()
	next := make([]int, writers)
	for i := 0; i < s.View().Len(); i += 2 {
		m, err := s.View().Message(i)
		check(t, err)
		var w, n int
		if _, err := fmt.Sscanf(m.Text(), "%d/%d", &w, &n); err != nil || n != next[w] {
			t.Fatalf("message %d is %q, want number %d", i, m.Text(), next[w])
		}
		next[w]++
	}
	for w, n := range next {
		if n != each {
			t.Errorf("writer %d has %d appends in the store, want %d", w, n, each)
		}
	}
	Verify(t, s)
}

func testStaged(t *testing.T, open func() session.Store) {
	s := closeLater(t, open())
	st, ok := s.(session.Stager)
	if !ok {
		t.Skip("the store is no session.Stager")
	}
	events := sample(t, 0, "a", "b", "c")
	var waits []func() error
	for i := range events {
		wait, err := st.Stage(context.Background(), session.Seq(i), events[i:i+1])
		check(t, err)
		waits = append(waits, wait)
	}
	if _, err := st.Stage(context.Background(), 1, events[1:2]); !errors.Is(err, session.ErrConflict) {
		t.Fatalf("staged over what is staged: %v", err)
	}
	for i := range waits {
		check(t, waits[len(waits)-1-i]())
	}
	same(t, scan(t, s, 0), encoded(t, events))
}

func testSession(t *testing.T, open func() session.Store) {
	ctx := context.Background()
	s, err := session.Open(ctx, open(), nil)
	check(t, err)
	check(t, Script(t, s, nil))
	Verify(t, s)
	want := seqs(s.View())
	check(t, s.Close())
	again := Open(t, open(), nil)
	got := seqs(again.View())
	if fmt.Sprint(got) != fmt.Sprint(want) || again.View().Generation() != s.View().Generation() {
		t.Fatalf("reopened surface is %v, want %v", got, want)
	}
}
