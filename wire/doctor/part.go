package doctor

import (
	"context"
	"fmt"

	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// In opencode a call and its result are one part, whose state says how far the
// call has come. A call without a result is no message that is missing but a
// part that did not end, and it is ended as the agent does it.

// open are the calls without a result that a repair ends, by their ids.
type open map[string]Change

// openParts finds them in a file or folder of opencode; there are none in other
// formats.
func openParts(ctx context.Context, f *wire.File, opts *Options) (open, error) {
	if f.Format != "opencode" {
		return nil, nil
	}
	out := open{}
	for n, c := range f.Conversations {
		v, done, err := view(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, q := range toolpairing.Of(v).Diagnose() {
			if q.Kind != toolpairing.UnansweredCall || q.Running && !opts.CloseRunning {
				continue
			}
			kind := UnansweredCall
			if q.Running {
				kind = RunningCall
			}
			out[q.CallID] = Change{Kind: kind, Conversation: n + 1, Message: q.Position + 1, CallID: q.CallID}
		}
		done()
	}
	return out, nil
}

// end returns the part with an end, and what was done; false when it is none of
// those that are ended.
func (o open) end(raw []byte) ([]byte, Change, bool) {
	p, err := rawjson.Parse(raw)
	if err != nil {
		return nil, Change{}, false
	}
	id, _ := rawjson.String(p.Get("callID"))
	ch, ok := o[id]
	state, err := rawjson.Parse(p.Get("state"))
	if kind, _ := rawjson.String(p.Get("type")); !ok || kind != "tool" || err != nil {
		return nil, Change{}, false
	}
	switch status, _ := rawjson.String(state.Get("status")); status {
	case "completed", "error":
		return nil, Change{}, false
	}
	times, err := rawjson.Parse(state.Get("time"))
	if err != nil {
		times = nil
	}
	if times.Get("start") == nil {
		times.Set("start", 0)
	}
	times.Set("end", times.Get("start"))
	state.Set("status", "error")
	state.Set("error", abandonedText)
	state.Set("time", times)
	p.Set("state", state)
	name, _ := rawjson.String(p.Get("tool"))
	ch.Detail = fmt.Sprintf("the call of %s was marked as failed, since it has no result", name)
	return p.Bytes(), ch, true
}

// edits end the parts of an export.
func (o open) edits(doc []byte) (edits []edit, changes []Change) {
	splice.Elements(doc, splice.Get(doc, splice.At(doc, splice.Begin(doc)), "messages"), func(m splice.Span) bool {
		splice.Elements(doc, splice.Get(doc, m, "parts"), func(part splice.Span) bool {
			if ended, ch, ok := o.end(part.Of(doc)); ok {
				var lines counter
				ch.Line = lines.of(doc, part.Start)
				edits = append(edits, edit{int64(part.Start), int64(part.End), string(ended), nil})
				changes = append(changes, ch)
			}
			return true
		})
		return true
	})
	return edits, changes
}
