// Package detect recognizes compactions that somebody else performed: for a
// gateway between agents and models, and for an agent that takes over a
// history.
//
//	d, err := detect.New(nil)
//	d.RequestOpened(detect.Request{Meta: meta, Messages: messages}) // once the provider has accepted it
//	d.ResponseReleased(detect.Response{Meta: meta, Text: delta})    // for each piece of the answer
//
// Both return transitions for [lifecycle.Dispatcher.Emit]. There are three
// kinds of evidence. The protocol: an operation that compacts, or an item that
// holds a compacted history. A [Signature]: the request in which a known agent
// has a summary written, and the next request, in which it is installed. And a
// heuristic: the history of a branch was rewritten, much smaller, with
// something new before an end that stayed as it was.
//
// # What it is careful about
//
// Marks count only where an agent puts them: in the last message of a request,
// in the system prompt, or before the first reply. A conversation that reads,
// quotes or greps prompts and summaries shows nothing; an installed summary
// counts only if the history was rewritten or is seen for the first time.
// Checkpoints of our own are known by their source and are no events.
//
// A summary that was written is not installed yet: a started compaction is
// completed by the next request that has it, and aborted by one that goes on
// as if nothing had happened, by a response that fails, by its age, or by
// another compaction. Every started one ends once.
//
// Nothing that a detector returns has content, and it keeps none: only hashes
// and, while a summary is being written, the last few bytes of it.
package detect

import (
	"container/list"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/agentcompact/agentcompact/lifecycle"
	"github.com/agentcompact/agentcompact/session"
)

// The rules that are no signatures.
const (
	RuleProtocol  = "protocol.context_compaction.v1"
	RuleHeuristic = "local.compaction_heuristic.v1"
)

// Why a started compaction was aborted, in [lifecycle.Detail.Code].
const (
	ReasonResponse     = "response_failed"
	ReasonNoSummary    = "no_summary"
	ReasonNotInstalled = "not_installed"
	ReasonSuperseded   = "superseded"
	ReasonExpired      = "expired"
	ReasonEvicted      = "evicted"
	ReasonForgotten    = "forgotten"
)

// Meta says what a request or response belongs to.
type Meta struct {
	// Branch identifies the conversation; without it nothing is detected.
	Branch string
	// Session, Trace and Leg are passed on in events: the session, the logical
	// request, and the attempt at it, whose number is Attempt. A response has
	// the trace of its request.
	Session string
	Trace   string
	Leg     string
	Attempt int
}

// Request is a decoded request to a model.
type Request struct {
	Meta
	// Compact marks an operation that compacts, such as a call of a provider's
	// compact endpoint.
	Compact bool
	// System holds leading system and developer messages; they may also lead
	// Messages. Messages are the others in order. They are read, not kept.
	System   []*session.Message
	Messages []*session.Message
}

// Response is a piece of a response that is handed to the client.
type Response struct {
	Meta
	// Text is a delta, or the whole text.
	Text string
	// Item is the provider's type of an item that is complete, ItemID its id.
	Item, ItemID string
	// ToolCall reports that the piece calls a tool.
	ToolCall bool
	// Done marks the last piece. Status is what the provider says of the whole
	// ("completed", "incomplete"), Finish why it stopped ("stop", "length");
	// either may be empty.
	Done           bool
	Status, Finish string
	// Failed marks a response that broke off.
	Failed bool
}

// Options configure [New]. Nil means all defaults.
type Options struct {
	// Signatures are those of the agents; nil means [Signatures].
	Signatures []Signature
	// MaxBranches bounds the branches that are remembered; those that were not
	// seen for longest go first. 0 means 4096.
	MaxBranches int
	// TTL is how long a branch is remembered; 0 means a day.
	TTL time.Duration
	// MinTokens is the size from which a history can have been compacted by the
	// heuristic, and the least that it must have lost; 0 means 8000. MinShare is
	// the least share that it must have lost; 0 means 0.25. NoHeuristic
	// switches the heuristic off.
	MinTokens   int
	MinShare    float64
	NoHeuristic bool
	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Detector follows the branches of many conversations. It is safe for
// concurrent use, makes no input or output, and has no goroutine.
type Detector struct {
	o       Options
	longest int // mark of a response

	mu       sync.Mutex
	branches map[string]*branch
	order    *list.List // of *branch, least recently seen first
	swept    time.Time
	dropped  int // branches so far
}

// branch is what is remembered of one conversation.
type branch struct {
	id     string
	at     *list.Element
	seen   time.Time
	life   int // tells it from what was remembered of the branch before
	count  int // transactions so far
	base   print
	active *transaction
	// told are the hashes of installed summaries that were reported, newest
	// last; items those of protocol items.
	told  []uint64
	items []string
}

// transaction is a compaction under way.
type transaction struct {
	started  lifecycle.Event
	rule     *Signature // nil for the protocol
	boundary string
	trace    string // of the newest request
	tokens   int
	at       time.Time
	// the response so far
	window string
	marks  int // bits of rule.Response
	text   bool
}

func (x *transaction) ruleID() string {
	if x.rule == nil {
		return RuleProtocol
	}
	return x.rule.ID
}

// marked reports whether the response had the marks of a summary.
func (x *transaction) marked() bool { return x.rule == nil || x.marks == 1<<len(x.rule.Response)-1 }

const (
	maxTold       = 64
	sweepInterval = time.Minute
)

// New returns a detector. The error names a signature that cannot work.
func New(opts *Options) (*Detector, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Signatures == nil {
		o.Signatures = Signatures()
	}
	o.Signatures = slices.Clone(o.Signatures)
	if err := checkSignatures(o.Signatures); err != nil {
		return nil, err
	}
	if o.MaxBranches <= 0 {
		o.MaxBranches = 4096
	}
	if o.TTL <= 0 {
		o.TTL = 24 * time.Hour
	}
	if o.MinTokens <= 0 {
		o.MinTokens = 8000
	}
	if o.MinShare <= 0 {
		o.MinShare = 0.25
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Detector{o: o, branches: make(map[string]*branch), order: list.New()}
	for i := range o.Signatures {
		for _, m := range o.Signatures[i].Response {
			d.longest = max(d.longest, len(m))
		}
	}
	d.swept = o.Now()
	return d, nil
}

// Branches returns how many branches are remembered.
func (d *Detector) Branches() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.branches)
}

// lookup returns what is remembered of a branch, or an empty one that is not,
// and whether it is remembered. It changes nothing. The caller holds the lock.
func (d *Detector) lookup(id string, now time.Time) (*branch, bool) {
	b := d.branches[id]
	switch {
	case b == nil:
		return &branch{id: id, life: d.dropped}, false
	case now.Sub(b.seen) >= d.o.TTL:
		return &branch{id: id, life: d.dropped + 1}, false
	}
	return b, true
}

// touch returns the branch, new if need be, and appends to out what ended
// because of its age or for want of room.
func (d *Detector) touch(id string, now time.Time, out *[]lifecycle.Transition) *branch {
	b, known := d.lookup(id, now)
	if now.Sub(d.swept) >= sweepInterval {
		d.sweep(now, out)
	}
	if !known {
		if old := d.branches[id]; old != nil {
			d.drop(old, ReasonExpired, now, out)
		}
		for len(d.branches) >= d.o.MaxBranches {
			d.drop(d.order.Front().Value.(*branch), ReasonEvicted, now, out)
		}
		b.at = d.order.PushBack(b)
		d.branches[id] = b
	}
	b.seen = now
	d.order.MoveToBack(b.at)
	return b
}

func (d *Detector) drop(b *branch, reason string, now time.Time, out *[]lifecycle.Transition) {
	b.abort(reason, now, out)
	d.dropped++
	d.order.Remove(b.at)
	delete(d.branches, b.id)
}

func (d *Detector) sweep(now time.Time, out *[]lifecycle.Transition) {
	d.swept = now
	for e := d.order.Front(); e != nil; e = d.order.Front() {
		b := e.Value.(*branch)
		if now.Sub(b.seen) < d.o.TTL {
			return
		}
		d.drop(b, ReasonExpired, now, out)
	}
}

// Sweep forgets branches that are too old and returns what was under way in
// them. Requests and responses do so, too, at most once a minute.
func (d *Detector) Sweep() []lifecycle.Transition {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []lifecycle.Transition
	d.sweep(d.o.Now(), &out)
	return out
}

// Forget drops a branch and returns what was under way in it.
func (d *Detector) Forget(id string) []lifecycle.Transition {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []lifecycle.Transition
	if b := d.branches[id]; b != nil {
		d.drop(b, ReasonForgotten, d.o.Now(), &out)
	}
	return out
}

// abort ends what is under way in the branch.
func (b *branch) abort(reason string, now time.Time, out *[]lifecycle.Transition) {
	x := b.active
	if x == nil {
		return
	}
	b.active = nil
	*out = append(*out, lifecycle.Transition{Event: x.started, Detail: lifecycle.Detail{
		Outcome: lifecycle.OutcomeAborted, Code: reason, TokensBefore: x.tokens, Duration: now.Sub(x.at),
	}})
}

// transactionID names the transaction that would be the next of the branch.
// It is stable while nothing else happens, and never that of another.
func (b *branch) transactionID(rule, trace, boundary string) string {
	return identity(8, b.id, rule, trace, boundary, strconv.Itoa(b.life), strconv.Itoa(b.count))
}

func event(p lifecycle.Phase, ev lifecycle.Evidence, rule, id string, m Meta, now time.Time) lifecycle.Event {
	return lifecycle.Event{
		Phase: p, Evidence: ev, RuleID: rule, TransactionID: id, TraceID: m.Trace, ALegID: m.Branch, BLegID: m.Leg,
		AttemptSeq: m.Attempt, SessionID: m.Session, OccurredAt: now,
	}
}
