package summarize

import (
	_ "embed"
	"fmt"
	"strings"
)

// PromptVersion names the instructions of the language-model summarizer. It
// changes with every change of their words.
const PromptVersion = "note/1"

//go:embed prompts/rules.txt
var rules string

// task returns the part of the instructions that belongs to one request. It
// follows the conversation.
func task(req *Request, extra string, replay bool) string {
	var b strings.Builder
	switch {
	case replay:
		b.WriteString("Stop here. This message is not from the user.\n\n")
		b.WriteString(strings.TrimSpace(rules))
		if req.Parts > 1 {
			fmt.Fprintf(&b, "\n\nAbove is part %d of %d of the conversation; the others have their own notes.", req.Part, req.Parts)
		}
		b.WriteString("\n\nNow write the note for the conversation above.")
	case isReduce(req):
		b.WriteString("Above are the notes on consecutive parts of one conversation, oldest first. Now write the one note that replaces them all.")
	case req.Parts > 1:
		fmt.Fprintf(&b, "Above is part %d of %d of the conversation. Now write the note for this part; the others have their own.", req.Part, req.Parts)
	default:
		b.WriteString("Now write the note for the conversation above.")
	}
	if req.MaxTokens > 0 {
		fmt.Fprintf(&b, " Use at most %d tokens, about %d words.", req.MaxTokens, max(1, req.MaxTokens*2/3))
	}
	if l := strings.TrimSpace(req.Language); l != "" {
		fmt.Fprintf(&b, "\nWrite in this language: %s.", Defuse(l))
	} else {
		b.WriteString("\nWrite in the language that the user writes in.")
	}
	b.WriteString(" Headings and literals stay as they are.")
	for _, s := range []string{extra, req.Instructions} {
		if s = strings.TrimSpace(s); s != "" {
			b.WriteString("\nThe user asks of this note: " + fenceSafe(s))
		}
	}
	if req.Correction != "" {
		b.WriteString("\nYour last attempt could not be used: " + fenceSafe(req.Correction))
	}
	return b.String()
}

// correction words what was wrong with an attempt, for the next one.
func correction(f *Failure) string {
	switch f.Class {
	case Empty:
		return "it had no text. Write the note as plain text."
	case Reasoning:
		return "it had thoughts but no text. Write the note itself as the answer."
	case Truncated:
		return "it was cut off at the reply limit. Write a shorter note."
	case ToolCalled:
		return "it called a tool. Call none; write the note as plain text."
	case Degenerate:
		return "it was not a note (" + f.Detail + "). Write the note in full."
	case Sections:
		return f.Detail + ". Write every section under its heading."
	case Inflated:
		return "it was too long (" + f.Detail + "). Write a shorter note."
	case Invented:
		return "it said what the conversation does not say (" + f.Detail + ")."
	}
	return f.Detail
}

func isReduce(req *Request) bool {
	return len(req.Items) > 0 && req.Items[0].label != "" && !req.Items[0].piece
}
