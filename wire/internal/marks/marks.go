// Package marks is the field that we add to records of agents' own session
// files, which the agents pass over: it says what the format has no place for.
package marks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
)

// Field is the name of the field.
const Field = "agentcompact"

// Mark is its value. The zero Mark says nothing.
type Mark struct {
	// ID is the compaction that the message is the checkpoint of.
	ID string `json:"id,omitempty"`
	// Hides is how many messages that replaced, Auto whether it was automatic,
	// TokensBefore the size of the conversation, Time when it was.
	Hides        int    `json:"hides,omitempty"`
	Auto         bool   `json:"auto,omitempty"`
	TokensBefore int    `json:"tokens_before,omitempty"`
	Time         string `json:"time,omitempty"`
	// Source is the source of the message, Results that of the results that
	// stand in the same record.
	Source  *session.Source `json:"source,omitempty"`
	Results *session.Source `json:"results,omitempty"`
}

// IsZero reports whether the mark says nothing.
func (m Mark) IsZero() bool { return m == Mark{} }

// Of makes the mark of a message; derived is the source that a reader takes
// without one.
func Of(msg *session.Message, c *wire.Compaction, derived session.Source) Mark {
	var m Mark
	src := msg.Source
	if c != nil {
		m.ID, m.Hides, m.Auto, m.TokensBefore = c.ID, len(c.Shadowed), c.Auto, c.TokensBefore
		if !c.Time.IsZero() {
			m.Time = c.Time.UTC().Format(time.RFC3339Nano)
		}
	}
	derived.Provider, derived.Model = src.Provider, src.Model
	if src != derived && (m.ID == "" || src != compact.CheckpointSource(m.ID)) {
		m.Source = &src
	}
	return m
}

// Parse reads a mark; what is none is the zero Mark.
func Parse(raw json.RawMessage) Mark {
	var m Mark
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return Mark{}
	}
	return m
}

// Apply gives a message the source that the mark says.
func (m Mark) Apply(msg *session.Message) {
	was := msg.Source
	switch {
	case m.Source != nil && msg.Role == session.RoleTool && m.Results != nil:
		return
	case m.Source != nil:
		msg.Source = *m.Source
	case m.ID != "" && msg.Role != session.RoleTool:
		msg.Source = compact.CheckpointSource(m.ID)
	}
	if msg.Validate() != nil {
		msg.Source = was
	}
}

// Checkpoint returns the compaction that the mark tells of; the entry is the
// caller's to set.
func (m Mark) Checkpoint() wire.Checkpoint {
	c := wire.Checkpoint{Entry: -1, Trigger: "manual", TokensBefore: m.TokensBefore, Hides: m.Hides}
	if m.Auto {
		c.Trigger = "auto"
	}
	c.Time, _ = time.Parse(time.RFC3339Nano, m.Time)
	return c
}

// Dropped tells, by index and time, of which entries the usage says nothing:
// what was written before the newest live checkpoint tells of a longer
// conversation.
func Dropped(c *wire.Conversation) func(entry int, at time.Time) bool {
	from := -1
	var when time.Time
	for _, cp := range c.Checkpoints {
		if cp.Entry >= 0 {
			from, when = cp.Entry, cp.Time
		}
	}
	return func(i int, at time.Time) bool { return from >= 0 && (i < from || at.Before(when) || at.IsZero()) }
}

// DropUsage takes away the usage that says nothing, see [Dropped].
func DropUsage(c *wire.Conversation) {
	dropped := Dropped(c)
	for i := range c.Entries {
		if e := &c.Entries[i]; dropped(i, e.Time) {
			e.Usage = nil
		}
	}
}

// IDs makes identities that are the same for the same compaction.
type IDs struct {
	seed string
	n    int
	used func(string) bool
	made map[string]bool // by Hex
}

// NewFileIDs is [NewIDs] for a file.
func NewFileIDs(ctx context.Context, items []wire.Item, text *jsonl.File, used func(id string) bool) (*IDs, error) {
	h := sha256.New()
	if err := text.Copy(ctx, h); err != nil {
		return nil, fmt.Errorf("read the file for its identity: %w", err)
	}
	return newIDs(items, h.Sum(nil), used), nil
}

// NewIDs returns a maker of identities. Compaction and data, which tells what
// they belong to, are the seed; used tells the identities that exist, and may be
// nil.
func NewIDs(items []wire.Item, data []byte, used func(id string) bool) *IDs {
	sum := sha256.Sum256(data)
	return newIDs(items, sum[:], used)
}

func newIDs(items []wire.Item, sum []byte, used func(string) bool) *IDs {
	ids := &IDs{used: used, made: map[string]bool{}}
	for _, it := range items {
		if it.Compaction != nil {
			ids.seed = it.Compaction.ID
		}
	}
	ids.seed += hex.EncodeToString(sum)
	if ids.used == nil {
		ids.used = func(string) bool { return false }
	}
	return ids
}

func (x *IDs) next(n int) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "agentcompact/%s/%d", x.seed, x.n))
	x.n++
	return sum[:n]
}

// UUID returns the next uuid.
func (x *IDs) UUID() string {
	for {
		b := x.next(16)
		b[6] = b[6]&0x0f | 0x80 // version 8: our own kind
		b[8] = b[8]&0x3f | 0x80
		id := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		if !x.used(id) { // and the next one differs
			return id
		}
	}
}

// Hex returns the next identity of so many bytes in hexadecimal.
func (x *IDs) Hex(n int) string {
	for {
		if id := hex.EncodeToString(x.next(n)); !x.used(id) && !x.made[id] {
			x.made[id] = true // short ones may come again
			return id
		}
	}
}

// Time is when the items were made: the time of their compaction, or else that
// of the last record.
func Time(items []wire.Item, last time.Time) time.Time {
	at := last
	for _, it := range items {
		if it.Compaction != nil && !it.Compaction.Time.IsZero() {
			at = it.Compaction.Time
		}
	}
	return at.UTC()
}

// Stamp writes a time the way JavaScript does.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
