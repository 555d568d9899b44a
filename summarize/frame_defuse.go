package summarize

import (
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
)

// What must not stand in content, matched on its skeleton. A group, where there
// is one, is where the break goes.
var (
	// tags that chat formats, prompts and our own framing use
	liveTag = longest(`<[ \t\n]*[/!]?[ \t\n]*(?:summary|analysis|summary[_ -]?request|thinking|think|reasoning|scratchpad|antml|` +
		`conversation|checkpoint|chat[_-]?history|history|state_snapshot|compacted?|` +
		`system|system[_ -]?(?:reminder|prompt|message|instructions?)|developer|user|user[_ -]?(?:message|query|instructions?)|assistant|human|` +
		`tool[_ -]?(?:calls?|use|results?|response)|function[_ -]?(?:calls?|results?|response)|invoke|parameter|environment_context)`)
	// tokens of chat templates
	liveToken = regexp.MustCompile(`<[ \t]*\|[ \t]*[a-z_]+|<<[ \t]*/?[ \t]*sys[ \t]*>>|<start_of_turn>|<end_of_turn>|<(?:function|tool)=|<!--|<!\[cdata\[`)
	liveInst  = regexp.MustCompile(`\[[ \t]*/?[ \t]*inst[ \t]*\]`)
	// our framing
	liveFrame = regexp.MustCompile(`\[[ \t\n]*(?:/[ \t\n]*)?(?:end[ \t\n]+(?:of[ \t\n]+)?)?(?:checkpoint|history[ \t\n]*:)`)
	// lines that look like a part of ours, or like another speaker
	liveLine = regexp.MustCompile(`(?m)^[ \t]*(?:#{1,6}[ \t]*|[*_]{1,3}[ \t]*)?(?:user|present|todo|tools|failed|files|quotes|system|assistant|human|developer|ai|tool|model)[ \t*_]*:[ \t*_]*`)
	liveUser = regexp.MustCompile(`(?m)^[ \t]*[0-9]+[ \t]*>`)
)

// longest compiles an expression that reads names to their end.
func longest(expr string) *regexp.Regexp {
	re := regexp.MustCompile(expr)
	re.Longest()
	return re
}

// Defuse makes text harmless as content of a checkpoint or of a transcript, and
// leaves it readable: it cannot close or forge our framing, open a block that
// swallows what follows, or speak as somebody else by way of tags, template
// tokens, invisible or look-alike characters. Invalid UTF-8 becomes U+FFFD; control characters and characters
// that reorder text are taken out. What is not of that kind is left byte for
// byte. Defusing twice is defusing once.
func Defuse(text string) string { return defuse(text, false) }

// defuseBlock is [Defuse] for text whose lines stand in a checkpoint without a
// mark in front: besides, no line can pass for a part of the checkpoint or for
// another speaker.
func defuseBlock(text string) string { return defuse(text, true) }

func defuse(text string, block bool) string {
	s := plainText(text)
	marks := marksOf(s)
	if !block {
		marks &= markTag | markBracket
	}
	if marks == 0 {
		return closeFences(s)
	}
	k := skeletonOf(s)
	type edit struct {
		at  int
		cut int
		put string
	}
	var edits []edit
	breakAfter := func(re *regexp.Regexp) {
		for _, m := range re.FindAllIndex(k.text, -1) {
			at := int(k.at[m[0]])
			_, n := utf8.DecodeRuneInString(s[at:])
			if typeArgument(s, at) || re == liveTag && longerName(k.text[m[1]:]) {
				continue
			}
			if !strings.HasPrefix(s[at+n:], zwsp) {
				edits = append(edits, edit{at: at + n, put: zwsp})
			}
		}
	}
	if marks&markTag != 0 {
		breakAfter(liveTag)
		breakAfter(liveToken)
	}
	if marks&markBracket != 0 {
		breakAfter(liveInst)
		for _, m := range liveFrame.FindAllIndex(k.text, -1) {
			at := int(k.at[m[0]])
			_, n := utf8.DecodeRuneInString(s[at:])
			edits = append(edits, edit{at: at, cut: n, put: "("})
		}
	}
	breakLine := func(re *regexp.Regexp) {
		for _, m := range re.FindAllIndex(k.text, -1) {
			edits = append(edits, edit{at: int(k.at[m[0]]), put: "| "})
		}
	}
	if marks&markColon != 0 {
		breakLine(liveLine)
	}
	if marks&markQuote != 0 {
		breakLine(liveUser)
	}
	if len(edits) > 0 {
		sort.SliceStable(edits, func(i, j int) bool { return edits[i].at < edits[j].at })
		var b strings.Builder
		last := 0
		for _, e := range edits {
			if e.at < last {
				continue
			}
			b.WriteString(s[last:e.at])
			b.WriteString(e.put)
			last = e.at + e.cut
		}
		b.WriteString(s[last:])
		s = b.String()
	}
	return closeFences(s)
}

// longerName reports whether a name goes on, so that it is another one.
func longerName(rest []byte) bool {
	if len(rest) == 0 {
		return false
	}
	c := rest[0]
	return isAlnum(c) || (c == '_' || c == '-' || c == '.') && len(rest) > 1 && isAlnum(rest[1])
}

// typeArgument reports whether the bracket at s[at] opens the type argument of a
// generic type, such as List<User>: code that is quoted must stay what it is.
func typeArgument(s string, at int) bool {
	if at == 0 || !isAlnum(s[at-1]) || at+2 >= len(s) || s[at] != '<' || s[at+1] < 'A' || s[at+1] > 'Z' {
		return false
	}
	i := at + 2
	for i < len(s) && s[i] >= 'a' && s[i] <= 'z' {
		i++
	}
	return i > at+2 && i < len(s) && (s[i] == '>' || s[i] == ',')
}

// plainText takes out what has no place in text, and makes all line ends alike.
func plainText(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; {
		if c := s[i]; c < utf8.RuneSelf {
			clean = c >= 0x20 && c != 0x7F || c == '\n' || c == '\t'
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		clean = !(r == utf8.RuneError && n == 1) && !smuggled(r) && r != 0x2028 && r != 0x2029
		i += n
	}
	if clean {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s { // an invalid byte is U+FFFD
		switch {
		case r == '\r', r == '\v', r == '\f', r == 0x85, r == 0x2028, r == 0x2029:
			b.WriteByte('\n')
		case smuggled(r):
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// The characters that shapes need, as bits.
const (
	markTag     = 1 << iota // <
	markBracket             // [
	markColon               // :
	markQuote               // >
)

// markOf has the marks of ASCII.
var markOf = [utf8.RuneSelf]uint8{'<': markTag, '[': markBracket, ':': markColon, '>': markQuote}

// marksOf returns which of the characters that shapes need a text has, or has
// look-alikes of, so that most texts are not looked at any closer.
func marksOf(s string) uint8 {
	var marks uint8
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < utf8.RuneSelf {
			marks |= markOf[c]
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if c := plainRune(r); c != 0 {
			marks |= markOf[c]
		}
		i += n - 1
	}
	return marks
}

var fenceLine = regexp.MustCompile("(?m)^[ \t]{0,3}(`{3,}|~{3,})([^\n]*)$")

// closeFences closes a Markdown fence that a text leaves open.
func closeFences(s string) string {
	if !strings.Contains(s, "```") && !strings.Contains(s, "~~~") {
		return s
	}
	open := ""
	for _, m := range fenceLine.FindAllStringSubmatch(s, -1) {
		switch {
		case open == "":
			if m[1][0] == '`' && strings.Contains(m[2], "`") {
				continue // code in a line
			}
			open = m[1]
		case m[1][0] == open[0] && len(m[1]) >= len(open) && strings.TrimSpace(m[2]) == "":
			open = ""
		}
	}
	if open == "" {
		return s
	}
	return strings.TrimRight(s, "\n") + "\n" + open
}
