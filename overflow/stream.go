package overflow

import (
	"bytes"
	"strings"
)

const (
	streamHead = 32 << 10
	streamTail = 96 << 10
)

// ClassifyStream says what a stream ended with. data is what the stream held,
// or its end: server-sent events, JSON lines, or a bare JSON error in place of
// events. What the model said in the stream is never taken for an error. A
// stream without an error gives the zero Result, or what [ClassifyFinish] says
// about its finish reason.
//
// Of long data the head and the tail are read.
func ClassifyStream(data []byte, opts ...Option) Result {
	ev := newEvidence(opts)
	ev.status = 200
	if len(data) > streamHead+streamTail {
		head, tail := data[:streamHead], data[len(data)-streamTail:]
		if i := bytes.LastIndexByte(head, '\n'); i >= 0 {
			head = head[:i]
		}
		if i := bytes.IndexByte(tail, '\n'); i >= 0 {
			tail = tail[i+1:]
		}
		data = bytes.Join([][]byte{head, tail}, []byte("\n"))
	}
	ev.fromStream(data)
	return ev.classify()
}

// fromStream keeps the evidence of the first event that is an error; without
// one, the finish reason and usage of the last that has them.
func (ev *evidence) fromStream(data []byte) {
	if ev.status == 0 {
		ev.status = 200
	}
	base := *ev
	last := *ev
	var rest strings.Builder
	var event strings.Builder
	name := ""
	events := 0
	found := false
	flush := func() {
		if event.Len() == 0 || found {
			name = ""
			return
		}
		one := base
		events++
		text := strings.TrimSpace(event.String())
		event.Reset()
		if text == "[DONE]" {
			return
		}
		if text != "" && (text[0] == '{' || text[0] == '[') {
			one.fromJSON(text)
		} else if name == "error" {
			one.fromText(text)
		}
		if name == "error" {
			one.isError = true
		}
		name = ""
		switch {
		case one.isError:
			last, found = one, true
		default:
			if one.finish != "" {
				last.finish = one.finish
			}
			if one.usage.Input > 0 || one.usage.outputKnown {
				last.usage.Input = max(last.usage.Input, one.usage.Input)
				last.usage.Output = max(last.usage.Output, one.usage.Output)
			}
		}
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		trimmed := bytes.TrimSpace(line)
		switch {
		case len(trimmed) == 0:
			flush()
		case bytes.HasPrefix(trimmed, []byte("data:")):
			payload := bytes.TrimSpace(trimmed[len("data:"):])
			if event.Len() > 0 && len(payload) > 0 && (payload[0] == '{' || payload[0] == '[') {
				flush() // events without blank lines between them
			}
			event.Write(payload)
			event.WriteByte('\n')
		case bytes.HasPrefix(trimmed, []byte("event:")):
			flush()
			name = strings.ToLower(string(bytes.TrimSpace(trimmed[len("event:"):])))
		case trimmed[0] == ':' || bytes.HasPrefix(trimmed, []byte("id:")) || bytes.HasPrefix(trimmed, []byte("retry:")):
			// comment or field of no use here
		default:
			rest.Write(line)
			rest.WriteByte('\n')
		}
	}
	flush()
	if !found {
		ev.fromRest(&last, base, strings.TrimSpace(rest.String()), events)
		return
	}
	*ev = last
}

// fromRest reads what stood outside of events.
func (ev *evidence) fromRest(last *evidence, base evidence, text string, events int) {
	one := base
	if text != "" {
		if text[0] == '{' || text[0] == '[' {
			one.fromJSON(text)
		} else if events == 0 {
			one.fromText(text)
			one.isError = true
		}
	}
	if one.isError || (events == 0 && one.finish != "") {
		*ev = one
		return
	}
	*ev = *last
}
