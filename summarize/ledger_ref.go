package summarize

import (
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// refBytes is from what length on a quote is stored by reference, refHead what
// is stored of it.
const (
	refBytes = 512
	refHead  = 120
)

// Stored returns the ledger as it is written to a log that holds the quoted
// messages: long quotes are cut to their beginning and marked, since the log
// has the rest. [Ledger.Filled] is the way back. l is not modified.
func (l *Ledger) Stored() *Ledger {
	if l == nil || !slices.ContainsFunc(l.User, func(q Quote) bool { return len(q.Text) >= refBytes }) {
		return l
	}
	c := *l
	c.User = slices.Clone(l.User)
	for i, q := range c.User {
		if len(q.Text) >= refBytes {
			c.User[i].Text, c.User[i].Ref = strings.ToValidUTF8(q.Text[:refHead], ""), true
		}
	}
	return &c
}

// Filled returns the ledger with the quotes that are stored by reference made
// whole again. message returns the message of an event, nil when there is none;
// its quote stays as short as it was stored then. l is not modified.
func (l *Ledger) Filled(message func(session.Seq) *session.Message) *Ledger {
	if l == nil || !slices.ContainsFunc(l.User, func(q Quote) bool { return q.Ref }) {
		return l
	}
	c := *l
	c.User = slices.Clone(l.User)
	for i, q := range c.User {
		if !q.Ref {
			continue
		}
		m := message(q.Seq)
		if m == nil {
			continue
		}
		one := Extract(&Request{Items: []Item{{Seq: q.Seq, Message: m}}}, nil)
		if len(one.User) == 1 {
			c.User[i].Text, c.User[i].Cut, c.User[i].Ref = one.User[0].Text, one.User[0].Cut, false
		}
	}
	return &c
}
