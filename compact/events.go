package compact

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

// The log-only events of compaction. The payloads are [StartEvent],
// [SummaryEvent], [EndEvent] and [PruneEvent] as JSON.
const (
	TypeStart   session.Type = "compact/start"
	TypeSummary session.Type = "compact/summary"
	TypeEnd     session.Type = "compact/end"
	TypePrune   session.Type = "compact/prune"
	TypeWindow  session.Type = "compact/window"
)

// Holder identifies who runs a compaction, so that another process can tell
// whether it is still alive.
type Holder struct {
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Boot tells apart two processes that had the same PID: the start of the
	// process in the host's own measure.
	Boot string `json:"boot,omitempty"`
	// Run is unique to the attempt.
	Run string `json:"run"`
	// Since is when the attempt began, Until when it gives up by itself.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// String names the holder for people.
func (h Holder) String() string {
	if h.PID == 0 {
		return "run " + h.Run
	}
	return fmt.Sprintf("process %d on %s", h.PID, h.Host)
}

// StartEvent opens an attempt. It is the lease: while it is live, no other
// attempt starts.
type StartEvent struct {
	ID      string  `json:"id"`
	Trigger Trigger `json:"trigger"`
	Target  string  `json:"target,omitempty"`
	Holder  Holder  `json:"holder"`
	// Span is what the attempt is about. What is pruned under its lease may put
	// other messages in the place of those at the edges.
	Span Span `json:"span"`
	// Policy is what decided how much is kept, so that the same request on an
	// unchanged session is known to be idle.
	Policy string `json:"policy,omitempty"`
	// Tokens is the price of envelope and surface at the start, by Pricer.
	Tokens int    `json:"tokens"`
	Pricer string `json:"pricer"`
}

// SummaryEvent is the record of a committed compaction. The replacement
// follows it directly.
type SummaryEvent struct {
	ID         string `json:"id"`
	Summarizer string `json:"summarizer"`
	// Text is the narrative, Ledger the facts as data.
	Text   string          `json:"text"`
	Ledger json.RawMessage `json:"ledger,omitempty"`
	// Verdict is what the guard found.
	Verdict json.RawMessage `json:"verdict,omitempty"`
	Span    Span            `json:"span"`
	Seqs    SeqSet          `json:"seqs"`
	Before  int             `json:"before"`
	After   int             `json:"after"`
	Pricer  string          `json:"pricer"`
	Trigger Trigger         `json:"trigger"`
}

// EndEvent closes an attempt. Code is empty when it did what it was for: a
// checkpoint stands on the surface, or tool results were shortened under its
// lease and that was enough.
type EndEvent struct {
	ID    string `json:"id"`
	Code  Code   `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
	// Before and After are the tokens of envelope and surface.
	Before int `json:"before,omitempty"`
	After  int `json:"after,omitempty"`
	// Calls are all summarizer requests of the attempt, failed ones included.
	Calls []Call `json:"calls,omitempty"`
}

// PruneEvent is an attempt of its own kind, or a part of one that holds the
// lease: the replacements follow it in the same store write. What it shortened
// stays shortened, however the attempt ends.
type PruneEvent struct {
	ID string `json:"id"`
	// Attempt is the id of the attempt that holds the lease; empty for a pruning
	// by itself.
	Attempt string        `json:"attempt,omitempty"`
	Nodes   []session.Seq `json:"nodes"`
	// Before and After are the tokens of the pruned results.
	Before int `json:"before"`
	After  int `json:"after"`
}

// WindowEvent corrects the window of a route for this session: a provider
// named a smaller one when it refused a request.
type WindowEvent struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Window   int    `json:"window"`
}

// SeqSet is a list of seqs in order, stored as ranges: [[3,17],[20,20]].
type SeqSet []session.Seq

// MarshalJSON implements [json.Marshaler].
func (s SeqSet) MarshalJSON() ([]byte, error) {
	out := [][2]session.Seq{}
	for _, q := range s {
		if n := len(out); n > 0 && out[n-1][1]+1 == q {
			out[n-1][1] = q
			continue
		}
		out = append(out, [2]session.Seq{q, q})
	}
	return json.Marshal(out)
}

// maxSeqs bounds what a stored range may expand to.
const maxSeqs = 1 << 26

// UnmarshalJSON implements [json.Unmarshaler].
func (s *SeqSet) UnmarshalJSON(b []byte) error {
	var in [][2]session.Seq
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	var out SeqSet
	total := int64(0)
	for _, r := range in {
		if r[0] < 0 || r[1] < r[0] {
			return fmt.Errorf("seq range %v", r)
		}
		if total += int64(r[1]-r[0]) + 1; total > maxSeqs {
			return fmt.Errorf("seq ranges name more than %d events", maxSeqs)
		}
		for q := r[0]; q <= r[1]; q++ {
			out = append(out, q)
		}
	}
	*s = out
	return nil
}

// Event returns the body of an event of this package with the given payload,
// one of [StartEvent], [SummaryEvent], [EndEvent] and [PruneEvent].
func Event(payload any) session.Body {
	var t session.Type
	switch payload.(type) {
	case StartEvent:
		t = TypeStart
	case SummaryEvent:
		t = TypeSummary
	case EndEvent:
		t = TypeEnd
	case PruneEvent:
		t = TypePrune
	case WindowEvent:
		t = TypeWindow
	default:
		panic(fmt.Sprintf("compact: %T is not an event payload", payload))
	}
	data, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("compact: encode %s: %v", t, err)) // plain data
	}
	return session.Raw{Type: t, Data: data}
}

// Decode returns the payload of an event of this package, as a value of one of
// the payload types. It returns nil for events of others.
func Decode(e *session.Event) (any, error) {
	switch e.Type {
	case TypeStart:
		return decode[StartEvent](e)
	case TypeSummary:
		return decode[SummaryEvent](e)
	case TypeEnd:
		return decode[EndEvent](e)
	case TypePrune:
		return decode[PruneEvent](e)
	case TypeWindow:
		return decode[WindowEvent](e)
	}
	return nil, nil
}

func decode[T any](e *session.Event) (any, error) {
	body, err := e.Body()
	if err != nil {
		return nil, err
	}
	var t T
	if err := json.Unmarshal(body.(*session.Raw).Data, &t); err != nil {
		return nil, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
	}
	return t, nil
}

// KnownType reports whether the event type is one of this package.
func KnownType(t session.Type) bool {
	return slices.Contains([]session.Type{TypeStart, TypeSummary, TypeEnd, TypePrune, TypeWindow}, t)
}
