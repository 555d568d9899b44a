package session

import "time"

// Payload says where a store keeps the JSON of a message: Loader.Load(Off, Len)
// gives what [Message.MarshalJSON] makes of it.
type Payload struct {
	Loader Loader
	Off    int64
	Len    int
}

// MessageLoader is a [Loader] that has messages in another form than JSON. A
// session asks it for the message itself, which saves encoding and decoding it.
type MessageLoader interface {
	Loader
	// LoadMessage returns what Load(off, n) is the JSON of, in a message that
	// nobody else uses.
	LoadMessage(off int64, n int) (*Message, error)
}

// MessageEvent returns the event of an appended message as a store gives it
// that has its log in a form of its own, such as a transcript. The event keeps
// nothing of m but what the surface needs; the message is loaded when it is
// asked for. tokens is the price of m by the pricer with the given id; a session
// with another pricer loads the message and prices it anew.
func MessageEvent(seq Seq, at time.Time, m *Message, tokens int, pricer string, p Payload) (*Event, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return &Event{Seq: seq, Time: at.UTC(), Type: TypeMessage, src: p.Loader, off: p.Off, n: int32(p.Len),
		meta: &meta{role: m.Role, source: internSource(m.Source), tokens: int32(tokens), by: pricer, calls: m.Calls(), results: m.Results()}}, nil
}

// BodyEvent returns the event of a body other than [Append] and [Replace] as a
// store gives it. It keeps the body.
func BodyEvent(seq Seq, at time.Time, b Body) (*Event, error) {
	e := &Event{Seq: seq, Time: at.UTC()}
	return e, fill(e, newState(), b)
}
