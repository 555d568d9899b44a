package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agentcompact/agentcompact/lifecycle"
)

// facts puts sentences that must not be lost into every request of a
// conversation that was compacted.
type facts struct{ list []string }

var _ lifecycle.Preserver[chat, reply] = facts{}

func (facts) ID() string { return "facts" }

func (f facts) BeforeRequest(ctx context.Context, c *chat, p lifecycle.RequestPreview, _ lifecycle.PreservationMeta, s lifecycle.Services) error {
	if p.Kind == lifecycle.PreviewCompletionCandidate {
		if err := s.State.Put(ctx, "compacted", []byte("yes")); err != nil {
			return err
		}
	}
	if _, compacted, err := s.State.Get(ctx, "compacted"); err != nil || !compacted || p.Kind == lifecycle.PreviewStartCandidate {
		return err
	}
	note, err := json.Marshal(map[string]string{"role": "system", "content": "Still true:\n- " + strings.Join(f.list, "\n- ")})
	if err != nil {
		return err
	}
	// Behind the system prompt, so that what a provider has cached stays.
	at := 0
	for at < len(c.Messages) {
		var m struct{ Role string }
		if json.Unmarshal(c.Messages[at], &m) != nil || m.Role != "system" && m.Role != "developer" {
			break
		}
		at++
	}
	c.Messages = append(c.Messages[:at:at], append([]json.RawMessage{note}, c.Messages[at:]...)...)
	return nil
}

func (facts) RequestOpened(context.Context, chat, []lifecycle.Event, lifecycle.PreservationMeta, lifecycle.Services) error {
	return nil
}

func (facts) BeforeResponseRelease(context.Context, *reply, lifecycle.ResponsePreview, lifecycle.PreservationMeta, lifecycle.Services) error {
	return nil
}
