package tokencount

import (
	"github.com/agentcompact/agentcompact/session"
)

// Counter counts the tokens of a text. Implementations are deterministic and
// safe for concurrent use.
type Counter interface {
	// ID names the counter and its version; prices are stored with it.
	ID() string
	// Count returns the tokens of the text, 0 for an empty one.
	Count(text string) int
}

// Estimator is the [Counter] that needs no vocabulary.
type Estimator struct{}

// ID implements [Counter].
func (Estimator) ID() string { return EstimatorID }

// Count implements [Counter].
func (Estimator) Count(text string) int { return EstimateText(text) }

// Pricer prices messages for a session with a counter: text by the counter,
// pictures by their size and detail, calls, tools
// and framing by constants. An inline picture tells its size itself.
type Pricer struct{ c Counter }

var _ session.Pricer = Pricer{}

// NewPricer returns a pricer over c; nil means [Estimator].
func NewPricer(c Counter) Pricer {
	if c == nil {
		c = Estimator{}
	}
	return Pricer{c}
}

// ID implements [session.Pricer].
func (p Pricer) ID() string { return "message/2+" + p.c.ID() }

// mostPrice is the highest price of a message: more than any model reads.
const mostPrice = 1 << 30

// Price implements [session.Pricer]. It is at most 2³⁰.
func (p Pricer) Price(m *session.Message) int {
	n := sum(PerMessage, p.parts(m.Parts))
	if m.Name != "" {
		n += PerName + p.c.Count(m.Name)
	}
	return min(n, mostPrice)
}

// PriceEnvelope implements [session.Pricer].
func (p Pricer) PriceEnvelope(e *session.Envelope) int {
	n := 0
	for i := range e.System {
		n += p.Price(&e.System[i])
	}
	for _, t := range e.Tools {
		switch {
		case len(t.Raw) > 0:
			n += schema(p.c, t.Raw)
		default:
			n += PerTool + p.c.Count(t.Name) + p.c.Count(t.Description) + p.c.Count(string(t.Schema))
		}
	}
	if len(e.Tools) > 0 {
		n += PerToolList
	}
	return n
}

func (p Pricer) parts(parts []session.Part) int {
	n := 0
	for _, part := range parts {
		switch part := part.(type) {
		case session.Text:
			n += p.c.Count(part.Text)
		case session.Reasoning:
			n += p.c.Count(part.Text)
			if part.Text == "" {
				n += len(part.Encrypted) / 6 // what the ciphertext of a text comes to
			}
		case session.ToolCall:
			n += PerToolCall + p.c.Count(part.Name) + p.c.Count(part.Arguments)
		case session.ToolResult:
			n += p.parts(part.Parts)
		case session.Image:
			w, h := part.Width, part.Height
			if w <= 0 || h <= 0 {
				w, h = pictureSize(part.URL)
			}
			n += EstimateImage(w, h, part.Detail)
		case session.File:
			n = sum(n, EstimateFile(part.Bytes, part.MediaType))
		case session.Opaque:
			n += p.c.Count(string(part.Raw))
		}
	}
	return n
}

// TextPricer returns what prices a text as a message of the user, in the unit
// of p. It gives what p gives for [session.UserText], without making a message
// where p is known.
func TextPricer(p session.Pricer) func(text string) int {
	switch p := p.(type) {
	case Pricer:
		return func(text string) int { return PerMessage + p.c.Count(text) }
	case session.BytePricer:
		return func(text string) int { return (len(text) + 3) / 4 }
	}
	return func(text string) int {
		m := session.UserText(text)
		return p.Price(&m)
	}
}
