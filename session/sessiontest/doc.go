// Package sessiontest tests implementations of [session.Store], puts faults
// into them, and verifies sessions.
//
// [TestStore] is the conformance suite of stores. [Faulty] is a store that
// fails when it is told to. [Open] opens a session that is verified at the end
// of the test: [Check] replays its log in the simplest way there is and compares
// everything that the session says of itself.
package sessiontest

import (
	"context"
	"testing"

	"github.com/agentcompact/agentcompact/session"
)

// Open opens the session in store, and verifies and closes it when the test
// ends.
func Open(t testing.TB, store session.Store, opts *session.Options) *session.Session {
	t.Helper()
	s, err := session.Open(context.Background(), store, opts)
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	t.Cleanup(func() {
		Verify(t, s)
		if err := s.Close(); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	return s
}

// Verify fails the test when [Check] finds something wrong with the newest view
// of the session, or when the live pairing index has other answers than a new
// one.
func Verify(t testing.TB, s *session.Session) {
	t.Helper()
	v := s.View()
	if err := Check(v, s.Pricer()); err != nil {
		t.Errorf("the session is not what its log says: %v", err)
	}
	if err := checkLive(s); err != nil {
		t.Errorf("the live pairing index is wrong: %v", err)
	}
}
