// Package doctor says what is wrong with a transcript, with place and
// consequence, and repairs it by the least change.
//
// [Diagnose] looks at the bytes of a file (encoding, records cut short), at the
// links between its records, and at each conversation as it was read (pairing,
// ids, order, usage). What is normal in real transcripts, such as ids that are
// used again, is a finding too, marked as normal. [Repair] makes a new file and
// lists every change; what it will not decide is left and named with the option
// that decides it.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
)

// Kind says what a finding is. The words are part of the command's JSON and
// append-only.
type Kind string

// The kinds of findings.
const (
	// Of the file.
	TornRecord     Kind = "torn_record"
	BadLine        Kind = "bad_line"
	NotAnObject    Kind = "not_an_object"
	InvalidUTF8    Kind = "invalid_utf8"
	HalfSurrogate  Kind = "half_surrogate"
	TwoOnALine     Kind = "two_on_a_line"
	BlankLine      Kind = "blank_line"
	NoType         Kind = "record_without_type"
	DuplicateUUID  Kind = "duplicate_uuid"
	DanglingParent Kind = "dangling_parent"
	NoRoot         Kind = "no_root"
	KeepsNothing   Kind = "compaction_keeps_nothing"
	// Of a conversation.
	OrphanResult    Kind = "orphan_result"
	UnansweredCall  Kind = "unanswered_call"
	RunningCall     Kind = "running_call"
	DuplicateCallID Kind = "duplicate_call_id"
	DuplicateResult Kind = "duplicate_result"
	ResultFirst     Kind = "result_before_call"
	LateResult      Kind = "late_result"
	SplitResults    Kind = "split_results"
	CallWithoutID   Kind = "call_without_id"
	ResultWithoutID Kind = "result_without_id"
	CallIDReused    Kind = "call_id_reused"
	RepeatedRole    Kind = "repeated_role"
	ModelFirst      Kind = "model_first"
	SystemBetween   Kind = "system_in_between"
	EmptyMessage    Kind = "empty_message"
	BadArguments    Kind = "bad_arguments"
	WrongUsage      Kind = "wrong_usage"
	// Of what is not live: side chains, left branches, what a compaction hides.
	HiddenUnanswered Kind = "hidden_unanswered_call"
	HiddenOrphan     Kind = "hidden_orphan_result"
	HiddenReused     Kind = "hidden_call_id_reused"
)

// about says of each kind what follows from it, and whether it is normal: it
// occurs in sound transcripts and needs no repair.
var about = map[Kind]struct {
	consequence string
	normal      bool
}{
	TornRecord:       {"the last record was not written to its end; what it said is lost, and an agent that appends to the file spoils the next one", false},
	BadLine:          {"the line is passed over; if it was a message, the conversation lacks it", false},
	NotAnObject:      {"the value is no record and is passed over", false},
	InvalidUTF8:      {"providers refuse the request; some readers refuse the file", false},
	HalfSurrogate:    {"providers refuse the request", false},
	TwoOnALine:       {"readers that take a line for a record lose the second one", true},
	BlankLine:        {"none", true},
	NoType:           {"the record is of an older version of the format, or none", true},
	DuplicateUUID:    {"links to this id are ambiguous; the record before counts", false},
	DanglingParent:   {"what stood before is not in the file: it was trimmed, or another session's", true},
	NoRoot:           {"the file begins in mid-session", true},
	KeepsNothing:     {"of the conversation before the compaction only the summary is left", true},
	OrphanResult:     {"providers refuse the request", false},
	UnansweredCall:   {"providers refuse the request", false},
	RunningCall:      {"the result may still come; until then providers refuse the request", true},
	DuplicateCallID:  {"providers refuse the request, and results cannot be told apart", false},
	DuplicateResult:  {"providers refuse the request", false},
	ResultFirst:      {"providers refuse the request", false},
	LateResult:       {"providers that want results right behind their call refuse the request", false},
	SplitResults:     {"providers that want all results of a message in the next one refuse the request, or learn to make one call at a time", false},
	CallWithoutID:    {"the call and its result are matched by their order alone", false},
	ResultWithoutID:  {"the result and its call are matched by their order alone", false},
	CallIDReused:     {"none: a result belongs to the nearest open call of its id", true},
	RepeatedRole:     {"none: the provider merges neighbors of one role", true},
	ModelFirst:       {"providers refuse a request that does not begin with the user", false},
	SystemBetween:    {"none in requests that are built here, where it is a note; some providers refuse it as it is", true},
	EmptyMessage:     {"nothing of it can be sent; it is left out of requests", true},
	BadArguments:     {"some providers refuse the request", false},
	WrongUsage:       {"the size of the conversation is misjudged", false},
	HiddenUnanswered: {"none: the call is not part of the live conversation", true},
	HiddenOrphan:     {"none: the result is not part of the live conversation", true},
	HiddenReused:     {"none: the call is not part of the live conversation", true},
}

// Kinds returns every kind, in order of their names.
func Kinds() []Kind {
	var out []Kind
	for k := range about {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Finding is one thing that was found.
type Finding struct {
	Kind Kind `json:"kind"`
	// Normal: it occurs in sound transcripts and needs no repair.
	Normal bool `json:"normal,omitempty"`
	// Conversation counts from 1; 0 when it is of the file.
	Conversation int `json:"conversation,omitempty"`
	// Message counts the live messages from 1; 0 when it is none of them.
	Message int `json:"message,omitempty"`
	// File is that of a folder, with slashes; empty for a session that is one
	// file.
	File string `json:"file,omitempty"`
	// Line is the line from 1, Offset the byte from 0; both are 0 where the
	// file has no such place.
	Line   int   `json:"line,omitempty"`
	Offset int64 `json:"offset,omitempty"`
	// CallID is the call or result; may be empty.
	CallID string `json:"call_id,omitempty"`
	// Detail says what was found, Consequence what follows from it.
	Detail      string `json:"detail"`
	Consequence string `json:"consequence"`
}

func finding(kind Kind, format string, args ...any) Finding {
	a := about[kind]
	return Finding{Kind: kind, Normal: a.normal, Consequence: a.consequence, Detail: fmt.Sprintf(format, args...)}
}

// Diagnose returns everything that was found in a file, in order of the file
// first and the conversations then. src are the bytes that f was read from; nil
// for a folder. A log is read several times and never held: beside what a
// session keeps of its messages, the ids and places of its records stay in
// memory while Diagnose runs, about 150 bytes a record, and the findings. A
// document is held.
func Diagnose(ctx context.Context, src *io.SectionReader, f *wire.File) ([]Finding, error) {
	t, err := newText(ctx, src, f.Format)
	if err != nil {
		return nil, err
	}
	out, err := t.scan(ctx)
	if err != nil {
		return nil, err
	}
	for i, c := range f.Conversations {
		list, err := conversation(ctx, t, f.Format, c, session.View{})
		if err != nil {
			return nil, err
		}
		for k := range list {
			list[k].Conversation = i + 1
		}
		out = append(out, list...)
	}
	list, err := t.hidden(ctx, out)
	return append(out, list...), err
}

// free prices nothing: no question here is about sizes.
type free struct{}

func (free) ID() string                            { return "free" }
func (free) Price(*session.Message) int            { return 0 }
func (free) PriceEnvelope(e *session.Envelope) int { return 0 }

// view is a conversation as a session, which leaves the messages where they are.
func view(ctx context.Context, c *wire.Conversation) (session.View, func(), error) {
	s, err := session.Open(ctx, wire.NewStore(c, free{}, &wire.StoreOptions{NoUsage: true}), &session.Options{Pricer: free{}})
	if err != nil {
		return session.View{}, nil, err
	}
	return s.View(), func() { _ = s.Close() }, nil
}

var kindOf = map[toolpairing.Kind]Kind{
	toolpairing.OrphanResult: OrphanResult, toolpairing.UnansweredCall: UnansweredCall, toolpairing.DuplicateCallID: DuplicateCallID,
	toolpairing.DuplicateResult: DuplicateResult, toolpairing.ResultBeforeCall: ResultFirst,
}

// call names a call by the message that makes it, from 1, and its id.
type call struct {
	message int
	id      string
}

// looker looks at the messages of a conversation one by one.
type looker struct {
	format string
	file   bool // the messages are from a file, whose bytes were looked at
	p      *placer
	n      int // messages before
	out    []Finding
	seen   map[string]bool
	before *session.Message
	again  []string // by message, the role if it is that of the one before, where turns are taken
}

func (l *looker) add(id string, n Finding) {
	n.Message, n.CallID = l.n+1, id
	l.out = append(l.out, n)
}

// look takes in the next message.
func (l *looker) look(e *wire.Entry) {
	m := &e.Message
	l.p.see(m.Origin)
	for _, part := range m.Parts {
		switch q := part.(type) {
		case session.ToolCall:
			switch {
			case q.ID == "":
				l.add("", finding(CallWithoutID, "the call of %s has no id", q.Name))
			case l.seen[q.ID] && !madeUp(l.format, q):
				l.add(q.ID, finding(CallIDReused, "an earlier call has this id, too"))
			}
			l.seen[q.ID] = true
			if badArguments(q) {
				l.add(q.ID, finding(BadArguments, "the arguments of %s are not valid JSON", q.Name))
			}
		case session.ToolResult:
			if q.CallID == "" {
				l.add("", finding(ResultWithoutID, "the result names no call"))
			}
		}
	}
	if m.Role != session.RoleTool && m.IsEmpty() {
		l.add("", finding(EmptyMessage, "the %s message has neither text nor calls", m.Role))
	}
	if l.n == 0 && takesTurns(l.format) && m.Role == session.RoleAssistant {
		l.add("", finding(ModelFirst, "the first message is the model's"))
	}
	if m.Role == session.RoleSystem || m.Role == session.RoleDeveloper && l.format == "openai-chat" {
		l.add("", finding(SystemBetween, "a %s message stands in the conversation", m.Role))
	}
	if !l.file && !validUTF8(m) {
		l.add("", finding(InvalidUTF8, "there are bytes that are not UTF-8"))
	}
	if u := e.Usage; impossible(u) {
		l.add("", finding(WrongUsage, "prompt %d, of it from cache %d and to cache %d, completion %d", u.Prompt, u.CacheRead, u.CacheWrite, u.Completion))
	}
	if takesTurns(l.format) {
		role := turnRole(m.Role)
		if l.before == nil || role != turnRole(l.before.Role) || sameRecord(l.before, m) {
			role = ""
		}
		l.again = append(l.again, role)
		l.before = m
	}
	l.n++
}

// conversation diagnoses one conversation as it is live. v is its view; the zero
// View makes it read the messages once for both.
func conversation(ctx context.Context, t *text, format string, c *wire.Conversation, v session.View) ([]Finding, error) {
	l := &looker{format: format, file: t != nil, p: &placer{t: t, c: c}, seen: map[string]bool{}}
	watched := &wire.Conversation{Envelope: c.Envelope}
	watched.Leave(c.Len(), func(i int) (wire.Entry, error) {
		e, err := c.At(i)
		if err == nil && i == l.n {
			l.look(&e)
		}
		return e, err
	})
	if v == (session.View{}) {
		own, done, err := view(ctx, watched)
		if err != nil {
			return nil, err
		}
		defer done()
		v = own
	}
	for i := l.n; i < c.Len(); i++ { // what the view did not ask for
		if i%512 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, err := watched.At(i); err != nil {
			return nil, err
		}
	}
	x := toolpairing.Of(v)
	out, err := pairing(c, x)
	if err != nil {
		return nil, err
	}
	twice := map[call]bool{}
	for _, n := range out {
		if n.Kind == DuplicateCallID {
			twice[call{n.Message, n.CallID}] = true
		}
	}
	for _, n := range l.out {
		if n.Kind != CallIDReused || !twice[call{n.Message, n.CallID}] {
			out = append(out, n)
		}
	}
	for i, role := range l.again {
		n := Finding{}
		switch {
		case splitResults(format, x, i):
			n = finding(SplitResults, "the message before it holds results of the same calls")
		case role != "":
			n = finding(RepeatedRole, "two messages of role %s in a row", role)
		default:
			continue
		}
		n.Message = i + 1
		out = append(out, n)
	}
	for k := range out {
		out[k].Line, out[k].Offset = l.p.place(out[k].Message - 1)
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return a.Message - b.Message })
	return out, nil
}

// pairing diagnoses the calls and results of a conversation.
func pairing(c *wire.Conversation, x *toolpairing.Index) (out []Finding, err error) {
	add := func(i int, id string, n Finding) {
		n.Message, n.CallID = i+1, id
		out = append(out, n)
	}
	for _, q := range x.Diagnose() {
		switch kind := kindOf[q.Kind]; kind {
		case UnansweredCall:
			e, err := c.At(q.Position)
			if err != nil {
				return nil, err
			}
			name := callName(&e.Message, q.Index)
			if q.Running {
				add(q.Position, q.CallID, finding(RunningCall, "the call of %s has no result yet, and nothing follows it", name))
				continue
			}
			add(q.Position, q.CallID, finding(kind, "the call of %s has no result, and the conversation went on", name))
		case DuplicateCallID:
			add(q.Position, q.CallID, finding(kind, "two calls of one message have this id"))
		case DuplicateResult:
			add(q.Position, q.CallID, finding(kind, "the call has a result already"))
		case ResultFirst:
			add(q.Position, q.CallID, finding(kind, "the result stands before its call"))
		default:
			add(q.Position, q.CallID, finding(kind, "no call of this id stands before the result"))
		}
	}
	for _, m := range x.Plan().Moves {
		add(m.Result, m.CallID, finding(LateResult, "other messages stand between the call (message %d) and its result", m.Call+1))
	}
	return out, nil
}

// madeUp reports whether a reader made the id of a call of its name, since the
// format has none.
func madeUp(format string, c session.ToolCall) bool {
	rest, ok := strings.CutPrefix(c.ID, c.Name+":")
	return ok && strings.Trim(rest, "0123456789") == "" && (strings.HasPrefix(format, "gemini") || format == "qwen")
}

// takesTurns knows the formats in which user and assistant are meant to take turns.
func takesTurns(format string) bool {
	return format == "gemini-contents" || format == "anthropic-messages"
}

func turnRole(r session.Role) string {
	if r == session.RoleTool {
		return string(session.RoleUser)
	}
	return string(r)
}

// sameRecord reports whether a message is the rest of the record that the one
// before it is from: results, and what was said with them.
func sameRecord(before, m *session.Message) bool {
	return before.Role == session.RoleTool && m.Role == session.RoleUser && before.Origin == nil && m.Origin == nil
}

func callName(m *session.Message, k int) string {
	for _, p := range m.Parts {
		if c, ok := p.(session.ToolCall); ok {
			if k == 0 {
				return c.Name
			}
			k--
		}
	}
	return "a tool"
}

func validUTF8(m *session.Message) bool {
	for _, p := range m.Parts {
		if t, ok := p.(session.Text); ok && !utf8.ValidString(t.Text) {
			return false
		}
	}
	return utf8.ValidString(m.Text())
}

// Summary words the findings for people, in one line: how many need repair and
// how many are normal.
func Summary(list []Finding) string {
	bad, normal := 0, 0
	for _, f := range list {
		if f.Normal {
			normal++
		} else {
			bad++
		}
	}
	var parts []string
	switch bad {
	case 0:
		parts = append(parts, "nothing is wrong")
	case 1:
		parts = append(parts, "1 problem")
	default:
		parts = append(parts, fmt.Sprintf("%d problems", bad))
	}
	switch {
	case normal == 1:
		parts = append(parts, "1 normal peculiarity")
	case normal > 1:
		parts = append(parts, fmt.Sprintf("%d normal peculiarities", normal))
	}
	return strings.Join(parts, ", ")
}

// badArguments reports whether the arguments of a call should be JSON and are not.
func badArguments(c session.ToolCall) bool {
	return !c.Custom && c.Arguments != "" && !json.Valid([]byte(c.Arguments))
}
