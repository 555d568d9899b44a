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
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
// first and the conversations then. data are the bytes that f was read from;
// nil for a folder.
func Diagnose(ctx context.Context, data []byte, f *wire.File) ([]Finding, error) {
	out := scan(data, f.Format)
	for i, c := range f.Conversations {
		list, err := conversation(ctx, data, f, c)
		if err != nil {
			return nil, err
		}
		for k := range list {
			list[k].Conversation = i + 1
		}
		out = append(out, list...)
	}
	return append(out, hidden(data, f, out)...), nil
}

// view imports a conversation.
func view(ctx context.Context, c *wire.Conversation) (session.View, func(), error) {
	s, err := session.Open(ctx, session.NewMemoryStore(), nil)
	if err != nil {
		return session.View{}, nil, err
	}
	if _, err := wire.Import(ctx, s, c); err != nil {
		_ = s.Close()
		return session.View{}, nil, err
	}
	return s.View(), func() { _ = s.Close() }, nil
}

var kindOf = map[toolpairing.Kind]Kind{
	toolpairing.OrphanResult: OrphanResult, toolpairing.UnansweredCall: UnansweredCall, toolpairing.DuplicateCallID: DuplicateCallID,
	toolpairing.DuplicateResult: DuplicateResult, toolpairing.ResultBeforeCall: ResultFirst,
}

// conversation diagnoses one conversation as it is live.
func conversation(ctx context.Context, data []byte, f *wire.File, c *wire.Conversation) ([]Finding, error) {
	v, done, err := view(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	p := &placer{data: data, c: c}
	x := toolpairing.Of(v)
	var out []Finding
	add := func(i int, id string, n Finding) {
		n.Message, n.CallID = i+1, id
		n.Line, n.Offset = p.place(i)
		out = append(out, n)
	}
	for _, q := range x.Diagnose() {
		name := callName(&c.Entries[q.Position].Message, q.Index)
		switch kind := kindOf[q.Kind]; {
		case q.Running:
			add(q.Position, q.CallID, finding(RunningCall, "the call of %s has no result yet, and nothing follows it", name))
		case kind == UnansweredCall:
			add(q.Position, q.CallID, finding(kind, "the call of %s has no result, and the conversation went on", name))
		case kind == DuplicateCallID:
			add(q.Position, q.CallID, finding(kind, "two calls of one message have this id"))
		case kind == DuplicateResult:
			add(q.Position, q.CallID, finding(kind, "the call has a result already"))
		case kind == ResultFirst:
			add(q.Position, q.CallID, finding(kind, "the result stands before its call"))
		default:
			add(q.Position, q.CallID, finding(kind, "no call of this id stands before the result"))
		}
	}
	plan := x.Plan()
	for _, m := range plan.Moves {
		add(m.Result, m.CallID, finding(LateResult, "other messages stand between the call (message %d) and its result", m.Call+1))
	}
	seen := map[string]bool{}
	before := ""
	for i := range c.Entries {
		e := &c.Entries[i]
		m := &e.Message
		for _, part := range m.Parts {
			switch q := part.(type) {
			case session.ToolCall:
				switch {
				case q.ID == "":
					add(i, "", finding(CallWithoutID, "the call of %s has no id", q.Name))
				case seen[q.ID] && !madeUp(f.Format, q) && !slices.ContainsFunc(out, func(n Finding) bool { return n.Kind == DuplicateCallID && n.Message == i+1 && n.CallID == q.ID }):
					add(i, q.ID, finding(CallIDReused, "an earlier call has this id, too"))
				}
				seen[q.ID] = true
				if !q.Custom && q.Arguments != "" && !json.Valid([]byte(q.Arguments)) {
					add(i, q.ID, finding(BadArguments, "the arguments of %s are not valid JSON", q.Name))
				}
			case session.ToolResult:
				if q.CallID == "" {
					add(i, "", finding(ResultWithoutID, "the result names no call"))
				}
			}
		}
		if m.Role != session.RoleTool && m.IsEmpty() {
			add(i, "", finding(EmptyMessage, "the %s message has neither text nor calls", m.Role))
		}
		if i == 0 && modelFirst(f.Format, c) {
			add(i, "", finding(ModelFirst, "the first message is the model's"))
		}
		if m.Role == session.RoleSystem || m.Role == session.RoleDeveloper && f.Format == "openai-chat" {
			add(i, "", finding(SystemBetween, "a %s message stands in the conversation", m.Role))
		}
		if data == nil && !validUTF8(m) {
			add(i, "", finding(InvalidUTF8, "there are bytes that are not UTF-8"))
		}
		if u := e.Usage; u != nil && (u.Prompt < 0 || u.Completion < 0 || u.CacheRead < 0 || u.CacheWrite < 0 || u.CacheRead+u.CacheWrite > u.Prompt) {
			add(i, "", finding(WrongUsage, "prompt %d, of it from cache %d and to cache %d, completion %d", u.Prompt, u.CacheRead, u.CacheWrite, u.Completion))
		}
		role := turnRole(m.Role)
		if splitResults(f.Format, c, x, i) {
			add(i, "", finding(SplitResults, "the message before it holds results of the same calls"))
		} else if takesTurns(f.Format) && i > 0 && role == before && !sameRecord(c, i) {
			add(i, "", finding(RepeatedRole, "two messages of role %s in a row", role))
		}
		before = role
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return a.Message - b.Message })
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

// modelFirst reports whether the model has the first word where that is refused.
func modelFirst(format string, c *wire.Conversation) bool {
	return takesTurns(format) && len(c.Entries) > 0 && c.Entries[0].Message.Role == session.RoleAssistant
}

func turnRole(r session.Role) string {
	if r == session.RoleTool {
		return string(session.RoleUser)
	}
	return string(r)
}

// sameRecord reports whether an entry is the rest of the record before it:
// results, and what was said with them.
func sameRecord(c *wire.Conversation, i int) bool {
	return c.Entries[i-1].Message.Role == session.RoleTool && c.Entries[i].Message.Role == session.RoleUser &&
		c.Entries[i-1].Message.Origin == nil && c.Entries[i].Message.Origin == nil
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

// placer finds the place of live messages in the file. It looks for them in
// order, so that of equal records each has its own place.
type placer struct {
	data   []byte
	c      *wire.Conversation
	places []int // offsets of the entries before next; -1 for none
	lines  counter
}

// place returns line and offset of an entry; zero when it has no record of its
// own.
func (p *placer) place(i int) (line int, offset int64) {
	if p.data == nil {
		return 0, 0
	}
	for k := len(p.places); k <= i; k++ {
		p.places = append(p.places, p.find(k))
	}
	at := p.places[i]
	if at < 0 {
		return 0, 0
	}
	return p.lines.of(p.data, at), int64(at)
}

func (p *placer) find(k int) int {
	o := p.c.Entries[k].Message.Origin
	if o == nil || len(o.Raw) == 0 {
		return -1
	}
	from := 0
	if k > 0 && p.places[k-1] >= 0 {
		from = p.places[k-1]
		if before := p.c.Entries[k-1].Message.Origin; &before.Raw[0] != &o.Raw[0] {
			from += len(before.Raw)
		}
	}
	if n := bytes.Index(p.data[from:], o.Raw); n >= 0 {
		return from + n
	}
	return bytes.Index(p.data, o.Raw)
}

// counter knows the line of an offset; it is quick where offsets rise.
type counter struct{ off, lines int }

// of is the line of an offset, from 1.
func (c *counter) of(data []byte, offset int) int {
	if offset < c.off {
		*c = counter{}
	}
	c.lines += bytes.Count(data[c.off:offset], []byte{'\n'})
	c.off = offset
	return 1 + c.lines
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
