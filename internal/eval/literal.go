package eval

import (
	"iter"
	"strings"
)

// Literals iterates over the literals of a text, repeated ones each time: runs
// of [A-Za-z0-9_./:@#-] without trailing .:,- that have at least five
// characters and at least one of: a slash, an underscore, two colons, a dot
// between letters or digits, a capital after a small letter, four digits in a
// row.
func Literals(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(text); {
			if !literalByte(text[i]) {
				i++
				continue
			}
			j := i
			for j < len(text) && literalByte(text[j]) {
				j++
			}
			if t := strings.TrimRight(text[i:j], ".:,-"); isLiteral(t) && !yield(t) {
				return
			}
			i = j
		}
	}
}

func literalByte(c byte) bool {
	return alnum(c) || strings.IndexByte("_./:@#-", c) >= 0
}

func alnum(c byte) bool { return lower(c) || upper(c) || digit(c) }
func lower(c byte) bool { return c >= 'a' && c <= 'z' }
func upper(c byte) bool { return c >= 'A' && c <= 'Z' }
func digit(c byte) bool { return c >= '0' && c <= '9' }

func isLiteral(t string) bool {
	if len(t) < 5 {
		return false
	}
	digits := 0
	for i := 0; i < len(t); i++ {
		c := t[i]
		if digit(c) {
			if digits++; digits == 4 {
				return true
			}
		} else {
			digits = 0
		}
		switch {
		case c == '/' || c == '_':
			return true
		case i == 0:
		case c == ':' && t[i-1] == ':':
			return true
		case upper(c) && lower(t[i-1]):
			return true
		case c == '.' && i+1 < len(t) && alnum(t[i-1]) && alnum(t[i+1]):
			return true
		}
	}
	return false
}
