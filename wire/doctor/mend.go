package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Mended is a document that was cut short, with its end made up.
type Mended struct {
	// Data is the document without the record that was cut, and Codec reads it.
	Data  []byte
	Codec wire.Codec
	// Finding says where the file ends, Change what was done about it.
	Finding Finding
	Change  Change
}

// Mend closes a document whose end is missing, which no codec reads as it is:
// the record that was being written is taken out, as from a log, and the lists
// and objects that it stood in are closed. The first of the codecs that reads
// most messages of that is taken. Mend returns nil when data is no document that
// was cut short, and an error when it is one and holds nothing that can be read.
func Mend(ctx context.Context, data []byte, codecs ...wire.Codec) (*Mended, error) {
	open, ok := openValues(data)
	if !ok {
		return nil, nil
	}
	type attempt struct {
		data     []byte
		codec    wire.Codec
		messages int
		cut      int
	}
	var list []attempt
	most := 0
	for k := range open[:min(len(open), maxNested)] {
		cut := open[k].end
		closed := closeValues(data[:cut:cut], open[:k+1])
		if !json.Valid(closed[splice.Begin(closed):]) {
			return nil, nil // it was wrong before it ended
		}
		codec, _ := wire.Detect(closed, true, codecs...)
		if codec == nil {
			continue
		}
		f, err := codec.Read(ctx, closed)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			continue
		}
		n := 0
		for _, c := range f.Conversations {
			n += c.Len()
		}
		most = max(most, n)
		list = append(list, attempt{closed, codec, n, cut})
	}
	for _, a := range list {
		// The outermost: further in, a part of the record that was cut would
		// pass for the whole one.
		if a.messages == 0 || a.messages < most-1 {
			continue
		}
		var lines counter
		lost := bytes.TrimLeft(data[a.cut:], " \t\r\n,")
		f := finding(TornRecord, "the document is cut short: behind %s there is no end to what begins with %s",
			count(a.messages, "message"), splice.Clip(string(lost), 60))
		f.Consequence = "readers refuse the file; what the last record said is lost"
		f.Offset = int64(a.cut)
		f.Line = lines.of(data, a.cut)
		return &Mended{Data: a.data, Codec: a.codec, Finding: f,
			Change: Change{Kind: TornRecord, Line: f.Line, Detail: fmt.Sprintf("taken out: the last %d bytes, which are no whole record; the document was closed behind them", len(lost))}}, nil
	}
	return nil, &wire.Error{Offset: int64(len(data)), Detail: "the document is cut short, and what stands before that is no message of a known format: get a whole copy of it"}
}

// maxNested is how deep records are looked for.
const maxNested = 12

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// openValue is a list or an object that has no end.
type openValue struct {
	close byte
	end   int  // behind its last whole element or member
	named bool // in an object, a value is next
}

// openValues are the lists and objects in which data ends, from the outside. It
// reports false when data is no JSON value that was cut short.
func openValues(data []byte) (open []openValue, ok bool) {
	i := splice.Begin(data)
	if i == len(data) || data[i] != '{' && data[i] != '[' {
		return nil, false
	}
	done := func(end int) { // a value ended
		if k := len(open) - 1; k >= 0 && (open[k].close == ']' || open[k].named) {
			open[k].end, open[k].named = end, false
		}
	}
	for ; i < len(data); i++ {
		switch c := data[i]; c {
		case ' ', '\t', '\r', '\n', ',':
		case ':':
			open[len(open)-1].named = true
		case '{', '[':
			open = append(open, openValue{close: c + 2, end: i + 1})
		case '}', ']':
			if open[len(open)-1].close != c {
				return nil, false
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return nil, false // it has its end
			}
			done(i + 1)
		case '"':
			end, whole := splice.ValueEnd(data, i)
			if !whole {
				return open, true
			}
			done(end)
			i = end - 1
		default:
			end := i
			for end < len(data) && bytes.IndexByte([]byte(" \t\r\n,:{}[]\""), data[end]) < 0 {
				end++
			}
			if end == len(data) {
				return open, true // a number may have gone on
			}
			done(end)
			i = end - 1
		}
	}
	return open, true
}

// closeValues closes what is open behind data.
func closeValues(data []byte, open []openValue) []byte {
	for k := len(open) - 1; k >= 0; k-- {
		data = append(data, open[k].close)
	}
	return data
}
