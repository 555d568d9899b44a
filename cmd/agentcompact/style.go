package main

import (
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// colored reports whether output may have colors: a terminal that can, and
// nobody who asked for none (no-color.org).
func colored(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

func (a *app) style(code, s string) string {
	if !a.color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (a *app) bold(s string) string  { return a.style("1", s) }
func (a *app) dim(s string) string   { return a.style("2", s) }
func (a *app) red(s string) string   { return a.style("31", s) }
func (a *app) green(s string) string { return a.style("32", s) }
func (a *app) cyan(s string) string  { return a.style("36", s) }

// visible takes out of a transcript's text what would move the cursor or change
// colors on a terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r):
			return '\uFFFD'
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069: // direction
			return '\uFFFD'
		}
		return r
	}, s)
}
