package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A literal is a token that has to be quoted exactly to be of use: a path, an
// identifier, a number, a URL, a version, a hash. It is told by its shape, in
// any script.

// literalByte classes bytes: 1 joins a token, 2 also makes it worth quoting.
var literalByte = func() (t [256]byte) {
	for c := '0'; c <= '9'; c++ {
		t[c] = 1
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-32] = 1, 1
	}
	for _, c := range "._/:@#-~%+=?&$" {
		t[c] = 1
	}
	return t
}()

// nextLiteral finds the first literal of s at or after i, from start to end; -1
// when there is none.
func nextLiteral(s string, i int) (start, end int) {
	for i < len(s) {
		c := s[i]
		if literalByte[c] == 0 && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if !joins(r) {
				i += n
				continue
			}
		}
		j := i
		for j < len(s) {
			if c := s[j]; c < utf8.RuneSelf {
				if literalByte[c] == 0 {
					break
				}
				j++
				continue
			}
			r, n := utf8.DecodeRuneInString(s[j:])
			if !joins(r) {
				break
			}
			j += n
		}
		a, b := trimLiteral(s, i, j)
		if a > 0 && a < b && s[a] == '/' && s[a-1] == '<' {
			a++ // the name of a tag
		}
		if a > 0 && s[a-1] == '\\' && a < b && strings.IndexByte("ntrbf", s[a]) >= 0 && isLiteral(s[a+1:b]) {
			a++ // an escape in front of it
		}
		if isLiteral(s[a:b]) {
			return a, b
		}
		i = j
	}
	return -1, -1
}

// joins reports whether a rune outside ASCII is part of a token: letters of
// scripts that write words apart.
func joins(r rune) bool {
	if r < 0x250 {
		return unicode.IsLetter(r)
	}
	return unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Mn)
}

func trimLiteral(s string, a, b int) (int, int) {
	for a < b && (s[a] == ':' || s[a] == '-' || s[a] == '=' || s[a] == '?' || s[a] == '&' || s[a] == '%' || s[a] == '+') {
		a++
	}
	for a < b && (s[b-1] == '.' || s[b-1] == ':' || s[b-1] == '-' || s[b-1] == '?' || s[b-1] == '=' || s[b-1] == '&' || s[b-1] == '+') {
		b--
	}
	return a, b
}

func isLiteral(t string) bool {
	if len(t) < 4 || len(t) > 300 {
		return false
	}
	digits, alnum, hyphens := 0, 0, 0
	var prev byte
	mark := false
	for i := 0; i < len(t); i++ {
		c := t[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
			alnum++
			if prev == '.' && i > 1 && isAlnum(t[i-2]) {
				mark = true
			}
		case c >= 'A' && c <= 'Z':
			alnum++
			if prev >= 'a' && prev <= 'z' {
				mark = true
			}
			if prev == '.' && i > 1 && isAlnum(t[i-2]) {
				mark = true
			}
		case c >= 'a' && c <= 'z':
			alnum++
			if prev == '.' && i > 1 && isAlnum(t[i-2]) {
				mark = true
			}
		case c == '/' || c == '_' || c == '@' || c == '#':
			mark = true
		case c == ':' && prev == ':':
			mark = true
		case c == '-':
			hyphens++
		case c >= utf8.RuneSelf:
			alnum++
		}
		prev = c
	}
	if alnum < 2 {
		return false
	}
	return mark || digits >= 4 || digits > 0 && alnum > digits || hyphens >= 2 && alnum > 6
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
