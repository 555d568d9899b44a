package recall

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// ReadOptions are the optional settings of [Read].
type ReadOptions struct {
	// Cursor continues where a page ended; empty starts at the beginning.
	Cursor string
	// MaxTokens bounds the page, counted by Count; default 4000. At least a
	// part of one message is returned.
	MaxTokens int
	// Count prices a text; nil means a token for four bytes.
	Count func(string) int
}

// Page is a part of a transcript.
type Page struct {
	// Text is the transcript: each message under a line with its seq and role.
	Text string `json:"text"`
	// From and To are the first and last event on the page.
	From session.Seq `json:"from"`
	To   session.Seq `json:"to"`
	// Messages counts those on the page, Total those of the scope.
	Messages int `json:"messages"`
	Total    int `json:"total"`
	// Next is the cursor of the next page; empty on the last one.
	Next string `json:"next,omitempty"`
}

// Read returns the messages of a scope as a transcript, page by page.
func Read(v session.View, scope Scope, opts *ReadOptions) (*Page, error) {
	var o ReadOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = 4000
	}
	if o.Count == nil {
		o.Count = perFour
	}
	seqs, err := scope.seqs(v)
	if err != nil {
		return nil, err
	}
	at, off, err := parseCursor(o.Cursor)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(seqs, func(q session.Seq) bool { return q >= at })
	p := &Page{From: session.NoSeq, To: session.NoSeq, Total: len(seqs)}
	if i < 0 {
		return p, nil
	}
	var b strings.Builder
	left := o.MaxTokens
	for ; i < len(seqs); i++ {
		text, err := Transcript(v, seqs[i])
		if err != nil {
			return nil, err
		}
		if seqs[i] == at && off > 0 {
			text = text[min(off, len(text)):]
			if i+1 < len(seqs) && text == "" {
				continue
			}
		} else {
			off = 0
		}
		cost := o.Count(text)
		if cost > left {
			if b.Len() > 0 {
				p.Next = cursor(seqs[i], off)
				break
			}
			cut := fitPrefix(text, left, o.Count)
			b.WriteString(text[:cut])
			p.From, p.To, p.Messages = seqs[i], seqs[i], 1
			if off+cut < off+len(text) {
				p.Next = cursor(seqs[i], off+cut)
			} else if i+1 < len(seqs) {
				p.Next = cursor(seqs[i+1], 0)
			}
			break
		}
		b.WriteString(text)
		left -= cost
		if p.From == session.NoSeq {
			p.From = seqs[i]
		}
		p.To = seqs[i]
		p.Messages++
	}
	p.Text = b.String()
	return p, nil
}

// fitPrefix returns how many bytes of a text, at a line or a character, have at
// most n tokens; at least one character.
func fitPrefix(text string, n int, count func(string) int) int {
	lo, hi := 0, len(text)
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if count(text[:mid]) <= n {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if i := strings.LastIndexByte(text[:lo], '\n'); i > lo/2 {
		return i + 1
	}
	for lo > 0 && lo < len(text) && text[lo]&0xc0 == 0x80 {
		lo--
	}
	if lo == 0 {
		for lo = 1; lo < len(text) && text[lo]&0xc0 == 0x80; lo++ {
		}
	}
	return lo
}

func cursor(seq session.Seq, off int) string {
	return strconv.FormatInt(int64(seq), 10) + ":" + strconv.Itoa(off)
}

func parseCursor(c string) (session.Seq, int, error) {
	if c == "" {
		return 0, 0, nil
	}
	a, b, ok := strings.Cut(c, ":")
	seq, err1 := strconv.ParseInt(a, 10, 64)
	off, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || seq < 0 || off < 0 {
		return 0, 0, fmt.Errorf("cursor %q: want one that a page returned", c)
	}
	return session.Seq(seq), off, nil
}

// Transcript returns one message as text for reading: a line with seq and role,
// then its text, calls and results. Pictures and files are named, reasoning is
// left out.
func Transcript(v session.View, seq session.Seq) (string, error) {
	_, m, err := message(v, seq)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s\n", seq, m.Role)
	writeParts(&b, m.Parts)
	return b.String(), nil
}

func writeParts(b *strings.Builder, parts []session.Part) {
	line := func(s string) {
		if s != "" {
			b.WriteString(s)
			b.WriteByte('\n')
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case session.Text:
			line(p.Text)
		case session.ToolCall:
			line("call " + p.Name + " " + p.Arguments)
		case session.ToolResult:
			switch {
			case p.IsError:
				line(strings.TrimSpace("error result " + p.Name))
			case p.Name != "":
				line("result " + p.Name)
			}
			writeParts(b, p.Parts)
		case session.Image:
			line("[image " + p.MediaType + "]")
		case session.File:
			line("[file " + p.Name + "]")
		case session.Opaque:
			line("[" + p.Kind + "]")
		}
	}
}
