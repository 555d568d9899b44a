package toolpairing

import (
	"sync"

	"github.com/agentcompact/agentcompact/internal/pair"
	"github.com/agentcompact/agentcompact/session"
)

// incremental is the matcher that a session keeps: that of the surface that had
// generation gen and as many nodes as m has positions.
type incremental struct {
	mu  sync.Mutex
	gen uint64
	m   *pair.Matcher

	added, rebuilt int // for tests: positions read, and how often all were
}

type sessionKey struct{}

// Live answers questions about the newest view of a session. It keeps an index
// that grows with the tail and follows replacements, so that a question right
// after an append costs O(1), and one after a replacement costs the span and
// one pass of cheap arithmetic. It is safe for concurrent use.
type Live struct {
	s   *session.Session
	inc *incremental
}

// For returns the live index of a session.
func For(s *session.Session) Live {
	return Live{s, session.Derived(s, sessionKey{}, func() *incremental { return &incremental{m: new(pair.Matcher)} })}
}

// BalancedBefore reports whether the cut before the message is balanced. The
// error wraps [session.ErrNotOnSurface].
func (l Live) BalancedBefore(seq session.Seq) (ok bool, err error) {
	l.With(func(x *Index) { ok, err = x.BalancedBefore(seq) })
	return ok, err
}

// BalancedAfter reports whether the cut after the message is balanced. The
// error wraps [session.ErrNotOnSurface].
func (l Live) BalancedAfter(seq session.Seq) (ok bool, err error) {
	l.With(func(x *Index) { ok, err = x.BalancedAfter(seq) })
	return ok, err
}

// With calls fn with the index of the newest view, which [Index.View] returns.
// The index must not be used after fn has returned; other questions to the live
// index wait meanwhile.
func (l Live) With(fn func(x *Index)) {
	l.inc.mu.Lock()
	defer l.inc.mu.Unlock()
	v := l.s.View()
	l.inc.follow(v)
	x := newIndex(v, l.inc.m)
	fn(&x)
}

// follow brings the matcher up to the view.
func (c *incremental) follow(v session.View) {
	if c.gen != v.Generation() {
		ch, ok := v.ChangeSince(c.gen, c.m.Len())
		if ok {
			items := make([]pair.Item, ch.Added)
			for i := range items {
				n := v.Node(ch.At + i)
				items[i] = pair.Item{Calls: n.Calls(), Results: n.Results()}
			}
			c.added += len(items)
			ok = c.m.Splice(ch.At, ch.Removed, items)
		}
		if !ok {
			c.rebuilt++
			c.m = new(pair.Matcher)
		}
		c.gen = v.Generation()
	}
	c.added += v.Len() - c.m.Len()
	fill(c.m, v)
}
