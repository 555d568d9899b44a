package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/responses"
)

type writer struct{ f *file }

// Write implements [wire.Writer].
func (w *writer) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	if conversation != 0 {
		return &wire.Error{Format: Format, Detail: fmt.Sprintf("there is no conversation %d; a rollout has one", conversation)}
	}
	var tail []byte
	if items != nil && !w.f.unchanged(items) {
		recs, err := w.f.compactedRecords(items)
		if err != nil {
			return err
		}
		ends, err := w.f.text.EndsLine()
		if err != nil {
			return err
		}
		if !ends {
			tail = append(tail, '\n')
		}
		for _, rec := range recs {
			tail = append(append(tail, rec...), '\n')
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := w.f.text.Copy(ctx, out); err != nil {
		return &wire.Error{Format: Format, Detail: "the rollout could not be written", Err: err}
	}
	if _, err := out.Write(tail); err != nil {
		return fmt.Errorf("write rollout: %w", err)
	}
	return nil
}

func (f *file) unchanged(items []wire.Item) bool {
	if len(items) != len(f.live) {
		return false
	}
	for i, it := range items {
		if it.Entry != i || it.Message != nil {
			return false
		}
	}
	return true
}

// compactedRecords makes the record that says what the history is from here on
// and, for a compaction, the event that the agent writes with it.
func (f *file) compactedRecords(items []wire.Item) ([]json.RawMessage, error) {
	list := []json.RawMessage{}
	for i := range f.lead {
		raw, err := f.raw(&f.lead[i])
		if err != nil {
			return nil, err
		}
		list = append(list, raw)
	}
	own := mark{Messages: []markedMessage{}}
	at := f.last
	text := ""
	custom, err := f.customCalls(items)
	if err != nil {
		return nil, err
	}
	for i, it := range items {
		if it.Entry >= len(f.live) || it.Entry < 0 && it.Message == nil {
			return nil, &wire.Error{Format: Format, Detail: fmt.Sprintf("item %d names no entry of the conversation and has no message", i)}
		}
		mm := markedMessage{At: len(list)}
		if it.Message == nil {
			e, err := f.entry(it.Entry)
			if err != nil {
				return nil, err
			}
			raws, err := f.itemsOf(it.Entry)
			if err != nil {
				return nil, err
			}
			list = append(list, raws...)
			mm.set(e.Message.Source, f, raws[0])
			own.Messages = append(own.Messages, mm)
			continue
		}
		m := it.Message
		if err := m.Validate(); err != nil {
			return nil, &wire.Error{Format: Format, Detail: fmt.Sprintf("item %d cannot be written", i), Err: err}
		}
		encoded := responses.Encode(m, func(id string) bool { return custom[id] })
		if len(encoded) == 0 {
			return nil, &wire.Error{Format: Format, Detail: fmt.Sprintf("item %d has nothing that the format can hold", i)}
		}
		list = append(list, encoded...)
		mm.set(m.Source, f, encoded[0])
		if c := it.Compaction; c != nil {
			text = m.Text()
			own.ID, own.Hides, own.Auto, own.TokensBefore = c.ID, len(c.Shadowed), c.Auto, c.TokensBefore
			if !c.Time.IsZero() {
				at = c.Time
			}
		}
		own.Messages = append(own.Messages, mm)
	}
	// The agent keeps its git snapshots over a compaction, for undo.
	for i := range f.history {
		if s := &f.history[i]; s.kind == kindSnapshot {
			raw, err := f.raw(s)
			if err != nil {
				return nil, err
			}
			list = append(list, raw)
		}
	}
	payload := rawjson.Object{}
	payload.Set("message", text)
	payload.Set("replacement_history", list)
	payload.Set("agentcompact", own)
	out := []json.RawMessage{f.newRecord(at, 1, typeCompacted, payload)}
	if own.ID != "" {
		event := rawjson.Object{}
		event.Set("type", "context_compacted")
		out = append(out, f.newRecord(at, 2, typeEvent, event))
	}
	return out, nil
}

// newRecord makes the n-th record behind the last one of the file.
func (f *file) newRecord(at time.Time, n int64, typ string, payload rawjson.Object) json.RawMessage {
	o := rawjson.Object{}
	o.Set("timestamp", at.UTC().Format("2006-01-02T15:04:05.000Z"))
	if f.ordinal != nil {
		o.Set("ordinal", *f.ordinal+n)
	}
	o.Set("type", typ)
	o.Set("payload", payload)
	return o.Bytes()
}

// customCalls are the ids of calls to free-text tools.
func (f *file) customCalls(items []wire.Item) (map[string]bool, error) {
	custom := map[string]bool{}
	for _, it := range items {
		m := it.Message
		if m == nil && it.Entry >= 0 && it.Entry < len(f.live) {
			e, err := f.entry(it.Entry)
			if err != nil {
				return nil, err
			}
			m = &e.Message
		}
		if m == nil {
			continue
		}
		for _, p := range m.Parts {
			if c, ok := p.(session.ToolCall); ok {
				custom[c.ID] = c.Custom
			}
		}
	}
	return custom, nil
}

// set says what the source is, unless the first item says it.
func (mm *markedMessage) set(src session.Source, f *file, first json.RawMessage) {
	if compact.IsCheckpointSource(src) {
		mm.Ref = src.Ref
		return
	}
	it, _ := responses.Decode(first)
	derived := session.Source{Kind: session.SourceTool}
	switch it.Role {
	case session.RoleTool:
	case session.RoleAssistant:
		derived = session.Source{Kind: session.SourceModel, Provider: f.route(), Model: f.models[f.model]}
	default:
		derived = source(it)
	}
	if src != derived {
		mm.Source = &src
	}
}
