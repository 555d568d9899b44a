package session

import (
	"errors"
	"fmt"
)

// deref returns the body as a value.
func deref(b Body) (Body, error) {
	switch p := b.(type) {
	case nil:
		return nil, errors.New("nil event body")
	case *Append:
		return value(p)
	case *Replace:
		return value(p)
	case *Restore:
		return value(p)
	case *Redo:
		return value(p)
	case *Rewind:
		return value(p)
	case *Pin:
		return value(p)
	case *SetEnvelope:
		return value(p)
	case *TurnStart:
		return value(p)
	case *TurnEnd:
		return value(p)
	case *StepStart:
		return value(p)
	case *StepEnd:
		return value(p)
	case *CallState:
		return value(p)
	case *Usage:
		return value(p)
	case *Raw:
		return value(p)
	}
	return b, nil
}

func value[B Body](p *B) (Body, error) {
	if p == nil {
		return nil, errors.New("nil event body")
	}
	return *p, nil
}

// fill sets the type and an owned copy of the body.
func fill(e *Event, st *state, b Body) error {
	b, err := deref(b)
	if err != nil {
		return err
	}
	switch b := b.(type) {
	case Append:
		if err := b.Message.Validate(); err != nil {
			return err
		}
		own := &Append{*b.Message.Clone()}
		if err := noteLate(st, &own.Message); err != nil {
			return err
		}
		e.meta, e.body = newMeta(&own.Message), own
	case Replace:
		if err := b.Message.Validate(); err != nil {
			return err
		}
		own := &Replace{Start: b.Start, End: b.End, Keep: append([]Seq(nil), b.Keep...), Message: *b.Message.Clone()}
		e.meta, e.body = newMeta(&own.Message), own
		if err := sameResults(st, own); err != nil {
			return err
		}
		e.meta.repl = &replacement{start: own.Start, end: own.End, keep: own.Keep}
	case Restore:
		e.body = &b
	case Redo:
		e.body = &b
	case Rewind:
		e.body = &b
	case Pin:
		e.body = &Pin{Nodes: wholeUnits(st, b.Nodes), Off: b.Off}
	case SetEnvelope:
		for i := range b.Envelope.System {
			if err := b.Envelope.System[i].Validate(); err != nil {
				return fmt.Errorf("envelope: system message %d: %w", i, err)
			}
		}
		e.body = &SetEnvelope{*b.Envelope.Clone()}
	case TurnStart:
		e.body = &b
	case TurnEnd:
		e.body = &b
	case StepStart:
		e.body = &b
	case StepEnd:
		e.body = &b
	case CallState:
		e.body = &b
	case Usage:
		e.body = &b
	case Raw:
		if b.Type == "" || knownType(b.Type) {
			return fmt.Errorf("raw event with type %q, which is this package's own", b.Type)
		}
		data, err := compactJSON(b.Data)
		if err != nil {
			return fmt.Errorf("raw event %s: %w", b.Type, err)
		}
		e.body, e.Ignorable = &Raw{Type: b.Type, Data: data, Ignorable: b.Ignorable}, b.Ignorable
	}
	e.Type = e.body.eventType()
	return nil
}

// sameResults checks what only payloads tell of a result in the place of
// another: the error marks.
func sameResults(st *state, b *Replace) error {
	p, err := st.position(b.Start)
	if err != nil || b.Message.Role != RoleTool || b.Start != b.End {
		return nil // the fold says what is wrong
	}
	old, err := st.log[st.nodes.at(p).Seq].Message()
	if err != nil {
		return err
	}
	var marks []bool
	for _, part := range old.Parts {
		if r, ok := part.(ToolResult); ok {
			marks = append(marks, r.IsError)
		}
	}
	i := 0
	for _, part := range b.Message.Parts {
		if r, ok := part.(ToolResult); ok {
			if i < len(marks) && marks[i] != r.IsError {
				return fmt.Errorf("replace: %w", ErrResultRewrite)
			}
			i++
		}
	}
	return nil
}
