package session

// Pricer says what a message costs in tokens. Prices are stored with the id of
// the pricer, and a log that was priced by another one is priced anew when it
// is opened. Implementations must be deterministic and safe for concurrent
// use.
type Pricer interface {
	// ID names the pricer and its version.
	ID() string
	// Price returns the tokens of a message, framing included.
	Price(m *Message) int
	// PriceEnvelope returns the tokens of the system messages and the tool
	// definitions.
	PriceEnvelope(e *Envelope) int
}

// BytePricer prices text at one token for four bytes of UTF-8, rounded up per
// message, and a picture at 1,500. It is the default, needs no tables, and is
// rough: package tokencount has better ones.
type BytePricer struct{}

const imageTokens = 1500

// ID implements [Pricer].
func (BytePricer) ID() string { return "bytes4" }

// Price implements [Pricer].
func (BytePricer) Price(m *Message) int {
	n, images := partBytes(m.Parts)
	return (n+len(m.Name)+3)/4 + images*imageTokens
}

// PriceEnvelope implements [Pricer].
func (p BytePricer) PriceEnvelope(e *Envelope) int {
	total := 0
	for i := range e.System {
		total += p.Price(&e.System[i])
	}
	n := 0
	for _, t := range e.Tools {
		if t.Raw != nil {
			n += len(t.Raw)
		} else {
			n += len(t.Name) + len(t.Description) + len(t.Schema)
		}
	}
	return total + (n+3)/4
}

func partBytes(parts []Part) (bytes, images int) {
	for _, p := range parts {
		switch p := p.(type) {
		case Text:
			bytes += len(p.Text)
		case Reasoning:
			bytes += len(p.Text) + len(p.Encrypted)
		case ToolCall:
			bytes += len(p.Name) + len(p.Arguments)
		case ToolResult:
			b, i := partBytes(p.Parts)
			bytes, images = bytes+b, images+i
		case Image:
			images++
		case File:
			bytes += p.Bytes
		case Opaque:
			bytes += len(p.Raw)
		}
	}
	return bytes, images
}
