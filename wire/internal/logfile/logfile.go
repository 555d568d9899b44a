// Package logfile reads and extends session files that are logs: JSONL that only
// grows.
package logfile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Scan calls take for every object of the file; take reports whether it is a
// record of the format. The value is take's for the call only. The notes say
// what was passed over. The error says that there is no record at all, or that
// the file could not be read.
func Scan(ctx context.Context, format string, text *jsonl.File, expected string, take func(v jsonl.Value) bool) (notes []string, err error) {
	known, bad, odd, first, n := false, 0, 0, 0, 0
	for v, err := range text.Values() {
		if err != nil {
			return nil, &wire.Error{Format: format, Detail: "the file could not be read", Err: err}
		}
		if n++; n%512 == 0 && ctx.Err() != nil {
			return nil, &wire.Error{Format: format, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		switch {
		case v.Torn():
			notes = append(notes, fmt.Sprintf("line %d: the last record is cut short and was passed over", v.Line))
		case v.Err != nil:
			if bad++; bad == 1 {
				first = v.Line
			}
		case !v.IsObject():
			odd++
		default:
			known = take(v) || known
		}
	}
	if !known {
		return nil, &wire.Error{Format: format, Line: max(first, 1), Detail: "no record of a session found; expected " + expected}
	}
	if bad > 0 {
		notes = append(notes, fmt.Sprintf("%d lines are not JSON and were passed over, the first is line %d", bad, first))
	}
	if odd > 0 {
		notes = append(notes, fmt.Sprintf("%d values are not objects and were passed over", odd))
	}
	return notes, nil
}

// Writer writes a log with the records that Tail makes behind it.
type Writer struct {
	Format  string
	Text    *jsonl.File
	Entries int
	// Tail makes the records that say what the surface is. It is not called
	// for an unchanged one.
	Tail func(ctx context.Context, items []wire.Item) ([]rawjson.Object, error)
}

var _ wire.Writer = (*Writer)(nil)

// Write implements [wire.Writer].
func (w *Writer) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	if conversation != 0 {
		return &wire.Error{Format: w.Format, Detail: fmt.Sprintf("there is no conversation %d; a session has one", conversation)}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var tail []byte
	if items != nil && !splice.Unchanged(w.Entries, items) {
		if err := Check(w.Format, w.Entries, items); err != nil {
			return err
		}
		recs, err := w.Tail(ctx, items)
		if err != nil {
			return err
		}
		ends, err := w.Text.EndsLine()
		if err != nil {
			return err
		}
		if !ends {
			tail = append(tail, '\n')
		}
		for _, r := range recs {
			tail = append(append(tail, OneLine(r.Bytes())...), '\n')
		}
	}
	return Copy(ctx, w.Format, w.Text, out, tail)
}

// Copy writes the file with the records of tail behind it, which must begin
// with a line break where the file does not end a line.
func Copy(ctx context.Context, format string, text *jsonl.File, out io.Writer, tail []byte) error {
	if err := text.Copy(ctx, out); err != nil {
		return &wire.Error{Format: format, Detail: "the session could not be written", Err: err}
	}
	if _, err := out.Write(tail); err != nil {
		return fmt.Errorf("write %s: %w", format, err)
	}
	return nil
}

// Check refuses items that an agent's log cannot hold.
func Check(format string, entries int, items []wire.Item) error {
	if err := splice.Check(format, entries, items); err != nil {
		return err
	}
	if len(items) == 0 {
		return &wire.Error{Format: format, Detail: "a conversation without messages cannot be written; leave at least a checkpoint"}
	}
	for i, it := range items {
		if m := it.Message; m != nil && (m.Role == session.RoleDeveloper || m.Role == session.RoleSystem) {
			return &wire.Error{Format: format, Detail: fmt.Sprintf("item %d is a %s message, which the format does not have; make it a user message", i, m.Role)}
		}
	}
	return nil
}

// OneLine takes line breaks between tokens out of a value.
func OneLine(raw json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw // unreachable: records are made of valid values
	}
	return b.Bytes()
}
