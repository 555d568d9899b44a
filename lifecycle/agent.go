package lifecycle

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/session"
)

// Region is the part of a session that is compacted, as the summarizer sees
// it: secrets that were recognized are replaced. It cannot be modified.
type Region struct {
	messages []*session.Message
	tokens   int
}

// NewRegion returns the region of these messages, which cost so many tokens
// and are not modified any more.
func NewRegion(messages []*session.Message, tokens int) Region { return Region{messages, tokens} }

// Len returns the number of messages.
func (r Region) Len() int { return len(r.messages) }

// Tokens returns what the messages cost in the session's unit.
func (r Region) Tokens() int { return r.tokens }

// Message returns a copy of the i-th message.
func (r Region) Message(i int) *session.Message { return r.messages[i].Clone() }

func (r Region) same(o Region) bool {
	return len(r.messages) == len(o.messages) && (len(r.messages) == 0 || &r.messages[0] == &o.messages[0])
}

// Call is what our engine is about to have summarized. Preservers may change
// Instructions and Language and add to Notes; the rest is read-only.
type Call struct {
	// ID identifies the compaction.
	ID string
	// Trigger and Target say why and what, in the words of package compact and
	// package target; Target is empty for everything before the tail.
	Trigger, Target string
	// Provider and Model are the route of the agent.
	Provider, Model string
	Region          Region
	// Instructions tell the summarizer what matters.
	Instructions string
	// Language of the summary; empty means that of the conversation.
	Language string
	// Notes are facts that the checkpoint will show as they are; see
	// [Checkpoint].
	Notes []string
}

// Checkpoint is what our engine is about to put in the place of a region.
// Preservers may change Narrative and add to Notes; the rest is read-only.
type Checkpoint struct {
	ID      string
	Trigger string
	Region  Region
	// Narrative is the summary, without framing and ledger.
	Narrative string
	// Notes are facts that the checkpoint shows as they are, after secrets are
	// replaced and what could pass for framing is made harmless: a line each,
	// of at most [MaxNoteBytes]. A change whose notes would not all be shown,
	// for want of room, is invalid.
	Notes []string
}

// MaxNoteBytes is the longest note, MaxNotes the largest number of them.
const (
	MaxNoteBytes = 2 << 10
	MaxNotes     = 200
)

// CallCodec and CheckpointCodec are the codecs of the types of our engine.
var (
	CallCodec = Codec[Call]{
		Clone: func(c Call) Call {
			c.Notes = slices.Clone(c.Notes)
			return c
		},
		Equal: func(a, b Call) bool {
			return sameCall(a, b) && a.Instructions == b.Instructions && a.Language == b.Language && slices.Equal(a.Notes, b.Notes)
		},
		Validate: func(before, after Call) error {
			if !sameCall(before, after) {
				return errors.New("a part that is read-only was changed")
			}
			if !utf8.ValidString(after.Instructions) || !utf8.ValidString(after.Language) {
				return errors.New("instructions are not valid UTF-8")
			}
			return checkNotes(before.Notes, after.Notes)
		},
	}
	CheckpointCodec = Codec[Checkpoint]{
		Clone: func(c Checkpoint) Checkpoint {
			c.Notes = slices.Clone(c.Notes)
			return c
		},
		Equal: func(a, b Checkpoint) bool {
			return sameCheckpoint(a, b) && a.Narrative == b.Narrative && slices.Equal(a.Notes, b.Notes)
		},
		Validate: func(before, after Checkpoint) error {
			switch {
			case !sameCheckpoint(before, after):
				return errors.New("a part that is read-only was changed")
			case strings.TrimSpace(after.Narrative) == "" || !utf8.ValidString(after.Narrative):
				return errors.New("the narrative is empty or not valid UTF-8")
			}
			return checkNotes(before.Notes, after.Notes)
		},
	}
)

func sameCall(a, b Call) bool {
	return a.ID == b.ID && a.Trigger == b.Trigger && a.Target == b.Target && a.Provider == b.Provider && a.Model == b.Model && a.Region.same(b.Region)
}

func sameCheckpoint(a, b Checkpoint) bool {
	return a.ID == b.ID && a.Trigger == b.Trigger && a.Region.same(b.Region)
}

// checkNotes says what is wrong with notes: earlier ones must stay, and each
// is one line.
func checkNotes(before, after []string) error {
	if len(after) < len(before) || !slices.Equal(before, after[:len(before)]) {
		return errors.New("a note of somebody else was changed")
	}
	if len(after) > max(MaxNotes, len(before)) {
		return errors.New("there are too many notes")
	}
	for _, n := range after[len(before):] {
		if n != Note(n) {
			return errors.New("a note is empty, longer than a line may be, or not valid UTF-8")
		}
	}
	return nil
}

// Note makes a text fit to be a note: one line, of at most [MaxNoteBytes]. It
// is empty when nothing is left.
func Note(text string) string {
	return strings.TrimSpace(clip(strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " "), MaxNoteBytes))
}

// AddNotes appends those of the texts that are not empty and not there
// already, as notes.
func AddNotes(notes []string, texts ...string) []string {
	for _, t := range texts {
		if n := Note(t); n != "" && !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
	}
	return notes
}

// clip cuts a text to at most n bytes, between runes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
