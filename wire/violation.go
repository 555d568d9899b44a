package wire

import "fmt"

// Rule names what a request must keep to. The packages of the providers say
// which of them they check.
type Rule string

// The rules.
const (
	// RuleShape: fields are there and have their types.
	RuleShape Rule = "shape"
	// RuleOrder: roles alternate where the provider wants that, the first
	// message is the user's, system text stands in its place, and when a model
	// call follows, the last message is not the model's.
	RuleOrder Rule = "order"
	// RulePairing: every call is answered exactly once, where the provider
	// wants it, and every result answers a call.
	RulePairing Rule = "pairing"
	// RuleCallID: ids of calls are of the allowed alphabet and length.
	RuleCallID Rule = "call_id"
	// RuleUniqueID: ids of calls are unique in the request.
	RuleUniqueID Rule = "unique_id"
	// RuleName: names of tools are of the allowed alphabet and length.
	RuleName Rule = "name"
	// RuleEmpty: no message and no text is empty.
	RuleEmpty Rule = "empty"
	// RuleReasoning: reasoning has what the provider needs to take it back, and
	// stands with what it belongs to.
	RuleReasoning Rule = "reasoning"
	// RuleUTF8: all strings are valid UTF-8, escapes included.
	RuleUTF8 Rule = "utf8"
)

// Violation is one breach of a rule.
type Violation struct {
	Rule Rule
	// Message is the index in the list of messages or items; -1 for the body.
	Message int
	// CallID is the call or result at fault; may be empty.
	CallID string
	// Detail says it in words.
	Detail string
}

// Error implements error.
func (v Violation) Error() string {
	s := string(v.Rule)
	if v.Message >= 0 {
		s += fmt.Sprintf(" at message %d", v.Message)
	}
	if v.CallID != "" {
		s += fmt.Sprintf(" (call %q)", v.CallID)
	}
	return s + ": " + v.Detail
}

// RequestReport says where a request differs from the surface that it was built
// from. Positions are those on the surface.
type RequestReport struct {
	// Synthetic are calls that got a made-up result.
	Synthetic []CallAt
	// Renamed are calls with another id on the wire.
	Renamed []CallAt
	// Quoted are results without a call, which became user notes.
	Quoted []CallAt
	// Notes are system and developer messages in mid-conversation, which became
	// user notes.
	Notes []int
	// Moved are results that stand further forward than on the surface.
	Moved []int
	// Dropped are messages of which nothing is left.
	Dropped []int
	// Unsent are parts that the provider cannot take, and what takes their
	// place, if anything.
	Unsent []PartAt
	// Opened: a marked user message stands before the first one. Closed: one
	// stands at the end.
	Opened, Closed bool
	// Merged counts the messages that became part of their predecessor.
	Merged int
	// Tools are the tools with another name on the wire, and those that cannot
	// be offered.
	Tools []string
	// Settings are settings of the envelope that did not go out or went out
	// changed, since the provider would refuse them with these messages.
	Settings []string
}

// CallAt is a call or a result and where it stands.
type CallAt struct {
	Position int
	// CallID is the id on the surface, WireID that in the request; may be empty.
	CallID, WireID string
}

// PartAt is a part and where it stands.
type PartAt struct {
	Position int
	// Kind is "reasoning", "image", "file", or the kind of an opaque part.
	Kind string
}

// Exact reports whether the request says what the surface says, and nothing
// else.
func (r *RequestReport) Exact() bool {
	return len(r.Synthetic) == 0 && len(r.Renamed) == 0 && len(r.Quoted) == 0 && len(r.Notes) == 0 && len(r.Moved) == 0 &&
		len(r.Dropped) == 0 && len(r.Unsent) == 0 && !r.Opened && !r.Closed && r.Merged == 0 && len(r.Tools) == 0 && len(r.Settings) == 0
}
