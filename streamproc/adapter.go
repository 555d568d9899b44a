package streamproc

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// Adapter says how an item of the host reads as a message and back. Hosts keep
// their type, and everything behind it is shared. The functions are pure and
// safe for concurrent use.
type Adapter[T any] struct {
	// To returns the message that an item means; required. A zero Source is
	// filled in from the role. Calls and results carry their ids; one without an
	// id is paired by its neighborhood: a result answers the next open call of
	// the message before the results. A host that can tell its checkpoints by a
	// field of its own returns the source that [compact.CheckpointSource] makes.
	To func(item T) (session.Message, error)
	// From returns the item for a checkpoint, which is a user message with one
	// text and a typed source; required.
	From func(m session.Message) (T, error)
	// Seq returns the number by which the host finds an item again. Nil numbers
	// the items of the views from 0 as if nothing had been compacted, as far as
	// the records of checkpoints tell; see [Keeper].
	Seq func(item T) session.Seq
	// Running reports that a call of the item still runs although other messages
	// follow. Nil says so of none: then a call without a result is running while
	// nothing but results follows it.
	Running func(item T) bool
}

func (a Adapter[T]) check() error {
	if a.To == nil || a.From == nil {
		return fail(InvalidOptions, 0, "an adapter needs To and From")
	}
	return nil
}

// message returns the message of an item with its source filled in.
func (a Adapter[T]) message(item T) (session.Message, error) {
	m, err := a.To(item)
	if err != nil {
		return m, err
	}
	if m.Source.Kind == "" {
		switch m.Role {
		case session.RoleUser:
			m.Source.Kind = session.SourceUser
		case session.RoleAssistant:
			m.Source.Kind = session.SourceModel
		case session.RoleTool:
			m.Source.Kind = session.SourceTool
		default:
			m.Source = session.Source{Kind: session.SourcePlugin, Plugin: "host"}
		}
	}
	return m, m.Validate()
}

// Digest returns a hash of items by what they mean: equal for equal messages in
// equal order.
func (a Adapter[T]) Digest(items []T) (string, error) {
	h := sha256.New()
	for i, it := range items {
		m, err := a.To(it)
		if err != nil {
			return "", fmt.Errorf("item %d: %w", i, err)
		}
		b, err := json.Marshal(&m)
		if err != nil {
			return "", fmt.Errorf("item %d: %w", i, err)
		}
		fmt.Fprintf(h, "%d:", len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// entry is one item as a message.
type entry struct {
	msg    *session.Message // ids filled in
	tokens int
	seq    session.Seq
	rec    Record // of a checkpoint that is known
	ckpt   bool
	runs   bool // a call of it is still running, says the host
}

// entries converts items. records finds what is known of a checkpoint.
func (a Adapter[T]) entries(items []T, first session.Seq, price func(*session.Message) int, records func(T, *session.Message) (Record, bool)) ([]entry, error) {
	out := make([]entry, len(items))
	next := first
	for i, it := range items {
		m, err := a.message(it)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		e := entry{msg: &m, tokens: price(&m), seq: next, ckpt: compact.IsCheckpointSource(m.Source)}
		next++
		if m.Role == session.RoleUser {
			if r, ok := records(it, &m); ok {
				e.rec, e.ckpt = r, true
				m.Source = compact.CheckpointSource(r.ID)
				if r.Count > 0 {
					e.seq, next = r.Start, max(next, r.End+1)
				}
			}
		}
		if a.Seq != nil {
			e.seq = a.Seq(it)
		}
		e.runs = a.Running != nil && a.Running(it)
		out[i] = e
	}
	fillIDs(out)
	return out, nil
}

// behind returns the number that follows those of the items.
func (a Adapter[T]) behind(items []T, records func(T, *session.Message) (Record, bool)) session.Seq {
	next := session.Seq(0)
	for _, it := range items {
		next++
		m, err := a.To(it)
		if err != nil || m.Role != session.RoleUser {
			continue
		}
		if r, ok := records(it, &m); ok && r.Count > 0 {
			next = max(next, r.End+1)
		}
	}
	return next
}

// fillIDs gives ids to calls that have none, and to results that have none the
// id of the call that they answer by their neighborhood. Messages are changed
// only where an id is missing, and then copied.
func fillIDs(list []entry) {
	var open []string // calls of the newest message that is no result
	for i := range list {
		m := list[i].msg
		if m.Role != session.RoleTool {
			open = open[:0]
		}
		copied := false
		for k, p := range m.Parts {
			set := func(p session.Part) {
				if !copied {
					m = m.Clone()
					list[i].msg, copied = m, true
				}
				m.Parts[k] = p
			}
			switch p := p.(type) {
			case session.ToolCall:
				if p.ID == "" {
					p.ID = fmt.Sprintf("call-%d-%d", i, k)
					set(p)
				}
				open = append(open, p.ID)
			case session.ToolResult:
				if p.CallID == "" && len(open) > 0 {
					p.CallID = open[0]
					set(p)
				}
				for j, id := range open {
					if id == p.CallID {
						open = append(open[:j], open[j+1:]...)
						break
					}
				}
			}
		}
	}
}
