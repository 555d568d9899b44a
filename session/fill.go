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

// newAppend returns the event that puts a copy of m at the tail.
func newAppend(st *state, m *Message, pricer Pricer) (*Event, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	a := new(appended)
	e, own := &a.event, &a.body.Message
	m.cloneTo(own)
	if err := noteLate(st, own); err != nil {
		return nil, err
	}
	a.meta = newMeta(own)
	a.meta.tokens, a.meta.by = int32(pricer.Price(own)), pricer.ID()
	e.Type, e.meta, e.body = TypeMessage, &a.meta, &a.body
	return e, nil
}

// newEvent returns the event with an owned copy of the body; seq and time are
// the caller's.
func newEvent(st *state, b Body, pricer Pricer) (*Event, error) {
	b, err := deref(b)
	if err != nil {
		return nil, err
	}
	if a, ok := b.(Append); ok {
		return newAppend(st, &a.Message, pricer)
	}
	e := new(Event)
	return e, fill(e, st, b)
}

// fill sets the type and an owned copy of a body that is no Append.
func fill(e *Event, st *state, b Body) error {
	switch b := b.(type) {
	case Replace:
		if err := b.Message.Validate(); err != nil {
			return err
		}
		own := &Replace{Start: b.Start, End: b.End, Keep: append([]Seq(nil), b.Keep...), Message: *b.Message.Clone()}
		m := newMeta(&own.Message)
		e.meta, e.body = &m, own
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
