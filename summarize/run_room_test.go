package summarize

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRoom: what the entries of a request may have, for a summarizer that tells
// nothing but its window, of which 512 tokens are taken to be instructions.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		name                          string
		window, learned, chunk, reply int
		want                          int
	}{
		{name: "nothing is known"},
		{"the window less two of a hundred, instructions and reply", 10_000, 0, 0, 2000, 7288},
		{"a reply has a quarter at most", 10_000, 0, 0, 4000, 6788},
		{"learned", 0, 5000, 0, 2000, 5000},
		{"learned to be less", 10_000, 5000, 0, 2000, 5000},
		{"learned to be more than the window says", 10_000, 9000, 0, 2000, 7288},
		{"chunks are bounded", 0, 0, 3000, 2000, 3000},
		{"chunks are bounded below the window", 10_000, 0, 3000, 2000, 3000},
		{"chunks are bounded above the window", 10_000, 0, 8000, 2000, 7288},
		{"a window that is too small", 100, 0, 0, 2000, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := short()
			req.MaxTokens = c.reply
			r := newRun(stub{window: c.window}, req, &RunOptions{ChunkTokens: c.chunk})
			r.models[0].most = c.learned
			require.Equal(t, c.want, r.room(r.models[0], req))
		})
	}
}

// TestCut: what is learned from a refusal of 4,000 tokens of entries, 4,512 with
// the instructions.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		name                   string
		limit, actual, learned int
		entries, reply         int
		want                   int
		guess, no              bool
	}{
		{name: "no number: half", want: 1744, guess: true},
		{name: "a limit", limit: 3000, want: 2428},
		{name: "a limit less the reply", limit: 3000, reply: 500, want: 1938},
		{name: "a limit less a quarter for a long reply", limit: 3000, reply: 4000, want: 1693},
		{name: "a provider that counts twice as many", limit: 3000, actual: 9024, want: 958},
		{name: "a provider that counts fewer", limit: 3000, actual: 4000, want: 2428},
		{name: "a limit above what was sent: half", limit: 100_000, want: 1744, guess: true},
		{name: "the instructions alone fill it", limit: 700, no: true},
		{name: "what was learned does not rise", limit: 3000, learned: 1000, want: 1000},
		{name: "what was learned is lowered", limit: 3000, learned: 3500, want: 2428},
		{name: "it cannot be made smaller", entries: 150, no: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Summarizer = stub{}
			if c.reply > 0 {
				s = sizedStub{reply: c.reply}
			}
			r := newRun(s, short(), nil)
			m := r.models[0]
			m.most = c.learned
			entries := c.entries
			if entries == 0 {
				entries = 4000
			}
			require.Equal(t, !c.no, r.cut(m, &Failure{Class: Overflow, Limit: c.limit, Actual: c.actual}, r.req, entries))
			require.Equal(t, c.want, m.most)
			require.Equal(t, c.guess, m.guess)
		})
	}
}

// sizedStub says what the reply needs that a plan keeps free.
type sizedStub struct {
	stub
	reply int
}

func (sizedStub) overhead(*Request) int  { return 512 }
func (s sizedStub) reserve(*Request) int { return s.reply }
