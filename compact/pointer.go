package compact

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/agentcompact/agentcompact/session"
)

// Pointer names a shadowed span so that recall finds it.
type Pointer struct {
	// Compaction is the id of the compaction; empty for a pruned result.
	Compaction string
	// Start and End are the lowest and highest shadowed seq, Count how many
	// messages there are.
	Start, End session.Seq
	Count      int
}

// String returns the text of the pointer, one line:
//
//	[history: 42 messages, events 3-88, compaction c7f3]
func (p Pointer) String() string {
	s := fmt.Sprintf("[history: %d messages, events %d-%d", p.Count, p.Start, p.End)
	if p.Count == 1 {
		s = fmt.Sprintf("[history: 1 message, event %d", p.Start)
	}
	if p.Compaction != "" {
		s += ", compaction " + p.Compaction
	}
	return s + "]"
}

// A short form has its pointer behind what it says of what is left out.
var pointerText = regexp.MustCompile(`(?:\[|left out; )history: (\d+) messages?, events? (\d+)(?:-(\d+))?(?:, compaction ([A-Za-z0-9_-]+))?\]`)

// ParsePointers returns the pointers in a text, in order. Text is no proof: a
// pointer names a span, it does not grant anything.
func ParsePointers(text string) []Pointer {
	var out []Pointer
	for _, m := range pointerText.FindAllStringSubmatch(text, -1) {
		n, err1 := strconv.Atoi(m[1])
		a, err2 := strconv.ParseInt(m[2], 10, 64)
		b, err3 := a, error(nil)
		if m[3] != "" {
			b, err3 = strconv.ParseInt(m[3], 10, 64)
		}
		if err1 != nil || err2 != nil || err3 != nil || b < a {
			continue
		}
		out = append(out, Pointer{Compaction: m[4], Start: session.Seq(a), End: session.Seq(b), Count: n})
	}
	return out
}
