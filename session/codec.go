package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// FormatVersion is the version of the event encoding. A reader refuses logs of
// a newer version.
const FormatVersion = 1

// An encoded event is one JSON object without a newline:
//
//	{"seq":7,"time":1790000000000,"type":"message",
//	 "head":{"role":"tool","tokens":120,"by":"bytes4","results":["call_1"],"source":{…}},
//	 "data":{…}}
//
// head stands on events that put a message on the surface and holds what the
// surface needs of it, so that a log can be opened without decoding data.
// "ignorable":true marks events that a reader may pass over.

// ErrUnknownType is wrapped by the error for a required event of a type that
// this version does not know.
var ErrUnknownType = errors.New("unknown required event type")

// AppendEvent appends the encoding of e to dst. Stores call it. The error says
// why a payload that was not needed so far could not be decoded.
func AppendEvent(dst []byte, e *Event) ([]byte, error) {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendInt(dst, int64(e.Seq), 10)
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, e.Time.UnixMilli(), 10)
	dst = field(dst, "type", string(e.Type))
	dst = boolField(dst, "ignorable", e.Ignorable)
	if m := e.meta; m != nil {
		dst = append(key(dst, "head"), '{')
		dst = field(dst, "role", string(m.role))
		dst = strconv.AppendInt(key(dst, "tokens"), int64(m.tokens), 10)
		dst = field(dst, "by", m.by)
		dst = appendStrings(dst, "calls", m.calls)
		dst = appendStrings(dst, "results", m.results)
		dst = appendSource(key(dst, "source"), *m.source)
		if e.Type == TypeReplace {
			dst = strconv.AppendInt(key(dst, "start"), int64(m.repl.start), 10)
			dst = strconv.AppendInt(key(dst, "end"), int64(m.repl.end), 10)
			dst = appendSeqs(dst, "keep", m.repl.keep)
		}
		dst = append(dst, '}')
	}
	b, err := e.Body()
	if err != nil {
		return nil, err
	}
	dst = appendBody(key(dst, "data"), b)
	return append(dst, '}'), nil
}

func appendStrings(dst []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(key(dst, name), '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

func appendSeqs(dst []byte, name string, list []Seq) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(key(dst, name), '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(s), 10)
	}
	return append(dst, ']')
}

func appendBody(dst []byte, b Body) []byte {
	switch b := b.(type) {
	case *Append:
		return appendMessage(dst, &b.Message)
	case *Replace:
		return appendMessage(dst, &b.Message)
	case *SetEnvelope:
		return appendEnvelope(dst, &b.Envelope)
	case *Restore:
		return fmt.Appendf(dst, `{"node":%d}`, b.Node)
	case *Redo:
		return fmt.Appendf(dst, `{"node":%d}`, b.Node)
	case *Rewind:
		return fmt.Appendf(dst, `{"to":%d}`, b.To)
	case *Pin:
		dst = append(dst, '{')
		dst = appendSeqs(dst, "nodes", b.Nodes)
		dst = boolField(dst, "off", b.Off)
		return append(dst, '}')
	case *TurnEnd:
		dst = append(dst, '{')
		dst = field(dst, "reason", b.Reason)
		return append(dst, '}')
	case *CallState:
		dst = fmt.Appendf(dst, `{"node":%d`, b.Node)
		dst = field(dst, "call_id", b.CallID)
		dst = field(dst, "phase", string(b.Phase))
		return append(dst, '}')
	case *Usage:
		j, _ := json.Marshal(b) // ints, bools and strings only
		return append(dst, j...)
	case *Raw:
		if len(b.Data) == 0 {
			return append(dst, "null"...)
		}
		return append(dst, b.Data...)
	}
	return append(dst, "{}"...)
}

type eventJSON struct {
	Seq       *Seq            `json:"seq"`
	Time      int64           `json:"time"`
	Type      Type            `json:"type"`
	Ignorable bool            `json:"ignorable"`
	Head      *headJSON       `json:"head"`
	Data      json.RawMessage `json:"data"`
}

type headJSON struct {
	Role    Role       `json:"role"`
	Tokens  int32      `json:"tokens"`
	By      exact      `json:"by"`
	Calls   []exact    `json:"calls"`
	Results []exact    `json:"results"`
	Source  sourceJSON `json:"source"`
	Start   Seq        `json:"start"`
	End     Seq        `json:"end"`
	Keep    []Seq      `json:"keep"`
}

// ParseEvent decodes what [AppendEvent] wrote. The payload is decoded when
// first needed; b must not be modified afterwards.
func ParseEvent(b []byte) (*Event, error) {
	e := new(Event)
	start, ok := scanEvent(e, b)
	if ok && json.Valid(b[start:len(b)-1]) {
		e.src, e.n = inMemory(b[start:len(b)-1]), int32(len(b)-1-start)
		return e, nil
	}
	data, err := parseEvent(e, b)
	if err != nil {
		return nil, err
	}
	e.src, e.n = inMemory(data), int32(len(data))
	return e, nil
}

// ParseEventAt is [ParseEvent] for a store that keeps the payload where it is:
// src gives back from offset off on the bytes that b holds now. The event
// keeps no reference to b, and its payload is loaded when it is needed. The
// store vouches for the bytes: a payload that is no JSON is noticed only then.
func ParseEventAt(b []byte, src Loader, off int64) (*Event, error) {
	e := new(Event)
	if len(b) == 0 {
		return nil, errors.New("event: no bytes")
	}
	start, ok := scanEvent(e, b)
	switch data := b[max(start, 0) : len(b)-1]; {
	case !ok:
	case keepDecoded(e.Type):
		// Small, and needed for the fold: not worth another read.
		e.src, e.n = inMemory(bytes.Clone(data)), int32(len(data))
		return e, nil
	default:
		e.src, e.off, e.n = src, off+int64(start), int32(len(data))
		return e, nil
	}
	// Not in the form that AppendEvent writes.
	return ParseEvent(bytes.Clone(b))
}

func parseEvent(e *Event, b []byte) ([]byte, error) {
	var j eventJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if j.Seq == nil || *j.Seq < 0 {
		return nil, errors.New("event has no seq")
	}
	if j.Type == "" {
		return nil, fmt.Errorf("event %d has no type", *j.Seq)
	}
	e.Seq, e.Time, e.Type, e.Ignorable, e.meta = *j.Seq, time.UnixMilli(j.Time).UTC(), j.Type, j.Ignorable, nil
	data := j.Data
	if data == nil {
		data = []byte("null")
	}
	if j.Type != TypeMessage && j.Type != TypeReplace {
		return data, nil
	}
	if j.Head == nil {
		return nil, fmt.Errorf("event %d (%s) has no head", e.Seq, e.Type)
	}
	h := j.Head
	e.meta = &meta{role: h.Role, source: internSource(h.Source.source()), tokens: h.Tokens, by: string(h.By),
		calls: stringList(h.Calls), results: stringList(h.Results)}
	if j.Type == TypeReplace {
		e.meta.repl = &replacement{start: h.Start, end: h.End, keep: h.Keep}
	}
	return data, nil
}

func stringList(in []exact) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

func decodeBody(t Type, data []byte, m *meta, ignorable bool) (Body, error) {
	if b := scanBody(t, data, m); b != nil {
		return b, nil
	}
	into := func(b Body, v any) (Body, error) { return b, json.Unmarshal(data, v) }
	switch t {
	case TypeMessage:
		b := new(Append)
		return into(b, &b.Message)
	case TypeReplace:
		b := &Replace{Start: m.repl.start, End: m.repl.end, Keep: m.repl.keep}
		return into(b, &b.Message)
	case TypeRestore, TypeRedo:
		var j struct{ Node Seq }
		err := json.Unmarshal(data, &j)
		if t == TypeRedo {
			return &Redo{j.Node}, err
		}
		return &Restore{j.Node}, err
	case TypeRewind:
		var j struct{ To Seq }
		err := json.Unmarshal(data, &j)
		return &Rewind{j.To}, err
	case TypePin:
		var j struct {
			Nodes []Seq
			Off   bool
		}
		err := json.Unmarshal(data, &j)
		return &Pin{j.Nodes, j.Off}, err
	case TypeEnvelope:
		e, err := decodeEnvelope(data)
		if err != nil {
			return nil, err
		}
		return &SetEnvelope{*e}, nil
	case TypeTurnStart:
		return &TurnStart{}, nil
	case TypeTurnEnd:
		var j struct{ Reason exact }
		err := json.Unmarshal(data, &j)
		return &TurnEnd{string(j.Reason)}, err
	case TypeStepStart:
		return &StepStart{}, nil
	case TypeStepEnd:
		return &StepEnd{}, nil
	case TypeCall:
		var j struct {
			Node   Seq
			CallID exact `json:"call_id"`
			Phase  CallPhase
		}
		err := json.Unmarshal(data, &j)
		return &CallState{j.Node, string(j.CallID), j.Phase}, err
	case TypeUsage:
		u := new(Usage)
		return into(u, u)
	}
	return &Raw{Type: t, Data: data, Ignorable: ignorable}, nil
}

func compactJSON(data json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 {
		return json.RawMessage("null"), nil
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, data); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
