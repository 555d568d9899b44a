package eval

import (
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// Count prices a text.
type Count func(string) int

// Price returns the price of each message's [Text].
func Price(messages []*session.Message, count Count) []int {
	out := make([]int, len(messages))
	for i, m := range messages {
		out[i] = count(Text(m))
	}
	return out
}

// Full returns the whole text of the messages: the ceiling.
func Full(messages []*session.Message) string {
	texts := make([]string, len(messages))
	for i, m := range messages {
		texts[i] = Text(m)
	}
	return strings.Join(texts, "\n")
}

// Tail returns the newest messages that fit into budget tokens, oldest first.
// The first one that does not fit is clipped: its end is kept.
func Tail(messages []*session.Message, count Count, budget int) string {
	var texts []string
	left := budget
	for i := len(messages) - 1; i >= 0 && left > 0; i-- {
		t := Text(messages[i])
		n := count(t)
		if n > left {
			if t = ClipHead(t, count, left); t != "" {
				texts = append(texts, t)
			}
			break
		}
		left -= n
		texts = append(texts, t)
	}
	for a, b := 0, len(texts)-1; a < b; a, b = a+1, b-1 {
		texts[a], texts[b] = texts[b], texts[a]
	}
	return strings.Join(texts, "\n")
}

// ClipHead returns the longest end of s that has at most n tokens, cut between
// characters.
func ClipHead(s string, count Count, n int) string {
	lo, hi := 0, len(s) // s[hi:] fits
	for lo < hi {
		mid := (lo + hi) / 2
		if count(s[mid:]) <= n {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	for hi < len(s) && s[hi]&0xC0 == 0x80 {
		hi++
	}
	return s[hi:]
}

// Masked is what stands in place of a masked tool result.
const Masked = "[tool result masked]"

// Mask returns the messages with their oldest tool results masked until the
// whole fits into budget tokens. It reports false when it cannot.
func Mask(messages []*session.Message, count Count, budget int) (string, bool) {
	texts := make([]string, len(messages))
	total := 0
	prices := Price(messages, count)
	for i, m := range messages {
		texts[i] = Text(m)
		total += prices[i]
	}
	mask := count(Masked)
	for i, m := range messages {
		if total <= budget {
			break
		}
		if m.Role == session.RoleTool && prices[i] > mask {
			texts[i] = Masked
			total += mask - prices[i]
		}
	}
	return strings.Join(texts, "\n"), total <= budget
}
