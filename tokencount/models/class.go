package models

import "unicode/utf8"

// sampleSize is how many bytes of a text are looked at to tell its class.
const sampleSize = 4 << 10

// ClassOf tells the class of a text from at most its first 4 KiB. It is a guess
// by which characters there are: good enough to choose a factor, not to tell
// languages apart. An empty text is Prose.
func ClassOf(text string) Class {
	var han, kana, hangul, cyrillic, arabic, marked, letters, digits, symbols, quotes, lines, runes int
	for i := 0; i < len(text) && i < sampleSize; {
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		runes++
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letters++
		case r >= '0' && r <= '9':
			digits++
		case r == '\n':
			lines++
		case r == '"':
			quotes++
		case r == '{' || r == '}' || r == '(' || r == ')' || r == '[' || r == ']' || r == ';' || r == '=' ||
			r == '<' || r == '>' || r == '_' || r == '/' || r == ':' || r == '*' || r == '&' || r == '|' || r == '\\':
			symbols++
		case r < 0xc0:
		case r < 0x250, r >= 0x1e00 && r < 0x1f00:
			marked++
		case r >= 0x400 && r < 0x530:
			cyrillic++
		case r >= 0x600 && r < 0x780, r >= 0xfb50 && r < 0xff00 && r != 0xfeff:
			arabic++
		case r >= 0x3040 && r < 0x3100:
			kana++
		case r >= 0xac00 && r < 0xd7a4:
			hangul++
		case r >= 0x3400 && r < 0xa000, r >= 0x20000 && r < 0x32000:
			han++
		}
	}
	// A character of these scripts costs about four times a Latin letter.
	wide := han + kana + hangul + cyrillic + arabic
	if 4*wide > letters+digits+symbols {
		switch max(han+kana, hangul, cyrillic, arabic) {
		case hangul:
			return Korean
		case cyrillic:
			return Cyrillic
		case arabic:
			return Arabic
		}
		if kana*10 > han {
			return Japanese
		}
		return Chinese
	}
	switch {
	case quotes*16 > runes:
		return JSON
	case digits*7 > runes:
		return Log
	case symbols*22 > runes:
		return Code
	case marked*80 > letters:
		return German
	}
	return Prose
}
