package engine

import (
	"context"
	"errors"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
)

var _ compact.Undoer = (*Engine)(nil)

// Undo implements [compact.Undoer].
func (e *Engine) Undo(ctx context.Context, agent compact.Agent, checkpoint session.Seq) (session.Seq, error) {
	if agent.Session == nil {
		return session.NoSeq, errors.New("compaction: agent has no session")
	}
	if err := cancelled(ctx); err != nil {
		return session.NoSeq, err
	}
	node := checkpoint
	_, err := e.editByHand(ctx, agent.Session, func(v session.View) ([]session.Body, error) {
		node = checkpoint
		if node == session.NoSeq {
			for i := range v.Len() {
				if n := v.Node(i); compact.IsCheckpointSource(n.Source()) && n.IsReplacement() && n.Seq > node {
					node = n.Seq
				}
			}
			if node == session.NoSeq {
				return nil, fail(compact.NotFound, "there is no checkpoint on the surface that hides anything")
			}
		}
		p, err := v.Position(node)
		if err != nil {
			return nil, &compact.Error{Code: compact.NotFound, Node: node, Detail: "the checkpoint is not on the surface; undo what hides it first", Err: err}
		}
		if n := v.Node(p); !n.IsReplacement() || !compact.IsCheckpointSource(n.Source()) {
			return nil, &compact.Error{Code: compact.NotFound, Node: node, Detail: "the message is not a checkpoint that hides anything"}
		}
		if err := e.free(agent.Session); err != nil {
			return nil, err
		}
		return []session.Body{session.Restore{Node: node}}, nil
	})
	if err != nil {
		return session.NoSeq, err
	}
	return node, nil
}

// editByHand writes what somebody asked for while nobody compacts. A summary that
// the background made or makes of the surface as it is gives way.
func (e *Engine) editByHand(ctx context.Context, s *session.Session, edit func(session.View) ([]session.Body, error)) (seqs []session.Seq, err error) {
	_, err = e.byHand(ctx, s, func(span) bool { return true }, func() error {
		seqs, err = s.Update(ctx, edit)
		if err != nil {
			return storeError(ctx, compact.PersistenceFailed, err)
		}
		return nil
	})
	return seqs, err
}

// Redo implements [compact.Undoer].
func (e *Engine) Redo(ctx context.Context, agent compact.Agent) (session.Seq, error) {
	if agent.Session == nil {
		return session.NoSeq, errors.New("compaction: agent has no session")
	}
	if err := cancelled(ctx); err != nil {
		return session.NoSeq, err
	}
	seqs, err := e.editByHand(ctx, agent.Session, func(v session.View) ([]session.Body, error) {
		undone := false
		for ev := range v.Backward() {
			if ev.Type != session.TypeRestore {
				continue
			}
			body, err := ev.Body()
			if err != nil {
				return nil, err
			}
			undone = true
			if again, ok := reapply(v, body.(*session.Restore).Node); ok {
				if err := e.free(agent.Session); err != nil {
					return nil, err
				}
				return []session.Body{again}, nil
			}
		}
		if undone {
			return nil, fail(compact.Changed, "what the undone checkpoints replaced is not on the surface as it was")
		}
		return nil, fail(compact.NotFound, "nothing was undone")
	})
	if err != nil {
		return session.NoSeq, err
	}
	return seqs[0], nil
}

// reapply returns the replacement that puts a checkpoint back, if what it
// replaced stands on the surface as it did. A checkpoint that was itself put
// back counts as the one that it repeats.
func reapply(v session.View, node session.Seq) (session.Replace, bool) {
	run, kept, err := v.Run(node)
	if err != nil {
		return session.Replace{}, false
	}
	first := make(map[session.Source]session.Seq) // live checkpoints by source
	for i := range v.Len() {
		if n := v.Node(i); compact.IsCheckpointSource(n.Source()) {
			first[n.Source()] = n.Seq
		}
	}
	now := func(q session.Seq) session.Seq {
		if _, err := v.Position(q); err == nil {
			return q
		}
		ev, err := v.Event(q)
		if err != nil {
			return session.NoSeq
		}
		m, err := ev.Message()
		if err != nil || !compact.IsCheckpointSource(m.Source) {
			return session.NoSeq
		}
		if s, ok := first[m.Source]; ok {
			return s
		}
		return session.NoSeq
	}
	at, err := v.Position(now(run[0]))
	if err != nil || at+len(run) > v.Len() {
		return session.Replace{}, false
	}
	for i, q := range run {
		if v.Node(at+i).Seq != now(q) {
			return session.Replace{}, false
		}
	}
	ev, err := v.Event(node)
	if err != nil {
		return session.Replace{}, false
	}
	m, err := ev.Message()
	if err != nil {
		return session.Replace{}, false
	}
	keep := make([]session.Seq, len(kept))
	for i, q := range kept {
		keep[i] = now(q)
	}
	return session.Replace{Start: v.Node(at).Seq, End: v.Node(at + len(run) - 1).Seq, Keep: keep, Message: *m}, true
}
