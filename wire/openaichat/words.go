package openaichat

import (
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// What the builder says in its own words. Each text is in brackets, so that the
// model can tell it from what people and tools said.
const (
	openText      = "[The beginning of this conversation is not shown. It goes on below.]"
	closeText     = "[No new message from the user. Continue with the task.]"
	noteText      = "[Note from the system at this point of the conversation; the user did not write it:]"
	abandonedText = "[No result: this call was interrupted before it finished.]"
	runningText   = "[No result yet: this call is still running.]"
	leftOutText   = "[An attachment stood here. It was left out to keep the request within its size limit.]"
)

func attachedText(id string) string {
	return fmt.Sprintf("[Attached to the result of the call %s:]", quote(id))
}

// quoted makes the note of a result without a call: every line marked, at most
// limit bytes of it. It returns how many bytes were left out.
func quoted(kind toolpairing.Kind, r session.ToolResult, limit int) (string, int) {
	// Whether the call comes later must not matter: the words would change.
	what := "whose call does not stand before it in this conversation"
	if kind == toolpairing.DuplicateResult {
		what = "whose call has a result already"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[Result of a tool %s, quoted as data (call id %s):]", what, quote(splice.Clip(r.CallID, 80)))
	text := strings.ToValidUTF8(session.TextOf(r.Parts), "\uFFFD")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	omitted := 0
	lines := func(s string) {
		for line := range strings.SplitSeq(s, "\n") {
			b.WriteString("\n> ")
			b.WriteString(line)
		}
	}
	if len(text) > limit {
		head, tail := limit*3/4, len(text)-limit/4
		for head > 0 && text[head]&0xc0 == 0x80 {
			head--
		}
		for tail < len(text) && text[tail]&0xc0 == 0x80 {
			tail++
		}
		omitted = tail - head
		lines(text[:head])
		fmt.Fprintf(&b, "\n[%d bytes left out]", omitted)
		lines(text[tail:])
	} else {
		lines(text)
	}
	others := 0
	for _, p := range r.Parts {
		if _, ok := p.(session.Text); !ok {
			others++
		}
	}
	if others > 0 {
		fmt.Fprintf(&b, "\n[%d attachment(s) left out]", others)
	}
	return b.String(), omitted
}
