package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

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
)

func init() {
	type row = struct {
		consequence string
		normal      bool
	}
	about[StaleLease] = row{"none: a dead attempt blocks nobody; the next compaction says so in the log", true}
	about[OpenAttempt] = row{"another compaction waits while its process lives", true}
	about[SpanMissing] = row{"what the checkpoint stands for cannot be read back from this log", false}
	about[AttemptOrder] = row{"what the log says of compactions cannot be relied on", false}
}

// DiagnoseSession returns what was found in a session of our own format. now
// decides which open attempts are stale.
func DiagnoseSession(ctx context.Context, v session.View, now time.Time) ([]Finding, error) {
	c := &wire.Conversation{}
	seqs := make([]session.Seq, 0, v.Len())
	var spans []Finding
	for i := range v.Len() {
		m, err := v.Message(i)
		if err != nil {
			return nil, fmt.Errorf("read message %d: %w", i+1, err)
		}
		c.Entries = append(c.Entries, wire.Entry{Message: *m})
		n := v.Node(i)
		seqs = append(seqs, n.Seq)
		if compact.IsCheckpointSource(m.Source) && !n.IsReplacement() {
			f := finding(SpanMissing, "the checkpoint %s replaces nothing in this log", m.Source.Ref)
			f.Message = i + 1
			spans = append(spans, f)
		}
	}
	out, err := conversation(ctx, nil, &wire.File{Format: "agentcompact"}, c)
	if err != nil {
		return nil, err
	}
	out = append(out, spans...)
	for k := range out {
		out[k].Conversation = 1
		if i := out[k].Message; i > 0 {
			out[k].Detail += fmt.Sprintf(" (seq %d)", seqs[i-1])
		}
	}
	h := compact.HistoryAt(v)
	if err := h.Err(); err != nil {
		out = append(out, finding(AttemptOrder, "%v", err))
	}
	if a := h.Open(); a != nil {
		kind := OpenAttempt
		if !a.Start.Holder.Until.IsZero() && now.After(a.Start.Holder.Until) {
			kind = StaleLease
		}
		out = append(out, finding(kind, "the compaction %s of %s, begun at %s, has no end (seq %d)", a.Start.ID, a.Start.Holder,
			a.Start.Holder.Since.Format(time.RFC3339), a.StartSeq))
	}
	return out, nil
}
