package summarize

import (
	"strconv"
	"unicode/utf8"
)

// unveil returns a text without the characters that nobody sees, written out or as
// escapes of JSON, and where in s each byte of it is; s and nil when there are
// none. What takes such characters out later would otherwise make a secret whole
// again that was not recognized with them.
func unveil(s string) (bare string, at []int) {
	i := veiled(s, 0)
	if i == len(s) {
		return s, nil
	}
	text := make([]byte, 0, len(s))
	at = make([]int, 0, len(s))
	for from := 0; ; {
		for k := from; k < i; k++ {
			at = append(at, k)
		}
		text = append(text, s[from:i]...)
		if i == len(s) {
			return string(text), at
		}
		from = i + veil(s, i)
		i = veiled(s, from)
	}
}

// veiled returns the first place from i on where a hidden character stands;
// len(s) when there is none.
func veiled(s string, i int) int {
	for i < len(s) {
		if c := s[i]; c >= ' ' && c < 0x7F && c != '\\' {
			i++
			continue
		}
		if veil(s, i) > 0 {
			return i
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
	}
	return i
}

// veil returns how many bytes the hidden character at s[i] has; 0 when there is
// none.
func veil(s string, i int) int {
	r, n := utf8.DecodeRuneInString(s[i:])
	if r == '\\' {
		if len(s)-i < 6 || s[i+1] != 'u' {
			return 0
		}
		u, err := strconv.ParseUint(s[i+2:i+6], 16, 16)
		if err != nil {
			return 0
		}
		r, n = rune(u), 6
	}
	if hidden(r) {
		return n
	}
	return 0
}

// hidden reports whether a rune shows nothing and separates nothing.
func hidden(r rune) bool {
	switch r {
	case '\t', '\n', '\r', '\v', '\f', 0x85: // ends of lines and blanks
		return false
	}
	return invisible(r) || smuggled(r)
}
