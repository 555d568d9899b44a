package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

// Append puts messages at the tail of the session. A tool result of a tool in
// [Prune.Offload] that is larger than [Prune.OversizedTokens] is stored by
// [Options.Offload]; it stands in the log as it is, and on the surface its head
// and tail with the name under which the rest can be found. That is one store
// write, with a compact/prune event. While another compaction of the session is
// under way nothing is shortened.
//
// It returns the seqs of the messages on the surface.
func (e *Engine) Append(ctx context.Context, agent compact.Agent, messages ...session.Message) ([]session.Seq, error) {
	s := agent.Session
	if s == nil {
		return nil, errors.New("compaction: agent has no session")
	}
	short := make(map[int]session.Message)
	p := compact.PruneEvent{ID: e.opts.NewID()}
	for i := range messages {
		m := &messages[i]
		tokens := s.Pricer().Price(m)
		if m.Role != session.RoleTool || tokens <= e.opts.Prune.OversizedTokens || !e.offloaded(s.View(), messages[:i], m) {
			continue
		}
		text, _ := e.opts.Redactor.Redact(m.Text())
		name, err := e.opts.Offload(ctx, p.ID, []byte(text))
		if err != nil {
			if err := cancelled(ctx); err != nil {
				return nil, err
			}
			e.opts.Logger.Warn("a tool result was not stored", "id", p.ID, "error", err)
			continue
		}
		c, ok := e.shortForm(s, m, tokens, e.opts.Prune.HeadTokens, e.opts.Prune.TailTokens, "[full text: "+name+"]")
		if !ok {
			continue
		}
		short[i] = c.message
		p.Before += c.before
		p.After += c.after
	}
	var out []int // where the messages of the surface are among the events
	seqs, err := s.Update(ctx, func(v session.View) ([]session.Body, error) {
		out = make([]int, len(messages))
		bodies := make([]session.Body, len(messages), len(messages)+len(short)+1)
		for i, m := range messages {
			bodies[i], out[i] = session.Append{Message: m}, i
		}
		if len(short) == 0 || e.free(s) != nil {
			return bodies, nil
		}
		event := p
		bodies = append(bodies, nil)
		for i := range messages {
			m, ok := short[i]
			if !ok {
				continue
			}
			q := v.Next() + session.Seq(i)
			event.Nodes = append(event.Nodes, q)
			out[i] = len(bodies)
			bodies = append(bodies, session.Replace{Start: q, End: q, Message: m})
		}
		bodies[len(messages)] = compact.Event(event)
		return bodies, nil
	})
	if err != nil {
		return nil, storeError(ctx, compact.PersistenceFailed, err)
	}
	surface := make([]session.Seq, len(out))
	for i, at := range out {
		surface[i] = seqs[at]
	}
	return surface, nil
}

// offloaded reports whether the result is one of a tool in Prune.Offload; its
// call stands among earlier messages or on the surface.
func (e *Engine) offloaded(v session.View, earlier []session.Message, m *session.Message) bool {
	if len(e.opts.Prune.Offload) == 0 {
		return false
	}
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			continue
		}
		name := r.Name
		for i := len(earlier) - 1; i >= 0 && name == ""; i-- {
			name = calledTool(&earlier[i], r.CallID)
		}
		for i := v.Len() - 1; i >= 0 && name == ""; i-- {
			if !slices.Contains(v.Node(i).Calls(), r.CallID) {
				continue
			}
			call, err := v.Message(i)
			if err != nil {
				return false
			}
			name = calledTool(call, r.CallID)
		}
		if slices.Contains(e.opts.Prune.Offload, name) {
			return true
		}
	}
	return false
}

// calledTool returns the name of the tool that the message calls by that id.
func calledTool(m *session.Message, id string) string {
	for _, p := range m.Parts {
		if c, ok := p.(session.ToolCall); ok && c.ID == id {
			return c.Name
		}
	}
	return ""
}
