package session

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
	"weak"
)

// Seq is the index of an event in its log: contiguous from 0, strictly
// increasing.
type Seq int64

// NoSeq is the Seq of nothing.
const NoSeq Seq = -1

// Type names the kind of an event. The vocabulary is open; names are
// append-only and are never given another meaning.
type Type string

// The event types of this package. Types of other packages, such as
// compact/start, are opaque to it.
const (
	TypeMessage   Type = "message"
	TypeReplace   Type = "surface/replace"
	TypeRestore   Type = "surface/restore"
	TypeRedo      Type = "surface/redo"
	TypeRewind    Type = "surface/rewind"
	TypePin       Type = "surface/pin"
	TypeEnvelope  Type = "envelope"
	TypeTurnStart Type = "turn/start"
	TypeTurnEnd   Type = "turn/end"
	TypeStepStart Type = "step/start"
	TypeStepEnd   Type = "step/end"
	TypeCall      Type = "call"
	TypeUsage     Type = "usage"
)

// Body is what an event says, and what [Session.Update] appends: [Append],
// [Replace], [Restore], [Redo], [Rewind], [Pin], [SetEnvelope], [TurnStart],
// [TurnEnd], [StepStart], [StepEnd], [CallState], [Usage] or [Raw]. The set is
// sealed; other packages put their events in a Raw.
type Body interface{ eventType() Type }

// Append puts a message at the tail of the surface.
type Append struct{ Message Message }

// Replace puts one message in the place of an inclusive run of the surface.
type Replace struct {
	// Start and End name the edges of the run; both must be on the surface,
	// Start not after End by position.
	Start, End Seq
	// Keep names nodes of the run that stay visible. They then stand right
	// after the message, in their order.
	Keep []Seq
	// Message takes the place of the run.
	Message Message
}

// Restore gives back what a replacement shadowed. Nodes that the replacement
// kept go back to their places.
type Restore struct {
	// Node is the replacement, which must be on the surface.
	Node Seq
}

// Redo takes a Restore back: the replacement stands again where the events of
// its run stand, which must all be on the surface, side by side.
type Redo struct {
	// Node is the replacement, which must not be on the surface.
	Node Seq
}

// Rewind makes the surface what it was right after event To; [NoSeq] makes it
// empty. Pins, the envelope and turn markers stay as they are.
type Rewind struct{ To Seq }

// Pin marks messages that no operation may hide, or takes the mark off.
type Pin struct {
	// Nodes are seqs of messages. A pin on one message of a unit pins the unit.
	Nodes []Seq
	// Off takes the pins off.
	Off bool
}

// SetEnvelope records the envelope of the requests that follow.
type SetEnvelope struct{ Envelope Envelope }

// TurnStart opens a turn. A turn starts with a user prompt.
type TurnStart struct{}

// TurnEnd closes the open turn.
type TurnEnd struct {
	// Reason is "completed", "aborted", "error" or another word of the host's;
	// "interrupted" is written by repair.
	Reason string
}

// StepStart opens a step of the open turn: one model call with its results.
type StepStart struct{}

// StepEnd closes the open step.
type StepEnd struct{}

// CallPhase is what the host knows of a call that has no result.
type CallPhase string

// The phases of a call without a result.
const (
	// CallRunning: the result will come; no operation may hide the call.
	CallRunning CallPhase = "running"
	// CallStarted: the tool has begun; with it crash repair can tell.
	CallStarted CallPhase = "started"
	// CallAbandoned: no result will come.
	CallAbandoned CallPhase = "abandoned"
)

// CallState is the host's word about a call without a result.
type CallState struct {
	// Node is the assistant message that made the call.
	Node Seq
	// CallID is the id of the call within that message.
	CallID string
	Phase  CallPhase
}

// Raw is an event of another package. It never changes the surface.
type Raw struct {
	Type Type
	// Data is its JSON payload.
	Data json.RawMessage
	// Ignorable says that a reader that does not know the type may pass over
	// it.
	Ignorable bool
}

func (Append) eventType() Type      { return TypeMessage }
func (Replace) eventType() Type     { return TypeReplace }
func (Restore) eventType() Type     { return TypeRestore }
func (Redo) eventType() Type        { return TypeRedo }
func (Rewind) eventType() Type      { return TypeRewind }
func (Pin) eventType() Type         { return TypePin }
func (SetEnvelope) eventType() Type { return TypeEnvelope }
func (TurnStart) eventType() Type   { return TypeTurnStart }
func (TurnEnd) eventType() Type     { return TypeTurnEnd }
func (StepStart) eventType() Type   { return TypeStepStart }
func (StepEnd) eventType() Type     { return TypeStepEnd }
func (CallState) eventType() Type   { return TypeCall }
func (Usage) eventType() Type       { return TypeUsage }
func (r Raw) eventType() Type       { return r.Type }

// Event is one immutable entry of the log. It is safe for concurrent use.
type Event struct {
	Seq  Seq
	Time time.Time // UTC, in whole milliseconds
	Type Type
	// Ignorable marks events that a reader may pass over.
	Ignorable bool

	n    int32 // length of the payload in src
	mu   sync.Mutex
	body Body // nil when the payload is not in memory
	src  Loader
	off  int64                // of the payload in src
	weak weak.Pointer[Append] // decoded from a src on disk, while somebody uses it

	meta *meta // of surface nodes; nil otherwise
}

// Loader gives back the bytes of payloads that were left where they are stored.
// Implementations must be safe for concurrent use.
type Loader interface {
	// Load returns n bytes from offset off, in a slice that nobody else uses.
	Load(off int64, n int) ([]byte, error)
}

// inMemory is the Loader of a payload that is not decoded yet.
type inMemory []byte

func (m inMemory) Load(off int64, n int) ([]byte, error) { return m[off : off+int64(n)], nil }

// meta is what the surface needs of a message without its payload.
type meta struct {
	role    Role
	source  *Source // shared
	tokens  int32
	by      string // id of the pricer
	calls   []string
	results []string
	repl    *replacement // of replacements only
}

// replacement is what a Replace event says of its span.
type replacement struct {
	start, end Seq
	keep       []Seq
	run        []Seq // what stood there, kept nodes included; set by the fold
}

func newMeta(m *Message) meta {
	return meta{role: m.Role, source: internSource(m.Source), calls: m.Calls(), results: m.Results()}
}

// appended is the event of an appended message in one piece of memory.
type appended struct {
	event Event
	meta  meta
	body  Append
}

// Body returns what the event says. It decodes a payload that was not needed
// so far; the error says why that failed. A payload that lives in a store is
// kept in memory only as long as somebody uses it.
func (e *Event) Body() (Body, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.body != nil {
		return e.body, nil
	}
	if b := e.weak.Value(); b != nil {
		return b, nil
	}
	if l, ok := e.src.(MessageLoader); ok && e.Type == TypeMessage {
		m, err := l.LoadMessage(e.off, int(e.n))
		if err != nil {
			return nil, fmt.Errorf("load event %d: %w", e.Seq, err)
		}
		a := &Append{Message: *m}
		e.weak = weak.Make(a)
		return a, nil
	}
	data, err := e.src.Load(e.off, int(e.n))
	if err != nil {
		return nil, fmt.Errorf("load event %d: %w", e.Seq, err)
	}
	body, err := decodeBody(e.Type, data, e.meta, e.Ignorable)
	if err != nil {
		return nil, fmt.Errorf("decode event %d (%s): %w", e.Seq, e.Type, err)
	}
	if _, ok := e.src.(inMemory); ok || keepDecoded(e.Type) {
		e.body, e.src = body, nil
	} else if a, ok := body.(*Append); ok {
		e.weak = weak.Make(a)
	}
	return body, nil
}

// keepDecoded reports whether payloads of the type are small and are asked for
// again.
func keepDecoded(t Type) bool {
	return knownType(t) && t != TypeMessage && t != TypeReplace && t != TypeEnvelope
}

// Message returns the message that the event puts on the surface. It is an
// error to ask an event that puts none there.
func (e *Event) Message() (*Message, error) {
	b, err := e.Body()
	if err != nil {
		return nil, err
	}
	switch b := b.(type) {
	case *Append:
		return &b.Message, nil
	case *Replace:
		return &b.Message, nil
	}
	return nil, fmt.Errorf("event %d (%s) has no message", e.Seq, e.Type)
}

// external reports whether the payload is in no memory but a store's.
func (e *Event) external() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, here := e.src.(inMemory)
	return e.body == nil && !here
}

// fresh returns the event as a store gives it: not yet part of any session.
func (e *Event) fresh() *Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &Event{Seq: e.Seq, Time: e.Time, Type: e.Type, Ignorable: e.Ignorable,
		meta: e.meta, body: e.body, src: e.src, off: e.off, n: e.n}
}

// Usage is what a provider reported for one request.
type Usage struct {
	// Node is the reply that it came with; [NoSeq] when it belongs to none of
	// this session.
	Node Seq `json:"node"`
	// Prompt is all input, cached input included; Completion is all output,
	// reasoning included. Both in the provider's tokens.
	Prompt     int `json:"prompt,omitempty"`
	Completion int `json:"completion,omitempty"`
	// CacheRead and CacheWrite are the parts of Prompt that the provider read
	// from and wrote to its cache, Reasoning the part of Completion that was
	// reasoning.
	CacheRead  int `json:"cache_read,omitempty"`
	CacheWrite int `json:"cache_write,omitempty"`
	Reasoning  int `json:"reasoning,omitempty"`
	// Aggregate marks a sum over several requests, of retries, steps or
	// sub-agents. It counts for the bill and says nothing of the surface.
	Aggregate bool `json:"aggregate,omitempty"`
	// Provider and Model are those that reported; empty means those of the
	// envelope.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}
