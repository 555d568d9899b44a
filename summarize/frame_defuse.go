package summarize

import (
	"regexp"
	"strings"
)

var forged = regexp.MustCompile(`(?i)\[[ \t]*(/?[ \t]*(?:end of )?checkpoint|history[ \t]*:)`)

// Defuse makes text harmless as content of a checkpoint or of a transcript: it
// cannot close or forge our framing, whatever it contains, and stays readable.
// Defusing twice is defusing once.
func Defuse(text string) string {
	s := strings.ToValidUTF8(text, "\uFFFD")
	s = forged.ReplaceAllStringFunc(s, func(t string) string { return "(" + t[1:] })
	s = controlTag.ReplaceAllStringFunc(s, func(t string) string { return "<" + zwsp + t[1:] })
	return s
}
