package engine

import (
	"fmt"
	"strconv"

	"github.com/agentcompact/agentcompact/session"
)

func seqText(q session.Seq) string { return strconv.FormatInt(int64(q), 10) }

func quoted(s string) string { return strconv.Quote(s) }

// String says how much the tail is, for people.
func (t tail) String() string {
	switch {
	case t.tokens < 0:
		return fmt.Sprintf("%d messages", t.messages)
	case t.messages > 0:
		return fmt.Sprintf("%d messages and %d tokens", t.messages, t.tokens)
	case t.tokens == 0:
		return "the newest unit"
	}
	return fmt.Sprintf("%d tokens", t.tokens)
}
