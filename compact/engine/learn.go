package engine

import (
	"context"
	"errors"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/overflow"
	"github.com/agentcompact/agentcompact/session"
)

// Rejected is for the error of a refused model request: it says whether that
// is a context overflow, and if the provider named a smaller window than the
// one believed so far, it records that for the session. Windows only shrink by
// it. The caller then compacts with [compact.ContextOverflow], if the result
// says Overflow, and sends the request again if that made sense. The error is
// one of the store.
func (e *Engine) Rejected(ctx context.Context, agent compact.Agent, rejection error) (overflow.Result, error) {
	if agent.Session == nil {
		return overflow.Result{}, errors.New("compaction: agent has no session")
	}
	provider, _ := agent.Route()
	window, _ := e.window(agent)
	r := overflow.Classify(rejection, overflow.WithProvider(provider), overflow.WithWindow(window))
	return r, e.Learn(ctx, agent, r)
}

// Learn records the window that a classified rejection names, if it is smaller
// than the believed one. It is the second half of [Engine.Rejected], for
// callers that classify themselves.
func (e *Engine) Learn(ctx context.Context, agent compact.Agent, r overflow.Result) error {
	provider, model := agent.Route()
	_, err := agent.Session.Update(ctx, func(session.View) ([]session.Body, error) {
		window, _ := e.window(agent)
		learned, ok := r.LearnedWindow(window)
		if !ok {
			return nil, nil
		}
		e.opts.Logger.Warn("the provider named a smaller window", "provider", provider, "model", model, "believed", window, "window", learned)
		return []session.Body{compact.Event(compact.WindowEvent{Provider: provider, Model: model, Window: learned})}, nil
	})
	if err != nil {
		return storeError(ctx, compact.PersistenceFailed, err)
	}
	return nil
}
