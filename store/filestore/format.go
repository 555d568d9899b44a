package filestore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// The file, version 1. Every line is one JSON object and ends with a newline.
// The first line is the header:
//
//	{"format":"agentcompact-session","version":1,"created":1790000000000}
//
// Every other line is one event:
//
//	{"left":0,"synced":1234,"event":{"seq":7,…},"crc":"89abcdef"}
//
// left is the number of lines of the same append that follow this one: an
// append is in the file when its line with left 0 is. synced, on some lines,
// says that the first so many bytes of the file had been synced when the line
// was written: a bad line in them is damage, and a bad line behind the highest
// of these marks is a torn write. event is the encoding of package session,
// with seqs contiguous from 0. crc is the CRC-32C (Castagnoli), in lower-case
// hex, of all bytes of the line before ,"crc". Nothing is ever written between
// lines, and nothing but a torn end is ever removed. A file that is empty, or
// ends within the header, or consists of a few NUL bytes, has no events yet.

// FormatVersion is the version of the file format that this package writes.
const FormatVersion = 1

const formatName = "agentcompact-session"

// trailer is what follows the bytes that the checksum covers.
const trailer = len(`,"crc":"89abcdef"}`)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Created int64  `json:"created"`
}

const headerStart = `{"format":"` + formatName + `",`

func appendHeader(dst []byte, created time.Time) []byte {
	return fmt.Appendf(dst, headerStart+"\"version\":%d,\"created\":%d}\n", FormatVersion, created.UnixMilli())
}

// parseHeader reads the header at the start of b, which holds the head of the
// file. It returns the length of the header, or 0 when the file ends within
// one.
func parseHeader(name string, b []byte) (int, error) {
	if len(b) <= maxHeader && len(bytes.Trim(b, "\x00")) == 0 {
		return 0, nil // the file was made longer before its bytes arrived
	}
	if n := min(len(b), len(headerStart)); string(b[:n]) != headerStart[:n] {
		return 0, &FormatError{Path: name}
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if len(b) > maxHeader {
			return 0, &FormatError{Path: name}
		}
		return 0, nil
	}
	var h header
	if err := json.Unmarshal(b[:end], &h); err != nil || h.Version < 1 {
		return 0, &FormatError{Path: name}
	}
	if h.Version > FormatVersion {
		return 0, &VersionError{Path: name, Version: h.Version}
	}
	return end + 1, nil
}

const lineStart = `{"left":`

const maxHeader = 1 << 12

// appendLine appends the line of an event. synced is left out when it is 0.
func appendLine(dst, event []byte, left int, synced int64) []byte {
	start := len(dst)
	dst = append(dst, lineStart...)
	dst = strconv.AppendInt(dst, int64(left), 10)
	if synced > 0 {
		dst = append(dst, `,"synced":`...)
		dst = strconv.AppendInt(dst, synced, 10)
	}
	dst = append(dst, `,"event":`...)
	dst = append(dst, event...)
	sum := crc32.Checksum(dst[start:], castagnoli)
	dst = append(dst, `,"crc":"`...)
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[sum>>shift&15])
	}
	return append(dst, "\"}\n"...)
}

// line is a line of the file, taken apart. Its slices share memory with it.
type line struct {
	left   int
	synced int64
	event  []byte
	start  int // of event in the line
}

// parseLine takes a line without its newline apart and reports whether it is
// whole.
func parseLine(b []byte) (l line, ok bool) {
	end := len(b) - trailer
	if end < 0 || string(b[end:end+8]) != `,"crc":"` || string(b[len(b)-2:]) != `"}` {
		return l, false
	}
	var sum uint32
	for _, c := range b[end+8 : len(b)-2] {
		switch {
		case c >= '0' && c <= '9':
			sum = sum<<4 | uint32(c-'0')
		case c >= 'a' && c <= 'f':
			sum = sum<<4 | uint32(c-'a'+10)
		default:
			return l, false
		}
	}
	if crc32.Checksum(b[:end], castagnoli) != sum {
		return l, false
	}
	rest, ok := bytes.CutPrefix(b[:end], []byte(lineStart))
	if !ok {
		return l, false
	}
	left, rest, ok := number(rest)
	if !ok || left > 1<<31-1 {
		return l, false
	}
	if r, found := bytes.CutPrefix(rest, []byte(`,"synced":`)); found {
		if l.synced, rest, ok = number(r); !ok {
			return l, false
		}
	}
	if l.event, ok = bytes.CutPrefix(rest, []byte(`,"event":`)); !ok {
		return l, false
	}
	l.left, l.start = int(left), end-len(l.event)
	return l, true
}

func number(b []byte) (n int64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && i < 18 && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	return n, b[i:], i > 0
}

// seqOf reads the seq of an encoded event without the rest.
func seqOf(event []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(event, []byte(`{"seq":`))
	if !ok {
		return 0, false
	}
	n, _, ok := number(rest)
	return n, ok
}
