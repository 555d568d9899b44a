package session

import (
	"encoding/json"
)

// The fast way to read what appendMessage wrote; see scanner.

// end consumes a comma or the end of an object and reports whether it was the
// end.
func (s *scanner) end() bool {
	if s.lit("}") {
		return true
	}
	s.want(",")
	return s.bad
}

func (s *scanner) json() json.RawMessage {
	// An empty but present value stays apart from an absent one.
	return json.RawMessage(s.text())
}

func (s *scanner) count() int { return int(s.int()) }

func (s *scanner) yes() bool {
	s.want("true")
	return true
}

func (s *scanner) message(m *Message) {
	s.want("{")
	for done := s.lit("}"); !done && !s.bad; done = s.end() {
		switch {
		case s.lit(`"id":`):
			m.ID = s.text()
		case s.lit(`"role":`):
			m.Role = Role(intern(s.raw()))
		case s.lit(`"name":`):
			m.Name = s.text()
		case s.lit(`"source":`):
			m.Source = s.source()
		case s.lit(`"parts":`):
			m.Parts = s.parts()
		case s.lit(`"origin":`):
			m.Origin = s.origin()
		default: // extra and anything else
			s.bad = true
		}
	}
}

func (s *scanner) origin() *Origin {
	o := new(Origin)
	s.want("{")
	for done := s.lit("}"); !done && !s.bad; done = s.end() {
		switch {
		case s.lit(`"format":`):
			o.Format = intern(s.raw())
		case s.lit(`"raw":`):
			o.Raw = s.json()
		default:
			s.bad = true
		}
	}
	return o
}

func (s *scanner) parts() []Part {
	s.want("[")
	out := make([]Part, 0, 1)
	if s.lit("]") {
		return out
	}
	for !s.bad {
		out = append(out, s.part())
		if s.lit("]") {
			return out
		}
		s.want(",")
	}
	return nil
}

func (s *scanner) part() Part {
	s.want(`{"type":`)
	switch string(s.raw()) {
	case "text":
		s.want(`,"text":`)
		p := Text{s.text()}
		s.want("}")
		return p
	case "reasoning":
		var p Reasoning
		for done := s.end(); !done && !s.bad; done = s.end() {
			switch {
			case s.lit(`"id":`):
				p.ID = s.text()
			case s.lit(`"text":`):
				p.Text = s.text()
			case s.lit(`"signature":`):
				p.Signature = s.text()
			case s.lit(`"encrypted":`):
				p.Encrypted = s.text()
			case s.lit(`"raw":`):
				p.Raw = s.json()
			default:
				s.bad = true
			}
		}
		return p
	case "tool_call":
		var p ToolCall
		for done := s.end(); !done && !s.bad; done = s.end() {
			switch {
			case s.lit(`"id":`):
				p.ID = s.text()
			case s.lit(`"name":`):
				p.Name = s.text()
			case s.lit(`"arguments":`):
				p.Arguments = s.text()
			case s.lit(`"custom":`):
				p.Custom = s.yes()
			case s.lit(`"raw":`):
				p.Raw = s.json()
			default:
				s.bad = true
			}
		}
		return p
	case "tool_result":
		var p ToolResult
		for done := s.end(); !done && !s.bad; done = s.end() {
			switch {
			case s.lit(`"call_id":`):
				p.CallID = s.text()
			case s.lit(`"name":`):
				p.Name = s.text()
			case s.lit(`"is_error":`):
				p.IsError = s.yes()
			case s.lit(`"parts":`):
				p.Parts = s.parts()
			default:
				s.bad = true
			}
		}
		return p
	}
	s.bad = true // images, files and opaque parts are rare
	return nil
}

// scanBody reads the payloads that are frequent. It returns nil when the slow
// way is needed.
func scanBody(t Type, data []byte, m *meta) Body {
	s := scanner{b: data}
	var b Body
	switch t {
	case TypeMessage:
		a := new(Append)
		s.message(&a.Message)
		b = a
	case TypeReplace:
		r := &Replace{Start: m.repl.start, End: m.repl.end, Keep: m.repl.keep}
		s.message(&r.Message)
		b = r
	case TypeTurnStart, TypeStepStart, TypeStepEnd:
		s.want("{}")
		switch t {
		case TypeTurnStart:
			b = &TurnStart{}
		case TypeStepStart:
			b = &StepStart{}
		case TypeStepEnd:
			b = &StepEnd{}
		}
	case TypeTurnEnd:
		e := new(TurnEnd)
		s.want("{")
		if s.lit(`"reason":`) {
			e.Reason = s.text()
		}
		s.want("}")
		b = e
	case TypeCall:
		c := new(CallState)
		s.want(`{"node":`)
		c.Node = Seq(s.int())
		if s.lit(`,"call_id":`) {
			c.CallID = s.text()
		}
		if s.lit(`,"phase":`) {
			c.Phase = CallPhase(intern(s.raw()))
		}
		s.want("}")
		b = c
	case TypeUsage:
		u := new(Usage)
		s.want("{")
		for done := s.lit("}"); !done && !s.bad; done = s.end() {
			switch {
			case s.lit(`"node":`):
				u.Node = Seq(s.int())
			case s.lit(`"prompt":`):
				u.Prompt = s.count()
			case s.lit(`"completion":`):
				u.Completion = s.count()
			case s.lit(`"cache_read":`):
				u.CacheRead = s.count()
			case s.lit(`"cache_write":`):
				u.CacheWrite = s.count()
			case s.lit(`"reasoning":`):
				u.Reasoning = s.count()
			case s.lit(`"aggregate":`):
				u.Aggregate = s.yes()
			case s.lit(`"provider":`):
				u.Provider = intern(s.raw())
			case s.lit(`"model":`):
				u.Model = intern(s.raw())
			default:
				s.bad = true
			}
		}
		b = u
	default:
		return nil
	}
	if s.bad || s.i != len(data) {
		return nil
	}
	return b
}
