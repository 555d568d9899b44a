package doctor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

// ownFormat is the name of our own format among those of files.
const ownFormat = "agentcompact"

// makeshift is what follows from broken pairs in a session: requests are built
// from it, not read from a file.
var makeshift = map[Kind]string{
	UnansweredCall:  "requests that are built from the session get a made-up result in its place",
	RunningCall:     "the result may still come; until then requests that are built from the session get a made-up one",
	OrphanResult:    "requests that are built from the session quote it in a note",
	DuplicateResult: "requests that are built from the session quote it in a note",
	ResultFirst:     "requests that are built from the session quote it in a note",
	LateResult:      "requests that are built from the session have it behind its call",
	DuplicateCallID: "requests that are built from the session have other ids",
}

// The kinds of findings in a session of our own format, besides those of every
// conversation.
const (
	// StaleLease: an attempt that is past its deadline has no end.
	StaleLease Kind = "stale_lease"
	// OpenAttempt: an attempt has no end, and its deadline is not over.
	OpenAttempt Kind = "open_attempt"
	// SpanMissing: a checkpoint that replaces nothing in this log.
	SpanMissing Kind = "checkpoint_without_span"
	// AttemptOrder: the events of compactions contradict each other.
	AttemptOrder Kind = "attempt_order"
	// DamagedLog: a part of the log that was on disk is not what was written.
	DamagedLog Kind = "damaged_log"
)

func init() {
	type row = struct {
		consequence string
		normal      bool
	}
	about[StaleLease] = row{"whoever ran it died: what it cost is not in the log; it blocks nobody", false}
	about[DamagedLog] = row{"what stands behind cannot be read, and nothing can be appended to the file", false}
	about[OpenAttempt] = row{"another compaction waits while its process lives", true}
	about[SpanMissing] = row{"what the checkpoint stands for cannot be read back from this log", false}
	about[AttemptOrder] = row{"what the log says of compactions cannot be relied on", false}
}

// DiagnoseSession returns what was found in a session of our own format. now
// decides which open attempts are stale.
func DiagnoseSession(ctx context.Context, v session.View, now time.Time) ([]Finding, error) {
	c, seqs := surface(v)
	out, err := conversation(ctx, nil, ownFormat, c, v)
	if err != nil {
		return nil, err
	}
	for i := range v.Len() {
		if n := v.Node(i); compact.IsCheckpointSource(n.Source()) && !n.IsReplacement() {
			f := finding(SpanMissing, "the checkpoint %s replaces nothing in this log", n.Source().Ref)
			f.Message = i + 1
			out = append(out, f)
		}
	}
	for k := range out {
		out[k].Conversation = 1
		out[k].Consequence = cmp.Or(makeshift[out[k].Kind], out[k].Consequence)
		if i := out[k].Message; i > 0 {
			out[k].Detail += fmt.Sprintf(" (seq %d)", seqs[i-1])
		}
	}
	h := compact.HistoryAt(v)
	if err := h.Err(); err != nil {
		out = append(out, finding(AttemptOrder, "%v", err))
	}
	if a := h.Open(); a != nil {
		out = append(out, finding(leaseKind(a, now), "the compaction %s of %s, begun at %s, has no end (seq %d)", a.Start.ID, a.Start.Holder,
			a.Start.Holder.Since.Format(time.RFC3339), a.StartSeq))
	}
	return out, nil
}

// surface is a session as a conversation, which leaves the messages in the
// session, with the seqs of its entries.
func surface(v session.View) (*wire.Conversation, []session.Seq) {
	seqs := make([]session.Seq, v.Len())
	for i := range seqs {
		seqs[i] = v.Node(i).Seq
	}
	c := &wire.Conversation{}
	c.Leave(len(seqs), func(i int) (wire.Entry, error) {
		m, err := v.Message(i)
		if err != nil {
			return wire.Entry{}, fmt.Errorf("read message %d: %w", i+1, err)
		}
		return wire.Entry{Message: *m}, nil
	})
	return c, seqs
}

// Damage is the finding of bytes at the end of a log that cannot be read. torn:
// they were never known to be on disk, so that a write that was cut short is all
// there is; else it is damage.
func Damage(offset, bytes int64, reason string, torn bool) Finding {
	kind := DamagedLog
	if torn {
		kind = TornRecord
	}
	f := finding(kind, "the last %d bytes of the file are no events: %s", bytes, reason)
	if torn {
		f.Consequence = "none for what was acknowledged: the write was cut short, or is going on, and the next one cuts the bytes off"
	}
	f.Offset = offset
	return f
}
