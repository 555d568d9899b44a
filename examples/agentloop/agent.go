package main

import (
	"context"
	"errors"
	"fmt"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

const system = "You work in a folder. Read its files and run commands in it with your tools. Be brief."

// maxSteps bounds the model calls of one turn.
const maxSteps = 50

// agent is a model with tools and a conversation in a file.
type agent struct {
	session *session.Session
	engine  *engine.Engine
	client  *openai.Client
	tools   *sandbox
	watch   watcher
}

// watcher is told what an agent does. All fields are set.
type watcher struct {
	call    func(session.ToolCall)
	compact func(before, after session.View, out *compact.Outcome)
	note    func(format string, args ...any)
}

// openAgent opens the conversation in the file, or begins it, and gives it the model and the tools.
func openAgent(ctx context.Context, path string, m model, tools *sandbox, watch watcher) (*agent, error) {
	store, err := filestore.Open(path, nil)
	if err != nil {
		return nil, err
	}
	s, err := session.Open(ctx, store, nil)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	a := &agent{session: s, engine: m.engine, client: m.client, tools: tools, watch: watch}
	if err := a.prepare(ctx, m); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return a, nil
}

// prepare closes what an earlier process left open, and records what goes with every request.
func (a *agent) prepare(ctx context.Context, m model) error {
	repaired, err := a.session.Repair(ctx)
	if err != nil {
		return err
	}
	if len(repaired) > 0 {
		a.watch.note("repaired: the last turn was interrupted; %d events close it", len(repaired))
	}
	want := session.Envelope{
		Provider: m.provider,
		Model:    m.name,
		System: []session.Message{{
			Role:   session.RoleSystem,
			Source: session.Source{Kind: session.SourcePlugin, Plugin: "agentloop"},
			Parts:  []session.Part{session.Text{Text: system}},
		}},
		Tools: toolDefinitions(),
	}
	if have, _ := a.session.View().Envelope(); have != nil && have.Equal(&want) {
		return nil
	}
	_, err = a.session.Record(ctx, session.SetEnvelope{Envelope: want})
	return err
}

func (a *agent) close() error { return a.session.Close() }

// who names the session to the engine. The route is that of the envelope.
func (a *agent) who() compact.Agent { return compact.Agent{Session: a.session} }

// turn gives the model a prompt and runs it until it answers without calling tools.
func (a *agent) turn(ctx context.Context, prompt string) (answer string, err error) {
	if _, err := a.session.Record(ctx, session.TurnStart{}, session.Append{Message: session.UserText(prompt)}); err != nil {
		return "", err
	}
	reason := "error"
	defer func() {
		// When ctx is done this writes nothing: Repair closes the turn at the next start.
		_, end := a.session.Record(ctx, session.TurnEnd{Reason: reason})
		err = errors.Join(err, end)
	}()
	for range maxSteps {
		reply, err := a.ask(ctx)
		if err != nil {
			return "", err
		}
		more, err := a.step(ctx, reply)
		if err != nil {
			return "", err
		}
		if !more {
			reason = "completed"
			return reply.Choices[0].Message.Content, nil
		}
	}
	return "", fmt.Errorf("no answer after %d steps", maxSteps)
}

// ask makes one model call, with compaction before it when there is pressure, and after it when the
// provider says that the request was too long.
func (a *agent) ask(ctx context.Context) (*openai.ChatCompletionResponse, error) {
	if _, err := a.compact(ctx, compact.Pressure); err != nil {
		a.watch.note("not compacted, the conversation is as it was: %v", err)
	}
	reply, err := a.send(ctx)
	if err == nil {
		return reply, nil
	}
	rejection, storeErr := a.engine.Rejected(ctx, a.who(), err) // learns the window if the provider names it
	if storeErr != nil || !rejection.Overflow {
		return nil, errors.Join(err, storeErr)
	}
	a.watch.note("the provider refused: %s", rejection)
	out, compactErr := a.compact(ctx, compact.ContextOverflow)
	if compactErr != nil || !out.RetryUseful {
		return nil, errors.Join(err, compactErr)
	}
	return a.send(ctx) // once: what is too long now stays too long
}

// compact is engine.CompactIfNeeded with the full outcome.
func (a *agent) compact(ctx context.Context, why compact.Trigger) (*compact.Outcome, error) {
	before := a.session.View()
	out, err := a.engine.Consider(ctx, a.who(), why)
	if err == nil && out.GenerationAfter != out.GenerationBefore {
		a.watch.compact(before, a.session.View(), out)
	}
	return out, err
}

// send sends the surface to the model.
func (a *agent) send(ctx context.Context) (*openai.ChatCompletionResponse, error) {
	req, err := openaichat.BuildRequest(a.session.View(), &openaichat.RequestOptions{ModelCall: true})
	if err != nil {
		return nil, err
	}
	reply, err := a.client.CreateChatCompletion(withBody(ctx, req.Body()), openai.ChatCompletionRequest{})
	if err != nil {
		return nil, err
	}
	if len(reply.Choices) == 0 {
		return nil, errors.New("the model's reply has no choices")
	}
	return &reply, nil
}

// step records a reply with its usage, runs the tools that it calls, and reports whether it called any.
func (a *agent) step(ctx context.Context, reply *openai.ChatCompletionResponse) (more bool, err error) {
	said := reply.Choices[0].Message
	var calls []session.ToolCall
	for _, c := range said.ToolCalls {
		calls = append(calls, session.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	message := session.AssistantText(said.Content, calls...)
	message.Source.Model = reply.Model

	var node session.Seq
	_, err = a.session.Update(ctx, func(v session.View) ([]session.Body, error) {
		node = v.Next() + 1 // the reply stands behind the step's start
		return []session.Body{session.StepStart{}, session.Append{Message: message}, usage(node, reply.Usage)}, nil
	})
	if err != nil {
		return false, err
	}
	for _, c := range calls {
		// With this event Repair can tell a tool that may have had an effect from one that has had none.
		if _, err := a.session.Record(ctx, session.CallState{Node: node, CallID: c.ID, Phase: session.CallStarted}); err != nil {
			return false, err
		}
		a.watch.call(c)
		if _, err := a.session.Append(ctx, a.tools.call(ctx, c)); err != nil {
			return false, err
		}
	}
	_, err = a.session.Record(ctx, session.StepEnd{})
	return len(calls) > 0, err
}

// usage is what the provider counted. It anchors the engine's estimate of the next request.
func usage(node session.Seq, u openai.Usage) session.Usage {
	out := session.Usage{Node: node, Prompt: u.PromptTokens, Completion: u.CompletionTokens}
	if d := u.PromptTokensDetails; d != nil {
		out.CacheRead = d.CachedTokens
	}
	if d := u.CompletionTokensDetails; d != nil {
		out.Reasoning = d.ReasoningTokens
	}
	return out
}
